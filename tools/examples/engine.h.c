/* Around the example of legwork/engine.h. */
#include <legwork/engine.h>

int complain(const char *message);
lw_outcome send_email(lw_ctx *ctx, const lw_task *task);
int example(void);

int example(void) {
    lw_error err;
    lw_id id;
    /* EXAMPLE */
    return (int)id;
}
