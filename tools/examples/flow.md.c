/* Around the blocks of docs/flow.md. */
#include <legwork/flow.h>

lw_outcome save_metadata(lw_ctx *ctx, const lw_task *task);
lw_outcome create_files(lw_ctx *ctx, const lw_task *task);
lw_outcome create_db(lw_ctx *ctx, const lw_task *task);
lw_outcome bootstrap(lw_ctx *ctx, const lw_task *task);
lw_outcome delete_site(lw_ctx *ctx, const lw_task *task);
void example(lw_engine *engine, lw_bytes body);

void example(lw_engine *engine, lw_bytes body) {
    lw_error err;
    lw_flow_status status;
    /* EXAMPLE */
}
