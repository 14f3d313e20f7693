/* Clients and readers of an SQLite store that somebody else owns. (Here the owner is often another
 * engine of the same process; tests/integration/sqlite_client.c has real processes.) */
#include "engines.h"

#include <legwork/outbox_sqlite.h>
#include <legwork/testing.h>
#include <stdio.h>
#include <string.h>

#define DB "tasks.db"
#define URL "sqlite:" DB

/* ---- help --------------------------------------------------------------------------------- */

static lw_engine *open_client(void) {
    return OPEN_ON(URL, .role = LW_ROLE_CLIENT);
}

static lw_engine *open_reader(void) {
    return OPEN_ON(URL, .role = LW_ROLE_READER);
}

static int try_open(lw_role role, const char *url, lw_error *err) {
    lw_engine *engine;
    *err = (lw_error){0};
    int rc = lw_open(&engine, url, LW_ENGINE_OPTIONS(.role = role), err);
    assert_null(engine);
    return rc;
}

static void make_store(void) {
    close_engine(OPEN_ON(URL, .workers = 1));
}

static lw_outcome do_result(lw_ctx *ctx, const lw_task *task) {
    return lw_done_with(ctx, task->payload);
}

static lw_engine *start_owner(struct gate *gate) {
    lw_engine *engine = OPEN_ON(URL, .workers = 2);
    handle(engine, "mail", do_result, NULL);
    handle(engine, "bad", do_fail, NULL);
    handle(engine, "gate", do_gate, LW_HANDLER_OPTIONS(.user = gate));
    start(engine);
    return engine;
}

static lw_state wait_for(lw_engine *engine, lw_id id) {
    lw_snapshot s = LW_SNAPSHOT_INIT;
    assert_status(lw_wait(engine, id, -1, &s), LW_OK);
    lw_state state = s.state;
    lw_snapshot_clear(&s);
    return state;
}

/* ---- open --------------------------------------------------------------------------------- */

TEST(where_no_store_is_a_client_or_reader_is_told_so) {
    lw_error err;
    assert_status(try_open(LW_ROLE_CLIENT, URL, &err), LW_ENOTFOUND);
    assert_sentence(&err, LW_ENOTFOUND, "no store yet");
    assert_status(try_open(LW_ROLE_READER, URL, &err), LW_ENOTFOUND);
    assert_status(try_open(LW_ROLE_READER, "sqlite:no/such/tasks.db", &err), LW_ENOTFOUND);
    assert_sentence(&err, LW_ENOTFOUND, "no/such/tasks.db");
    assert_status(try_open(LW_ROLE_OWNER, "sqlite:no/such/tasks.db", &err), LW_ESYSTEM);
    assert_sentence(&err, LW_ESYSTEM, "no/such/tasks.db");
    assert_status(try_open(LW_ROLE_CLIENT, "memory:", &err), LW_EINVAL);
    assert_sentence(&err, LW_EINVAL, "clients");
    assert_status(try_open((lw_role)3, URL, &err), LW_EINVAL);
    assert_sentence(&err, LW_EINVAL, "role");
}

TEST(a_second_owner_is_told_to_be_a_client) {
    lw_error err;
    lw_engine *owner = OPEN_ON(URL, .workers = 1);
    assert_status(try_open(LW_ROLE_OWNER, URL, &err), LW_EBUSY);
    assert_sentence(&err, LW_EBUSY, "owns the store already");
    lw_engine *client = open_client(), *reader = open_reader(), *another = open_client();
    close_engine(another);
    close_engine(reader);
    close_engine(owner); /* they may outlive it */
    SUBMIT(client, .kind = "mail");
    close_engine(client);
}

TEST(a_client_has_no_handlers_and_starts_nothing) {
    lw_error err = {0};
    lw_events *events;
    make_store();
    lw_engine *client = open_client();
    int threads = thread_count();
    assert_status(lw_start(client, &err), LW_EINVAL);
    assert_sentence(&err, LW_EINVAL, "owner");
    assert_status(lw_handle(client, "mail", do_done, NULL, NULL), LW_EINVAL);
    assert_status(lw_queue(client, "slow", NULL, NULL), LW_EINVAL);
    assert_status(lw_pause(client, "default"), LW_EINVAL);
    assert_status(lw_wait_idle(client, 0), LW_EINVAL);
    assert_status(lw_events_open(client, &events, 0), LW_EINVAL);
    assert_int_equal(thread_count(), threads);
    close_engine(client);
}

/* ---- stop --------------------------------------------------------------------------------- */

static _Atomic bool has_wait_begun;

static void *wait_for_ever(void *arg) {
    lw_engine *client = arg;
    lw_snapshot s = LW_SNAPSHOT_INIT;
    has_wait_begun = true;
    assert_status(lw_wait(client, LW_OUTBOX_SQLITE_ID(1), -1, &s), LW_ESTOPPING);
    assert_int_equal(s.state, LW_CREATED); /* nobody has taken it in */
    lw_snapshot_clear(&s);
    return NULL;
}

TEST(a_client_that_waits_is_told_when_its_own_engine_has_stopped) {
    make_store();
    lw_engine *client = open_client();
    lw_id id = SUBMIT(client, .kind = "mail");
    pthread_t waiters[2] = {start_thread(wait_for_ever, client),
                            start_thread(wait_for_ever, client)};
    await_that(has_wait_begun);
    assert_status(lw_stop(client, LW_DRAIN, -1), LW_OK);
    for (int i = 0; i < 2; i++)
        join_thread(waiters[i]);
    assert_status(lw_wait(client, id, 0, NULL), LW_PENDING);
    assert_status(lw_wait(client, id, 60000, NULL), LW_ESTOPPING);
    close_engine(client);
}

/* ---- submit and look ---------------------------------------------------------------------- */

TEST(what_a_client_submits_the_owner_runs_and_the_client_sees) {
    struct gate gate = GATE;
    lw_snapshot s = LW_SNAPSHOT_INIT;
    lw_engine *owner = start_owner(&gate), *client = open_client(), *reader = open_reader();
    for (int i = 0; i < 20; i++) {
        lw_id id = SUBMIT(client, .kind = "mail", .key = "k", .payload = LW_TEXT("hello"));
        assert_status(lw_wait(i % 2 ? client : reader, id, -1, &s), LW_OK);
        assert_int_equal(s.id, id);
        assert_int_equal(s.state, LW_FINISHED);
        assert_string_equal(s.kind, "mail");
        assert_string_equal(s.key, "k");
        assert_memory_equal(s.payload.data, "hello", 5);
        assert_memory_equal(s.result.data, "hello", 5);
        assert_int_equal(s.attempts, 1);
        CHECK(s.ended_ms >= s.created_ms && s.created_ms > 0);
    }
    assert_int_equal(wait_for(client, SUBMIT(client, .kind = "bad")), LW_FAILED);
    lw_snapshot_clear(&s);
    close_engine(reader);
    close_engine(client);
    close_engine(owner);
}

TEST(a_client_comes_before_the_owner_and_its_tasks_have_their_ids) {
    struct gate gate = GATE;
    lw_snapshot s = LW_SNAPSHOT_INIT;
    make_store();
    lw_engine *client = open_client();
    lw_id first = SUBMIT(client, .kind = "mail", .key = "a", .payload = LW_TEXT("x"));
    lw_id second = SUBMIT(client, .kind = "mail", .after = &first, .after_count = 1);
    CHECK(second > first);
    assert_status(lw_get(client, first, &s), LW_OK);
    assert_int_equal(s.state, LW_CREATED);
    assert_int_equal(s.enqueued_ms, 0);
    assert_string_equal(s.key, "a");
    assert_memory_equal(s.payload.data, "x", 1);
    assert_status(lw_find(client, "mail", "a", &s), LW_OK);
    assert_int_equal(s.id, first);
    assert_status(lw_wait(client, first, 0, &s), LW_PENDING);
    lw_engine *owner = start_owner(&gate);
    assert_int_equal(wait_for(client, second), LW_FINISHED);
    assert_int_equal(state_of(client, first), LW_FINISHED);
    assert_int_equal(state_of(owner, first), LW_FINISHED); /* the owner knows it by the same id */
    close_engine(owner);
    owner = start_owner(&gate); /* also after a restart, and its own ids go on as before */
    assert_int_equal(state_of(owner, second), LW_FINISHED);
    CHECK(SUBMIT(owner, .kind = "mail") < first);
    lw_snapshot_clear(&s);
    close_engine(owner);
    close_engine(client);
}

TEST(a_client_shows_a_wall_time_as_it_was_asked_for_though_the_clock_was_set_back) {
    const int64_t run_at = INT64_C(2000000000000), day = INT64_C(86400000);
    lw_snapshot s = LW_SNAPSHOT_INIT;
    lw_clock *clock = open_clock();
    assert_status(lw_test_clock_set_wall(clock, run_at - day), LW_OK);
    lw_engine *owner = OPEN_ON(URL, .workers = 1, .clock = clock);
    lw_id id = SUBMIT(owner, .kind = "mail", .run_at_ms = run_at);
    close_engine(owner);
    assert_status(lw_test_clock_set_wall(clock, run_at - 10 * day), LW_OK);
    lw_engine *client = OPEN_ON(URL, .role = LW_ROLE_CLIENT, .clock = clock);
    assert_status(lw_get(client, id, &s), LW_OK);
    assert_int_equal(s.state, LW_SCHEDULED);
    assert_int_equal(s.due_ms, run_at);
    lw_snapshot_clear(&s);
    close_engine(client);
    lw_test_clock_close(clock);
}

TEST(what_is_not_there_is_not_found) {
    lw_snapshot s = LW_SNAPSHOT_INIT;
    lw_explanation why;
    make_store();
    lw_engine *client = open_client();
    assert_status(lw_get(client, 1, &s), LW_ENOTFOUND);
    assert_status(lw_get(client, LW_OUTBOX_SQLITE_ID(1), &s), LW_ENOTFOUND);
    assert_status(lw_get(client, 0, &s), LW_ENOTFOUND);
    assert_status(lw_get(client, UINT64_MAX, &s), LW_ENOTFOUND);
    assert_status(lw_find(client, "mail", "x", &s), LW_ENOTFOUND);
    assert_status(lw_wait(client, 5, -1, &s), LW_ENOTFOUND);
    assert_status(lw_explain(client, 5, &why), LW_ENOTFOUND);
    assert_status(lw_cancel(client, 5), LW_ENOTFOUND);
    assert_status(lw_get(client, 5, NULL), LW_EINVAL);
    close_engine(client);
}

static void submit_1000(lw_engine *client, const lw_task *task) {
    const lw_task *tasks[1000];
    for (int i = 0; i < 1000; i++)
        tasks[i] = task;
    assert_status(lw_submit_many(client, tasks, 1000, NULL, NULL), LW_OK);
}

static uint64_t count_finished(lw_engine *engine) {
    lw_engine_stats stats;
    assert_status(lw_get_stats(engine, &stats), LW_OK);
    return stats.finished;
}

TEST(a_drain_runs_what_was_submitted_to_the_file_before_it) {
    make_store();
    lw_engine *client = open_client();
    for (int i = 0; i < 3; i++)
        submit_1000(client, LW_TASK(.kind = "mail"));
    lw_engine *owner = start_owner(NULL);
    assert_status(lw_stop(owner, LW_DRAIN, -1), LW_OK);
    assert_int_equal(count_finished(owner), 3000);
    submit_1000(client, LW_TASK(.kind = "mail")); /* it waits for the next one */
    close_engine(owner);
    owner = start_owner(NULL);
    assert_status(lw_wait_idle(owner, -1), LW_OK);
    assert_int_equal(count_finished(owner), 4000);
    submit_1000(client, LW_TASK(.kind = "mail"));
    assert_status(lw_wait_idle(owner, -1), LW_OK);
    assert_int_equal(count_finished(owner), 5000);
    close_engine(client);
    close_engine(owner);
}

TEST(a_key_that_is_taken_makes_no_second_task) {
    struct gate gate = GATE;
    lw_snapshot s = LW_SNAPSHOT_INIT;
    lw_engine *owner = start_owner(&gate), *client = open_client();
    lw_id first = SUBMIT(client, .kind = "gate", .key = "k");
    tally_await(&gate.arrived, 1);
    lw_id second = SUBMIT(client, .kind = "gate", .key = "k");
    await_that(lw_get(client, second, &s) == LW_ENOTFOUND);
    assert_status(lw_find(client, "gate", "k", &s), LW_OK);
    assert_int_equal(s.id, first);
    gate_open(&gate);
    assert_int_equal(wait_for(client, first), LW_FINISHED);
    lw_snapshot_clear(&s);
    close_engine(client);
    close_engine(owner);
}

static bool note_id(void *user, const lw_snapshot *task) {
    lw_id **next = user;
    *(*next)++ = task->id;
    return true;
}

TEST(many_are_submitted_at_once_and_listed_in_order) {
    struct gate gate = GATE;
    const lw_task *tasks[50];
    lw_id ids[50], listed[60], *next = listed;
    lw_engine_stats stats;
    make_store();
    lw_engine *client = open_client();
    const lw_task *even = LW_TASK(.kind = "gate"), *odd = LW_TASK(.kind = "mail", .key = "odd");
    for (int i = 0; i < 50; i++)
        tasks[i] = i % 2 ? odd : even;
    tasks[7] = LW_TASK(.kind = "a b");
    lw_error err = {0};
    assert_status(lw_submit_many(client, tasks, 50, ids, &err), LW_EINVAL);
    assert_sentence(&err, LW_EINVAL, "task 8 of 50");
    assert_int_equal(lw_list(client, NULL, note_id, &next), 0);
    tasks[7] = LW_TASK(.kind = "mail", .queue = "slow");
    assert_status(lw_submit_many(client, tasks, 50, ids, &err), LW_OK);
    assert_int_equal(lw_list(client, NULL, note_id, &next), 50);
    assert_memory_equal(ids, listed, sizeof ids);
    next = listed;
    assert_int_equal(lw_list(client, LW_FILTER(.kind = "mail", .limit = 3), note_id, &next), 3);
    assert_int_equal(listed[2], ids[5]);
    next = listed;
    assert_int_equal(lw_list(client, LW_FILTER(.after = ids[47]), note_id, &next), 2);
    assert_int_equal(lw_list(client, LW_FILTER(.queue = "slow"), note_id, &next), 1);
    assert_int_equal(lw_list(client, LW_FILTER(.key = "odd"), note_id, &next), 24);
    next = listed;
    assert_int_equal(lw_list(client, LW_FILTER(.state = LW_FINISHED), note_id, &next), 0);
    assert_status(lw_get_stats(client, &stats), LW_OK);
    assert_int_equal(stats.created, 50);

    lw_engine *owner = start_owner(&gate); /* 2 run, the others of the kind wait */
    tally_await(&gate.arrived, 2);
    next = listed;
    await_that(lw_list(client, LW_FILTER(.state = LW_STARTED), note_id, (next = listed, &next))
               == 2);
    await_that(lw_list(client, LW_FILTER(.state = LW_ENQUEUED, .kind = "gate"), note_id,
                       (next = listed, &next))
               == 23);
    assert_int_equal(lw_list(client, LW_FILTER(.is_unfinished = true, .kind = "gate"), note_id,
                             (next = listed, &next)),
                     25);
    gate_open(&gate);
    assert_status(lw_stop(owner, LW_DRAIN, -1), LW_OK);
    close_engine(owner);
    assert_int_equal(
        lw_list(client, LW_FILTER(.state = LW_FINISHED), note_id, (next = listed, &next)),
        27); /* of 24 with the key "odd" one */
    close_engine(client);
}

TEST(a_task_that_cannot_be_is_refused_with_a_sentence) {
    lw_error err = {0};
    make_store();
    lw_engine *client = open_client();
    assert_status(lw_submit(client, NULL, NULL, &err), LW_EINVAL);
    assert_status(lw_submit(client, LW_TASK(.run = do_done), NULL, &err), LW_EINVAL);
    assert_sentence(&err, LW_EINVAL, "function of this process");
    assert_status(lw_submit(client, LW_TASK(.kind = "mail", .delay_ms = -1), NULL, NULL),
                  LW_EINVAL);
    assert_status(lw_stop(client, LW_DRAIN, -1), LW_OK);
    assert_status(lw_submit(client, LW_TASK(.kind = "mail"), NULL, &err), LW_ESTOPPING);
    close_engine(client);
}

TEST(what_waits_for_the_owner_is_bounded) {
    lw_error err = {0};
    struct gate gate = GATE;
    make_store();
    lw_engine *client = OPEN_ON(URL, .role = LW_ROLE_CLIENT, .task_limit = 3);
    for (int i = 0; i < 3; i++)
        SUBMIT(client, .kind = "mail");
    assert_status(lw_submit(client, LW_TASK(.kind = "mail"), NULL, &err), LW_EFULL);
    assert_sentence(&err, LW_EFULL, "owner");
    lw_engine *owner = start_owner(&gate);
    await_that(lw_submit(client, LW_TASK(.kind = "mail"), NULL, NULL) == LW_OK);
    close_engine(owner);
    close_engine(client);
}

TEST(the_bytes_that_wait_for_the_owner_are_bounded) {
    enum { SIZE = 400, LIMIT = 1000 };
    char payload[LIMIT + 1] = "";
    lw_error err = {0};
    struct gate gate = GATE;
    make_store();
    lw_engine *client = OPEN_ON(URL, .role = LW_ROLE_CLIENT, .byte_limit = LIMIT);
    lw_engine *other = open_client();
    const lw_task *big = LW_TASK(.kind = "mail", .payload = {payload, SIZE});
    const lw_task *huge = LW_TASK(.kind = "mail", .payload = {payload, LIMIT + 1});
    assert_status(lw_submit(client, huge, NULL, &err), LW_EFULL);
    assert_sentence(&err, LW_EFULL, "never fit");
    assert_status(lw_submit(client, big, NULL, NULL), LW_OK);
    assert_status(lw_submit(other, big, NULL, NULL), LW_OK);
    assert_status(lw_submit(client, big, NULL, &err), LW_EFULL);
    assert_sentence(&err, LW_EFULL, "payloads of 800 bytes wait for the owner");
    const lw_task *two[] = {LW_TASK(.kind = "mail", .payload = {payload, 100}),
                            LW_TASK(.kind = "mail", .payload = {payload, 101})};
    assert_status(lw_submit_many(client, two, 2, NULL, &err), LW_EFULL);
    assert_status(lw_submit(client, two[0], NULL, NULL), LW_OK);
    assert_status(lw_submit(client, two[0], NULL, NULL), LW_OK);
    assert_status(lw_submit(client, LW_TASK(.kind = "mail"), NULL, NULL), LW_OK);
    lw_engine *owner = start_owner(&gate); /* and what has been taken in counts no more */
    for (int i = 0; i < 10; i++)
        await_that(lw_submit(client, big, NULL, NULL) == LW_OK);
    close_engine(owner);
    close_engine(other);
    close_engine(client);
}

static void note_answer(void *user, int status, lw_id id) {
    struct tally *answers = user;
    assert_status(status, LW_OK);
    CHECK(id > LW_OUTBOX_SQLITE_ID(0));
    tally_add(answers, 1);
}

TEST(a_client_can_submit_with_a_callback) {
    struct tally answers = TALLY;
    make_store();
    lw_engine *client = open_client();
    for (int i = 0; i < 10; i++)
        assert_status(lw_submit_async(client, LW_TASK(.kind = "mail"), note_answer, &answers, NULL),
                      LW_OK);
    tally_await(&answers, 10);
    assert_status(lw_submit_async(client, LW_TASK(.kind = "a b"), note_answer, &answers, NULL),
                  LW_EINVAL);
    close_engine(client);
    assert_int_equal(tally_read(&answers), 10);
}

/* ---- steer and explain -------------------------------------------------------------------- */

TEST(a_client_asks_the_owner_to_cancel_retry_and_forget) {
    struct gate gate = GATE;
    lw_error err = {0};
    lw_engine *owner = start_owner(&gate), *client = open_client();
    lw_id bad = SUBMIT(client, .kind = "bad"),
          later = SUBMIT(client, .kind = "mail", .delay_ms = 3600000);
    assert_int_equal(wait_for(client, bad), LW_FAILED);
    await_that(state_of(client, later) == LW_SCHEDULED);
    assert_status(lw_forget(client, later), LW_PENDING); /* not terminal */
    assert_status(lw_cancel(client, later), LW_PENDING);
    assert_int_equal(wait_for(client, later), LW_ABORTED);
    assert_status(lw_cancel(client, later), LW_ENOTFOUND);
    assert_status(lw_retry_now(client, later, &err), LW_PENDING);
    await_that(state_of(owner, later) == LW_FINISHED);
    await_that(lw_retry_now(client, later, &err) == LW_EINVAL);
    assert_sentence(&err, LW_EINVAL, "finished");
    assert_status(lw_forget(client, bad), LW_PENDING);
    await_that(state_of(client, bad) == 0);
    close_engine(client);
    close_engine(owner);
}

TEST(a_task_that_waits_for_room_can_be_cancelled_without_it) {
    struct gate gate = GATE;
    lw_engine *owner = OPEN_ON(URL, .workers = 1);
    handle(owner, "gate", do_gate, LW_HANDLER_OPTIONS(.user = &gate));
    handle(owner, "mail", do_result, NULL);
    lw_queue(owner, "narrow", LW_QUEUE_OPTIONS(.limit = 1), NULL);
    start(owner);
    lw_engine *client = open_client();
    SUBMIT(client, .kind = "gate", .queue = "narrow");
    tally_await(&gate.arrived, 1);
    lw_id held = SUBMIT(client, .kind = "mail", .queue = "narrow", .key = "held");
    lw_id behind = SUBMIT(client, .kind = "mail", .queue = "narrow");
    lw_id next = SUBMIT(client, .kind = "mail", .after = &held, .after_count = 1);
    lw_id passing = SUBMIT(client, .kind = "mail", .delay_ms = 3600000);
    await_that(state_of(client, passing) == LW_SCHEDULED);
    assert_int_equal(state_of(owner, next), 0); /* it stays with the one that it waits for */
    assert_status(lw_cancel(client, held), LW_PENDING);
    assert_int_equal(wait_for(client, held), LW_ABORTED);
    lw_snapshot s = LW_SNAPSHOT_INIT;
    assert_status(lw_find(owner, "mail", "held", &s), LW_OK);
    assert_string_equal(s.last_error, "cancelled");
    lw_snapshot_clear(&s);
    assert_int_equal(wait_for(client, next), LW_ABORTED);
    assert_int_equal(state_of(client, behind), LW_CREATED); /* there is no more room than before */
    gate_open(&gate);
    assert_int_equal(wait_for(client, behind), LW_FINISHED);
    close_engine(client);
    close_engine(owner);
}

TEST(a_client_explains_what_it_can_see) {
    struct gate gate = GATE;
    lw_explanation why;
    make_store();
    lw_engine *reader = open_reader(), *client = open_client();
    lw_id id = SUBMIT(client, .kind = "gate");
    lw_id next = SUBMIT(client, .kind = "mail", .after = (lw_id[]){id, id}, .after_count = 2);
    lw_id later = SUBMIT(client, .kind = "mail", .delay_ms = 3600000);
    assert_status(lw_explain(reader, id, &why), LW_OK);
    CHECK(strstr(why.reasons[0], "outbox") && strstr(why.reasons[1], "nobody owns"));
    lw_engine *owner = start_owner(&gate);
    tally_await(&gate.arrived, 1);
    await_that(lw_explain(reader, id, &why) == LW_OK && why.state == LW_STARTED);
    CHECK(strstr(why.reasons[0], "runs it"));
    await_that(lw_explain(reader, next, &why) == LW_OK && strstr(why.reasons[0], "waits for task"));
    CHECK(!strstr(why.reasons[0], "more"));
    await_that(lw_explain(reader, later, &why) == LW_OK && why.state == LW_SCHEDULED);
    CHECK(strstr(why.reasons[0], "delay"));
    gate_open(&gate);
    assert_int_equal(wait_for(reader, next), LW_FINISHED);
    assert_status(lw_explain(reader, next, &why), LW_OK);
    CHECK(strstr(why.reasons[0], "it finished") != NULL);
    close_engine(reader);
    close_engine(client);
    close_engine(owner);
}

TEST(a_reader_asks_for_nothing) {
    lw_error err = {0};
    make_store();
    lw_engine *client = open_client(), *reader = open_reader();
    lw_id id = SUBMIT(client, .kind = "mail");
    assert_status(lw_submit(reader, LW_TASK(.kind = "mail"), NULL, &err), LW_EINVAL);
    assert_sentence(&err, LW_EINVAL, "LW_ROLE_CLIENT");
    assert_status(lw_cancel(reader, id), LW_EINVAL);
    assert_int_equal(state_of(reader, id), LW_CREATED);
    close_engine(reader);
    close_engine(client);
}

/* ---- the outbox gives ids, too ------------------------------------------------------------ */

TEST(the_outbox_says_which_id_the_task_will_have) {
    struct gate gate = GATE;
    sqlite3 *db;
    lw_id id = 0, other = 0;
    assert_int_equal(sqlite3_open(DB, &db), SQLITE_OK);
    sqlite3_busy_timeout(db, 20000);
    assert_status(lw_outbox_sqlite_prepare(db, NULL), LW_OK);
    assert_int_equal(sqlite3_exec(db,
                                  "CREATE TABLE orders (n INTEGER PRIMARY KEY);"
                                  "INSERT INTO orders VALUES (4711)",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    assert_status(lw_outbox_sqlite_put(db, LW_TASK(.kind = "mail"), &id, NULL), LW_OK);
    assert_int_equal(sqlite3_last_insert_rowid(db), 4711); /* the program's own */
    lw_engine *owner = start_owner(&gate);
    await_that(state_of(owner, id) == LW_FINISHED);
    sqlite3_exec(db, "BEGIN", NULL, NULL, NULL);
    assert_status(lw_outbox_sqlite_put(db, LW_TASK(.kind = "mail"), &other, NULL), LW_OK);
    sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
    assert_int_equal(state_of(owner, other), 0);
    close_engine(owner);
    sqlite3_close(db);
}

TEST(a_row_with_a_number_that_was_used_is_dropped_and_kills_nobody) {
    struct gate gate = GATE;
    sqlite3 *db;
    lw_engine *owner = start_owner(&gate), *client = open_client();
    lw_id id = SUBMIT(client, .kind = "mail");
    assert_int_equal(wait_for(client, id), LW_FINISHED);
    char sql[300];
    snprintf(sql, sizeof sql,
             "BEGIN; INSERT INTO legwork_outbox (seq, kind) VALUES (%llu, 'mail');"
             "INSERT INTO legwork_outbox (seq, kind) VALUES (-5, 'mail');"
             "INSERT INTO legwork_outbox (seq, kind) VALUES (9000000000000000, 'mail'); COMMIT",
             id - LW_OUTBOX_SQLITE_ID(0));
    assert_int_equal(sqlite3_open(DB, &db), SQLITE_OK);
    sqlite3_busy_timeout(db, 20000);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    lw_engine_stats stats;
    await_that(lw_get_stats(client, &stats) == LW_OK && stats.created == 0);
    assert_int_equal(stats.finished, 1);
    sqlite3_close(db);
    close_engine(client);
    close_engine(owner);
}
