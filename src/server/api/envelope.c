/* Tasks as JSON, read.
 *
 *     {"kind": "send-email", "queue": "mail", "key": "order-17", "priority": 10, "delay": "5s",
 *      "payload": {"to": "ann@example.org"}}
 *
 * A payload is bytes. Given as `payload` it is the JSON that stands there, byte for byte; given as
 * `payload_base64` it is anything. */
#include "server/api/api.h"
#include "server/base64.h"
#include "server/memory.h"
#include "server/nearest.h"
#include "server/refuse.h"
#include "server/units.h"

#include <assert.h>
#include <stdio.h>

#define KEY_SIZE_MIN 4 /* bytes of a member of which another one begins: "":{ */

int lw__word_read(const char *what, const char *text, const char *const *words, int *index,
                  lw_error *err) {
    struct lw__nearest nearest;
    for (*index = 0; words[*index]; ++*index)
        if (strcmp(words[*index], text) == 0)
            return LW_OK;
    lw__nearest_init(&nearest, lw__slice_of(text));
    for (size_t i = 0; words[i]; i++)
        lw__nearest_offer(&nearest, words[i]);
    return lw__refuse(err, LW_EINVAL, "%s is %s, which is not known: did you mean %s?", what,
                      lw__slice_show(lw__slice_of(text)).text,
                      nearest.name ? nearest.name : words[0]);
}

/* ---- documents ----------------------------------------------------------------------------- */

int lw__document_read(struct lw__exchange *x, struct lw__json *value, lw_error *err) {
    const struct lw__serve_config *config = x->server->config;
    struct lw__json_error why;
    size_t keys_max = (size_t)config->json_keys_max, most = x->body.size / KEY_SIZE_MIN + 1;
    keys_max = keys_max < most ? keys_max : most;
    struct lw__json_key *keys = /* without zeros, which nobody reads */
        lw__server_memory.resize(NULL, NULL, 0, keys_max * sizeof *keys);
    if (!keys)
        return lw__refuse(err, LW_ENOMEM, "out of memory");
    const struct lw__json_limits limits = {
        .depth_max = (size_t)config->json_depth_max, .keys = keys, .keys_max = keys_max};
    int rc = lw__json_read(lw__buffer_slice(&x->body), &limits, value, &why);
    lw__server_free(keys);
    return rc < 0 ? lw__refuse(err, rc, "the body is no JSON: %s", why.sentence) : LW_OK;
}

struct lw__json *lw__array_read(struct lw__exchange *x, struct lw__json array, size_t max,
                                size_t *count) {
    struct lw__json_walk walk = lw__json_enter(array);
    struct lw__json key, part;
    bool is_array = lw__json_type(array) == LW__JSON_ARRAY;
    struct lw__json *parts = lw__exchange_keep(x, max * sizeof *parts);
    *count = 0;
    while (parts && is_array && lw__json_next(&walk, &key, &part)) {
        if (*count < max)
            parts[*count] = part;
        ++*count;
    }
    return parts;
}

/* ---- members ------------------------------------------------------------------------------- */

static int refuse_member(struct lw__json key, const char *const *names, lw_error *err) {
    struct lw__nearest nearest;
    struct lw__slice name = {key.raw.data + 1, key.raw.size - 2};
    lw__nearest_init(&nearest, name);
    for (; *names; names++)
        lw__nearest_offer(&nearest, *names);
    return lw__refuse(err, LW_EINVAL, "member %s is not known%s%s%s", lw__slice_show(name).text,
                      nearest.name ? ": did you mean " : "", nearest.name ? nearest.name : "",
                      nearest.name ? "?" : "");
}

int lw__members_read(struct lw__json value, const char *const *names, struct lw__members *members,
                     lw_error *err) {
    struct lw__json_walk walk = lw__json_enter(value);
    struct lw__json key, part;
    *members = (struct lw__members){.names = names};
    if (lw__json_type(value) != LW__JSON_OBJECT)
        return lw__refuse(err, LW_EINVAL, "this must be an object, and is %s",
                          lw__json_type_name(lw__json_type(value)));
    while (lw__json_next(&walk, &key, &part)) {
        size_t i = 0;
        while (names[i] && !lw__json_is(key, names[i]))
            i++;
        assert(i < LW__MEMBERS_MAX);
        if (!names[i])
            return refuse_member(key, names, err);
        members->parts[i] = part;
    }
    return LW_OK;
}

/* Looks at those that are there, which are few. */
bool lw__member_find(const struct lw__members *members, const char *name, struct lw__json *part) {
    for (size_t i = 0; members->names[i]; i++)
        if (members->parts[i].raw.data && strcmp(members->names[i], name) == 0) {
            *part = members->parts[i];
            return true;
        }
    *part = (struct lw__json){{NULL, 0}};
    return false;
}

static int refuse_type(const char *name, struct lw__json part, const char *wanted, lw_error *err) {
    return lw__refuse(err, LW_EINVAL, "%s must be %s, and is %s", name, wanted,
                      lw__json_type_name(lw__json_type(part)));
}

/* A string, with a zero behind it, and with how many bytes; it may have zeros inside. */
static int unescape(struct lw__exchange *x, const char *name, struct lw__json part, char **text,
                    size_t *size, lw_error *err) {
    if (lw__json_type(part) != LW__JSON_STRING)
        return refuse_type(name, part, "a string", err);
    *text = lw__exchange_keep(x, part.raw.size);
    if (!*text)
        return lw__refuse(err, LW_ENOMEM, "out of memory");
    return lw__json_unescape(part, *text, part.raw.size, size);
}

int lw__member_text(struct lw__exchange *x, const struct lw__members *members, const char *name,
                    const char **text, lw_error *err) {
    struct lw__json part;
    char *copy;
    size_t size;
    *text = NULL;
    if (!lw__member_find(members, name, &part))
        return LW_OK;
    int rc = unescape(x, name, part, &copy, &size, err);
    if (rc == LW_OK && strlen(copy) != size)
        return lw__refuse(err, LW_EINVAL, "%s has a zero in it", name);
    *text = rc == LW_OK ? copy : NULL;
    return rc;
}

static int decode(struct lw__exchange *x, const char *name, struct lw__json part, lw_bytes *bytes,
                  lw_error *err) {
    char *text;
    size_t size;
    lw_error why;
    struct lw__buffer out;
    int rc = unescape(x, name, part, &text, &size, err);
    if (rc < 0)
        return rc;
    char *memory = lw__exchange_keep(x, size + 1);
    if (!memory)
        return lw__refuse(err, LW_ENOMEM, "out of memory");
    lw__buffer_init_fixed(&out, memory, size + 1);
    if (lw__base64_read(&out, (struct lw__slice){text, size}, &why) < 0)
        return lw__refuse(err, LW_EINVAL, "%s: %s", name, why.message);
    *bytes = (lw_bytes){memory, out.size};
    return LW_OK;
}

static bool find_base64(const struct lw__members *members, const char *name, struct lw__json *part,
                        const char **longer) {
    size_t size = strlen(name);
    for (size_t i = 0; members->names[i]; i++) {
        *longer = members->names[i];
        *part = members->parts[i];
        if (part->raw.data && strncmp(*longer, name, size) == 0
            && strcmp(*longer + size, "_base64") == 0)
            return true;
    }
    return false;
}

int lw__member_bytes(struct lw__exchange *x, const struct lw__members *members, const char *name,
                     lw_bytes *bytes, lw_error *err) {
    const char *longer;
    struct lw__json raw, base64;
    bool has_raw = lw__member_find(members, name, &raw);
    bool has_base64 = find_base64(members, name, &base64, &longer);
    *bytes = (lw_bytes){NULL, 0};
    if (has_raw && has_base64)
        return lw__refuse(err, LW_EINVAL, "give %s or %s, not both", name, longer);
    if (has_raw)
        *bytes = (lw_bytes){raw.raw.data, raw.raw.size};
    return has_base64 ? decode(x, longer, base64, bytes, err) : LW_OK;
}

/* ---- a task -------------------------------------------------------------------------------- */

static int member_duration(struct lw__exchange *x, const struct lw__members *members,
                           const char *name, int64_t *ms, lw_error *err) {
    const char *text;
    lw_error why;
    int rc = lw__member_text(x, members, name, &text, err);
    if (rc < 0 || !text)
        return rc;
    if (lw__duration_read(lw__slice_of(text), ms, &why) < 0)
        return lw__refuse(err, LW_EINVAL, "%s: %s", name, why.message);
    return LW_OK;
}

static int member_number(const struct lw__members *members, const char *name, int64_t max,
                         int64_t *number, lw_error *err) {
    struct lw__json part;
    lw_error why;
    int64_t found;
    if (!lw__member_find(members, name, &part))
        return LW_OK;
    if (lw__json_int(part, &found, &why) < 0)
        return lw__refuse(err, LW_EINVAL, "%s: %s", name, why.message);
    if (found < 0 || found > max)
        return lw__refuse(err, LW_EINVAL, "%s is %lld, and must be from 0 to %lld", name,
                          (long long)found, (long long)max);
    *number = found;
    return LW_OK;
}

static int member_after(struct lw__exchange *x, const struct lw__members *members, lw_task *task,
                        lw_error *err) {
    struct lw__json array, key, part;
    if (!lw__member_find(members, "after", &array))
        return LW_OK;
    lw_id *ids = lw__exchange_keep(x, LW_AFTER_MAX * sizeof *ids);
    if (!ids)
        return lw__refuse(err, LW_ENOMEM, "out of memory");
    task->after = ids;
    struct lw__json_walk walk = lw__json_enter(array);
    bool is_fine = lw__json_type(array) == LW__JSON_ARRAY;
    while (is_fine && lw__json_next(&walk, &key, &part)) {
        uint64_t id = 0;
        is_fine = task->after_count < LW_AFTER_MAX && lw__json_uint(part, &id, NULL) == LW_OK;
        if (is_fine)
            ids[task->after_count++] = id;
    }
    return is_fine
               ? LW_OK
               : lw__refuse(err, LW_EINVAL, "after must be an array of up to %d ids", LW_AFTER_MAX);
}

static int read_names(struct lw__exchange *x, const struct lw__members *members, lw_task *task,
                      lw_error *err) {
    int rc = lw__member_text(x, members, "kind", &task->kind, err);
    if (rc == LW_OK)
        rc = lw__member_text(x, members, "queue", &task->queue, err);
    if (rc == LW_OK)
        rc = lw__member_text(x, members, "key", &task->key, err);
    if (rc == LW_OK && (!task->kind || !task->kind[0]))
        return lw__refuse(err, LW_EINVAL, "a task needs a kind");
    return rc;
}

static int read_times(struct lw__exchange *x, const struct lw__members *members, lw_task *task,
                      lw_error *err) {
    int rc = member_duration(x, members, "delay", &task->delay_ms, err);
    if (rc == LW_OK)
        rc = member_number(members, "run_at_ms", INT64_C(1) << 53, &task->run_at_ms, err);
    if (rc == LW_OK)
        rc = member_duration(x, members, "start_by", &task->start_by_ms, err);
    if (rc == LW_OK)
        rc = member_duration(x, members, "finish_by", &task->finish_by_ms, err);
    return rc;
}

static int read_rest(struct lw__exchange *x, const struct lw__members *members, lw_task *task,
                     lw_error *err) {
    int64_t priority = 1000;
    int rc = member_number(members, "priority", UINT32_MAX, &priority, err);
    task->priority = priority == 0 ? LW_ZERO : priority;
    return rc < 0 ? rc : member_after(x, members, task, err);
}

int lw__envelope_read(struct lw__exchange *x, struct lw__json value, lw_task *task, lw_error *err) {
    static const char *const names[] = {"kind",           "queue",     "key",   "payload",
                                        "payload_base64", "priority",  "delay", "run_at_ms",
                                        "start_by",       "finish_by", "after", NULL};
    struct lw__members members;
    *task = (lw_task){.struct_size = sizeof *task};
    int rc = lw__members_read(value, names, &members, err);
    if (rc == LW_OK)
        rc = read_names(x, &members, task, err);
    if (rc == LW_OK)
        rc = lw__member_bytes(x, &members, "payload", &task->payload, err);
    if (rc == LW_OK)
        rc = read_times(x, &members, task, err);
    if (rc == LW_OK)
        rc = read_rest(x, &members, task, err);
    return rc;
}
