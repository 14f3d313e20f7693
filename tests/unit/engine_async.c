/* Submitting without waiting for the disk: the callback comes once, with how it went. */
#include "engines.h"

#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>

/* What callbacks were told, and what they do beyond noting it. */
struct heard {
    struct tally calls;
    int status;
    lw_id id;
    struct gate *gate; /* to pass; NULL: none */
};

static void hear(void *user, int status, lw_id id) {
    struct heard *heard = user;
    if (heard->gate)
        gate_pass(heard->gate);
    heard->status = status;
    heard->id = id;
    tally_add(&heard->calls, 1);
}

#define SUBMIT_ASYNC(engine, heard, ...) submit_async(engine, heard, LW_TASK(__VA_ARGS__))
static void submit_async(lw_engine *engine, struct heard *heard, const lw_task *task) {
    lw_error err = {0};
    int rc = lw_submit_async(engine, task, hear, heard, &err);
    if (rc < 0)
        fprintf(stderr, "%s\n", err.message);
    assert_status(rc, LW_OK);
}

static int refuse(lw_engine *engine, struct heard *heard, const lw_task *task, lw_error *err) {
    *err = (lw_error){0};
    return lw_submit_async(engine, task, hear, heard, err);
}

/* ---- told --------------------------------------------------------------------------------- */

ENGINE_TEST(the_callback_has_the_id_of_a_task_that_is_there) {
    struct heard heard = {.calls = TALLY};
    lw_snapshot s = LW_SNAPSHOT_INIT;
    lw_engine *engine = OPEN_ON(url, .workers = 1);
    handle(engine, "mail", do_done, NULL);
    start(engine);
    for (int i = 1; i <= 50; i++) {
        SUBMIT_ASYNC(engine, &heard, .kind = "mail", .payload = LW_TEXT("hello"));
        tally_await(&heard.calls, i);
        assert_status(heard.status, LW_OK);
        assert_status(lw_wait(engine, heard.id, -1, &s), LW_OK);
        assert_memory_equal(s.payload.data, "hello", 5);
    }
    lw_snapshot_clear(&s);
    close_engine(engine);
    assert_int_equal(tally_read(&heard.calls), 50);
}

ENGINE_TEST(what_was_told_is_there_after_a_restart) {
    struct heard heard = {.calls = TALLY};
    if (!is_durable_url(url))
        return;
    lw_engine *engine = OPEN_ON(url, .workers = 1);
    SUBMIT_ASYNC(engine, &heard, .kind = "mail");
    tally_await(&heard.calls, 1);
    close_engine(engine);
    engine = OPEN_ON(url, .workers = 1);
    assert_int_equal(state_of(engine, heard.id), LW_ENQUEUED);
    close_engine(engine);
}

ENGINE_TEST(a_key_that_is_taken_is_told_with_the_id_that_has_it) {
    struct heard first = {.calls = TALLY}, second = {.calls = TALLY};
    lw_engine *engine = OPEN_ON(url, .workers = 1);
    SUBMIT_ASYNC(engine, &first, .kind = "mail", .key = "k");
    SUBMIT_ASYNC(engine, &second, .kind = "mail", .key = "k", .payload = LW_TEXT("x"));
    tally_await(&first.calls, 1);
    tally_await(&second.calls, 1);
    assert_status(first.status, LW_OK);
    assert_status(second.status, LW_EXISTS);
    assert_int_equal(second.id, first.id);
    close_engine(engine);
}

ENGINE_TEST(workers_that_are_busy_do_not_hold_callbacks_up) {
    struct heard heard = {.calls = TALLY};
    struct gate gate = GATE;
    lw_engine *engine = OPEN_ON(url, .workers = 1);
    handle(engine, "slow", do_gate, LW_HANDLER_OPTIONS(.user = &gate));
    start(engine);
    SUBMIT(engine, .kind = "slow");
    tally_await(&gate.arrived, 1);
    SUBMIT_ASYNC(engine, &heard, .kind = "slow");
    tally_await(&heard.calls, 1);
    assert_int_equal(tally_read(&gate.arrived), 1);
    gate_open(&gate);
    close_engine(engine);
}

/* ---- a disk that is full ------------------------------------------------------------------ */

static void limit_files(rlim_t size) {
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = size;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

ENGINE_TEST(what_cannot_be_written_is_told_and_can_be_repeated) {
    struct heard heard = {.calls = TALLY};
    if (!is_durable_url(url))
        return;
    signal(SIGXFSZ, SIG_IGN);
    lw_engine *engine = OPEN_ON(url, .workers = 1);
    limit_files(4096);
    SUBMIT_ASYNC(engine, &heard, .kind = "mail", .key = "k");
    tally_await(&heard.calls, 1);
    CHECK(heard.status == LW_ESYSTEM || heard.status == LW_EUNSURE);
    assert_int_equal(heard.id, 0);
    limit_files(RLIM_INFINITY);
    for (int calls = 1; heard.status < 0; calls++) { /* it tries again by itself, after a while */
        SUBMIT_ASYNC(engine, &heard, .kind = "mail", .key = "k");
        tally_await(&heard.calls, calls + 1);
    }
    CHECK(heard.id != 0);
    assert_int_equal(state_of(engine, heard.id), LW_ENQUEUED);
    close_engine(engine);
}

/* ---- refused ------------------------------------------------------------------------------ */

ENGINE_TEST(what_is_refused_at_once_is_never_called) {
    struct heard heard = {.calls = TALLY};
    lw_error err;
    lw_engine *engine = OPEN_ON(url, .workers = 1, .task_limit = 2, .overflow = LW_REFUSE);
    assert_status(refuse(NULL, &heard, LW_TASK(.kind = "mail"), &err), LW_EINVAL);
    assert_status(refuse(engine, &heard, NULL, &err), LW_EINVAL);
    assert_status(refuse(engine, &heard, LW_TASK(.kind = "a b"), &err), LW_EINVAL);
    assert_sentence(&err, LW_EINVAL, "kind");
    assert_status(lw_submit_async(engine, LW_TASK(.kind = "mail"), NULL, NULL, &err), LW_EINVAL);
    assert_sentence(&err, LW_EINVAL, "lw_submit");
    SUBMIT_ASYNC(engine, &heard, .kind = "mail"); /* what is under way has taken its room */
    SUBMIT_ASYNC(engine, &heard, .kind = "mail");
    assert_status(refuse(engine, &heard, LW_TASK(.kind = "mail"), &err), LW_EFULL);
    assert_sentence(&err, LW_EFULL, "no room");
    assert_status(lw_submit_async(engine, LW_TASK(.kind = "mail"), hear, &heard, NULL), LW_EFULL);
    assert_status(lw_stop(engine, LW_DROP, -1), LW_OK);
    assert_status(refuse(engine, &heard, LW_TASK(.kind = "mail"), &err), LW_ESTOPPING);
    close_engine(engine);
    assert_int_equal(tally_read(&heard.calls), 2);
}

ENGINE_TEST(callbacks_are_bounded_even_where_keys_are_taken) {
    struct gate gate = GATE;
    struct heard heard = {.calls = TALLY, .gate = &gate};
    lw_error err;
    lw_engine *engine = OPEN_ON(url, .workers = 1, .task_limit = 2, .reserve = LW_ZERO);
    SUBMIT_ASYNC(engine, &heard, .kind = "mail", .key = "k");
    SUBMIT_ASYNC(engine, &heard, .kind = "mail", .key = "k");
    assert_status(refuse(engine, &heard, LW_TASK(.kind = "mail", .key = "k"), &err), LW_EFULL);
    assert_sentence(&err, LW_EFULL, "callbacks");
    gate_open(&gate);
    tally_await(&heard.calls, 2);
    close_engine(engine);
}

/* ---- inside ------------------------------------------------------------------------------- */

struct chain {
    lw_engine *engine;
    struct tally calls;
    int stop_status, close_status, idle_status;
};

static void submit_next(void *user, int status, lw_id id) {
    struct chain *chain = user;
    (void)id;
    assert_status(status, LW_OK);
    if (tally_read(&chain->calls) < 5) /* there is no room but the reserve */
        assert_status(
            lw_submit_async(chain->engine, LW_TASK(.kind = "mail"), submit_next, chain, NULL),
            LW_OK);
    tally_add(&chain->calls, 1);
}

ENGINE_TEST(a_callback_submits_without_waiting_for_room) {
    struct chain chain = {.calls = TALLY};
    lw_engine *engine = chain.engine = OPEN_ON(url, .workers = 1, .task_limit = 1, .reserve = 10);
    assert_status(lw_submit_async(engine, LW_TASK(.kind = "mail"), submit_next, &chain, NULL),
                  LW_OK);
    tally_await(&chain.calls, 6);
    close_engine(engine);
}

static void stop_inside(void *user, int status, lw_id id) {
    struct chain *chain = user;
    (void)status, (void)id;
    chain->stop_status = lw_stop(chain->engine, LW_DRAIN, -1);
    chain->close_status = lw_close(chain->engine);
    chain->idle_status = lw_wait_idle(chain->engine, -1);
    tally_add(&chain->calls, 1);
}

ENGINE_TEST(a_callback_can_begin_a_stop_and_does_not_wait_for_it) {
    struct chain chain = {.calls = TALLY};
    lw_engine *engine = chain.engine = OPEN_ON(url, .workers = 1);
    handle(engine, "mail", do_done, NULL);
    start(engine);
    assert_status(lw_submit_async(engine, LW_TASK(.kind = "mail"), stop_inside, &chain, NULL),
                  LW_OK);
    tally_await(&chain.calls, 1);
    assert_status(chain.stop_status, LW_PENDING);
    assert_status(chain.close_status, LW_EDEADLOCK);
    assert_status(chain.idle_status, LW_EDEADLOCK);
    assert_status(lw_stop(engine, LW_DRAIN, -1), LW_OK);
    close_engine(engine);
}

static void end_thread(void *user, int status, lw_id id) {
    hear(user, status, id);
    pthread_exit(NULL);
}

ENGINE_TEST(a_callback_that_ends_its_thread_does_not_silence_the_others) {
    struct heard heard = {.calls = TALLY};
    lw_engine *engine = OPEN_ON(url, .workers = 1);
    for (int i = 0; i < 20; i++)
        assert_status(lw_submit_async(engine, LW_TASK(.kind = "mail"), end_thread, &heard, NULL),
                      LW_OK);
    SUBMIT_ASYNC(engine, &heard, .kind = "mail");
    tally_await(&heard.calls, 21);
    close_engine(engine);
    assert_int_equal(tally_read(&heard.calls), 21);
}

/* ---- stop and close ----------------------------------------------------------------------- */

ENGINE_TEST(a_stop_waits_for_the_callbacks) {
    struct gate gate = GATE;
    struct heard heard = {.calls = TALLY, .gate = &gate};
    lw_engine *engine = OPEN_ON(url, .workers = 1);
    handle(engine, "mail", do_done, NULL);
    start(engine);
    for (int i = 0; i < 100; i++)
        SUBMIT_ASYNC(engine, &heard, .kind = "mail");
    tally_await(&gate.arrived, 1);
    assert_status(lw_stop(engine, LW_DRAIN, 0), LW_ETIMEDOUT);
    assert_int_equal(tally_read(&heard.calls), 0);
    gate_open(&gate);
    assert_status(lw_stop(engine, LW_DRAIN, -1), LW_OK);
    assert_int_equal(tally_read(&heard.calls), 100);
    close_engine(engine);
    assert_int_equal(tally_read(&heard.calls), 100);
}

ENGINE_TEST(a_close_calls_all_that_are_outstanding_once) {
    struct heard heard = {.calls = TALLY};
    for (int round = 1; round <= 5; round++) {
        lw_engine *engine = OPEN_ON(url, .workers = 2);
        handle(engine, "mail", do_done, NULL);
        if (round % 2)
            start(engine);
        for (int i = 0; i < 500; i++)
            SUBMIT_ASYNC(engine, &heard, .kind = "mail");
        close_engine(engine);
        assert_int_equal(tally_read(&heard.calls), round * 500);
    }
}

static void *do_nothing(void *arg) {
    return arg;
}

ENGINE_TEST(after_a_stop_that_timed_out_they_are_called_all_the_same) {
    struct gate gate = GATE;
    struct heard heard = {.calls = TALLY, .gate = &gate};
    join_thread(start_thread(do_nothing, NULL)); /* a sanitizer starts its own with the first */
    int threads = thread_count();
    lw_engine *engine = OPEN_ON(url, .workers = 1);
    for (int i = 0; i < 100; i++)
        SUBMIT_ASYNC(engine, &heard, .kind = "mail");
    tally_await(&gate.arrived, 1);
    assert_status(lw_stop(engine, LW_DROP, 0), LW_ETIMEDOUT);
    assert_status(lw_close(engine), LW_PENDING);
    gate_open(&gate);
    tally_await(&heard.calls, 100);
    await_that(thread_count() == threads); /* and it is freed */
    assert_int_equal(tally_read(&heard.calls), 100);
}

/* ---- without threads ---------------------------------------------------------------------- */

ENGINE_TEST(an_engine_that_is_driven_calls_where_it_is_driven) {
    struct heard heard = {.calls = TALLY};
    lw_clock *clock = open_clock();
    int threads = thread_count();
    lw_engine *engine = OPEN_ON(url, .workers = LW_ZERO, .clock = clock);
    handle(engine, "mail", do_done, NULL);
    start(engine);
    SUBMIT_ASYNC(engine, &heard, .kind = "mail");
    assert_int_equal(tally_read(&heard.calls), 0);
    assert_int_equal(lw_test_run(engine), 1);
    assert_int_equal(tally_read(&heard.calls), 1);
    SUBMIT_ASYNC(engine, &heard, .kind = "mail");
    assert_int_equal(thread_count(), threads);
    close_engine(engine);
    assert_int_equal(tally_read(&heard.calls), 2);
    lw_test_clock_close(clock);
}
