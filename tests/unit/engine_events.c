/* Streams of state changes: what a reader sees, what a slow one loses, and that nobody waits for
 * either. */
#include "engines.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static lw_engine *engine;
static lw_clock *test_clock;
static lw_test_memory *memory;

static lw_outcome snooze(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    return lw_snooze(ctx, 1000);
}

/* An engine without threads, on a test clock, started. */
static void open_driven(void) {
    test_clock = open_clock();
    memory = open_memory();
    engine = OPEN_ENGINE(.workers = LW_ZERO, .clock = test_clock,
                         .allocator = lw_test_memory_allocator(memory));
    handle(engine, "plain", do_done, NULL);
    handle(engine, "snooze", snooze, NULL);
    handle(engine, "retried", do_done,
           LW_HANDLER_OPTIONS(.retry = {.min_ms = 1000, .jitter_percent = LW_ZERO, .attempts = 2}));
    start(engine);
}

static void close_driven(void) {
    close_engine(engine);
    close_memory(memory);
    lw_test_clock_close(test_clock);
}

static lw_events *open_events(size_t capacity) {
    lw_events *events = NULL;
    assert_status(lw_events_open(engine, &events, capacity), LW_OK);
    assert_non_null(events);
    return events;
}

static lw_id submit_one(const char *kind) {
    return SUBMIT(engine, .kind = kind);
}

static lw_event next_of(lw_events *events) {
    lw_event event;
    assert_status(lw_events_next(events, &event, 0), LW_OK);
    return event;
}

static void expect(lw_events *events, lw_id id, int from, int to) {
    lw_event event = next_of(events);
    assert_int_equal(event.id, id);
    assert_int_equal(event.from, from);
    assert_int_equal(event.to, to);
    assert_int_equal(event.lost, 0);
}

/* Of a task that nothing holds. */
static void expect_put(lw_events *events, lw_id id, int to) {
    expect(events, id, 0, LW_CREATED);
    expect(events, id, LW_CREATED, to);
}

static void expect_none(lw_events *events) {
    lw_event event;
    assert_status(lw_events_next(events, &event, 0), LW_ETIMEDOUT);
}

static uint64_t allocations(void) {
    uint64_t calls;
    lw_test_memory_usage(memory, NULL, NULL, &calls);
    return calls;
}

/* ---- what is seen ------------------------------------------------------------------------- */

TEST(a_plain_task_is_seen_created_enqueued_started_and_finished_at_its_times) {
    open_driven();
    lw_events *events = open_events(0);
    lw_snapshot task = LW_SNAPSHOT_INIT;
    lw_id id = submit_one("plain");
    advance(test_clock, 20);
    assert_int_equal(lw_test_run(engine), 1);
    assert_status(lw_get(engine, id, &task), LW_OK);
    const struct {
        int from, to;
        uint64_t at_ns;
    } all[] = {{0, LW_CREATED, task.created_ns},
               {LW_CREATED, LW_ENQUEUED, task.enqueued_ns},
               {LW_ENQUEUED, LW_STARTED, task.started_ns},
               {LW_STARTED, LW_FINISHED, task.ended_ns}};
    for (size_t i = 0; i < 4; i++) {
        lw_event event = next_of(events);
        assert_int_equal(event.id, id);
        assert_int_equal(event.from, all[i].from);
        assert_int_equal(event.to, all[i].to);
        assert_int_equal(event.at_ns, all[i].at_ns);
        assert_int_equal(event.lost, 0);
        assert_string_equal(event.kind, "plain");
    }
    expect_none(events);
    lw_snapshot_clear(&task);
    lw_events_close(events);
    close_driven();
}

TEST(delays_retries_snoozes_and_ends_of_all_sorts_are_seen) {
    open_driven();
    lw_events *events = open_events(0);
    assert_status(lw_test_fail_next(engine, "retried", 2, LW_OUTCOME_RETRY, "no"), LW_OK);
    lw_id id = SUBMIT(engine, .kind = "retried", .delay_ms = 500);
    expect_put(events, id, LW_SCHEDULED);
    assert_int_equal(lw_test_advance(engine, 500), 1);
    expect(events, id, LW_SCHEDULED, LW_ENQUEUED);
    expect(events, id, LW_ENQUEUED, LW_STARTED);
    expect(events, id, LW_STARTED, LW_SCHEDULED);
    assert_int_equal(lw_test_advance(engine, 1000), 1);
    expect(events, id, LW_SCHEDULED, LW_ENQUEUED);
    expect(events, id, LW_ENQUEUED, LW_STARTED);
    expect(events, id, LW_STARTED, LW_FAILED);
    assert_status(lw_retry_now(engine, id, NULL), LW_OK);
    expect(events, id, LW_FAILED, LW_ENQUEUED);
    assert_status(lw_cancel(engine, id), LW_OK);
    expect(events, id, LW_ENQUEUED, LW_ABORTED);

    id = submit_one("snooze");
    assert_int_equal(lw_test_run(engine), 1);
    expect_put(events, id, LW_ENQUEUED);
    expect(events, id, LW_ENQUEUED, LW_STARTED);
    expect(events, id, LW_STARTED, LW_SCHEDULED);
    expect_none(events);
    lw_events_close(events);
    close_driven();
}

TEST(a_task_that_waits_for_another_is_seen_created_first) {
    open_driven();
    lw_events *events = open_events(0);
    lw_id first = submit_one("plain");
    lw_id second = SUBMIT(engine, .kind = "plain", .after = &first, .after_count = 1);
    assert_int_equal(lw_test_run(engine), 2);
    static const int states[] = {LW_CREATED, LW_ENQUEUED, LW_STARTED, LW_FINISHED};
    int at = 0, from = 0;
    lw_event event;
    while (lw_events_next(events, &event, 0) == LW_OK) {
        if (event.id != second)
            continue;
        assert_int_equal(event.from, from);
        assert_int_equal(event.to, states[at++]);
        from = event.to;
    }
    assert_int_equal(at, 4);
    lw_events_close(events);
    close_driven();
}

TEST(a_stream_begins_when_it_is_opened_and_ends_when_it_is_closed) {
    open_driven();
    lw_id id = submit_one("plain");
    lw_events *events = open_events(0);
    expect_none(events);
    assert_int_equal(lw_test_run(engine), 1);
    expect(events, id, LW_ENQUEUED, LW_STARTED);
    lw_events_close(events);
    uint64_t before = allocations();
    lw_events *again = open_events(0);
    assert_int_equal(allocations(), before + 1); /* the whole stream is one block */
    expect_none(again);
    lw_events_close(again);
    lw_events_close(NULL);
    close_driven();
}

/* ---- what is lost ------------------------------------------------------------------------- */

/* Each submit is two events. */
static void lose(size_t capacity, int tasks) {
    open_driven();
    lw_events *events = open_events(capacity);
    for (int i = 0; i < tasks; i++)
        submit_one("plain");
    uint64_t lost = 2 * (uint64_t)tasks - capacity;
    for (size_t i = 0; i < capacity; i++) {
        lw_event event = next_of(events);
        assert_int_equal(event.id, (lost + i) / 2 + 1); /* the last ones, in order */
        assert_int_equal(event.to, (lost + i) % 2 ? LW_ENQUEUED : LW_CREATED);
        assert_int_equal(event.lost, i == 0 ? lost : 0);
    }
    expect_none(events);
    lw_id id = submit_one("plain");
    if (capacity > 1)
        expect_put(events, id, LW_ENQUEUED);
    lw_events_close(events);
    close_driven();
}

TEST(a_slow_reader_loses_the_oldest_and_is_told_how_many) {
    lose(4, 11);
    lose(1, 7);
    lose(3, 4);
    lose(5, 5);
    lose(10, 5);
    lose(1024, 513);
}

TEST(without_a_capacity_a_stream_keeps_1024) {
    open_driven();
    lw_events *events = open_events(0);
    for (int i = 0; i < 515; i++)
        submit_one("plain");
    lw_event event = next_of(events);
    assert_int_equal(event.id, 4);
    assert_int_equal(event.lost, 6);
    lw_events_close(events);
    close_driven();
}

TEST(a_loss_in_the_middle_of_reading_is_told_at_its_place) {
    open_driven();
    lw_events *events = open_events(6);
    for (int i = 0; i < 3; i++)
        submit_one("plain");
    expect_put(events, 1, LW_ENQUEUED);
    for (int i = 0; i < 3; i++)
        submit_one("plain"); /* 2 and 3 are still there: two tasks too many */
    lw_event event = next_of(events);
    assert_int_equal(event.id, 4);
    assert_int_equal(event.lost, 4);
    expect(events, 4, LW_CREATED, LW_ENQUEUED);
    expect_put(events, 5, LW_ENQUEUED);
    expect_put(events, 6, LW_ENQUEUED);
    expect_none(events);
    lw_events_close(events);
    close_driven();
}

TEST(one_slow_stream_takes_nothing_from_another) {
    open_driven();
    lw_events *slow = open_events(1), *fast = open_events(200), *middle = open_events(10);
    for (int i = 1; i <= 50; i++)
        submit_one("plain");
    lw_events_close(middle); /* from the middle of the list */
    for (int i = 51; i <= 60; i++)
        submit_one("plain");
    for (lw_id id = 1; id <= 60; id++)
        expect_put(fast, id, LW_ENQUEUED);
    expect_none(fast);
    lw_event event = next_of(slow);
    assert_int_equal(event.id, 60);
    assert_int_equal(event.lost, 119);
    lw_events_close(slow);
    lw_events_close(fast);
    close_driven();
}

TEST(a_stream_that_nobody_reads_takes_no_memory_and_holds_up_nobody) {
    open_driven();
    for (int i = 0; i < 3000; i++)
        submit_one("plain");
    assert_int_equal(lw_test_run(engine), 3000); /* what the store needs is there now */
    uint64_t plain = allocations();
    for (int i = 0; i < 3000; i++)
        submit_one("plain");
    assert_int_equal(lw_test_run(engine), 3000);
    plain = allocations() - plain;
    lw_events *events = open_events(2);
    uint64_t told = allocations();
    for (int i = 0; i < 3000; i++)
        submit_one("plain");
    assert_int_equal(lw_test_run(engine), 3000);
    told = allocations() - told;
    CHECK(told <= plain + 1);
    assert_int_equal(next_of(events).lost, 4 * 3000 - 2);
    lw_events_close(events);
    close_driven();
}

/* ---- waiting ------------------------------------------------------------------------------ */

struct reader {
    lw_events *events;
    int64_t timeout_ms;
    int rc;
    lw_event event;
};

static void *read_one(void *arg) {
    struct reader *reader = arg;
    reader->rc = lw_events_next(reader->events, &reader->event, reader->timeout_ms);
    return NULL;
}

TEST(a_reader_that_waits_is_woken_by_the_next_event) {
    open_driven();
    struct reader reader = {.events = open_events(0), .timeout_ms = 60000};
    pthread_t thread = start_thread(read_one, &reader);
    await_sleepers(test_clock, 1);
    lw_id id = submit_one("plain");
    join_thread(thread);
    assert_status(reader.rc, LW_OK);
    assert_int_equal(reader.event.id, id);
    expect(reader.events, id, LW_CREATED, LW_ENQUEUED);
    reader.timeout_ms = -1;
    thread = start_thread(read_one, &reader);
    id = submit_one("plain");
    join_thread(thread);
    assert_status(reader.rc, LW_OK);
    assert_int_equal(reader.event.id, id);
    lw_events_close(reader.events);
    close_driven();
}

TEST(a_wait_ends_after_its_time_on_the_engines_clock) {
    open_driven();
    struct reader reader = {.events = open_events(0), .timeout_ms = 60000, .rc = 1};
    pthread_t thread = start_thread(read_one, &reader);
    await_sleepers(test_clock, 1);
    advance(test_clock, 59999);
    await_sleepers(test_clock, 1);
    advance(test_clock, 1);
    join_thread(thread);
    assert_status(reader.rc, LW_ETIMEDOUT);
    lw_events_close(reader.events);
    close_driven();
}

TEST(after_a_stop_a_reader_gets_the_rest_and_is_told_that_it_was_all) {
    open_driven();
    lw_events *events = open_events(0);
    struct reader reader = {.events = open_events(0), .timeout_ms = 60000};
    lw_id id = submit_one("plain");
    expect_put(reader.events, id, LW_ENQUEUED);
    pthread_t thread = start_thread(read_one, &reader);
    await_sleepers(test_clock, 1);
    assert_status(lw_stop(engine, LW_DROP, -1), LW_OK);
    join_thread(thread);
    assert_status(reader.rc, LW_ESTOPPING);
    expect_put(events, id, LW_ENQUEUED);
    lw_event event;
    assert_status(lw_events_next(events, &event, -1), LW_ESTOPPING);
    assert_status(lw_events_next(events, &event, 0), LW_ESTOPPING);
    lw_events *late = open_events(0);
    assert_status(lw_events_next(late, &event, -1), LW_ESTOPPING);
    assert_status(lw_cancel(engine, id), LW_OK); /* what happens even now is told */
    expect(late, id, LW_ENQUEUED, LW_ABORTED);
    assert_status(lw_events_next(late, &event, -1), LW_ESTOPPING);
    lw_events_close(late);
    lw_events_close(events);
    lw_events_close(reader.events);
    close_driven();
}

/* ---- threads ------------------------------------------------------------------------------ */

enum { SUBMITTERS = 2, READERS = 3 };

static long tasks_each;

static void *submit_many(void *arg) {
    (void)arg;
    for (long i = 0; i < tasks_each; i++)
        SUBMIT(engine, .kind = i % 3 ? "plain" : "other");
    return NULL;
}

static void open_threaded(void) {
    tasks_each = test_scale(test_is_sanitized() ? 1000 : 5000, 200000);
    engine = OPEN_ENGINE(.workers = 2);
    handle(engine, "plain", do_done, NULL);
    handle(engine, "other", do_done, NULL);
    start(engine);
}

static void submit_from_threads(void) {
    pthread_t threads[SUBMITTERS];
    for (int i = 0; i < SUBMITTERS; i++)
        threads[i] = start_thread(submit_many, NULL);
    for (int i = 0; i < SUBMITTERS; i++)
        join_thread(threads[i]);
}

/* Reads to the end; every task's events go on where the last one ended, but for what was lost. */
static void *follow(void *arg) {
    lw_events *events = arg;
    size_t count = (size_t)(SUBMITTERS * tasks_each) + 1;
    unsigned char *states = calloc(count, 1);
    bool has_lost = false;
    lw_event event;
    int rc;
    while ((rc = lw_events_next(events, &event, -1)) == LW_OK) {
        CHECK(event.id > 0 && event.id < count);
        has_lost |= event.lost > 0;
        CHECK(strcmp(event.kind, "plain") == 0 || strcmp(event.kind, "other") == 0);
        CHECK(event.from == states[event.id] || (has_lost && event.from > states[event.id]));
        CHECK(event.to > event.from);
        states[event.id] = (unsigned char)event.to;
    }
    assert_status(rc, LW_ESTOPPING);
    for (size_t id = 1; !has_lost && id < count; id++)
        assert_int_equal(states[id], LW_FINISHED);
    free(states);
    return NULL;
}

TEST(readers_see_each_task_in_its_order_while_others_submit_and_run) {
    open_threaded();
    lw_events *all = NULL, *some = NULL, *unread = NULL;
    size_t room = 4 * SUBMITTERS * (size_t)tasks_each;
    assert_status(lw_events_open(engine, &all, room < 1048576 ? room : 1048576), LW_OK);
    assert_status(lw_events_open(engine, &some, 16), LW_OK);
    assert_status(lw_events_open(engine, &unread, 1), LW_OK);
    pthread_t first = start_thread(follow, all), second = start_thread(follow, some);
    submit_from_threads();
    assert_status(lw_stop(engine, LW_DRAIN, -1), LW_OK);
    join_thread(first);
    join_thread(second);
    lw_events_close(all);
    lw_events_close(some);
    lw_events_close(unread);
    close_engine(engine);
}

static _Atomic long seen;

static void *share(void *arg) {
    lw_event event;
    while (lw_events_next(arg, &event, -1) == LW_OK)
        atomic_fetch_add(&seen, 1 + (long)event.lost);
    return NULL;
}

TEST(readers_that_share_a_stream_get_each_event_once_and_none_is_forgotten) {
    open_threaded();
    lw_events *events = NULL;
    assert_status(lw_events_open(engine, &events, 64), LW_OK);
    pthread_t readers[READERS];
    for (int i = 0; i < READERS; i++)
        readers[i] = start_thread(share, events);
    submit_from_threads();
    assert_status(lw_wait_idle(engine, -1), LW_OK);
    await_that(atomic_load(&seen)
               == 4 * SUBMITTERS * tasks_each); /* while all of them sleep or read */
    assert_status(lw_stop(engine, LW_DRAIN, -1), LW_OK);
    for (int i = 0; i < READERS; i++)
        join_thread(readers[i]);
    assert_int_equal(atomic_load(&seen), 4 * SUBMITTERS * tasks_each);
    lw_events_close(events);
    close_engine(engine);
}

TEST(streams_come_and_go_while_tasks_run) {
    open_threaded();
    pthread_t thread = start_thread(submit_many, NULL);
    for (long i = 0; i < tasks_each / 20; i++) {
        lw_events *events = NULL;
        lw_event event;
        assert_status(lw_events_open(engine, &events, 1 + (size_t)i % 50), LW_OK);
        int rc = lw_events_next(events, &event, 0);
        CHECK(rc == LW_OK || rc == LW_ETIMEDOUT);
        lw_events_close(events);
    }
    join_thread(thread);
    assert_status(lw_stop(engine, LW_DRAIN, -1), LW_OK);
    close_engine(engine);
}

/* ---- edges -------------------------------------------------------------------------------- */

TEST(nonsense_is_refused_and_nothing_is_left) {
    open_driven();
    lw_events *events = (lw_events *)&engine;
    lw_event event = {.id = 77};
    assert_status(lw_events_open(engine, NULL, 0), LW_EINVAL);
    assert_status(lw_events_open(NULL, &events, 0), LW_EINVAL);
    assert_null(events);
    assert_status(lw_events_open(engine, &events, 1048577), LW_EINVAL);
    assert_status(lw_events_open(engine, &events, SIZE_MAX), LW_EINVAL);
    assert_status(lw_events_next(NULL, &event, 0), LW_EINVAL);
    events = open_events(1048576);
    assert_status(lw_events_next(events, NULL, 0), LW_EINVAL);
    assert_status(lw_events_next(events, &event, -2), LW_EINVAL);
    assert_status(lw_events_next(events, &event, INT64_MIN), LW_EINVAL);
    assert_status(lw_events_next(events, &event, LW_TIMEOUT_MS_MAX + 1), LW_EINVAL);
    assert_status(lw_events_next(events, &event, 0), LW_ETIMEDOUT);
    assert_int_equal(event.id, 77); /* written only if there is one */
    lw_events_close(events);
    close_driven();
}

TEST(without_memory_no_stream_is_opened_and_the_engine_goes_on) {
    open_driven();
    lw_events *events = (lw_events *)&engine;
    lw_test_memory_fail_at(memory, 1);
    assert_status(lw_events_open(engine, &events, 10), LW_ENOMEM);
    assert_true(lw_test_memory_has_failed(memory));
    assert_null(events);
    submit_one("plain");
    assert_int_equal(lw_test_run(engine), 1);
    events = open_events(10);
    expect_none(events);
    lw_events_close(events);
    close_driven();
}

TEST(in_a_forked_child_a_stream_is_left_alone) {
    open_driven();
    lw_events *events = open_events(0);
    submit_one("plain");
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        lw_event event;
        lw_events *more;
        bool is_good = lw_events_next(events, &event, -1) == LW_EFORKED
                       && lw_events_open(engine, &more, 0) == LW_EFORKED;
        lw_events_close(events);
        _exit(is_good ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    expect_put(events, 1, LW_ENQUEUED);
    lw_events_close(events);
    close_driven();
}
