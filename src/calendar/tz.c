/* The data of a zone: memory, spans, and finding what holds at an instant. */
#include "calendar/tz.h"

#include "base/error.h"
#include "base/memory.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* ---- memory -------------------------------------------------------------------------------- */

struct lw__tz *lw__tz_alloc(const lw_allocator *allocator, size_t change_count, size_t kind_count) {
    size_t changes = change_count * sizeof(int64_t);
    size_t spans = (change_count + 1) * sizeof(struct lw__span);
    size_t kinds = kind_count * sizeof(struct lw__tz_kind);
    size_t size =
        sizeof(struct lw__tz) + changes + spans + kinds + (change_count + 1) * sizeof(uint16_t);
    struct lw__tz *tz = lw__alloc_zero(allocator, size);
    if (!tz)
        return NULL;
    char *at = (char *)(tz + 1);
    tz->refs = 1;
    tz->size = size;
    tz->change_count = (uint32_t)change_count;
    tz->kind_count = (uint32_t)kind_count;
    tz->rule_from = LW__TZ_LAST_S;
    tz->changes = (int64_t *)at;
    tz->spans = (struct lw__span *)(at += changes);
    tz->kinds = (struct lw__tz_kind *)(at += spans);
    tz->kind_from = (uint16_t *)(at + kinds);
    return tz;
}

void lw__tz_release(struct lw__tz *tz, const lw_allocator *allocator) {
    if (tz && atomic_fetch_sub_explicit(&tz->refs, 1, memory_order_acq_rel) == 1)
        lw__free(allocator, tz, tz->size);
}

int lw__tz_make_fixed(struct lw__tz **tz, const lw_allocator *allocator, int32_t offset_s,
                      const char *abbreviation, lw_error *err) {
    *tz = lw__tz_alloc(allocator, 0, 1);
    if (!*tz)
        return lw__error_set(err, LW_ENOMEM, 0, "no memory for the data of a zone");
    (*tz)->kinds[0].offset_s = offset_s;
    snprintf((*tz)->kinds[0].abbreviation, sizeof(*tz)->kinds[0].abbreviation, "%s", abbreviation);
    lw__tz_settle(*tz);
    return LW_OK;
}

/* ---- comparing ----------------------------------------------------------------------------- */

static bool is_same_kind(const struct lw__tz_kind *a, const struct lw__tz_kind *b) {
    return a->offset_s == b->offset_s && a->is_dst == b->is_dst
           && strcmp(a->abbreviation, b->abbreviation) == 0;
}

static bool is_same_day(const struct lw__tz_day *a, const struct lw__tz_day *b) {
    return a->form == b->form && a->month == b->month && a->week == b->week && a->day == b->day
           && a->time_s == b->time_s;
}

static bool is_same_rule(const struct lw__tz_rule *a, const struct lw__tz_rule *b) {
    return is_same_kind(&a->standard, &b->standard) && is_same_kind(&a->daylight, &b->daylight)
           && is_same_day(&a->start, &b->start) && is_same_day(&a->end, &b->end);
}

bool lw__tz_is_same(const struct lw__tz *a, const struct lw__tz *b) {
    if (a->change_count != b->change_count || a->has_rule != b->has_rule
        || (a->has_rule && !is_same_rule(&a->rule, &b->rule)))
        return false;
    for (uint32_t i = 0; i <= a->change_count; i++)
        if ((i > 0 && a->changes[i - 1] != b->changes[i - 1])
            || !is_same_kind(&a->kinds[a->kind_from[i]], &b->kinds[b->kind_from[i]]))
            return false;
    return true;
}

/* ---- spans --------------------------------------------------------------------------------- */

void lw__tz_settle(struct lw__tz *tz) {
    struct lw__span *span = tz->spans;
    int32_t first_s = tz->kinds[tz->kind_from[0]].offset_s;
    *span = (struct lw__span){
        .from = LW__TZ_FIRST_S, .high = LW__TZ_FIRST_S + first_s, .offset_s = first_s};
    for (uint32_t i = 0; i < tz->change_count && tz->changes[i] < tz->rule_from; i++) {
        int32_t offset_s = tz->kinds[tz->kind_from[i + 1]].offset_s;
        if (offset_s == span->offset_s)
            continue;
        int64_t shown = tz->changes[i] + span->offset_s;
        span->to = tz->changes[i];
        span[1] = (struct lw__span){.from = tz->changes[i],
                                    .high = shown > span->high ? shown : span->high,
                                    .offset_s = offset_s};
        span++;
    }
    span->to = tz->rule_from;
    tz->rule_high = span->to + span->offset_s;
    if (tz->rule_high < span->high)
        tz->rule_high = span->high;
    tz->span_count = (uint32_t)(span - tz->spans) + 1;
}

/* The rule reaches back for ever; what it says of the time before rule_from does not count. */
static struct lw__span span_by_rule(const struct lw__tz *tz, int64_t at) {
    struct lw__tz_rule_span by_rule = lw__tz_rule_at(&tz->rule, tz->rule_from, at);
    struct lw__span span = {.from = by_rule.from,
                            .to = by_rule.to,
                            .high = by_rule.high,
                            .offset_s = by_rule.kind->offset_s};
    if (span.from <= tz->rule_from) {
        span.from = tz->rule_from;
        span.high = tz->rule_high;
    }
    if (span.high < tz->rule_high)
        span.high = tz->rule_high;
    if (span.to > LW__TZ_LAST_S)
        span.to = LW__TZ_LAST_S;
    return span;
}

struct lw__span lw__tz_span_at(const struct lw__tz *tz, int64_t at) {
    assert(at >= LW__TZ_FIRST_S && at < LW__TZ_LAST_S);
    if (at >= tz->rule_from)
        return span_by_rule(tz, at);
    uint32_t low = 0, high = tz->span_count; /* spans[low].from <= at < spans[high].from */
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (tz->spans[middle].from <= at)
            low = middle;
        else
            high = middle;
    }
    return tz->spans[low];
}

const struct lw__tz_kind *lw__tz_kind_at(const struct lw__tz *tz, int64_t at) {
    if (at >= tz->rule_from)
        return lw__tz_rule_at(&tz->rule, tz->rule_from, at).kind;
    uint32_t low = 0, high = tz->change_count; /* so many changes are not after `at` */
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (tz->changes[middle] <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return &tz->kinds[tz->kind_from[low]];
}
