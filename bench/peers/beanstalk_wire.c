#include "beanstalk_wire.h"

#include "server/refuse.h"

#include <stdlib.h>

#define TIME_TO_RUN_S 60
#define LINE_MAX_SIZE 256

static int prepare(struct lw__load *load) {
    lw__buffer_print(&load->submit, "put 1000 0 %d %zu\r\n", TIME_TO_RUN_S, load->payload.size);
    lw__buffer_put(&load->submit, lw__buffer_slice(&load->payload));
    lw__buffer_put_text(&load->submit, "\r\n");
    return lw__buffer_put_text(&load->claim, "reserve\r\n");
}

static int ask(struct lw__load_lane *lane, struct lw__buffer *out) {
    const struct lw__load *load = lane->conn->load;
    switch (lane->step) {
    case LW__LOAD_SUBMIT: return lw__buffer_put(out, lw__buffer_slice(&load->submit));
    case LW__LOAD_CLAIM: return lw__buffer_put(out, lw__buffer_slice(&load->claim));
    default: break;
    }
    lw__buffer_put_text(out, "delete ");
    lw__buffer_put_uint(out, lane->given[0].id);
    return lw__buffer_put_text(out, "\r\n");
}

static int refuse(const char *line, lw_error *err) {
    return lw__refuse(err, LW_ESYSTEM, "beanstalkd replied %s", line);
}

/* RESERVED <id> <bytes>, and then the bytes. */
static int read_job(struct lw__load_lane *lane, const char *line, size_t size, size_t *used,
                    lw_error *err) {
    char *end;
    if (strncmp(line, "RESERVED ", 9) != 0)
        return refuse(line, err);
    uint64_t id = strtoull(line + 9, &end, 10);
    size_t whole = *used + strtoull(end, NULL, 10) + 2;
    if (whole > size) {
        *used = 0;
        return LW_PENDING;
    }
    *used = whole;
    lane->given[0] = (struct lw__load_given){.id = id};
    lane->count = 1;
    return LW_OK;
}

static int read_reply(struct lw__load_lane *lane, const char *data, size_t size, size_t *used,
                      lw_error *err) {
    char line[LINE_MAX_SIZE];
    const char *end = size > 0 ? memchr(data, '\n', size) : NULL;
    *used = 0;
    if (!end)
        return LW_PENDING;
    size_t length = (size_t)(end - data) + 1;
    if (length < 2 || length >= sizeof line)
        return refuse("a line that is too long", err);
    memcpy(line, data, length - 2);
    line[length - 2] = '\0';
    *used = length;
    switch (lane->step) {
    case LW__LOAD_SUBMIT: return strncmp(line, "INSERTED ", 9) == 0 ? LW_OK : refuse(line, err);
    case LW__LOAD_CLAIM: return read_job(lane, line, size, used, err);
    default: return strcmp(line, "DELETED") == 0 ? LW_OK : refuse(line, err);
    }
}

const struct lw__load_protocol beanstalk_wire = {
    .prepare = prepare, .ask = ask, .read = read_reply};
