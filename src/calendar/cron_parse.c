/* An expression: five or six fields, or a word that begins with @. */
#include "calendar/cron_internal.h"

#include "base/error.h"
#include "base/names.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define BLANKS " \t"
#define FIELDS_MAX 6

static const char *const month_names[] = {"JAN", "FEB", "MAR", "APR", "MAY", "JUN",
                                          "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"};
static const char *const weekday_names[] = {"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"};

static const struct lw__cron_field fields[LW__CRON_FIELD_COUNT] = {
    {LW__CRON_SECOND, "second", "0 to 59, *, ranges, lists, steps", 0, 59, NULL, 0, 0},
    {LW__CRON_MINUTE, "minute", "0 to 59, *, ranges, lists, steps", 0, 59, NULL, 0, 0},
    {LW__CRON_HOUR, "hour", "0 to 23, *, ranges, lists, steps", 0, 23, NULL, 0, 0},
    {LW__CRON_DAY, "day of month", "1 to 31, *, ?, L, LW, 15W, ranges, lists, steps", 1, 31, NULL,
     0, 0},
    {LW__CRON_MONTH, "month", "1 to 12 or JAN to DEC, *, ranges, lists, steps", 1, 12, month_names,
     12, 1},
    {LW__CRON_WEEKDAY, "day of week", "0 to 7 or SUN to SAT, *, ?, 5L, TUE#2, ranges, lists, steps",
     0, 7, weekday_names, 7, 0}};

/* ---- words --------------------------------------------------------------------------------- */

static const struct {
    const char *word, *means;
} words[] = {{"@hourly", "0 * * * *"},  {"@daily", "0 0 * * *"},   {"@midnight", "0 0 * * *"},
             {"@weekly", "0 0 * * 0"},  {"@monthly", "0 0 1 * *"}, {"@yearly", "0 0 1 1 *"},
             {"@annually", "0 0 1 1 *"}};

#define WORD_COUNT (sizeof words / sizeof *words)

static int refuse_word(const char *word, lw_error *err) {
    const char *known[WORD_COUNT + 1] = {"@every"};
    for (size_t i = 0; i < WORD_COUNT; i++)
        known[i + 1] = words[i].word;
    if (strcasecmp(word, "@reboot") == 0)
        return lw__error_set(err, LW_EINVAL, 0,
                             "\"@reboot\" is no time: submit a task when the program starts");
    const char *nearest = lw__name_nearest(word, known, WORD_COUNT + 1);
    return lw__error_set(err, LW_EINVAL, 0,
                         "\"%s\" is no word for a schedule%s%s%s; wanted @hourly, @daily, "
                         "@midnight, @weekly, @monthly, @yearly, @annually or @every 90s",
                         lw__text_quote(word).text, nearest ? " (did you mean " : "",
                         nearest ? nearest : "", nearest ? "?)" : "");
}

/* ---- fields -------------------------------------------------------------------------------- */

static int refuse_count(const char *expression, int count, lw_error *err) {
    struct lw__quoted shown = lw__text_quote(expression);
    if (strncmp(expression, "TZ=", 3) == 0 || strncmp(expression, "CRON_TZ=", 8) == 0)
        return lw__error_set(err, LW_EINVAL, 0,
                             "\"%s\" begins with a zone, which is given apart from the expression",
                             shown.text);
    return lw__error_set(err, LW_EINVAL, 0,
                         "\"%s\" has %s%d field%s, wanted 5 or 6: (second,) minute, hour, day of "
                         "month, month, day of week",
                         shown.text, count > FIELDS_MAX ? "more than " : "",
                         count > FIELDS_MAX ? FIELDS_MAX : count, count == 1 ? "" : "s");
}

/* Finds where fields begin; counts up to one too many. */
static int split(const char *expression, const char *begins[FIELDS_MAX]) {
    int count = 0;
    const char *at = expression + strspn(expression, BLANKS);
    while (*at != 0 && count <= FIELDS_MAX) {
        if (count < FIELDS_MAX)
            begins[count] = at;
        count++;
        at += strcspn(at, BLANKS);
        at += strspn(at, BLANKS);
    }
    return count;
}

static int read_fields(lw_cron *cron, const char *expression, lw_error *err) {
    const char *begins[FIELDS_MAX];
    int count = split(expression, begins);
    if (count < FIELDS_MAX - 1 || count > FIELDS_MAX || strncmp(expression, "TZ=", 3) == 0
        || strncmp(expression, "CRON_TZ=", 8) == 0)
        return refuse_count(expression, count, err);
    int first = FIELDS_MAX - count; /* of `fields`: without seconds, 1 */
    cron->seconds = first;          /* without seconds: at the first one */
    for (int i = 0; i < count; i++) {
        struct lw__cron_reader reader = {.cron = cron,
                                         .expression = expression,
                                         .at = begins[i],
                                         .end = begins[i] + strcspn(begins[i], BLANKS),
                                         .err = err};
        if (lw__cron_field_read(&reader, &fields[first + i]) < 0)
            return LW_EINVAL;
    }
    char day = *begins[LW__CRON_DAY - first], weekday = *begins[LW__CRON_WEEKDAY - first];
    if (*begins[LW__CRON_HOUR - first] == '*')
        cron->flags |= LW__CRON_HOUR_STAR;
    if (day == '*' || day == '?' || weekday == '*' || weekday == '?')
        cron->flags |= LW__CRON_BOTH_DAYS;
    /* the calendar repeats itself after 400 years */
    if (lw__cron_local_next(cron, 0, 1970 + 400) == LW__CRON_NEVER)
        return lw__cron_refuse_never(cron, expression, err);
    return LW_OK;
}

/* Reads "@daily", "@every 90s". */
static int read_word(lw_cron *cron, const char *expression, const char *at, int64_t offset_ms,
                     lw_error *err) {
    char word[sizeof "@annually" + 8];
    size_t size = strcspn(at, BLANKS);
    bool is_alone = at[size + strspn(at + size, BLANKS)] == 0;
    snprintf(word, sizeof word, "%.*s", (int)(size < sizeof word ? size : sizeof word), at);
    if (strcasecmp(word, "@every") == 0)
        return lw__cron_every_read(cron, expression, at + size, offset_ms, err);
    for (size_t i = 0; i < WORD_COUNT; i++)
        if (strcasecmp(word, words[i].word) == 0) {
            if (is_alone)
                return read_fields(cron, words[i].means, err);
            return lw__error_set(err, LW_EINVAL, 0,
                                 "\"%s\" has something behind %s, which stands "
                                 "alone",
                                 lw__text_quote(expression).text, words[i].word);
        }
    return refuse_word(word, err);
}

int lw__cron_read(lw_cron *cron, const char *expression, int64_t offset_ms, lw_error *err) {
    if (strnlen(expression, LW_CRON_EXPRESSION_MAX + 1) > LW_CRON_EXPRESSION_MAX)
        return lw__error_set(err, LW_EINVAL, 0,
                             "the expression \"%s\" has more than %d bytes, which is the most",
                             lw__text_quote(expression).text, LW_CRON_EXPRESSION_MAX);
    const char *at = expression + strspn(expression, BLANKS);
    return *at == '@' ? read_word(cron, expression, at, offset_ms, err)
                      : read_fields(cron, expression, err);
}
