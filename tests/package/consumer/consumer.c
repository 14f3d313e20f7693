/* A stranger's program that uses the installed library, in strict C11. */
#include <legwork/pool.h>
#include <stdio.h>

static void add(lw_ctx *ctx, void *arg) {
    if (!lw_ctx_done(ctx))
        ++*(int *)arg;
}

int main(void) {
    lw_error err;
    lw_pool *pool = NULL;
    int sum = 0;
    if (lw_pool_open(&pool, LW_POOL_OPTIONS(.min_workers = 1, .queue_limit = 16), &err) < 0)
        return fprintf(stderr, "%s\n", err.message), 1;
    int rc = lw_pool_submit(pool, add, &sum);
    if (rc == LW_OK)
        rc = lw_pool_stop(pool, LW_DRAIN, 5000);
    lw_pool_close(pool);
    printf("%d task: %s\n", sum, lw_status_text(rc));
    return rc < 0 || sum != 1;
}
