/* Saying no, with a sentence. */
#include "server/refuse.h"

#include <legwork/runtime.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Ends a sentence that is too long with "...", between two letters. */
static void cut(char message[LW_ERROR_MESSAGE_MAX]) {
    size_t room = LW_ERROR_MESSAGE_MAX - sizeof "...", size = strlen(message);
    while (size > 0 && (size > room || ((unsigned char)message[size] & 0xc0) == 0x80))
        size--;
    memcpy(message + size, "...", sizeof "...");
}

int lw__refuse(lw_error *err, int status, const char *format, ...) {
    char message[LW_ERROR_MESSAGE_MAX];
    va_list args;
    if (!err)
        return status;
    va_start(args, format);
    int length = vsnprintf(message, sizeof message, format, args);
    va_end(args);
    size_t size = length < 0 ? 0 : strlen(message);
    size_t shown = lw_text_show(err->message, sizeof err->message, message, size);
    if (length >= (int)sizeof message || shown >= sizeof err->message)
        cut(err->message);
    err->status = status;
    err->native = 0;
    return status;
}
