/* Writing a record to the lw_log that a program gave, or to nobody.
 *
 *     lw__log(log, LW_LOG_WARN, "pool", "task is stuck",
 *             LW__FIELD_TEXT("pool", name), LW__FIELD_U64("worker", n));
 *
 * The message is a constant phrase; what varies goes into fields, LW_LOG_FIELDS_MAX at most (more
 * do not compile). Nothing is evaluated or formatted if the log does not want the level. There is
 * no allocation, and errno stays what it was, so that logging is possible anywhere. Call it with no
 * lock held: the program's own function runs inside.
 */
#ifndef LW_BASE_LOG_H
#define LW_BASE_LOG_H

#include <legwork/runtime.h>

/* The longest value, with its ending zero; what is longer ends in "...". An lw_error's message
 * always fits. */
#define LW__LOG_VALUE_MAX 256

enum lw__log_field_kind { LW__LOG_END, LW__LOG_U64, LW__LOG_I64, LW__LOG_TEXT, LW__LOG_STATUS };

struct lw__log_field {
    enum lw__log_field_kind kind;
    const char *key;
    union {
        uint64_t u64;
        int64_t i64; /* of a status, too */
        const char *text;
    };
};

/* What a call site lists after the message. A text may be NULL and is then shown as "(none)"; it
 * need not live longer than the call. A status is shown by its name. */
#define LW__FIELD_U64(name, value) \
    ((struct lw__log_field){.kind = LW__LOG_U64, .key = (name), .u64 = (value)})
#define LW__FIELD_I64(name, value) \
    ((struct lw__log_field){.kind = LW__LOG_I64, .key = (name), .i64 = (value)})
#define LW__FIELD_TEXT(name, value) \
    ((struct lw__log_field){.kind = LW__LOG_TEXT, .key = (name), .text = (value)})
#define LW__FIELD_STATUS(name, value) \
    ((struct lw__log_field){.kind = LW__LOG_STATUS, .key = (name), .i64 = (value)})

/* lw__log(log, level, component, message, fields...). The message is part of the `...` because
 * ISO C wants at least one argument there, and a record may have no fields. */
#define lw__log(log, level, component, ...)                                                     \
    do {                                                                                        \
        const lw_log *lw__log_target = (log);                                                   \
        _Static_assert(sizeof(LW__LOG_FIELDS(__VA_ARGS__, LW__FIELD_END))                       \
                           <= (LW_LOG_FIELDS_MAX + 1) * sizeof(struct lw__log_field),           \
                       "a record has at most LW_LOG_FIELDS_MAX fields");                        \
        if (lw__log_wants(lw__log_target, (level)))                                             \
            lw__log_emit(lw__log_target, (level), (component), LW__LOG_MESSAGE(__VA_ARGS__, 0), \
                         LW__LOG_FIELDS(__VA_ARGS__, LW__FIELD_END));                           \
    } while (0)

#define LW__FIELD_END ((struct lw__log_field){.kind = LW__LOG_END})
#define LW__LOG_MESSAGE(message, ...) (message)
#define LW__LOG_FIELDS(message, ...) ((const struct lw__log_field[]){__VA_ARGS__})

static inline bool lw__log_wants(const lw_log *log, lw_log_level level) {
    if (log == NULL || log->write == NULL)
        return false;
    return level >= (log->level != 0 ? log->level : LW_LOG_INFO);
}

/* Hands over a record whatever its level; fields end with one of kind LW__LOG_END. */
void lw__log_emit(const lw_log *log, lw_log_level level, const char *component, const char *message,
                  const struct lw__log_field *fields);

#endif
