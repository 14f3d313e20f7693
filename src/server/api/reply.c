/* Answers: JSON, texts, refusals. */
#include "server/api/api.h"

#include <stdarg.h>
#include <stdio.h>

struct lw__json_writer *lw__reply_json(struct lw__exchange *x, int code) {
    lw__buffer_cut(&x->reply.body, 0);
    x->reply.type = NULL;
    x->reply.code = code;
    lw__json_write(&x->json, &x->reply.body);
    return &x->json;
}

void lw__reply_text(struct lw__exchange *x, int code, const char *text) {
    lw__buffer_cut(&x->reply.body, 0);
    x->reply.code = code;
    x->reply.type = "text/plain; charset=utf-8";
    lw__buffer_put_text(&x->reply.body, text);
}

static void write_error(struct lw__exchange *x, int code, const char *sentence, const char *status,
                        const char *word) {
    struct lw__json_writer *json = lw__reply_json(x, code);
    lw__json_object(json);
    lw__json_key(json, "error");
    lw__json_put_text(json, sentence);
    if (status) {
        lw__json_key(json, "status");
        lw__json_put_text(json, status);
    }
    if (word) {
        lw__json_key(json, "code");
        lw__json_put_text(json, word);
    }
    lw__json_close(json);
    if (code == 503)
        x->reply.retry_after_s = 1;
}

void lw__reply_error(struct lw__exchange *x, int code, const char *format, ...) {
    char sentence[LW_ERROR_MESSAGE_MAX + 64];
    va_list args;
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    write_error(x, code, sentence, NULL, NULL);
}

void lw__reply_empty(struct lw__exchange *x, int code) {
    lw__buffer_cut(&x->reply.body, 0);
    x->reply.code = code;
}

static int code_of(int status) {
    switch (status) {
    case LW_EINVAL: return 400;
    case LW_ENOTFOUND: return 404;
    case LW_ELEASE:
    case LW_ECHANGED:
    case LW_PENDING:
    case LW_EXISTS: return 409;
    case LW_EFULL:
    case LW_ESTOPPING:
    case LW_ETIMEDOUT:
    case LW_ENOMEM:
    case LW_EUNSURE:
    case LW_ESYSTEM:
    case LW_EBUSY: return 503;
    default: return 500;
    }
}

static bool is_of_store(int status) {
    return status == LW_EUNSURE || status == LW_ESYSTEM || status == LW_EBUSY
           || status == LW_ECORRUPT;
}

/* Says why: a sentence that is whole, or `said` and the reason. A commit that failed hands on its
 * status only: the reason is what the store has said last, even if it has recovered since. */
static void write_trouble(struct lw__exchange *x, int status, const char *said, bool is_whole) {
    char sentence[2 * LW_ERROR_MESSAGE_MAX + sizeof ": "];
    lw_store_health health = {.status = LW_OK};
    if (is_of_store(status))
        lw_get_store_health(x->server->engine, &health);
    if (is_whole || health.last.status >= 0)
        snprintf(sentence, sizeof sentence, "%s", said);
    else if (status == LW_EUNSURE)
        snprintf(sentence, sizeof sentence, "%s: %s", said, health.last.message);
    else
        snprintf(sentence, sizeof sentence, "%s", health.last.message);
    write_error(x, health.status < 0 ? 503 : code_of(status), sentence, lw_status_name(status),
                health.code);
}

void lw__reply_status(struct lw__exchange *x, int status, const lw_error *err) {
    bool is_explained = err && err->status == status;
    write_trouble(x, status, is_explained ? err->message : lw_status_text(status), is_explained);
}

void lw__reply_unwritten(struct lw__exchange *x, const char *done) {
    write_trouble(x, LW_EUNSURE, done, false);
}

static void check_reply(struct lw__exchange *x) {
    int status = x->reply.body.status;
    if (status >= 0)
        return;
    lw__reply_error(x, status == LW_EFULL ? 500 : 503,
                    status == LW_EFULL ? "the answer is too large: ask for less" : "out of memory");
}

void lw__exchange_reply(struct lw__exchange *x) {
    check_reply(x);
    x->is_ready = true;
    if (x->peer) {
        lw__peer_ready(x->peer);
        return;
    }
    if (x->lost)
        x->lost(x->server, x->state);
    lw__exchange_free(x);
}
