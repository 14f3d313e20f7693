// A stranger's program that uses the installed library, in C++17 and, with LW_POOL_OPTIONS, C++20.
#include <cstdio>
#include <legwork/pool.h>

static void add(lw_ctx *ctx, void *arg) {
    if (!lw_ctx_done(ctx))
        ++*static_cast<int *>(arg);
}

static int open_pool(lw_pool **pool, lw_error *err) {
#if __cplusplus >= 202002L
    return lw_pool_open(pool, LW_POOL_OPTIONS(.min_workers = 1, .queue_limit = 16), err);
#else
    lw_pool_options options{};
    options.struct_size = sizeof options;
    options.min_workers = 1;
    options.queue_limit = 16;
    return lw_pool_open(pool, &options, err);
#endif
}

int main() {
    lw_error err;
    lw_pool *pool = nullptr;
    int sum = 0;
    if (open_pool(&pool, &err) < 0)
        return std::fprintf(stderr, "%s\n", err.message), 1;
    int rc = lw_pool_submit(pool, add, &sum);
    if (rc == LW_OK)
        rc = lw_pool_stop(pool, LW_DRAIN, 5000);
    lw_pool_close(pool);
    std::printf("C++%ld, %d task: %s\n", __cplusplus, sum, lw_status_text(rc));
    return rc < 0 || sum != 1;
}
