#include "store/lease.h"

#include "base/memory.h"
#include "store/index.h"

#include <stdio.h>
#include <string.h>

/* ---- the table ---------------------------------------------------------------------------- */

void lw__leases_init(struct lw__index *index) {
    lw__ids_init(&index->leases.ids, &index->allocator, &index->grace);
}

static struct lw__lease *as_lease(struct lw__task *entry) {
    return (struct lw__lease *)(void *)entry;
}

void lw__leases_free(struct lw__index *index) {
    struct lw__ids *ids = &index->leases.ids;
    for (struct lw__lease *lease = as_lease(lw__ids_find_from(ids, 1)), *next; lease;
         lease = next) {
        next = as_lease(lw__ids_find_from(ids, lease->id + 1));
        lw__free(&index->allocator, lease, lease->size);
    }
    lw__ids_free(ids);
}

struct lw__lease *lw__lease_find(const struct lw__index *index, uint64_t id) {
    if (__builtin_expect(atomic_load_explicit(&index->leases.count, memory_order_relaxed) == 0, 1))
        return NULL;
    return as_lease(lw__ids_find(&index->leases.ids, id));
}

bool lw__lease_add_locked(struct lw__index *index, struct lw__task *task, uint64_t token,
                          uint64_t until, const char *holder) {
    struct lw__kind *kind = lw__index_kind_of(index, task);
    size_t length = strnlen(holder, LW_NAME_MAX), size = sizeof(struct lw__lease) + length + 1;
    struct lw__lease *lease = lw__alloc_zero(&index->allocator, size);
    if (!lease)
        return false;
    lease->alarm.type = LW__ALARM_LEASE;
    lease->task = task;
    lease->id = task->id;
    lease->token = token;
    atomic_init(&lease->until, until);
    lease->size = size;
    memcpy(lease->holder, holder, length);
    if (!lw__ids_insert(&index->leases.ids, task->id, (struct lw__task *)(void *)lease)) {
        lw__free(&index->allocator, lease, size);
        return false;
    }
    atomic_fetch_add(&index->leases.count, 1);
    lw__timer_set(&index->alarms, &lease->alarm.timer, until);
    lw__index_hasten_locked(index, lw__timer_next_due(&index->alarms));
    kind->claimed++;
    return true;
}

void lw__lease_drop_locked(struct lw__index *index, struct lw__lease *lease) {
    lw__timer_cancel(&index->alarms, &lease->alarm.timer);
    if (index->journal) {
        lease->task->notes &= (uint8_t)~LW__NOTE_LEASE; /* the next one is to be noted after this */
        lw__journal_note(index->journal, LW__JOURNAL_UNLEASE, lease->task);
    }
    lw__ids_remove(&index->leases.ids, lease->id);
    atomic_fetch_sub(&index->leases.count, 1);
    lw__index_retire_block_locked(index, lease, lease->size);
}

/* ---- claim -------------------------------------------------------------------------------- */

static bool is_claimable(const struct lw__lane *lane) {
    const struct lw__kind *kind = lane->kind;
    return lane->shut == LW__SHUT_NO_HANDLER && lane->count > 0 && !kind->is_kept;
}

void lw__lease_announce_locked(struct lw__index *index, const struct lw__lane *lane) {
    if (is_claimable(lane) && index->hooks.claimable)
        index->hooks.claimable(index->hooks.user, lw__index_queue_of_lane(lane)->number);
}

void lw__lease_announce_all_locked(struct lw__index *index) {
    for (uint32_t i = 0; i < index->queue_count; i++) {
        struct lw__lane *lane = index->queues[i]->order.lanes;
        for (; lane; lane = lane->next_of_queue)
            lw__lease_announce_locked(index, lane);
    }
}

static bool is_wanted(const struct lw__lease_claim *claim, const struct lw__lane *lane) {
    const struct lw__kind *kind = lane->kind;
    if (!is_claimable(lane))
        return false;
    for (uint32_t i = 0; i < claim->kind_count; i++) {
        if (claim->kinds[i] == kind->number)
            return true;
    }
    return claim->kind_count == 0;
}

static bool is_before(const struct lw__task *a, const struct lw__task *b) {
    struct lw__order_key a_key = {.due = lw__see(&a->due_at), .id = a->id, .priority = a->priority};
    struct lw__order_key b_key = {.due = lw__see(&b->due_at), .id = b->id, .priority = b->priority};
    return lw__order_key_before(&a_key, &b_key);
}

/* Lanes that somebody may claim from are not among those that are ready: there are as many as kinds
 * without a handler, which are few. */
struct choice {
    struct lw__lane *lane; /* whose first task comes before all others; NULL: there is none */
    uint32_t count;        /* of lanes that have something */
};

static void look_at_queue(const struct lw__lease_claim *claim, const struct lw__queue *queue,
                          struct choice *choice) {
    for (struct lw__lane *lane = queue->order.lanes; lane; lane = lane->next_of_queue) {
        if (!is_wanted(claim, lane))
            continue;
        choice->count++;
        if (!choice->lane || is_before(lw__lane_first(lane), lw__lane_first(choice->lane)))
            choice->lane = lane;
    }
}

static struct choice choose(const struct lw__index *index, const struct lw__lease_claim *claim) {
    struct choice choice = {NULL, 0};
    uint32_t count = claim->queue_count ? claim->queue_count : index->queue_count;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t queue = claim->queue_count ? claim->queues[i] : i;
        look_at_queue(claim, index->queues[queue], &choice);
    }
    return choice;
}

static int lease_first(struct lw__index *index, struct lw__lane *lane,
                       struct lw__lease_claim *claim, uint64_t now) {
    struct lw__task *task = lw__lane_first(lane);
    struct lw__kind *kind = lane->kind;
    uint64_t token = index->last_token + 1;
    if (atomic_load(&index->leases.count) >= LW__LEASES_MAX)
        return LW_EFULL;
    if (index->journal && !lw__journal_reserve(index->journal, 1))
        return LW_ENOMEM;
    if (!lw__lease_add_locked(index, task, token, claim->until, claim->holder))
        return LW_ENOMEM;
    lw__order_remove(&index->order, task);
    index->last_token = token;
    lw__index_begin(&index->store, task, token, now);
    if (index->journal)
        lw__journal_note(index->journal, LW__JOURNAL_LEASE, task);
    if (kind->claimed >= kind->concurrency)
        lw__index_review_kind_locked(index, kind);
    claim->leased[claim->count++] = (struct lw__leased){.id = task->id, .token = token};
    return LW_OK;
}

/* As long as nothing else can come between them, tasks are taken from one lane without looking at
 * the others. */
static int lease_all(struct lw__index *index, struct lw__lease_claim *claim, uint64_t now) {
    int rc = LW_OK;
    while (rc == LW_OK && claim->count < claim->max) {
        struct choice choice = choose(index, claim);
        if (!choice.lane)
            break;
        do {
            rc = lease_first(index, choice.lane, claim, now);
        } while (rc == LW_OK && choice.count == 1 && claim->count < claim->max
                 && is_claimable(choice.lane));
    }
    return claim->count > 0 ? LW_OK : rc;
}

int lw__index_lease(struct lw__store *store, uint64_t now, struct lw__lease_claim *claim) {
    struct lw__index *index = store->index;
    int rc = LW_OK;
    claim->count = 0;
    lw__index_lock(index);
    if (index->restraints & (LW__STORE_NO_CLAIM | LW__STORE_NO_PUT))
        rc = LW_ESTOPPING;
    else if (!index->is_halted)
        rc = lease_all(index, claim, now);
    lw__grace_collect(&index->grace);
    lw__index_unlock(index);
    return rc;
}

void lw__index_unlease(struct lw__store *store, uint64_t now, const struct lw__lease_claim *claim) {
    struct lw__index *index = store->index;
    lw__index_lock(index);
    for (uint32_t i = 0; i < claim->count; i++) {
        struct lw__settlement s = {.is_leased = true,
                                   .id = claim->leased[i].id,
                                   .token = claim->leased[i].token,
                                   .verdict = LW__VERDICT_GIVE_BACK,
                                   .is_uncounted = true};
        lw__index_settle_locked(index, now, &s, 1);
    }
    lw__index_unlock(index);
}

/* ---- meanwhile ---------------------------------------------------------------------------- */

static int extend_locked(struct lw__index *index, struct lw__lease *lease, uint64_t until) {
    uint32_t flags = lw__task_flags(lease->task);
    if (flags & LW__TASK_SCOPED && !lw__scope_is_present_locked(index, lease->task))
        return LW_ELEASE;
    if (index->journal && !lw__journal_reserve(index->journal, 1))
        return LW_ENOMEM;
    if (until > atomic_load(&lease->until)) {
        lw__timer_cancel(&index->alarms, &lease->alarm.timer);
        atomic_store(&lease->until, until);
        lw__timer_set(&index->alarms, &lease->alarm.timer, until);
        if (index->journal)
            lw__journal_note(index->journal, LW__JOURNAL_LEASE, lease->task);
    }
    return flags & LW__TASK_CANCELLING ? LW_PENDING : LW_OK;
}

int lw__index_extend(struct lw__store *store, uint64_t now, uint64_t id, uint64_t token,
                     uint64_t until) {
    struct lw__index *index = store->index;
    lw__index_lock(index);
    struct lw__lease *lease = lw__lease_find(index, id);
    bool is_present = lease && lease->token == token && !lw__lease_is_over(lease, now);
    int rc = is_present ? extend_locked(index, lease, until) : LW_ELEASE;
    lw__index_unlock(index);
    return rc;
}

/* ---- the end ------------------------------------------------------------------------------ */

static bool is_given_up(const struct lw__kind *kind, const struct lw__task *task, uint64_t now) {
    uint64_t since = lw__age_begins_at(task->created_at, lw__see(&task->errors));
    return lw__see(&task->crashes) + 1u > kind->crashes
           || (now > since && now - since > kind->max_age_ns);
}

/* It is settled like any other attempt that was lost; it comes after those that are due already. */
void lw__lease_ring_locked(struct lw__index *index, struct lw__lease *lease, uint64_t now) {
    char text[LW_TEXT_MAX + 1];
    struct lw__task *task = lease->task;
    bool is_over = is_given_up(lw__index_kind_of(index, task), task, now);
    snprintf(text, sizeof text, "the lease of %s ran out", lease->holder);
    struct lw__settlement lost = {.task = task,
                                  .token = lease->token,
                                  .verdict = is_over ? LW__VERDICT_FAIL : LW__VERDICT_POSTPONE,
                                  .due = now,
                                  .fault = LW_FAULT_CRASH,
                                  .text = text};
    lw__index_settle_locked(index, now, &lost, 1);
}
