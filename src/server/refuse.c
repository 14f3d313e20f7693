/* Saying no, with a sentence. */
#include "server/refuse.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int lw__refuse(lw_error *err, int status, const char *format, ...) {
    char message[LW_ERROR_MESSAGE_MAX];
    va_list args;
    if (!err)
        return status;
    va_start(args, format);
    int length = vsnprintf(message, sizeof message, format, args);
    va_end(args);
    if (length >= (int)sizeof message)
        memcpy(message + sizeof message - sizeof "...", "...", sizeof "...");
    err->status = status;
    err->native = 0;
    memcpy(err->message, message, sizeof message);
    return status;
}
