/* The file behind an SQLite store: opens it, makes sure that it is Legwork's, whole and of this
 * version, and keeps other owners away. What is read from it and written to it is the store's.
 *
 *     file.c     open, close; the statements      schema.c   whose it is, its version, migrations
 *     path.c     which file is meant              trouble.c  what an error of SQLite means
 *     owner.c    the lock of the one owner        place.c    whether it is still there
 *     sql.h      all SQL, as strings              beside.c   files beside it
 *     wal.h      how an owner writes the -wal file
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
#define LW__SQLITE_PATH_MAX 480              /* SQLite takes 512 bytes, and appends some itself */

enum lw__sqlite_mode {
    LW__SQLITE_OWNER,  /* the one that runs tasks, and migrates */
    LW__SQLITE_CLIENT, /* reads, and writes to the outbox */
    LW__SQLITE_READER, /* only reads */
    LW__SQLITE_GUEST   /* a program's own connection: it makes the tables, beside its own */
};

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

struct lw__sqlite_file {
    sqlite3 *db; /* NULL: it could not be opened again */
    sqlite3_stmt *statements[LW__SQL_COUNT];
    struct lw__sqlite_bounds puts, ends;
    struct lw__sqlite_inode wal; /* which the present connection has */
    /* fixed after open */
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

/* NULL is fine. A transaction that is open is rolled back. */
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

/* ---- beside.c ----------------------------------------------------------------------------- */

/* Opens the file <path><suffix> to read and write, and makes it if it is not there, with the mode
 * of the database (and its owner, for root). -1: errno says why. */
int lw__sqlite_beside_open(const char *path, const char *suffix);

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

/* Turns it into a status and a sentence, "cannot <doing>: …", with the code as native. LW_OK for
 * SQLITE_OK, SQLITE_ROW and SQLITE_DONE; otherwise LW_EBUSY, LW_ECORRUPT, LW_ENOMEM, LW_ESYSTEM. */
int lw__sqlite_explain(sqlite3 *db, int code, const char *doing, lw_error *err);

#endif
