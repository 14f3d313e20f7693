/* One field of an expression: items between commas, each a value, a range or *, with or without a
 * step; L, W and # of the day fields are in cron_day.c. Bounds are checked before any bit is set.
 */
#include "calendar/cron_internal.h"

#include "base/error.h"
#include "base/names.h"
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- sentences ----------------------------------------------------------------------------- */

/* A piece of the expression as a text of its own, cut if it is long. */
struct piece {
    char text[LW__QUOTED_MAX];
};

static struct piece piece_of(const char *at, const char *end) {
    struct piece piece;
    int size = (int)(end - at);
    snprintf(piece.text, sizeof piece.text, "%.*s", size, at);
    return piece;
}

int lw__cron_refuse(const struct lw__cron_reader *reader, const char *at, const char *format, ...) {
    char why[LW_ERROR_MESSAGE_MAX];
    va_list args;
    va_start(args, format);
    lw__text_print(why, format, args);
    va_end(args);
    return lw__error_set(reader->err, LW_EINVAL, 0, "%s field, position %d: \"%s\" %s; wanted %s",
                         reader->field->name, (int)(at - reader->expression) + 1,
                         lw__text_quote(piece_of(reader->item, reader->end).text).text, why,
                         reader->field->wanted);
}

/* ---- values -------------------------------------------------------------------------------- */

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static char upper(char c) {
    return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
}

static bool take(struct lw__cron_reader *reader, char c) {
    if (reader->at == reader->end || *reader->at != c)
        return false;
    reader->at++;
    return true;
}

/* Takes digits; one with too many of them is larger than any bound. */
static int take_number(struct lw__cron_reader *reader) {
    int number = 0;
    for (; reader->at < reader->end && is_digit(*reader->at); reader->at++)
        if (number < 100000)
            number = number * 10 + (*reader->at - '0');
    return number;
}

/* Takes a name of three letters; *name is -1 if there is no such name. */
static int take_name(struct lw__cron_reader *reader, int *value) {
    const struct lw__cron_field *field = reader->field;
    const char *at = reader->at;
    size_t size = 0;
    while (at + size < reader->end && is_letter(at[size]))
        size++;
    if (field->number == LW__CRON_WEEKDAY && size == 4 && upper(at[3]) == 'L')
        size = 3; /* FRIL */
    for (int i = 0; i < field->name_count && size == 3; i++)
        if (upper(at[0]) == field->names[i][0] && upper(at[1]) == field->names[i][1]
            && upper(at[2]) == field->names[i][2]) {
            reader->at += size;
            *value = field->name_low + i;
            return LW_OK;
        }
    struct piece piece = piece_of(at, at + size);
    const char *nearest = lw__name_nearest(piece.text, field->names, (size_t)field->name_count);
    if (field->name_count == 0)
        return lw__cron_refuse(reader, at, "has letters");
    return lw__cron_refuse(reader, at, "is no name%s%s%s", nearest ? " (did you mean " : "",
                           nearest ? nearest : "", nearest ? "?)" : "");
}

int lw__cron_value_read(struct lw__cron_reader *reader, int *value) {
    const struct lw__cron_field *field = reader->field;
    const char *at = reader->at;
    if (at == reader->end)
        return lw__cron_refuse(reader, at, at == reader->item ? "is empty" : "ends too early");
    if (is_letter(*at))
        return take_name(reader, value);
    if (!is_digit(*at))
        return lw__cron_refuse(reader, at, "is no number here");
    *value = take_number(reader);
    if (*value < field->low || *value > field->high)
        return lw__cron_refuse(reader, at, "is too %s", *value < field->low ? "small" : "large");
    return LW_OK;
}

/* ---- items --------------------------------------------------------------------------------- */

struct range {
    int low, high, step;
};

static int refuse_backwards(const struct lw__cron_reader *reader, const struct range *range) {
    const struct lw__cron_field *field = reader->field;
    int last = field->number == LW__CRON_WEEKDAY ? 6 : field->high;
    return lw__cron_refuse(reader, reader->item, "runs backwards (write %d-%d,%d-%d)", range->low,
                           last, field->low, range->high);
}

/* Reads "/15", if it is there. */
static int read_step(struct lw__cron_reader *reader, struct range *range) {
    const struct lw__cron_field *field = reader->field;
    if (!take(reader, '/'))
        return LW_OK;
    const char *at = reader->at;
    if (at == reader->end || !is_digit(*at))
        return lw__cron_refuse(reader, at, "has no number as its step");
    range->step = take_number(reader);
    if (range->step >= 1 && range->step <= field->high)
        return LW_OK;
    return lw__cron_refuse(reader, at,
                           "has a step that is not 1 to %d (for longer intervals there "
                           "is @every)",
                           field->high);
}

/* Reads "*", "5", "1-5", each with or without a step; "5/15" is from 5 to the end. */
static int read_range(struct lw__cron_reader *reader, struct range *range) {
    const struct lw__cron_field *field = reader->field;
    *range = (struct range){.low = field->low, .high = field->high, .step = 1};
    if (!take(reader, '*')) {
        if (lw__cron_value_read(reader, &range->low) < 0)
            return LW_EINVAL;
        bool has_end = take(reader, '-');
        if (has_end && lw__cron_value_read(reader, &range->high) < 0)
            return LW_EINVAL;
        if (!has_end && !(reader->at < reader->end && *reader->at == '/'))
            range->high = range->low;
    }
    if (field->number == LW__CRON_WEEKDAY && range->high == 0 && range->low > 0)
        range->high = 7; /* SAT-SUN */
    if (range->low > range->high)
        return refuse_backwards(reader, range);
    return read_step(reader, range);
}

static void set_bits(lw_cron *cron, enum lw__cron_field_number number, const struct range *range) {
    uint64_t bits = 0;
    for (int value = range->low; value <= range->high; value += range->step)
        bits |= UINT64_C(1) << (number == LW__CRON_WEEKDAY ? value % 7 : value);
    switch (number) {
    case LW__CRON_SECOND: cron->seconds |= bits; break;
    case LW__CRON_MINUTE: cron->minutes |= bits; break;
    case LW__CRON_HOUR: cron->hours |= (uint32_t)bits; break;
    case LW__CRON_DAY: cron->days |= (uint32_t)bits; break;
    case LW__CRON_MONTH: cron->months |= (uint16_t)bits; break;
    default: cron->weekdays |= (uint8_t)bits;
    }
}

static int read_item(struct lw__cron_reader *reader) {
    struct range range;
    bool is_day =
        reader->field->number == LW__CRON_DAY || reader->field->number == LW__CRON_WEEKDAY;
    int rc = is_day ? lw__cron_day_read(reader) : 0;
    if (rc != 0)
        return rc < 0 ? rc : LW_OK;
    if (read_range(reader, &range) < 0)
        return LW_EINVAL;
    if (reader->at < reader->end)
        return lw__cron_refuse(reader, reader->at, "goes on with '%s', which does not belong there",
                               lw__text_quote(piece_of(reader->at, reader->at + 1).text).text);
    set_bits(reader->cron, reader->field->number, &range);
    return LW_OK;
}

/* ---- fields -------------------------------------------------------------------------------- */

/* "?" alone is "*" of a day field. */
static int read_question(struct lw__cron_reader *reader, const char *end) {
    const struct lw__cron_field *field = reader->field;
    bool is_day = field->number == LW__CRON_DAY || field->number == LW__CRON_WEEKDAY;
    reader->item = reader->at;
    reader->end = end;
    if (!is_day)
        return lw__cron_refuse(reader, reader->at, "is for the day fields only");
    if (end - reader->at > 1)
        return lw__cron_refuse(reader, reader->at, "has something beside ?, which stands alone");
    set_bits(reader->cron, field->number, &(struct range){field->low, field->high, 1});
    return LW_OK;
}

int lw__cron_field_read(struct lw__cron_reader *reader, const struct lw__cron_field *field) {
    const char *end = reader->end;
    reader->field = field;
    if (*reader->at == '?')
        return read_question(reader, end);
    for (;;) {
        const char *comma = memchr(reader->at, ',', (size_t)(end - reader->at));
        reader->item = reader->at;
        reader->end = comma ? comma : end;
        if (read_item(reader) < 0)
            return LW_EINVAL;
        if (!comma)
            return LW_OK;
        reader->at = comma + 1;
    }
}
