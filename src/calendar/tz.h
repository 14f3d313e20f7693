/* The data of a zone: which offset from UTC holds when, as read from a TZif file.
 *
 * Instants and local times are seconds since 1970; a local time is what a clock shows, counted as
 * if it were UTC. The data are one block that never changes after it was read; whoever uses it
 * holds a reference.
 */
#ifndef LW_CALENDAR_TZ_H
#define LW_CALENDAR_TZ_H

#include "calendar/tz_rule.h"

#include <stdatomic.h>

/* What is known lies between these: from the year 2 to the year 10,680. */
#define LW__TZ_FIRST_S INT64_C(-62104060800)
#define LW__TZ_LAST_S (INT64_C(1) << 38)

/* A time during which the offset is the same; the next one may have the same offset, too. */
struct lw__span {
    int64_t from, to;
    int64_t high; /* the latest local time that clocks have shown before `from`: local times below
                   * it are a second pass, and those from it to from + offset_s are a gap */
    int32_t offset_s;
};

struct lw__tz {
    _Atomic uint32_t refs;
    size_t size; /* of the block */
    uint32_t change_count, span_count, kind_count;
    bool has_rule;     /* with daylight saving time; it holds from rule_from on */
    int64_t rule_from; /* LW__TZ_LAST_S: never */
    int64_t rule_high;
    struct lw__tz_rule rule;
    /* in the same block */
    int64_t *changes;          /* instants, rising */
    uint16_t *kind_from;       /* one more: [0] holds before changes[0], [i + 1] from changes[i] */
    struct lw__tz_kind *kinds; /* the rule's standard time is the last one */
    struct lw__span *spans;    /* what changes and kinds mean, without equal neighbours */
};

/* Reads the bytes of a TZif file. Returns LW_OK; with a sentence: LW_ECORRUPT; LW_EINVAL: it counts
 * leap seconds; LW_ENOMEM. Owns: the caller has the only reference. */
int lw__tzif_read(struct lw__tz **tz, const lw_allocator *allocator, const void *bytes, size_t size,
                  lw_error *err);

/* Makes the data of a fixed offset. Returns LW_OK or LW_ENOMEM. */
int lw__tz_make_fixed(struct lw__tz **tz, const lw_allocator *allocator, int32_t offset_s,
                      const char *abbreviation, lw_error *err);

/* Allocates data with room for so many changes and kinds, all zero, with one reference. NULL: no
 * memory. */
struct lw__tz *lw__tz_alloc(const lw_allocator *allocator, size_t change_count, size_t kind_count);

/* Derives spans, once changes, kinds and rule are there. */
void lw__tz_settle(struct lw__tz *tz);

/* Whether two mean the same. */
bool lw__tz_is_same(const struct lw__tz *a, const struct lw__tz *b);

void lw__tz_release(struct lw__tz *tz, const lw_allocator *allocator);

/* The span that an instant lies in, which is between LW__TZ_FIRST_S and LW__TZ_LAST_S. */
struct lw__span lw__tz_span_at(const struct lw__tz *tz, int64_t at);

/* What clocks show at an instant. Lives as long as the data. */
const struct lw__tz_kind *lw__tz_kind_at(const struct lw__tz *tz, int64_t at);

#endif
