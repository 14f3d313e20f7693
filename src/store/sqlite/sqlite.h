/* The SQLite store: the index in memory, and a file behind it that the pump writes. Nobody includes
 * this but the table of stores and the store's own files.
 *
 *     sqlite.c   open, close; the port           load.c   from the file into the index, at open
 *     write.c    from the journal to the file    file.h   the file itself
 */
#ifndef LW_STORE_SQLITE_SQLITE_H
#define LW_STORE_SQLITE_SQLITE_H

#include "store/db/pump.h"
#include "store/sqlite/file.h"
#include "store/store.h"

extern const struct lw__store_ops lw__sqlite_ops;

/* What hangs on the index of an SQLite store. */
struct lw__sqlite {
    lw_allocator allocator;
    struct lw__index *index;
    struct lw__sqlite_file *file; /* the pump's, after open */
    struct lw__pump pump;
};

/* ---- write.c ------------------------------------------------------------------------------ */

extern const struct lw__db_ops lw__sqlite_db_ops; /* for the pump; db is a struct lw__sqlite */

/* ---- load.c ------------------------------------------------------------------------------- */

/* Brings everything back. LW_OK; LW_ENOMEM; LW_ECORRUPT, LW_ESYSTEM with a sentence. */
int lw__sqlite_load(struct lw__sqlite *sqlite, lw_error *err);

/* Times: wall time in ms in the file, the clock's ns in memory. 0 stands for none. */
int64_t lw__sqlite_wall_ms(const struct lw__sqlite *sqlite, uint64_t at);
uint64_t lw__sqlite_clock_ns(const struct lw__sqlite *sqlite, int64_t wall_ms);

#endif
