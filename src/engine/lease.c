/* Leases: attempts that somebody else runs (legwork/lease.h). What a handler says by its context is
 * said here with an id and a token; what it means for the task is the same (verdict.c). */
#include <legwork/lease.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/names.h"
#include "engine/engine_internal.h"

#include <string.h>

_Static_assert(LW_LEASES_MAX == LW__LEASES_MAX && LW_HOLDER_MAX <= LW_NAME_MAX, "the store's");

#define LEASE_MS_DEFAULT 30000

/* ---- help --------------------------------------------------------------------------------- */

int lw__lease_check(const lw_engine *engine, lw_error *err) {
    int rc = lw__engine_check_told(engine, err);
    return rc == LW_OK && lw__engine_remote(engine) ? lw__client_refuse(engine, "leases", err) : rc;
}

/* Something may be claimable, there may be room, and there may be nothing left. */
static void spread_the_news(lw_engine *engine) {
    lw__engine_attend(engine);
    lw__submit_offer_room(engine);
    lw__stop_announce(engine);
}

/* A store without a thread has to be driven. */
static int sync_unless(lw_engine *engine, unsigned flags) {
    const struct lw__store_ops *ops = engine->store->ops;
    bool can_wait = !(flags & LW_NO_WAIT) || engine->set.workers == 0;
    return ops->flush && can_wait ? ops->flush(engine->store) : LW_OK;
}

int lw__lease_sync(lw_engine *engine, unsigned flags) {
    int rc = sync_unless(engine, flags);
    spread_the_news(engine);
    return rc;
}

static int sync_after(lw_engine *engine, int rc, unsigned flags) {
    int synced = rc < 0 ? LW_OK : lw__lease_sync(engine, flags);
    return synced < 0 ? synced : rc;
}

static bool is_lease_time(int64_t ms) {
    return ms > 0 && ms <= LW_LEASE_MS_MAX;
}

static uint64_t time_in(uint64_t now, int64_t ms) {
    return now + (uint64_t)ms * LW__NS_PER_MS;
}

/* ---- claim: options ----------------------------------------------------------------------- */

struct names {
    uint16_t queues[LW_CLAIM_NAMES_MAX], kinds[LW_CLAIM_NAMES_MAX];
    uint32_t queue_count, kind_count;
    bool is_in_vain; /* none of the names is known: at most it says that nobody can claim now */
};

static int check_holder(const char *holder, lw_error *err) {
    if (!holder || !*holder)
        return lw__error_set(err, LW_EINVAL, 0, "there is no holder: say who gets the tasks");
    return lw__key_check("the holder", holder, LW_HOLDER_MAX, err);
}

static int check_options(const lw_claim_options *o, lw_error *err) {
    if (!o || o->struct_size != sizeof *o)
        return lw__error_set(err, LW_EINVAL, 0, "the options are NULL, or not LW_CLAIM_OPTIONS");
    if (o->max < 0 || o->max > LW_CLAIM_MAX)
        return lw__error_set(err, LW_EINVAL, 0, "max is %d, must be from 1 to %d", o->max,
                             LW_CLAIM_MAX);
    if (o->lease_ms != 0 && !is_lease_time(o->lease_ms))
        return lw__error_set(err, LW_EINVAL, 0, "lease_ms is %lld, must be from 1 to %lld",
                             (long long)o->lease_ms, (long long)LW_LEASE_MS_MAX);
    if (o->flags & ~(LW_NO_WAIT | LW_LEAVE_LOST | LW_ONLY_LOOK))
        return lw__error_set(err, LW_EINVAL, 0,
                             "flags are 0x%x, must be 0 or of LW_NO_WAIT, LW_LEAVE_LOST and "
                             "LW_ONLY_LOOK",
                             o->flags);
    if (o->queue_count > LW_CLAIM_NAMES_MAX || o->kind_count > LW_CLAIM_NAMES_MAX
        || (o->queue_count > 0 && !o->queues) || (o->kind_count > 0 && !o->kinds))
        return lw__error_set(err, LW_EINVAL, 0,
                             "%zu queues and %zu kinds, must be at most %d each, and not NULL",
                             o->queue_count, o->kind_count, LW_CLAIM_NAMES_MAX);
    return check_holder(o->holder, err);
}

static int find_queues(lw_engine *engine, const lw_claim_options *o, struct names *names,
                       lw_error *err) {
    for (size_t i = 0; i < o->queue_count; i++) {
        int rc = lw__name_check("queue", o->queues[i], err);
        if (rc < 0)
            return rc;
        const struct lw__queue_info *info = lw__registry_find_queue(engine, o->queues[i]);
        if (info)
            names->queues[names->queue_count++] = info->number;
    }
    names->is_in_vain |= o->queue_count > 0 && names->queue_count == 0;
    return LW_OK;
}

static int find_kinds(lw_engine *engine, const lw_claim_options *o, struct names *names,
                      lw_error *err) {
    for (size_t i = 0; i < o->kind_count; i++) {
        int rc = lw__name_check("kind", o->kinds[i], err);
        if (rc < 0)
            return rc;
        const struct lw__kind_info *info = lw__registry_find_kind(engine, o->kinds[i]);
        if (info && (info->run || atomic_load(&info->is_call)))
            return lw__error_set(err, LW_EINVAL, 0,
                                 "kind \"%s\" has a handler here, which runs its tasks: nobody can "
                                 "claim them",
                                 o->kinds[i]);
        if (info && info->layer)
            return lw__error_set(err, LW_EINVAL, 0,
                                 "kind \"%s\" is of a flow, which has to hear of its end: nobody "
                                 "can claim its tasks",
                                 o->kinds[i]);
        if (info)
            names->kinds[names->kind_count++] = info->number;
    }
    names->is_in_vain |= o->kind_count > 0 && names->kind_count == 0;
    return LW_OK;
}

/* ---- claim -------------------------------------------------------------------------------- */

static int give_back(lw_engine *engine, const struct lw__leased *leased) {
    struct lw__settlement s = {.is_leased = true,
                               .id = leased->id,
                               .token = leased->token,
                               .verdict = LW__VERDICT_GIVE_BACK,
                               .is_uncounted = true};
    engine->store->ops->settle(engine->store, lw__engine_now(engine), &s, 1);
    return s.status;
}

/* LW_ELEASE: it has been taken back already. */
static int show(lw_engine *engine, const struct lw__leased *leased, lw_snapshot *snapshot) {
    struct lw__index *index = engine->index;
    bool must_read = false;
    uint32_t ticket = lw__grace_enter(&index->grace);
    const struct lw__task *task = lw__ids_find(&index->ids, leased->id);
    int rc = task ? lw__snapshot_fill(engine, task, snapshot, &must_read) : LW_ELEASE;
    bool is_it = task && snapshot->token == leased->token && snapshot->state == LW_STARTED;
    lw__grace_leave(&index->grace, ticket);
    if (rc == LW_OK && !is_it)
        rc = LW_ELEASE;
    if (rc == LW_OK && must_read)
        rc = lw__snapshot_read(engine, snapshot);
    if (rc < 0)
        lw_snapshot_clear(snapshot);
    return rc;
}

static int explain_claim(lw_engine *engine, int rc, lw_error *err) {
    lw_error trouble;
    switch (rc) {
    case LW_ESTOPPING:
        return lw__error_set(err, rc, 0, "the engine is stopping, and gives no tasks away");
    case LW_EFULL:
        return lw__error_set(err, rc, 0, "%d tasks are leased, there can be no more",
                             LW_LEASES_MAX);
    case LW_EUNSURE:
        lw__index_trouble(engine->index, &trouble);
        return lw__error_set(err, rc, trouble.native,
                             "leases cannot be written now, and nothing was claimed: try it later "
                             "(%s)",
                             trouble.message);
    case LW_ENOMEM:
        return lw__error_set(err, rc, 0, "no memory for a lease, or a copy of its task");
    default: return lw__index_explain_status(engine->index, rc, err);
    }
}

/* What cannot be shown goes back. */
static int show_all(lw_engine *engine, const struct lw__lease_claim *claim, lw_snapshot *tasks,
                    lw_error *err) {
    int count = 0, failure = LW_OK;
    for (uint32_t i = 0; i < claim->count; i++) {
        int rc = show(engine, &claim->leased[i], &tasks[count]);
        if (rc == LW_OK)
            count++;
        if (rc == LW_OK || rc == LW_ELEASE)
            continue;
        failure = rc;
        give_back(engine, &claim->leased[i]);
    }
    return count == 0 && failure < 0 ? explain_claim(engine, failure, err) : count;
}

static int claim_all(lw_engine *engine, struct lw__lease_claim *claim, unsigned flags,
                     lw_error *err) {
    const struct lw__store_ops *ops = engine->store->ops;
    int rc = ops->lease(engine->store, lw__engine_now(engine), claim);
    if (rc == LW_OK && claim->count > 0)
        rc = sync_unless(engine, flags);
    if (rc >= 0)
        return LW_OK;
    for (uint32_t i = 0; i < claim->count; i++) /* nobody has heard of them */
        give_back(engine, &claim->leased[i]);
    return explain_claim(engine, rc, err);
}

/* What a claim without a failure has come to. */
static int count_claimed(lw_engine *engine, const struct lw__lease_claim *claim, lw_snapshot *tasks,
                         lw_error *err) {
    if (claim->only_looks)
        return claim->has_some;
    if (claim->count == 0 && claim->has_left)
        return lw__error_set(
            err, LW_ELEASE, 0,
            "there are only tasks that %s had, until its lease ran out: others may "
            "have them first",
            claim->holder);
    return show_all(engine, claim, tasks, err);
}

int lw_lease_claim(lw_engine *engine, const lw_claim_options *options, lw_snapshot *tasks,
                   lw_error *err) {
    struct names names = {.queue_count = 0};
    struct lw__leased leased[LW_CLAIM_MAX];
    int rc = lw__lease_check(engine, err);
    if (rc == LW_OK)
        rc = check_options(options, err);
    if (rc == LW_OK && !tasks && !(options->flags & LW_ONLY_LOOK))
        rc = lw__error_set(err, LW_EINVAL, 0, "there is nowhere to put the tasks");
    if (rc == LW_OK && !atomic_load(&engine->is_started))
        rc = lw__error_set(err, LW_EINVAL, 0, "the engine has not been started");
    if (rc == LW_OK)
        rc = find_queues(engine, options, &names, err);
    if (rc == LW_OK)
        rc = find_kinds(engine, options, &names, err);
    if (rc < 0)
        return rc;
    int64_t lease_ms = options->lease_ms ? options->lease_ms : LEASE_MS_DEFAULT;
    uint32_t max = options->max ? (uint32_t)options->max : 1;
    struct lw__lease_claim claim = {.holder = options->holder,
                                    .until = time_in(lw__engine_now(engine), lease_ms),
                                    .queues = names.queues,
                                    .queue_count = names.queue_count,
                                    .kinds = names.kinds,
                                    .kind_count = names.kind_count,
                                    .max = names.is_in_vain ? 0 : max,
                                    .leaves_lost = options->flags & LW_LEAVE_LOST,
                                    .only_looks = options->flags & LW_ONLY_LOOK,
                                    .leased = leased};
    rc = claim_all(engine, &claim, options->flags, err);
    return rc < 0 ? rc : count_claimed(engine, &claim, tasks, err);
}

/* Of the options only who waits, and for how long the lease is to be. */
static int check_submit_options(const lw_claim_options *o, const lw_snapshot *leased,
                                lw_error *err) {
    int rc = check_options(o, err);
    if (rc == LW_OK && (o->queue_count > 0 || o->kind_count > 0 || o->max > 1 || o->flags != 0))
        rc = lw__error_set(err, LW_EINVAL, 0,
                           "only holder and lease_ms can be given: the task is the one submitted");
    if (rc == LW_OK && !leased)
        rc = lw__error_set(err, LW_EINVAL, 0, "there is nowhere to put the task");
    return rc;
}

/* A lease that cannot be shown is nobody's, and the task is for whoever claims it. */
static void show_submitted(lw_engine *engine, const struct lw__submit_lease *lease,
                           lw_snapshot *leased) {
    int rc = lease->leased.token ? show(engine, &lease->leased, leased) : LW_ELEASE;
    if (rc < 0)
        lw_snapshot_clear(leased);
    if (rc < 0 && rc != LW_ELEASE)
        give_back(engine, &lease->leased);
}

int lw_lease_submit(lw_engine *engine, const lw_task *task, const lw_claim_options *options,
                    lw_snapshot *leased, lw_submitted done, void *user, lw_error *err) {
    int rc = lw__lease_check(engine, err);
    if (rc == LW_OK)
        rc = check_submit_options(options, leased, err);
    if (rc < 0) {
        lw_snapshot_clear(leased);
        return rc;
    }
    int64_t lease_ms = options->lease_ms ? options->lease_ms : LEASE_MS_DEFAULT;
    bool can_lease = atomic_load(&engine->is_started);
    struct lw__submit_lease lease = {.holder = can_lease ? options->holder : NULL,
                                     .ns = (uint64_t)lease_ms * LW__NS_PER_MS};
    rc = lw__submit_and_lease(engine, task, &lease, done, user, err);
    if (rc == LW_OK)
        show_submitted(engine, &lease, leased);
    else
        lw_snapshot_clear(leased);
    return rc;
}

int lw_lease_return(lw_engine *engine, lw_id id, uint64_t token, unsigned flags) {
    int rc = lw__lease_check(engine, NULL);
    if (rc < 0 || flags & ~LW_NO_WAIT)
        return rc < 0 ? rc : LW_EINVAL;
    struct lw__leased leased = {.id = id, .token = token};
    return sync_after(engine, give_back(engine, &leased), flags);
}

/* ---- meanwhile ---------------------------------------------------------------------------- */

int lw_lease_extend(lw_engine *engine, lw_id id, uint64_t token, int64_t lease_ms, unsigned flags) {
    int rc = lw__lease_check(engine, NULL);
    if (rc < 0 || !is_lease_time(lease_ms) || flags & ~LW_NO_WAIT)
        return rc < 0 ? rc : LW_EINVAL;
    uint64_t now = lw__engine_now(engine);
    rc = engine->store->ops->extend(engine->store, now, id, token, time_in(now, lease_ms));
    return sync_after(engine, rc, flags);
}

static int publish(lw_engine *engine, lw_id id, uint64_t token,
                   struct lw__publication *publication) {
    int rc = lw__lease_check(engine, NULL);
    if (rc < 0)
        return rc;
    publication->is_leased = true;
    rc = engine->store->ops->publish_leased(engine->store, lw__engine_now(engine), id, token,
                                            publication);
    return rc == LW_ENOTFOUND ? LW_ELEASE : rc;
}

int lw_lease_progress(lw_engine *engine, lw_id id, uint64_t token, uint64_t done, uint64_t total,
                      const char *text) {
    struct lw__publication publication = {
        .has_progress = true, .done = done, .total = total, .text = text ? text : ""};
    int rc = publish(engine, id, token, &publication);
    return rc < 0 ? rc : sync_after(engine, rc, LW_NO_WAIT);
}

int lw_lease_partial(lw_engine *engine, lw_id id, uint64_t token, lw_bytes result) {
    struct lw__publication publication = {.has_partial = true, .partial = result};
    if (result.size > LW_PAYLOAD_MAX || (result.size > 0 && !result.data))
        return LW_EINVAL;
    int rc = publish(engine, id, token, &publication);
    return rc < 0 ? rc : sync_after(engine, rc, LW_NO_WAIT);
}

int lw_lease_checkpoint(lw_engine *engine, lw_id id, uint64_t token, lw_bytes position,
                        unsigned flags) {
    struct lw__publication publication = {.has_checkpoint = true, .checkpoint = position};
    if (position.size > LW_CHECKPOINT_MAX || (position.size > 0 && !position.data)
        || flags & ~LW_NO_WAIT)
        return LW_EINVAL;
    int rc = publish(engine, id, token, &publication);
    return rc < 0 ? rc : sync_after(engine, rc, flags);
}

/* ---- durable ------------------------------------------------------------------------------ */

int lw_sync(lw_engine *engine) {
    int rc = lw__engine_check(engine);
    return rc < 0 ? rc : sync_unless(engine, 0);
}

int lw_sync_async(lw_engine *engine, lw_submitted done, void *user, lw_error *err) {
    lw_error own;
    int rc = lw__engine_check_told(engine, err ? err : &own);
    if (rc < 0)
        return rc;
    if (!done)
        return lw__error_set(err, LW_EINVAL, 0,
                             "done is NULL: there is nobody to tell; lw_sync waits instead");
    struct lw__answer *answer = lw__answer_open(engine, done, user, err ? err : &own);
    if (!answer)
        return err ? err->status : own.status;
    if (engine->store->ops->flush_and_call)
        engine->store->ops->flush_and_call(engine->store, &answer->wait);
    else
        lw__answer_give(&answer->wait);
    return LW_OK;
}
