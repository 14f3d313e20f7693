/* Base64 (RFC 4648, the usual alphabet, padded): bytes that are no text, inside of JSON. */
#ifndef LW_SERVER_BASE64_H
#define LW_SERVER_BASE64_H

#include "server/buffer.h"

/* Appends the base64 of some bytes; returns the buffer's status. */
int lw__base64_write(struct lw__buffer *out, struct lw__slice bytes);

/* Appends the bytes that a text stands for. There is one text for any bytes: no spaces, padded to
 * groups of four, with no bits left over. Returns the buffer's status, or LW_EINVAL with a
 * sentence: the buffer is as it was. */
int lw__base64_read(struct lw__buffer *out, struct lw__slice text, lw_error *err);

#endif
