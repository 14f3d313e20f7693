/* What an operator wants: cancel, retry, forget; pause and resume. */
#include "base/error.h"
#include "engine/engine_internal.h"

/* After a change something may be claimable, there may be room, and there may be nothing left. */
static void spread_the_news(lw_engine *engine) {
    lw__engine_attend(engine);
    lw__submit_offer_room(engine);
    lw__stop_announce(engine);
}

static int change(lw_engine *engine, lw_id id, enum lw__change what) {
    struct lw__store *store = engine->store;
    if (lw__engine_remote(engine))
        return lw__client_change(engine, id, what, NULL);
    int rc = store->ops->change(store, lw__engine_now(engine), id, what);
    spread_the_news(engine);
    return rc;
}

/* ---- one task ------------------------------------------------------------------------------ */

int lw_cancel(lw_engine *engine, lw_id id) {
    int rc = lw__engine_check(engine);
    return rc < 0 ? rc : change(engine, id, LW__CHANGE_CANCEL);
}

int lw_forget(lw_engine *engine, lw_id id) {
    int rc = lw__engine_check(engine);
    return rc < 0 ? rc : change(engine, id, LW__CHANGE_FORGET);
}

static bool has_finished(lw_engine *engine, lw_id id) {
    struct lw__index *index = engine->index;
    uint32_t ticket = lw__grace_enter(&index->grace);
    const struct lw__task *task = lw__ids_find(&index->ids, id);
    bool is_finished = task && lw__task_state(task) == LW_FINISHED;
    lw__grace_leave(&index->grace, ticket);
    return is_finished;
}

/* A retry is not taken back when it cannot be written, unlike a submit. */
static int explain_unwritten(lw_engine *engine, lw_id id, lw_error *err) {
    lw_error trouble;
    lw__index_trouble(engine->index, &trouble);
    return lw__error_set(err, LW_EUNSURE, trouble.native,
                         "task %llu runs again as soon as that can be written: %s", id,
                         trouble.message);
}

static int explain_refusal(lw_engine *engine, lw_id id, int status, lw_error *err) {
    switch (status) {
    case LW_ENOTFOUND:
        return lw__error_set(err, status, 0, "there is no task %llu, or it has left", id);
    case LW_EINVAL:
        if (has_finished(engine, id))
            return lw__error_set(err, status, 0,
                                 "task %llu has finished, there is nothing to retry", id);
        return lw__error_set(err, status, 0,
                             "the argument of task %llu was handed back when it ended: submit it "
                             "anew",
                             id);
    case LW_EFULL:
        return lw__error_set(err, status, 0,
                             "there is no room for task %llu: its queue or the engine is full", id);
    default: return lw__error_set(err, status, 0, "task %llu: %s", id, lw_status_text(status));
    }
}

int lw_retry_now(lw_engine *engine, lw_id id, lw_error *err) {
    int rc = lw__engine_check(engine);
    if (rc < 0)
        return lw__error_set(err, rc, 0, "%s", lw_status_text(rc));
    if (lw__engine_stop_level(engine) != LW__RUNNING)
        return lw__error_set(err, LW_ESTOPPING, 0,
                             "task %llu cannot be retried: the engine is stopping", id);
    if (lw__engine_remote(engine)) {
        lw_error detail = {0};
        rc = lw__client_change(engine, id, LW__CHANGE_RETRY, &detail);
        if (rc < 0 && detail.status == rc)
            return lw__error_set(err, rc, detail.native, "%s", detail.message);
        return rc == LW_EINVAL ? lw__error_set(
                   err, rc, 0, "task %llu has finished, there is nothing to retry", id)
               : rc < 0 ? explain_refusal(engine, id, rc, err)
                        : rc;
    }
    rc = change(engine, id, LW__CHANGE_RETRY);
    if (rc == LW_EUNSURE)
        return explain_unwritten(engine, id, err);
    return rc < 0 ? explain_refusal(engine, id, rc, err) : rc;
}

/* Of a client: those that the owner was asked for. */
static size_t ask_for_each(lw_engine *engine, const lw_id *ids, size_t count) {
    size_t asked = 0;
    for (size_t i = 0; i < count; i++)
        asked += lw__client_change(engine, ids[i], LW__CHANGE_RETRY, NULL) >= 0;
    return asked;
}

/* In the index alone: the store is waited for once, when all is said. */
static size_t retry_each(lw_engine *engine, const lw_id *ids, size_t count) {
    uint64_t now = lw__engine_now(engine);
    size_t retried = 0;
    for (size_t i = 0; i < count; i++)
        retried += lw__index_change(engine->store, now, ids[i], LW__CHANGE_RETRY) == LW_OK;
    return retried;
}

int lw_retry_many(lw_engine *engine, const lw_id *ids, size_t count, size_t *retried) {
    size_t own = 0;
    int rc = lw__engine_check(engine);
    retried = retried ? retried : &own;
    *retried = 0;
    if (rc < 0)
        return rc;
    if (!ids || count == 0 || count > LW_RETRY_MAX)
        return LW_EINVAL;
    if (lw__engine_stop_level(engine) != LW__RUNNING)
        return LW_ESTOPPING;
    if (lw__engine_remote(engine)) {
        *retried = ask_for_each(engine, ids, count);
        return LW_OK;
    }
    *retried = retry_each(engine, ids, count);
    rc = engine->store->ops->flush ? engine->store->ops->flush(engine->store) : LW_OK;
    spread_the_news(engine);
    return rc;
}

/* ---- queues -------------------------------------------------------------------------------- */

static int set_paused(lw_engine *engine, const char *queue, bool is_paused) {
    int rc = lw__engine_check(engine);
    if (rc < 0)
        return rc;
    if (!queue)
        return LW_EINVAL;
    rc = engine->store->ops->pause(engine->store, queue, is_paused);
    if (rc == LW_OK && is_paused)
        lw__hand_relieve_all(engine, false); /* what was claimed before, and has not begun */
    spread_the_news(engine);
    return rc;
}

int lw_pause(lw_engine *engine, const char *queue) {
    return set_paused(engine, queue, true);
}

int lw_resume(lw_engine *engine, const char *queue) {
    return set_paused(engine, queue, false);
}
