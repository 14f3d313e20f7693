/* `legwork cron next`: when an expression is due, in its zone and in UTC, and what it means. */
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/cron.h"
#include "cli/moment.h"
#include "cli/place.h"
#include "cli/screen.h"
#include "server/api/cron.h"

#include <ctype.h>

struct values {
    struct lw__common common;
    const char *zone, *from;
    int64_t count, offset_ms;
};

#define AT(field) .offset = offsetof(struct values, field)
#define TEXT(field, what) .type = LW__CONFIG_TEXT, AT(field), .argument = (what)

static const struct lw__config_row rows[] = {
    {NULL, "zone", TEXT(zone, "ZONE"), .fallback = "UTC",
     .help = "Of its clocks: Europe/Berlin, +02:00, UTC unless told."},
    {NULL, "count", .letter = 'n', .type = LW__CONFIG_COUNT, AT(count), .fallback = "10", .min = 1,
     .max = LW__CRON_NEXT_MAX, .argument = "N", .help = "So many of them, 10 unless told."},
    {NULL, "from", TEXT(from, "TIME"), .fallback = "now",
     .help = "Those after this moment: " LW__MOMENT_FORMS "; now unless told."},
    {NULL, "offset", .type = LW__CONFIG_DURATION, AT(offset_ms), .fallback = "0",
     .max = LW_TIMEOUT_MS_MAX, .argument = "DURATION", .help = "Of @every: so much later."},
    {NULL, "json", .type = LW__CONFIG_SWITCH, .offset = offsetof(struct lw__common, is_json),
     .fallback = "no", .help = "Print JSON, for scripts."}};

static const struct lw__usage usage = {
    .line = "cron next EXPRESSION [FLAG...]",
    .about = "Says in words what a cron expression means, and prints the next moments at which it\n"
             "is due, in the zone's time and in UTC. Where clocks have changed since the line\n"
             "above, that is said. No server is asked; zones are those of this machine.",
    .example = "  legwork cron next '0 3 * * 1-5' --zone Europe/Berlin\n"
               "  legwork cron next '@every 90s' -n 3\n"
               "  legwork cron next '30 2 * * *' --zone Europe/Berlin --from 2026-03-27",
    .table = {rows, sizeof rows / sizeof *rows},
    .words_min = 1,
    .words_max = 1,
    .is_local = true};

/* ---- the table ------------------------------------------------------------------------------ */

/* "IN EUROPE/BERLIN" */
struct heading {
    char text[LW_ZONE_NAME_MAX + 8];
};

static struct heading heading_of(const lw_zone *zone) {
    struct heading heading;
    snprintf(heading.text, sizeof heading.text, "in %s", lw_zone_name(zone));
    for (char *at = heading.text; *at; at++)
        *at = (char)toupper((unsigned char)*at);
    return heading;
}

static bool any_has_seconds(struct lw__json ticks) {
    struct lw__json_walk walk = lw__json_enter(ticks);
    struct lw__json key, tick;
    while (lw__json_next(&walk, &key, &tick))
        if (lw__moment_has_seconds(lw__fact_number(tick, "at_ms")))
            return true;
    return false;
}

static void add_change(struct lw__table *table, struct lw__json tick) {
    struct lw__json part;
    if (!lw__json_find(tick, "change", &part)) {
        lw__table_add(table, LW__PLAIN, "");
        return;
    }
    const lw_zone_change change = {.at_ms = lw__fact_number(part, "at_ms"),
                                   .before_s = (int32_t)lw__fact_number(part, "before_s"),
                                   .after_s = (int32_t)lw__fact_number(part, "after_s")};
    lw__table_add(table, LW__YELLOW, lw__change_words_of(&change).text);
}

static void put_ticks(struct lw__buffer *page, struct lw__json ticks, const lw_zone *zone) {
    struct heading heading = heading_of(zone);
    const struct lw__table_column columns[] = {
        {heading.text, false}, {"UTC", false}, {"FROM NOW", true}, {"CLOCKS", false}};
    bool is_utc = strcmp(lw_zone_name(zone), "UTC") == 0, has_seconds = any_has_seconds(ticks);
    struct lw__style style = lw__style_of(stdout);
    struct lw__json_walk walk = lw__json_enter(ticks);
    struct lw__json key, tick;
    struct lw__table table;
    lw__table_init(&table, columns, sizeof columns / sizeof *columns);
    while (lw__json_next(&walk, &key, &tick)) {
        int64_t at = lw__fact_number(tick, "at_ms");
        lw__table_add(&table, LW__PLAIN, lw__moment_in(zone, at, has_seconds).text);
        lw__table_add(&table, LW__PLAIN, is_utc ? "" : lw__moment_utc(at, has_seconds).text);
        lw__table_add(&table, LW__DIM, lw__age_of(at, lw__now_ms()).text);
        add_change(&table, tick);
    }
    if (table.cells > 0)
        lw__table_write(&table, &style, page);
    else
        lw__buffer_put_text(page, "never again up to the year 9999\n");
    lw__table_clear(&table);
}

static void print_ticks(struct lw__json answer, const lw_zone *zone) {
    char words[LW_CRON_WORDS_MAX];
    struct lw__json ticks;
    struct lw__buffer page;
    lw__page_begin(&page);
    lw__buffer_put_text(&page, lw__fact_text(answer, "words", words, sizeof words));
    lw__buffer_print(&page, ", in %s\n\n", lw_zone_name(zone));
    if (lw__json_find(answer, "ticks", &ticks))
        put_ticks(&page, ticks, zone);
    lw__page_print(&page, stdout);
}

/* ---- the command ---------------------------------------------------------------------------- */

static int exit_of(int status) {
    return status == LW_EINVAL || status == LW_ENOTFOUND ? LW__EXIT_USAGE : LW__EXIT_FAILED;
}

static int answer(const char *expression, const struct values *values, lw_zones *zones,
                  const lw_zone *zone, struct lw__buffer *body, lw_error *err) {
    struct lw__cron_question question = {.expression = expression,
                                         .zone = values->zone,
                                         .offset_ms = values->offset_ms,
                                         .count = values->count};
    struct lw__json_writer json;
    int rc = lw__moment_read(values->from, zones, zone, lw__now_ms(), &question.from_ms, err);
    lw__json_write(&json, body);
    return rc == LW_OK ? lw__show_cron(&json, zones, &question, err) : rc;
}

static int show(const char *expression, const struct values *values) {
    lw_error err = {.status = LW_ENOMEM, .message = "out of memory"};
    lw_zones *zones = NULL;
    lw_zone *zone = NULL;
    struct lw__buffer body;
    lw__page_begin(&body);
    int rc = lw_zones_open(&zones, NULL, &err);
    if (rc == LW_OK)
        rc = lw_zone_open(&zone, zones, values->zone, &err);
    if (rc == LW_OK)
        rc = answer(expression, values, zones, zone, &body, &err);
    if (rc < 0)
        lw__cron_complain(expression, err.message);
    else if (values->common.is_json)
        printf("%.*s\n", (int)body.size, body.data);
    else
        print_ticks((struct lw__json){lw__buffer_slice(&body)}, zone);
    lw__buffer_clear(&body);
    lw_zone_close(zone);
    lw_zones_close(zones);
    return rc < 0 ? exit_of(rc) : LW__EXIT_OK;
}

int lw__command_cron_next(int argc, const char *const *argv) {
    struct lw__arguments arguments;
    struct values values;
    int code = LW__EXIT_OK;
    if (!lw__arguments_read(&arguments, &usage, argc, argv, &values, &code))
        return code;
    code = show(arguments.words[0], &values);
    lw__arguments_clear(&arguments);
    return code;
}
