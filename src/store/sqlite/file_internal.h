/* What the parts of the file have among themselves (file.h). */
#ifndef LW_STORE_SQLITE_FILE_INTERNAL_H
#define LW_STORE_SQLITE_FILE_INTERNAL_H

#include "store/sqlite/file.h"

#include <limits.h>

/* ---- file.c ------------------------------------------------------------------------------- */

/* A busy handler, with a struct lw__sqlite_patience: pauses before the count-th try. 0: enough of
 * that. */
int lw__sqlite_wait_for_lock(void *patience, int count);

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
 * LW_ESYSTEM; also if the database is missing although its last owner has not closed it. *left is
 * the mark that the last owner has left, and it stays. */
int lw__sqlite_owner_take(const char *path, int *fd, struct lw__sqlite_mark *left, lw_error *err);

/* The database is there, with what the mark says: it is missed from now on until the release says
 * that it was closed. */
void lw__sqlite_owner_mark(int fd, const struct lw__sqlite_mark *mark);

/* is_closed: the database was closed, and was in its place. -1 is fine as fd. */
void lw__sqlite_owner_release(int fd, bool is_closed);

/* ---- identity.c --------------------------------------------------------------------------- */

/* Before the database is opened: whether the -wal file beside it is its own, if the last owner has
 * left a mark. LW_OK, also if that cannot be known; LW_ESYSTEM. Changes no file. */
int lw__sqlite_identity_check_log(struct lw__sqlite_file *file, lw_error *err);

/* When it is open, before anything is written: whether it is the store of the mark that the last
 * owner has left. LW_OK; LW_ESYSTEM; or why it cannot be read. */
int lw__sqlite_identity_check(struct lw__sqlite_file *file, lw_error *err);

/* Writes which store it is, into the database file itself if no other connection is in the way, and
 * then into the mark of this owner. LW_OK, or why it cannot be written. */
int lw__sqlite_identity_mark(struct lw__sqlite_file *file, lw_error *err);

/* After a checkpoint that has moved all: the database file has the commit number of now. */
void lw__sqlite_identity_moved(struct lw__sqlite_file *file);

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
