/* What other connections ask for: rows of the outbox become tasks of the index, and the turn that
 * writes these deletes the rows. The pump's thread only.
 *
 * First of all comes what is no submit, all of it, in order: what an attempt has committed counts
 * before its verdict does (lw__sqlite_look_outside), however many submits wait.
 *
 * A submit that finds no room stays in the outbox, in order within its queue, until something has
 * ended; those of other queues pass it. So every row is looked at once as it comes (`seen`); of
 * each queue it is known which row waits first, and when something has ended a round begins with
 * that one. It passes over no more rows than it must: a queue that is full again is done, and the
 * next one begins with its own first. Both take a bounded lot of rows in a turn, and go on in the
 * next.
 *
 * A submit that can never run (it fits into no queue; it comes after a task that was never there)
 * becomes an aborted task with a reason. A row that cannot even be that (its kind is none) is
 * dropped with a record in the log.
 *
 * A position that a handler has saved in its own transaction is published, as if by the handler.
 *
 * A completion by the handler's own transaction stays until its attempt is settled: it only sees to
 * it that this finishes the task. If the process dies before, the next open applies it.
 *
 * Who has written is found out by SQLite's data_version. When to look is told by inotify: other
 * processes write to the -wal file when they commit, and the descriptor of the database stays
 * SQLite's alone.
 */
#include "store/sqlite/outbox_row.h"

#include "base/error.h"
#include "base/futex.h"
#include "base/log.h"
#include "base/memory.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#define LOOKING "look into the outbox"

/* ---- one after the other ------------------------------------------------------------------ */

static struct lw__outbox_row row_of(struct lw__sqlite *sqlite, enum lw__sql which) {
    return (struct lw__outbox_row){.sqlite = sqlite,
                                   .at = sqlite->file->statements[which],
                                   .now = lw__now(sqlite->index->options.clock)};
}

/* What is left of a row that did not have to stay. LW_OK: go on; otherwise that is enough for
 * now. */
static int leave_behind(const struct lw__outbox_row *row, int rc) {
    if (rc == LW_ESTOPPING || rc == LW_ENOMEM)
        return rc;
    lw__outbox_row_take(row, rc);
    return LW_OK;
}

static int explain(struct lw__sqlite *sqlite, int rc, int code, lw_error *err) {
    return rc == LW_OK ? lw__sqlite_explain(sqlite->file->db, code, LOOKING, err) : rc;
}

/* ---- all but submits ---------------------------------------------------------------------- */

static int obey_words(struct lw__sqlite *sqlite, lw_error *err) {
    struct lw__intake *intake = &sqlite->intake;
    struct lw__outbox_row row = row_of(sqlite, LW__SQL_OUTBOX_WORDS);
    int code = SQLITE_ROW, rc = LW_OK;
    intake->has_words = false;
    while (rc == LW_OK && intake->count < LW__INTAKE_MAX
           && (code = sqlite3_step(row.at)) == SQLITE_ROW) {
        rc = lw__outbox_row_obey(&row);
        if (rc == LW_PENDING)
            intake->has_words = true;
        rc = rc == LW_PENDING ? LW_OK : leave_behind(&row, rc);
    }
    sqlite3_reset(row.at);
    if (code == SQLITE_DONE)
        atomic_fetch_add(&intake->looks, 1);
    else if (code == SQLITE_ROW)
        intake->is_behind = true;
    return explain(sqlite, rc, code, err);
}

/* ---- submits ------------------------------------------------------------------------------ */

/* NULL: nobody waits for room in the queue. */
static struct lw__intake_wait *find_wait(struct lw__intake *intake, uint32_t queue) {
    uint32_t at = queue < intake->wait_of_capacity ? intake->wait_of[queue] : 0;
    return at ? &intake->waits[at - 1] : NULL;
}

/* Doubles an array until it holds `count`. False: no memory. */
static bool grow(const lw_allocator *allocator, void **array, uint32_t *capacity, size_t size,
                 uint32_t count) {
    uint32_t wanted = *capacity ? *capacity : 16;
    while (wanted < count)
        wanted *= 2;
    if (wanted == *capacity)
        return true;
    char *grown = lw__resize(allocator, *array, *capacity * size, wanted * size);
    if (!grown)
        return false;
    memset(grown + *capacity * size, 0, (wanted - *capacity) * size);
    *array = grown;
    *capacity = wanted;
    return true;
}

/* The same, made if need be. NULL: no memory. */
static struct lw__intake_wait *make_wait(struct lw__sqlite *sqlite, uint32_t queue) {
    struct lw__intake *intake = &sqlite->intake;
    struct lw__intake_wait *known = find_wait(intake, queue);
    void *waits = intake->waits, *wait_of = intake->wait_of;
    if (known)
        return known;
    bool is_there = grow(&sqlite->allocator, &waits, &intake->wait_capacity, sizeof *intake->waits,
                         intake->wait_count + 1);
    intake->waits = waits;
    is_there = grow(&sqlite->allocator, &wait_of, &intake->wait_of_capacity,
                    sizeof *intake->wait_of, queue + 1)
               && is_there;
    intake->wait_of = wait_of;
    if (!is_there)
        return NULL;
    intake->waits[intake->wait_count] = (struct lw__intake_wait){.queue = queue};
    intake->wait_of[queue] = ++intake->wait_count;
    return &intake->waits[intake->wait_count - 1];
}

/* The last one takes its place. */
static void drop_wait(struct lw__intake *intake, uint32_t at) {
    struct lw__intake_wait last = intake->waits[intake->wait_count - 1];
    intake->wait_of[intake->waits[at].queue] = 0;
    intake->wait_count--;
    if (at < intake->wait_count) {
        intake->waits[at] = last;
        intake->wait_of[last.queue] = at + 1;
    }
}

static void wait_at(struct lw__intake_wait *wait, int64_t seq) {
    if (wait->first == 0 || seq < wait->first)
        wait->first = seq;
}

/* LW_OK, LW_ENOMEM. */
static int wait_for_room(struct lw__outbox_row *row, int64_t seq) {
    struct lw__intake_wait *wait = make_wait(row->sqlite, row->queue);
    if (wait)
        wait_at(wait, seq);
    return wait ? LW_OK : LW_ENOMEM;
}

/* All that came before it in its queue was taken: LW_EFULL, or LW_ENOMEM. */
static int wait_again(struct lw__outbox_row *row, int64_t seq) {
    struct lw__intake_wait *wait = make_wait(row->sqlite, row->queue);
    if (!wait)
        return LW_ENOMEM;
    wait->is_full = true;
    wait->first = seq;
    return LW_EFULL;
}

/* A name is one too many: its row waits until the store is opened again. */
static void warn_of_names(struct lw__sqlite *sqlite) {
    struct lw__intake *intake = &sqlite->intake;
    if (!intake->has_warned_of_names)
        lw__log(sqlite->index->options.log, LW_LOG_WARN, "outbox",
                "a submit brings a kind or queue too many: it waits until the store is opened "
                "again, with a larger limit or fewer names in use");
    intake->has_warned_of_names = true;
}

/* As lw__outbox_row_meet; LW_PENDING: it has to wait for a name. */
static int meet(struct lw__outbox_row *row) {
    int rc = lw__outbox_row_meet(row);
    if (rc == LW_EFULL)
        warn_of_names(row->sqlite);
    return rc == LW_EFULL ? LW_PENDING : rc;
}

/* A submit that nobody has looked at yet. */
static int take_new_row(struct lw__outbox_row *row) {
    struct lw__intake *intake = &row->sqlite->intake;
    int64_t seq = lw__outbox_row_seq(row);
    int rc = meet(row);
    if (rc == LW_OK)
        rc = find_wait(intake, row->queue) ? LW_EFULL : lw__outbox_row_put(row);
    if (rc == LW_EFULL)
        rc = wait_for_room(row, seq);
    else if (rc == LW_PENDING)
        wait_at(&intake->others, seq);
    else
        rc = leave_behind(row, rc);
    if (rc != LW_ESTOPPING && rc != LW_ENOMEM)
        intake->seen = seq;
    return rc == LW_PENDING ? LW_OK : rc;
}

/* One that has been looked at, and had to stay. */
static int take_row_again(struct lw__outbox_row *row) {
    struct lw__intake *intake = &row->sqlite->intake;
    int64_t seq = lw__outbox_row_seq(row);
    int rc = meet(row);
    const struct lw__intake_wait *wait = rc == LW_OK ? find_wait(intake, row->queue) : NULL;
    bool was_full = wait && wait->is_full;
    if (rc == LW_OK && !was_full)
        rc = lw__outbox_row_put(row);
    if (rc == LW_EFULL) {
        rc = wait_again(row, seq);
    } else if (rc == LW_PENDING && intake->still_first == 0) {
        intake->still_first = seq;
    } else if (rc != LW_PENDING && !was_full) {
        intake->has_taken = true;
        rc = leave_behind(row, rc);
    }
    if (rc != LW_ESTOPPING && rc != LW_ENOMEM)
        intake->round_at = seq + 1;
    return rc == LW_PENDING ? LW_OK : rc;
}

static int step_through(struct lw__outbox_row *row, int64_t from, int64_t to, int *budget,
                        int (*take_row)(struct lw__outbox_row *row), bool *is_through,
                        lw_error *err) {
    int code = SQLITE_ROW, rc = LW_OK;
    sqlite3_bind_int64(row->at, 1, from);
    sqlite3_bind_int64(row->at, 2, to);
    sqlite3_bind_int(row->at, 3, *budget);
    while (rc == LW_OK && *budget > 0 && (code = sqlite3_step(row->at)) == SQLITE_ROW) {
        *budget -= 1;
        rc = take_row(row);
    }
    sqlite3_reset(row->at);
    *is_through = code == SQLITE_DONE;
    return explain(row->sqlite, rc, code, err);
}

static int take_new(struct lw__sqlite *sqlite, lw_error *err) {
    struct lw__outbox_row row = row_of(sqlite, LW__SQL_OUTBOX_SCAN);
    int budget = LW__INTAKE_MAX;
    bool is_through;
    size_t before = sqlite->intake.count;
    int rc = step_through(&row, sqlite->intake.seen + 1, INT64_MAX, &budget, take_new_row,
                          &is_through, err);
    sqlite->intake.is_behind |= rc == LW_OK && !is_through;
    sqlite->intake.has_taken |= sqlite->intake.count > before;
    return rc;
}

/* ---- rounds ------------------------------------------------------------------------------- */

/* The first row that may have to wait no longer; 0: there is none. */
static int64_t next_of_round(const struct lw__intake *intake) {
    int64_t next = intake->others.is_full ? 0 : intake->others.first;
    for (uint32_t i = 0; i < intake->wait_count; i++) {
        const struct lw__intake_wait *wait = &intake->waits[i];
        if (!wait->is_full && (next == 0 || wait->first < next))
            next = wait->first;
    }
    next = next && next < intake->round_at ? intake->round_at : next;
    return next <= intake->seen ? next : 0;
}

/* Those who wait for other rows need no look before such a row was taken. */
static void begin_round(struct lw__intake *intake) {
    for (uint32_t i = 0; i < intake->wait_count; i++)
        intake->waits[i].is_full = false;
    intake->others.is_full = !intake->has_taken;
    intake->has_taken = intake->must_go_round = false;
    intake->is_in_round = true;
    intake->round_at = intake->still_first = 0;
}

/* Whoever was not full has nobody waiting any more. */
static void end_round(struct lw__intake *intake) {
    for (uint32_t i = intake->wait_count; i > 0; i--) {
        if (!intake->waits[i - 1].is_full)
            drop_wait(intake, i - 1);
    }
    if (!intake->others.is_full)
        intake->others.first = intake->still_first;
    intake->is_in_round = false;
    intake->must_go_round |= intake->has_taken && intake->others.first;
    intake->is_behind |= intake->must_go_round;
}

static int go_round(struct lw__sqlite *sqlite, lw_error *err) {
    struct lw__intake *intake = &sqlite->intake;
    struct lw__outbox_row row = row_of(sqlite, LW__SQL_OUTBOX_SCAN);
    int budget = LW__INTAKE_MAX, rc = LW_OK;
    if (!intake->is_in_round && intake->must_go_round)
        begin_round(intake);
    int64_t next = 0;
    while (intake->is_in_round && rc == LW_OK && budget > 0
           && (next = next_of_round(intake)) != 0) {
        bool is_through;
        rc = step_through(&row, next, intake->seen, &budget, take_row_again, &is_through, err);
        if (rc == LW_OK && is_through)
            intake->round_at = intake->seen + 1;
        rc = rc == LW_EFULL ? LW_OK : rc; /* one more queue is: the next one begins elsewhere */
    }
    if (intake->is_in_round && rc == LW_OK && next == 0)
        end_round(intake);
    intake->is_behind |= intake->is_in_round;
    return rc;
}

/* ---- all rows ----------------------------------------------------------------------------- */

/* The first submit that stays, or has not been looked at. */
static int64_t first_left(const struct lw__intake *intake) {
    int64_t first = intake->seen + 1;
    if (intake->others.first && intake->others.first < first)
        first = intake->others.first;
    for (uint32_t i = 0; i < intake->wait_count; i++) {
        if (intake->waits[i].first < first)
            first = intake->waits[i].first;
    }
    return first;
}

/* Somebody may have numbered rows himself, below those that were looked at. */
static void mind_strays(struct lw__sqlite *sqlite) {
    sqlite3_stmt *s = sqlite->file->statements[LW__SQL_OUTBOX_FIRST];
    int64_t left = first_left(&sqlite->intake);
    int64_t first = sqlite3_step(s) == SQLITE_ROW ? sqlite3_column_int64(s, 0) : left;
    sqlite3_reset(s);
    if (first < left)
        sqlite->intake.seen = first - 1;
}

/* Up to the first submit that stays, all are here or have been. */
static void note_progress(struct lw__sqlite *sqlite) {
    struct lw__index *index = sqlite->index;
    struct lw__intake *intake = &sqlite->intake;
    int64_t first = first_left(intake);
    intake->has_left = intake->has_words || first <= intake->seen;
    uint64_t id = LW__OUTSIDE_IDS + (uint64_t)first;
    lw__index_lock(index);
    index->outside_from = id > index->outside_from ? id : index->outside_from;
    lw__index_unlock(index);
}

static void note_end(struct lw__intake *intake) {
    atomic_fetch_add(&intake->ends, 1);
    if (atomic_load(&intake->awaited) > 0)
        lw__futex_wake(&intake->ends, INT_MAX);
}

/* Returns how many are to be deleted, or what stood in the way. */
static int scan_rows(struct lw__sqlite *sqlite, lw_error *err) {
    struct lw__intake *intake = &sqlite->intake;
    intake->must_go_round |= intake->has_ended;
    intake->has_ended = intake->is_behind = false;
    int rc = obey_words(sqlite, err);
    size_t words = intake->count;
    mind_strays(sqlite);
    if (rc == LW_OK)
        rc = go_round(sqlite, err);
    if (rc == LW_OK)
        rc = take_new(sqlite, err);
    note_progress(sqlite);
    intake->is_behind |= rc == LW_ENOMEM || (intake->has_words && intake->count > words);
    if (rc == LW_OK && intake->is_behind)
        lw__pump_call(&sqlite->pump); /* the next turn goes on */
    else if (rc == LW_OK || rc == LW_ESTOPPING)
        note_end(intake);
    return intake->count > 0 ? (int)intake->count : rc == LW_ESTOPPING ? 0 : rc;
}

/* ---- when to look ------------------------------------------------------------------------- */

static int read_data_version(struct lw__sqlite *sqlite, int64_t *version, lw_error *err) {
    sqlite3_stmt *s = sqlite->file->statements[LW__SQL_DATA_VERSION];
    int code = sqlite3_step(s);
    int rc = lw__sqlite_explain(sqlite->file->db, code, LOOKING, err);
    *version = sqlite3_column_int64(s, 0);
    sqlite3_reset(s);
    return rc;
}

/* Whoever has begun to write holds the lock until its commit is seen by all. */
static int wait_for_writer(struct lw__sqlite *sqlite, lw_error *err) {
    int rc = lw__sqlite_file_run(sqlite->file, LW__SQL_BEGIN, LOOKING, err);
    if (rc == LW_OK)
        rc = lw__sqlite_file_run(sqlite->file, LW__SQL_COMMIT, LOOKING, err);
    return rc;
}

int lw__sqlite_intake(void *db, bool is_sure, lw_error *err) {
    struct lw__sqlite *sqlite = db;
    struct lw__intake *intake = &sqlite->intake;
    if (!atomic_load_explicit(&intake->is_open, memory_order_acquire))
        return 0;
    bool is_first = intake->version <= 0; /* what was heard of others before was not looked at */
    int64_t version = -1;
    int rc = is_sure || is_first ? wait_for_writer(sqlite, err) : LW_OK;
    if (rc == LW_OK)
        rc = read_data_version(sqlite, &version, err);
    if (rc < 0)
        return rc;
    bool must_scan = intake->is_behind || (intake->has_left && intake->has_ended);
    if (version == intake->version && !must_scan) {
        atomic_fetch_add(&intake->looks, 1);
        note_end(intake);
        return 0;
    }
    if (version != intake->version && lw__sqlite_check_owner(sqlite, NULL) < 0)
        return 1; /* there has to be a turn, which says so */
    if (version != intake->version)
        lw__sqlite_checkpoint_if_grown(sqlite->file);
    rc = scan_rows(sqlite, err);
    if (rc >= 0)
        intake->version = version;
    return rc;
}

int lw__sqlite_intake_write(struct lw__sqlite *sqlite, lw_error *err) {
    sqlite3_stmt *s = sqlite->file->statements[LW__SQL_OUTBOX_DELETE];
    int rc = LW_OK;
    for (size_t i = 0; rc == LW_OK && i < sqlite->intake.count; i++) {
        sqlite3_bind_int64(s, 1, sqlite->intake.taken[i]);
        rc = lw__sqlite_file_run(sqlite->file, LW__SQL_OUTBOX_DELETE, "write to the store", err);
    }
    return rc;
}

/* ---- watching ----------------------------------------------------------------------------- */

/* The file is there as long as this process has the database open, but may be another one after a
 * re-open. */
int lw__sqlite_watch(void *db) {
    struct lw__sqlite *sqlite = db;
    struct lw__intake *intake = &sqlite->intake;
    char name[PATH_MAX];
    if (intake->is_watching)
        return intake->inotify;
    if (intake->inotify < 0)
        intake->inotify = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    snprintf(name, sizeof name, "%.*s-wal", LW__SQLITE_PATH_MAX, sqlite->file->path);
    intake->is_watching =
        intake->inotify >= 0 && inotify_add_watch(intake->inotify, name, IN_MODIFY) >= 0;
    intake->is_new |= intake->is_watching;
    if (intake->is_watching)
        return intake->inotify;
    if (!intake->has_warned)
        lw__log(sqlite->index->options.log, LW_LOG_WARN, "outbox",
                "inotify is not to be had: looking from time to time",
                LW__FIELD_TEXT("why", strerrordesc_np(errno)));
    intake->has_warned = true;
    return -1;
}

bool lw__sqlite_heed(void *db) {
    struct lw__intake *intake = &((struct lw__sqlite *)db)->intake;
    _Alignas(struct inotify_event) char buffer[1024]; /* no names: many fit */
    bool has_heard = intake->is_new;
    intake->is_new = false;
    ssize_t size;
    while ((size = read(intake->inotify, buffer, sizeof buffer)) > 0) {
        has_heard = true;
        for (ssize_t at = 0; at < size;) {
            struct inotify_event event;
            memcpy(&event, buffer + at, sizeof event);
            if (event.mask & IN_IGNORED)
                intake->is_watching = false;
            at += (ssize_t)(sizeof event + event.len);
        }
    }
    return has_heard;
}

void lw__sqlite_intake_close(struct lw__sqlite *sqlite) {
    struct lw__intake *intake = &sqlite->intake;
    lw__free(&sqlite->allocator, intake->waits, intake->wait_capacity * sizeof *intake->waits);
    lw__free(&sqlite->allocator, intake->wait_of,
             intake->wait_of_capacity * sizeof *intake->wait_of);
    if (sqlite->intake.inotify >= 0)
        close(sqlite->intake.inotify);
}
