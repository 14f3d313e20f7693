/* Around the example of legwork/pool.h. */
#include <legwork/pool.h>
#include <stdlib.h>

int complain(const char *message);
void send_event(lw_ctx *ctx, void *user);
int example(void *user);

int example(void *user) {
    lw_error err;
    /* EXAMPLE */
    return 0;
}
