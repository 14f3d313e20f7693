/* Names from outside: of kinds, queues and keys; and the known name that was probably meant. */
#ifndef LW_BASE_NAMES_H
#define LW_BASE_NAMES_H

#include <legwork/status.h>

/* Checks the name of a kind or queue: 1 to LW_NAME_MAX letters (of ASCII), digits and . _ - / :
 * `what` begins the sentence: "kind", "queue". Returns LW_OK, or LW_EINVAL with a sentence that
 * shows the name and, if it is one, the wrong byte and where it is, counted from 1. */
int lw__name_check(const char *what, const char *name, lw_error *err);

/* Checks a key: 1 to LW_KEY_MAX bytes of well-formed UTF-8 without control bytes (below 0x20, and
 * 0x7f), so that every store, JSON and a log can hold it. Returns as lw__name_check. */
int lw__key_check(const char *key, lw_error *err);

/* The known name that is nearest to a wanted one: by letters that are missing, too many, wrong or
 * swapped, whatever their case; of equally near ones the first. NULL if more than a third of the
 * letters (of the longer one) would change, or if it is longer than LW_NAME_MAX. Any argument may
 * be NULL. */
const char *lw__name_nearest(const char *wanted, const char *const *known, size_t count);

#endif
