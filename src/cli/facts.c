/* Targets that are asked for, and what stands in the answers. */
#include "cli/place.h"

#include "server/base64.h"

#include <stdio.h>

/* ---- targets ------------------------------------------------------------------------------- */

static bool is_plain(char byte) {
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z')
           || (byte >= '0' && byte <= '9') || (byte != '\0' && strchr("-._~", byte));
}

void lw__target_begin(struct lw__target *target, const char *path) {
    lw__buffer_init_fixed(&target->out, target->text, sizeof target->text - 1);
    target->has_query = false;
    lw__buffer_put_text(&target->out, path);
}

void lw__target_part(struct lw__target *target, const char *part) {
    for (; *part; part++) {
        if (is_plain(*part))
            lw__buffer_put_byte(&target->out, *part);
        else
            lw__buffer_print(&target->out, "%%%02X", (unsigned char)*part);
    }
}

void lw__target_query(struct lw__target *target, const char *name, const char *value) {
    if (!value)
        return;
    lw__buffer_put_byte(&target->out, target->has_query ? '&' : '?');
    target->has_query = true;
    lw__buffer_put_text(&target->out, name);
    lw__buffer_put_byte(&target->out, '=');
    lw__target_part(target, value);
}

const char *lw__target_end(struct lw__target *target) {
    if (target->out.status < 0)
        return NULL;
    target->text[target->out.size] = '\0';
    return target->text;
}

/* ---- answers ------------------------------------------------------------------------------- */

int64_t lw__fact_number(struct lw__json object, const char *name) {
    struct lw__json part;
    int64_t number = 0;
    if (lw__json_find(object, name, &part) && lw__json_int(part, &number, NULL) < 0)
        return 0;
    return number;
}

const char *lw__fact_text(struct lw__json object, const char *name, char *into, size_t room) {
    struct lw__json part;
    into[0] = '\0';
    if (lw__json_find(object, name, &part) && lw__json_unescape(part, into, room, NULL) < 0)
        snprintf(into, room, "...");
    return into;
}

bool lw__fact_flag(struct lw__json object, const char *name) {
    struct lw__json part;
    bool is_set = false;
    return lw__json_find(object, name, &part) && lw__json_bool(part, &is_set, NULL) == LW_OK
           && is_set;
}

bool lw__fact_bytes(struct lw__json object, const char *name, struct lw__buffer *out) {
    char longer[64];
    struct lw__json part;
    struct lw__slice text;
    if (lw__json_find(object, name, &part)) {
        lw__buffer_put(out, part.raw);
        return true;
    }
    snprintf(longer, sizeof longer, "%s_base64", name);
    return lw__json_find(object, longer, &part) && lw__json_plain(part, &text)
           && lw__base64_read(out, text, NULL) == LW_OK;
}

lw_state lw__fact_state(struct lw__json task) {
    char name[16];
    lw__fact_text(task, "state", name, sizeof name);
    for (lw_state state = LW_CREATED; state <= LW_ABORTED; state++)
        if (strcmp(lw_state_name(state), name) == 0)
            return state;
    return (lw_state)0;
}
