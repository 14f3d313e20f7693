#include "errands_internal.h"

#include "cut_vfs.h"
#include "gate.h"
#include "test.h"

#include <fcntl.h>
#include <legwork/outbox_sqlite.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PAGES = 3, WAIT_MS = 20, HOUR_MS = 3600000, PATIENCE_MS = 10000 };

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

static struct errand *find_errand(struct errands *e, const char *key) {
    for (int i = 0; i < e->count; i++) {
        if (strcmp(e->all[i].key, key) == 0)
            return &e->all[i];
    }
    return NULL;
}

/* Goes on from where it was, and not from before. */
static lw_outcome do_pages(lw_ctx *ctx, const lw_task *task) {
    note_token(ctx, task);
    struct errand *errand = find_errand(lw_ctx_user(ctx), task->key);
    long page = task->checkpoint.data ? strtol(task->checkpoint.data, NULL, 10) : 0;
    CHECK(page >= atomic_load(&errand->page));
    while (page < PAGES) {
        char text[24];
        snprintf(text, sizeof text, "%ld", ++page);
        int rc = lw_checkpoint(ctx, LW_TEXT(text));
        if (rc == LW_OK)
            atomic_store(&errand->page, page);
        else
            assert_status(rc, LW_EUNSURE);
    }
    return task->attempt == 1 ? lw_retry(ctx, "to be sure") : lw_done(ctx);
}

static bool try_sql(sqlite3 *db, const char *sql) {
    return sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK;
}

/* The effect and the completion of its task, in one transaction. Nobody knows of a commit that has
 * failed whether it counts. */
static bool try_effect(lw_ctx *ctx, const lw_task *task, sqlite3 *db) {
    char sql[80];
    snprintf(sql, sizeof sql, "INSERT INTO effect VALUES ('%s')", task->key);
    sqlite3_busy_timeout(db, PATIENCE_MS);
    sqlite3_wal_autocheckpoint(db, 0);
    sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    return try_sql(db, "BEGIN IMMEDIATE; CREATE TABLE IF NOT EXISTS effect (key TEXT)")
           && try_sql(db, sql) && lw_outbox_sqlite_done(db, ctx, NULL) == LW_OK
           && try_sql(db, "COMMIT");
}

/* Whatever it says after a commit: the task is done then. */
static lw_outcome do_effect(lw_ctx *ctx, const lw_task *task) {
    sqlite3 *db = NULL;
    note_token(ctx, task);
    bool is_done = sqlite3_open_v2(ERRANDS_DB, &db, SQLITE_OPEN_READWRITE, NULL) == SQLITE_OK
                   && try_effect(ctx, task, db);
    sqlite3_close(db); /* rolls back what has not been committed */
    return is_done && task->token % 2 ? lw_done(ctx) : lw_retry(ctx, "perhaps");
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
               {"bad", do_bad},      {"pages", do_pages},   {"effect", do_effect}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        assert_status(
            lw_handle(e->engine, all[i].kind, all[i].run,
                      LW_HANDLER_OPTIONS(.user = e, .retry = {.min_ms = 1, .attempts = -1}), NULL),
            LW_OK);
}

/* ---- asking ------------------------------------------------------------------------------- */

/* Whether to ask again: a store that cannot write says so, and nothing else. */
static bool must_repeat(int rc, const lw_error *err) {
    if (rc >= 0)
        return false;
    if (err && rc != LW_ESYSTEM && rc != LW_EUNSURE)
        fprintf(stderr, "%s\n", err->message);
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
    struct errand *errand = &e->all[e->count];
    errand->kind = kind;
    errand->is_single = true;
    snprintf(errand->key, sizeof errand->key, "%s", key);
    e->count++;
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

/* Without waiting for the disk: how each went is told later. */
struct answer {
    struct tally *told;
    int status;
    lw_id id;
};

static void note_answer(void *user, int status, lw_id id) {
    struct answer *answer = user;
    answer->status = status;
    answer->id = id;
    tally_add(answer->told, 1);
}

static bool ask_later(struct errands *e, const struct errand *errand, struct answer *answer) {
    lw_error err = {0};
    int rc;
    do {
        rc = lw_submit_async(
            e->engine,
            LW_TASK(.kind = errand->kind, .key = errand->key, .payload = LW_TEXT(errand->key)),
            note_answer, answer, &err);
    } while (must_repeat(rc, &err));
    return rc >= 0;
}

static void ask_all_later(struct errands *e, int lap) {
    struct tally told = TALLY;
    struct answer answers[BATCH];
    struct errand *errands[BATCH];
    long asked = 0;
    for (int i = 0; i < BATCH; i++) {
        char key[KEY_SIZE];
        snprintf(key, sizeof key, "s%d.%d", lap, i);
        errands[i] = new_errand(e, "mail", key);
        answers[i] = (struct answer){&told, LW_ESYSTEM, 0};
        asked += !cut_vfs_is_dark() && ask_later(e, errands[i], &answers[i]);
    }
    tally_await(&told, asked);
    for (int i = 0; i < BATCH; i++) {
        while (must_repeat(answers[i].status, NULL)) {
            if (ask_later(e, errands[i], &answers[i]))
                tally_await(&told, ++asked);
        }
        if (answers[i].status >= 0)
            accept(e, errands[i], answers[i].id);
    }
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
    ask_all_later(e, lap);
    struct errand *pages = ask(e, "pages", "g", lap, 0, 0);
    struct errand *parent = ask(e, "parent", "p", lap, 0, 0);
    struct errand *after = ask(e, "mail", "a", lap, 0, parent->id);
    struct errand *effect = ask(e, "effect", "e", lap, 0, 0);
    struct errand *behind = ask(e, "mail", "c", lap, 0, effect->id);
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
    await_end(e, behind);
    await_end(e, flaky);
    await_end(e, bad);
    await_end(e, pages);
}

static bool try_open(struct errands *e) {
    lw_error err = {0};
    int rc;
    do {
        rc = lw_open(&e->engine, "sqlite:" ERRANDS_DB, LW_ENGINE_OPTIONS(.workers = 2), &err);
    } while (must_repeat(rc, &err));
    return rc == LW_OK;
}

/* A handler that a close has left behind keeps the file open until it returns. */
static bool has_owner(void) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int fd = open(ERRANDS_DB "-owner", O_RDWR | O_CLOEXEC);
    CHECK(fd >= 0 && fcntl(fd, F_OFD_GETLK, &lock) == 0);
    close(fd);
    return lock.l_type != F_UNLCK;
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
    if (lw_close(e->engine) != LW_OK)
        await_that(!has_owner());
    e->engine = NULL;
    return !cut_vfs_is_dark();
}

/* ---- afterwards ---------------------------------------------------------------------------- */

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
    errands_audit_file(e);
    run_rest(e);
    assert_status(lw_close(e->engine), LW_OK);
    e->engine = NULL;
    errands_audit_file(e);
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
    free(e);
    remove_store();
}

void remove_store(void) {
    static const char *const files[] = {ERRANDS_DB, ERRANDS_DB "-wal", ERRANDS_DB "-shm",
                                        ERRANDS_DB "-owner", ERRANDS_DB "-running"};
    cut_vfs_restore(CUT_LEFT_ALL, 0);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        unlink(files[i]);
}
