/* Small files beside the database: whoever may read that may read these, and nobody else. */
#include "store/sqlite/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define MODE_NEW 0644 /* as SQLite makes a database */

/* Its user may write in any case: a database that is read-only today may not be tomorrow. */
static mode_t mode_beside(const struct stat *database) {
    return (database->st_mode & 0666) | 0600;
}

/* As SQLite does it for the -wal file. Another user's file stays as it is: it may be shared. */
static void share_as(int fd, const struct stat *database) {
    struct stat own;
    mode_t mode = mode_beside(database);
    if (fstat(fd, &own) != 0 || !S_ISREG(own.st_mode))
        return;
    if (geteuid() == 0 && own.st_uid != database->st_uid)
        (void)!fchown(fd, database->st_uid, database->st_gid);
    if ((own.st_uid == geteuid() || geteuid() == 0) && (own.st_mode & 0777) != mode)
        (void)!fchmod(fd, mode);
}

int lw__sqlite_beside_open(const char *path, const char *suffix) {
    char name[PATH_MAX];
    struct stat database;
    bool is_there = stat(path, &database) == 0;
    if ((size_t)snprintf(name, sizeof name, "%s%s", path, suffix) >= sizeof name) {
        errno = ENAMETOOLONG;
        return -1;
    }
    int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, is_there ? mode_beside(&database) : MODE_NEW);
    if (fd >= 0 && is_there)
        share_as(fd, &database);
    return fd;
}
