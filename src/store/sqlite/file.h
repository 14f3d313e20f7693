/* The file behind an SQLite store: opens it, makes sure that it is Legwork's, whole and of this
 * version, and keeps other owners away. What is read from it and written to it is the store's.
 *
 *     file.c     open, close; the statements      schema.c   whose it is, its version, migrations
 *     path.c     which file is meant              trouble.c  what an error of SQLite means
 *     owner.c    the lock of the one owner        place.c    whether it is still there
 *     identity.c which store it is
 *     sql.h      all SQL, as strings              beside.c   files beside it
 *     wal.h      how an owner writes the -wal file
 *     checkpoint.c   from that file into the database
 *
 * Whose it is. A file is Legwork's if it has the table legwork_meta, whatever else is in it: a
 * program may keep its own tables beside Legwork's, and put both into one transaction. Where there
 * is no legwork_meta,
 * - an empty file is made Legwork's, with the application id and the version in its header;
 * - a file with tables and the application id 0 gets Legwork's tables besides its own. Its header
 *   is left alone, but for the journal mode, which becomes WAL;
 * - a file with another application id says that it is another program's, and is refused.
 *
 * One owner. It holds a lock on a file beside the database, <path>-owner, which also has its
 * process id; the file stays, as its removal would race with the next owner. The lock ends with the
 * last descriptor of it, so a child that was forked and lives on without exec holds it, too.
 * Clients and readers own nothing, make nothing and migrate nothing.
 *
 * Memory of SQLite itself comes from malloc: another can be set for a whole process only.
 *
 * Threads: one at a time per file.
 */
#ifndef LW_STORE_SQLITE_FILE_H
#define LW_STORE_SQLITE_FILE_H

#include "store/sqlite/sql.h"
#include "store/sqlite/wal.h"

#include <legwork/runtime.h>
#include <legwork/status.h>
#include <sqlite3.h>
#include <sys/types.h>

#define LW__SQLITE_APPLICATION_ID 0x4c57524b /* "LWRK" */
#define LW__SQLITE_VERSION 2                 /* of the schema */
#define LW__SQLITE_BUSY_MS 5000              /* how long a transaction waits for another's end */
#define LW__SQLITE_CHECKPOINT_PAGES 1000     /* as SQLite's own default */
#define LW__SQLITE_PATH_MAX 480              /* SQLite takes 512 bytes, and appends some itself */

enum lw__sqlite_mode {
    LW__SQLITE_OWNER,  /* the one that runs tasks, and migrates */
    LW__SQLITE_CLIENT, /* reads, and writes to the outbox */
    LW__SQLITE_READER, /* only reads */
    LW__SQLITE_GUEST   /* a program's own connection: it makes the tables, beside its own */
};

/* How long it waits for other connections. Counted by the clock: a sleep may take longer than it
 * should. */
struct lw__sqlite_patience {
    uint64_t until;      /* of the system's clock; 0: nothing was waited for yet */
    uint64_t ms;         /* from the first wait on; 0: LW__SQLITE_BUSY_MS */
    bool is_shared;      /* by all that is waited for until it is begun anew; else for each call */
    sqlite3 *checkpoint; /* the connection is in one, which ends when this does; NULL: it is not */
};

/* It waits for nobody. */
#define LW__SQLITE_NO_PATIENCE ((struct lw__sqlite_patience){.until = 1, .is_shared = true})

struct lw__sqlite_inode {
    dev_t device;
    ino_t number; /* 0: there is none */
};

#define LW__SQLITE_ROWS 8 /* of a statement that writes many */

/* What is bound to the parameters of a row, of those that most rows have in common. row.c */
struct lw__sqlite_bound {
    const char *kind, *queue, *state;              /* NULL: nothing yet */
    uint64_t priority, attempts, crashes, snoozes; /* plus 1 */
    bool has_value, has_result;
};

struct lw__sqlite_bounds {
    struct lw__sqlite_bound one, many[LW__SQLITE_ROWS];
};

/* How long the -wal file is, as the owner knows it. checkpoint.c */
struct lw__sqlite_log_length {
    int pages;      /* in it, after the last commit of the owner */
    int due;        /* with so many there is to be a checkpoint; 0: LW__SQLITE_CHECKPOINT_PAGES */
    off_t grown_to; /* its size when others' writes were last looked at */
};

/* What the -owner file says of a database that is open, or was not closed. identity.c */
struct lw__sqlite_mark {
    bool is_open;
    int64_t id; /* `store_id` of its legwork_meta; 0: not known, the mark is an older Legwork's */
    int64_t
        number; /* the database file by itself has at least this `commit_number`; 0: not known */
};

struct lw__sqlite_file {
    sqlite3 *db; /* NULL: it could not be opened again */
    sqlite3_stmt *statements[LW__SQL_COUNT];
    struct lw__sqlite_bounds puts, ends;
    struct lw__sqlite_inode wal; /* which the present connection has */
    struct lw__sqlite_log_length length;
    struct lw__sqlite_patience patience;
    struct lw__sqlite_mark mark; /* of this owner */
    int64_t commit_number;       /* of the owner's last commit */
    bool is_given_up;            /* the store could not be loaded: its close is none */
    /* fixed after open */
    struct lw__sqlite_mark left; /* that this owner has found */
    bool has_lost_log;           /* the last owner did not close it, and there was no -wal file */
    const lw_allocator *allocator;
    enum lw__sqlite_mode mode;
    int owner;                 /* descriptor of the lock; -1: none */
    struct lw__sqlite_wal log; /* of all but readers */
    struct lw__sqlite_inode database;
    size_t size;
    char path[]; /* absolute, without links */
};

/* Opens the file, which an owner makes if it is not there, and prepares the statements. *file is
 * NULL unless it returns LW_OK. Otherwise, with a sentence:
 * LW_EINVAL    the path is none; the file is another program's, or of another version
 * LW_ENOTFOUND a client or reader, and there is no store yet
 * LW_EBUSY     it has an owner already, whose process id the sentence tells; or another connection
 *              is in a transaction for longer than LW__SQLITE_BUSY_MS
 * LW_ECORRUPT  it is damaged, or not an SQLite database at all
 * LW_ESYSTEM   no such directory, not to be written to, disk full …; native is errno, or the code
 *              of SQLite
 * LW_ENOMEM
 * Damage is looked for in the header, the schema and the root of each table, which costs the same
 * however big the file is; deeper down it is told by whoever reads there. */
int lw__sqlite_file_open(struct lw__sqlite_file **file, const char *path, enum lw__sqlite_mode mode,
                         const lw_allocator *allocator, lw_error *err);

/* Lets go of the connection and makes a new one, under the same ownership: for when it is not known
 * what has become of the last writes. Returns as an open does, and LW_ESYSTEM if the path
 * leads to another file now; unless it is LW_OK, nothing but this and the close may be called, and
 * `db` may be NULL. The -wal file is another one afterwards. */
int lw__sqlite_file_reopen(struct lw__sqlite_file *file, lw_error *err);

/* NULL is fine. A transaction that is open is rolled back. What an owner closes counts as closed:
 * the next one may begin with an empty file. Not so if is_given_up, and the last one was killed. */
void lw__sqlite_file_close(struct lw__sqlite_file *file);

/* Runs a statement that has no rows to give, with what is bound to it, and resets it. `doing` is
 * what the sentence says it cannot: "write the outcomes". */
int lw__sqlite_file_run(struct lw__sqlite_file *file, enum lw__sql which, const char *doing,
                        lw_error *err);

/* ---- place.c ------------------------------------------------------------------------------ */

/* Whether the database is still where it was opened, and the -wal file, too: LW_OK; LW_ESYSTEM:
 * somebody has deleted, moved or replaced it, and what is written now would be lost. For whoever
 * uses the file; _database for any thread. */
int lw__sqlite_place_check(const struct lw__sqlite_file *file, lw_error *err);
int lw__sqlite_place_check_database(const struct lw__sqlite_file *file, lw_error *err);

/* ---- checkpoint.c ------------------------------------------------------------------------- */

/* Sets up a connection that was just opened: it makes no checkpoints by itself. */
void lw__sqlite_checkpoint_init(struct lw__sqlite_file *file);

/* SQLITE_CHECKPOINT_FULL or _TRUNCATE, under the writer's lock; outside of a transaction. Returns
 * a code of SQLite; SQLITE_BUSY: it did not get the lock, or others read, within its patience. */
int lw__sqlite_checkpoint(struct lw__sqlite_file *file, int mode);

/* For the owner: a checkpoint, if nobody is in the way. */
void lw__sqlite_checkpoint_now(struct lw__sqlite_file *file);

/* For the owner, after a commit: a checkpoint, if the -wal file is long. */
void lw__sqlite_checkpoint_if_long(struct lw__sqlite_file *file);

/* For the owner, when others have written: a checkpoint, if the -wal file has become longer. */
void lw__sqlite_checkpoint_if_grown(struct lw__sqlite_file *file);

/* Whether SQLite of this number (sqlite3_libversion_number) has the WAL-reset fault; a version that
 * a distribution has mended without a new number counts as one that has it. */
bool lw__sqlite_has_wal_fault(int version);

/* See struct lw__store_ops. */
bool lw__sqlite_has_fault(lw_error *fault);

/* ---- beside.c ----------------------------------------------------------------------------- */

/* Opens the file <path><suffix> to read and write, and makes it if it is not there, with the mode
 * of the database (and its owner, for root). What is there and is not a file of one name, such as a
 * symbolic link, is neither followed nor touched. LW_OK; LW_ESYSTEM with a sentence, and *fd is
 * -1. */
int lw__sqlite_beside_open(const char *path, const char *suffix, int *fd, lw_error *err);

/* Opens it to read. -1: it is not there, or it is a link. */
int lw__sqlite_beside_look(const char *path, const char *suffix);

/* Removes the name; who has the file open keeps it. */
void lw__sqlite_beside_remove(const char *path, const char *suffix);

/* ---- identity.c --------------------------------------------------------------------------- */

/* In a transaction of the owner: writes the number of this commit, one more than `commit_number`,
 * which the owner sets when it is committed. */
int lw__sqlite_identity_put_number(struct lw__sqlite_file *file, int64_t number, lw_error *err);

/* ---- owner.c ------------------------------------------------------------------------------ */

/* The process that owns the database with this path; 0: none does; -1: one that has not said its
 * number. */
int64_t lw__sqlite_owner_find(const char *path);

/* ---- trouble.c ---------------------------------------------------------------------------- */

/* What is to be told apart of the errors of SQLite. */
enum lw__sqlite_trouble {
    LW__TROUBLE_NONE,
    LW__TROUBLE_BUSY,     /* another connection writes, or has the file for itself */
    LW__TROUBLE_FULL,     /* no room: goes away by itself */
    LW__TROUBLE_SYNC,     /* fsync failed: nobody knows what is on the disk */
    LW__TROUBLE_IO,       /* the disk failed otherwise */
    LW__TROUBLE_READONLY, /* not to be written to */
    LW__TROUBLE_CORRUPT,
    LW__TROUBLE_MEMORY,
    LW__TROUBLE_OTHER
};

/* What the (extended) code of the last call on this connection means. */
enum lw__sqlite_trouble lw__sqlite_trouble(sqlite3 *db, int code);

/* Turns it into a status and a sentence, "cannot <doing>: …", with the code as native (SQLITE_FULL
 * wherever there was no room). LW_OK for SQLITE_OK, SQLITE_ROW and SQLITE_DONE; otherwise LW_EBUSY,
 * LW_ECORRUPT, LW_ENOMEM, LW_ESYSTEM. */
int lw__sqlite_explain(sqlite3 *db, int code, const char *doing, lw_error *err);

/* A word for programs for an error of a file that was open: "store_full", …; NULL: it is none. */
const char *lw__sqlite_trouble_word(const lw_error *trouble);

#endif
