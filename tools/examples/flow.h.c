/* Around the example of legwork/flow.h. */
#include <legwork/flow.h>

lw_outcome save_metadata(lw_ctx *ctx, const lw_task *task);
lw_outcome create_files(lw_ctx *ctx, const lw_task *task);
lw_outcome create_db(lw_ctx *ctx, const lw_task *task);
lw_outcome delete_site(lw_ctx *ctx, const lw_task *task);
void example(lw_engine *engine);

void example(lw_engine *engine) {
    lw_error err;
    /* EXAMPLE */
}
