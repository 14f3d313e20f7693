#include "disk.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SITE_APPLICATION_ID 0x51de

const struct page disk_pages[] = {
    {"index.html", "<!doctype html>\n<title>%s</title>\n<link rel=stylesheet href=style.css>\n"},
    {"about.html", "<!doctype html>\n<title>About %s</title>\n"},
    {"style.css", "/* %s */\nbody { max-width: 40em; margin: auto }\n"},
};
const size_t disk_page_count = sizeof disk_pages / sizeof *disk_pages;

/* ---- paths and errors --------------------------------------------------------------------- */

static int complain(lw_error *err, const char *what, const char *path) {
    err->status = LW_ESYSTEM;
    err->native = errno;
    snprintf(err->message, sizeof err->message, "cannot %s %.120s: %s", what, path,
             strerrordesc_np(err->native));
    return LW_ESYSTEM;
}

static void name_folder(const struct disk *disk, const char *domain, char path[PATH_MAX]) {
    snprintf(path, PATH_MAX, "%s/pages/%s", disk->root, domain);
}

static void name_database(const struct disk *disk, const char *domain, char path[PATH_MAX]) {
    snprintf(path, PATH_MAX, "%s/databases/%s.db", disk->root, domain);
}

/* A name in a folder is durable when the folder is. */
static int sync_folder_of(const char *path, lw_error *err) {
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    size_t size = slash > path ? (size_t)(slash - path) : 1;
    snprintf(folder, sizeof folder, "%.*s", (int)size, slash ? path : ".");
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return complain(err, "open", folder);
    int rc = fsync(fd) == 0 ? LW_OK : complain(err, "sync", folder);
    close(fd);
    return rc;
}

static int make_folder(const char *path, lw_error *err) {
    if (mkdir(path, 0755) != 0 && errno != EEXIST)
        return complain(err, "make", path);
    return sync_folder_of(path, err);
}

int disk_open(struct disk *disk, const char *root, lw_error *err) {
    char path[PATH_MAX];
    if (strlen(root) >= sizeof disk->root) {
        errno = ENAMETOOLONG;
        return complain(err, "use", root);
    }
    snprintf(disk->root, sizeof disk->root, "%s", root);
    name_folder(disk, "", path);
    int rc = make_folder(disk->root, err);
    *strrchr(path, '/') = 0;
    if (rc == LW_OK)
        rc = make_folder(path, err);
    name_database(disk, "", path);
    *strrchr(path, '/') = 0;
    return rc == LW_OK ? make_folder(path, err) : rc;
}

/* ---- the folder --------------------------------------------------------------------------- */

int disk_make_folder(const struct disk *disk, const char *domain, lw_error *err) {
    char path[PATH_MAX];
    name_folder(disk, domain, path);
    return make_folder(path, err);
}

static int write_file(const char *path, const char *text, size_t size, lw_error *err) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644), rc = LW_OK;
    if (fd < 0)
        return complain(err, "make", path);
    if (write(fd, text, size) != (ssize_t)size || fsync(fd) != 0)
        rc = complain(err, "write", path);
    close(fd);
    return rc;
}

/* Under another name first: whoever finds a page finds all of it. */
int disk_write_page(const struct disk *disk, const char *domain, const struct page *page,
                    const char *title, lw_error *err) {
    char folder[PATH_MAX], path[PATH_MAX + 100], draft[PATH_MAX + 110], text[4096];
    name_folder(disk, domain, folder);
    snprintf(path, sizeof path, "%s/%s", folder, page->name);
    snprintf(draft, sizeof draft, "%s.draft", path);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    int size = snprintf(text, sizeof text, page->format, title);
#pragma GCC diagnostic pop
    int rc = write_file(draft, text, (size_t)size, err);
    if (rc == LW_OK && rename(draft, path) != 0)
        rc = complain(err, "rename", draft);
    return rc == LW_OK ? sync_folder_of(path, err) : rc;
}

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *ftw) {
    (void)info, (void)type, (void)ftw;
    return remove(path) == 0 || errno == ENOENT ? 0 : -1;
}

int disk_remove_folder(const struct disk *disk, const char *domain, lw_error *err) {
    char path[PATH_MAX];
    name_folder(disk, domain, path);
    if (nftw(path, remove_entry, 8, FTW_DEPTH | FTW_PHYS) != 0 && errno != ENOENT)
        return complain(err, "remove", path);
    return sync_folder_of(path, err);
}

/* ---- the database ------------------------------------------------------------------------- */

static int run_in_database(const char *path, int flags, const char *sql, lw_error *err) {
    sqlite3 *db = NULL;
    int code = sqlite3_open_v2(path, &db, flags, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_exec(db, sql, NULL, NULL, NULL);
    if (code != SQLITE_OK) {
        *err = (lw_error){.status = LW_ESYSTEM, .native = code};
        snprintf(err->message, sizeof err->message, "%.120s: %.100s", path, sqlite3_errmsg(db));
    }
    sqlite3_close(db);
    return code == SQLITE_OK ? LW_OK : LW_ESYSTEM;
}

int disk_make_database(const struct disk *disk, const char *domain, lw_error *err) {
    char path[PATH_MAX], sql[64];
    struct stat info;
    name_database(disk, domain, path);
    bool was_there = stat(path, &info) == 0 && info.st_size > 0;
    snprintf(sql, sizeof sql, "PRAGMA application_id = %d", SITE_APPLICATION_ID);
    int rc = run_in_database(path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, sql, err);
    if (rc == LW_OK)
        rc = sync_folder_of(path, err);
    return rc == LW_OK && was_there ? LW_EXISTS : rc;
}

int disk_fill_database(const struct disk *disk, const char *domain, const char *title,
                       lw_error *err) {
    char path[PATH_MAX];
    name_database(disk, domain, path);
    char *sql = sqlite3_mprintf(
        "BEGIN IMMEDIATE;"
        "CREATE TABLE IF NOT EXISTS post (id INTEGER PRIMARY KEY, title TEXT, body TEXT);"
        "CREATE TABLE IF NOT EXISTS comment (id INTEGER PRIMARY KEY, post INTEGER, body TEXT);"
        "INSERT OR IGNORE INTO post VALUES (1, 'Hello, world', 'Welcome to ' || %Q);"
        "COMMIT",
        title);
    int rc = LW_ESYSTEM;
    if (sql)
        rc = run_in_database(path, SQLITE_OPEN_READWRITE, sql, err); /* never makes one */
    else
        errno = ENOMEM, complain(err, "fill", path);
    sqlite3_free(sql);
    return rc;
}

/* The database first: a journal alone is nothing, a database without it may be half done. */
int disk_remove_database(const struct disk *disk, const char *domain, lw_error *err) {
    char path[PATH_MAX], journal[PATH_MAX + 10];
    name_database(disk, domain, path);
    snprintf(journal, sizeof journal, "%s-journal", path);
    if (unlink(path) != 0 && errno != ENOENT)
        return complain(err, "remove", path);
    if (unlink(journal) != 0 && errno != ENOENT)
        return complain(err, "remove", journal);
    return sync_folder_of(path, err);
}
