/* Accepting tasks: keys, room, dependencies and scopes are checked and taken in one step under the
 * mutex, all of a batch or none of it. */
#include "store/index.h"

#include "base/memory.h"

#include <string.h>

/* ---- runnable, or waiting ----------------------------------------------------------------- */

void lw__index_hasten_locked(struct lw__index *index, uint64_t due) {
    if (due >= index->planned)
        return;
    index->planned = due;
    index->hooks.hasten(index->hooks.user, due);
}

void lw__index_line_up_in_locked(struct lw__index *index, struct lw__lane *lane,
                                 struct lw__task *task) {
    size_t ready = index->order.ready_count;
    lw__order_insert(&index->order, lane, task);
    if (index->order.ready_count > ready)
        index->hooks.wake(index->hooks.user);
    else
        lw__lease_announce_locked(index, lane);
}

void lw__index_line_up_locked(struct lw__index *index, struct lw__task *task) {
    struct lw__lane *lane = lw__index_find_lane(lw__index_queue_of(index, task), task->kind);
    lw__index_line_up_in_locked(index, lane, task);
}

void lw__index_schedule_locked(struct lw__index *index, struct lw__task *task,
                               enum lw__task_event event, uint64_t due, uint64_t now) {
    lw__task_lock(task);
    lw__put(&task->due_at, due);
    lw__index_move_locked(index, task, event, now);
    lw__task_unlock(task);
    lw__index_place_scheduled_locked(index, task, due);
}

void lw__index_place_scheduled_locked(struct lw__index *index, struct lw__task *task,
                                      uint64_t due) {
    memset(&task->timer, 0, sizeof task->timer);
    lw__timer_set(&index->scheduled, &task->timer, due);
    lw__index_kind_of(index, task)->scheduled++;
    index->scheduled_count++;
    if (lw__task_flags(task) & LW__TASK_WALL)
        index->wall_count++;
    lw__index_hasten_locked(index, lw__timer_next_due(&index->scheduled));
}

void lw__index_enqueue_locked(struct lw__index *index, struct lw__task *task,
                              enum lw__task_event event, uint64_t now) {
    memset(&task->place, 0, sizeof task->place);
    lw__index_move(index, task, event, now);
    lw__index_line_up_locked(index, task);
}

/* ---- checks ------------------------------------------------------------------------------- */

struct lw__keys_pair lw__index_pair(const struct lw__index *index, uint32_t kind,
                                    struct lw__spec *spec) {
    const char *key = lw__spec_key(spec);
    if (spec->key_hash == 0)
        spec->key_hash = lw__keys_pair(&index->keys, kind, key, spec->key_size).hash;
    return (struct lw__keys_pair){
        .kind = kind, .key = key, .key_size = spec->key_size, .hash = spec->key_hash};
}

struct lw__task *lw__index_key_holder_locked(struct lw__index *index, const struct lw__put *put,
                                             uint64_t now) {
    struct lw__keys_pair pair = lw__index_pair(index, put->kind, put->spec);
    struct lw__task *holder = lw__keys_find(&index->keys, &pair);
    /* In a file its end has to stand before the put of whoever takes the key next, or beside it. */
    if (!holder
        || (holder != index->ending
            && (!lw_state_is_terminal(lw__task_state(holder)) || !lw__journal_has_end(holder))))
        return holder;
    const struct lw__spec *spec = lw__task_spec(holder);
    if (spec->key_scope == LW_KEY_RETAINED)
        return holder;
    return spec->key_scope == LW_KEY_WINDOW && spec->key_until > now ? holder : NULL;
}

bool lw__index_has_been_locked(const struct lw__index *index, uint64_t id) {
    if (id >= LW__OUTSIDE_IDS)
        return id < index->outside_from || lw__ids_find(&index->ids, id);
    return id > 0 && id <= index->last_id;
}

/* Dependencies must be on tasks that were there once. */
static int check_after(const struct lw__index *index, const struct lw__spec *spec) {
    for (uint32_t i = 0; i < spec->after_count; i++) {
        if (!lw__index_has_been_locked(index, spec->after[i]))
            return LW_EINVAL;
    }
    return LW_OK;
}

static bool has_key(const struct lw__put *put) {
    return put->spec && put->spec->key_size > 0;
}

/* ---- doubles ------------------------------------------------------------------------------ */

#define DOUBLE_SLOTS 2048
_Static_assert(2 * LW_SUBMIT_MAX <= DOUBLE_SLOTS && 2 * LW_THEN_MAX <= DOUBLE_SLOTS,
               "a batch fills half of them at most");

/* A kind that has no number of its own yet must not leave its hash behind. */
static struct lw__keys_pair pair_of(const struct lw__index *index, const struct lw__put *put) {
    if (put->kind < LW__UNNAMED)
        return lw__index_pair(index, put->kind, put->spec);
    return lw__keys_pair(&index->keys, put->kind, lw__spec_key(put->spec), put->spec->key_size);
}

static bool has_same_key(const struct lw__put *a, const struct lw__put *b) {
    return a->kind == b->kind && a->spec->key_size == b->spec->key_size
           && memcmp(lw__spec_key(a->spec), lw__spec_key(b->spec), a->spec->key_size) == 0;
}

/* Of several in a batch with one key the first is put; the others will find it there, and need no
 * room. */
static void find_doubles(const struct lw__index *index, struct lw__put *puts, size_t count) {
    uint16_t slots[DOUBLE_SLOTS]; /* the number of a put, from 1 on */
    for (size_t i = 0; i < count; i++)
        puts[i].is_double = false;
    if (count < 2 || count > DOUBLE_SLOTS / 2)
        return;
    memset(slots, 0, sizeof slots);
    for (size_t i = 0; i < count; i++) {
        if (!has_key(&puts[i]))
            continue;
        size_t at = pair_of(index, &puts[i]).hash % DOUBLE_SLOTS;
        while (slots[at] && !has_same_key(&puts[slots[at] - 1], &puts[i]))
            at = (at + 1) % DOUBLE_SLOTS;
        puts[i].is_double = slots[at] != 0;
        if (!slots[at])
            slots[at] = (uint16_t)(i + 1);
    }
}

/* ---- one ---------------------------------------------------------------------------------- */

/* Whether it can be enqueued, or started at once if it is taken. */
static int check_lane(struct lw__index *index, const struct lw__put *put) {
    bool brings_function = put->is_unnamed && put->spec && put->spec->run;
    if (put->kind >= LW__UNNAMED || put->queue >= LW__UNNAMED)
        return put->is_taken && !brings_function ? LW_EFULL : LW_OK;
    const struct lw__lane *lane = lw__index_lane_locked(index, put->kind, put->queue);
    if (!lane)
        return LW_ENOMEM;
    uint32_t shut = lane->shut & ~(LW__SHUT_LIMIT | (brings_function ? LW__SHUT_NO_HANDLER : 0));
    return put->is_taken && (shut || lw__kind_is_full(lane->kind)) ? LW_EFULL : LW_OK;
}

/* Whether it exists already, and what stands in its way but room. */
static int check_but_room(struct lw__index *index, struct lw__put *put, uint64_t now) {
    bool is_known = put->kind < LW__UNNAMED;
    if (put->spec && put->spec->after_count > 0 && !put->stillborn
        && check_after(index, put->spec) < 0)
        return LW_EINVAL; /* whoever has its key may be dropped for others of these */
    if (put->is_double) {
        put->id = 0; /* that of the first is not known before it is accepted */
        return LW_EXISTS;
    }
    struct lw__task *holder =
        has_key(put) && is_known ? lw__index_key_holder_locked(index, put, now) : NULL;
    put->id = holder ? holder->id : 0;
    if (holder)
        return LW_EXISTS;
    int can_start = check_lane(index, put);
    if (can_start < 0)
        return can_start;
    if (put->stillborn)
        return LW_OK;
    int rc = put->scope ? lw__scope_check_locked(index, put) : LW_OK;
    if (rc < 0)
        return rc;
    if (put->is_taken && index->journal)
        return LW_EFULL; /* it could not run before it is durable */
    return LW_OK;
}

static int check_one(struct lw__index *index, struct lw__put *put, uint64_t now, bool is_untold) {
    int rc = check_but_room(index, put, now);
    if (rc != LW_OK || put->stillborn)
        return rc;
    bool has_room = put->is_taken || lw__room_is_there_locked(index, put);
    return has_room && (put->is_inside || !is_untold) ? LW_OK : LW_EFULL;
}

void lw__index_set_key_locked(struct lw__index *index, struct lw__task *task) {
    struct lw__keys_pair pair = lw__index_pair(index, task->kind, lw__task_spec(task));
    lw__keys_set(&index->keys, &pair, task);
}

/* ---- one task ----------------------------------------------------------------------------- */

static uint32_t flags_of(const struct lw__put *put) {
    const struct lw__spec *spec = put->spec;
    uint32_t reserved = put->is_reserved ? LW__TASK_RESERVED : 0;
    if (!spec)
        return reserved;
    return reserved | (spec->key_size > 0 ? LW__TASK_KEYED : 0)
           | (spec->start_by != LW__NEVER || spec->finish_by != LW__NEVER ? LW__TASK_LIMITED : 0)
           | (spec->on_end ? LW__TASK_TOLD : 0) | (spec->run ? LW__TASK_CALL : 0)
           | (spec->run_at_ms > 0 ? LW__TASK_WALL : 0) | (put->scope ? LW__TASK_SCOPED : 0);
}

static struct lw__task *make_task(struct lw__index *index, const struct lw__put *put,
                                  uint64_t now) {
    struct lw__task *task = lw__index_make_task_locked(index, put->outside_id, now);
    if (!task)
        return NULL;
    task->priority = put->priority;
    task->kind = (uint16_t)put->kind;
    task->queue = (uint16_t)put->queue;
    lw__task_set_spec(task, put->spec);
    atomic_store_explicit(&task->flags, (uint16_t)flags_of(put), memory_order_relaxed);
    return task;
}

static uint64_t due_of(struct lw__index *index, const struct lw__put *put, uint64_t now) {
    if (put->due > now)
        return put->due;
    if (now > index->last_due)
        index->last_due = now;
    return index->last_due; /* threads read the clock before they get the mutex */
}

void lw__index_set_limit_locked(struct lw__index *index, struct lw__task *task) {
    struct lw__spec *spec = lw__task_spec(task);
    uint64_t first = spec->start_by < spec->finish_by ? spec->start_by : spec->finish_by;
    spec->task = task;
    spec->limit.type = LW__ALARM_LIMIT;
    lw__timer_set(&index->alarms, &spec->limit.timer, first);
    lw__index_hasten_locked(index, lw__timer_next_due(&index->alarms));
}

/* Whether another task or a fence keeps it from running. */
bool lw__index_must_wait(const struct lw__task *task) {
    const struct lw__spec *spec = lw__task_spec(task);
    return lw__task_flags(task) & LW__TASK_UNSAVED
           || (spec
               && (spec->after_left > 0 || spec->is_doomed
                   || (spec->member && spec->member->is_held)));
}

/* The first state of a task. False: no memory. */
static bool place_task(struct lw__index *index, struct lw__task *task, struct lw__put *put,
                       uint64_t now) {
    uint64_t due = due_of(index, put, now);
    lw__put(&task->due_at, due);
    bool must_depend = put->spec && put->spec->after_count > 0 && !put->stillborn;
    if (must_depend && !lw__index_depend_locked(index, task))
        return false;
    if (must_depend && index->journal && put->is_successor)
        lw__journal_need_before(index, task);
    if (index->journal)
        lw__journal_note(index->journal, put->is_successor ? LW__JOURNAL_THEN : LW__JOURNAL_PUT,
                         task);
    if (put->holder && !must_depend && lw__lease_put_locked(index, task, put, now))
        return true; /* its holder hears of it when it is durable */
    if (lw__index_must_wait(task)) {
        lw__index_kind_of(index, task)->created++;
        index->created_count++;
        lw__index_move_locked(index, task, LW__EVENT_HOLD, now);
        return true;
    }
    if (put->is_taken) {
        lw__index_move_locked(index, task, LW__EVENT_ENQUEUE, now);
        lw__index_kind_of(index, task)->claimed++;
        index->claimed++;
        put->token = ++index->last_token;
        return true;
    }
    if (put->due > now) {
        lw__index_schedule_locked(index, task, LW__EVENT_DELAY, put->due, now);
        return true;
    }
    lw__index_move_locked(index, task, LW__EVENT_ENQUEUE, now); /* nobody looks at it yet */
    lw__index_line_up_locked(index, task);
    return true;
}

/* Undoes accept_one. Readers may have seen the task, and may be copying its spec: that is retired
 * here, and not the caller's any more. */
void lw__index_take_back_locked(struct lw__index *index, struct lw__task *task, uint64_t now) {
    struct lw__spec *spec = lw__task_spec(task);
    struct lw__errors *errors = lw__see(&task->errors); /* it may have been aborted meanwhile */
    bool is_claimed = lw__task_state(task) == LW_ENQUEUED && !task->place.lane;
    struct lw__lease *lease = lw__lease_find(index, task->id);
    if (lease)
        lw__lease_take_back_locked(index, lease);
    if (index->journal)
        lw__lean_count_out_locked(index, spec);
    lw__index_detach_locked(index, task);
    if (is_claimed)
        lw__index_disclaim_locked(index, lw__index_kind_of(index, task), 1);
    lw__index_count_out_locked(index, task);
    if (spec && spec->member)
        lw__scope_retract_locked(index, task);
    if (lw__task_flags(task) & LW__TASK_AWAITED)
        lw__index_release_dependents_locked(index, task, now);
    if (lw__task_flags(task) & LW__TASK_WAITED)
        lw__index_wake_awaits_locked(index, task->id);
    if (lw__task_flags(task) & LW__TASK_KEYED)
        lw__keys_remove(&index->keys, spec->key_hash, task);
    lw__ids_remove(&index->ids, task->id);
    lw__index_kind_of(index, task)->submitted--;
    lw__index_queue_of(index, task)->submitted--;
    if (spec)
        lw__index_retire_block_locked(index, spec, spec->size);
    if (errors)
        lw__index_retire_block_locked(index, errors, errors->size);
    lw__index_retire_task_locked(index, task);
}

void lw__index_disarm_locked(struct lw__index *index, const struct lw__task *task) {
    struct lw__spec *spec = lw__task_spec(task);
    if (!spec || !spec->on_end)
        return;
    spec->on_end = NULL; /* read by whoever tells the end, after it was durable */
    spec->user = NULL;
    if (index->journal)
        lw__lean_count_in_locked(index, spec);
}

static int accept_one(struct lw__index *index, struct lw__put *put, uint64_t now) {
    struct lw__task *task = make_task(index, put, now);
    if (!task)
        return LW_ENOMEM;
    bool has_joined = put->scope && lw__scope_join_locked(index, task, put);
    if ((put->scope && !has_joined) || !place_task(index, task, put, now)) {
        if (has_joined)
            lw__scope_withdraw_locked(index, task);
        lw__ids_remove(&index->ids, task->id);
        lw__index_retire_task_locked(index, task);
        return LW_ENOMEM;
    }
    uint32_t flags = lw__task_flags(task);
    if (flags & LW__TASK_KEYED)
        lw__index_set_key_locked(index, task);
    if (flags & LW__TASK_LIMITED)
        lw__index_set_limit_locked(index, task);
    if (index->journal)
        lw__lean_count_in_locked(index, put->spec);
    lw__index_kind_at(index, put->kind)->submitted++;
    lw__index_queue_at(index, put->queue)->submitted++;
    put->task = task;
    put->id = task->id;
    return LW_OK;
}

/* ---- all ---------------------------------------------------------------------------------- */

/* By what has ended and was not told. If others were dropped for these it was not so before, and
 * they were not dropped in vain. */
static bool is_barred(const struct lw__index *index, const struct lw__put *puts) {
    return puts[0].drops == 0 && lw__room_is_untold_locked(index);
}

/* Checks all, and takes the room for all. */
static int check_all(struct lw__index *index, uint64_t now, struct lw__put *puts, size_t count) {
    size_t keys = 0;
    bool is_untold = count > 0 && is_barred(index, puts);
    for (size_t i = 0; i < count; i++) {
        puts[i].task = NULL;
        puts[i].is_counted = puts[i].is_reserved = false;
    }
    find_doubles(index, puts, count);
    for (size_t i = 0; i < count; i++) {
        struct lw__put *put = &puts[i];
        put->status = check_one(index, put, now, is_untold);
        if (put->status < 0)
            return put->status;
        if (put->status == LW_OK) {
            lw__room_take_locked(index, put);
            keys += has_key(put);
        }
    }
    if (keys > 0 && index->ending)
        keys++; /* it gets its own key again if these are taken back */
    return keys == 0 || lw__keys_reserve(&index->keys, keys) ? LW_OK : LW_ENOMEM;
}

/* The holder of the key may not be durable yet. Whoever is told of it must not be left with nothing
 * when its put is taken back. */
static void note_found(struct lw__index *index, const struct lw__put *put) {
    struct lw__task *holder = index->journal ? lw__ids_find(&index->ids, put->id) : NULL;
    index->existed++;
    if (!holder || !(lw__task_flags(holder) & LW__TASK_UNSAVED))
        return;
    holder->is_found = true;
    if (put->is_successor)
        lw__journal_need(index->journal, holder);
}

static int accept_all(struct lw__index *index, uint64_t now, struct lw__put *puts, size_t count) {
    for (size_t i = 0; i < count; i++) {
        struct lw__put *put = &puts[i];
        struct lw__task *holder =
            count > 1 && has_key(put) ? lw__index_key_holder_locked(index, put, now) : NULL;
        if (holder) { /* also one of this batch */
            lw__room_give_back_locked(index, put);
            put->id = holder->id;
            put->status = LW_EXISTS;
        }
        if (put->status == LW_OK)
            put->status = accept_one(index, put, now);
        if (put->status < 0)
            return put->status;
        if (put->status == LW_EXISTS)
            note_found(index, put);
    }
    return LW_OK;
}

static void abort_doomed(struct lw__index *index, uint64_t now, struct lw__put *puts,
                         size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (puts[i].task && puts[i].stillborn)
            lw__index_abort_locked(index, puts[i].task, now, puts[i].stillborn);
        else if (puts[i].task && puts[i].spec && puts[i].spec->is_doomed)
            lw__index_abort_after_locked(index, puts[i].task, now);
    }
}

static int try_all(struct lw__index *index, uint64_t now, struct lw__put *puts, size_t count) {
    struct lw__journal *journal = index->journal;
    int rc = check_all(index, now, puts, count);
    if (rc == LW_OK && journal && !lw__journal_reserve(journal, 2 * count)) /* some end at once */
        rc = LW_ENOMEM;
    size_t noted = journal ? journal->batch.count : 0;
    if (rc == LW_OK)
        rc = accept_all(index, now, puts, count);
    if (rc == LW_OK) {
        abort_doomed(index, now, puts, count);
        return LW_OK;
    }
    if (journal)
        lw__journal_undo(journal, noted);
    for (size_t i = count; i-- > 0;) {
        if (puts[i].task) {
            lw__index_take_back_locked(index, puts[i].task, now);
            puts[i].spec = NULL;
            puts[i].task = NULL;
        } else {
            lw__room_give_back_locked(index, &puts[i]);
        }
    }
    return rc;
}

static int check_all_but_room(struct lw__index *index, uint64_t now, struct lw__put *puts,
                              size_t count) {
    for (size_t i = 0; i < count; i++) {
        puts[i].status = check_but_room(index, &puts[i], now);
        if (puts[i].status < 0)
            return puts[i].status;
    }
    return LW_OK;
}

/* Nothing but room stands in the way of all of them: it is made by dropping others, or not at
 * all. */
static int make_room(struct lw__index *index, uint64_t now, struct lw__put *puts, size_t count) {
    int rc = check_all_but_room(index, now, puts, count);
    if (rc == LW_OK && is_barred(index, puts))
        return LW_EFULL; /* those that are dropped have to be told, too */
    return rc == LW_OK && !lw__room_drop_locked(index, now, puts, count) ? LW_EFULL : rc;
}

int lw__index_put_locked(struct lw__index *index, uint64_t now, struct lw__put *puts,
                         size_t count) {
    int rc = try_all(index, now, puts, count);
    while (rc == LW_EFULL && puts[0].may_drop) { /* again: what had a key of theirs may have gone */
        rc = make_room(index, now, puts, count);
        if (rc < 0)
            break;
        puts[0].drops++;
        rc = try_all(index, now, puts, count);
        if (index->journal)
            break; /* there is room when it is durable that they have ended */
    }
    return rc;
}

static int judge(struct lw__index *index, uint64_t now, struct lw__put *puts, size_t count) {
    int rc = check_all(index, now, puts, count);
    for (size_t i = 0; i < count; i++)
        lw__room_give_back_locked(index, &puts[i]);
    if (rc != LW_EFULL || !puts[0].may_drop)
        return rc;
    rc = check_all_but_room(index, now, puts, count);
    if (rc == LW_OK && is_barred(index, puts))
        return LW_EFULL;
    return rc == LW_OK && !lw__room_can_drop_locked(index, puts, count) ? LW_EFULL : rc;
}

int lw__index_judge(struct lw__index *index, uint64_t now, struct lw__put *puts, size_t count) {
    lw__index_lock(index);
    int rc = index->restraints & LW__STORE_NO_PUT ? LW_ESTOPPING : judge(index, now, puts, count);
    lw__index_unlock(index);
    return rc;
}

static int put_unless_stopped(struct lw__index *index, uint64_t now, struct lw__put *puts,
                              size_t count) {
    return index->restraints & LW__STORE_NO_PUT ? LW_ESTOPPING
                                                : lw__index_put_locked(index, now, puts, count);
}

/* Whether it can neither retire nor end anything, come what may: it has no need of `back`. */
static bool is_light(const struct lw__index *index, const struct lw__put *put) {
    return !index->journal && !put->may_drop && !put->scope && !put->stillborn && !put->holder
           && (!put->spec || put->spec->after_count == 0);
}

int lw__index_put(struct lw__store *store, uint64_t now, struct lw__put *puts, size_t count) {
    struct lw__index *index = store->index;
    if (count == 1 && is_light(index, puts)) {
        lw__brief_lock(&index->mu);
        int rc = put_unless_stopped(index, now, puts, count);
        lw__brief_unlock(&index->mu);
        return rc;
    }
    lw__index_lock(index);
    int rc = put_unless_stopped(index, now, puts, count);
    lw__index_unlock(index);
    return rc;
}
