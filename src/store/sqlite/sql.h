/* The SQL of the SQLite store: one file of sql/ each, embedded by the build (cmake/EmbedSql.cmake).
 * What the parameters ?1, ?2 … and the columns mean stands in those files. */
#ifndef LW_STORE_SQLITE_SQL_H
#define LW_STORE_SQLITE_SQL_H

/* Statements, which an open file has prepared. constant, file */
#define LW__SQL_MAP(X)                      \
    X(BEGIN, begin)                         \
    X(COMMIT, commit)                       \
    X(ROLLBACK, rollback)                   \
    X(DATA_VERSION, data_version)           \
    X(META_GET, meta_get)                   \
    X(META_PUT, meta_put)                   \
    X(RETENTION_PUT, retention_put)         \
    X(RETENTION_SCAN, retention_scan)       \
    X(TASK_PUT, task_put)                   \
    X(TASK_PUT_PLAIN, task_put_plain)       \
    X(TASK_PUT_MANY, task_put_many)         \
    X(TASK_CHANGE, task_change)             \
    X(TASK_PUBLISH, task_publish)           \
    X(TASK_LEASE, task_lease)               \
    X(TASK_DELETE, task_delete)             \
    X(TASK_SCAN, task_scan)                 \
    X(HISTORY_PUT, history_put)             \
    X(HISTORY_PUT_PLAIN, history_put_plain) \
    X(HISTORY_PUT_MANY, history_put_many)   \
    X(HISTORY_DELETE, history_delete)       \
    X(HISTORY_SCAN, history_scan)           \
    X(HISTORY_REVIVE, history_revive)       \
    X(LEASE_PUT, lease_put)                 \
    X(LEASE_DELETE, lease_delete)           \
    X(LEASE_GET, lease_get)                 \
    X(SCOPE_PUT, scope_put)                 \
    X(SCOPE_DELETE, scope_delete)           \
    X(SCOPE_SCAN, scope_scan)               \
    X(SCOPE_FIND, scope_find)               \
    X(SCOPE_NEXT, scope_next)               \
    X(OUTBOX_PUT, outbox_put)               \
    X(OUTBOX_ASK, outbox_ask)               \
    X(OUTBOX_SCAN, outbox_scan)             \
    X(OUTBOX_WORDS, outbox_words)           \
    X(OUTBOX_FIRST, outbox_first)           \
    X(OUTBOX_NEXT, outbox_next)             \
    X(OUTBOX_SIZE, outbox_size)             \
    X(OUTBOX_BYTES, outbox_bytes)           \
    X(OUTBOX_DELETE, outbox_delete)         \
    X(OUTBOX_FINISHED, outbox_finished)     \
    X(FREE_COUNT, free_count)               \
    X(PAGE_COUNT, page_count)               \
    X(SHORTEN, shorten)                     \
    X(COPY_SCAN, copy_scan)                 \
    X(COPY_COUNT, copy_count)               \
    X(PROBE, probe)

/* What only an open needs, or a program's own connection. */
#define LW__SQL_SCRIPT_MAP(X)               \
    X(OUTBOX_DONE, outbox_done)             \
    X(OUTBOX_CHECKPOINT, outbox_checkpoint) \
    X(TASK_AHEAD, task_ahead)               \
    X(TASK_LOAD, task_load)                 \
    X(SCOPE_TASKS, scope_tasks)             \
    X(HISTORY_LOAD, history_load)           \
    X(CONFIGURE, configure)                 \
    X(IDENTITY, identity)                   \
    X(SCHEMA_GET, schema_get)               \
    X(OUTBOX_APPLY, outbox_apply)           \
    X(MIGRATION_1, migration_1)             \
    X(MIGRATION_2, migration_2)

enum lw__sql {
#define LW__SQL_ENUM(constant, file) LW__SQL_##constant,
    LW__SQL_MAP(LW__SQL_ENUM)
#undef LW__SQL_ENUM
        LW__SQL_COUNT
};

#define LW__SQL_ONE(constant, file) +1
enum { LW__SQL_FILES = LW__SQL_COUNT LW__SQL_SCRIPT_MAP(LW__SQL_ONE) };
#undef LW__SQL_ONE

#define LW__SQL_DECLARE(constant, file) extern const char lw__sql_##file[];
LW__SQL_MAP(LW__SQL_DECLARE)
LW__SQL_SCRIPT_MAP(LW__SQL_DECLARE)
#undef LW__SQL_DECLARE

#endif
