/* The records of the library's own events. */
#include "base/log.h"

#include <errno.h>
#include <inttypes.h>
#include <legwork/status.h>
#include <stdio.h>
#include <string.h>

const char *lw_log_level_name(lw_log_level level) {
    switch (level) {
    case LW_LOG_DEBUG: return "debug";
    case LW_LOG_INFO: return "info";
    case LW_LOG_WARN: return "warn";
    case LW_LOG_ERROR: return "error";
    }
    return "unknown";
}

/* A text that fits is handed over as it is; only one that is too long is copied. */
static const char *format_text(const char *text, char buffer[static LW__LOG_VALUE_MAX]) {
    static const char cut[] = "...";
    if (text == NULL)
        return "(none)";
    if (strnlen(text, LW__LOG_VALUE_MAX) < LW__LOG_VALUE_MAX)
        return text;
    size_t kept = LW__LOG_VALUE_MAX - sizeof cut;
    while (kept > 0 && ((unsigned char)text[kept] & 0xc0) == 0x80)
        kept--; /* not in the middle of a UTF-8 character */
    memcpy(buffer, text, kept);
    memcpy(buffer + kept, cut, sizeof cut);
    return buffer;
}

static const char *format_value(const struct lw__log_field *field,
                                char buffer[static LW__LOG_VALUE_MAX]) {
    switch (field->kind) {
    case LW__LOG_U64: snprintf(buffer, LW__LOG_VALUE_MAX, "%" PRIu64, field->u64); return buffer;
    case LW__LOG_I64: snprintf(buffer, LW__LOG_VALUE_MAX, "%" PRId64, field->i64); return buffer;
    case LW__LOG_TEXT: return format_text(field->text, buffer);
    case LW__LOG_STATUS: return lw_status_name((int)field->i64);
    case LW__LOG_END: break;
    }
    return "";
}

void lw__log_emit(const lw_log *log, lw_log_level level, const char *component, const char *message,
                  const struct lw__log_field *fields) {
    char buffers[LW_LOG_FIELDS_MAX][LW__LOG_VALUE_MAX];
    lw_log_field formatted[LW_LOG_FIELDS_MAX];
    int errno_before = errno;
    size_t count = 0;

    for (; count < LW_LOG_FIELDS_MAX && fields[count].kind != LW__LOG_END; count++)
        formatted[count] = (lw_log_field){
            .key = fields[count].key,
            .value = format_value(&fields[count], buffers[count]),
        };
    log->write(log->user, &(lw_log_record){
                              .level = level,
                              .component = component,
                              .message = message,
                              .fields = formatted,
                              .field_count = count,
                          });
    errno = errno_before;
}
