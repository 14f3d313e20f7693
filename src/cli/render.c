/* Colours, times, and texts made harmless. Tables: table.c. */
#include "cli/render.h"

#include <stdlib.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define SECOND INT64_C(1000)
#define MINUTE (60 * SECOND)
#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)

/* ---- style --------------------------------------------------------------------------------- */

static bool is_set(const char *name) {
    const char *value = getenv(name);
    return value && value[0];
}

static bool speaks_utf8(void) {
    const char *locale = is_set("LC_ALL")     ? getenv("LC_ALL")
                         : is_set("LC_CTYPE") ? getenv("LC_CTYPE")
                                              : getenv("LANG");
    return locale && (strstr(locale, "UTF-8") || strstr(locale, "utf8"));
}

struct lw__style lw__style_of(FILE *file) {
    struct lw__style style = {.has_symbols = speaks_utf8()};
    const char *term = getenv("TERM");
    struct winsize size;
    style.is_terminal = isatty(fileno(file)) == 1;
    style.has_colours =
        style.is_terminal && !is_set("NO_COLOR") && term && strcmp(term, "dumb") != 0;
    if (style.is_terminal && ioctl(fileno(file), TIOCGWINSZ, &size) == 0)
        style.width = size.ws_col;
    return style;
}

enum lw__tone lw__tone_of(lw_state state) {
    switch (state) {
    case LW_CREATED: return LW__DIM;
    case LW_SCHEDULED: return LW__YELLOW;
    case LW_ENQUEUED: return LW__CYAN;
    case LW_STARTED: return LW__BLUE;
    case LW_FINISHED: return LW__GREEN;
    case LW_FAILED: return LW__RED;
    case LW_ABORTED: return LW__DIM;
    default: return LW__PLAIN;
    }
}

void lw__put_toned(struct lw__buffer *out, const struct lw__style *style, enum lw__tone tone,
                   const char *text) {
    static const char *const codes[] = {"", "1", "2", "31", "32", "33", "34", "36"};
    if (!style->has_colours || tone == LW__PLAIN) {
        lw__buffer_put_text(out, text);
        return;
    }
    lw__buffer_print(out, "\x1b[%sm", codes[tone]);
    lw__buffer_put_text(out, text);
    lw__buffer_put_text(out, "\x1b[0m");
}

/* ---- texts --------------------------------------------------------------------------------- */

void lw__put_safe(struct lw__buffer *out, struct lw__slice text) {
    size_t size = lw_text_show(NULL, 0, text.data, text.size);
    char *into = lw__buffer_take(out, size + 1); /* with a zero, which is not kept */
    if (!into)
        return;
    lw_text_show(into, size + 1, text.data, text.size);
    lw__buffer_cut(out, out->size - 1);
}

void lw__put_lines(struct lw__buffer *out, const char *margin, struct lw__slice text) {
    const char *end = lw__slice_end(text);
    for (const char *at = text.data; at < end;) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        lw__buffer_put_text(out, margin);
        lw__put_safe(out, lw__slice_between(at, stop ? stop : end));
        lw__buffer_put_byte(out, '\n');
        at = stop ? stop + 1 : end;
    }
}

size_t lw__width_of(struct lw__slice text) {
    size_t width = 0;
    for (size_t i = 0; i < text.size; i++)
        width += ((unsigned char)text.data[i] & 0xc0) != 0x80;
    return width;
}

/* ---- times --------------------------------------------------------------------------------- */

struct lw__words lw__span_of(int64_t ms) {
    static const struct {
        int64_t from, unit, part;
        const char *name, *part_name;
    } forms[] = {{DAY, DAY, HOUR, "d", "h"},
                 {HOUR, HOUR, MINUTE, "h", "m"},
                 {MINUTE, MINUTE, SECOND, "m", "s"}};
    struct lw__words words;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (ms >= forms[i].from) {
            snprintf(words.text, sizeof words.text, "%lld %s %lld %s",
                     (long long)(ms / forms[i].unit), forms[i].name,
                     (long long)(ms % forms[i].unit / forms[i].part), forms[i].part_name);
            return words;
        }
    if (ms >= SECOND)
        snprintf(words.text, sizeof words.text, "%lld.%lld s", (long long)(ms / SECOND),
                 (long long)(ms % SECOND / 100));
    else
        snprintf(words.text, sizeof words.text, "%lld ms", (long long)(ms > 0 ? ms : 0));
    return words;
}

struct lw__words lw__age_of(int64_t at_ms, int64_t now_ms) {
    struct lw__words words = {""};
    int64_t ms = now_ms > at_ms ? now_ms - at_ms : at_ms - now_ms;
    const char *unit = ms >= DAY ? "d" : ms >= HOUR ? "h" : ms >= MINUTE ? "m" : "s";
    int64_t size = ms >= DAY ? DAY : ms >= HOUR ? HOUR : ms >= MINUTE ? MINUTE : SECOND;
    if (at_ms == 0)
        return words;
    if (ms < SECOND)
        snprintf(words.text, sizeof words.text, "now");
    else if (at_ms > now_ms)
        snprintf(words.text, sizeof words.text, "in %lld %s", (long long)(ms / size), unit);
    else
        snprintf(words.text, sizeof words.text, "%lld %s ago", (long long)(ms / size), unit);
    return words;
}

struct lw__words lw__time_of(int64_t at_ms, int64_t now_ms) {
    struct lw__words words = {""};
    time_t at = (time_t)(at_ms / SECOND), now = (time_t)(now_ms / SECOND);
    struct tm then, today;
    if (!localtime_r(&at, &then) || !localtime_r(&now, &today))
        return words;
    bool is_today = then.tm_yday == today.tm_yday && then.tm_year == today.tm_year;
    strftime(words.text, sizeof words.text, is_today ? "%H:%M:%S" : "%Y-%m-%d %H:%M:%S", &then);
    return words;
}
