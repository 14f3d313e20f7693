/* The smallest program that uses the installed library, in C. */
#include <legwork/status.h>
#include <stdio.h>

int main(void) {
    return puts(lw_status_text(LW_OK)) < 0;
}
