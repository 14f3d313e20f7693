/* What an error of SQLite means: a few kinds are told apart, each with a status and a phrase. */
#include "store/sqlite/file.h"

#include "base/error.h"

#include <errno.h>
#include <string.h>

static const struct trouble {
    int status;
    const char *phrase;
} troubles[] = {
    [LW__TROUBLE_NONE] = {LW_OK, ""},
    [LW__TROUBLE_BUSY] = {LW_EBUSY, "another connection holds the file"},
    [LW__TROUBLE_FULL] = {LW_ESYSTEM, "the disk is full"},
    [LW__TROUBLE_SYNC] = {LW_ESYSTEM, "the disk does not confirm what was written"},
    [LW__TROUBLE_IO] = {LW_ESYSTEM, "the disk fails"},
    [LW__TROUBLE_READONLY] = {LW_ESYSTEM, "it is read-only"},
    [LW__TROUBLE_CORRUPT] = {LW_ECORRUPT, "the file is damaged, or not an SQLite database"},
    [LW__TROUBLE_MEMORY] = {LW_ENOMEM, "out of memory"},
    [LW__TROUBLE_OTHER] = {LW_ESYSTEM, "SQLite refused"},
};

static bool is_no_room(int error) {
    return error == ENOSPC || error == EDQUOT || error == EFBIG;
}

/* SQLite says FULL for ENOSPC at a write only; a quota, the largest size of a file, and the
 * -shm file, are I/O errors to it. */
static enum lw__sqlite_trouble of_io(sqlite3 *db, int code) {
    int error = db ? sqlite3_system_errno(db) : 0;
    switch (code) {
    case SQLITE_IOERR_FSYNC:
    case SQLITE_IOERR_DIR_FSYNC: return LW__TROUBLE_SYNC;
    case SQLITE_IOERR_NOMEM: return LW__TROUBLE_MEMORY;
    case SQLITE_IOERR_CORRUPTFS: return LW__TROUBLE_CORRUPT;
    default: return is_no_room(error) ? LW__TROUBLE_FULL : LW__TROUBLE_IO;
    }
}

enum lw__sqlite_trouble lw__sqlite_trouble(sqlite3 *db, int code) {
    switch (code & 0xff) {
    case SQLITE_OK:
    case SQLITE_ROW:
    case SQLITE_DONE: return LW__TROUBLE_NONE;
    case SQLITE_BUSY:
    case SQLITE_LOCKED: return LW__TROUBLE_BUSY;
    case SQLITE_FULL: return LW__TROUBLE_FULL;
    case SQLITE_IOERR: return of_io(db, code);
    case SQLITE_READONLY:
    case SQLITE_PERM: return LW__TROUBLE_READONLY;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB: return LW__TROUBLE_CORRUPT;
    case SQLITE_NOMEM: return LW__TROUBLE_MEMORY;
    default: return LW__TROUBLE_OTHER;
    }
}

int lw__sqlite_explain(sqlite3 *db, int code, const char *doing, lw_error *err) {
    enum lw__sqlite_trouble which = lw__sqlite_trouble(db, code);
    const struct trouble *trouble = &troubles[which];
    /* The message of the connection says more than that of the code, if it is about this code. */
    bool is_last = db && sqlite3_extended_errcode(db) == code;
    int error = db ? sqlite3_system_errno(db) : 0;
    int primary = code & 0xff;
    const char *reason = error ? strerrordesc_np(error) : NULL;
    bool has_reason = reason && (primary == SQLITE_IOERR || primary == SQLITE_CANTOPEN);

    if (trouble->status == LW_OK)
        return LW_OK;
    return lw__error_set(err, trouble->status, which == LW__TROUBLE_FULL ? SQLITE_FULL : code,
                         "cannot %s: %s (%s%s%s)", doing, trouble->phrase,
                         is_last ? sqlite3_errmsg(db) : sqlite3_errstr(code),
                         has_reason ? ": " : "", has_reason ? reason : "");
}

/* `native` is an errno where the file itself is gone (place.c) or another's (write.c), and a code
 * of SQLite else. */
static const char *word_of_system(int native) {
    switch (native & 0xff) {
    case ENOENT: return "store_missing";
    case ESTALE: return "store_taken";
    case ETIMEDOUT: return "store_slow";
    case SQLITE_FULL: return "store_full";
    case SQLITE_READONLY:
    case SQLITE_PERM: return "store_read_only";
    default: return "store_failing";
    }
}

_Static_assert(ENOENT == SQLITE_INTERNAL, "a code that SQLite never gives to anybody");
_Static_assert(ESTALE > SQLITE_DONE && ESTALE <= 0xff, "no code of SQLite at all");
_Static_assert(ETIMEDOUT > SQLITE_DONE && ETIMEDOUT <= 0xff, "likewise");

const char *lw__sqlite_trouble_word(const lw_error *trouble) {
    switch (trouble->status) {
    case LW_OK: return NULL;
    case LW_EBUSY: return "store_busy";
    case LW_ECORRUPT: return "store_damaged";
    case LW_ENOMEM: return "no_memory";
    default: return word_of_system(trouble->native);
    }
}
