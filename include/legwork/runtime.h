/* The outside world as handles: memory, time, and the log.
 *
 * Everything that Legwork takes from its surroundings comes through these, given once at open; NULL
 * everywhere means the ordinary one. A program replaces them to put Legwork on its own allocator or
 * into its own log; a test replaces them to hold time still or to let the n-th allocation fail
 * (legwork/testing.h). A handle must outlive everything that was opened with it.
 */
#ifndef LEGWORK_RUNTIME_H
#define LEGWORK_RUNTIME_H

#include <legwork/api.h>

LW_BEGIN_DECLS

/* ---- memory ------------------------------------------------------------------------------- */

/* One function does it all: ptr NULL allocates, new_size 0 frees (and returns NULL), otherwise the
 * block is resized. It returns NULL when there is no memory; the old block is then untouched.
 * Blocks are aligned for any C type. old_size is the size given at the last call for this block.
 * Called from any thread. */
typedef struct lw_allocator {
    void *(*resize)(void *user, void *ptr, size_t old_size, size_t new_size);
    void *user;
} lw_allocator;

/* ---- time --------------------------------------------------------------------------------- */

/* A monotonic clock together with the way to wait on it. Opaque: the system's, or one that a test
 * holds and moves (legwork/testing.h). */
typedef struct lw_clock lw_clock;

/* ---- log ---------------------------------------------------------------------------------- */

typedef enum lw_log_level {
    LW_LOG_DEBUG = 1, /* what a maintainer wants when hunting */
    LW_LOG_INFO = 2,  /* milestones: opened, stopped */
    LW_LOG_WARN = 3,  /* something a person should look at: a stuck task */
    LW_LOG_ERROR = 4  /* something did not work and was not repaired */
} lw_log_level;

/* One key=value of a record; both live as long as the callback runs. */
typedef struct lw_log_field {
    const char *key;
    const char *value;
} lw_log_field;

/* One event. `message` is a constant phrase that a grep finds; what varies stands in the fields. */
typedef struct lw_log_record {
    lw_log_level level;
    const char *component; /* "pool" */
    const char *message;
    const lw_log_field *fields;
    size_t field_count; /* at most LW_LOG_FIELDS_MAX */
} lw_log_record;

#define LW_LOG_FIELDS_MAX 8

/* Where records go. `write` is called from any thread, several at once, with no lock of Legwork's
 * held; it must not call back into the handle that logs. `level` 0 means LW_LOG_INFO. */
typedef struct lw_log {
    void (*write)(void *user, const lw_log_record *record);
    void *user;
    lw_log_level level;
} lw_log;

/* A ready-made `write` that prints `level component: message key=value ...` as one line to the FILE
 * * in user (NULL: stderr); a value with spaces is quoted, and what lw_text_show would
 * not show is escaped. Threads:
 * any. Since: 0.1 */
LW_API void lw_log_print(void *user, const lw_log_record *record);

/* Copies a text of somebody else's, such as the error of a task, so that it can go to a terminal or
 * into a line of a log: control characters, invisible ones, those that turn the direction of
 * writing, and what is no UTF-8 become \xNN, byte by byte; all else stays as it is. `into` has
 * `room` bytes and is ended by a zero; of more, the first letters that fit are there. `into` may be
 * NULL if room is 0. Returns how many bytes the whole text takes without the zero, as snprintf
 * does. Threads: any. Since: 0.3 */
LW_API size_t lw_text_show(char *into, size_t room, const char *text, size_t size);

/* The name of a level: "debug", "info", "warn", "error". Never NULL. Threads: any. Since: 0.1 */
LW_API const char *lw_log_level_name(lw_log_level level);

LW_END_DECLS

#endif
