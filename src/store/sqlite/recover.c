/* What it takes to go on after a write that failed; for the owner and its clients alike.
 *
 * After a sync that failed the files may read as if all were well, and not be on the disk. The
 * connection that wrote to them knows how far the -wal file was synced, and moves no more than that
 * into the database. (What it has committed in vain is void: wal.c.) Whoever writes to the -wal
 * file next without that, as other processes do, writes over the same place, and syncs it. */
#include "store/sqlite/sqlite.h"

#include "base/error.h"

/* Moves all that is committed from the -wal file to the database, and cuts that file off. */
static int checkpoint(struct lw__sqlite *sqlite, lw_error *err) {
    sqlite3 *db = sqlite->file->db;
    int code = lw__sqlite_checkpoint(sqlite->file, SQLITE_CHECKPOINT_TRUNCATE);
    if (lw__sqlite_trouble(db, code) == LW__TROUBLE_SYNC)
        sqlite->is_unsure = true;
    return lw__sqlite_explain(db, code, "bring the file up to date", err);
}

int lw__sqlite_reassure(struct lw__sqlite *sqlite, lw_error *err) {
    lw__reader_close(&sqlite->for_workers);
    lw__reader_close(&sqlite->for_lookers);
    int rc = sqlite->file->db ? checkpoint(sqlite, err) : LW_OK;
    if (rc == LW_OK)
        rc = lw__sqlite_file_reopen(sqlite->file, err);
    if (rc == LW_OK)
        rc = checkpoint(sqlite, err);
    if (rc == LW_OK)
        sqlite->is_unsure = false;
    if (rc == LW_EBUSY) /* TRUNCATE waits for readers, too */
        lw__error_set(err, rc, err->native,
                      "a sync has failed, and nothing can be written before the file is brought up "
                      "to date: another connection's transaction is in the way, even one that only "
                      "reads; end it: %s",
                      sqlite->file->path);
    sqlite->intake.version = -1; /* it was of the connection before */
    return rc;
}

/* Unless a sync has failed it is worth a try even with the -wal file as it is. The checkpoint may
 * make room on a full disk; it waits for no other connection, because the time that a turn may wait
 * is needed for its transaction. */
int lw__sqlite_recover(void *db, lw_error *err) {
    struct lw__sqlite *sqlite = db;
    if (sqlite->is_ousted)
        return LW_OK; /* the file is another owner's: the turn is refused */
    if (sqlite->is_unsure)
        return lw__sqlite_reassure(sqlite, err);
    struct lw__sqlite_patience patience = sqlite->file->patience;
    sqlite->file->patience = LW__SQLITE_NO_PATIENCE;
    int rc = checkpoint(sqlite, err);
    sqlite->file->patience = patience;
    return sqlite->is_unsure ? rc : LW_OK;
}
