/* Nonsense: every public function answers it with a status and a sentence, and nothing is left
 * behind. */
#include "pools.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BAD_TIMES -3, -5, -1000, INT32_MIN, INT64_MIN, LW_TIMEOUT_MS_MAX + 1, INT64_MAX
static const int64_t bad_timeouts[] = {BAD_TIMES};

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

/* That a sentence names what was wrong and, where there is a number, what was seen. */
static void assert_says(const lw_error *err, const char *name, int64_t value) {
    char number[32];
    snprintf(number, sizeof number, "%lld", (long long)value);
    assert_sentence(err, LW_EINVAL, name);
    assert_sentence(err, LW_EINVAL, number);
}

static void assert_works(lw_pool *pool) {
    struct tally runs = TALLY;
    assert_status(lw_pool_run(pool, tally_task, &runs), LW_OK);
    assert_int_equal(tally_read(&runs), 1);
}

/* ---- lw_pool_open -------------------------------------------------------------------------- */

/* Opens with these options, which must be refused, from a memory that must stay untouched. */
static lw_error refuse_open(const lw_pool_options *options) {
    lw_error err = {0};
    lw_pool *pool = (lw_pool *)&err; /* something that must not stay */
    lw_test_memory *memory = open_memory();
    lw_pool_options o = *options;
    uint64_t calls;
    int threads = thread_count(), fds = fd_count();
    if (!o.allocator)
        o.allocator = lw_test_memory_allocator(memory);
    assert_status(lw_pool_open(&pool, &o, &err), LW_EINVAL);
    assert_null(pool);
    pool = (lw_pool *)&err;
    assert_status(lw_pool_open(&pool, &o, NULL), LW_EINVAL);
    assert_null(pool);
    lw_test_memory_usage(memory, NULL, NULL, &calls);
    assert_int_equal(calls, 0);
    close_memory(memory);
    assert_int_equal(thread_count(), threads);
    assert_int_equal(fd_count(), fds);
    return err;
}

#define REFUSE_OPEN(...) refuse_open(LW_POOL_OPTIONS(__VA_ARGS__))

/* Every one of `values` for a field is refused with a sentence that has its name and the value. */
#define REFUSE_EACH(field, ...)                            \
    do {                                                   \
        const int64_t values[] = {__VA_ARGS__};            \
        for (size_t i = 0; i < COUNT_OF(values); i++) {    \
            lw_pool_options o = {.struct_size = sizeof o}; \
            o.field = (__typeof__(o.field))values[i];      \
            lw_error err = refuse_open(&o);                \
            assert_says(&err, #field, values[i]);          \
        }                                                  \
    } while (0)

TEST(an_open_without_a_place_for_the_pool_is_refused) {
    lw_error err;
    assert_status(lw_pool_open(NULL, NULL, &err), LW_EINVAL);
    assert_sentence(&err, LW_EINVAL, "NULL");
    assert_status(lw_pool_open(NULL, NULL, NULL), LW_EINVAL);
}

TEST(an_open_with_another_struct_size_is_refused) {
    REFUSE_EACH(struct_size, 0, 1, sizeof(lw_pool_options) - 1, sizeof(lw_pool_options) + 1);
    lw_error err = refuse_open(&(lw_pool_options){.struct_size = SIZE_MAX});
    assert_sentence(&err, LW_EINVAL, "LW_POOL_OPTIONS");
}

/* Whoever passes a smaller struct may have nothing behind it. */
TEST(of_a_struct_that_is_too_small_no_more_than_its_size_is_read) {
    size_t *small = malloc(sizeof *small);
    *small = sizeof *small;
    lw_error err;
    lw_pool *pool;
    lw_ctx *ctx;
    assert_status(lw_pool_open(&pool, (const lw_pool_options *)small, &err), LW_EINVAL);
    assert_says(&err, "struct_size", sizeof *small);
    assert_status(lw_ctx_open(&ctx, (const lw_ctx_options *)small, &err), LW_EINVAL);
    assert_says(&err, "struct_size", sizeof *small);
    pool = OPEN_POOL(.min_workers = 1);
    assert_status(
        lw_pool_submit_with(pool, tally_task, NULL, (const lw_submit_options *)small, &err),
        LW_EINVAL);
    assert_says(&err, "struct_size", sizeof *small);
    close_pool(pool);
    free(small);
}

TEST(a_name_that_fits_no_thread_is_refused) {
    char longest[5000];
    memset(longest, 'n', sizeof longest);
    longest[sizeof longest - 1] = 0;
    lw_error err = REFUSE_OPEN(.name = "");
    assert_sentence(&err, LW_EINVAL, "name");
    err = REFUSE_OPEN(.name = "thirteen-long");
    assert_sentence(&err, LW_EINVAL, "13");
    err = REFUSE_OPEN(.name = longest);
    assert_sentence(&err, LW_EINVAL, "4999");
}

TEST(numbers_of_workers_out_of_range_are_refused) {
    REFUSE_EACH(min_workers, -1, -3, LW_POOL_WORKERS_MAX + 1, INT_MAX, INT_MIN);
    REFUSE_EACH(max_workers, -1, LW_ZERO, -3, LW_POOL_WORKERS_MAX + 1, INT_MAX, INT_MIN);
    REFUSE_EACH(stuck_max, -1, -3, LW_POOL_WORKERS_MAX + 1, INT_MAX, INT_MIN);
}

TEST(more_workers_at_least_than_at_most_are_refused) {
    lw_error err = REFUSE_OPEN(.min_workers = 7, .max_workers = 6);
    assert_sentence(&err, LW_EINVAL, "min_workers is 7");
    assert_sentence(&err, LW_EINVAL, "max_workers is only 6");
    err = REFUSE_OPEN(.min_workers = LW_POOL_WORKERS_MAX, .max_workers = 1);
    assert_sentence(&err, LW_EINVAL, "max_workers is only 1");
}

TEST(a_queue_without_a_limit_is_refused) {
    REFUSE_EACH(queue_limit, -1, LW_ZERO, -3, LW_POOL_QUEUE_MAX + 1, INT_MAX, INT_MIN);
}

TEST(a_policy_that_does_not_exist_is_refused) {
    REFUSE_EACH(overflow, 4, 5, INT_MAX, -1, INT_MIN);
}

TEST(times_out_of_range_are_refused) {
    REFUSE_EACH(idle_ms, BAD_TIMES);
    REFUSE_EACH(submit_timeout_ms, BAD_TIMES);
    REFUSE_EACH(task_timeout_ms, BAD_TIMES, LW_ZERO); /* or tasks were late before they began */
}

TEST(a_share_of_a_core_above_all_of_it_is_refused) {
    REFUSE_EACH(spin_percent, 101, INT_MAX, LW_ZERO, -3, INT_MIN);
}

TEST(handles_with_nothing_in_them_are_refused) {
    lw_allocator allocator = {0};
    lw_log log = {0};
    lw_error err = REFUSE_OPEN(.allocator = &allocator);
    assert_sentence(&err, LW_EINVAL, "allocator");
    err = REFUSE_OPEN(.log = &log);
    assert_sentence(&err, LW_EINVAL, "log");
    log.write = lw_log_print;
    static const int bad_levels[] = {5, 100, -1, INT_MIN};
    for (size_t i = 0; i < COUNT_OF(bad_levels); i++) {
        log.level = (lw_log_level)bad_levels[i];
        err = REFUSE_OPEN(.log = &log);
        assert_says(&err, "level", bad_levels[i]);
    }
}

TEST(the_most_extreme_options_that_make_sense_are_accepted) {
    lw_pool *pool =
        OPEN_POOL(.name = "n", .min_workers = LW_ZERO, .max_workers = LW_POOL_WORKERS_MAX,
                  .idle_ms = LW_TIMEOUT_MS_MAX, .queue_limit = 1, .overflow = LW_DROP_OLDEST,
                  .submit_timeout_ms = LW_TIMEOUT_MS_MAX, .task_timeout_ms = LW_TIMEOUT_MS_MAX,
                  .stuck_max = LW_POOL_WORKERS_MAX, .spin_percent = 100);
    assert_works(pool);
    close_pool(pool);
    pool = OPEN_POOL(.name = "twelve-chars", .min_workers = 1, .max_workers = 1, .idle_ms = LW_ZERO,
                     .submit_timeout_ms = LW_ZERO, .task_timeout_ms = -1, .stuck_max = LW_ZERO,
                     .spin_percent = -1, .queue_limit = 3);
    assert_works(pool);
    close_pool(pool);
    pool =
        OPEN_POOL(.min_workers = 1, .idle_ms = -1, .submit_timeout_ms = -1, .task_timeout_ms = 1);
    assert_works(pool);
    close_pool(pool);
    assert_status(lw_pool_open(&pool, NULL, NULL), LW_OK);
    assert_works(pool);
    close_pool(pool);
}

/* An allocator that has no large blocks. */
static void *resize_small(void *user, void *ptr, size_t old_size, size_t new_size) {
    const lw_allocator *below = user;
    return new_size > 1000000 ? NULL : below->resize(below->user, ptr, old_size, new_size);
}

TEST(a_queue_that_memory_cannot_hold_is_refused) {
    lw_test_memory *memory = open_memory();
    lw_allocator small = {.resize = resize_small, .user = (void *)lw_test_memory_allocator(memory)};
    lw_pool *pool = NULL;
    lw_error err;
    int threads = thread_count();
    assert_status(lw_pool_open(&pool,
                               LW_POOL_OPTIONS(.queue_limit = LW_POOL_QUEUE_MAX,
                                               .task_timeout_ms = 1000, .allocator = &small),
                               &err),
                  LW_ENOMEM);
    assert_sentence(&err, LW_ENOMEM, "67108864");
    assert_null(pool);
    assert_int_equal(thread_count(), threads);
    close_memory(memory);
}

/* ---- lw_pool_submit and its kin ------------------------------------------------------------ */

TEST(a_submit_of_nothing_or_to_nobody_is_refused) {
    struct tally runs = TALLY;
    lw_pool *pool = OPEN_POOL(.min_workers = 1);
    assert_status(lw_pool_submit(NULL, tally_task, &runs), LW_EINVAL);
    assert_status(lw_pool_submit(pool, NULL, &runs), LW_EINVAL);
    assert_status(lw_pool_submit(NULL, NULL, NULL), LW_EINVAL);
    assert_status(lw_pool_try_submit(NULL, tally_task, &runs), LW_EINVAL);
    assert_status(lw_pool_try_submit(pool, NULL, &runs), LW_EINVAL);
    assert_status(lw_pool_run(NULL, tally_task, &runs), LW_EINVAL);
    assert_status(lw_pool_run(pool, NULL, &runs), LW_EINVAL);
    assert_works(pool);
    lw_pool_stats stats = stats_of(pool);
    assert_int_equal(stats.submitted, 1);
    assert_int_equal(stats.queued, 0);
    close_pool(pool);
    assert_int_equal(tally_read(&runs), 0);
}

TEST(a_submit_with_nonsense_is_refused_with_a_sentence) {
    struct tally runs = TALLY;
    lw_error err;
    lw_pool *pool = OPEN_POOL(.min_workers = 1);
    assert_status(lw_pool_submit_with(NULL, tally_task, &runs, NULL, &err), LW_EINVAL);
    assert_sentence(&err, LW_EINVAL, "pool");
    assert_status(lw_pool_submit_with(pool, NULL, &runs, NULL, &err), LW_EINVAL);
    assert_sentence(&err, LW_EINVAL, "function");
    assert_status(lw_pool_submit_with(NULL, NULL, NULL, NULL, NULL), LW_EINVAL);
    static const size_t sizes[] = {0, 1, sizeof(lw_submit_options) - 1,
                                   sizeof(lw_submit_options) + 1};
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        lw_ticket ticket = 4711;
        lw_submit_options o = {.struct_size = sizes[i], .ticket = &ticket};
        assert_status(lw_pool_submit_with(pool, tally_task, &runs, &o, &err), LW_EINVAL);
        assert_says(&err, "struct_size", (int64_t)sizes[i]);
        assert_status(lw_pool_submit_with(pool, tally_task, &runs, &o, NULL), LW_EINVAL);
    }
    for (size_t i = 0; i < COUNT_OF(bad_timeouts); i++) {
        lw_ticket ticket = 4711;
        assert_status(
            lw_pool_submit_with(pool, tally_task, &runs,
                                LW_SUBMIT_OPTIONS(.timeout_ms = bad_timeouts[i], .ticket = &ticket),
                                &err),
            LW_EINVAL);
        assert_says(&err, "timeout_ms", bad_timeouts[i]);
    }
    assert_int_equal(stats_of(pool).submitted, 0);
    static const int64_t good_timeouts[] = {0, LW_ZERO, -1, 1, LW_TIMEOUT_MS_MAX};
    for (size_t i = 0; i < COUNT_OF(good_timeouts); i++)
        assert_status(lw_pool_submit_with(pool, tally_task, &runs,
                                          LW_SUBMIT_OPTIONS(.timeout_ms = good_timeouts[i]), &err),
                      LW_OK);
    assert_status(lw_pool_submit_with(pool, tally_task, &runs, NULL, NULL), LW_OK);
    tally_await(&runs, COUNT_OF(good_timeouts) + 1);
    close_pool(pool);
}

TEST(of_many_tasks_with_a_hole_none_is_accepted) {
    struct tally runs = TALLY;
    lw_pool_task tasks[200];
    lw_pool *pool = OPEN_POOL(.min_workers = 1);
    static const size_t holes[] = {0, 1, 63, 64, 100, 199};
    for (size_t i = 0; i < COUNT_OF(holes); i++) {
        size_t accepted = 4711;
        for (size_t k = 0; k < COUNT_OF(tasks); k++)
            tasks[k] = (lw_pool_task){.fn = k == holes[i] ? NULL : tally_task, .arg = &runs};
        assert_status(lw_pool_submit_many(pool, tasks, COUNT_OF(tasks), &accepted), LW_EINVAL);
        assert_int_equal(accepted, 0);
        assert_status(lw_pool_submit_many(pool, tasks, COUNT_OF(tasks), NULL), LW_EINVAL);
    }
    assert_int_equal(stats_of(pool).submitted, 0);
    assert_works(pool);
    close_pool(pool);
    assert_int_equal(tally_read(&runs), 0);
}

TEST(many_tasks_from_nowhere_or_to_nobody_are_refused) {
    struct tally runs = TALLY;
    lw_pool_task task = {.fn = tally_task, .arg = &runs};
    size_t accepted = 4711;
    lw_pool *pool = OPEN_POOL(.min_workers = 1);
    assert_status(lw_pool_submit_many(NULL, &task, 1, &accepted), LW_EINVAL);
    assert_int_equal(accepted, 0);
    accepted = 4711;
    assert_status(lw_pool_submit_many(pool, NULL, 1, &accepted), LW_EINVAL);
    assert_int_equal(accepted, 0);
    assert_status(lw_pool_submit_many(pool, NULL, SIZE_MAX, NULL), LW_EINVAL);
    assert_status(lw_pool_submit_many(NULL, NULL, 0, NULL), LW_EINVAL);
    accepted = 4711;
    assert_status(lw_pool_submit_many(pool, NULL, 0, &accepted), LW_OK); /* none is no nonsense */
    assert_int_equal(accepted, 0);
    assert_status(lw_pool_submit_many(pool, &task, 0, NULL), LW_OK);
    assert_status(lw_pool_submit_many(pool, &task, 1, NULL), LW_OK);
    tally_await(&runs, 1);
    close_pool(pool);
}

/* ---- lw_pool_cancel ------------------------------------------------------------------------ */

static struct tally drops = TALLY;

static void count_drop(void *arg) {
    (void)arg;
    tally_add(&drops, 1);
}

TEST(what_is_no_ticket_cancels_nothing) {
    static const lw_ticket garbage[] = {1,
                                        2,
                                        0xffffffff,
                                        UINT64_C(1) << 32,
                                        UINT64_C(1) << 63,
                                        UINT64_MAX,
                                        UINT64_C(0x100000001),
                                        INT64_MAX};
    struct gate gate = GATE;
    lw_ticket ticket = 0, other_ticket = 0;
    lw_pool *pool = OPEN_POOL(.min_workers = 1, .on_drop = count_drop);
    lw_pool *other = OPEN_POOL(.min_workers = 1);
    for (size_t i = 0; i < COUNT_OF(garbage); i++) /* before there was any task */
        assert_status(lw_pool_cancel(pool, garbage[i]), LW_ENOTFOUND);
    occupy(pool, &gate, 1);
    for (int i = 0; i < 5; i++) { /* tickets that nobody has kept, and the last one */
        assert_status(lw_pool_submit_with(pool, tally_task, &drops,
                                          LW_SUBMIT_OPTIONS(.ticket = &ticket), NULL),
                      LW_OK);
        if (i < 4)
            assert_status(lw_pool_cancel(pool, ticket), LW_OK);
    }
    assert_int_equal(tally_read(&drops), 4);
    assert_status(lw_pool_cancel(NULL, ticket), LW_EINVAL);
    assert_status(lw_pool_cancel(pool, 0), LW_EINVAL);
    for (int bit = 0; bit < 64; bit++)
        assert_status(lw_pool_cancel(pool, ticket ^ UINT64_C(1) << bit), LW_ENOTFOUND);
    assert_status(lw_pool_cancel(pool, ticket + 1), LW_ENOTFOUND);
    assert_status(lw_pool_cancel(pool, ticket - 1), LW_ENOTFOUND);
    assert_status(lw_pool_cancel(pool, ~ticket), LW_ENOTFOUND);
    assert_status(lw_pool_cancel(other, ticket), LW_ENOTFOUND);
    assert_int_equal(tally_read(&drops), 4);
    assert_status(lw_pool_cancel(pool, ticket), LW_OK);
    assert_status(lw_pool_cancel(pool, ticket), LW_ENOTFOUND);
    assert_int_equal(tally_read(&drops), 5);
    assert_status(lw_pool_submit_with(other, gate_task, &gate,
                                      LW_SUBMIT_OPTIONS(.ticket = &other_ticket), NULL),
                  LW_OK);
    gate_open(&gate);
    assert_status(lw_pool_wait_idle(other, -1), LW_OK);
    assert_status(lw_pool_cancel(other, other_ticket), LW_ENOTFOUND); /* it has ended */
    close_pool(pool);
    close_pool(other);
    assert_int_equal(tally_read(&drops), 5);
}

/* ---- looking and waiting ------------------------------------------------------------------- */

TEST(looking_with_nonsense_is_refused) {
    lw_pool *pool = OPEN_POOL(.min_workers = 1);
    lw_pool_stats stats;
    lw_pool_run_info info;
    assert_status(lw_pool_get_stats(NULL, &stats), LW_EINVAL);
    assert_status(lw_pool_get_stats(pool, NULL), LW_EINVAL);
    assert_status(lw_pool_get_stats(NULL, NULL), LW_EINVAL);
    assert_status(lw_pool_running(NULL, &info, 1), LW_EINVAL);
    assert_status(lw_pool_running(NULL, NULL, 0), LW_EINVAL);
    assert_status(lw_pool_running(pool, NULL, 1), LW_EINVAL);
    assert_status(lw_pool_running(pool, NULL, SIZE_MAX), LW_EINVAL);
    assert_int_equal(lw_pool_running(pool, NULL, 0), 0);
    assert_works(pool);
    close_pool(pool);
}

TEST(waiting_for_impossible_times_is_refused) {
    lw_pool *pool = OPEN_POOL(.min_workers = 1);
    assert_status(lw_pool_wait_idle(NULL, 0), LW_EINVAL);
    assert_status(lw_pool_wait_idle(pool, -2), LW_EINVAL);
    assert_status(lw_pool_stop(pool, LW_DRAIN, -2), LW_EINVAL);
    for (size_t i = 0; i < COUNT_OF(bad_timeouts); i++) {
        assert_status(lw_pool_wait_idle(pool, bad_timeouts[i]), LW_EINVAL);
        assert_status(lw_pool_stop(pool, LW_DRAIN, bad_timeouts[i]), LW_EINVAL);
        assert_status(lw_pool_stop(pool, LW_DROP, bad_timeouts[i]), LW_EINVAL);
    }
    assert_works(pool); /* nothing has begun to stop */
    static const int64_t good[] = {-1, 1000, LW_TIMEOUT_MS_MAX};
    for (size_t i = 0; i < COUNT_OF(good); i++)
        assert_status(lw_pool_wait_idle(pool, good[i]), LW_OK);
    assert_status(lw_pool_wait_idle(pool, 0), LW_OK);
    close_pool(pool);
}

TEST(a_stop_of_no_kind_or_of_nobody_is_refused) {
    lw_pool *pool = OPEN_POOL(.min_workers = 1);
    static const int kinds[] = {2, 3, INT_MAX, -1, INT_MIN};
    for (size_t i = 0; i < COUNT_OF(kinds); i++)
        assert_status(lw_pool_stop(pool, (lw_stop_mode)kinds[i], 0), LW_EINVAL);
    assert_status(lw_pool_stop(NULL, LW_DRAIN, 0), LW_EINVAL);
    assert_status(lw_pool_stop(NULL, LW_DROP, -1), LW_EINVAL);
    assert_works(pool);
    close_pool(pool);
    assert_status(lw_pool_close(NULL), LW_OK);
}

TEST(a_stopped_pool_answers_every_call) {
    struct tally runs = TALLY;
    lw_pool_task task = {.fn = tally_task, .arg = &runs};
    lw_pool_run_info info;
    lw_ticket ticket = 4711;
    lw_error err;
    size_t accepted = 4711;
    lw_pool *pool = OPEN_POOL(.min_workers = 2, .task_timeout_ms = 1000);
    assert_status(lw_pool_stop(pool, LW_DRAIN, -1), LW_OK);
    assert_status(lw_pool_submit(pool, tally_task, &runs), LW_ESTOPPING);
    assert_status(lw_pool_try_submit(pool, tally_task, &runs), LW_ESTOPPING);
    assert_status(lw_pool_run(pool, tally_task, &runs), LW_ESTOPPING);
    assert_status(lw_pool_submit_many(pool, &task, 1, &accepted), LW_ESTOPPING);
    assert_int_equal(accepted, 0);
    assert_status(
        lw_pool_submit_with(pool, tally_task, &runs, LW_SUBMIT_OPTIONS(.ticket = &ticket), &err),
        LW_ESTOPPING);
    assert_sentence(&err, LW_ESTOPPING, "stopping");
    assert_status(lw_pool_cancel(pool, 4711), LW_ENOTFOUND);
    assert_status(lw_pool_wait_idle(pool, -1), LW_OK);
    assert_int_equal(lw_pool_running(pool, &info, 1), 0);
    lw_pool_stats stats = stats_of(pool);
    assert_int_equal(stats.refused, 5);
    assert_int_equal(stats.submitted + stats.workers + stats.queued, 0);
    assert_status(lw_pool_stop(pool, LW_DROP, 0), LW_OK);
    close_pool(pool);
    assert_int_equal(tally_read(&runs), 0);
}

/* ---- contexts ------------------------------------------------------------------------------ */

static lw_error refuse_ctx(const lw_ctx_options *options) {
    lw_error err = {0};
    lw_ctx *ctx = (lw_ctx *)&err;
    assert_status(lw_ctx_open(&ctx, options, &err), LW_EINVAL);
    assert_null(ctx);
    ctx = (lw_ctx *)&err;
    assert_status(lw_ctx_open(&ctx, options, NULL), LW_EINVAL);
    assert_null(ctx);
    return err;
}

TEST(a_context_with_nonsense_is_refused) {
    lw_error err;
    lw_allocator nothing = {0};
    assert_status(lw_ctx_open(NULL, NULL, &err), LW_EINVAL);
    assert_sentence(&err, LW_EINVAL, "NULL");
    assert_status(lw_ctx_open(NULL, NULL, NULL), LW_EINVAL);
    static const size_t sizes[] = {0, 1, sizeof(lw_ctx_options) - 1, sizeof(lw_ctx_options) + 1};
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        err = refuse_ctx(&(lw_ctx_options){.struct_size = sizes[i]});
        assert_says(&err, "struct_size", (int64_t)sizes[i]);
    }
    for (size_t i = 0; i < COUNT_OF(bad_timeouts); i++) {
        err = refuse_ctx(LW_CTX_OPTIONS(.timeout_ms = bad_timeouts[i]));
        assert_says(&err, "timeout_ms", bad_timeouts[i]);
    }
    err = refuse_ctx(LW_CTX_OPTIONS(.value = "v", .value_size = LW_CTX_VALUE_MAX + 1));
    assert_says(&err, "value_size", LW_CTX_VALUE_MAX + 1);
    err = refuse_ctx(LW_CTX_OPTIONS(.value = "v", .value_size = SIZE_MAX));
    assert_sentence(&err, LW_EINVAL, "value_size");
    err = refuse_ctx(LW_CTX_OPTIONS(.value = NULL, .value_size = 3));
    assert_says(&err, "value_size", 3);
    err = refuse_ctx(LW_CTX_OPTIONS(.allocator = &nothing));
    assert_sentence(&err, LW_EINVAL, "allocator");
}

/* ---- statuses, logs, test twins ------------------------------------------------------------ */

TEST(every_number_has_a_name_and_a_text) {
    static const int numbers[] = {5, 100, -99, -100, INT_MAX, INT_MIN};
    for (size_t i = 0; i < COUNT_OF(numbers); i++) {
        assert_string_equal(lw_status_name(numbers[i]), "LW_UNKNOWN");
        assert_true(strlen(lw_status_text(numbers[i])) > 10);
        assert_string_equal(lw_log_level_name((lw_log_level)numbers[i]), "unknown");
    }
    assert_string_equal(lw_log_level_name((lw_log_level)0), "unknown");
}

TEST(a_record_with_holes_is_printed_as_far_as_it_goes) {
    char line[200] = "";
    FILE *file = fmemopen(line, sizeof line, "w");
    lw_log_field fields[] = {{.key = NULL, .value = NULL}, {.key = "k", .value = NULL}};
    lw_log_print(file, NULL);
    lw_log_print(file, &(lw_log_record){.level = (lw_log_level)99, .field_count = 3});
    lw_log_print(file, &(lw_log_record){.level = LW_LOG_INFO, .fields = fields, .field_count = 2});
    fclose(file);
    assert_string_equal(line, "unknown : \ninfo :  =\"\" k=\"\"\n");
}

TEST(a_test_memory_that_is_not_there_counts_nothing) {
    uint64_t blocks = 4711, bytes = 4711, calls = 4711;
    lw_test_memory *memory = open_memory();
    assert_status(lw_test_memory_open(NULL), LW_EINVAL);
    assert_null(lw_test_memory_allocator(NULL));
    lw_test_memory_fail_at(NULL, 1);
    assert_false(lw_test_memory_has_failed(NULL));
    lw_test_memory_usage(NULL, &blocks, &bytes, &calls);
    assert_int_equal(blocks + bytes + calls, 0);
    lw_test_memory_usage(NULL, NULL, NULL, NULL);
    lw_test_memory_usage(memory, NULL, NULL, NULL);
    lw_test_memory_fail_at(memory, UINT64_MAX); /* never, as far as a life goes */
    lw_ctx *ctx;
    assert_status(
        lw_ctx_open(&ctx, LW_CTX_OPTIONS(.allocator = lw_test_memory_allocator(memory)), NULL),
        LW_OK);
    lw_ctx_close(ctx);
    close_memory(memory);
    lw_test_memory_close(NULL);
}
