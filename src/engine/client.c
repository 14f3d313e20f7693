/* An engine on a store that another process owns: it looks at copies, and asks. */
#include "engine/engine_internal.h"

#include "base/error.h"

#include <string.h>

/* ---- asking ------------------------------------------------------------------------------- */

int lw__client_refuse(const lw_engine *engine, const char *what, lw_error *err) {
    return lw__error_set(err, LW_EINVAL, 0,
                         "%s: this engine was opened as a %s, and tasks are run by the owner of "
                         "the store alone",
                         what, engine->set.role == LW_ROLE_READER ? "reader" : "client");
}

/* How long the caller lets it wait for other connections, in ms; 0: as long as it is used to. */
static uint64_t patience_of(lw_engine *engine, const lw_task *task) {
    bool is_task = task && task->struct_size == sizeof *task; /* or it is refused in a moment */
    uint64_t deadline = is_task ? lw__submit_deadline(engine, task) : LW__NEVER;
    if (deadline == LW__NEVER)
        return 0;
    uint64_t now = lw__engine_now(engine);
    return deadline > now ? (deadline - now) / LW__NS_PER_MS + 1 : 1;
}

int lw__client_submit(lw_engine *engine, const lw_task *const *tasks, size_t count, lw_id *ids,
                      lw_error *err) {
    lw_error own = {0};
    if (!err)
        err = &own;
    if (lw__engine_stop_level(engine) != LW__RUNNING)
        return lw__error_set(err, LW_ESTOPPING, 0, "the engine is stopping and accepts no tasks");
    int rc = lw__engine_remote(engine)->submit(engine->store, tasks, count, ids,
                                               patience_of(engine, tasks[0]), err);
    if (rc < 0)
        atomic_fetch_add(&engine->refused, count);
    return rc;
}

/* What cannot be is told at once; what becomes of the rest, snapshots show. */
int lw__client_change(lw_engine *engine, lw_id id, enum lw__change change, lw_error *err) {
    const struct lw__remote_ops *remote = lw__engine_remote(engine);
    struct lw__task copy;
    int rc = remote->copy(engine->store, &(struct lw__wanted){.from = id, .to = id}, &copy, err);
    if (rc < 0)
        return rc;
    lw_state state = lw__task_state(&copy);
    remote->drop(engine->store, &copy);
    bool has_ended = lw_state_is_terminal(state);
    if (change == LW__CHANGE_CANCEL && has_ended)
        return LW_ENOTFOUND;
    if (change == LW__CHANGE_FORGET && !has_ended)
        return LW_PENDING;
    if (change == LW__CHANGE_RETRY && state == LW_FINISHED)
        return LW_EINVAL;
    rc = remote->ask(engine->store, id, change, err);
    return rc < 0 ? rc : LW_PENDING;
}

/* ---- looking ------------------------------------------------------------------------------ */

/* The snapshot is filled if it is wanted. */
static int look(lw_engine *engine, const struct lw__wanted *wanted, lw_snapshot *snapshot,
                lw_state *state) {
    const struct lw__remote_ops *remote = lw__engine_remote(engine);
    struct lw__task copy;
    bool must_read = false; /* never: a copy has its payload */
    int rc = remote->copy(engine->store, wanted, &copy, NULL);
    if (rc < 0)
        return rc;
    *state = lw__task_state(&copy);
    if (snapshot)
        rc = lw__snapshot_fill(engine, &copy, snapshot, &must_read);
    remote->drop(engine->store, &copy);
    return rc;
}

int lw__client_get(lw_engine *engine, lw_id id, lw_snapshot *snapshot) {
    lw_state state;
    return look(engine, &(struct lw__wanted){.from = id, .to = id}, snapshot, &state);
}

/* Ids of the owner and of the outbox rise each for themselves: the youngest is by time. */
int lw__client_find(lw_engine *engine, const char *kind, const char *key, lw_snapshot *snapshot) {
    const struct lw__remote_ops *remote = lw__engine_remote(engine);
    struct lw__wanted wanted = {.from = 1, .to = UINT64_MAX, .kind = kind, .key = key};
    struct lw__task copy;
    uint64_t youngest_at = 0, youngest = 0;
    int rc;
    while ((rc = remote->copy(engine->store, &wanted, &copy, NULL)) == LW_OK) {
        wanted.from = copy.id + 1;
        if (copy.created_at >= youngest_at) {
            youngest_at = copy.created_at;
            youngest = copy.id;
        }
        remote->drop(engine->store, &copy);
    }
    return rc != LW_ENOTFOUND || youngest == 0 ? rc : lw__client_get(engine, youngest, snapshot);
}

int lw__client_list(lw_engine *engine, const lw_filter *filter, size_t limit,
                    bool (*each)(void *user, const lw_snapshot *task), void *user) {
    struct lw__wanted wanted = {.from = filter->after + 1,
                                .to = UINT64_MAX,
                                .state = filter->state,
                                .is_unfinished = filter->is_unfinished,
                                .kind = filter->kind,
                                .queue = filter->queue,
                                .key = filter->key};
    lw_snapshot snapshot = LW_SNAPSHOT_INIT;
    lw_state state;
    size_t shown = 0;
    int rc = LW_OK;
    for (bool is_enough = wanted.from == 0; !is_enough && shown < limit;) {
        rc = look(engine, &wanted, &snapshot, &state);
        if (rc < 0)
            break;
        wanted.from = snapshot.id + 1;
        shown++;
        is_enough = !each(user, &snapshot);
    }
    lw_snapshot_clear(&snapshot);
    return rc < 0 && rc != LW_ENOTFOUND ? rc : (int)shown;
}

/* ---- waiting ------------------------------------------------------------------------------ */

/* It was there, and is not any more: it has ended, and nobody can tell how. */
static int end_unseen(lw_snapshot *snapshot) {
    if (snapshot)
        snapshot->state = (lw_state)0;
    return LW_OK;
}

/* The deadline is of the engine's clock, and a sleep is of the system's: a test's clock is looked
 * at from time to time. */
static uint64_t sleep_until(lw_engine *engine, uint64_t deadline) {
    const uint64_t glance_ns = 50 * LW__NS_PER_MS;
    lw_clock *clock = lw__clock_system();
    return engine->set.clock == clock ? deadline : lw__now(clock) + glance_ns;
}

/* A stop of this engine ends the wait, although the owner may still run the task. */
int lw__client_wait(lw_engine *engine, lw_id id, uint64_t deadline, lw_snapshot *snapshot) {
    const struct lw__remote_ops *remote = lw__engine_remote(engine);
    const struct lw__wanted wanted = {.from = id, .to = id};
    lw_state state;
    for (bool was_there = false;; was_there = true) {
        bool has_stopped = atomic_load(&engine->has_stopped);
        int64_t version = remote->version(engine->store);
        int rc = look(engine, &wanted, snapshot, &state);
        if (rc == LW_ENOTFOUND && was_there)
            return end_unseen(snapshot);
        if (rc < 0 || lw_state_is_terminal(state))
            return rc;
        if (lw__engine_now(engine) >= deadline)
            return LW_PENDING;
        if (has_stopped)
            return LW_ESTOPPING;
        remote->await(engine->store, version, sleep_until(engine, deadline));
    }
}

/* ---- why, and how many -------------------------------------------------------------------- */

static void look_at_after(lw_engine *engine, const struct lw__spec *spec,
                          struct lw__outlook *outlook) {
    for (uint32_t i = 0; i < spec->after_count; i++) {
        lw_state state = LW_FINISHED;
        struct lw__wanted wanted = {.from = spec->after[i], .to = spec->after[i]};
        if (lw__spec_is_repeated(spec, i))
            continue;
        if (look(engine, &wanted, NULL, &state) < 0 || lw_state_is_terminal(state))
            continue;
        if (outlook->after_left++ > 0)
            continue;
        outlook->after = spec->after[i];
        outlook->after_state = state;
    }
}

int lw__client_look(lw_engine *engine, lw_id id, struct lw__outlook *outlook) {
    const struct lw__remote_ops *remote = lw__engine_remote(engine);
    struct lw__task copy;
    *outlook = (struct lw__outlook){.before = 0};
    int rc = remote->copy(engine->store, &(struct lw__wanted){.from = id, .to = id}, &copy, NULL);
    if (rc < 0)
        return rc;
    lw__index_look_at(&copy, outlook);
    if (outlook->view.state == LW_CREATED && outlook->view.spec)
        look_at_after(engine, outlook->view.spec, outlook);
    outlook->view.spec = NULL;
    outlook->view.errors = NULL;
    outlook->view.output = NULL;
    remote->drop(engine->store, &copy);
    return LW_OK;
}

int lw__client_get_stats(lw_engine *engine, lw_engine_stats *stats) {
    uint64_t counts[LW_ABORTED + 1] = {0};
    int rc = lw__engine_remote(engine)->count(engine->store, counts);
    if (rc < 0)
        return rc;
    *stats = (lw_engine_stats){.created = counts[LW_CREATED],
                               .scheduled = counts[LW_SCHEDULED],
                               .enqueued = counts[LW_ENQUEUED],
                               .started = counts[LW_STARTED],
                               .finished = counts[LW_FINISHED],
                               .failed = counts[LW_FAILED],
                               .aborted = counts[LW_ABORTED],
                               .refused_total = atomic_load(&engine->refused)};
    return LW_OK;
}
