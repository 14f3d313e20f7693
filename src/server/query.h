/* Percent-encoding, and the parameters behind the ? of a target. */
#ifndef LW_SERVER_QUERY_H
#define LW_SERVER_QUERY_H

#include "server/slice.h"

#include <legwork/status.h>

/* Decodes %XX into the caller's memory, ended with a zero; it never needs more than text.size + 1
 * bytes. With is_form, + means a space, as in queries. What it stands for must be UTF-8 without
 * zeros. Returns LW_OK; LW_EFULL: no room; LW_EINVAL with a sentence that begins with `what`. */
int lw__percent_decode(struct lw__slice text, bool is_form, char *into, size_t room,
                       const char *what, lw_error *err);

/* A parameter that a route knows. */
struct lw__query_field {
    const char *name;
    const char *value; /* NULL: was not given. Lives in the memory given to lw__query_read */
};

/* Reads a=1&b=2 into the fields of those names. `a` alone means a=, and empty parts mean nothing.
 * A name that is not known (the sentence tells the nearest one that is), or there twice, is refused
 * as bad escapes are; so nothing that a client asks for is passed over in silence.
 * The memory must have query.size + 1 bytes. Returns LW_OK; LW_EFULL: it has not; LW_EINVAL. */
int lw__query_read(struct lw__slice query, struct lw__query_field *fields, size_t count,
                   char *memory, size_t room, lw_error *err);

#endif
