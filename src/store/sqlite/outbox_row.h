/* One row of the outbox, and what becomes of it. In which order they come is intake.c's. The pump's
 * thread only. */
#ifndef LW_STORE_SQLITE_OUTBOX_ROW_H
#define LW_STORE_SQLITE_OUTBOX_ROW_H

#include "store/sqlite/sqlite.h"

struct lw__outbox_row {
    struct lw__sqlite *sqlite;
    sqlite3_stmt *at; /* of outbox_scan.sql or outbox_words.sql, at the row */
    uint64_t now;
    /* of a submit, once it was met */
    uint16_t kind, queue;
    char reason[LW_TEXT_MAX + 1]; /* why it becomes an aborted task; "": it may live */
    bool is_cancelled;            /* that is why */
};

int64_t lw__outbox_row_seq(const struct lw__outbox_row *row);

/* The present turn deletes it. With a status that is an error it has never been anything: a record
 * in the log says so. */
void lw__outbox_row_take(const struct lw__outbox_row *row, int status);

/* A submit: finds out its kind and queue, and whether all else in it can be. LW_OK; or why there
 * can be no task of this kind; LW_EFULL: its names are too many. */
int lw__outbox_row_meet(struct lw__outbox_row *row);

/* One that was met becomes a task; an aborted one if it can never run. LW_OK; LW_EXISTS: its key is
 * taken; LW_EFULL: there is no room for its queue; LW_PENDING: it comes after a task that is in the
 * outbox itself; LW_ESTOPPING; LW_ENOMEM; or why it cannot be. It is not taken back when the turn
 * fails: nobody waits for it, and the row may be gone. */
int lw__outbox_row_put(struct lw__outbox_row *row);

/* All else: does what it says. LW_OK: it is done; LW_PENDING: not yet, the row has to stay;
 * LW_ENOMEM; or why it cannot be. */
int lw__outbox_row_obey(struct lw__outbox_row *row);

#endif
