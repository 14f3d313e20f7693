/* The options of engines, kinds and queues: what their defaults are, and what is refused. */
#include "pools.h"

#include "base/clock.h"
#include "base/memory.h"
#include "engine/options.h"

#include <limits.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))
#define NS(ms) ((uint64_t)(ms)*LW__NS_PER_MS)
#define BAD_TIMES -3, -1000, INT32_MIN, INT64_MIN, LW_TIMEOUT_MS_MAX + 1, INT64_MAX
#define BAD_COUNTS -3, INT32_MIN, INT64_MIN, (int64_t)LW_TASKS_MAX + 1, INT64_MAX

static void assert_fine(int rc, const lw_error *err) {
    if (rc != LW_OK)
        fprintf(stderr, "%s\n", err->message);
    assert_status(rc, LW_OK);
}

static struct lw__engine_settings settle_engine(const lw_engine_options *options) {
    struct lw__engine_settings set;
    lw_error err = {0};
    assert_fine(lw__engine_settle_options(&set, options, &err), &err);
    return set;
}

static struct lw__kind_settings settle_kind(const lw_handler_options *options) {
    struct lw__kind_settings set;
    lw_error err = {0};
    assert_fine(lw__kind_settle_options(&set, options, &err), &err);
    return set;
}

static struct lw__queue_settings settle_queue(const struct lw__engine_settings *engine,
                                              const lw_queue_options *options) {
    struct lw__queue_settings set;
    lw_error err = {0};
    assert_fine(lw__queue_settle_options(&set, engine, options, &err), &err);
    return set;
}

#define ENGINE(...) settle_engine(LW_ENGINE_OPTIONS(__VA_ARGS__))
#define KIND(...) settle_kind(LW_HANDLER_OPTIONS(__VA_ARGS__))
#define QUEUE(engine, ...) settle_queue((engine), LW_QUEUE_OPTIONS(__VA_ARGS__))

/* Each of these is refused, takes a NULL error, and leaves the settings alone. */
#define DEFINE_REFUSE(name, settings, options_type, call)    \
    static lw_error name(const options_type *options) {      \
        settings set, untouched;                             \
        lw_error err = {0};                                  \
        memset(&set, 0x5a, sizeof set);                      \
        memset(&untouched, 0x5a, sizeof untouched);          \
        assert_status(call(&set, options, &err), LW_EINVAL); \
        assert_status(call(&set, options, NULL), LW_EINVAL); \
        assert_memory_equal(&set, &untouched, sizeof set);   \
        return err;                                          \
    }

static int settle_queue_alone(struct lw__queue_settings *set, const lw_queue_options *options,
                              lw_error *err) {
    struct lw__engine_settings engine = settle_engine(NULL);
    return lw__queue_settle_options(set, &engine, options, err);
}

DEFINE_REFUSE(refuse_engine, struct lw__engine_settings, lw_engine_options,
              lw__engine_settle_options)
DEFINE_REFUSE(refuse_kind, struct lw__kind_settings, lw_handler_options, lw__kind_settle_options)
DEFINE_REFUSE(refuse_queue, struct lw__queue_settings, lw_queue_options, settle_queue_alone)

/* Each of the values for a field is refused with a sentence that has its name and the value. */
#define REFUSE_EACH(refuse, type, field, ...)                                       \
    do {                                                                            \
        const int64_t values[] = {__VA_ARGS__};                                     \
        for (size_t i = 0; i < COUNT_OF(values); i++) {                             \
            type o = {.struct_size = sizeof o};                                     \
            char said[96];                                                          \
            o.field = (__typeof__(o.field))values[i];                               \
            snprintf(said, sizeof said, #field " is %lld, ", (long long)values[i]); \
            lw_error err = refuse(&o);                                              \
            assert_sentence(&err, LW_EINVAL, said);                                 \
            assert_sentence(&err, LW_EINVAL, "must be ");                           \
        }                                                                           \
    } while (0)

#define REFUSE_ENGINE(field, ...) REFUSE_EACH(refuse_engine, lw_engine_options, field, __VA_ARGS__)
#define REFUSE_KIND(field, ...) REFUSE_EACH(refuse_kind, lw_handler_options, field, __VA_ARGS__)
#define REFUSE_QUEUE(field, ...) REFUSE_EACH(refuse_queue, lw_queue_options, field, __VA_ARGS__)

/* ---- engines ------------------------------------------------------------------------------- */

static void assert_default_engine(const struct lw__engine_settings *set) {
    cpu_set_t cores;
    assert_int_equal(sched_getaffinity(0, sizeof cores, &cores), 0);
    assert_string_equal(set->name, "legwork");
    assert_int_equal(set->workers, CPU_COUNT(&cores));
    assert_int_equal(set->stuck_max, 16);
    assert_int_equal(set->task_limit, 1000000);
    assert_int_equal(set->byte_limit, 1 << 30);
    assert_int_equal(set->reserve, 1000);
    assert_int_equal(set->overflow, LW_BLOCK);
    assert_true(set->submit_timeout_ns == LW__NEVER);
    assert_true(!set->on_failed && !set->on_aborted && !set->on_stuck && !set->on_attempt);
    assert_null(set->user);
    assert_true(set->seed != 0);
    assert_null(set->log.write);
    assert_ptr_equal(set->clock, lw__clock_system());
    assert_ptr_equal(set->allocator.resize, lw__allocator_default()->resize);
}

TEST(an_engine_without_options_has_the_defaults) {
    struct lw__engine_settings set = settle_engine(NULL);
    assert_default_engine(&set);
    set = ENGINE(.name = NULL);
    assert_default_engine(&set);
}

static void on_failed(void *user, const lw_snapshot *task) {
    (void)user, (void)task;
}
static void on_aborted(void *user, const lw_snapshot *task) {
    (void)user, (void)task;
}
static void on_stuck(void *user, const lw_snapshot *task) {
    (void)user, (void)task;
}
static void on_attempt(void *user, const lw_snapshot *task) {
    (void)user, (void)task;
}

TEST(an_engine_keeps_the_numbers_it_is_given) {
    char name[] = "twelve-bytes"; /* copied: it may go */
    struct lw__engine_settings set =
        ENGINE(.name = name, .workers = 3, .stuck_max = 4, .task_limit = 5, .byte_limit = 6,
               .reserve = 7, .overflow = LW_DROP_OLDEST, .submit_timeout_ms = 8, .seed = 9);
    name[0] = 'x';
    assert_string_equal(set.name, "twelve-bytes");
    assert_int_equal(set.workers, 3);
    assert_int_equal(set.stuck_max, 4);
    assert_int_equal(set.task_limit, 5);
    assert_int_equal(set.byte_limit, 6);
    assert_int_equal(set.reserve, 7);
    assert_int_equal(set.overflow, LW_DROP_OLDEST);
    assert_int_equal(set.submit_timeout_ns, NS(8));
    assert_int_equal(set.seed, 9);
}

TEST(an_engine_keeps_the_callbacks_and_handles_it_is_given) {
    lw_test_memory *memory = open_memory();
    lw_clock *clock = open_clock();
    int user;
    lw_log log = {.write = lw_log_print, .user = &user, .level = LW_LOG_DEBUG};
    struct lw__engine_settings set =
        ENGINE(.on_failed = on_failed, .on_aborted = on_aborted, .on_stuck = on_stuck,
               .on_attempt = on_attempt, .user = &user, .log = &log, .clock = clock,
               .allocator = lw_test_memory_allocator(memory));
    assert_ptr_equal(set.on_failed, on_failed);
    assert_ptr_equal(set.on_aborted, on_aborted);
    assert_ptr_equal(set.on_stuck, on_stuck);
    assert_ptr_equal(set.on_attempt, on_attempt);
    assert_ptr_equal(set.user, &user);
    assert_ptr_equal(set.log.write, lw_log_print);
    assert_ptr_equal(set.log.user, &user);
    assert_int_equal(set.log.level, LW_LOG_DEBUG);
    assert_ptr_equal(set.clock, clock);
    assert_ptr_equal(set.allocator.resize, lw_test_memory_allocator(memory)->resize);
    assert_ptr_equal(set.allocator.user, lw_test_memory_allocator(memory)->user);
    uint64_t calls;
    lw_test_memory_usage(memory, NULL, NULL, &calls);
    assert_int_equal(calls, 0);
    lw_test_clock_close(clock);
    close_memory(memory);
}

TEST(of_an_engine_minus_one_is_none_and_lw_zero_a_real_zero) {
    struct lw__engine_settings set = ENGINE(.byte_limit = -1, .submit_timeout_ms = -1);
    assert_true(set.byte_limit == UINT64_MAX);
    assert_true(set.submit_timeout_ns == LW__NEVER);
    set = ENGINE(.workers = LW_ZERO, .stuck_max = LW_ZERO, .reserve = LW_ZERO,
                 .submit_timeout_ms = LW_ZERO);
    assert_int_equal(set.workers, 0);
    assert_int_equal(set.stuck_max, 0);
    assert_int_equal(set.reserve, 0);
    assert_int_equal(set.submit_timeout_ns, 0);
}

TEST(an_engine_takes_the_largest_numbers) {
    struct lw__engine_settings set =
        ENGINE(.workers = LW_WORKERS_MAX, .stuck_max = LW_WORKERS_MAX, .task_limit = LW_TASKS_MAX,
               .byte_limit = INT64_MAX, .reserve = LW_TASKS_MAX,
               .submit_timeout_ms = LW_TIMEOUT_MS_MAX, .seed = UINT64_MAX);
    assert_int_equal(set.workers, LW_WORKERS_MAX);
    assert_int_equal(set.stuck_max, LW_WORKERS_MAX);
    assert_int_equal(set.task_limit, LW_TASKS_MAX);
    assert_int_equal(set.byte_limit, INT64_MAX);
    assert_int_equal(set.reserve, LW_TASKS_MAX);
    assert_int_equal(set.submit_timeout_ns, NS(LW_TIMEOUT_MS_MAX));
    assert_true(set.seed == UINT64_MAX);
}

TEST(two_engines_without_a_seed_have_different_ones) {
    assert_true(settle_engine(NULL).seed != settle_engine(NULL).seed);
}

TEST(numbers_of_an_engine_out_of_range_are_refused) {
    REFUSE_ENGINE(workers, -1, -3, LW_WORKERS_MAX + 1, INT_MAX, INT_MIN);
    REFUSE_ENGINE(stuck_max, -1, -3, LW_WORKERS_MAX + 1, INT_MAX, INT_MIN);
    REFUSE_ENGINE(task_limit, -1, LW_ZERO, BAD_COUNTS);
    REFUSE_ENGINE(byte_limit, LW_ZERO, -3, INT64_MIN);
    REFUSE_ENGINE(reserve, -1, BAD_COUNTS);
    REFUSE_ENGINE(kind_count_max, -1, LW_ZERO, LW_KINDS_MAX + 1, INT_MAX, INT_MIN);
    REFUSE_ENGINE(queue_count_max, -1, LW_ZERO, LW_QUEUES_MAX + 1, INT_MAX, INT_MIN);
    REFUSE_ENGINE(submit_timeout_ms, BAD_TIMES);
    REFUSE_ENGINE(overflow, LW_ZERO, -1, 4, INT_MIN, INT_MAX);
}

TEST(names_of_an_engine_that_fit_no_thread_are_refused) {
    lw_error err = refuse_engine(LW_ENGINE_OPTIONS(.name = ""));
    assert_sentence(&err, LW_EINVAL, "name \"\" has 0");
    err = refuse_engine(LW_ENGINE_OPTIONS(.name = "thirteen-long"));
    assert_sentence(&err, LW_EINVAL, "\"thirteen-long\" has 13 bytes, must have 1 to 12");
}

TEST(names_of_an_engine_that_a_log_cannot_hold_are_refused) {
    static const struct {
        const char *name, *words;
    } bad[] = {
        {"a\nb",
         "name \"a\\x0ab\" has the byte 0x0a at position 2, may not have control characters"},
        {"\x7f", "name \"\\x7f\" has the byte 0x7f at position 1, may not have control characters"},
        {"na\xffme",
         "name \"na\\xffme\" has the byte 0xff at position 3, which begins no character"},
        {"half\xc3",
         "name \"half\\xc3\" has the byte 0xc3 at position 5, which begins no character"},
        {"too long, and\na line", "name \"too long, and\\x0aa line\" has 20 bytes"},
        {"\xe2\x80\xaename",
         "name \"\\xe2\\x80\\xaename\" has the byte 0xe2 at position 1, may not have invisible"},
    };
    char long_name[5000];
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        lw_error err = refuse_engine(LW_ENGINE_OPTIONS(.name = bad[i].name));
        assert_sentence(&err, LW_EINVAL, bad[i].words);
    }
    memset(long_name, 'n', sizeof long_name);
    long_name[7] = '\t';
    long_name[sizeof long_name - 1] = 0;
    lw_error err = refuse_engine(LW_ENGINE_OPTIONS(.name = long_name));
    assert_sentence(&err, LW_EINVAL, "name \"nnnnnnn\\x09nnn");
    struct lw__engine_settings set = ENGINE(.name = "caf\xc3\xa9 no. 7");
    assert_string_equal(set.name, "caf\xc3\xa9 no. 7");
}

TEST(handles_of_an_engine_without_their_function_are_refused) {
    lw_error err = refuse_engine(LW_ENGINE_OPTIONS(.allocator = &(lw_allocator){0}));
    assert_sentence(&err, LW_EINVAL, "allocator");
    err = refuse_engine(LW_ENGINE_OPTIONS(.log = &(lw_log){0}));
    assert_sentence(&err, LW_EINVAL, "log");
    err = refuse_engine(LW_ENGINE_OPTIONS(.log = &(lw_log){.write = lw_log_print, .level = 5}));
    assert_sentence(&err, LW_EINVAL, "level of log is 5");
}

/* ---- sizes --------------------------------------------------------------------------------- */

#define REFUSE_SIZES(refuse, type, macro)                                            \
    do {                                                                             \
        const size_t sizes[] = {0, 1, sizeof(type) - 1, sizeof(type) + 1, SIZE_MAX}; \
        for (size_t i = 0; i < COUNT_OF(sizes); i++) {                               \
            size_t *alone = malloc(sizeof *alone); /* nothing else may be read */    \
            char said[64];                                                           \
            *alone = sizes[i];                                                       \
            snprintf(said, sizeof said, "struct_size is %zu,", sizes[i]);            \
            lw_error err = refuse((const type *)alone);                              \
            assert_sentence(&err, LW_EINVAL, said);                                  \
            assert_sentence(&err, LW_EINVAL, macro);                                 \
            free(alone);                                                             \
        }                                                                            \
    } while (0)

TEST(options_of_another_size_are_refused_and_nothing_else_of_them_is_read) {
    REFUSE_SIZES(refuse_engine, lw_engine_options, "LW_ENGINE_OPTIONS");
    REFUSE_SIZES(refuse_kind, lw_handler_options, "LW_HANDLER_OPTIONS");
    REFUSE_SIZES(refuse_queue, lw_queue_options, "LW_QUEUE_OPTIONS");
}

/* ---- kinds --------------------------------------------------------------------------------- */

static void assert_keep(const struct lw__keep *keep, uint64_t ns, uint64_t max) {
    assert_true(keep->ns == ns);
    assert_true(keep->max == max);
}

static void assert_bytes(const struct lw__kind_settings *set, uint64_t byte_max) {
    assert_true(set->finished.byte_max == byte_max);
    assert_true(set->failed.byte_max == byte_max);
    assert_true(set->aborted.byte_max == byte_max);
}

static void assert_default_kind(const struct lw__kind_settings *set) {
    assert_int_equal(set->concurrency, UINT32_MAX);
    assert_true(set->timeout_ns == LW__NEVER);
    assert_int_equal(set->stuck_ns, NS(5000));
    assert_int_equal(set->retry.min_ns, NS(1000));
    assert_int_equal(set->retry.max_ns, NS(3600000));
    assert_int_equal(set->retry.crashes, 3);
    assert_keep(&set->finished, NS(900000), 100000);
    assert_keep(&set->failed, NS(86400000), 100000);
    assert_keep(&set->aborted, NS(900000), 100000);
    assert_bytes(set, 256 << 20);
    assert_int_equal(set->key_scope, LW_KEY_UNFINISHED);
    assert_int_equal(set->key_window_ns, 0);
    assert_null(set->user);
}

TEST(a_kind_without_options_has_the_defaults) {
    struct lw__kind_settings set = settle_kind(NULL);
    assert_default_kind(&set);
    set = KIND(.user = NULL);
    assert_default_kind(&set);
}

TEST(a_kind_keeps_what_it_is_given) {
    int user;
    struct lw__kind_settings set =
        KIND(.concurrency = 2, .timeout_ms = 3, .stuck_ms = 4,
             .retry = {.min_ms = 5, .attempts = 6},
             .retention = {.finished_ms = 7,
                           .finished_max = 8,
                           .failed_ms = 9,
                           .failed_max = 10,
                           .aborted_ms = 11,
                           .aborted_max = 12,
                           .byte_max = 14},
             .key_scope = LW_KEY_WINDOW, .key_window_ms = 13, .user = &user);
    assert_int_equal(set.concurrency, 2);
    assert_int_equal(set.timeout_ns, NS(3));
    assert_int_equal(set.stuck_ns, NS(4));
    assert_int_equal(set.retry.min_ns, NS(5));
    assert_int_equal(set.retry.attempts, 6);
    assert_keep(&set.finished, NS(7), 8);
    assert_keep(&set.failed, NS(9), 10);
    assert_keep(&set.aborted, NS(11), 12);
    assert_bytes(&set, 14);
    assert_int_equal(set.key_scope, LW_KEY_WINDOW);
    assert_int_equal(set.key_window_ns, NS(13));
    assert_ptr_equal(set.user, &user);
}

TEST(of_a_kind_minus_one_is_none_and_lw_zero_a_real_zero) {
    struct lw__kind_settings set = KIND(.concurrency = -1, .timeout_ms = -1, .stuck_ms = -1,
                                        .retention = {-1, -1, -1, -1, -1, -1, -1});
    assert_int_equal(set.concurrency, UINT32_MAX);
    assert_true(set.timeout_ns == LW__NEVER);
    assert_true(set.stuck_ns == LW__NEVER);
    assert_keep(&set.finished, LW__NEVER, UINT64_MAX);
    assert_keep(&set.failed, LW__NEVER, UINT64_MAX);
    assert_keep(&set.aborted, LW__NEVER, UINT64_MAX);
    assert_bytes(&set, UINT64_MAX);
    set = KIND(.stuck_ms = LW_ZERO,
               .retention = {LW_ZERO, LW_ZERO, LW_ZERO, LW_ZERO, LW_ZERO, LW_ZERO, LW_ZERO});
    assert_int_equal(set.stuck_ns, 0);
    assert_keep(&set.finished, 0, 0);
    assert_keep(&set.failed, 0, 0);
    assert_keep(&set.aborted, 0, 0);
    assert_bytes(&set, 0);
}

TEST(aborted_tasks_stay_as_finished_ones_do_unless_told_otherwise) {
    struct lw__kind_settings set = KIND(.retention = {.finished_ms = 5, .finished_max = 6});
    assert_keep(&set.aborted, NS(5), 6);
    set = KIND(.retention = {.finished_ms = LW_ZERO, .finished_max = LW_ZERO});
    assert_keep(&set.aborted, 0, 0);
    assert_keep(&set.failed, NS(86400000), 100000);
    set = KIND(.retention = {.finished_ms = -1, .finished_max = -1, .aborted_max = 3});
    assert_keep(&set.aborted, LW__NEVER, 3);
}

TEST(a_kind_takes_the_largest_numbers) {
    struct lw__kind_settings set =
        KIND(.concurrency = INT_MAX, .timeout_ms = LW_TIMEOUT_MS_MAX, .stuck_ms = LW_TIMEOUT_MS_MAX,
             .retention = {.finished_ms = LW_TIMEOUT_MS_MAX,
                           .finished_max = LW_TASKS_MAX,
                           .failed_ms = LW_TIMEOUT_MS_MAX,
                           .failed_max = LW_TASKS_MAX,
                           .aborted_ms = LW_TIMEOUT_MS_MAX,
                           .aborted_max = LW_TASKS_MAX},
             .key_window_ms = LW_TIMEOUT_MS_MAX);
    assert_int_equal(set.concurrency, INT_MAX);
    assert_int_equal(set.timeout_ns, NS(LW_TIMEOUT_MS_MAX));
    assert_int_equal(set.stuck_ns, NS(LW_TIMEOUT_MS_MAX));
    assert_keep(&set.finished, NS(LW_TIMEOUT_MS_MAX), LW_TASKS_MAX);
    assert_keep(&set.aborted, NS(LW_TIMEOUT_MS_MAX), LW_TASKS_MAX);
    assert_int_equal(set.key_window_ns, NS(LW_TIMEOUT_MS_MAX));
}

TEST(numbers_of_a_kind_out_of_range_are_refused) {
    REFUSE_KIND(concurrency, LW_ZERO, -3, INT_MIN);
    REFUSE_KIND(timeout_ms, LW_ZERO, BAD_TIMES);
    REFUSE_KIND(stuck_ms, BAD_TIMES);
    REFUSE_KIND(retention.finished_ms, BAD_TIMES);
    REFUSE_KIND(retention.finished_max, BAD_COUNTS);
    REFUSE_KIND(retention.failed_ms, BAD_TIMES);
    REFUSE_KIND(retention.failed_max, BAD_COUNTS);
    REFUSE_KIND(retention.aborted_ms, BAD_TIMES);
    REFUSE_KIND(retention.aborted_max, BAD_COUNTS);
    REFUSE_KIND(key_window_ms, -1, LW_ZERO, BAD_TIMES);
    REFUSE_KIND(key_scope, -1, LW_ZERO, 4, INT_MIN, INT_MAX);
    REFUSE_KIND(retry.min_ms, -1, BAD_TIMES);
    REFUSE_KIND(retry.attempts, LW_ZERO, -3);
}

TEST(a_kind_with_a_factor_that_is_no_number_is_refused) {
    lw_error err = refuse_kind(LW_HANDLER_OPTIONS(.retry = {.factor = NAN}));
    assert_sentence(&err, LW_EINVAL, "retry.factor is ");
    err = refuse_kind(LW_HANDLER_OPTIONS(.retry = {.factor = -2}));
    assert_sentence(&err, LW_EINVAL, "retry.factor is -2");
}

TEST(a_scope_of_a_window_needs_the_window) {
    lw_error err = refuse_kind(LW_HANDLER_OPTIONS(.key_scope = LW_KEY_WINDOW));
    assert_sentence(&err, LW_EINVAL, "key_window_ms is 0, must be 1 to ");
    /* the other way round it is for tasks that have the scope */
    assert_int_equal(KIND(.key_window_ms = 5).key_window_ns, NS(5));
    assert_int_equal(KIND(.key_window_ms = 5).key_scope, LW_KEY_UNFINISHED);
    assert_int_equal(KIND(.key_scope = LW_KEY_RETAINED).key_scope, LW_KEY_RETAINED);
}

/* ---- queues -------------------------------------------------------------------------------- */

static void assert_as_engine(const struct lw__queue_settings *set,
                             const struct lw__engine_settings *engine) {
    assert_int_equal(set->weight, 1);
    assert_true(set->limit == engine->task_limit);
    assert_true(set->byte_limit == engine->byte_limit);
    assert_int_equal(set->overflow, engine->overflow);
    assert_true(set->submit_timeout_ns == engine->submit_timeout_ns);
}

TEST(a_queue_without_options_is_as_the_engine_says) {
    const struct lw__engine_settings engines[] = {
        settle_engine(NULL),
        ENGINE(.task_limit = 5, .byte_limit = 6, .overflow = LW_REFUSE, .submit_timeout_ms = 7),
        ENGINE(.byte_limit = -1, .overflow = LW_DROP_OLDEST, .submit_timeout_ms = LW_ZERO),
        ENGINE(.overflow = LW_CALLER_RUNS, .submit_timeout_ms = -1),
    };
    for (size_t i = 0; i < COUNT_OF(engines); i++) {
        struct lw__queue_settings set = settle_queue(&engines[i], NULL);
        assert_as_engine(&set, &engines[i]);
        set = QUEUE(&engines[i], .weight = 0);
        assert_as_engine(&set, &engines[i]);
    }
}

TEST(a_queue_keeps_what_it_is_given_whatever_the_engine_says) {
    struct lw__engine_settings engine =
        ENGINE(.task_limit = 50, .byte_limit = 60, .overflow = LW_REFUSE, .submit_timeout_ms = 70);
    struct lw__queue_settings set = QUEUE(&engine, .weight = 2, .limit = 3, .byte_limit = 4,
                                          .overflow = LW_DROP_OLDEST, .submit_timeout_ms = 5);
    assert_int_equal(set.weight, 2);
    assert_int_equal(set.limit, 3);
    assert_int_equal(set.byte_limit, 4);
    assert_int_equal(set.overflow, LW_DROP_OLDEST);
    assert_int_equal(set.submit_timeout_ns, NS(5));
    set = QUEUE(&engine, .byte_limit = -1, .submit_timeout_ms = -1);
    assert_true(set.byte_limit == UINT64_MAX);
    assert_true(set.submit_timeout_ns == LW__NEVER);
    set = QUEUE(&engine, .submit_timeout_ms = LW_ZERO);
    assert_int_equal(set.submit_timeout_ns, 0);
    set = QUEUE(&engine, .weight = 1000, .limit = LW_TASKS_MAX, .byte_limit = INT64_MAX,
                .submit_timeout_ms = LW_TIMEOUT_MS_MAX);
    assert_int_equal(set.weight, 1000);
    assert_int_equal(set.limit, LW_TASKS_MAX);
    assert_int_equal(set.byte_limit, INT64_MAX);
    assert_int_equal(set.submit_timeout_ns, NS(LW_TIMEOUT_MS_MAX));
}

TEST(a_queue_leaves_overflow_to_the_engine_or_blocks_by_lw_zero) {
    struct lw__engine_settings engine = ENGINE(.overflow = LW_REFUSE);
    assert_int_equal(QUEUE(&engine, .overflow = LW_BLOCK).overflow, LW_REFUSE);
    assert_int_equal(QUEUE(&engine, .overflow = LW_ZERO).overflow, LW_BLOCK);
    assert_int_equal(QUEUE(&engine, .overflow = LW_CALLER_RUNS).overflow, LW_CALLER_RUNS);
}

TEST(numbers_of_a_queue_out_of_range_are_refused) {
    REFUSE_QUEUE(weight, -1, LW_ZERO, 1001, INT_MIN, INT_MAX);
    REFUSE_QUEUE(limit, -1, LW_ZERO, BAD_COUNTS);
    REFUSE_QUEUE(byte_limit, LW_ZERO, -3, INT64_MIN);
    REFUSE_QUEUE(overflow, -1, -3, 4, INT_MIN, INT_MAX);
    REFUSE_QUEUE(submit_timeout_ms, BAD_TIMES);
}
