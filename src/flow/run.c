/* Attempts of steps: what their handlers are given, and what follows from their outcomes in the
 * transaction that settles them. */
#include "flow/flow_internal.h"

#include "store/scope.h"

#define NOTE_SKIPPED 1u /* lw__layer_note */

/* What has happened, from amend to settled. */
enum { MEMO_FLAG = 1, MEMO_GOAL = 2, MEMO_HALTED = 4, MEMO_ABORTED = 8 };

/* ---- running ------------------------------------------------------------------------------ */

static bool is_over(const struct lw__step *step, const struct lw__record *record) {
    const struct lw__record_flag *flag = lw__record_find(record, step->flag);
    return record->is_aborted || record->is_at_goal || (flag && flag->done_ms > 0);
}

lw_outcome lw__step_open(lw_ctx *ctx, const lw_task *task, struct lw__step_frame *frame) {
    const struct lw__step *step = lw__layer_user(ctx, &lw__flow_layer);
    struct lw__record record;
    bool is_done = false;
    frame->copy =
        (struct lw__scope_copy){.bytes = frame->bytes, .capacity = sizeof frame->bytes - 1};
    if (lw__layer_look(ctx, &frame->copy, &is_done) < 0)
        return lw_retry(ctx, "its flow has moved on"); /* and so does not matter any more */
    const char *id = lw__flow_id_of(step->flow, frame->copy.name);
    if (!id || lw__record_read(&record, (lw_bytes){frame->bytes, frame->copy.size}) < 0)
        return lw_fail(ctx, "the status of its flow is damaged");
    if (is_done || is_over(step, &record)) /* by its own transaction, or from outside */
        return lw_done(ctx);
    frame->task = *task;
    frame->task.key = id;
    frame->task.payload = record.payload;
    frame->bytes[frame->copy.size] = 0; /* the payload is the last */
    return (lw_outcome)0;
}

lw_outcome lw__step_run(lw_ctx *ctx, const lw_task *task) {
    const struct lw__step *step = lw__layer_user(ctx, &lw__flow_layer);
    struct lw__step_frame frame;
    lw_outcome outcome = lw__step_open(ctx, task, &frame);
    return outcome ? outcome : step->run(ctx, &frame.task);
}

uint64_t lw_flow_generation(lw_ctx *ctx) {
    const struct lw__member *member = lw__layer_member(ctx);
    return member ? member->generation : 0;
}

bool lw_flow_is_unclean(lw_ctx *ctx) {
    const struct lw__member *member = lw__layer_member(ctx);
    return member && member->is_unclean;
}

lw_outcome lw_flow_skip(lw_ctx *ctx) {
    lw__layer_note(ctx, NOTE_SKIPPED);
    return lw_done(ctx);
}

/* ---- settling ----------------------------------------------------------------------------- */

static void write(struct lw__settling *settling, const struct lw__record *record,
                  enum lw__scope_action action) {
    settling->has_change = true;
    settling->change.action = action;
    settling->change.has_bytes = true;
    settling->change.bytes = (lw_bytes){settling->bytes, lw__record_write(record, settling->bytes)};
}

/* The attempts of the step's task and its last error, which is on record until there is another. */
static struct lw__record_flag *note_attempts(const struct lw__step *step,
                                             const struct lw__settling *settling,
                                             struct lw__record *record) {
    uint32_t attempts = atomic_load(&settling->task->attempts);
    struct lw__record_flag *flag =
        lw__record_note_task(record, step->flag, attempts, settling->error);
    if (flag && settling->text && settling->text[0])
        lw__record_copy_text(flag->error, settling->text);
    return flag;
}

static int amend_done(const struct lw__step *step, struct lw__settling *settling,
                      struct lw__record *record, int64_t now_ms) {
    const struct lw__flow *flow = step->flow;
    struct lw__record_flag *flag = note_attempts(step, settling, record);
    if (!flag)
        return LW_OK; /* flags of other declarations fill the record */
    flag->is_skipped = settling->bits & NOTE_SKIPPED;
    struct lw__advance advance = lw__steps_advance(step, record, now_ms);
    for (unsigned i = 0; i < flow->step_count; i++) {
        const struct lw__layer_task task = lw__step_task(&flow->steps[i]);
        if (advance.started & LW__STEP_BIT(i) && lw__layer_then(settling, &task) < 0)
            return LW_ENOMEM;
    }
    settling->memo = MEMO_FLAG | (advance.is_goal ? MEMO_GOAL : 0);
    write(settling, record, advance.action);
    return LW_OK;
}

static void amend_failed(const struct lw__step *step, struct lw__settling *settling,
                         struct lw__record *record) {
    struct lw__record_flag *flag = note_attempts(step, settling, record);
    if (!flag)
        return;
    settling->memo = MEMO_HALTED;
    write(settling, record, LW__SCOPE_WRITE);
}

/* The tasks of the other steps end with the flow: what is known of them goes on record. Without
 * memory it does not. */
static void note_others(const struct lw__step *step, const struct lw__settling *settling,
                        struct lw__record *record) {
    const struct lw__flow *flow = step->flow;
    const char *id = lw__flow_id_of(flow, settling->old.name);
    struct lw__sight *sight = lw__sight_open(settling->engine);
    int rc = sight ? lw__sight_take(settling->engine, flow, id, sight) : LW_ENOMEM;
    for (unsigned i = 0; rc == LW_OK && i < flow->step_count; i++) {
        const struct lw__scope_task *task = lw__step_task_in(&flow->steps[i], &sight->copy);
        if (task && &flow->steps[i] != step)
            lw__record_note_task(record, flow->steps[i].flag, task->attempts, task->error);
    }
    if (sight)
        lw__sight_close(settling->engine, sight);
}

/* The flags stay, to be looked at; the generation is a new one, and has no tasks. */
static void amend_aborted(const struct lw__step *step, struct lw__settling *settling,
                          struct lw__record *record, int64_t now_ms) {
    note_attempts(step, settling, record);
    note_others(step, settling, record);
    unsigned flag_count = record->flag_count;
    lw__record_begin(record, record->state, now_ms, settling->old.generation);
    record->flag_count = flag_count;
    record->is_aborted = true;
    lw__record_copy_text(record->reason, settling->text);
    settling->memo = MEMO_ABORTED;
    write(settling, record, LW__SCOPE_MOVE);
}

static int amend(void *user, struct lw__settling *settling) {
    const struct lw__step *step = user;
    const struct lw__flow *flow = step->flow;
    int64_t now_ms = lw__layer_wall_ms(settling->engine, settling->now);
    struct lw__record record;
    lw_bytes bytes = {settling->old_bytes, settling->old.size};
    if (lw__record_read(&record, bytes) < 0 || is_over(step, &record)
        || strcmp(record.state, flow->states[step->state].name) != 0)
        return LW_OK;
    if (settling->verdict == LW__VERDICT_FINISH)
        return amend_done(step, settling, &record, now_ms);
    if (settling->verdict == LW__VERDICT_ABORT && settling->outcome == LW_OUTCOME_ABORT)
        amend_aborted(step, settling, &record, now_ms);
    else
        amend_failed(step, settling, &record);
    return LW_OK;
}

/* Somebody has cancelled the step's task, or it had to make room: the step is halted. */
static size_t aborted(void *user, uint32_t attempts, const char *reason, lw_bytes old,
                      char bytes[LW__SCOPE_BYTES_MAX]) {
    const struct lw__step *step = user;
    struct lw__record record;
    if (lw__record_read(&record, old) < 0 || is_over(step, &record)
        || strcmp(record.state, step->flow->states[step->state].name) != 0
        || !lw__record_note_task(&record, step->flag, attempts, reason))
        return 0;
    return lw__record_write(&record, bytes);
}

/* ---- telling ------------------------------------------------------------------------------ */

void lw__flow_tell(const struct lw__flow *flow, lw_flow_event_type type, const char *id,
                   const char *state, const struct lw__step *step, const char *text,
                   uint64_t generation) {
    if (!flow->on_event)
        return;
    const lw_flow_event event = {.type = type,
                                 .flow = flow->name,
                                 .id = id,
                                 .state = state,
                                 .step = step ? step->name : "",
                                 .flag = step ? step->flag : "",
                                 .text = text ? text : "",
                                 .generation = generation};
    flow->on_event(flow->user, &event);
}

static void settled(void *user, const struct lw__settling *settling) {
    const struct lw__step *step = user;
    const struct lw__flow *flow = step->flow;
    const struct lw__flow_state *state = &flow->states[step->state];
    static const struct {
        uint32_t memo;
        lw_flow_event_type type;
    } events[] = {{MEMO_FLAG, LW_FLOW_EVENT_FLAG},
                  {MEMO_GOAL, LW_FLOW_EVENT_GOAL},
                  {MEMO_HALTED, LW_FLOW_EVENT_HALTED},
                  {MEMO_ABORTED, LW_FLOW_EVENT_ABORTED}};
    for (size_t i = 0; i < sizeof events / sizeof *events; i++) {
        if (settling->memo & events[i].memo)
            lw__flow_tell(flow, events[i].type, lw__flow_id_of(flow, settling->old.name),
                          events[i].type == LW_FLOW_EVENT_GOAL ? state->goal : state->name, step,
                          settling->text, settling->old.generation);
    }
}

const struct lw__layer lw__flow_layer = {.amend = amend, .settled = settled, .aborted = aborted};

/* ---- starting by a task ------------------------------------------------------------------- */

lw_outcome lw__flow_run_start(lw_ctx *ctx, const lw_task *task) {
    const struct lw__flow *flow = lw__layer_user(ctx, NULL);
    lw_error err = {0};
    if (!task->key)
        return lw_fail(ctx, "the id is missing: it is the key of a task of kind \"%s\"",
                       task->kind);
    int rc = lw_flow_start(flow->engine, flow->name, task->key, task->payload, &err);
    if (rc == LW_EINVAL)
        return lw_fail(ctx, "%s", err.message);
    return rc < 0 ? lw_retry(ctx, "%s", err.message) : lw_done(ctx);
}
