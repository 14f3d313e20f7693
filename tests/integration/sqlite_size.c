/* sqlite_size.c: the file of a store is as large as what is in it, however much has passed through.
 *
 * In `make test` 100,000 tasks pass through a file that never holds more than 10,000, in
 * `make soak` ten million. */
#include "test.h"

#include <legwork/engine.h>
#include <sqlite3.h>
#include <stdio.h>
#include <sys/stat.h>

enum { BATCH = 1000, KEPT = 8 * BATCH, PAYLOAD = 100 };

#define DB "tasks.db"

static const char payload[PAYLOAD] = "some bytes";

static const lw_task one = {
    .struct_size = sizeof one, .kind = "mail", .payload = {payload, PAYLOAD}};

static lw_outcome do_nothing(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    return lw_done(ctx);
}

static lw_engine *open_store(int64_t kept) {
    lw_engine *engine;
    lw_error err = {0};
    assert_status(lw_open(&engine, "sqlite:" DB,
                          LW_ENGINE_OPTIONS(.workers = 2, .task_limit = 1 << 20), &err),
                  LW_OK);
    assert_status(
        lw_handle(engine, "mail", do_nothing,
                  LW_HANDLER_OPTIONS(.retention = {.finished_max = kept, .aborted_max = kept}),
                  NULL),
        LW_OK);
    return engine;
}

static void submit_batch(lw_engine *engine) {
    const lw_task *tasks[BATCH];
    for (int i = 0; i < BATCH; i++)
        tasks[i] = &one;
    assert_status(lw_submit_many(engine, tasks, BATCH, NULL, NULL), LW_OK);
}

static long file_kib(const char *name) {
    struct stat status;
    return stat(name, &status) == 0 ? (long)(status.st_size / 1024) : 0;
}

static void assert_integrity(void) {
    sqlite3 *db;
    sqlite3_stmt *s;
    assert_int_equal(sqlite3_open(DB, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, "PRAGMA integrity_check", -1, &s, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(s), SQLITE_ROW);
    assert_string_equal((const char *)sqlite3_column_text(s, 0), "ok");
    sqlite3_finalize(s);
    sqlite3_close(db);
}

/* At most KEPT finished ones and two batches are in the file: 300 bytes each, and as much again for
 * pages that are half empty. */
TEST_WITH(what_has_passed_through_leaves_no_trace_in_the_size, .seconds = 3600) {
    long batches = test_scale(100, 10000) / (test_is_sanitized() ? 5 : 1);
    long most_kib = 0, most_wal_kib = 0;
    lw_engine *engine = open_store(KEPT);
    assert_status(lw_start(engine, NULL), LW_OK);
    for (long i = 0; i < batches; i++) {
        submit_batch(engine);
        assert_status(lw_wait_idle(engine, -1), LW_OK);
        most_kib = file_kib(DB) > most_kib ? file_kib(DB) : most_kib;
        most_wal_kib = file_kib(DB "-wal") > most_wal_kib ? file_kib(DB "-wal") : most_wal_kib;
    }
    lw_engine_stats stats;
    assert_status(lw_get_stats(engine, &stats), LW_OK);
    assert_int_equal(stats.finished_total, batches * BATCH);
    assert_status(lw_close(engine), LW_OK);
    printf("%ld tasks: at most %ld KiB, and %ld KiB of -wal\n", batches * BATCH, most_kib,
           most_wal_kib);
    CHECK(most_kib <= (KEPT + 2L * BATCH) * 600 / 1024);
    CHECK(most_wal_kib <= 64 * 1024);
    assert_integrity();
}

/* After a backlog the file shrinks while that is worked off; 2 MiB of free pages stay. */
TEST(a_file_that_was_large_becomes_small_again) {
    long batches = test_is_sanitized() ? 60 : 100;
    lw_engine *engine = open_store(BATCH);
    for (long i = 0; i < batches; i++)
        submit_batch(engine);
    assert_status(lw_close(engine), LW_OK);
    long large_kib = file_kib(DB);
    CHECK(large_kib > batches * BATCH * PAYLOAD / 1024);
    engine = open_store(BATCH);
    assert_status(lw_start(engine, NULL), LW_OK);
    assert_status(lw_stop(engine, LW_DRAIN, -1), LW_OK);
    assert_status(lw_close(engine), LW_OK);
    printf("%ld KiB with %ld waiting, %ld KiB after\n", large_kib, batches * BATCH, file_kib(DB));
    CHECK(file_kib(DB) < large_kib / 3);
    assert_integrity();
}
