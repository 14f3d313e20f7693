/* The port where another process owns the store: tasks are read from the file, and what is to be
 * done goes into its outbox. There is an index for names, and nothing in it.
 *
 * Waiting for a change. inotify tells that somebody writes to the -wal file; that is before the
 * commit can be seen, by as long as the disk takes. So after such a sign it looks at SQLite's
 * data_version, at intervals that grow with the time that was waited; without one, once in a while,
 * in case that a sign was missed. Each wait has a descriptor of its own; where there is none to be
 * had it looks from time to time. */
#include "store/sqlite/sqlite.h"

#include "base/error.h"
#include "base/futex.h"
#include "base/memory.h"
#include "store/sqlite/outbox.h"

#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <unistd.h>

#define READING "read the store"
#define SUBMITTING "submit to the store"

#define LOOK_NS_MIN (1 * LW__NS_PER_MS)  /* after a sign: between two looks, */
#define LOOK_NS_MAX (50 * LW__NS_PER_MS) /* at first and after a while, */
#define SIGN_NS (500 * LW__NS_PER_MS)    /* for so long */
#define CHECK_NS (1000 * LW__NS_PER_MS)  /* without a sign */
#define BLIND_NS (100 * LW__NS_PER_MS)   /* where there are no signs */

static sqlite3_stmt *statement(const struct lw__sqlite *sqlite, enum lw__sql which) {
    return sqlite->file->statements[which];
}

/* ---- one at a time ------------------------------------------------------------------------ */

void lw__sqlite_client_lock(struct lw__sqlite *sqlite) LW__UNCHECKED {
    lw__mutex_lock(&sqlite->client_mu);
}

void lw__sqlite_client_unlock(struct lw__sqlite *sqlite) LW__UNCHECKED {
    lw__mutex_unlock(&sqlite->client_mu);
    atomic_fetch_add(&sqlite->client_releases, 1);
    if (atomic_load(&sqlite->client_sleepers) > 0)
        lw__futex_wake(&sqlite->client_releases, INT_MAX);
}

/* Another thread of this process has the file for as long as another connection lets it wait. (Not
 * by pthread_mutex_clocklock, which ThreadSanitizer of clang 14 does not know.) */
bool lw__sqlite_client_lock_until(struct lw__sqlite *sqlite, uint64_t deadline) LW__UNCHECKED {
    bool is_locked = pthread_mutex_trylock(&sqlite->client_mu.native) == 0;
    if (is_locked)
        return true;
    atomic_fetch_add(&sqlite->client_sleepers, 1);
    do {
        uint32_t seen = atomic_load(&sqlite->client_releases);
        is_locked = pthread_mutex_trylock(&sqlite->client_mu.native) == 0;
        if (!is_locked)
            lw__futex_wait(&sqlite->client_releases, seen, deadline);
    } while (!is_locked && lw__now(lw__clock_system()) < deadline);
    atomic_fetch_sub(&sqlite->client_sleepers, 1);
    return is_locked;
}

/* It was closed to be opened anew, and could not be. */
int lw__sqlite_client_look(struct lw__sqlite *sqlite, lw_error *err) {
    struct lw__sqlite_file *file = sqlite->file;
    return file->db ? lw__sqlite_place_check(file, err) : lw__sqlite_file_reopen(file, err);
}

/* ---- reading ------------------------------------------------------------------------------ */

static void bind_name(sqlite3_stmt *s, int at, const char *name) {
    if (name)
        sqlite3_bind_text(s, at, name, -1, SQLITE_STATIC);
    else
        sqlite3_bind_null(s, at);
}

/* What the owner runs is `enqueued` in the file: what suits is known when that was looked at. */
static void bind_wanted(sqlite3_stmt *s, const struct lw__wanted *w) {
    bool is_either = w->state == LW_ENQUEUED || w->state == LW_STARTED;
    sqlite3_bind_int64(s, 1, (int64_t)w->from);
    sqlite3_bind_int64(s, 2, w->to < LW__ID_MAX ? (int64_t)w->to : (int64_t)LW__ID_MAX);
    bind_name(s, 3, w->state ? lw_state_name(w->state) : NULL);
    bind_name(s, 4, is_either ? lw_state_name(LW_ENQUEUED) : NULL);
    sqlite3_bind_int(s, 5, w->is_unfinished);
    bind_name(s, 6, w->kind);
    bind_name(s, 7, w->queue);
    bind_name(s, 8, w->key);
}

static int read_row(struct lw__sqlite *sqlite, sqlite3_stmt *s, struct lw__task *copy) {
    struct lw__index *index = sqlite->index;
    struct lw__restored r;
    int rc = index->hooks.meet
                 ? index->hooks.meet(index->hooks.user, (const char *)sqlite3_column_text(s, 1),
                                     (const char *)sqlite3_column_text(s, 2))
                 : LW_OK;
    if (rc == LW_OK)
        rc = lw__sqlite_read_copy(sqlite, s, &r);
    if (rc < 0)
        return rc;
    lw__restored_copy(&r, copy);
    if (r.state == LW_CREATED && sqlite3_column_type(s, 9) != SQLITE_NULL) /* in the outbox */
        lw__put(&copy->flags, (uint16_t)(lw__see(&copy->flags) | LW__TASK_UNSAVED));
    return LW_OK;
}

static int read_first(struct lw__sqlite *sqlite, const struct lw__wanted *wanted,
                      struct lw__task *copy, lw_error *err) {
    sqlite3_stmt *s = statement(sqlite, LW__SQL_COPY_SCAN);
    bind_wanted(s, wanted);
    int code = sqlite3_step(s);
    int rc = code == SQLITE_DONE ? LW_ENOTFOUND
                                 : lw__sqlite_explain(sqlite->file->db, code, READING, err);
    if (rc == LW_OK) {
        rc = read_row(sqlite, s, copy);
        if (rc < 0)
            lw__error_set(err, rc, 0, "cannot " READING ": %s", lw_status_text(rc));
    }
    sqlite3_reset(s);
    sqlite3_clear_bindings(s);
    return rc;
}

static int copy_first(struct lw__sqlite *sqlite, const struct lw__wanted *wanted,
                      struct lw__task *copy, lw_error *err) {
    lw__sqlite_client_lock(sqlite);
    int rc = lw__sqlite_client_look(sqlite, err);
    if (rc == LW_OK)
        rc = read_first(sqlite, wanted, copy, err);
    lw__sqlite_client_unlock(sqlite);
    return rc;
}

/* After a crash the list of what ran is still there, until the next owner comes. */
bool lw__sqlite_client_runs(const struct lw__sqlite *sqlite, uint64_t id) {
    const char *path = sqlite->file->path;
    return lw__running_has(path, id) && lw__sqlite_owner_find(path) != 0;
}

static void drop_copy(struct lw__store *store, struct lw__task *copy) {
    const lw_allocator *allocator = &lw__sqlite_of(store)->allocator;
    struct lw__errors *errors = lw__see(&copy->errors);
    struct lw__output *output = lw__see(&copy->output);
    struct lw__spec *spec = lw__task_spec(copy);
    if (spec)
        lw__free(allocator, spec, spec->size);
    if (errors)
        lw__free(allocator, errors, errors->size);
    if (output)
        lw__free(allocator, output, output->size);
}

static int copy_task(struct lw__store *store, const struct lw__wanted *wanted,
                     struct lw__task *copy, lw_error *err) {
    struct lw__sqlite *sqlite = lw__sqlite_of(store);
    struct lw__wanted next = *wanted;
    for (;;) {
        int rc = copy_first(sqlite, &next, copy, err);
        if (rc < 0)
            return rc;
        lw_state state = lw__task_state(copy);
        if (state == LW_ENQUEUED && lw__sqlite_client_runs(sqlite, copy->id))
            lw__put(&copy->state, LW_STARTED);
        if (wanted->state == 0 || wanted->state == lw__task_state(copy))
            return LW_OK;
        next.from = copy->id + 1;
        drop_copy(store, copy);
    }
}

static int read_counts(struct lw__sqlite *sqlite, uint64_t counts[LW_ABORTED + 1]) {
    sqlite3_stmt *s = statement(sqlite, LW__SQL_COPY_COUNT);
    int code;
    while ((code = sqlite3_step(s)) == SQLITE_ROW)
        counts[lw__sqlite_state_named((const char *)sqlite3_column_text(s, 0))] +=
            (uint64_t)sqlite3_column_int64(s, 1);
    int rc = lw__sqlite_explain(sqlite->file->db, code, READING, NULL);
    sqlite3_reset(s);
    return rc;
}

static int count_states(struct lw__store *store, uint64_t counts[LW_ABORTED + 1]) {
    struct lw__sqlite *sqlite = lw__sqlite_of(store);
    lw__sqlite_client_lock(sqlite);
    int rc = lw__sqlite_client_look(sqlite, NULL);
    if (rc == LW_OK)
        rc = read_counts(sqlite, counts);
    lw__sqlite_client_unlock(sqlite);
    return rc;
}

static int64_t find_owner(struct lw__store *store) {
    return lw__sqlite_owner_find(lw__sqlite_of(store)->file->path);
}

/* ---- waiting ------------------------------------------------------------------------------ */

static int64_t read_version(struct lw__sqlite *sqlite) {
    sqlite3_stmt *s = statement(sqlite, LW__SQL_DATA_VERSION);
    int64_t version = sqlite3_step(s) == SQLITE_ROW ? sqlite3_column_int64(s, 0) : -1;
    sqlite3_reset(s);
    return version;
}

/* Of a file that is gone it is another one: whoever waits looks then, and is told. */
static int64_t version_of(struct lw__store *store) {
    struct lw__sqlite *sqlite = lw__sqlite_of(store);
    lw__sqlite_client_lock(sqlite);
    bool is_there = lw__sqlite_client_look(sqlite, NULL) == LW_OK;
    int64_t version = is_there ? read_version(sqlite) : -1;
    lw__sqlite_client_unlock(sqlite);
    return version;
}

/* -1: there is none to be had. */
static int open_watch(const struct lw__sqlite *sqlite) {
    char name[PATH_MAX];
    int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    snprintf(name, sizeof name, "%.*s-wal", LW__SQLITE_PATH_MAX, sqlite->file->path);
    if (fd >= 0 && inotify_add_watch(fd, name, IN_MODIFY) < 0) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static void empty(int fd) {
    _Alignas(struct inotify_event) char buffer[1024];
    while (read(fd, buffer, sizeof buffer) > 0) {
    }
}

/* True: there is a sign. Whoever rouses those who wait ends it, too. */
static bool sleep_for(const struct lw__sqlite *sqlite, int fd, uint64_t ns) {
    struct timespec time = {(time_t)(ns / LW__NS_PER_S), (long)(ns % LW__NS_PER_S)};
    struct pollfd watched[] = {{.fd = fd, .events = POLLIN},
                               {.fd = sqlite->rouse_fd, .events = POLLIN}};
    return ppoll(watched, 2, &time, NULL) > 0 && watched[0].revents != 0;
}

static uint64_t clamp(uint64_t value, uint64_t min, uint64_t max) {
    return value < min ? min : value > max ? max : value;
}

/* While signs come there is no need to listen for more: it looks soon anyway. So it does at first:
 * whoever began to write before there was a watch has given no sign. */
static void await_change(struct lw__store *store, int64_t version, uint64_t deadline) {
    struct lw__sqlite *sqlite = lw__sqlite_of(store);
    lw_clock *clock = lw__clock_system();
    int fd = open_watch(sqlite);
    uint64_t now = lw__now(clock), began = now, sign_until = now + SIGN_NS;
    while (!atomic_load(&sqlite->is_roused) && version_of(store) == version
           && (now = lw__now(clock)) < deadline) {
        bool is_near = now < sign_until;
        uint64_t pause = is_near  ? clamp((now - began) / 8, LOOK_NS_MIN, LOOK_NS_MAX)
                         : fd < 0 ? BLIND_NS
                                  : CHECK_NS;
        bool has_sign = sleep_for(sqlite, is_near ? -1 : fd, clamp(deadline - now, 1, pause));
        if (has_sign || (is_near && fd >= 0 && sleep_for(sqlite, fd, 0)))
            sign_until = lw__now(clock) + SIGN_NS;
        if (fd >= 0)
            empty(fd);
    }
    if (fd >= 0)
        close(fd);
}

/* Where there was no descriptor to be had they look within CHECK_NS. */
static void rouse(struct lw__store *store) {
    struct lw__sqlite *sqlite = lw__sqlite_of(store);
    atomic_store(&sqlite->is_roused, true);
    if (sqlite->rouse_fd >= 0)
        eventfd_write(sqlite->rouse_fd, 1);
}

/* ---- asking ------------------------------------------------------------------------------- */

static int refuse_reader(const struct lw__sqlite *sqlite, lw_error *err) {
    if (sqlite->file->mode == LW__SQLITE_CLIENT)
        return LW_OK;
    return lw__error_set(err, LW_EINVAL, 0,
                         "a reader cannot ask for anything: open the store as a client "
                         "(LW_ROLE_CLIENT)");
}

static int put_rows(struct lw__sqlite *sqlite, const lw_task *const *tasks, size_t count,
                    lw_id *ids, lw_error *err) {
    sqlite3_stmt *s = statement(sqlite, LW__SQL_OUTBOX_PUT);
    int rc = LW_OK;
    for (size_t i = 0; rc == LW_OK && i < count; i++) {
        lw__outbox_bind(s, tasks[i]);
        rc = lw__sqlite_file_run(sqlite->file, LW__SQL_OUTBOX_PUT, SUBMITTING, err);
        if (ids)
            ids[i] = LW__OUTSIDE_IDS + (uint64_t)sqlite3_last_insert_rowid(sqlite->file->db);
    }
    sqlite3_clear_bindings(s); /* they point to what is the caller's */
    return rc;
}

/* Adds what has come since; what has gone meanwhile it does not know. */
static int look_at_backlog(struct lw__sqlite *sqlite, lw_error *err) {
    sqlite3_stmt *s = statement(sqlite, LW__SQL_OUTBOX_BYTES);
    sqlite3_bind_int64(s, 1, sqlite->backlog.last);
    int code = sqlite3_step(s);
    if (code == SQLITE_ROW) {
        sqlite->backlog.bytes += (uint64_t)sqlite3_column_int64(s, 0);
        sqlite->backlog.last = sqlite3_column_int64(s, 1);
    }
    int rc = lw__sqlite_explain(sqlite->file->db, code, SUBMITTING, err);
    sqlite3_reset(s);
    return rc;
}

static int refuse_bytes(unsigned long long bytes, unsigned long long more, unsigned long long limit,
                        lw_error *err) {
    if (more > limit)
        return lw__error_set(err, LW_EFULL, 0,
                             "payloads of %llu bytes never fit, %llu may wait for the owner", more,
                             limit);
    return lw__error_set(err, LW_EFULL, 0,
                         "payloads of %llu bytes wait for the owner to take them in, and with %llu "
                         "more they would be above the limit of %llu: try again later",
                         bytes, more, limit);
}

/* All of the outbox is looked at only if there may be too much in it. */
static int check_bytes(struct lw__sqlite *sqlite, const lw_task *const *tasks, size_t count,
                       lw_error *err) {
    struct lw__backlog *backlog = &sqlite->backlog;
    uint64_t limit = sqlite->index->options.byte_limit, more = 0;
    for (size_t i = 0; i < count; i++)
        more += tasks[i]->payload.size;
    uint64_t room = limit > more ? limit - more : 0;
    int rc = look_at_backlog(sqlite, err);
    if (rc == LW_OK && backlog->bytes > room) {
        *backlog = (struct lw__backlog){.last = 0};
        rc = look_at_backlog(sqlite, err);
    }
    return rc < 0 || (more <= limit && backlog->bytes <= room)
               ? rc
               : refuse_bytes(backlog->bytes, more, limit, err);
}

static int check_room(struct lw__sqlite *sqlite, size_t count, lw_error *err) {
    sqlite3_stmt *s = statement(sqlite, LW__SQL_OUTBOX_SIZE);
    uint64_t limit = sqlite->index->options.task_limit;
    sqlite3_bind_int64(s, 1, (int64_t)limit);
    int code = sqlite3_step(s);
    uint64_t size = code == SQLITE_ROW ? (uint64_t)sqlite3_column_int64(s, 0) : 0;
    int rc = lw__sqlite_explain(sqlite->file->db, code, SUBMITTING, err);
    sqlite3_reset(s);
    if (rc < 0 || size + count <= limit)
        return rc;
    return lw__error_set(err, LW_EFULL, 0,
                         "%llu tasks wait for the owner to take them in, and %llu may: try again "
                         "later",
                         (unsigned long long)size, (unsigned long long)limit);
}

/* After a sync that failed nothing is promised before the file is sure again. */
static int begin(struct lw__sqlite *sqlite, lw_error *err) {
    int rc = lw__sqlite_client_look(sqlite, err);
    if (rc == LW_OK && sqlite->is_unsure)
        rc = lw__sqlite_reassure(sqlite, err);
    return rc == LW_OK ? lw__sqlite_file_run(sqlite->file, LW__SQL_BEGIN, SUBMITTING, err) : rc;
}

/* A commit that failed may be durable all the same, unless it can be rolled back, or there was no
 * room for it. */
static int commit(struct lw__sqlite *sqlite, lw_error *err) {
    lw_error detail = {0};
    int rc = lw__sqlite_file_run(sqlite->file, LW__SQL_COMMIT, SUBMITTING, &detail);
    bool is_undone =
        !sqlite3_get_autocommit(sqlite->file->db) || (detail.native & 0xff) == SQLITE_FULL;
    if (rc == LW_OK)
        return LW_OK;
    sqlite->is_unsure = !is_undone;
    return lw__error_set(err, is_undone ? rc : LW_EUNSURE, detail.native, "%s", detail.message);
}

static void roll_back(struct lw__sqlite *sqlite) {
    if (sqlite->file->db && !sqlite3_get_autocommit(sqlite->file->db))
        lw__sqlite_file_run(sqlite->file, LW__SQL_ROLLBACK, SUBMITTING, NULL);
}

static int check_all(struct lw__sqlite *sqlite, const lw_task *const *tasks, size_t count,
                     lw_error *err) {
    lw_error detail = {0};
    int rc = refuse_reader(sqlite, err);
    for (size_t i = 0; rc == LW_OK && i < count; i++) {
        rc = lw__outbox_check(tasks[i], &detail);
        if (rc < 0 && count > 1)
            lw__error_set(err, rc, 0, "task %zu of %zu: %s", i + 1, count, detail.message);
        else if (rc < 0)
            lw__error_set(err, rc, 0, "%s", detail.message);
    }
    return rc;
}

/* All waits of a submit share the caller's deadline; the commit itself has none. */
static struct lw__sqlite_patience patience_until(uint64_t deadline) {
    uint64_t most = lw__now(lw__clock_system()) + LW__SQLITE_BUSY_MS * LW__NS_PER_MS;
    if (deadline >= most)
        return (struct lw__sqlite_patience){.until = 0};
    return (struct lw__sqlite_patience){.until = deadline, .is_shared = true};
}

static int submit(struct lw__store *store, const lw_task *const *tasks, size_t count, lw_id *ids,
                  uint64_t patience_ms, lw_error *err) {
    struct lw__sqlite *sqlite = lw__sqlite_of(store);
    uint64_t now = lw__now(lw__clock_system());
    uint64_t deadline = patience_ms > 0 && patience_ms < (LW__NEVER - now) / LW__NS_PER_MS
                            ? now + patience_ms * LW__NS_PER_MS
                            : LW__NEVER;
    int rc = check_all(sqlite, tasks, count, err);
    if (rc < 0)
        return rc;
    if (!lw__sqlite_client_lock_until(sqlite, deadline))
        return lw__error_set(err, LW_ETIMEDOUT, 0,
                             "other threads of this process had the file for the time given, and "
                             "nothing was accepted");
    sqlite->file->patience = patience_until(deadline);
    bool is_hasty = sqlite->file->patience.until > 0;
    rc = begin(sqlite, err);
    if (rc == LW_OK)
        rc = check_room(sqlite, count, err);
    if (rc == LW_OK)
        rc = check_bytes(sqlite, tasks, count, err);
    if (rc == LW_OK)
        rc = put_rows(sqlite, tasks, count, ids, err);
    if (rc == LW_OK)
        rc = commit(sqlite, err);
    if (rc < 0)
        roll_back(sqlite);
    sqlite->file->patience = (struct lw__sqlite_patience){.until = 0};
    lw__sqlite_client_unlock(sqlite);
    if (rc == LW_EBUSY && is_hasty)
        return lw__error_set(err, LW_ETIMEDOUT, 0,
                             "another connection held the file for the time given, and nothing "
                             "was accepted");
    return rc;
}

static int put_question(struct lw__sqlite *sqlite, uint64_t id, enum lw__change change,
                        lw_error *err) {
    static const char *const names[] = {[LW__CHANGE_CANCEL] = "cancel",
                                        [LW__CHANGE_RETRY] = "retry",
                                        [LW__CHANGE_FORGET] = "forget"};
    sqlite3_stmt *s = statement(sqlite, LW__SQL_OUTBOX_ASK);
    sqlite3_bind_text(s, 1, names[change], -1, SQLITE_STATIC);
    sqlite3_bind_int64(s, 2, (int64_t)id);
    return lw__sqlite_file_run(sqlite->file, LW__SQL_OUTBOX_ASK, SUBMITTING, err);
}

static int ask(struct lw__store *store, uint64_t id, enum lw__change change, lw_error *err) {
    struct lw__sqlite *sqlite = lw__sqlite_of(store);
    int rc = refuse_reader(sqlite, err);
    if (rc < 0)
        return rc;
    lw__sqlite_client_lock(sqlite);
    rc = begin(sqlite, err);
    if (rc == LW_OK)
        rc = put_question(sqlite, id, change, err);
    if (rc == LW_OK)
        rc = commit(sqlite, err);
    if (rc < 0)
        roll_back(sqlite);
    lw__sqlite_client_unlock(sqlite);
    return rc;
}

/* ---- open and close ----------------------------------------------------------------------- */

/* There is a pump because it has the journal that leads from the index to the store; it never
 * runs. */
int lw__sqlite_open_client(struct lw__sqlite *sqlite, const struct lw__store_options *options,
                           lw_error *err) {
    int rc = lw__index_open(&sqlite->index, &lw__sqlite_client_ops, options, err);
    if (rc < 0)
        return rc;
    lw__pump_init(&sqlite->pump, sqlite->index, &lw__sqlite_db_ops, sqlite);
    sqlite->index->journal = &sqlite->pump.journal;
    sqlite->rouse_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return LW_OK;
}

static void close_client(struct lw__store *store) {
    struct lw__sqlite *sqlite = lw__sqlite_of(store);
    if (sqlite->rouse_fd >= 0)
        close(sqlite->rouse_fd);
    lw__sqlite_free(sqlite);
}

static int pause_not(struct lw__store *store, const char *queue, bool is_paused) {
    (void)store, (void)queue, (void)is_paused;
    return LW_EINVAL;
}

static const struct lw__remote_ops remote = {
    .copy = copy_task,
    .drop = drop_copy,
    .count = count_states,
    .submit = submit,
    .ask = ask,
    .version = version_of,
    .await = await_change,
    .rouse = rouse,
    .owner = find_owner,
};

const struct lw__store_ops lw__sqlite_client_ops = {
    .scheme = "sqlite",
    .remote = &remote,
    .close = close_client,
    .kind = lw__index_kind,
    .queue = lw__index_queue,
    .set_kind = lw__index_set_kind,
    .set_queue = lw__index_set_queue,
    .scope_find = lw__sqlite_client_scope_find,
    .scope_next = lw__sqlite_client_scope_next,
    .pause = pause_not,
    .next_told = lw__index_next_told,
    .restrain = lw__index_restrain,
    .bring_forward = lw__index_bring_forward,
    .is_quiet = lw__index_is_quiet,
};
