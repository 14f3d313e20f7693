#include <legwork/version.h>

const char *lw_version(void) {
    return LW_VERSION;
}
