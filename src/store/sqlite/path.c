/* Which file is meant by the path of a store. */
#include "store/sqlite/file_internal.h"

#include "base/error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int refuse_name(const char *path, lw_error *err) {
    if (*path == '\0')
        return lw__error_set(err, LW_EINVAL, 0, "\"sqlite:\" needs a path: sqlite:tasks.db");
    if (strcmp(path, ":memory:") == 0)
        return lw__error_set(err, LW_EINVAL, 0,
                             "\"sqlite::memory:\" would keep nothing; for tasks in memory use "
                             "\"memory:\"");
    if (strchr(path, '?') != NULL)
        return lw__error_set(err, LW_EINVAL, 0,
                             "a path of a store has no question mark, there are no options yet: %s",
                             path);
    return LW_OK;
}

static int refuse_system(const char *path, lw_error *err) {
    int error = errno;
    return lw__error_set(err, LW_ESYSTEM, error, "cannot open the store %s: %s", path,
                         strerrordesc_np(error));
}

/* The lock of the owner and the -wal file are found by the name of the database: by another name of
 * the same file there would be a second owner, and a -wal file that the first never sees. */
static int refuse_names(const char *path, unsigned long long names, lw_error *err) {
    if (names <= 1)
        return LW_OK;
    return lw__error_set(err, LW_EINVAL, 0,
                         "the store is one file with %llu names (hard links), and may have one: "
                         "remove the others, or make them symbolic links: %s",
                         names, path);
}

static int check_type(const char *path, lw_error *err) {
    struct stat st;
    if (stat(path, &st) != 0)
        return refuse_system(path, err);
    if (S_ISDIR(st.st_mode))
        return lw__error_set(err, LW_EINVAL, 0, "the store is to be a file, and %s is a directory",
                             path);
    if (!S_ISREG(st.st_mode))
        return lw__error_set(err, LW_EINVAL, 0, "the store is to be a file, and %s is none", path);
    return refuse_names(path, (unsigned long long)st.st_nlink, err);
}

/* The path of a file that is not there: its directory has to be. */
static int resolve_new(const char *path, char resolved[PATH_MAX], lw_error *err) {
    char folder[PATH_MAX];
    struct stat st;
    const char *slash = strrchr(path, '/');
    const char *base = slash ? slash + 1 : path;
    size_t size = (size_t)(base - path);

    if (lstat(path, &st) == 0 && S_ISLNK(st.st_mode)) /* other files may have come just now */
        return lw__error_set(err, LW_EINVAL, 0, "the store %s is a link that leads nowhere", path);
    if (*base == '\0')
        return lw__error_set(err, LW_EINVAL, 0, "the store is to be a file, and %s is a directory",
                             path);
    memcpy(folder, size ? path : "./", size ? size : 2);
    folder[size ? size : 2] = '\0';
    if (realpath(folder, resolved) == NULL) {
        int error = errno;
        return lw__error_set(err, LW_ESYSTEM, error, "cannot make the store %s: its directory: %s",
                             path, strerrordesc_np(error));
    }
    size = strlen(resolved);
    size -= size == 1; /* the root has its slash already */
    if (size + 1 + strlen(base) >= PATH_MAX)
        return lw__error_set(err, LW_EINVAL, 0, "the path of the store is too long: %s", path);
    resolved[size] = '/';
    memcpy(resolved + size + 1, base, strlen(base) + 1);
    return LW_OK;
}

int lw__sqlite_path_resolve(const char *path, char resolved[PATH_MAX], lw_error *err) {
    int rc = refuse_name(path, err);
    if (rc != LW_OK)
        return rc;
    if (strlen(path) >= PATH_MAX)
        return lw__error_set(err, LW_EINVAL, 0, "the path of the store is too long: %s", path);
    if (realpath(path, resolved) != NULL)
        rc = check_type(resolved, err);
    else if (errno == ENOENT)
        rc = resolve_new(path, resolved, err);
    else
        rc = refuse_system(path, err);
    if (rc == LW_OK && strlen(resolved) > LW__SQLITE_PATH_MAX)
        return lw__error_set(err, LW_EINVAL, 0,
                             "the path of the store has %zu bytes, and SQLite takes %d: %s",
                             strlen(resolved), LW__SQLITE_PATH_MAX, resolved);
    return rc;
}
