/* The SQLite store: the index in memory, and a file behind it that the pump writes. Nobody includes
 * this but the table of stores and the store's own files.
 *
 *     sqlite.c   open, close; the port           load.c   from the file into the index, at open
 *     write.c    from the journal to the file    file.h   the file itself
 *     intake.c   from the outbox into the index  outbox.c a program's own connection
 *     outbox_row.c   one row of it
 *     recall.c   payloads, back into memory      reader.h a connection that only reads
 *     remove.c   rows that leave                 running.h who runs what
 *     recover.c  after a write that failed       retention.c how long what has ended stays
 *     plain.c    plain rows, many at a time      write.h  what it shares with write.c
 *     client.c   the port, where another process is the owner; client_scope.c: its scopes
 */
#ifndef LW_STORE_SQLITE_SQLITE_H
#define LW_STORE_SQLITE_SQLITE_H

#include "store/db/pump.h"
#include "store/sqlite/file.h"
#include "store/sqlite/reader.h"
#include "store/sqlite/running.h"
#include "store/store.h"

extern const struct lw__store_ops lw__sqlite_ops;

/* Rows of the outbox that a turn takes of each sort: words, submits that have waited, new ones. Of
 * submits it looks at no more than that, either. */
#define LW__INTAKE_MAX 1000

/* Rows that were obeyed and stay until that is noted: at most as many as there are tasks that
 * workers have claimed and not begun, mostly none. */
#define LW__OBEYED_MAX 64

/* A queue for which rows of the outbox wait. */
struct lw__intake_wait {
    uint32_t queue; /* or LW__INTAKE_OTHERS */
    bool is_full;   /* found in this round; of those in no queue: they are left out */
    int64_t first;  /* the first row that waits; 0: none */
};

#define LW__INTAKE_OTHERS \
    LW_QUEUES_MAX /* who waits for another row, or for a name, is in no queue */

/* What other connections ask for: intake.c. */
struct lw__intake {
    _Atomic bool is_open; /* the engine has started */
    /* the pump's */
    _Atomic uint32_t looks;        /* how often all that is no submit was seen */
    _Atomic uint32_t ends;         /* how often it came to the end of the outbox */
    _Atomic uint32_t awaited;      /* how many wait for that */
    int64_t version;               /* of the data, when the outbox was last looked at */
    bool has_left;                 /* rows that wait for room, or for the end of an attempt */
    bool has_words;                /* some of these are no submits */
    bool has_ended;                /* something has, since then */
    bool is_behind;                /* it has not come to the end of what it could do */
    int64_t seen;                  /* submits up to this row have been looked at */
    struct lw__intake_wait others; /* who waits in no queue */
    struct lw__intake_wait *waits; /* queues that have somebody waiting; in no order */
    uint32_t wait_count, wait_capacity;
    uint32_t *wait_of; /* by the number of a queue: its place in `waits`, plus 1; 0: none */
    uint32_t wait_of_capacity;
    bool has_warned_of_names; /* that there are too many */
    /* a round through those that wait */
    bool must_go_round, is_in_round;
    bool has_taken;      /* since those were looked at that wait for other rows */
    int64_t round_at;    /* how far it is */
    int64_t still_first; /* that waits for another row; 0: none */
    bool is_watching, has_warned;
    bool is_new; /* it has just begun to watch: something may have come before that */
    int inotify; /* -1: none */
    size_t obeyed_count;
    int64_t obeyed[LW__OBEYED_MAX];
    size_t count;
    int64_t taken[3 * LW__INTAKE_MAX + 1]; /* rows that the present turn deletes */
};

/* What a client knows of the payloads in the outbox: at most so many bytes, up to this row. */
struct lw__backlog {
    int64_t last;
    uint64_t bytes;
};

/* Rows that are to be deleted: ids that follow each other. */
struct lw__removal {
    uint64_t first, last; /* 0: none */
};

/* What hangs on the index of an SQLite store. */
struct lw__sqlite {
    lw_allocator allocator;
    struct lw__index *index;
    struct lw__sqlite_file *file;               /* the pump's, after open */
    struct lw__reader for_workers, for_lookers; /* whoever looks does not hold up attempts */
    struct lw__running running;
    uint64_t last_generation; /* of scopes, as it was last written; the pump's */
    int64_t nonce;            /* of this owner, as the file has it; fixed after open */
    bool is_ousted;           /* the file has another owner's; the pump's */
    bool is_unsure;           /* what is in the file, until it was opened anew; the pump's,
                                 or of a client guarded by client_mu */
    struct lw__intake intake;
    struct lw__mutex client_mu;       /* of a client: one at a time uses the file */
    _Atomic uint32_t client_releases; /* of client_mu: who has a deadline sleeps on them */
    _Atomic uint32_t client_sleepers; /* how many do */
    struct lw__backlog backlog;       /* of a client, guarded by client_mu */
    int rouse_fd;                     /* of a client: readable when nobody is to wait; -1: none */
    _Atomic bool is_roused;           /* of a client: likewise */
    struct lw__removal task_removal, history_removal, lease_removal; /* the pump's */
    uint64_t removed_rows; /* since the file was last looked at; the pump's */
    uint64_t token_bound;  /* no token above was given, as the file has it; the pump's */
    int64_t offset_ms;     /* wall time minus the clock's, for all of a turn; the pump's */
    uint64_t dropped_at;   /* when a drop began; guarded by the index's mutex; 0: none did */
    uint64_t offset_since; /* turns have had this offset since then; 0: there was none yet */
    struct lw__pump pump;
};

struct lw__sqlite *lw__sqlite_of(struct lw__store *store);

/* ---- sqlite.c ----------------------------------------------------------------------------- */

/* Frees it, as far as it was opened. */
void lw__sqlite_free(struct lw__sqlite *sqlite);

/* ---- client.c ----------------------------------------------------------------------------- */

extern const struct lw__store_ops lw__sqlite_client_ops;

/* The file is open, with this role. LW_OK, LW_ENOMEM. */
int lw__sqlite_open_client(struct lw__sqlite *sqlite, const struct lw__store_options *options,
                           lw_error *err);

/* Whether the owner runs this task right now. */
bool lw__sqlite_client_runs(const struct lw__sqlite *sqlite, uint64_t id);

/* Takes and releases client_mu. _until gives up at a deadline (of the system's clock; LW__NEVER:
 * none); false: it has come. */
void lw__sqlite_client_lock(struct lw__sqlite *sqlite);
bool lw__sqlite_client_lock_until(struct lw__sqlite *sqlite, uint64_t deadline);
void lw__sqlite_client_unlock(struct lw__sqlite *sqlite);

/* Under client_mu: the file is there, and open. LW_OK, or as an open. */
int lw__sqlite_client_look(struct lw__sqlite *sqlite, lw_error *err);

/* client_scope.c; see struct lw__store_ops. */
int lw__sqlite_client_scope_find(struct lw__store *store, const char *name,
                                 struct lw__scope_copy *copy);
int lw__sqlite_client_scope_next(struct lw__store *store, uint64_t after,
                                 struct lw__scope_copy *copy);

/* ---- write.c ------------------------------------------------------------------------------ */

extern const struct lw__db_ops lw__sqlite_db_ops; /* for the pump; db is a struct lw__sqlite */

/* Before anything is read: writes a nonce of this owner's own into the file. From then on an owner
 * that was there before writes nothing any more. LW_OK; otherwise with a sentence. */
int lw__sqlite_take_over(struct lw__sqlite *sqlite, lw_error *err);

/* Whether the file still has the nonce of this owner: LW_OK; LW_ESYSTEM: it has another one's, and
 * this owner is halted for good. For whoever uses the file; what it finds in a transaction that
 * writes holds until the end of that. */
int lw__sqlite_check_owner(struct lw__sqlite *sqlite, lw_error *err);

/* Before the first attempt: notes in the file which tokens may be given from now on, and that those
 * before are over. */
int lw__sqlite_set_tokens_aside(struct lw__sqlite *sqlite, lw_error *err);

/* After the last one, when the pump has ended: if all are settled, all are over. */
void lw__sqlite_note_close(struct lw__sqlite *sqlite);

/* ---- recover.c ---------------------------------------------------------------------------- */

/* For the pump: see struct lw__db_ops. */
int lw__sqlite_recover(void *db, lw_error *err);

/* is_unsure: opens the file anew, with a truncating checkpoint before and after it. LW_OK: it is
 * sure again; otherwise as an open does, and lw__sqlite_file_reopen says what may be called. */
int lw__sqlite_reassure(struct lw__sqlite *sqlite, lw_error *err);

/* ---- load.c ------------------------------------------------------------------------------- */

/* Brings everything back. LW_OK; LW_ENOMEM; LW_ECORRUPT, LW_ESYSTEM with a sentence. */
int lw__sqlite_load(struct lw__sqlite *sqlite, lw_error *err);

/* The spec of a row of outbox_scan.sql. NULL and *is_lost: no memory. */
struct lw__spec *lw__sqlite_outbox_spec(struct lw__sqlite *sqlite, sqlite3_stmt *row,
                                        bool *is_lost);

/* A row of copy_scan.sql; its blocks are the caller's. LW_OK, LW_ENOMEM; LW_EFULL: there are too
 * many kinds or queues. */
int lw__sqlite_read_copy(struct lw__sqlite *sqlite, sqlite3_stmt *row, struct lw__restored *r);

lw_state lw__sqlite_state_named(const char *name);

/* From wall time in ms, as the file has it, to the clock's ns. */
uint64_t lw__sqlite_clock_ns(const struct lw__sqlite *sqlite, int64_t wall_ms);

/* ---- retention.c -------------------------------------------------------------------------- */

/* In the present transaction, of the kind with this number. */
int lw__sqlite_write_retention(struct lw__sqlite *sqlite, const struct lw__kind_image *image,
                               lw_error *err);

/* Before any task is: what kinds were registered with the last time. Returns as a load. */
int lw__sqlite_load_retention(struct lw__sqlite *sqlite, lw_error *err);

/* ---- remove.c ----------------------------------------------------------------------------- */

/* Deletes a row in the present transaction, but not at once: LW__SQL_TASK_DELETE,
 * LW__SQL_LEASE_DELETE or LW__SQL_HISTORY_DELETE. _all does what is left to be done, _none forgets
 * it. */
int lw__sqlite_remove(struct lw__sqlite *sqlite, enum lw__sql which, uint64_t id, lw_error *err);
/* Deletes it at once if it is among those that wait for that: a row of this id is to be written. */
int lw__sqlite_remove_before(struct lw__sqlite *sqlite, enum lw__sql which, uint64_t id,
                             lw_error *err);
int lw__sqlite_remove_tasks(struct lw__sqlite *sqlite, lw_error *err); /* those that wait for it */
int lw__sqlite_remove_all(struct lw__sqlite *sqlite, lw_error *err);
void lw__sqlite_remove_none(struct lw__sqlite *sqlite);

/* Makes the file shorter, if most of it is free; in the present transaction. */
int lw__sqlite_tidy(struct lw__sqlite *sqlite, lw_error *err);

/* ---- recall.c ----------------------------------------------------------------------------- */

/* Claimed tasks that are lean get their specs back. What cannot be read is not claimed then, and
 * nothing is until the pump has seen to it; what is not there any more is aborted. */
void lw__sqlite_recall(struct lw__sqlite *sqlite, uint64_t now, struct lw__claim *claim);

/* The same for leases: LW_OK, or why they could not be read. */
int lw__sqlite_recall_leased(struct lw__sqlite *sqlite, const struct lw__lease_claim *claim);

/* See struct lw__store_ops. */
int lw__sqlite_read(struct lw__store *store, uint64_t id, void *payload, size_t size);

/* ---- intake.c ----------------------------------------------------------------------------- */

/* For the pump: see struct lw__db_ops. */
int lw__sqlite_intake(void *db, bool is_sure, lw_error *err);
int lw__sqlite_watch(void *db);
bool lw__sqlite_heed(void *db);

/* Inside the turn: deletes the rows that were taken. They are forgotten when it is durable. */
int lw__sqlite_intake_write(struct lw__sqlite *sqlite, lw_error *err);
void lw__sqlite_intake_close(struct lw__sqlite *sqlite);

#endif
