/* Commands as handlers of an engine: KIND=COMMAND. */
#include "exec/exec.h"
#include "server/refuse.h"

#include <string.h>

#define STUCK_MS 30000 /* after it was killed: then even the kernel cannot end it */

/* ---- settings ------------------------------------------------------------------------------ */

static bool is_name(struct lw__slice name) {
    static const char others[] = "._-/:";
    for (size_t i = 0; i < name.size; i++) {
        char c = name.data[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')
              || (c && strchr(others, c))))
            return false;
    }
    return name.size > 0 && name.size <= LW_NAME_MAX;
}

static int refuse_twice(const struct lw__exec_kinds *kinds, struct lw__slice name, lw_error *err) {
    for (size_t i = 0; i < kinds->count; i++)
        if (lw__slice_is(name, kinds->all[i].name))
            return lw__refuse(err, LW_EINVAL,
                              "exec: the kind %s has two commands: a kind has one, which may be a "
                              "script",
                              kinds->all[i].name);
    return LW_OK;
}

static int read_kind(struct lw__exec_kinds *kinds, const char *text, lw_error *err) {
    const char *mark = strchr(text, '=');
    struct lw__slice name = lw__slice_between(text, mark ? mark : text);
    if (!mark || mark[1 + strspn(mark + 1, " \t")] == '\0')
        return lw__refuse(err, LW_EINVAL, "exec: \"%s\" is not written as KIND=COMMAND",
                          lw__slice_show(lw__slice_of(text)).text);
    if (!is_name(name))
        return lw__refuse(
            err, LW_EINVAL,
            "exec: \"%s\" is no name of a kind: 1 to %d letters, digits and . _ - / :",
            lw__slice_show(name).text, LW_NAME_MAX);
    int rc = refuse_twice(kinds, name, err);
    if (rc < 0)
        return rc;
    struct lw__exec_kind *kind = &kinds->all[kinds->count];
    *kind =
        (struct lw__exec_kind){.argv = {"/bin/sh", "-c", mark + 1, NULL}, .command = kinds->count};
    memcpy(kind->name, name.data, name.size);
    kinds->commands[kinds->count++] = kind->argv;
    return LW_OK;
}

int lw__exec_kinds_read(struct lw__exec_kinds *kinds, const struct lw__config_list *list,
                        lw_error *err) {
    int rc = LW_OK;
    kinds->count = 0;
    for (size_t i = 0; i < list->count && rc == LW_OK; i++)
        rc = read_kind(kinds, list->items[i], err);
    return rc;
}

/* ---- the handler --------------------------------------------------------------------------- */

static lw_outcome settle(lw_ctx *ctx, const struct lw__exec_end *end,
                         const struct lw__exec_verdict *verdict) {
    switch (verdict->outcome) {
    case LW_OUTCOME_DONE:
        return end->output.size > 0
                   ? lw_done_with(ctx, (lw_bytes){end->output.data, end->output.size})
                   : lw_done(ctx);
    case LW_OUTCOME_FAIL: return lw_fail(ctx, "%s", verdict->text);
    default: return lw_retry(ctx, "%s", verdict->text);
    }
}

/* Others may let other bytes travel with a task. */
static struct lw__slice trace_of(lw_ctx *ctx) {
    size_t size = 0;
    const char *value = lw_ctx_value(ctx, &size);
    bool is_trace = size == LW__EXEC_TRACE_SIZE && !memchr(value, '\0', size);
    return (struct lw__slice){value, is_trace ? size : 0};
}

static lw_outcome run_command(lw_ctx *ctx, const lw_task *task) {
    const struct lw__exec_kind *kind = lw_ctx_user(ctx);
    struct lw__exec_job job = {.command = kind->command,
                               .id = task->id,
                               .attempt = task->attempt,
                               .kind = task->kind,
                               .queue = task->queue,
                               .key = task->key,
                               .traceparent = trace_of(ctx),
                               .payload = task->payload};
    struct lw__exec_end end;
    lw__exec_run(kind->exec, &job, ctx, &end);
    struct lw__exec_verdict verdict = lw__exec_judge(&end, task->attempt, &kind->exec->options);
    lw_outcome outcome = settle(ctx, &end, &verdict);
    lw__exec_end_clear(&end);
    return outcome;
}

int lw__exec_kinds_handle(struct lw__exec_kinds *kinds, const struct lw__exec *exec,
                          lw_engine *engine, int64_t workers, int64_t timeout_ms) {
    int rc = LW_OK;
    for (size_t i = 0; i < kinds->count && rc == LW_OK; i++) {
        struct lw__exec_kind *kind = &kinds->all[i];
        kind->exec = exec;
        rc = lw_handle(engine, kind->name, run_command,
                       LW_HANDLER_OPTIONS(.concurrency = (int)workers, .timeout_ms = timeout_ms,
                                          .stuck_ms = exec->options.grace_ms + STUCK_MS,
                                          .user = kind),
                       NULL);
    }
    return rc;
}
