/* What the parts of the file have among themselves (file.h). */
#ifndef LW_STORE_SQLITE_FILE_INTERNAL_H
#define LW_STORE_SQLITE_FILE_INTERNAL_H

#include "store/sqlite/file.h"

#include <limits.h>

/* ---- file.c ------------------------------------------------------------------------------- */

/* A busy handler: pauses before the count-th try. 0: enough of that. */
int lw__sqlite_wait_for_lock(void *unused, int count);

/* ---- path.c ------------------------------------------------------------------------------- */

/* The absolute path of the file that is meant, without links, whether it is there or not: so that
 * two names of one file have one owner; one with hard links is refused. At most LW__SQLITE_PATH_MAX
 * bytes. LW_OK, LW_EINVAL, LW_ESYSTEM. */
int lw__sqlite_path_resolve(const char *path, char resolved[PATH_MAX], lw_error *err);

/* ---- place.c ------------------------------------------------------------------------------ */

/* The files are where they are to stay; _wal after a re-open. */
void lw__sqlite_place_note(struct lw__sqlite_file *file);
void lw__sqlite_place_note_wal(struct lw__sqlite_file *file);

/* ---- owner.c ------------------------------------------------------------------------------ */

/* Takes the ownership of the database with this path, for as long as *fd is open: LW_OK, LW_EBUSY,
 * LW_ESYSTEM. */
int lw__sqlite_owner_take(const char *path, int *fd, lw_error *err);
void lw__sqlite_owner_release(int fd); /* -1 is fine */

/* ---- schema.c ----------------------------------------------------------------------------- */

/* Migration n is at n - 1, and leads from version n - 1 to n. */
struct lw__sqlite_schema {
    const char *const *migrations;
    int version; /* how many there are */
};

extern const struct lw__sqlite_schema lw__sqlite_schema;

/* Looks whose file it is, makes it WAL, and brings its tables to the version of the schema, in one
 * transaction: whoever is killed in its middle leaves the version that was there before. */
int lw__sqlite_schema_apply(const struct lw__sqlite_schema *schema, sqlite3 *db,
                            enum lw__sqlite_mode mode, const char *path, lw_error *err);

#endif
