/* What is left on the disk of a site, whatever the site manager says of it. */
#include "site_manager.h"

#include "test.h"

#include <dirent.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool find(char why[200], const char *domain, const char *what) {
    snprintf(why, 200, "%.100s: %.90s", domain, what);
    return false;
}

/* Names in a folder; -1: there is no such folder. */
static int count_names(const char *folder, char last[200]) {
    DIR *dir = opendir(folder);
    int count = 0;
    if (!dir)
        return -1;
    for (const struct dirent *entry; (entry = readdir(dir));) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        snprintf(last, 200, "%.190s", entry->d_name);
        count++;
    }
    closedir(dir);
    return count;
}

/* What a query gives; -1: it fails. */
static int ask_database(const char *path, const char *sql, const char *argument) {
    sqlite3 *db = NULL;
    sqlite3_stmt *s = NULL;
    int value = -1;
    if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL) == SQLITE_OK
        && sqlite3_busy_timeout(db, 10000) == SQLITE_OK
        && sqlite3_prepare_v2(db, sql, -1, &s, NULL) == SQLITE_OK) {
        sqlite3_bind_text(s, 1, argument, -1, SQLITE_STATIC);
        value = sqlite3_step(s) == SQLITE_ROW ? sqlite3_column_int(s, 0) : -1;
    }
    sqlite3_finalize(s);
    sqlite3_close(db);
    return value;
}

static int count_rows(const char *domain) {
    return ask_database("data/sites.db", "SELECT count(*) FROM site WHERE domain LIKE ?1", domain);
}

static bool page_has(const char *domain, const char *name, const char *title) {
    char path[300], text[1024];
    snprintf(path, sizeof path, "data/pages/%s/%s", domain, name);
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    size_t size = fread(text, 1, sizeof text - 1, file);
    text[size] = 0;
    fclose(file);
    return strstr(text, title);
}

bool site_is_there(const char *domain, const char *title, char why[200]) {
    static const char *const pages[] = {"index.html", "about.html", "style.css"};
    char path[300], journal[310], last[200];
    snprintf(path, sizeof path, "data/pages/%s", domain);
    if (count_rows(domain) != 1)
        return find(why, domain, "it is there, but its row is not");
    if (count_names(path, last) != 3)
        return find(why, domain, "it is there, but its folder does not have three files");
    for (size_t i = 0; i < 3; i++) {
        if (!page_has(domain, pages[i], title))
            return find(why, domain, "it is there, but a page is missing or cut off");
    }
    snprintf(path, sizeof path, "data/databases/%s.db", domain);
    snprintf(journal, sizeof journal, "%s-journal", path);
    if (ask_database(path, "SELECT count(*) FROM post WHERE body = 'Welcome to ' || ?1", title) != 1
        || ask_database(path, "SELECT count(*) FROM comment", NULL) != 0)
        return find(why, domain, "it is there, but its database is not, or not filled");
    return access(journal, F_OK) != 0 || find(why, domain, "a journal is left");
}

bool site_is_gone(const char *domain, char why[200]) {
    char path[300], journal[310];
    if (count_rows(domain) != 0)
        return find(why, domain, "it is gone, but its row is there");
    snprintf(path, sizeof path, "data/pages/%s", domain);
    if (access(path, F_OK) == 0)
        return find(why, domain, "it is gone, but its folder is there");
    snprintf(path, sizeof path, "data/databases/%s.db", domain);
    snprintf(journal, sizeof journal, "%s-journal", path);
    if (access(path, F_OK) == 0 || access(journal, F_OK) == 0)
        return find(why, domain, "it is gone, but its database is there");
    return true;
}

bool sites_are_gone(char why[200]) {
    char last[200] = "";
    if (count_rows("%") != 0)
        return find(why, "all are gone", "but rows are there");
    if (count_names("data/pages", last) != 0 || count_names("data/databases", last) != 0)
        return find(why, last, "it is there, and belongs to nobody");
    return true;
}
