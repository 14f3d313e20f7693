// A stranger's program that uses the installed library, in C++17 and, with LW_POOL_OPTIONS, C++20.
#include <cstdio>
#include <legwork/engine.h>
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

static lw_outcome greet(lw_ctx *ctx, const lw_task *task) {
    std::printf("hello, %s\n", task->key);
    return lw_done(ctx);
}

// Tasks in an array live as long as the array, unlike LW_TASK(...), which ends with its statement.
static int submit_both(lw_engine *engine, lw_id ids[2], lw_error *err) {
#if __cplusplus >= 202002L
    const lw_task tasks[] = {LW_TASK_INIT(.kind = "greet", .key = "Ada"),
                             LW_TASK_INIT(.kind = "greet", .key = "Grace")};
#else
    lw_task tasks[2] = {};
    for (int i = 0; i < 2; i++) {
        tasks[i].struct_size = sizeof tasks[i];
        tasks[i].kind = "greet";
        tasks[i].key = i == 0 ? "Ada" : "Grace";
    }
#endif
    const lw_task *both[] = {&tasks[0], &tasks[1]};
    return lw_submit_many(engine, both, 2, ids, err);
}

static int greet_both(lw_error *err) {
    lw_engine *engine = nullptr;
    lw_id ids[2] = {};
    int rc = lw_open(&engine, "memory:", nullptr, err);
    if (rc == LW_OK)
        rc = lw_handle(engine, "greet", greet, nullptr, err);
    if (rc == LW_OK)
        rc = lw_start(engine, err);
    if (rc == LW_OK)
        rc = submit_both(engine, ids, err);
    if (rc == LW_OK)
        rc = lw_stop(engine, LW_DRAIN, 5000);
    lw_close(engine);
    return rc == LW_OK && ids[0] != 0 && ids[1] != ids[0] ? LW_OK : LW_EINVAL;
}

int main() {
    lw_error err;
    lw_pool *pool = nullptr;
    int sum = 0;
    if (greet_both(&err) < 0 || open_pool(&pool, &err) < 0)
        return std::fprintf(stderr, "%s\n", err.message), 1;
    int rc = lw_pool_submit(pool, add, &sum);
    if (rc == LW_OK)
        rc = lw_pool_stop(pool, LW_DRAIN, 5000);
    lw_pool_close(pool);
    std::printf("C++%ld, %d task: %s\n", __cplusplus, sum, lw_status_text(rc));
    return rc < 0 || sum != 1;
}
