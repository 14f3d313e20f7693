/* Tasks as JSON, written. */
#include "server/api/api.h"

#include <stdio.h>

#define KEYS_MAX 512 /* an object with more members is shown as base64 */

static bool is_json(struct lw__slice text) {
    struct lw__json_key keys[KEYS_MAX];
    const struct lw__json_limits limits = {
        .depth_max = LW__SHOWN_DEPTH, .keys = keys, .keys_max = KEYS_MAX};
    struct lw__json value;
    return lw__json_read(text, &limits, &value, NULL) == LW_OK && value.raw.size == text.size;
}

void lw__show_base64(struct lw__json_writer *json, const char *name, lw_bytes bytes) {
    if (!bytes.data)
        return;
    lw__json_key(json, name);
    lw__json_put_base64(json, (struct lw__slice){bytes.data, bytes.size});
}

void lw__show_bytes(struct lw__json_writer *json, const char *name, lw_bytes bytes) {
    struct lw__slice slice = {bytes.data, bytes.size};
    char longer[64];
    if (!bytes.data)
        return;
    if (is_json(slice)) {
        lw__json_key(json, name);
        lw__json_put_raw(json, slice);
        return;
    }
    snprintf(longer, sizeof longer, "%s_base64", name);
    lw__json_key(json, longer);
    lw__json_put_base64(json, slice);
}

static void put_text(struct lw__json_writer *json, const char *name, const char *text) {
    lw__json_key(json, name);
    lw__json_put_text(json, text);
}

static void put_uint(struct lw__json_writer *json, const char *name, uint64_t number) {
    lw__json_key(json, name);
    lw__json_put_uint(json, number);
}

/* 0: has not happened. */
static void put_time(struct lw__json_writer *json, const char *name, int64_t ms) {
    if (ms == 0)
        return;
    lw__json_key(json, name);
    lw__json_put_int(json, ms);
}

static void put_flag(struct lw__json_writer *json, const char *name, bool is_set) {
    if (!is_set)
        return;
    lw__json_key(json, name);
    lw__json_put_bool(json, true);
}

static void put_progress(struct lw__json_writer *json, const lw_progress_info *progress) {
    if (progress->done == 0 && progress->total == 0 && !progress->text[0])
        return;
    lw__json_key(json, "progress");
    lw__json_object(json);
    put_uint(json, "done", progress->done);
    put_uint(json, "total", progress->total);
    if (progress->text[0])
        put_text(json, "text", progress->text);
    lw__json_close(json);
}

static void put_errors(struct lw__json_writer *json, const lw_snapshot *task) {
    lw__json_key(json, "errors");
    lw__json_array(json);
    for (unsigned i = 0; i < task->error_count; i++) {
        const lw_attempt_error *error = &task->errors[i];
        lw__json_object(json);
        put_time(json, "at_ms", error->at_ms);
        put_uint(json, "attempt", error->attempt);
        if (error->fault)
            put_text(json, "fault", lw_fault_name(error->fault));
        put_text(json, "text", error->text);
        lw__json_close(json);
    }
    lw__json_close(json);
    if (task->errors_dropped)
        put_uint(json, "errors_dropped", task->errors_dropped);
}

static void put_head(struct lw__json_writer *json, const lw_snapshot *task) {
    put_uint(json, "id", task->id);
    put_text(json, "state", lw_state_name(task->state));
    put_text(json, "kind", task->kind);
    put_text(json, "queue", task->queue);
    if (task->key)
        put_text(json, "key", task->key);
    put_uint(json, "priority", task->priority);
    put_uint(json, "attempts", task->attempts);
    if (task->crashes)
        put_uint(json, "crashes", task->crashes);
    if (task->snoozes)
        put_uint(json, "snoozes", task->snoozes);
    put_time(json, "created_ms", task->created_ms);
    put_time(json, "enqueued_ms", task->enqueued_ms);
    put_time(json, "started_ms", task->started_ms);
    put_time(json, "ended_ms", task->ended_ms);
    put_time(json, "due_ms", task->state == LW_SCHEDULED ? task->due_ms : 0);
    if (task->holder) {
        put_text(json, "worker", task->holder);
        put_time(json, "lease_until_ms", task->lease_until_ms);
    }
    put_flag(json, "is_stuck", task->is_stuck);
    put_flag(json, "is_cancelling", task->is_cancelling);
    put_progress(json, &task->progress);
    if (task->last_error[0])
        put_text(json, "last_error", task->last_error);
}

void lw__show_task(struct lw__json_writer *json, const lw_snapshot *task, enum lw__show how) {
    lw__json_object(json);
    put_head(json, task);
    if (how == LW__SHOW_ALL) {
        lw__show_bytes(json, "payload", task->payload);
        lw__show_bytes(json, "partial", task->partial);
        lw__show_bytes(json, "result", task->result);
        lw__show_base64(json, "checkpoint_base64", task->checkpoint);
        put_errors(json, task);
    } else {
        put_uint(json, "payload_size", task->payload.size);
    }
    lw__json_close(json);
}
