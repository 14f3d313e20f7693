/* How connections that write treat their -wal file: a turn of the owner is written in one piece and
 * not at the end of the file, and a commit whose sync has failed is no commit.
 *
 * SQLite writes each page of a commit by two calls of the system. Here they are gathered until the
 * page that makes the commit: what a turn writes is one call. Only while the owner says that it
 * commits: what SQLite writes earlier, to have memory, may be rolled back, and by the time that it
 * would be flushed another connection could have written to the same place.
 *
 * A file that grows has its new size and place written with each sync (measured: 1 to 4 ms instead
 * of 0.3). So it grows ahead, by zeros: as much again as is in it, at most WAL_AHEAD_MAX. To SQLite
 * they are what it finds behind the last commit of any -wal file that was used before.
 *
 * What a sync that failed has lost can still be read, and no later sync writes it. The connection
 * that wrote it knows; but whoever opens the file when that is gone would find a commit, and append
 * to it what a power cut then takes away together with it. So its header is written over at once.
 *
 * It is a VFS of SQLite over the one that there is, with an xOpen of its own for -wal files; all
 * else, the database included, is opened by the one below and knows nothing of it.
 */
#ifndef LW_STORE_SQLITE_WAL_H
#define LW_STORE_SQLITE_WAL_H

#include <sqlite3.h>
#include <stdbool.h>

struct lw__sqlite_wal {
    sqlite3_vfs vfs; /* first: what SQLite hands to its xOpen */
    sqlite3_vfs *below;
    char name[40];      /* for sqlite3_open_v2 */
    bool is_committing; /* set by the owner, around its COMMIT */
};

/* Makes the name known to SQLite, until _forget. Its memory must stay where it is, and outlive the
 * connections that were opened with it. False: SQLite has no VFS, or no memory. */
bool lw__sqlite_wal_announce(struct lw__sqlite_wal *wal);
void lw__sqlite_wal_forget(struct lw__sqlite_wal *wal); /* one that was not announced is fine */

#endif
