/* Small files beside the database: whoever may read that may read these, and nobody else. */
#include "store/sqlite/file.h"

#include "base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
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

static int refuse_system(const char *name, lw_error *err) {
    int error = errno;
    return lw__error_set(err, LW_ESYSTEM, error, "cannot open %s, which belongs to the store: %s",
                         name, strerrordesc_np(error));
}

static int refuse_other(const char *name, const char *what, int error, lw_error *err) {
    return lw__error_set(err, LW_ESYSTEM, error,
                         "%s %s, and the store makes a file of its own there: remove it", name,
                         what);
}

/* Anything but a file of one name may be somebody else's, and is to be emptied and written to. */
static int check_own(int fd, const char *name, lw_error *err) {
    struct stat own;
    if (fstat(fd, &own) != 0)
        return refuse_system(name, err);
    if (!S_ISREG(own.st_mode))
        return refuse_other(name, "is not a regular file", EINVAL, err);
    if (own.st_nlink > 1)
        return refuse_other(name, "is a file with 2 names or more (hard links)", EMLINK, err);
    return LW_OK;
}

int lw__sqlite_beside_open(const char *path, const char *suffix, int *fd, lw_error *err) {
    char name[PATH_MAX];
    struct stat database;
    bool is_there = stat(path, &database) == 0;
    snprintf(name, sizeof name, "%.*s%s", LW__SQLITE_PATH_MAX, path, suffix);
    *fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY,
               is_there ? mode_beside(&database) : MODE_NEW);
    if (*fd < 0 && errno == ELOOP)
        return refuse_other(name, "is a symbolic link", ELOOP, err);
    if (*fd < 0)
        return refuse_system(name, err);
    int rc = check_own(*fd, name, err);
    if (rc < 0) {
        close(*fd);
        *fd = -1;
    } else if (is_there) {
        share_as(*fd, &database);
    }
    return rc;
}

int lw__sqlite_beside_look(const char *path, const char *suffix) {
    char name[PATH_MAX];
    snprintf(name, sizeof name, "%.*s%s", LW__SQLITE_PATH_MAX, path, suffix);
    return open(name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
}

void lw__sqlite_beside_remove(const char *path, const char *suffix) {
    char name[PATH_MAX];
    snprintf(name, sizeof name, "%.*s%s", LW__SQLITE_PATH_MAX, path, suffix);
    unlink(name);
}
