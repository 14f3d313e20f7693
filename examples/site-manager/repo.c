#include "repo.h"

#include <legwork/flow.h>
#include <legwork/outbox_sqlite.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define BUSY_MS 10000

/* The generation is the flow's fencing token: what comes from an older one changes nothing. */
#define SCHEMA                                                                        \
    "CREATE TABLE IF NOT EXISTS site (domain TEXT PRIMARY KEY, title TEXT NOT NULL, " \
    "generation INTEGER NOT NULL, created_ms INTEGER NOT NULL) STRICT, WITHOUT ROWID"
#define SAVE                                                                            \
    "INSERT INTO site (domain, generation, title, created_ms) VALUES (?1, ?2, ?3, ?4) " \
    "ON CONFLICT (domain) DO UPDATE SET generation = ?2, title = ?3 WHERE generation <= ?2"
#define REMOVE "DELETE FROM site WHERE domain = ?1 AND generation <= ?2"

struct repo {
    sqlite3 *db;
    pthread_mutex_t mu; /* held from the begin of a transaction to its end */
};

static int complain(struct repo *repo, lw_error *err, const char *what) {
    *err = (lw_error){.status = LW_ESYSTEM, .native = sqlite3_errcode(repo->db)};
    snprintf(err->message, sizeof err->message, "cannot %s: %.200s", what,
             sqlite3_errmsg(repo->db));
    return LW_ESYSTEM;
}

static int run(struct repo *repo, const char *sql, const char *what, lw_error *err) {
    return sqlite3_exec(repo->db, sql, NULL, NULL, NULL) == SQLITE_OK ? LW_OK
                                                                      : complain(repo, err, what);
}

/* ---- open, close -------------------------------------------------------------------------- */

/* Checkpoints are the engine's: docs/guides/durable.md, "Your own connections". */
static int configure(struct repo *repo, lw_error *err) {
    bool is_ok =
        sqlite3_busy_timeout(repo->db, BUSY_MS) == SQLITE_OK
        && sqlite3_wal_autocheckpoint(repo->db, 0) == SQLITE_OK
        && sqlite3_db_config(repo->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL) == SQLITE_OK;
    return is_ok ? LW_OK : complain(repo, err, "set it up");
}

int repo_open(struct repo **opened, const char *path, lw_error *err) {
    struct repo *repo = calloc(1, sizeof *repo);
    *opened = repo;
    if (!repo) {
        *err = (lw_error){.status = LW_ENOMEM, .message = "out of memory"};
        return LW_ENOMEM;
    }
    pthread_mutex_init(&repo->mu, NULL);
    int rc = sqlite3_open(path, &repo->db) == SQLITE_OK ? LW_OK : complain(repo, err, "open it");
    if (rc == LW_OK)
        rc = configure(repo, err);
    if (rc == LW_OK)
        rc = run(repo, SCHEMA, "make the table of sites", err);
    if (rc == LW_OK)
        return LW_OK;
    repo_close(repo);
    *opened = NULL;
    return rc;
}

void repo_close(struct repo *repo) {
    if (!repo)
        return;
    sqlite3_close(repo->db);
    pthread_mutex_destroy(&repo->mu);
    free(repo);
}

/* ---- a row, and the step's completion ----------------------------------------------------- */

static int64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int write_row(struct repo *repo, const char *sql, const char *domain, uint64_t generation,
                     const char *title, lw_error *err) {
    sqlite3_stmt *s = NULL;
    if (sqlite3_prepare_v2(repo->db, sql, -1, &s, NULL) != SQLITE_OK)
        return complain(repo, err, "write a site");
    sqlite3_bind_text(s, 1, domain, -1, SQLITE_STATIC);
    sqlite3_bind_int64(s, 2, (int64_t)generation);
    if (title) {
        sqlite3_bind_text(s, 3, title, -1, SQLITE_STATIC);
        sqlite3_bind_int64(s, 4, now_ms());
    }
    int rc = sqlite3_step(s) == SQLITE_DONE ? LW_OK : complain(repo, err, "write a site");
    sqlite3_finalize(s);
    return rc;
}

static int write_and_complete(struct repo *repo, const char *sql, lw_ctx *step, const char *domain,
                              const char *title, lw_error *err) {
    pthread_mutex_lock(&repo->mu);
    int rc = run(repo, "BEGIN IMMEDIATE", "begin", err);
    if (rc == LW_OK)
        rc = write_row(repo, sql, domain, lw_flow_generation(step), title, err);
    if (rc == LW_OK)
        rc = lw_outbox_sqlite_done(repo->db, step, err);
    if (rc == LW_OK)
        rc = run(repo, "COMMIT", "commit", err);
    if (rc < 0 && !sqlite3_get_autocommit(repo->db))
        sqlite3_exec(repo->db, "ROLLBACK", NULL, NULL, NULL);
    pthread_mutex_unlock(&repo->mu);
    return rc;
}

int repo_save_site(struct repo *repo, lw_ctx *step, const char *domain, const char *title,
                   lw_error *err) {
    return write_and_complete(repo, SAVE, step, domain, title, err);
}

int repo_remove_site(struct repo *repo, lw_ctx *step, const char *domain, lw_error *err) {
    return write_and_complete(repo, REMOVE, step, domain, NULL, err);
}
