/* Saying no, with a sentence. */
#ifndef LW_SERVER_REFUSE_H
#define LW_SERVER_REFUSE_H

#include <legwork/status.h>

/* Writes a status and a sentence into err, if there is one; the arguments may point into it.
 * What cannot be shown of it is escaped (lw_text_show). A sentence that is too long ends in "...".
 * Returns the status, so that refusing is one line. */
LW_PRINTF(3, 4) int lw__refuse(lw_error *err, int status, const char *format, ...);

#endif
