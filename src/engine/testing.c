/* An engine without threads: a test drives it on its own thread and on its own clock. */
#include "base/names.h"
#include "base/text.h"
#include "engine/engine_internal.h"

#include <legwork/testing.h>
#include <stdio.h>

static int check(const lw_engine *engine) {
    int rc = lw__engine_check(engine);
    if (rc < 0)
        return rc;
    if (engine->set.workers > 0 || !atomic_load(&engine->is_started))
        return LW_EINVAL;
    return lw__hand_is_inside(engine) ? LW_EDEADLOCK : LW_OK;
}

/* ---- driving ------------------------------------------------------------------------------ */

/* Every thread has its own address of this. */
static _Thread_local char here;

void lw__driver_set(lw_engine *engine) {
    atomic_store(&engine->driver, (uintptr_t)&here);
}

bool lw__driver_is_here(const lw_engine *engine) {
    return atomic_load(&engine->driver) == (uintptr_t)&here;
}

/* Claims one task after the other, because a test wants to see each at its own time. */
static int run_due(lw_engine *engine) {
    struct lw__hand hand = {0};
    int count = 0;
    lw__hand_init(&hand, engine);
    lw__hand_enter(&hand);
    for (;;) {
        uint64_t now = lw__engine_now(engine);
        while (lw__scheduler_look(engine, now) <= now) {
            /* each time a bounded lot of what is due */
        }
        uint32_t told = 0;
        uint32_t ran = lw__engine_is_forked(engine) ? 0 : lw__hand_turn(&hand, &told);
        count += (int)ran;
        if (!lw__engine_is_forked(engine))
            told += lw__answers_tell(engine);
        if (lw__engine_is_forked(engine)) {
            lw__hand_desert(&hand);
            return LW_EFORKED;
        }
        if (ran + told == 0)
            break;
    }
    lw__hand_leave(&hand);
    lw__hand_free(&hand);
    return count;
}

/* Whatever comes first: the next thing that is due, or this. False: it cannot go that far. */
static bool go_on(lw_engine *engine, uint64_t end) {
    uint64_t now = lw__engine_now(engine), due = lw__scheduler_look(engine, now);
    return lw__test_clock_reach(engine->set.clock, due < end ? due : end);
}

enum lw__pass lw__driver_pass(lw_engine *engine, uint64_t deadline) {
    if (engine->set.workers > 0 || engine->set.clock->is_real || !lw__driver_is_here(engine))
        return LW__PASS_WAIT;
    bool can_run = atomic_load(&engine->is_started) && !lw__hand_is_inside(engine);
    int ran = can_run ? run_due(engine) : 0;
    bool has_passed = ran != 0  ? ran > 0
                      : can_run ? go_on(engine, deadline)
                                : lw__test_clock_reach(engine->set.clock, deadline);
    return has_passed ? LW__PASS_LOOK : LW__PASS_NEVER;
}

int lw_test_run(lw_engine *engine) {
    int rc = check(engine);
    if (rc < 0)
        return rc;
    lw__driver_set(engine);
    return run_due(engine);
}

int lw_test_advance(lw_engine *engine, int64_t ms) {
    int rc = check(engine);
    if (rc < 0)
        return rc;
    if (ms < 0 || ms > LW_TIMEOUT_MS_MAX || engine->set.clock->is_real)
        return LW_EINVAL;
    lw__driver_set(engine);
    uint64_t end = lw__engine_now(engine) + (uint64_t)ms * LW__NS_PER_MS;
    int count = run_due(engine);
    while (count >= 0) {
        if (!go_on(engine, end))
            return LW_EINVAL;
        int ran = run_due(engine);
        if (ran < 0)
            return ran;
        count += ran;
        if (lw__engine_now(engine) >= end)
            break;
    }
    return count;
}

/* ---- disturbing --------------------------------------------------------------------------- */

int lw_test_unfence(lw_engine *engine) {
    int rc = lw__engine_check(engine);
    if (rc < 0)
        return rc;
    lw__index_lock(engine->index);
    engine->index->is_unfenced = true;
    lw__index_unlock(engine->index);
    return LW_OK;
}

/* Before the start a kind may still be registered. After it, one that nobody has named is a
 * mistake, and a test that orders its failures would wait for them in vain. */
static int find_kind(lw_engine *engine, const char *name, struct lw__kind_info **info) {
    if (!atomic_load(&engine->is_started))
        return lw__registry_kind(engine, name, info, NULL);
    if (lw__name_check("kind", name, NULL) < 0)
        return LW_EINVAL;
    *info = lw__registry_find_kind(engine, name);
    return *info ? LW_OK : LW_ENOTFOUND;
}

int lw_test_fail_next(lw_engine *engine, const char *kind, int count, lw_outcome outcome,
                      const char *text) {
    int rc = lw__engine_check(engine);
    if (rc < 0)
        return rc;
    if (!kind || count < 0
        || (outcome != 0 && outcome != LW_OUTCOME_RETRY && outcome != LW_OUTCOME_FAIL))
        return LW_EINVAL;
    struct lw__kind_info *info;
    rc = find_kind(engine, kind, &info);
    if (rc < 0)
        return rc;
    lw__mutex_lock(&info->mu);
    info->fail_count = count;
    info->fail_outcome = outcome;
    if (snprintf(info->fail_text, sizeof info->fail_text, "%s", text ? text : "") > LW_TEXT_MAX)
        info->fail_text[lw__text_cut(info->fail_text, LW_TEXT_MAX)] = 0;
    atomic_store(&info->has_failures_ordered, count > 0);
    lw__mutex_unlock(&info->mu);
    return LW_OK;
}
