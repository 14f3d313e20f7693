/* When what is committed moves from the -wal file into the database, and by whom.
 *
 * SQLite from 3.7.0 to 3.51.2 has a fault (the "WAL-reset bug"): if a checkpoint begins when all
 * has been moved already, and another connection commits just then and so begins the -wal file
 * anew, that checkpoint notes that the new commit was moved, too. It never is: the database is
 * damaged. It takes two connections, and a checkpoint that does not hold the writer's lock, as
 * those do that SQLite makes by itself after a commit.
 *
 * So whatever SQLite is below: clients and readers make none at all, not even when they close, and
 * the owner makes its own, which take the writer's lock first (FULL, TRUNCATE). SQLite goes on
 * without the lock, as a passive one, when its busy handler gives up. That must not happen: the
 * handler interrupts the checkpoint then, before it has moved anything.
 *
 * The checkpoint of SQLite when the owner closes is made under a lock on the whole database, when
 * there is no other connection. */
#include "store/sqlite/file_internal.h"

#include "base/error.h"

#include <stdio.h>
#include <sys/stat.h>

#define PATIENCE_MS 10 /* with readers that are in the way: it is tried again later */

/* ---- the length of the -wal file ---------------------------------------------------------- */

/* SQLite calls it after each commit. Fewer pages than before: the file was begun anew. */
static int note_pages(void *user, sqlite3 *db, const char *name, int pages) {
    struct lw__sqlite_log_length *length = &((struct lw__sqlite_file *)user)->length;
    (void)db, (void)name;
    if (pages < length->pages)
        length->due = 0;
    length->pages = pages;
    return SQLITE_OK;
}

static off_t size_of_log(const struct lw__sqlite_file *file) {
    char name[PATH_MAX];
    struct stat st;
    snprintf(name, sizeof name, "%.*s-wal", LW__SQLITE_PATH_MAX, file->path);
    return stat(name, &st) == 0 ? st.st_size : 0;
}

void lw__sqlite_checkpoint_init(struct lw__sqlite_file *file) {
    sqlite3_wal_autocheckpoint(file->db, 0); /* first: it is a hook, too */
    file->length = (struct lw__sqlite_log_length){.pages = 0};
    if (file->mode == LW__SQLITE_OWNER)
        sqlite3_wal_hook(file->db, note_pages, file);
    else
        sqlite3_db_config(file->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
}

/* ---- checkpoints -------------------------------------------------------------------------- */

int lw__sqlite_checkpoint(struct lw__sqlite_file *file, int mode) {
    file->patience.checkpoint = file->db;
    int code = sqlite3_wal_checkpoint_v2(file->db, NULL, mode, NULL, NULL);
    file->patience.checkpoint = NULL;
    return (code & 0xff) == SQLITE_INTERRUPT ? SQLITE_BUSY : code;
}

/* What fails is tried again with the next commits; all that is committed is safe where it is. */
void lw__sqlite_checkpoint_now(struct lw__sqlite_file *file) {
    struct lw__sqlite_patience patience = file->patience;
    file->patience = (struct lw__sqlite_patience){.ms = PATIENCE_MS, .is_shared = true};
    if (lw__sqlite_checkpoint(file, SQLITE_CHECKPOINT_FULL) == SQLITE_OK)
        lw__sqlite_identity_moved(file);
    file->patience = patience;
    file->length.due = file->length.pages + LW__SQLITE_CHECKPOINT_PAGES;
    file->length.grown_to = size_of_log(file);
}

void lw__sqlite_checkpoint_if_long(struct lw__sqlite_file *file) {
    const struct lw__sqlite_log_length *length = &file->length;
    if (length->pages >= (length->due ? length->due : LW__SQLITE_CHECKPOINT_PAGES))
        lw__sqlite_checkpoint_now(file);
}

/* Its pages are told to those who commit only. A file that is not longer than it was before the
 * last checkpoint is being used from its beginning on. */
void lw__sqlite_checkpoint_if_grown(struct lw__sqlite_file *file) {
    off_t size = size_of_log(file);
    if (size > file->length.grown_to && size / 4096 >= LW__SQLITE_CHECKPOINT_PAGES)
        lw__sqlite_checkpoint_now(file);
}

/* ---- the fault ---------------------------------------------------------------------------- */

/* Mended in 3.51.3, and in these of older branches. */
bool lw__sqlite_has_wal_fault(int version) {
    bool is_backport =
        (version >= 3044006 && version < 3045000) || (version >= 3050007 && version < 3051000);
    return version >= 3007000 && version < 3051003 && !is_backport;
}

bool lw__sqlite_has_fault(lw_error *fault) {
    if (!lw__sqlite_has_wal_fault(sqlite3_libversion_number()))
        return false;
    lw__error_set(fault, LW_OK, sqlite3_libversion_number(),
                  "SQLite %s has the WAL-reset fault, mended in 3.51.3, 3.50.7 and 3.44.6: "
                  "Legwork's own connections avoid it; on yours to this file set PRAGMA "
                  "wal_autocheckpoint = 0 and SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE",
                  sqlite3_libversion());
    return true;
}
