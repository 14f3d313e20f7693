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

static void set_alarm(struct lw__index *index, struct lw__lease *lease, uint64_t at) {
    lw__timer_set(&index->alarms, &lease->alarm.timer, at);
    lw__index_hasten_locked(index, lw__timer_next_due(&index->alarms));
}

/* Without an alarm. NULL: no memory. */
static struct lw__lease *add(struct lw__index *index, struct lw__task *task, uint64_t token,
                             uint64_t now, uint64_t until, const char *holder) {
    struct lw__kind *kind = lw__index_kind_of(index, task);
    size_t length = strnlen(holder, LW_NAME_MAX), size = sizeof(struct lw__lease) + length + 1;
    struct lw__lease *lease = lw__alloc_zero(&index->allocator, size);
    if (!lease)
        return NULL;
    lease->alarm.type = LW__ALARM_LEASE;
    lease->task = task;
    lease->id = task->id;
    lease->token = token;
    atomic_init(&lease->until, until);
    lease->length = until > now ? until - now : 0;
    lease->size = size;
    memcpy(lease->holder, holder, length);
    if (!lw__ids_insert(&index->leases.ids, task->id, (struct lw__task *)(void *)lease)) {
        lw__free(&index->allocator, lease, size);
        return NULL;
    }
    atomic_fetch_add(&index->leases.count, 1);
    kind->claimed++;
    return lease;
}

bool lw__lease_add_locked(struct lw__index *index, struct lw__task *task, uint64_t token,
                          uint64_t now, uint64_t until, const char *holder) {
    struct lw__lease *lease = add(index, task, token, now, until, holder);
    if (lease)
        set_alarm(index, lease, until);
    return lease != NULL;
}

static void remove_lease(struct lw__index *index, struct lw__lease *lease) {
    lw__timer_cancel(&index->alarms, &lease->alarm.timer);
    index->leases.put_off -= lease->is_put_off;
    lw__ids_remove(&index->leases.ids, lease->id);
    atomic_fetch_sub(&index->leases.count, 1);
    lw__index_retire_block_locked(index, lease, lease->size);
}

void lw__lease_drop_locked(struct lw__index *index, struct lw__lease *lease) {
    if (index->journal) {
        lease->task->notes &= (uint8_t)~LW__NOTE_LEASE; /* the next one is to be noted after this */
        lw__journal_note(index->journal, LW__JOURNAL_UNLEASE, lease->task);
    }
    remove_lease(index, lease);
}

/* What the journal has of it is the journal's to take back. */
void lw__lease_take_back_locked(struct lw__index *index, struct lw__lease *lease) {
    struct lw__kind *kind = lw__index_kind_of(index, lease->task);
    remove_lease(index, lease);
    lw__index_count_out_kind_locked(index, kind, 1);
}

/* ---- what is written ---------------------------------------------------------------------- */

/* Its holder hears of it when that is durable, where anything is, and then its time begins. */
static void announce(struct lw__index *index, struct lw__lease *lease) {
    lw__timer_cancel(&index->alarms, &lease->alarm.timer);
    if (!index->journal) {
        set_alarm(index, lease, atomic_load(&lease->until));
        return;
    }
    index->leases.put_off -= lease->is_put_off;
    lease->is_put_off = false;
    lease->is_unwritten = true;
    lw__journal_note(index->journal, LW__JOURNAL_LEASE, lease->task);
}

/* From now on, in the file as well. */
static void begin_anew(struct lw__index *index, struct lw__lease *lease, uint64_t now) {
    atomic_store(&lease->until, now + lease->length);
    lw__journal_note(index->journal, LW__JOURNAL_LEASE, lease->task);
    set_alarm(index, lease, now + lease->length);
}

void lw__lease_put_written_locked(struct lw__index *index, const struct lw__task *task,
                                  uint64_t now) {
    struct lw__lease *lease = lw__lease_find(index, task->id);
    struct lw__settlement s = {
        .is_leased = true, .verdict = LW__VERDICT_GIVE_BACK, .is_uncounted = true};
    if (!lease || !lease->is_returned)
        return;
    lease->is_returned = false;
    s.id = lease->id;
    s.token = lease->token;
    lw__index_settle_locked(index, now, &s, 1);
}

/* A lease that is noted again already becomes durable with that note. A short wait for the disk is
 * not worth a second write: after a crash the lease ends that much earlier. */
void lw__lease_written_locked(struct lw__index *index, const struct lw__task *task, uint64_t now) {
    struct lw__lease *lease = lw__lease_find(index, task->id);
    if (!lease || !lease->is_unwritten || task->notes & LW__NOTE_LEASE)
        return;
    lease->is_unwritten = false;
    uint64_t until = now + lease->length;
    if (until - atomic_load(&lease->until) > lease->length / 4) {
        begin_anew(index, lease, now);
        return;
    }
    atomic_store(&lease->until, until);
    set_alarm(index, lease, until);
}

/* ---- a store that cannot write ------------------------------------------------------------ */

/* Whether its holder may have been unable to speak: everything that it says is answered when that
 * is durable. */
static bool is_hindered(const struct lw__index *index, const struct lw__lease *lease,
                        uint64_t now) {
    if (index->is_halted)
        return true;
    return index->turn_began_at > 0 && !lease->has_grace
           && now > index->turn_began_at + lease->length / 4;
}

bool lw__lease_is_over_locked(const struct lw__index *index, const struct lw__lease *lease,
                              uint64_t now) {
    return !lease->is_unwritten && !lease->is_put_off && now >= atomic_load(&lease->until)
           && !is_hindered(index, lease, now);
}

static void put_off(struct lw__index *index, struct lw__lease *lease) {
    lease->is_put_off = true;
    index->leases.put_off++;
}

static void go_on(struct lw__index *index, struct lw__lease *lease, uint64_t now,
                  bool has_stalled) {
    bool was_put_off = lease->is_put_off;
    bool is_near = has_stalled && atomic_load(&lease->until) < now + lease->length;
    if (lease->is_unwritten || !(was_put_off || is_near))
        return;
    lease->is_put_off = false;
    if (!lease->has_grace) {
        lease->has_grace = true;
        lw__timer_cancel(&index->alarms, &lease->alarm.timer);
        begin_anew(index, lease, now);
    } else if (was_put_off) {
        set_alarm(index, lease, now);
    }
}

void lw__leases_go_on_locked(struct lw__index *index, uint64_t now, bool has_stalled) {
    struct lw__ids *ids = &index->leases.ids;
    if (atomic_load(&index->leases.count) == 0 || (index->leases.put_off == 0 && !has_stalled))
        return;
    index->leases.put_off = 0;
    for (struct lw__lease *lease = as_lease(lw__ids_find_from(ids, 1)); lease;
         lease = as_lease(lw__ids_find_from(ids, lease->id + 1)))
        go_on(index, lease, now, has_stalled);
}

/* ---- claim -------------------------------------------------------------------------------- */

void lw__lease_announce_locked(struct lw__index *index, const struct lw__lane *lane) {
    if (lane->is_offered && lane->count > 0 && index->hooks.claimable)
        index->hooks.claimable(index->hooks.user, lw__index_queue_of_lane(lane)->number);
}

void lw__lease_announce_all_locked(struct lw__index *index) {
    for (uint32_t i = 0; i < index->queue_count; i++) {
        struct lw__lane *lane = lw__index_queue_at(index, i)->order.lanes;
        for (; lane; lane = lane->next_of_queue)
            lw__lease_announce_locked(index, lane);
    }
}

/* The error of an attempt whose lease ran out names its holder: that is written down with the task,
 * and so it is known after a restart, too. */
static void write_loss(char text[LW_TEXT_MAX + 1], const char *holder) {
    snprintf(text, LW_TEXT_MAX + 1, "the lease of %s ran out", holder);
}

/* Whether the last attempt that failed was one of this holder, whose lease ran out. */
static bool was_lost_by(const struct lw__task *task, const char *holder) {
    char text[LW_TEXT_MAX + 1];
    const struct lw__errors *errors = lw__see(&task->errors);
    if (!errors || errors->count == 0)
        return false;
    const struct lw__fault_entry *last = &errors->entries[errors->count - 1];
    if (last->fault != LW_FAULT_CRASH)
        return false;
    write_loss(text, holder);
    return strcmp((const char *)errors + last->text_at, text) == 0;
}

/* Whether the claim may have the first task of the lane. */
static bool is_wanted(struct lw__lease_claim *claim, const struct lw__lane *lane) {
    if (!claim->leaves_lost || !was_lost_by(lw__lane_first(lane), claim->holder))
        return true;
    claim->has_left = true;
    return false;
}

static bool is_before(const struct lw__task *a, const struct lw__task *b) {
    struct lw__order_key a_key = {.due = lw__see(&a->due_at), .id = a->id, .priority = a->priority};
    struct lw__order_key b_key = {.due = lw__see(&b->due_at), .id = b->id, .priority = b->priority};
    return lw__order_key_before(&a_key, &b_key);
}

/* A claim that is looking for the lane to take from. */
struct choice {
    struct lw__index *index;
    struct lw__lease_claim *claim;
    struct lw__lane *lane; /* whose first task comes before all others so far; NULL: none */
};

/* Of two lanes the one whose first task comes first; either may be NULL. */
static void prefer(struct choice *choice, struct lw__lane *lane) {
    choice->index->order.looks++;
    if (lane && (!choice->lane || is_before(lw__lane_first(lane), lw__lane_first(choice->lane))))
        choice->lane = lane;
}

/* The best lane of a heap. Only if its first task may not be had, all of them are looked at. */
static void look_at_offers(struct choice *choice, const struct lw__heap *offers, bool is_of_kind) {
    struct lw__lane *first = lw__offers_first(offers, is_of_kind);
    if (!first || is_wanted(choice->claim, first)) {
        prefer(choice, first);
        return;
    }
    for (uint32_t i = 1; i < offers->count; i++) {
        struct lw__lane *lane = lw__offers_at(offers, is_of_kind, i);
        if (is_wanted(choice->claim, lane))
            prefer(choice, lane);
    }
}

static void look_at_queue(struct choice *choice, const struct lw__queue *queue) {
    const struct lw__lease_claim *claim = choice->claim;
    if (claim->kind_count == 0)
        look_at_offers(choice, &queue->order.offered, false);
    for (uint32_t i = 0; i < claim->kind_count; i++) {
        struct lw__lane *lane = lw__index_find_lane(queue, claim->kinds[i]);
        if (lane && lane->is_offered && lane->count > 0 && is_wanted(choice->claim, lane))
            prefer(choice, lane);
    }
}

/* If the first of all may not be had, the claim looks at every queue that offers something. */
static void look_everywhere(struct choice *choice) {
    const struct lw__order *order = &choice->index->order;
    struct lw__lane *first = lw__order_first_offered(order);
    if (!first || is_wanted(choice->claim, first)) {
        prefer(choice, first);
        return;
    }
    for (uint32_t i = 0; i < order->offering.count; i++)
        look_at_offers(choice, &lw__order_offering_at(order, i)->offered, false);
}

static struct lw__lane *choose(struct lw__index *index, struct lw__lease_claim *claim) {
    struct choice choice = {.index = index, .claim = claim};
    for (uint32_t i = 0; i < claim->queue_count; i++)
        look_at_queue(&choice, lw__index_queue_at(index, claim->queues[i]));
    for (uint32_t i = 0; claim->queue_count == 0 && i < claim->kind_count; i++)
        look_at_offers(&choice, &lw__index_kind_at(index, claim->kinds[i])->order.offered, true);
    if (claim->queue_count == 0 && claim->kind_count == 0)
        look_everywhere(&choice);
    return choice.lane;
}

/* The same, of a kind that has a place; NULL: there is none. */
static struct lw__lane *choose_open(struct lw__index *index, struct lw__lease_claim *claim) {
    struct lw__lane *lane = choose(index, claim);
    while (lane && lw__kind_is_full(lane->kind)) {
        lw__index_withhold_locked(index, lane);
        lane = choose(index, claim);
    }
    return lane;
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
    struct lw__lease *lease = add(index, task, token, now, claim->until, claim->holder);
    if (!lease)
        return LW_ENOMEM;
    lw__order_remove(&index->order, task);
    index->last_token = token;
    lw__index_begin(&index->store, task, token, now);
    announce(index, lease);
    if (lw__kind_is_full(kind))
        lw__index_withhold_locked(index, lane);
    claim->leased[claim->count++] = (struct lw__leased){.id = task->id, .token = token};
    return LW_OK;
}

/* A lease can neither be told nor extended now; see lw__index_lease. */
static int check_leasing(struct lw__index *index) {
    if (index->restraints & (LW__STORE_NO_CLAIM | LW__STORE_NO_PUT))
        return LW_ESTOPPING;
    if (index->is_halted)
        return index->trouble.status;
    return lw__index_is_slow_locked(index) ? LW_ESYSTEM : LW_OK;
}

static bool can_lease_put(struct lw__index *index, const struct lw__lane *lane,
                          const struct lw__put *put, uint64_t now) {
    return lane->is_offered && !lw__kind_is_full(lane->kind) && put->due <= now && !put->is_taken
           && !put->is_successor && put->scope == 0 && !put->stillborn
           && !(put->spec && put->spec->run) && !lw__offers_first(&lane->queue->offered, false)
           && atomic_load(&index->leases.count) < LW__LEASES_MAX && check_leasing(index) == LW_OK;
}

/* The caller has reserved the note. */
bool lw__lease_put_locked(struct lw__index *index, struct lw__task *task, struct lw__put *put,
                          uint64_t now) {
    struct lw__lane *lane = lw__index_find_lane(lw__index_queue_of(index, task), task->kind);
    uint64_t token = index->last_token + 1;
    if (!can_lease_put(index, lane, put, now))
        return false;
    struct lw__lease *lease = add(index, task, token, now, now + put->lease_ns, put->holder);
    if (!lease)
        return false;
    index->last_token = put->token = token;
    lw__index_move(index, task, LW__EVENT_ENQUEUE, now);
    lw__index_begin(&index->store, task, token, now);
    announce(index, lease);
    if (lw__kind_is_full(lane->kind))
        lw__index_withhold_locked(index, lane);
    return true;
}

static int lease_all(struct lw__index *index, struct lw__lease_claim *claim, uint64_t now) {
    struct lw__lane *lane;
    int rc = LW_OK;
    while (rc == LW_OK && claim->count < claim->max && (lane = choose_open(index, claim)) != NULL)
        rc = lease_first(index, lane, claim, now);
    return claim->count > 0 ? LW_OK : rc;
}

static int look(struct lw__index *index, struct lw__lease_claim *claim) {
    claim->has_some = claim->max > 0 && choose_open(index, claim) != NULL;
    return LW_OK;
}

int lw__index_lease(struct lw__store *store, uint64_t now, struct lw__lease_claim *claim) {
    struct lw__index *index = store->index;
    claim->count = 0;
    claim->has_left = claim->has_some = false;
    lw__index_lock(index);
    int rc = check_leasing(index);
    if (rc == LW_OK)
        rc = claim->only_looks ? look(index, claim) : lease_all(index, claim, now);
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

static int extend_locked(struct lw__index *index, struct lw__lease *lease, uint64_t now,
                         uint64_t until) {
    uint32_t flags = lw__task_flags(lease->task);
    if (flags & LW__TASK_SCOPED && !lw__scope_is_present_locked(index, lease->task))
        return LW_ELEASE;
    if (index->journal && !lw__journal_reserve(index->journal, 1))
        return LW_ENOMEM;
    lease->has_grace = false;
    if (until > atomic_load(&lease->until)) {
        atomic_store(&lease->until, until);
        lease->length = until - now;
        announce(index, lease);
    }
    return flags & LW__TASK_CANCELLING ? LW_PENDING : LW_OK;
}

int lw__index_extend(struct lw__store *store, uint64_t now, uint64_t id, uint64_t token,
                     uint64_t until) {
    struct lw__index *index = store->index;
    lw__index_lock(index);
    struct lw__lease *lease = lw__lease_find(index, id);
    bool is_present = lease && lease->token == token && !lease->is_returned
                      && !lw__lease_is_over_locked(index, lease, now);
    int rc = is_present ? extend_locked(index, lease, now, until) : LW_ELEASE;
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
    if (is_hindered(index, lease, now)) {
        put_off(index, lease);
        return;
    }
    bool is_over = is_given_up(lw__index_kind_of(index, task), task, now);
    write_loss(text, lease->holder);
    struct lw__settlement lost = {.task = task,
                                  .token = lease->token,
                                  .verdict = is_over ? LW__VERDICT_FAIL : LW__VERDICT_POSTPONE,
                                  .due = now,
                                  .fault = LW_FAULT_CRASH,
                                  .text = text};
    lw__index_settle_locked(index, now, &lost, 1);
}
