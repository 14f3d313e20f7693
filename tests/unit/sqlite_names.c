/* Kinds and queues of an SQLite store over a restart: those of tasks come back, the others do
 * not. */
#include "engines.h"
#include "own_sqlite.h"

#include <legwork/lease.h>
#include <legwork/outbox_sqlite.h>
#include <stdio.h>
#include <string.h>

#define DB "tasks.db"
#define URL "sqlite:" DB

struct seen {
    int count;
    char text[256];
};

static bool see_kind(void *user, const lw_kind_stats *kind) {
    struct seen *seen = user;
    size_t used = strlen(seen->text);
    seen->count++;
    snprintf(seen->text + used, sizeof seen->text - used, "%s ", kind->name);
    return true;
}

static bool see_queue(void *user, const lw_queue_stats *queue) {
    return see_kind(user, &(lw_kind_stats){.name = queue->name});
}

static void assert_names(lw_engine *engine, const char *kinds, const char *queues) {
    struct seen k = {0}, q = {0};
    assert_true(lw_list_kinds(engine, see_kind, &k) >= 0);
    assert_true(lw_list_queues(engine, see_queue, &q) >= 0);
    assert_string_equal(k.text, kinds);
    assert_string_equal(q.text, queues);
}

static lw_engine *open_idle(int kinds, int queues) {
    lw_engine *engine =
        OPEN_ON(URL, .workers = 1, .kind_count_max = kinds, .queue_count_max = queues);
    start(engine);
    return engine;
}

TEST(names_without_a_task_do_not_come_back) {
    lw_engine *engine = OPEN_ON(URL, .workers = LW_ZERO);
    handle(engine, "gone", do_done, LW_HANDLER_OPTIONS(.retention = {.finished_ms = LW_ZERO}));
    handle(engine, "kept", do_done, LW_HANDLER_OPTIONS(.retention = {.finished_ms = -1}));
    assert_status(lw_queue(engine, "declared", NULL, NULL), LW_OK);
    start(engine);
    SUBMIT(engine, .kind = "gone", .queue = "gone");
    SUBMIT(engine, .kind = "kept", .queue = "retained");
    assert_int_equal(lw_test_run(engine), 2);
    SUBMIT(engine, .kind = "waits", .queue = "waiting");
    close_engine(engine);
    engine = open_idle(0, 0);
    assert_names(engine, "kept waits ", "retained waiting default ");
    close_engine(engine);
}

/* A lower limit keeps nobody out of his own file; it holds for what comes. */
TEST(a_file_with_more_names_than_the_limit_opens_and_takes_no_others) {
    lw_engine *engine = open_idle(0, 0);
    lw_error err = {0};
    char name[16];
    for (int i = 0; i < 20; i++) {
        snprintf(name, sizeof name, "n%d", i);
        SUBMIT(engine, .kind = name, .queue = name);
    }
    close_engine(engine);
    engine = open_idle(5, 5);
    SUBMIT(engine, .kind = "n19", .queue = "n3");
    assert_status(lw_submit(engine, LW_TASK(.kind = "n19", .queue = "new"), NULL, &err), LW_EFULL);
    assert_sentence(&err, LW_EFULL, "queue_count_max");
    assert_status(lw_submit(engine, LW_TASK(.kind = "new"), NULL, &err), LW_EFULL);
    close_engine(engine);
}

static uint64_t count_tasks(lw_engine *engine) {
    lw_engine_stats stats;
    assert_status(lw_get_stats(engine, &stats), LW_OK);
    return stats.enqueued;
}

/* It was accepted when its transaction was committed. */
TEST(a_submit_of_the_outbox_that_brings_a_name_too_many_waits_and_is_not_lost) {
    lw_engine *engine = open_idle(2, 2);
    lw_error err = {0};
    sqlite3 *db = connect_db(DB);
    static const char *const names[] = {"a", "b", "c", "d", "a"};
    for (int i = 0; i < 5; i++)
        assert_status(lw_outbox_sqlite_put(db, LW_TASK(.kind = names[i]), NULL, &err), LW_OK);
    assert_status(lw_outbox_sqlite_put(db, LW_TASK(.kind = "a", .queue = "q"), NULL, &err), LW_OK);
    assert_status(lw_outbox_sqlite_put(db, LW_TASK(.kind = "a", .queue = "r"), NULL, &err), LW_OK);
    await_that(count_tasks(engine) == 4);
    assert_names(engine, "a b ", "default q ");
    assert_int_equal(ask(db, "SELECT count(*) FROM legwork_outbox"), 3);
    close_engine(engine);
    engine = open_idle(0, 0);
    await_that(count_tasks(engine) == 7);
    sqlite3_close(db);
    close_engine(engine);
}
