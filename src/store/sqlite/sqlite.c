/* The SQLite store behind the port: what changes a task goes through the index and its journal, and
 * whoever was promised something waits for the pump. */
#include "store/sqlite/sqlite.h"

#include "base/error.h"
#include "base/memory.h"

static struct lw__sqlite *sqlite_of(struct lw__store *store) {
    return (struct lw__sqlite *)(void *)((char *)store->index->journal
                                         - offsetof(struct lw__sqlite, pump.journal));
}

/* ---- open and close ----------------------------------------------------------------------- */

static void close_all(struct lw__sqlite *sqlite) {
    lw_allocator allocator = sqlite->allocator;
    lw__pump_stop(&sqlite->pump);
    if (sqlite->index) {
        sqlite->index->journal = NULL; /* what is freed now has not left */
        lw__index_close(&sqlite->index->store);
    }
    lw__sqlite_file_close(sqlite->file);
    lw__free(&allocator, sqlite, sizeof *sqlite);
}

static void close_sqlite(struct lw__store *store) {
    close_all(sqlite_of(store));
}

static void after_turn(void *user) {
    struct lw__index *index = user;
    if (index->hooks.settled)
        index->hooks.settled(index->hooks.user);
}

static int open_index(struct lw__sqlite *sqlite, const struct lw__store_options *options,
                      lw_error *err) {
    int rc = lw__index_open(&sqlite->index, &lw__sqlite_ops, options, err);
    if (rc < 0)
        return rc;
    rc = lw__sqlite_load(sqlite, err);
    if (rc < 0)
        return rc;
    lw__pump_init(&sqlite->pump, sqlite->index, &lw__sqlite_db_ops, sqlite);
    sqlite->pump.after_turn = after_turn;
    sqlite->pump.user = sqlite->index;
    sqlite->index->journal = &sqlite->pump.journal;
    if (!lw__pump_start(&sqlite->pump))
        return lw__error_set(err, LW_ESYSTEM, 0, "the system gives no thread for the store");
    return LW_OK;
}

static int open_sqlite(struct lw__store **store, const char *path,
                       const struct lw__store_options *options, lw_error *err) {
    struct lw__sqlite *sqlite = lw__alloc_zero(options->allocator, sizeof *sqlite);
    if (!sqlite)
        return lw__error_set(err, LW_ENOMEM, 0, "no memory for the store");
    sqlite->allocator = *options->allocator;
    int rc = lw__sqlite_file_open(&sqlite->file, path, LW__SQLITE_OWNER, &sqlite->allocator, err);
    if (rc == LW_OK)
        rc = open_index(sqlite, options, err);
    if (rc < 0) {
        close_all(sqlite);
        return rc;
    }
    *store = &sqlite->index->store;
    return LW_OK;
}

/* ---- what has to be durable before it is answered ----------------------------------------- */

static int put_and_wait(struct lw__store *store, uint64_t now, struct lw__put *puts, size_t count) {
    struct lw__sqlite *sqlite = sqlite_of(store);
    struct lw__index *index = store->index;
    struct lw__journal_wait wait;
    lw__brief_lock(&index->mu);
    int rc = index->restraints & LW__STORE_NO_PUT ? LW_ESTOPPING
             : !lw__journal_reserve(index->journal, count)
                 ? LW_ENOMEM
                 : lw__index_put_locked(index, now, puts, count);
    if (rc >= 0)
        lw__journal_await_locked(index->journal, &wait);
    lw__brief_unlock(&index->mu);
    if (rc < 0)
        return rc;
    int status = lw__pump_await(&sqlite->pump, &wait);
    if (status >= 0)
        return rc;
    for (size_t i = 0; i < count; i++) { /* they were taken back, with their specs */
        if (puts[i].task)
            puts[i].spec = NULL;
        puts[i].task = NULL;
        puts[i].status = status;
    }
    return status;
}

static int put_plain(struct lw__store *store, uint64_t now, const struct lw__put *put,
                     uint64_t *id) {
    struct lw__put one = *put;
    one.spec = NULL;
    one.due = 0;
    one.is_successor = one.is_inside = one.is_taken = false;
    one.scope = one.generation = 0;
    int rc = put_and_wait(store, now, &one, 1);
    *id = one.id;
    return rc;
}

/* Nothing more than what was noted so far: an answer must not outrun the file. */
static int change_and_wait(struct lw__store *store, uint64_t now, uint64_t id,
                           enum lw__change change) {
    struct lw__sqlite *sqlite = sqlite_of(store);
    struct lw__journal_wait wait;
    int rc = lw__index_change(store, now, id, change);
    if (rc < 0)
        return rc;
    lw__brief_lock(&store->index->mu);
    lw__journal_await_locked(store->index->journal, &wait);
    lw__brief_unlock(&store->index->mu);
    int status = lw__pump_await(&sqlite->pump, &wait);
    return status < 0 ? status : rc;
}

static bool is_quiet(struct lw__store *store, bool is_drained_too) {
    struct lw__index *index = store->index;
    bool is_quiet = lw__index_is_quiet(store, is_drained_too);
    lw__brief_lock(&index->mu);
    is_quiet = is_quiet && index->journal->pending == 0;
    lw__brief_unlock(&index->mu);
    return is_quiet;
}

const struct lw__store_ops lw__sqlite_ops = {
    .scheme = "sqlite",
    .open = open_sqlite,
    .close = close_sqlite,
    .kind = lw__index_kind,
    .queue = lw__index_queue,
    .set_kind = lw__index_set_kind,
    .set_queue = lw__index_set_queue,
    .pause = lw__index_pause,
    .put = put_and_wait,
    .put_plain = put_plain,
    .claim = lw__index_claim,
    .begin = lw__index_begin,
    .finish = lw__index_finish,
    .unclaim = lw__index_unclaim,
    .account = lw__index_account,
    .settle = lw__index_settle,
    .publish = lw__index_publish,
    .change = change_and_wait,
    .scope_open = lw__index_scope_open,
    .scope_change = lw__index_scope_change,
    .scope_find = lw__index_scope_find,
    .scope_next = lw__index_scope_next,
    .sweep = lw__index_sweep,
    .next_told = lw__index_next_told,
    .told = lw__index_told,
    .await = lw__index_await,
    .unawait = lw__index_unawait,
    .restrain = lw__index_restrain,
    .bring_forward = lw__index_bring_forward,
    .is_quiet = is_quiet,
    .drop_oldest = lw__index_drop_oldest,
};
