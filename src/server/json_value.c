/* Taking values apart. The text was checked; here it is only made sure that nothing reads past its
 * end. */
#include "server/json.h"
#include "server/json_string.h"
#include "server/refuse.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>

enum lw__json_type lw__json_type(struct lw__json value) {
    switch (value.raw.size > 0 ? value.raw.data[0] : 'n') {
    case '{': return LW__JSON_OBJECT;
    case '[': return LW__JSON_ARRAY;
    case '"': return LW__JSON_STRING;
    case 't':
    case 'f': return LW__JSON_BOOL;
    case 'n': return LW__JSON_NULL;
    default: return LW__JSON_NUMBER;
    }
}

const char *lw__json_type_name(enum lw__json_type type) {
    static const char *const names[] = {"null",     "true or false", "a number",
                                        "a string", "an array",      "an object"};
    return names[type];
}

/* ---- parts ---------------------------------------------------------------------------------- */

/* From here to the end of the string whose quote this is. */
static const char *skip_string(const char *at, const char *end) {
    for (at++; (at = lw__json_skip_plain(at, end)) < end; at++) {
        if (*at == '"')
            return at + 1;
        if (*at == '\\' && ++at == end)
            break;
    }
    return end;
}

static const char *skip_nested(const char *at, const char *end) {
    size_t depth = 0;
    while (at < end) {
        char c = *at;
        if (c == '"') {
            at = skip_string(at, end);
            continue;
        }
        at++;
        if (c == '{' || c == '[')
            depth++;
        else if ((c == '}' || c == ']') && --depth == 0)
            break;
    }
    return at;
}

static const char *skip_value(const char *at, const char *end) {
    if (at < end && *at == '"')
        return skip_string(at, end);
    if (at < end && (*at == '{' || *at == '['))
        return skip_nested(at, end);
    while (at < end && *at != ',' && *at != ']' && *at != '}' && (unsigned char)*at > ' ')
        at++;
    return at;
}

/* Past spaces and the marks between parts. */
static const char *skip_marks(const char *at, const char *end) {
    while (at < end && ((unsigned char)*at <= ' ' || *at == ',' || *at == ':'))
        at++;
    return at;
}

struct lw__json_walk lw__json_enter(struct lw__json value) {
    enum lw__json_type type = lw__json_type(value);
    if ((type != LW__JSON_OBJECT && type != LW__JSON_ARRAY) || value.raw.size < 2)
        return (struct lw__json_walk){NULL, NULL, false};
    return (struct lw__json_walk){
        .at = value.raw.data + 1,
        .end = value.raw.data + value.raw.size - 1,
        .is_object = type == LW__JSON_OBJECT,
    };
}

static struct lw__json next_value(struct lw__json_walk *walk) {
    const char *begin = skip_marks(walk->at, walk->end);
    walk->at = skip_value(begin, walk->end);
    return (struct lw__json){lw__slice_between(begin, walk->at)};
}

bool lw__json_next(struct lw__json_walk *walk, struct lw__json *key, struct lw__json *part) {
    *key = (struct lw__json){{NULL, 0}};
    if (walk->is_object)
        *key = next_value(walk);
    *part = next_value(walk);
    return part->raw.size > 0;
}

bool lw__json_find(struct lw__json object, const char *name, struct lw__json *part) {
    struct lw__json_walk walk = lw__json_enter(object);
    struct lw__json key;
    while (lw__json_next(&walk, &key, part))
        if (lw__json_is(key, name))
            return true;
    return false;
}

/* ---- scalars -------------------------------------------------------------------------------- */

static int refuse_value(struct lw__json value, const char *wanted, lw_error *err) {
    return lw__refuse(err, LW_EINVAL, "%s is not %s", lw__slice_show(value.raw).text, wanted);
}

/* The digits of a whole number that fits. */
static bool read_digits(struct lw__slice digits, uint64_t max, uint64_t *number) {
    uint64_t sum = 0;
    for (size_t i = 0; i < digits.size; i++) {
        unsigned digit = (unsigned char)digits.data[i] - (unsigned)'0';
        if (digit > 9 || sum > max / 10 || (sum == max / 10 && digit > max % 10))
            return false;
        sum = sum * 10 + digit;
    }
    *number = sum;
    return digits.size > 0;
}

int lw__json_uint(struct lw__json value, uint64_t *number, lw_error *err) {
    if (read_digits(value.raw, UINT64_MAX, number))
        return LW_OK;
    return refuse_value(value, "a whole number from 0 to 18446744073709551615", err);
}

int lw__json_int(struct lw__json value, int64_t *number, lw_error *err) {
    bool is_negative = value.raw.size > 0 && value.raw.data[0] == '-';
    struct lw__slice digits = {value.raw.data + is_negative, value.raw.size - is_negative};
    uint64_t size;
    if (!read_digits(digits, (uint64_t)INT64_MAX + is_negative, &size))
        return refuse_value(value,
                            "a whole number from -9223372036854775808 to 9223372036854775807", err);
    *number = is_negative ? (int64_t)(0 - size) : (int64_t)size;
    return LW_OK;
}

/* strtod, with a point whatever the program's locale says. */
static double convert(const char *text) {
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    double number = plain ? strtod_l(text, NULL, plain) : strtod(text, NULL);
    if (plain)
        freelocale(plain);
    return number;
}

int lw__json_double(struct lw__json value, double *number, lw_error *err) {
    char text[LW__JSON_NUMBER_MAX + 1];
    if (lw__json_type(value) != LW__JSON_NUMBER)
        return refuse_value(value, "a number", err);
    if (value.raw.size > LW__JSON_NUMBER_MAX)
        return refuse_value(value, "a number of at most 256 bytes", err);
    memcpy(text, value.raw.data, value.raw.size);
    text[value.raw.size] = 0;
    double found = convert(text);
    if (!isfinite(found))
        return refuse_value(value, "in the range of a double", err);
    *number = found;
    return LW_OK;
}

int lw__json_bool(struct lw__json value, bool *is_true, lw_error *err) {
    if (lw__json_type(value) != LW__JSON_BOOL)
        return refuse_value(value, "true or false", err);
    *is_true = value.raw.data[0] == 't';
    return LW_OK;
}
