/* Names and texts of statuses, and the details that go with a failure. */
#include "base/error.h"
#include "base/text.h"

#include <stdarg.h>
#include <string.h>

const char *lw_status_name(int status) {
    switch (status) {
#define NAME(name, number, text) \
    case name: return #name;
        LW_STATUS_MAP(NAME)
#undef NAME
    }
    return "LW_UNKNOWN";
}

const char *lw_status_text(int status) {
    switch (status) {
#define TEXT(name, number, text) \
    case name: return text;
        LW_STATUS_MAP(TEXT)
#undef TEXT
    }
    return "not a status of this version of Legwork";
}

int lw__error_set(lw_error *err, int status, int native, const char *format, ...) {
    char message[LW_ERROR_MESSAGE_MAX]; /* the arguments may point into err->message */
    va_list args;

    if (err == NULL)
        return status;
    va_start(args, format);
    lw__text_print(message, format, args);
    va_end(args);
    err->status = status;
    err->native = native;
    memcpy(err->message, message, sizeof message);
    return status;
}
