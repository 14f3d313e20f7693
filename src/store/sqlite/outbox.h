/* What the outbox and a client have in common: a task as a row. */
#ifndef LW_STORE_SQLITE_OUTBOX_H
#define LW_STORE_SQLITE_OUTBOX_H

#include <legwork/task.h>
#include <sqlite3.h>

/* Whether the task can be in an outbox: LW_OK, or LW_EINVAL with a sentence. */
int lw__outbox_check(const lw_task *task, lw_error *err);

/* Binds it to outbox_put.sql. It must live as long as the statement is run. */
void lw__outbox_bind(sqlite3_stmt *statement, const lw_task *task);

#endif
