/* The VFS of the system, whose files have another method to sync. */
#include "unsynced.h"

#include "test.h"

#include <sqlite3.h>

enum { TABLES_MAX = 8 }; /* the system has one for databases, one for journals … */

static struct {
    sqlite3_vfs *below;
    const sqlite3_io_methods *real[TABLES_MAX];
    sqlite3_io_methods replaced[TABLES_MAX];
} disk;

static int sync_nothing(sqlite3_file *file, int flags) {
    (void)file;
    (void)flags;
    return SQLITE_OK;
}

static const sqlite3_io_methods *replace(const sqlite3_io_methods *real) {
    int i = 0;
    while (i < TABLES_MAX && disk.real[i] && disk.real[i] != real)
        i++;
    CHECK(i < TABLES_MAX);
    if (!disk.real[i]) {
        disk.real[i] = real;
        disk.replaced[i] = *real;
        disk.replaced[i].xSync = sync_nothing;
    }
    return &disk.replaced[i];
}

static int open_file(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *out) {
    (void)vfs;
    int code = disk.below->xOpen(disk.below, name, file, flags, out);
    if (file->pMethods)
        file->pMethods = replace(file->pMethods);
    return code;
}

void stop_syncing(void) {
    static sqlite3_vfs vfs;
    if (disk.below)
        return;
    CHECK(sqlite3_initialize() == SQLITE_OK);
    disk.below = sqlite3_vfs_find(NULL);
    vfs = *disk.below;
    vfs.pNext = NULL;
    vfs.zName = "unsynced";
    vfs.xOpen = open_file;
    CHECK(sqlite3_vfs_register(&vfs, 1) == SQLITE_OK);
}
