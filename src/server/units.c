/* Durations and sizes. */
#include "server/units.h"

#include "server/refuse.h"

#include <assert.h>
#include <legwork/api.h>
#include <stdio.h>

#define SIZE_LIMIT (INT64_C(1) << 53)

struct unit {
    const char *name;
    int64_t factor;
};

/* Larger ones first. */
static const struct unit times[] = {
    {"d", 86400000}, {"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1},
};
#define TIMES (sizeof times / sizeof *times)

/* The first of each factor is the one that is written. */
static const struct unit sizes[] = {
    {"GiB", 1 << 30}, {"G", 1 << 30}, {"MiB", 1 << 20}, {"M", 1 << 20},
    {"KiB", 1 << 10}, {"k", 1 << 10}, {"B", 1},         {"", 1},
};
#define SIZES (sizeof sizes / sizeof *sizes)

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* A whole number at *at, and the letters behind it. False without digits, or if it is beyond
 * limit. */
static bool read_number(const char **at, const char *end, int64_t limit, int64_t *number,
                        struct lw__slice *letters) {
    const char *first = *at;
    *number = 0;
    for (; *at < end && is_digit(**at); ++*at) {
        *number = *number * 10 + (**at - '0');
        if (*number > limit)
            return false;
    }
    const char *unit = *at;
    while (*at < end && !is_digit(**at))
        ++*at;
    *letters = lw__slice_between(unit, *at);
    return unit > first;
}

static size_t find_unit(const struct unit *units, size_t count, struct lw__slice name) {
    size_t i = 0;
    while (i < count && !lw__slice_is(name, units[i].name))
        i++;
    return i;
}

/* number * factor, if that and sum stay within the limit. */
static bool add(int64_t *sum, int64_t number, int64_t factor, int64_t limit) {
    if (number > (limit - *sum) / factor)
        return false;
    *sum += number * factor;
    return true;
}

int lw__duration_read(struct lw__slice text, int64_t *ms, lw_error *err) {
    const char *at = text.data, *end = lw__slice_end(text);
    int64_t sum = 0, number;
    size_t next = 0; /* the largest unit that may still come */
    bool is_fine = text.size > 0;
    if (lw__slice_is(text, "0"))
        at = end;
    while (is_fine && at < end) {
        struct lw__slice letters;
        is_fine = read_number(&at, end, LW_TIMEOUT_MS_MAX, &number, &letters);
        size_t unit = is_fine ? find_unit(times, TIMES, letters) : TIMES;
        is_fine = unit >= next && unit < TIMES
                  && add(&sum, number, times[unit].factor, LW_TIMEOUT_MS_MAX);
        next = unit + 1;
    }
    if (!is_fine)
        return lw__refuse(err, LW_EINVAL,
                          "\"%s\" is no duration; write 30s, 250ms, 5m, 1h30m or 7d (at most %dd)",
                          lw__slice_show(text).text, (int)(LW_TIMEOUT_MS_MAX / times[0].factor));
    *ms = sum;
    return LW_OK;
}

int lw__size_read(struct lw__slice text, int64_t *size, lw_error *err) {
    const char *at = text.data, *end = lw__slice_end(text);
    int64_t number, sum = 0;
    struct lw__slice letters;
    bool is_fine = read_number(&at, end, SIZE_LIMIT, &number, &letters) && at == end;
    size_t unit = is_fine ? find_unit(sizes, SIZES, letters) : SIZES;
    if (unit == SIZES || !add(&sum, number, sizes[unit].factor, SIZE_LIMIT))
        return lw__refuse(err, LW_EINVAL, "\"%s\" is no size; write 4096, 64KiB, 16MiB or 1GiB",
                          lw__slice_show(text).text);
    *size = sum;
    return LW_OK;
}

struct lw__units_text lw__duration_write(int64_t ms) {
    struct lw__units_text written = {"0"};
    size_t at = 0;
    assert(ms >= 0);
    for (size_t i = 0; i < TIMES; i++) {
        int64_t number = ms / times[i].factor;
        ms %= times[i].factor;
        if (number > 0)
            at += (size_t)snprintf(written.text + at, sizeof written.text - at, "%lld%s",
                                   (long long)number, times[i].name);
    }
    return written;
}

struct lw__units_text lw__size_write(int64_t size) {
    struct lw__units_text written = {"0"};
    assert(size >= 0);
    for (size_t i = 0; i < SIZES && size > 0; i++)
        if (size % sizes[i].factor == 0) {
            const char *name = sizes[i].factor == 1 ? "" : sizes[i].name;
            snprintf(written.text, sizeof written.text, "%lld%s",
                     (long long)(size / sizes[i].factor), name);
            break;
        }
    return written;
}
