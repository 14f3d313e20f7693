// The smallest program that uses the installed library, in C++.
#include <cstdio>
#include <legwork/status.h>

int main() {
    return std::puts(lw_status_text(LW_OK)) < 0;
}
