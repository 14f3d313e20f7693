/* A connection that only reads payloads, beside the pump's. It is opened when it is first needed.
 *
 * Threads: any.
 */
#ifndef LW_STORE_SQLITE_READER_H
#define LW_STORE_SQLITE_READER_H

#include "base/mutex.h"
#include "store/lean.h"
#include "store/sqlite/file.h"

#include <legwork/status.h>
#include <sqlite3.h>

struct lw__reader {
    struct lw__mutex mu;
    /* guarded by mu */
    sqlite3 *db; /* NULL: not open */
    sqlite3_stmt *ahead, *task, *history;
    struct lw__sqlite_patience patience; /* of each statement */
};

void lw__reader_init(struct lw__reader *reader);
void lw__reader_free(struct lw__reader *reader);

/* It will be opened anew: what it knows of the -wal file may be wrong. */
void lw__reader_close(struct lw__reader *reader);

/* Whoever has it reads alone, and what has been read meanwhile can be looked at first. The index's
 * mutex comes after it. */
void lw__reader_lock(struct lw__reader *reader) LW__ACQUIRE(&reader->mu);
void lw__reader_unlock(struct lw__reader *reader) LW__RELEASE(&reader->mu);

/* Reads the spec of a task, and if is_ahead those of the next ones: LW_OK, with or without it.
 * Otherwise why it could not be read, LW_ESYSTEM also if another file is at the path now; what
 * could be is in *reads, and the caller's in any case. */
int lw__reader_read_locked(struct lw__reader *reader, const struct lw__sqlite_file *file,
                           const lw_allocator *allocator, uint64_t id, bool is_ahead,
                           struct lw__lean_reads *reads, lw_error *err);

#endif
