#include "errands.h"

#include "cut_vfs.h"
#include "gate.h"
#include "test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LAPS = 3, BATCH = 3, ERRANDS_MAX = 40, KEY_SIZE = 24, WAIT_MS = 20, HOUR_MS = 3600000 };

struct errand {
    const char *kind;
    char key[KEY_SIZE];
    lw_id id;       /* 0: it was never accepted */
    bool is_single; /* not of a batch */
    /* what the program asked for, and was told */
    bool is_cancelled, is_retried, is_forgetting, is_forgotten;
    _Atomic uint32_t told; /* lw_state, by on_end */
};

struct errands {
    struct errand all[ERRANDS_MAX];
    int count;
    int plain_asked, plain_accepted; /* tasks without a key */
    lw_engine *engine;
    uint64_t id_floor, token_floor; /* of the life before */
    uint64_t last_id;
    _Atomic uint64_t last_token;
};

/* ---- handlers ----------------------------------------------------------------------------- */

/* No attempt has a token that another one had, in this life or the one before. */
static void note_token(lw_ctx *ctx, const lw_task *task) {
    struct errands *e = lw_ctx_user(ctx);
    CHECK(task->token > e->token_floor);
    uint64_t seen = atomic_load(&e->last_token);
    while (seen < task->token
           && !atomic_compare_exchange_weak(&e->last_token, &seen, task->token)) {
    }
    CHECK(!task->key || strcmp(task->key, task->payload.data) == 0);
}

static lw_outcome do_simple(lw_ctx *ctx, const lw_task *task) {
    note_token(ctx, task);
    return task->key ? lw_done_with(ctx, task->payload) : lw_done(ctx);
}

static lw_outcome do_parent(lw_ctx *ctx, const lw_task *task) {
    note_token(ctx, task);
    for (const char *suffix = "ab"; *suffix; suffix++) {
        char key[KEY_SIZE + 3];
        snprintf(key, sizeof key, "%s.%c", task->key, *suffix);
        int rc = lw_then(ctx, LW_TASK(.kind = "child", .key = key, .payload = LW_TEXT(key)), NULL);
        assert_status(rc, LW_OK);
    }
    return lw_done(ctx);
}

static lw_outcome do_flaky(lw_ctx *ctx, const lw_task *task) {
    note_token(ctx, task);
    return task->attempt == 1 ? lw_retry(ctx, "not yet") : lw_done(ctx);
}

static lw_outcome do_bad(lw_ctx *ctx, const lw_task *task) {
    note_token(ctx, task);
    return lw_fail(ctx, "never");
}

static void handle_all(struct errands *e) {
    static const struct {
        const char *kind;
        lw_handler run;
    } all[] = {{"plain", do_simple}, {"mail", do_simple},   {"child", do_simple},
               {"late", do_simple},  {"parent", do_parent}, {"flaky", do_flaky},
               {"bad", do_bad}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        assert_status(lw_handle(e->engine, all[i].kind, all[i].run,
                                LW_HANDLER_OPTIONS(.user = e, .retry.min_ms = 1)),
                      LW_OK);
}

/* ---- asking ------------------------------------------------------------------------------- */

/* Whether to ask again: a store that cannot write says so, and nothing else. */
static bool must_repeat(int rc, const lw_error *err) {
    if (rc >= 0)
        return false;
    if (rc != LW_ESYSTEM)
        assert_status(rc, LW_EUNSURE);
    if (err)
        CHECK(strlen(err->message) > 20);
    CHECK(cut_vfs_failed() > 0);
    return !cut_vfs_is_dark();
}

static void note_end(void *user, const lw_snapshot *task) {
    struct errand *errand = user;
    atomic_store(&errand->told, (uint32_t)task->state);
}

static struct errand *new_errand(struct errands *e, const char *kind, const char *key) {
    CHECK(e->count < ERRANDS_MAX);
    struct errand *errand = &e->all[e->count++];
    errand->kind = kind;
    errand->is_single = true;
    snprintf(errand->key, sizeof errand->key, "%s", key);
    return errand;
}

static void accept(struct errands *e, struct errand *errand, lw_id id) {
    errand->id = id;
    CHECK(id > e->id_floor);
    if (id > e->last_id)
        e->last_id = id;
}

static struct errand *ask(struct errands *e, const char *kind, const char *letter, int lap,
                          int64_t delay_ms, lw_id after) {
    char key[KEY_SIZE];
    snprintf(key, sizeof key, "%s%d", letter, lap);
    struct errand *errand = new_errand(e, kind, key);
    lw_error err = {0};
    lw_id id = 0;
    int rc;
    if (cut_vfs_is_dark())
        return errand;
    do {
        rc = lw_submit(e->engine,
                       LW_TASK(.kind = kind, .key = errand->key, .payload = LW_TEXT(errand->key),
                               .delay_ms = delay_ms, .after = &after, .after_count = after > 0,
                               .on_end = note_end, .user = errand),
                       &id, &err);
    } while (must_repeat(rc, &err));
    if (rc >= 0)
        accept(e, errand, id);
    return errand;
}

static void ask_plain(struct errands *e) {
    lw_error err = {0};
    lw_id id = 0;
    int rc;
    if (cut_vfs_is_dark())
        return;
    do { /* it may be there after all */
        e->plain_asked++;
        rc = lw_submit(e->engine, LW_TASK(.kind = "plain"), &id, &err);
    } while (must_repeat(rc, &err));
    e->plain_accepted += rc >= 0;
    if (rc >= 0)
        accept(e, &(struct errand){.id = 0}, id);
}

static void ask_many(struct errands *e, int lap) {
    struct errand *errands[BATCH];
    lw_task tasks[BATCH];
    const lw_task *all[BATCH];
    lw_id ids[BATCH];
    if (cut_vfs_is_dark())
        return;
    for (int i = 0; i < BATCH; i++) {
        char key[KEY_SIZE];
        snprintf(key, sizeof key, "b%d.%d", lap, i);
        errands[i] = new_errand(e, "mail", key);
        errands[i]->is_single = false;
        tasks[i] =
            *LW_TASK(.kind = "mail", .key = errands[i]->key, .payload = LW_TEXT(errands[i]->key),
                     .on_end = note_end, .user = errands[i]);
        all[i] = &tasks[i];
    }
    lw_error err = {0};
    int rc;
    do {
        rc = lw_submit_many(e->engine, all, BATCH, ids, &err);
    } while (must_repeat(rc, &err));
    for (int i = 0; rc >= 0 && i < BATCH; i++)
        accept(e, errands[i], ids[i]);
}

/* Until its end is durable. */
static void await_end(struct errands *e, const struct errand *errand) {
    while (errand->id && !cut_vfs_is_dark()) {
        int rc = lw_wait(e->engine, errand->id, WAIT_MS, NULL);
        if (rc == LW_OK)
            return;
        assert_status(rc, LW_PENDING);
    }
}

static void cancel(struct errands *e, struct errand *errand) {
    int rc = LW_ESYSTEM;
    while (errand->id && rc != LW_OK && rc != LW_ENOTFOUND && !cut_vfs_is_dark()) {
        rc = lw_cancel(e->engine, errand->id);
        errand->is_cancelled |= rc == LW_OK;
        CHECK(rc == LW_OK || rc == LW_ENOTFOUND || rc == LW_ESYSTEM || rc == LW_EUNSURE);
    }
}

static void retry(struct errands *e, struct errand *errand) {
    int rc = LW_PENDING;
    errand->is_retried = true;
    while (errand->id && rc != LW_OK && rc != LW_EUNSURE && !cut_vfs_is_dark())
        rc = lw_retry_now(e->engine, errand->id, NULL);
}

static void forget(struct errands *e, struct errand *errand) {
    int rc = LW_PENDING;
    errand->is_forgetting = true;
    while (errand->id && rc != LW_OK && rc != LW_ENOTFOUND && !cut_vfs_is_dark()) {
        rc = lw_forget(e->engine, errand->id);
        errand->is_forgotten |= rc == LW_OK;
    }
}

/* ---- the script --------------------------------------------------------------------------- */

static void run_lap(struct errands *e, int lap) {
    ask_plain(e);
    struct errand *mail = ask(e, "mail", "m", lap, 0, 0);
    ask_many(e, lap);
    struct errand *parent = ask(e, "parent", "p", lap, 0, 0);
    struct errand *after = ask(e, "mail", "a", lap, 0, parent->id);
    struct errand *flaky = ask(e, "flaky", "f", lap, 0, 0);
    struct errand *bad = ask(e, "bad", "x", lap, 0, 0);
    struct errand *late = ask(e, "late", "l", lap, HOUR_MS, 0);
    ask(e, "late", "d", lap, HOUR_MS, 0);
    cancel(e, late);
    await_end(e, bad);
    retry(e, bad);
    ask_plain(e);
    await_end(e, mail);
    forget(e, mail);
    await_end(e, after);
    await_end(e, flaky);
    await_end(e, bad);
}

static bool try_open(struct errands *e) {
    lw_error err = {0};
    int rc;
    do {
        rc = lw_open(&e->engine, "sqlite:" ERRANDS_DB, LW_ENGINE_OPTIONS(.workers = 2), &err);
    } while (must_repeat(rc, &err));
    return rc == LW_OK;
}

bool errands_run(struct errands *e) {
    if (!try_open(e))
        return false;
    handle_all(e);
    assert_status(lw_start(e->engine, NULL), LW_OK);
    for (int lap = 0; lap < LAPS && !cut_vfs_is_dark(); lap++)
        run_lap(e, lap);
    if (cut_vfs_is_dark())
        lw_stop(e->engine, LW_DROP, 1); /* it would try for a while */
    lw_close(e->engine);
    e->engine = NULL;
    return !cut_vfs_is_dark();
}

/* ---- looking into the file ---------------------------------------------------------------- */

sqlite3 *open_file(void) {
    sqlite3 *db;
    CHECK(sqlite3_open_v2(ERRANDS_DB, &db, SQLITE_OPEN_READWRITE, NULL) == SQLITE_OK);
    return db;
}

int64_t ask_file(sqlite3 *db, const char *sql) {
    sqlite3_stmt *s = NULL;
    if (sqlite3_prepare_v2(db, sql, -1, &s, NULL) != SQLITE_OK)
        fprintf(stderr, "%s: %s\n", sql, sqlite3_errmsg(db));
    CHECK(s);
    int code = sqlite3_step(s);
    CHECK(code == SQLITE_ROW || code == SQLITE_DONE);
    int64_t answer = code == SQLITE_ROW ? sqlite3_column_int64(s, 0) : -1;
    sqlite3_finalize(s);
    return answer;
}

void assert_file_is_whole(sqlite3 *db) {
    sqlite3_stmt *s = NULL;
    CHECK(sqlite3_prepare_v2(db, "PRAGMA integrity_check", -1, &s, NULL) == SQLITE_OK);
    CHECK(sqlite3_step(s) == SQLITE_ROW);
    assert_string_equal((const char *)sqlite3_column_text(s, 0), "ok");
    sqlite3_finalize(s);
}

#define ALL_TASKS                                                                              \
    "(SELECT id, kind, key, payload, state FROM legwork_task UNION ALL SELECT id, kind, key, " \
    "payload, state FROM legwork_history)"

static int64_t count_where(sqlite3 *db, const char *where, const char *text, uint64_t id) {
    char *sql = sqlite3_mprintf("SELECT count(*) FROM " ALL_TASKS " WHERE %s", where);
    sqlite3_stmt *s = NULL;
    if (sqlite3_prepare_v2(db, sql, -1, &s, NULL) != SQLITE_OK)
        fprintf(stderr, "%s: %s\n", sql, sqlite3_errmsg(db));
    CHECK(s);
    sqlite3_bind_text(s, 1, text, -1, SQLITE_STATIC);
    sqlite3_bind_int64(s, 2, (sqlite3_int64)id);
    CHECK(sqlite3_step(s) == SQLITE_ROW);
    int64_t count = sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    sqlite3_free(sql);
    return count;
}

/* ---- the audit ---------------------------------------------------------------------------- */

static void audit_accepted(sqlite3 *db, const struct errand *errand) {
    int64_t there = count_where(db, "id = ?2 AND key = ?1 AND CAST(payload AS TEXT) = ?1",
                                errand->key, errand->id);
    if (there == 0 && !errand->is_forgetting)
        fprintf(stderr, "%s (task %llu) was accepted and is lost\n", errand->key, errand->id);
    CHECK(there == 1 || errand->is_forgetting);
    CHECK(there == 0 || !errand->is_forgotten);
    lw_state told = (lw_state)atomic_load(&errand->told);
    const char *state = errand->is_cancelled               ? "aborted"
                        : told != 0 && !errand->is_retried ? lw_state_name(told)
                                                           : NULL;
    if (state && there > 0)
        assert_int_equal(count_where(db, "id = ?2 AND state = ?1", state, errand->id), 1);
}

static void audit_errand(sqlite3 *db, const struct errand *errand) {
    int64_t times = count_where(db, "key = ?1", errand->key, 0);
    if (times > 1)
        fprintf(stderr, "%s is there %lld times\n", errand->key, (long long)times);
    CHECK(times <= 1);
    if (errand->id)
        audit_accepted(db, errand);
}

/* All of it, or nothing. */
static void audit_atomicity(sqlite3 *db) {
    for (int lap = 0; lap < LAPS; lap++) {
        char pattern[KEY_SIZE];
        snprintf(pattern, sizeof pattern, "b%d.%%", lap);
        int64_t batch = count_where(db, "key LIKE ?1", pattern, 0);
        CHECK(batch == 0 || batch == BATCH);
        snprintf(pattern, sizeof pattern, "p%d.%%", lap);
        int64_t children = count_where(db, "key LIKE ?1", pattern, 0);
        snprintf(pattern, sizeof pattern, "p%d", lap);
        int64_t ended = count_where(db, "key = ?1 AND state = 'finished'", pattern, 0);
        if (children != 2 * ended)
            fprintf(stderr, "%s: %lld children, ended %lld\n", pattern, (long long)children,
                    (long long)ended);
        CHECK(children == 2 * ended);
        snprintf(pattern, sizeof pattern, "a%d", lap);
        CHECK(count_where(db, "key = ?1 AND state = 'finished'", pattern, 0) <= ended);
    }
}

static bool is_known(const struct errands *e, const char *key) {
    for (int i = 0; i < e->count; i++) {
        size_t size = strlen(e->all[i].key);
        if (strncmp(e->all[i].key, key, size) == 0 && (!key[size] || key[size] == '.'))
            return true;
    }
    return false;
}

static void audit_origin(const struct errands *e, sqlite3 *db) {
    sqlite3_stmt *s = NULL;
    CHECK(
        sqlite3_prepare_v2(db, "SELECT key FROM " ALL_TASKS " WHERE key IS NOT NULL", -1, &s, NULL)
        == SQLITE_OK);
    while (sqlite3_step(s) == SQLITE_ROW)
        CHECK(is_known(e, (const char *)sqlite3_column_text(s, 0)));
    sqlite3_finalize(s);
    int64_t plain = count_where(db, "kind = 'plain'", NULL, 0);
    CHECK(plain >= e->plain_accepted && plain <= e->plain_asked);
}

static void audit_file(struct errands *e) {
    sqlite3 *db = open_file();
    assert_file_is_whole(db);
    for (int i = 0; i < e->count; i++)
        audit_errand(db, &e->all[i]);
    audit_atomicity(db);
    audit_origin(e, db);
    int64_t last = ask_file(db, "SELECT value FROM legwork_meta WHERE key = 'last_id'");
    CHECK(last >= (int64_t)e->last_id);
    CHECK(last >= ask_file(db, "SELECT max(id) FROM " ALL_TASKS));
    sqlite3_close(db);
}

/* Waits for all that can end, and sees that a new task has a new id. */
static void run_rest(struct errands *e) {
    sqlite3 *db = open_file();
    e->id_floor = e->last_id;
    e->token_floor = atomic_load(&e->last_token);
    handle_all(e);
    assert_status(lw_start(e->engine, NULL), LW_OK);
    await_that(ask_file(db, "SELECT count(*) FROM legwork_task WHERE kind <> 'late'") == 0);
    sqlite3_close(db);
    ask(e, "mail", "z", 0, 0, 0);
}

void errands_audit(struct errands *e) {
    cut_vfs_end_orders();
    assert_true(try_open(e));
    audit_file(e);
    run_rest(e);
    assert_status(lw_close(e->engine), LW_OK);
    e->engine = NULL;
    audit_file(e);
}

/* ---- open and close ----------------------------------------------------------------------- */

static int shorten(sqlite3 *db, const char **error, const void *api) {
    (void)error;
    (void)api;
    return sqlite3_wal_autocheckpoint(db, 16);
}

void errands_checkpoint_often(void) {
    CHECK(sqlite3_auto_extension((void (*)(void))shorten) == SQLITE_OK);
}

struct errands *errands_open(void) {
    struct errands *e = calloc(1, sizeof *e);
    CHECK(e);
    return e;
}

void errands_close(struct errands *e) {
    static const char *const files[] = {ERRANDS_DB, ERRANDS_DB "-wal", ERRANDS_DB "-shm",
                                        ERRANDS_DB "-owner", ERRANDS_DB "-running"};
    free(e);
    cut_vfs_restore(CUT_LEFT_ALL, 0);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        unlink(files[i]);
}
