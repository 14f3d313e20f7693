/* flows.c: see flows.h. */
#include "flows.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *const step_names[FLOW_STEPS] = {"save", "files", "db", "boot", "wipe"};

/* ---- the flow ----------------------------------------------------------------------------- */

static lw_outcome run_step(lw_ctx *ctx, const lw_task *task) {
    struct flow_rig *rig = lw_ctx_user(ctx);
    int step = 0;
    while (strcmp(strchr(task->kind, '.') + 1, step_names[step]) != 0)
        step++;
    rig->runs[step]++;
    rig->generations[step] = lw_flow_generation(ctx);
    rig->is_unclean[step] = lw_flow_is_unclean(ctx);
    return rig->scripts[step] ? rig->scripts[step](rig, ctx, task) : lw_done(ctx);
}

static void note_event(void *user, const lw_flow_event *event) {
    struct flow_rig *rig = user;
    int at = rig->event_count++;
    assert_string_equal(event->flow, "site");
    if (at >= EVENTS_MAX)
        return;
    rig->events[at].type = event->type;
    rig->events[at].generation = event->generation;
    snprintf(rig->events[at].id, sizeof rig->events[at].id, "%s", event->id);
    snprintf(rig->events[at].state, sizeof rig->events[at].state, "%s", event->state);
    snprintf(rig->events[at].step, sizeof rig->events[at].step, "%s", event->step);
    snprintf(rig->events[at].flag, sizeof rig->events[at].flag, "%s", event->flag);
    snprintf(rig->events[at].text, sizeof rig->events[at].text, "%s", event->text);
}

static const lw_step steps[] = {
    {.name = "save", .run = run_step, .state = "creating", .sets = "metadata"},
    {.name = "files", .run = run_step, .state = "creating", .needs = {"metadata"}},
    {.name = "db", .run = run_step, .state = "creating", .needs = {"metadata"}},
    {.name = "boot", .run = run_step, .state = "creating", .needs = {"db"}, .sets = "booted"},
    {.name = "wipe", .run = run_step, .state = "deleting", .sets = "gone"},
};

int register_site(lw_engine *engine, struct flow_rig *rig, lw_error *err) {
    return lw_flow_register(engine,
                            LW_FLOW(.name = "site", .steps = LW_STEPS(steps),
                                    .states = {{"creating", .goal = "running"},
                                               {"deleting", .goal = "deleted", .end = true},
                                               {.name = "suspended"}},
                                    .on_event = note_event, .user = rig),
                            err);
}

/* ---- the rig ------------------------------------------------------------------------------ */

static int open_rig_engine(struct flow_rig *rig) {
    lw_error err = {0};
    int rc = lw_open(
        &rig->engine, rig->url,
        LW_ENGINE_OPTIONS(.workers = LW_ZERO, .clock = rig->clock, .seed = 1,
                          .allocator = rig->memory ? lw_test_memory_allocator(rig->memory) : NULL),
        &err);
    if (rc == LW_OK)
        rc = register_site(rig->engine, rig, &err);
    if (rc == LW_OK)
        rc = lw_start(rig->engine, &err);
    if (rc < 0 && rig->engine)
        lw_close(rig->engine);
    if (rc < 0 && rc != LW_ENOMEM)
        fprintf(stderr, "%s\n", err.message);
    return rc;
}

int try_open_flow_rig(struct flow_rig *rig, const char *url, lw_test_memory *memory) {
    static unsigned number;
    const char *mark = strstr(url, "%u"); /* a number of its own for each one that is opened */
    memset(rig, 0, sizeof *rig);
    snprintf(rig->url, sizeof rig->url, "%s", url);
    if (mark)
        snprintf(rig->url, sizeof rig->url, "%.*s%u%s", (int)(mark - url), url, ++number, mark + 2);
    rig->memory = memory;
    rig->clock = open_clock();
    int rc = open_rig_engine(rig);
    if (rc < 0)
        lw_test_clock_close(rig->clock);
    return rc;
}

void close_flow_rig(struct flow_rig *rig) {
    assert_status(lw_close(rig->engine), LW_OK);
    lw_test_clock_close(rig->clock);
}

bool is_flow_durable(const struct flow_rig *rig) {
    return strncmp(rig->url, "memory:", 7) != 0;
}

void reopen_flow_rig(struct flow_rig *rig) {
    assert_status(lw_close(rig->engine), LW_OK);
    assert_status(open_rig_engine(rig), LW_OK);
}

static const char *current_url;

static void tell_url(int signal_number) {
    fprintf(stderr, "on the store %s\n", current_url);
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

void each_flow_store(void (*body)(struct flow_rig *rig)) {
    const char *urls[STORES_MAX];
    size_t count = list_stores(urls);
    signal(SIGABRT, tell_url);
    for (size_t i = 0; i < count; i++) {
        struct flow_rig *rig = malloc(sizeof *rig);
        lw_test_memory *memory = open_memory();
        current_url = urls[i];
        CHECK(rig != NULL);
        assert_status(try_open_flow_rig(rig, urls[i], memory), LW_OK);
        body(rig);
        close_flow_rig(rig);
        close_memory(memory);
        free(rig);
    }
    signal(SIGABRT, SIG_DFL);
}

/* ---- acting ------------------------------------------------------------------------------- */

int run(struct flow_rig *rig) {
    int count = lw_test_run(rig->engine);
    CHECK(count >= 0);
    return count;
}

int advance_flow(struct flow_rig *rig, int64_t ms) {
    int count = lw_test_advance(rig->engine, ms);
    CHECK(count >= 0);
    return count;
}

void start_flow(struct flow_rig *rig, const char *id) {
    lw_error err = {0};
    assert_status(lw_flow_start(rig->engine, "site", id, LW_TEXT("body"), &err), LW_OK);
}

int move(struct flow_rig *rig, const char *id, const char *state) {
    lw_error err = {0};
    int rc = lw_flow_move(rig->engine, "site", id, state, &err);
    assert_int_equal(err.status, rc < 0 ? rc : 0);
    CHECK(rc >= 0 || err.message[0]);
    return rc;
}

/* ---- looking ------------------------------------------------------------------------------ */

lw_flow_status status_of(struct flow_rig *rig, const char *id) {
    lw_flow_status status;
    assert_status(lw_flow_get(rig->engine, "site", id, &status), LW_OK);
    return status;
}

bool is_gone(struct flow_rig *rig, const char *id) {
    lw_flow_status status;
    int rc = lw_flow_get(rig->engine, "site", id, &status);
    if (rc != LW_ENOTFOUND)
        assert_status(rc, LW_OK);
    return rc == LW_ENOTFOUND;
}

lw_flow_condition condition_of(struct flow_rig *rig, const char *id) {
    return status_of(rig, id).condition;
}

lw_flow_step step_of(struct flow_rig *rig, const char *id, enum flow_step step) {
    lw_flow_status status = status_of(rig, id);
    for (unsigned i = 0; i < status.step_count; i++) {
        if (strcmp(status.steps[i].name, step_names[step]) == 0)
            return status.steps[i];
    }
    return (lw_flow_step){.name = ""};
}

void assert_flow_at(struct flow_rig *rig, const char *id, const char *state,
                    lw_flow_condition condition, const char *file, int line) {
    lw_flow_status status = status_of(rig, id);
    bool is_so = strcmp(status.state, state) == 0 && status.condition == condition;
    if (is_so)
        return;
    fprintf(stderr, "%s:%d: %s is %s (%s), should be %s (%s)\n", file, line, id, status.state,
            lw_flow_condition_name(status.condition), state, lw_flow_condition_name(condition));
    abort();
}

int count_events(const struct flow_rig *rig, lw_flow_event_type type) {
    int count = 0;
    for (int i = 0; i < rig->event_count && i < EVENTS_MAX; i++)
        count += rig->events[i].type == type;
    return count;
}

/* ---- scripts ------------------------------------------------------------------------------ */

lw_outcome script_retry(struct flow_rig *rig, lw_ctx *ctx, const lw_task *task) {
    (void)rig;
    return lw_retry(ctx, "no %u", task->attempt);
}

lw_outcome script_fail(struct flow_rig *rig, lw_ctx *ctx, const lw_task *task) {
    (void)rig;
    (void)task;
    return lw_fail(ctx, "never");
}

lw_outcome script_abort(struct flow_rig *rig, lw_ctx *ctx, const lw_task *task) {
    (void)rig;
    (void)task;
    return lw_abort(ctx, "stop it");
}

lw_outcome script_skip(struct flow_rig *rig, lw_ctx *ctx, const lw_task *task) {
    (void)rig;
    (void)task;
    return lw_flow_skip(ctx);
}

/* It is asked to give up then, and its own outcome does not count. */
lw_outcome script_delete(struct flow_rig *rig, lw_ctx *ctx, const lw_task *task) {
    assert_status(move(rig, task->key, "deleting"), LW_PENDING);
    CHECK(lw_ctx_done(ctx));
    assert_int_equal(lw_ctx_reason(ctx), LW_REASON_CANCELLED);
    return lw_done(ctx);
}
