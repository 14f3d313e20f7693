/* The hot path: tasks from whose end nothing follows but that they are retained and make room; and
 * of these, those that are nothing but a kind, from their submit on. The general ways are put.c and
 * settle.c; what is here does the same for the plain case in one pass.
 *
 * Measured (callgrind, steady state): accepting a plain task takes 875 instructions by the general
 * way and half of that here; accounting for one that has finished likewise, because what a batch
 * has in common, its kind and queue, is counted once.
 *
 * What submitters do not need to see of the accounts is done under `back` alone. (With one lock for
 * all of it a task took 193 ns, with two 146; with four submitters 227 and 160.) And it looks at
 * nothing that they write but once a batch: see lw__magazine. */
#include "base/points.h"
#include "store/index.h"

/* ---- accept ------------------------------------------------------------------------------- */

static bool has_room(const struct lw__index *index, const struct lw__queue *queue) {
    return index->unfinished - index->reserve_used < index->options.task_limit
           && queue->unfinished < queue->limit && !lw__room_is_untold_locked(index);
}

static int put_plain_locked(struct lw__index *index, uint64_t now, const struct lw__put *put,
                            uint64_t *id) {
    struct lw__queue *queue = lw__index_queue_at(index, put->queue);
    struct lw__kind *kind = lw__index_kind_at(index, put->kind);
    if (index->restraints & LW__STORE_NO_PUT)
        return LW_ESTOPPING;
    if (!has_room(index, queue))
        return LW_EFULL;
    struct lw__lane *lane = lw__index_find_lane(queue, put->kind);
    if (__builtin_expect(!lane, 0))
        lane = lw__index_lane_locked(index, put->kind, put->queue);
    struct lw__task *task = lane ? lw__index_make_task_locked(index, 0, now) : NULL;
    if (!task)
        return LW_ENOMEM;
    task->priority = put->priority;
    task->kind = (uint16_t)put->kind;
    task->queue = (uint16_t)put->queue;
    if (now > index->last_due)
        index->last_due = now;
    atomic_store_explicit(&task->due_at, index->last_due, memory_order_relaxed);
    index->unfinished++;
    queue->unfinished++;
    queue->submitted++;
    kind->unfinished++;
    kind->submitted++;
    *id = task->id;
    lw__index_move_locked(index, task, LW__EVENT_ENQUEUE, now);
    lw__index_line_up_in_locked(index, lane, task);
    return LW_OK;
}

int lw__index_put_plain(struct lw__store *store, uint64_t now, const struct lw__put *put,
                        uint64_t *id) {
    struct lw__index *index = store->index;
    lw__brief_lock(&index->mu);
    int rc = put_plain_locked(index, now, put, id);
    lw__brief_unlock(&index->mu);
    return rc;
}

/* ---- account ------------------------------------------------------------------------------ */

#define LEAVE_MAX 256 /* tasks that leave on the way; the rest goes by the general one */

_Static_assert(LEAVE_MAX >= LW__CLAIM_MAX, "as many leave as come");

/* A batch of tasks that have ended, all of one kind and queue. */
struct account {
    struct lw__task *const *tasks;
    uint32_t count, plain_count;
    uint64_t plain_bytes; /* of their payloads */
    uint32_t leaving_count;
    struct lw__task *leaving[LEAVE_MAX];
    uint64_t leaving_ids[LEAVE_MAX];
};

static bool is_plain(const struct lw__index *index, const struct lw__task *task) {
    return lw__task_state(task) == LW_FINISHED && !(lw__task_flags(task) & ~LW__TASK_KEYED)
           && !index->journal;
}

/* Under back alone. From the first that is not plain on they are left for later: all are retained
 * in the order in which they ended. */
static void retain(struct lw__index *index, uint64_t now, struct account *account) {
    struct lw__kind *kind = lw__index_kind_of(index, account->tasks[0]);
    uint32_t plain = 0;
    for (; plain < account->count && is_plain(index, account->tasks[plain]); plain++)
        account->plain_bytes += lw__task_payload_size(account->tasks[plain]);
    if (plain == 0)
        return;
    account->plain_count = plain;
    lw__retain_plain(kind, account->tasks, plain);
    account->leaving_count =
        lw__retain_choose(kind, now, account->leaving, account->leaving_ids, LEAVE_MAX);
}

/* So that the lines of the table, anywhere in memory, are asked for at once. */
static void forget_keys_locked(struct lw__index *index, const struct account *account) {
    for (uint32_t i = 0; i < account->leaving_count; i++) {
        if (lw__task_flags(account->leaving[i]) & LW__TASK_KEYED)
            lw__keys_fetch(&index->keys, lw__task_spec(account->leaving[i])->key_hash);
    }
    for (uint32_t i = 0; i < account->leaving_count; i++) {
        struct lw__task *task = account->leaving[i];
        if (lw__task_flags(task) & LW__TASK_KEYED)
            lw__keys_remove(&index->keys, lw__task_spec(task)->key_hash, task);
    }
}

static void count_locked(struct lw__index *index, uint64_t now, const struct account *account) {
    struct lw__kind *kind = lw__index_kind_of(index, account->tasks[0]);
    struct lw__queue *queue = lw__index_queue_of(index, account->tasks[0]);
    uint32_t plain = account->plain_count;
    if (index->keys.count > 0)
        forget_keys_locked(index, account);
    lw__ids_remove_many(&index->ids, account->leaving_ids, account->leaving_count);
    index->swept += account->leaving_count;
    if (plain > 0)
        lw__retain_rest_locked(index, kind, now);
    for (uint32_t i = plain; i < account->count; i++)
        lw__index_end_locked(index, account->tasks[i], now);
    kind->finished += plain;
    kind->unfinished -= plain;
    queue->finished += plain;
    queue->unfinished -= plain;
    queue->bytes -= account->plain_bytes;
    index->unfinished -= plain;
    index->bytes -= account->plain_bytes;
    lw__index_disclaim_locked(index, kind, account->count);
}

/* Under back alone: no reader that comes from now on finds them. */
static void free_leaving(struct lw__index *index, uint64_t now, const struct account *account) {
    if (account->leaving_count == 0) {
        lw__grace_collect(&index->grace);
    } else {
        bool can_be_seen = !lw__grace_pass(&index->grace);
        for (uint32_t i = 0; i < account->leaving_count; i++)
            lw__index_free_whole_locked(index, account->leaving[i], can_be_seen);
    }
    lw__index_show_spares(index);
    bool has_retired = lw__index_has_retired(index);
    if (__builtin_expect(!has_retired && !index->spares.surplus, 1))
        return;
    lw__brief_lock(&index->mu);
    if (has_retired)
        lw__index_hasten_locked(index, now + LW__RETIRED_NS);
    lw__index_give_surplus_locked(index);
    lw__brief_unlock(&index->mu);
}

void lw__index_claim(struct lw__store *store, uint64_t now, struct lw__claim *claim) {
    struct lw__index *index = store->index;
    struct account account; /* not zeroed: it is large */
    account.tasks = claim->ended;
    account.count = claim->ended_count;
    account.plain_count = account.leaving_count = 0;
    account.plain_bytes = 0;
    lw__brief_lock(&index->back);
    if (account.count > 0)
        retain(index, now, &account);
    LW__POINT("account: retained, not counted");
    lw__brief_lock(&index->mu);
    if (account.count > 0)
        count_locked(index, now, &account);
    lw__index_take_locked(index, claim);
    lw__brief_unlock(&index->mu);
    LW__POINT("account: counted, not freed");
    if (account.count > 0)
        free_leaving(index, now, &account);
    lw__order_forget(claim->tasks, claim->count);
    lw__brief_unlock(&index->back);
}

void lw__index_account(struct lw__store *store, uint64_t now, struct lw__task *const *tasks,
                       uint32_t count) {
    struct lw__claim nothing = {.ended = tasks, .ended_count = count};
    lw__index_claim(store, now, &nothing);
}
