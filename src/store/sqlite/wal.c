/* Who reads the -wal file through another descriptor goes no further than the last commit that the
 * -shm file tells of. SQLite notes it there after it has written the page of that commit, and
 * synced it; so nothing has to be in the file before that page is.
 *
 * A write that fails fails the call that brought the page of the commit, or one before it, as it
 * would without this. What was gathered is dropped then: SQLite rolls back.
 *
 * Where sectors can be torn (no POWERSAFE_OVERWRITE) SQLite syncs in the middle of a page, and has
 * bytes of a commit behind it: there nothing is gathered. */
#include "store/sqlite/wal.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define GATHERED_MAX (112 * 1024) /* SQLite's own VFS writes less than 128 KiB at a time */
#define WAL_AHEAD_MAX (1024 * 1024)
#define FRAME_HEADER_SIZE 24 /* of SQLite's file format; its page follows */

enum header { NO_HEADER, OF_PAGE, OF_COMMIT }; /* the page that makes a commit */

struct wal_file {
    sqlite3_file base;       /* first */
    sqlite3_int64 size;      /* of the file below, as far as is known */
    sqlite3_int64 at;        /* where what was gathered belongs */
    int count;               /* of its bytes */
    enum header header;      /* that is the last of it, without its page */
    sqlite3_int64 commit_at; /* the header that makes a commit that is not synced; 0: none is */
    bool can_gather;
    const struct lw__sqlite_wal *owner;
    unsigned char *gathered;
    sqlite3_int64 below[]; /* the file of the VFS below, aligned as SQLite aligns files */
};

static struct wal_file *wal_of(sqlite3_file *file) {
    return (struct wal_file *)file;
}

static sqlite3_file *below(struct wal_file *wal) {
    return (sqlite3_file *)wal->below;
}

/* ---- the file below ----------------------------------------------------------------------- */

/* A quota, or the largest size of a file, is an I/O error to SQLite; here it is "full", as a full
 * disk is. */
static int write_below(struct wal_file *wal, const void *bytes, int count, sqlite3_int64 at) {
    errno = 0;
    int code = below(wal)->pMethods->xWrite(below(wal), bytes, count, at);
    bool is_full = code == SQLITE_IOERR_WRITE && (errno == EDQUOT || errno == EFBIG);
    return is_full ? SQLITE_FULL : code;
}

/* What was gathered is in the file, so its memory is free. Without room it stays as it was. */
static void grow_ahead(struct wal_file *wal, sqlite3_int64 end) {
    sqlite3_int64 ahead = end < WAL_AHEAD_MAX ? end : WAL_AHEAD_MAX, size = end + ahead;
    int code = SQLITE_OK;
    memset(wal->gathered, 0, GATHERED_MAX);
    for (sqlite3_int64 at = end; code == SQLITE_OK && at < size; at += GATHERED_MAX) {
        sqlite3_int64 rest = size - at;
        code = write_below(wal, wal->gathered, rest < GATHERED_MAX ? (int)rest : GATHERED_MAX, at);
    }
    if (code != SQLITE_OK)
        below(wal)->pMethods->xTruncate(below(wal), end);
    wal->size = code == SQLITE_OK ? size : end;
}

/* What has not come to its commit before the owner was done with that is of no use. */
static int flush(struct wal_file *wal) {
    int count = wal->owner->is_committing ? wal->count : 0;
    sqlite3_int64 end = wal->at + count;
    wal->count = 0;
    wal->header = NO_HEADER;
    if (count == 0)
        return SQLITE_OK;
    int code = write_below(wal, wal->gathered, count, wal->at);
    if (code == SQLITE_OK && end > wal->size)
        grow_ahead(wal, end);
    return code;
}

/* ---- what SQLite does with it ------------------------------------------------------------- */

/* The size of the database after a commit is in the header of its last frame; in others it is 0. */
static enum header header_of(const unsigned char *bytes) {
    return (bytes[4] | bytes[5] | bytes[6] | bytes[7]) != 0 ? OF_COMMIT : OF_PAGE;
}

static bool fits(const struct wal_file *wal, int count, sqlite3_int64 at) {
    return at == wal->at + wal->count && wal->count + count <= GATHERED_MAX;
}

static void gather(struct wal_file *wal, const void *bytes, int count, sqlite3_int64 at) {
    if (wal->count == 0)
        wal->at = at;
    memcpy(wal->gathered + wal->count, bytes, (size_t)count);
    wal->count += count;
}

/* What belongs to no frame, or stands alone. */
static int write_at_once(struct wal_file *wal, const void *bytes, int count, sqlite3_int64 at) {
    int code = flush(wal);
    if (code == SQLITE_OK)
        code = write_below(wal, bytes, count, at);
    if (code == SQLITE_OK && at + count > wal->size)
        wal->size = at + count;
    return code;
}

/* Gathers it, if it can be. */
static int put(struct wal_file *wal, const void *bytes, int count, sqlite3_int64 at) {
    int code = wal->count > 0 && !fits(wal, count, at) ? flush(wal) : SQLITE_OK;
    if (code != SQLITE_OK)
        return code;
    bool can_gather = wal->can_gather && wal->owner->is_committing;
    if (!can_gather || (wal->header == NO_HEADER && count != FRAME_HEADER_SIZE))
        return write_at_once(wal, bytes, count, at);
    enum header before = wal->header;
    gather(wal, bytes, count, at);
    wal->header = before != NO_HEADER ? NO_HEADER : header_of(bytes);
    return before == OF_COMMIT ? flush(wal) : SQLITE_OK;
}

/* A commit whose page cannot be written is none. */
static int on_write(sqlite3_file *file, const void *bytes, int count, sqlite3_int64 at) {
    struct wal_file *wal = wal_of(file);
    bool is_header = count == FRAME_HEADER_SIZE && wal->header == NO_HEADER;
    if (is_header && header_of(bytes) == OF_COMMIT)
        wal->commit_at = at;
    int code = put(wal, bytes, count, at);
    if (code != SQLITE_OK)
        wal->commit_at = 0;
    return code;
}

static int on_read(sqlite3_file *file, void *bytes, int count, sqlite3_int64 at) {
    struct wal_file *wal = wal_of(file);
    int code = flush(wal);
    return code == SQLITE_OK ? below(wal)->pMethods->xRead(below(wal), bytes, count, at) : code;
}

static int on_truncate(sqlite3_file *file, sqlite3_int64 size) {
    struct wal_file *wal = wal_of(file);
    int code = flush(wal);
    if (code == SQLITE_OK)
        code = below(wal)->pMethods->xTruncate(below(wal), size);
    if (code == SQLITE_OK)
        wal->size = size;
    return code;
}

/* It is still in the system's memory: whoever opens the file next would take it for a commit, and
 * build upon it. SQLite has not told anybody of it yet, and holds the lock. */
static void void_commit(struct wal_file *wal) {
    static const unsigned char none[FRAME_HEADER_SIZE];
    if (wal->commit_at > 0)
        write_below(wal, none, sizeof none, wal->commit_at);
}

static int on_sync(sqlite3_file *file, int flags) {
    struct wal_file *wal = wal_of(file);
    int code = flush(wal);
    if (code == SQLITE_OK)
        code = below(wal)->pMethods->xSync(below(wal), flags);
    if (code != SQLITE_OK)
        void_commit(wal);
    wal->commit_at = 0;
    return code;
}

static int on_size(sqlite3_file *file, sqlite3_int64 *size) {
    struct wal_file *wal = wal_of(file);
    int code = flush(wal);
    if (code == SQLITE_OK)
        code = below(wal)->pMethods->xFileSize(below(wal), size);
    if (code == SQLITE_OK)
        wal->size = *size;
    return code;
}

static int on_close(sqlite3_file *file) {
    struct wal_file *wal = wal_of(file);
    flush(wal);
    sqlite3_free(wal->gathered);
    return below(wal)->pMethods->xClose(below(wal));
}

static int on_lock(sqlite3_file *file, int level) {
    return below(wal_of(file))->pMethods->xLock(below(wal_of(file)), level);
}

static int on_unlock(sqlite3_file *file, int level) {
    return below(wal_of(file))->pMethods->xUnlock(below(wal_of(file)), level);
}

static int on_check_lock(sqlite3_file *file, int *is_reserved) {
    return below(wal_of(file))->pMethods->xCheckReservedLock(below(wal_of(file)), is_reserved);
}

static int on_control(sqlite3_file *file, int op, void *arg) {
    return below(wal_of(file))->pMethods->xFileControl(below(wal_of(file)), op, arg);
}

static int on_sector_size(sqlite3_file *file) {
    return below(wal_of(file))->pMethods->xSectorSize(below(wal_of(file)));
}

static int on_characteristics(sqlite3_file *file) {
    return below(wal_of(file))->pMethods->xDeviceCharacteristics(below(wal_of(file)));
}

static const sqlite3_io_methods methods = {
    .iVersion = 1, /* a -wal file is neither mapped nor has it locks to share */
    .xClose = on_close,
    .xRead = on_read,
    .xWrite = on_write,
    .xTruncate = on_truncate,
    .xSync = on_sync,
    .xFileSize = on_size,
    .xLock = on_lock,
    .xUnlock = on_unlock,
    .xCheckReservedLock = on_check_lock,
    .xFileControl = on_control,
    .xSectorSize = on_sector_size,
    .xDeviceCharacteristics = on_characteristics,
};

/* ---- the VFS ------------------------------------------------------------------------------ */

static int open_wal(const struct lw__sqlite_wal *owner, const char *name, struct wal_file *wal,
                    int flags, int *flags_out) {
    wal->owner = owner;
    wal->gathered = sqlite3_malloc(GATHERED_MAX);
    if (!wal->gathered)
        return SQLITE_NOMEM;
    int code = owner->below->xOpen(owner->below, name, below(wal), flags, flags_out);
    if (code == SQLITE_OK)
        code = below(wal)->pMethods->xFileSize(below(wal), &wal->size);
    if (code == SQLITE_OK)
        wal->can_gather = below(wal)->pMethods->xDeviceCharacteristics(below(wal))
                          & SQLITE_IOCAP_POWERSAFE_OVERWRITE;
    if (code == SQLITE_OK)
        wal->base.pMethods = &methods;
    else if (below(wal)->pMethods)
        below(wal)->pMethods->xClose(below(wal));
    if (code != SQLITE_OK)
        sqlite3_free(wal->gathered);
    return code;
}

static int on_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags,
                   int *flags_out) {
    const struct lw__sqlite_wal *owner = (const struct lw__sqlite_wal *)vfs;
    if (!(flags & SQLITE_OPEN_WAL))
        return owner->below->xOpen(owner->below, name, file, flags, flags_out);
    memset(file, 0, (size_t)vfs->szOsFile);
    return open_wal(owner, name, wal_of(file), flags, flags_out);
}

bool lw__sqlite_wal_announce(struct lw__sqlite_wal *wal) {
    wal->below = sqlite3_vfs_find(NULL);
    if (!wal->below)
        return false;
    wal->vfs = *wal->below;
    wal->vfs.pNext = NULL;
    wal->vfs.zName = wal->name;
    wal->vfs.szOsFile = (int)sizeof(struct wal_file) + wal->below->szOsFile;
    wal->vfs.xOpen = on_open;
    snprintf(wal->name, sizeof wal->name, "legwork-%p", (void *)wal);
    return sqlite3_vfs_register(&wal->vfs, 0) == SQLITE_OK;
}

void lw__sqlite_wal_forget(struct lw__sqlite_wal *wal) {
    if (wal->below)
        sqlite3_vfs_unregister(&wal->vfs);
    wal->below = NULL;
}
