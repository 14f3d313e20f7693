/* Durations and sizes as people write them. */
#ifndef LW_SERVER_UNITS_H
#define LW_SERVER_UNITS_H

#include "server/slice.h"

#include <legwork/status.h>
#include <stdint.h>

/* Reads a duration: whole numbers with units, the larger unit first and each at most once: 250ms,
 * 30s, 5m, 1h30m, 7d. A 0 needs no unit. At most LW_TIMEOUT_MS_MAX, some 8 years.
 * Returns LW_OK, or LW_EINVAL with a sentence. */
int lw__duration_read(struct lw__slice text, int64_t *ms, lw_error *err);

/* Reads a size in bytes: a whole number, alone or with one of the units B, KiB, MiB, GiB, or k, M,
 * G for the same. At most 2^53. Returns as above. */
int lw__size_read(struct lw__slice text, int64_t *size, lw_error *err);

/* Writes what reads back as the same, as short as it can be: "1h30m", "16MiB". */
#define LW__UNITS_MAX 48
struct lw__units_text {
    char text[LW__UNITS_MAX];
};
struct lw__units_text lw__duration_write(int64_t ms); /* not negative */
struct lw__units_text lw__size_write(int64_t size);   /* not negative */

#endif
