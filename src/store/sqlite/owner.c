/* The one owner of a store: a lock on a file beside the database.
 *
 * Never on the database: closing any descriptor of that would drop the locks which SQLite itself
 * holds on it in this process. The lock belongs to the open file description (OFD), so that two
 * owners in one process keep each other out as well, and the kernel ends it with the process,
 * however that ends.
 *
 * The file has the owner's process id and, from the moment that the database is there until the
 * owner has closed it, a mark: the word "open" in a second line, and which database it is in those
 * after it (identity.c). An owner that finds the mark knows that the last one was killed, or has
 * lost its database: another one must not take that one's place.
 *
 *     1234
 *     open
 *     store_id 3847562910384756291
 *     commit_number 1795020000123
 *
 * What a power cut may have left of a line, without its end, says nothing. */
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
#define TEXT_MAX 120 /* digits, the mark, and more */
#define OPEN_MARK "\nopen\n"
#define ID_WORD "\nstore_id "
#define NUMBER_WORD "\ncommit_number "

static int refuse_system(const char *name, lw_error *err) {
    int error = errno;
    return lw__error_set(err, LW_ESYSTEM, error, "cannot lock the store by %s: %s", name,
                         strerrordesc_np(error));
}

/* The process that says it is the owner; 0: it has not said so yet. */
static pid_t read_owner(int fd) {
    char text[TEXT_MAX + 1] = "";
    ssize_t size = pread(fd, text, TEXT_MAX, 0);
    return size > 0 ? (pid_t)strtol(text, NULL, 10) : 0;
}

/* The number after the word; 0: there is none, or its line has no end. */
static int64_t find_number(const char *text, const char *word) {
    const char *at = strstr(text, word);
    char *end = NULL;
    int64_t number = at ? strtoll(at + strlen(word), &end, 10) : 0;
    return end && *end == '\n' && number > 0 ? number : 0;
}

/* The mark of a database that its last owner has not closed. */
static struct lw__sqlite_mark read_mark(int fd) {
    char text[TEXT_MAX + 1] = "";
    struct lw__sqlite_mark mark = {.is_open = pread(fd, text, TEXT_MAX, 0) > 0
                                              && strstr(text, OPEN_MARK) != NULL};
    if (mark.is_open)
        mark.id = find_number(text, ID_WORD);
    if (mark.id != 0)
        mark.number = find_number(text, NUMBER_WORD);
    return mark;
}

/* Without room on the disk the next one's sentence has to do without the process id. The old text
 * is written over, which needs no room, so that a mark is not lost for that. */
static void write_owner(int fd, const struct lw__sqlite_mark *mark) {
    char text[TEXT_MAX];
    int size = snprintf(text, sizeof text, "%ld\n", (long)getpid());
    if (mark->is_open && mark->id == 0)
        size = snprintf(text, sizeof text, "%ld" OPEN_MARK, (long)getpid());
    else if (mark->is_open)
        size = snprintf(text, sizeof text, "%ld\nopen" ID_WORD "%lld" NUMBER_WORD "%lld\n",
                        (long)getpid(), (long long)mark->id, (long long)mark->number);
    bool is_written = pwrite(fd, text, (size_t)size, 0) == size;
    if (is_written || !mark->is_open)
        (void)!ftruncate(fd, is_written ? size : 0);
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
    return fstat(fd, &mine) == 0 && lstat(name, &there) == 0 && mine.st_ino == there.st_ino
           && mine.st_dev == there.st_dev;
}

/* Opens and locks the file. *is_mine is false if it has to be tried again. */
static int try_take(const char *name, const char *path, int *fd, bool *is_mine, lw_error *err) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int rc = lw__sqlite_beside_open(path, SUFFIX, fd, err);
    if (rc < 0)
        return rc;
    if (fcntl(*fd, F_OFD_SETLK, &lock) != 0)
        return errno == EAGAIN || errno == EACCES ? refuse_second(*fd, path, err)
                                                  : refuse_system(name, err);
    *is_mine = is_at(*fd, name);
    return LW_OK;
}

/* An empty file is as good as none: SQLite would throw its -wal file away. */
static bool is_missing(const char *path) {
    struct stat st;
    return stat(path, &st) != 0 ? errno == ENOENT : st.st_size == 0;
}

static int refuse_missing(const char *path, lw_error *err) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    return lw__error_set(err, LW_ESYSTEM, ENOENT,
                         "the store is missing, and its last owner did not close it: put it back; "
                         "or remove %s-wal and %s-shm, then restore a backup, or remove %s-owner "
                         "to begin with an empty one: %s",
                         name, name, name, path);
}

int lw__sqlite_owner_take(const char *path, int *fd, struct lw__sqlite_mark *left, lw_error *err) {
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
    *left = read_mark(*fd);
    if (left->is_open && is_missing(path)) {
        close(*fd);
        *fd = -1;
        return refuse_missing(path, err);
    }
    write_owner(*fd, left);
    return LW_OK;
}

void lw__sqlite_owner_mark(int fd, const struct lw__sqlite_mark *mark) {
    write_owner(fd, mark);
}

int64_t lw__sqlite_owner_find(const char *path) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int fd = lw__sqlite_beside_look(path, SUFFIX);
    if (fd < 0)
        return 0;
    bool is_owned = fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
    pid_t pid = is_owned ? read_owner(fd) : 0;
    close(fd);
    return is_owned && pid <= 0 ? -1 : pid;
}

void lw__sqlite_owner_release(int fd, bool is_closed) {
    if (fd < 0)
        return;
    if (is_closed || !read_mark(fd).is_open)
        (void)!ftruncate(fd, 0);
    close(fd);
}
