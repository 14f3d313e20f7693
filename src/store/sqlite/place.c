/* Whether the files of a store are still where they were opened.
 *
 * A process that has a file open can go on writing to it after it was deleted: all would look well,
 * and be gone with the process. So whoever is about to promise something looks at the names first,
 * which is two calls of the system for all of a turn. SQLite itself looks only when it closes. */
#include "store/sqlite/file_internal.h"

#include "base/error.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static struct lw__sqlite_inode look(const char *name) {
    struct stat st;
    if (stat(name, &st) != 0)
        return (struct lw__sqlite_inode){.number = 0};
    return (struct lw__sqlite_inode){.device = st.st_dev, .number = st.st_ino};
}

static struct lw__sqlite_inode look_at_wal(const struct lw__sqlite_file *file) {
    char name[PATH_MAX];
    snprintf(name, sizeof name, "%.*s-wal", LW__SQLITE_PATH_MAX, file->path);
    return look(name);
}

static bool is_same(struct lw__sqlite_inode a, struct lw__sqlite_inode b) {
    return a.device == b.device && a.number == b.number;
}

void lw__sqlite_place_note(struct lw__sqlite_file *file) {
    file->database = look(file->path);
    lw__sqlite_place_note_wal(file);
}

/* One that was not there then is not missed: a reader may have come without. */
void lw__sqlite_place_note_wal(struct lw__sqlite_file *file) {
    file->wal = look_at_wal(file);
}

static int complain(const struct lw__sqlite_file *file, const char *suffix, lw_error *err) {
    return lw__error_set(err, LW_ESYSTEM, ENOENT,
                         "the file was deleted, moved or replaced while it was open: nothing is "
                         "accepted until it is back; stop, restore it, and start again: %s%s",
                         file->path, suffix);
}

int lw__sqlite_place_check_database(const struct lw__sqlite_file *file, lw_error *err) {
    return is_same(look(file->path), file->database) ? LW_OK : complain(file, "", err);
}

int lw__sqlite_place_check(const struct lw__sqlite_file *file, lw_error *err) {
    int rc = lw__sqlite_place_check_database(file, err);
    if (rc < 0 || file->wal.number == 0 || is_same(look_at_wal(file), file->wal))
        return rc;
    return complain(file, "-wal", err);
}
