/* When an expression is due. */
#include "server/api/cron.h"

#include "server/api/api.h"
#include "server/api/handlers.h"

#include <event2/util.h>

/* ---- as JSON -------------------------------------------------------------------------------- */

static void put_int(struct lw__json_writer *json, const char *name, int64_t number) {
    lw__json_key(json, name);
    lw__json_put_int(json, number);
}

static void put_text(struct lw__json_writer *json, const char *name, const char *text) {
    lw__json_key(json, name);
    lw__json_put_text(json, text);
}

static int32_t offset_at(const lw_zone *zone, int64_t at_ms) {
    lw_local_time local;
    return lw_zone_local(zone, at_ms, &local) == LW_OK ? local.offset_s : 0;
}

/* The last clock change after one moment and up to another, if clocks show another offset then. */
static bool find_change(const lw_zone *zone, int64_t after_ms, int64_t until_ms,
                        lw_zone_change *found) {
    lw_zone_change change = {.at_ms = after_ms};
    bool is_there = false;
    if (offset_at(zone, after_ms) == offset_at(zone, until_ms))
        return false;
    while (lw_zone_next_change(zone, change.at_ms, &change) == LW_OK && change.at_ms <= until_ms) {
        *found = change;
        is_there = true;
    }
    return is_there;
}

static void put_tick(struct lw__json_writer *json, const lw_zone *zone, int64_t before_ms,
                     int64_t at_ms) {
    char local[64];
    lw_zone_change change;
    lw__json_object(json);
    put_int(json, "at_ms", at_ms);
    if (lw_zone_format(zone, at_ms, local, sizeof local) == LW_OK)
        put_text(json, "local", local);
    if (find_change(zone, before_ms, at_ms, &change)) {
        lw__json_key(json, "change");
        lw__json_object(json);
        put_int(json, "at_ms", change.at_ms);
        put_int(json, "before_s", change.before_s);
        put_int(json, "after_s", change.after_s);
        lw__json_close(json);
    }
    lw__json_close(json);
}

static void put_ticks(struct lw__json_writer *json, const lw_cron *cron,
                      const struct lw__cron_question *question) {
    int64_t before = question->from_ms, at;
    lw__json_key(json, "ticks");
    lw__json_array(json);
    for (int64_t i = 0; i < question->count && lw_cron_next(cron, before, &at) == LW_OK; i++) {
        put_tick(json, lw_cron_zone(cron), before, at);
        before = at;
    }
    lw__json_close(json);
}

int lw__show_cron(struct lw__json_writer *json, lw_zones *zones,
                  const struct lw__cron_question *question, lw_error *err) {
    char words[LW_CRON_WORDS_MAX];
    lw_cron *cron = NULL;
    int rc = lw_cron_parse(
        &cron, zones, question->expression,
        LW_CRON_OPTIONS(.zone = question->zone, .offset_ms = question->offset_ms), err);
    if (rc < 0)
        return rc;
    lw__json_object(json);
    put_text(json, "expression", question->expression);
    put_text(json, "zone", lw_zone_name(lw_cron_zone(cron)));
    if (lw_cron_describe(cron, words, sizeof words) >= 0)
        put_text(json, "words", words);
    put_ticks(json, cron, question);
    lw__json_close(json);
    lw_cron_close(cron);
    return LW_OK;
}

/* ---- the route ------------------------------------------------------------------------------ */

static int64_t wall_ms(void) {
    struct timeval now;
    evutil_gettimeofday(&now, NULL);
    return (int64_t)now.tv_sec * 1000 + now.tv_usec / 1000;
}

/* Zones are opened for each request: so they are as new as their files, and wait for nobody. */
static void show_next(struct lw__exchange *x) {
    lw_zones *zones = NULL;
    int rc = lw_zones_open(&zones, NULL, &x->err);
    if (rc == LW_OK)
        rc = lw__show_cron(lw__reply_json(x, 200), zones, x->state, &x->err);
    if (rc == LW_ENOTFOUND) /* the zone: nothing is wrong with the path */
        lw__reply_error(x, 400, "%s", x->err.message);
    else if (rc < 0)
        lw__reply_status(x, rc, &x->err);
    lw_zones_close(zones);
}

static bool read_question(struct lw__exchange *x, struct lw__cron_question *question,
                          lw_error *err) {
    const char *zone = lw__exchange_query(x, "zone");
    question->expression = lw__exchange_query(x, "expression");
    question->zone = zone && zone[0] ? zone : "UTC";
    if (!question->expression) {
        *err = (lw_error){LW_EINVAL, 0, "say which expression: ?expression=0+3+*+*+MON-FRI"};
        return false;
    }
    return lw__exchange_number(x, "n", 10, 1, LW__CRON_NEXT_MAX, &question->count, err)
           && lw__exchange_number(x, "from_ms", wall_ms(), 0, LW_TICK_MS_MAX, &question->from_ms,
                                  err)
           && lw__exchange_duration(x, "offset", 0, &question->offset_ms, err);
}

void lw__serve_cron_next(struct lw__exchange *x) {
    struct lw__cron_question *question = lw__exchange_keep(x, sizeof *question);
    x->state = question;
    if (question && read_question(x, question, &x->err)) {
        lw__exchange_offload(x, show_next, NULL);
        return;
    }
    lw__reply_status(x, question ? LW_EINVAL : LW_ENOMEM, question ? &x->err : NULL);
    lw__exchange_reply(x);
}
