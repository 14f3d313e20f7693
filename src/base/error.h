/* Filling in the lw_error that a caller may have passed. */
#ifndef LW_BASE_ERROR_H
#define LW_BASE_ERROR_H

#include <legwork/status.h>

/* Writes a status, a native code (errno, or 0) and a sentence; does nothing if err is NULL. The
 * arguments may point into *err, so that a message can be wrapped in a longer one. Whatever an
 * argument has brought along, the message can be shown: the rest is escaped (text.h). A message
 * that is too long ends in "...".
 * Returns status, so that failing is one line:
 *     return lw__error_set(err, LW_EINVAL, 0, "min_workers is %d, must be 1 or more", n); */
LW_PRINTF(4, 5) int lw__error_set(lw_error *err, int status, int native, const char *format, ...);

#endif
