/* Percent-encoding, and queries. */
#include "server/query.h"

#include "server/nearest.h"
#include "server/refuse.h"
#include "server/utf8.h"

/* ---- percent-encoding ----------------------------------------------------------------------- */

static int hex_digit(char c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    char lower = (char)(c | 0x20);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/* The byte that an escape stands for; -1 if it is none. */
static int read_escape(const char *at, const char *end) {
    if (end - at < 3)
        return -1;
    int high = hex_digit(at[1]), low = hex_digit(at[2]);
    return high < 0 || low < 0 ? -1 : high << 4 | low;
}

int lw__percent_decode(struct lw__slice text, bool is_form, char *into, size_t room,
                       const char *what, lw_error *err) {
    const char *end = lw__slice_end(text);
    size_t size = 0;
    for (const char *at = text.data; at < end;) {
        int byte = *at == '%' ? read_escape(at, end) : (unsigned char)*at;
        if (byte < 0)
            return lw__refuse(err, LW_EINVAL, "%s is \"%s\", with a %% that no hex digits follow",
                              what, lw__slice_show(text).text);
        if (byte == 0)
            return lw__refuse(err, LW_EINVAL, "%s is \"%s\", with a zero byte", what,
                              lw__slice_show(text).text);
        if (size + 1 >= room)
            return lw__refuse(err, LW_EFULL, "%s has no room", what);
        into[size++] = is_form && *at == '+' ? ' ' : (char)byte;
        at += *at == '%' ? 3 : 1;
    }
    if (size >= room)
        return lw__refuse(err, LW_EFULL, "%s has no room", what);
    into[size] = 0;
    if (!lw__utf8_check((struct lw__slice){into, size}))
        return lw__refuse(err, LW_EINVAL, "%s is \"%s\", which is not UTF-8", what,
                          lw__slice_show(text).text);
    return LW_OK;
}

/* ---- queries -------------------------------------------------------------------------------- */

static struct lw__query_field *find_field(struct lw__query_field *fields, size_t count,
                                          const char *name) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(fields[i].name, name) == 0)
            return &fields[i];
    return NULL;
}

static int refuse_name(const struct lw__query_field *fields, size_t count, const char *name,
                       lw_error *err) {
    struct lw__nearest nearest;
    struct lw__slice wanted = lw__slice_of(name);
    lw__nearest_init(&nearest, wanted);
    for (size_t i = 0; i < count; i++)
        lw__nearest_offer(&nearest, fields[i].name);
    if (nearest.name)
        return lw__refuse(err, LW_EINVAL,
                          "the parameter \"%s\" is not known here; did you mean \"%s\"?",
                          lw__slice_show(wanted).text, nearest.name);
    return lw__refuse(err, LW_EINVAL, "the parameter \"%s\" is not known here",
                      lw__slice_show(wanted).text);
}

/* Where memory is handed out from, front to back. */
struct room {
    char *at;
    size_t left;
};

static int decode(struct lw__slice text, struct room *room, const char *what, char **decoded,
                  lw_error *err) {
    int status = lw__percent_decode(text, true, room->at, room->left, what, err);
    if (status < 0)
        return status;
    *decoded = room->at;
    size_t size = strlen(room->at) + 1;
    room->at += size;
    room->left -= size;
    return LW_OK;
}

static int read_part(struct lw__slice part, struct lw__query_field *fields, size_t count,
                     struct room *room, lw_error *err) {
    const char *end = lw__slice_end(part), *mark = memchr(part.data, '=', part.size);
    struct lw__slice raw_name = lw__slice_between(part.data, mark ? mark : end);
    struct lw__slice raw_value = lw__slice_between(mark ? mark + 1 : end, end);
    struct room before = *room;
    char *name, *value;
    int status = decode(raw_name, room, "the name of a parameter", &name, err);
    if (status < 0)
        return status;
    struct lw__query_field *field = find_field(fields, count, name);
    if (!field)
        return refuse_name(fields, count, name, err);
    if (field->value)
        return lw__refuse(err, LW_EINVAL, "the parameter \"%s\" is there twice", field->name);
    *room = before; /* the name is known, and needs its room no longer */
    status = decode(raw_value, room, field->name, &value, err);
    if (status < 0)
        return status;
    field->value = value;
    return LW_OK;
}

int lw__query_read(struct lw__slice query, struct lw__query_field *fields, size_t count,
                   char *memory, size_t room, lw_error *err) {
    struct room left = {memory, room};
    const char *end = lw__slice_end(query);
    for (size_t i = 0; i < count; i++)
        fields[i].value = NULL;
    for (const char *at = query.data; at < end;) {
        const char *mark = memchr(at, '&', (size_t)(end - at));
        const char *stop = mark ? mark : end;
        int status =
            at == stop ? LW_OK : read_part(lw__slice_between(at, stop), fields, count, &left, err);
        if (status < 0)
            return status;
        at = stop + (mark != NULL);
    }
    return LW_OK;
}
