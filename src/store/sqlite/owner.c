/* The one owner of a store: a lock on a file beside the database.
 *
 * Never on the database: closing any descriptor of that would drop the locks which SQLite itself
 * holds on it in this process. The lock belongs to the open file description (OFD), so that two
 * owners in one process keep each other out as well, and the kernel ends it with the process,
 * however that ends.
 */
#include "store/sqlite/file_internal.h"

#include "base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SUFFIX "-owner"
#define PID_MAX 24 /* digits, and more */

static int refuse_system(const char *name, lw_error *err) {
    int error = errno;
    return lw__error_set(err, LW_ESYSTEM, error, "cannot lock the store by %s: %s", name,
                         strerrordesc_np(error));
}

/* The process that says it is the owner; 0: it has not said so yet. */
static pid_t read_owner(int fd) {
    char text[PID_MAX + 1] = "";
    ssize_t size = pread(fd, text, PID_MAX, 0);
    return size > 0 ? (pid_t)strtol(text, NULL, 10) : 0;
}

static void write_owner(int fd) {
    char text[PID_MAX];
    int size = snprintf(text, sizeof text, "%ld\n", (long)getpid());
    /* For the sentence of the next one only: without room on the disk it has to do without. */
    if (ftruncate(fd, 0) == 0 && pwrite(fd, text, (size_t)size, 0) < size)
        (void)!ftruncate(fd, 0);
}

static int refuse_second(int fd, const char *path, lw_error *err) {
    pid_t pid = read_owner(fd);
    if (pid <= 0)
        return lw__error_set(err, LW_EBUSY, 0,
                             "another process owns the store already; open it as a client "
                             "(LW_ROLE_CLIENT): %s",
                             path);
    if (pid == getpid())
        return lw__error_set(err, LW_EBUSY, 0,
                             "this process (%ld) owns the store already, by another engine: %s",
                             (long)pid, path);
    if (kill(pid, 0) != 0 && errno == ESRCH)
        return lw__error_set(err, LW_EBUSY, 0,
                             "the store is still owned by a child of process %ld, or by that in "
                             "another container: %s",
                             (long)pid, path);
    return lw__error_set(err, LW_EBUSY, 0,
                         "process %ld owns the store already; open it as a client "
                         "(LW_ROLE_CLIENT): %s",
                         (long)pid, path);
}

/* Whether the name still leads to what was locked: somebody may have removed it in between. */
static bool is_at(int fd, const char *name) {
    struct stat mine, there;
    return fstat(fd, &mine) == 0 && stat(name, &there) == 0 && mine.st_ino == there.st_ino
           && mine.st_dev == there.st_dev;
}

/* Opens and locks the file. *is_mine is false if it has to be tried again. */
static int try_take(const char *name, const char *path, int *fd, bool *is_mine, lw_error *err) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    *fd = lw__sqlite_beside_open(path, SUFFIX);
    if (*fd < 0)
        return refuse_system(name, err);
    if (fcntl(*fd, F_OFD_SETLK, &lock) != 0)
        return errno == EAGAIN || errno == EACCES ? refuse_second(*fd, path, err)
                                                  : refuse_system(name, err);
    *is_mine = is_at(*fd, name);
    return LW_OK;
}

int lw__sqlite_owner_take(const char *path, int *fd, lw_error *err) {
    char name[PATH_MAX];
    bool is_mine = false;
    snprintf(name, sizeof name, "%.*s%s", LW__SQLITE_PATH_MAX, path, SUFFIX);
    for (;;) {
        int rc = try_take(name, path, fd, &is_mine, err);
        if (rc == LW_OK && is_mine)
            break;
        if (*fd >= 0)
            close(*fd);
        *fd = -1;
        if (rc != LW_OK)
            return rc;
    }
    write_owner(*fd);
    return LW_OK;
}

int64_t lw__sqlite_owner_find(const char *path) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    char name[PATH_MAX];
    snprintf(name, sizeof name, "%.*s%s", LW__SQLITE_PATH_MAX, path, SUFFIX);
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    bool is_owned = fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
    pid_t pid = is_owned ? read_owner(fd) : 0;
    close(fd);
    return is_owned && pid <= 0 ? -1 : pid;
}

void lw__sqlite_owner_release(int fd) {
    if (fd < 0)
        return;
    (void)!ftruncate(fd, 0);
    close(fd);
}
