/* Around the example of legwork/cron.h. */
#include <legwork/cron.h>

static lw_error err;
int complain(const char *message);
int example(int64_t now_ms);

int example(int64_t now_ms) {
    /* EXAMPLE */
    return 0;
}
