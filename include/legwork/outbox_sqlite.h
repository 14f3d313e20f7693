/* The outbox: tasks that are accepted if and only if your own SQLite transaction commits.
 *
 *     sqlite3_exec(bank, "BEGIN IMMEDIATE", 0, 0, 0);
 *     move_money(bank, from, to, cents);
 *     lw_outbox_sqlite_put(bank, LW_TASK(.kind = "send-email", .key = transfer), NULL, &err);
 *     sqlite3_exec(bank, "COMMIT", 0, 0, 0);
 *
 * Your tables and Legwork's stand in one file, which an engine owns: lw_open(&engine,
 * "sqlite:bank.db", …), in this process or another. Each program has connections of its own to it,
 * as many as it likes. An engine that runs notices a commit at once, wherever it comes from; one
 * that starts later finds what was written before. The rows can be written by plain SQL, too, from
 * any language: docs/schema.md.
 *
 * The other way round, a handler that writes to that file can complete its task in the same
 * transaction as its effects (lw_outbox_sqlite_done): these happen exactly once, whatever crashes.
 *
 * Your connection decides how safe its commits are. With `PRAGMA synchronous = FULL` (the default
 * of SQLite) they survive a power cut, like everything that an engine accepts. Both sorts of tables
 * have to be in one file, the connection's main one, with text in UTF-8: SQLite commits to several
 * (ATTACH) one after the other, and so tables in another are not there for these functions.
 *
 * Leave checkpoints to the engine: `PRAGMA wal_autocheckpoint = 0` and, by sqlite3_db_config,
 * SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE on each connection of your own. SQLite before 3.51.3 can damage
 * the file otherwise, very rarely, when one connection is in a checkpoint and another commits
 * (docs/guides/durable.md).
 *
 * These functions begin and end no transaction, and leave the connection as it was. Threads: as
 * SQLite says of the connection. They belong to liblegwork, and not to liblegwork-core.
 */
#ifndef LEGWORK_OUTBOX_SQLITE_H
#define LEGWORK_OUTBOX_SQLITE_H

#include <legwork/task.h>
#include <sqlite3.h>

LW_BEGIN_DECLS

/* Makes Legwork's tables in the connection's database, if they are not there; once, before the
 * first transaction with a task in it. Not needed where an engine has opened the file. Your own
 * tables, the application_id and the user_version stay as they are; the journal mode becomes WAL,
 * which other processes see, too. Returns LW_OK; LW_EINVAL: the connection is in a transaction, or
 * has no file, or one in UTF-16, or the tables are of another version; LW_EBUSY; LW_ECORRUPT;
 * LW_ESYSTEM; all with a sentence. Since: 0.3 */
LW_API int lw_outbox_sqlite_prepare(sqlite3 *db, lw_error *err);

/* The id of the task that the row with this `seq` of legwork_outbox becomes. */
#define LW_OUTBOX_SQLITE_ID(seq) (1000000000000000ull + (seq))

/* Puts a task into the outbox, in the transaction that the connection is in; without one it is
 * accepted when this returns. What is wrong with the task is told here, as by lw_submit. Not
 * possible are `run`, `arg`, `on_drop` and `on_end`, which belong to one process. `delay_ms` and
 * the other times count from now.
 *
 * *id (may be NULL) becomes the id that the task will have: LW_OUTBOX_SQLITE_ID of its row's seq.
 * Until the engine has taken it in only clients and readers find it (lw_get). If there is no room
 * it waits in the outbox, in order within its queue, and those of other queues pass it. If its key
 * is taken by then the row is dropped, where lw_submit would say LW_EXISTS, and there never is such
 * a task: what has a key is better looked for by that (lw_find). What can never run (its payload
 * is larger than its queue may ever be; a task of `after` was never there) becomes an aborted task
 * that says why.
 *
 * Returns LW_OK: it is in the transaction. Otherwise nothing was written, and the transaction can
 * go on, with a sentence: LW_EINVAL; LW_ENOTFOUND: the tables are not there
 * (lw_outbox_sqlite_prepare); LW_EBUSY; LW_ENOMEM; LW_ECORRUPT; LW_ESYSTEM. Owns: all is copied.
 * Since: 0.3 */
LW_API int lw_outbox_sqlite_put(sqlite3 *db, const lw_task *task, lw_id *id, lw_error *err);

/* Inside a handler: the task is done if and only if the transaction commits. After the commit the
 * handler returns lw_done; whatever else it returns, the task is finished. If the process dies
 * right after the commit it is finished, too, and never run again. After a rollback what the
 * handler returns counts. Successors (lw_then) come with lw_done alone; lw_outbox_sqlite_put in the
 * same transaction is as safe as this.
 *
 * Returns LW_OK; LW_ELEASE: the attempt is not the task's present one any more, or the task is not
 * in this file: roll back; LW_EINVAL: not a handler's context; others as lw_outbox_sqlite_put.
 * Since: 0.3 */
LW_API int lw_outbox_sqlite_done(sqlite3 *db, lw_ctx *ctx, lw_error *err);

/* Inside a handler: saves a position (lw_checkpoint) if and only if the transaction commits: what
 * was done so far and where to go on are one, so that no part is done twice, whatever crashes.
 * Commit before the handler returns: what comes later is dropped.
 *
 * Returns as lw_outbox_sqlite_done; LW_EINVAL also: more than LW_CHECKPOINT_MAX bytes.
 * Since: 0.3 */
LW_API int lw_outbox_sqlite_checkpoint(sqlite3 *db, lw_ctx *ctx, lw_bytes position, lw_error *err);

LW_END_DECLS

#endif
