/* How tasks come, wait and are claimed: see sim_model.h. Every rule of include/legwork/engine.h and
 * task.h that the simulation checks is written down here a second time, without a look at how src/
 * does it. */
#include "sim_model_internal.h"

#include "test.h"

#include <string.h>

bool sim_is_terminal(lw_state state) {
    return state == LW_FINISHED || state == LW_FAILED || state == LW_ABORTED;
}

int sim_list_of(lw_state state) {
    return state == LW_FINISHED ? 0 : state == LW_FAILED ? 1 : 2;
}

int64_t sim_wall_ms(const struct sim_model *m) {
    return (int64_t)(m->now / SIM_MS) + m->wall_offset_ms;
}

struct sim_task *sim_find(struct sim_model *m, lw_id id) {
    return id >= 1 && id <= m->last_id && m->tasks[id].is_there ? &m->tasks[id] : NULL;
}

uint64_t sim__after(uint64_t from, uint64_t wait) {
    return wait > SIM_NEVER - from ? SIM_NEVER : from + wait;
}

/* ---- counting ------------------------------------------------------------------------------ */

struct sim_room sim_room(const struct sim_model *m, int queue) {
    struct sim_room room = {0};
    for (lw_id id = 1; id <= m->last_id; id++) {
        const struct sim_task *t = &m->tasks[id];
        if (!t->is_counted || (queue >= 0 && t->spec.queue != queue))
            continue;
        room.tasks++;
        room.bytes += t->spec.bytes;
        room.reserved += t->is_reserved;
        room.reserved_bytes += t->is_reserved ? t->spec.bytes : 0;
    }
    return room;
}

uint64_t sim_count(const struct sim_model *m, int kind, lw_state state) {
    uint64_t count = 0;
    for (lw_id id = 1; id <= m->last_id; id++) {
        const struct sim_task *t = &m->tasks[id];
        count += t->is_there && t->state == state && (kind < 0 || t->spec.kind == kind);
    }
    return count;
}

uint64_t sim_claimed(const struct sim_model *m, int kind) {
    uint64_t count = 0;
    for (lw_id id = 1; id <= m->last_id; id++)
        count += m->tasks[id].is_claimed && (kind < 0 || m->tasks[id].spec.kind == kind);
    return count;
}

/* Others rely on an end when the file has it, or is about to: as long as a worker has the task it
 * has not said so. */
static bool is_known_over(const struct sim_model *m, const struct sim_task *t) {
    return sim_is_terminal(t->state) && !(t->is_claimed && m->is_durable);
}

lw_id sim_key_holder(struct sim_model *m, int kind, int key) {
    lw_id holder = 0;
    for (lw_id id = 1; id <= m->last_id; id++) {
        const struct sim_task *t = &m->tasks[id];
        if (!t->is_there || t->spec.kind != kind || t->spec.key != key)
            continue;
        if ((is_known_over(m, t) || id == m->leaving) && t->spec.scope != LW_KEY_RETAINED
            && !(t->spec.scope == LW_KEY_WINDOW && t->key_until > m->now))
            continue;
        CHECK(holder == 0); /* nothing twice while its key lives */
        holder = id;
    }
    return holder;
}

/* ---- moving -------------------------------------------------------------------------------- */

void sim__enqueue(struct sim_model *m, struct sim_task *t) {
    t->state = LW_ENQUEUED;
    t->enqueued = m->now;
}

void sim__schedule(struct sim_task *t, uint64_t due) {
    t->state = LW_SCHEDULED;
    t->due = due;
}

void sim__keep(struct sim_model *m, struct sim_task *t) {
    t->is_kept_enqueued = t->state == LW_ENQUEUED;
    t->offsets_ms.due = t->offsets_ms.started = t->offsets_ms.retried = m->wall_offset_ms;
    t->offsets_ms.start_by = t->offsets_ms.finish_by = t->offsets_ms.erred = m->wall_offset_ms;
}

void sim__shift(struct sim_task *t, uint64_t due) {
    t->offsets_ms.due += (int64_t)(t->due / SIM_MS) - (int64_t)(due / SIM_MS);
    t->due = due;
}

void sim__run_now(struct sim_model *m, struct sim_task *t) {
    t->due = m->now;
    t->is_wall = false;
    sim__enqueue(m, t);
}

void sim__err(const struct sim_model *m, struct sim_task *t) {
    t->errors++;
    t->erred = m->now;
}

void sim__abort_waiting(struct sim_model *m, struct sim_task *t) {
    t->state = LW_ABORTED;
    t->ended = m->now;
    sim__err(m, t);
    if (!t->is_claimed) /* else whoever has it accounts for it */
        sim__finish_end(m, t);
}

/* Of a task that waited for others and now waits for nobody. */
void sim__release(struct sim_model *m, struct sim_task *t) {
    if (t->is_wall) {
        int64_t wait = t->spec.run_at_ms - sim_wall_ms(m);
        sim__shift(t, wait > 0          ? m->now + (uint64_t)wait * SIM_MS
                      : t->due < m->now ? t->due
                                        : m->now);
    }
    if (t->due > m->now && !m->no_delay)
        sim__schedule(t, t->due);
    else
        sim__enqueue(m, t);
}

static bool is_waiting(const struct sim_task *t) {
    bool is_any = false;
    for (int i = 0; i < t->spec.after_count; i++)
        is_any |= t->is_waiting[i];
    return is_any;
}

static void step_dependents(struct sim_model *m, const struct sim_task *on) {
    for (lw_id id = 1; id <= m->last_id; id++) {
        struct sim_task *t = &m->tasks[id];
        if (!t->is_there || t->state != LW_CREATED)
            continue;
        bool has_waited = false;
        for (int i = 0; i < t->spec.after_count; i++) {
            bool is_it = t->is_waiting[i] && t->spec.after[i] == on->id;
            has_waited |= is_it;
            t->is_waiting[i] &= !is_it;
        }
        if (has_waited && on->state != LW_FINISHED && t->spec.policy == LW_AFTER_ABORT)
            sim__abort_waiting(m, t);
        else if (has_waited && !is_waiting(t)) {
            sim__release(m, t);
            sim__keep(m, t);
        }
    }
}

static bool must_be_told(const struct sim_model *m, const struct sim_task *t) {
    return t->spec.is_told || (t->state == LW_FAILED && m->tells_failed)
           || (t->state == LW_ABORTED && m->tells_aborted) || (t->spec.is_call && !t->is_spent);
}

uint64_t sim_expiry(const struct sim_model *m, const struct sim_task *t) {
    if (t->is_lingering)
        return t->key_until;
    return sim__after(t->ended, m->kinds[t->spec.kind].ttl[sim_list_of(t->state)]);
}

void sim_leave(struct sim_model *m, struct sim_task *t) {
    bool must_linger =
        t->is_retained && t->spec.key && t->spec.scope == LW_KEY_WINDOW && t->key_until > m->now;
    t->is_retained = false;
    t->is_lingering = must_linger;
    t->is_there = must_linger;
    t->is_bare = must_linger && t->state == LW_FINISHED;
}

static bool is_older(const struct sim_task *a, const struct sim_task *b) {
    return a->retained_moment != b->retained_moment ? a->retained_moment < b->retained_moment
                                                    : a->rank < b->rank;
}

/* The oldest of its list, if there are too many and it is clear which one that is; or, where one
 * had to leave, if its time is over, too: it was told late, and stood behind others. NULL:
 * neither. */
static struct sim_task *one_too_many(struct sim_model *m, const struct sim_task *like,
                                     bool has_left) {
    int list = sim_list_of(like->state);
    struct sim_task *oldest = NULL;
    uint64_t count = 0, as_old = 0;
    for (lw_id id = 1; id <= m->last_id; id++) {
        struct sim_task *t = &m->tasks[id];
        if (!t->is_retained || t->spec.kind != like->spec.kind || sim_list_of(t->state) != list)
            continue;
        count++;
        if (!oldest || is_older(t, oldest)) {
            oldest = t;
            as_old = 0;
        }
        as_old += !is_older(oldest, t);
    }
    bool must_leave = count > m->kinds[like->spec.kind].keep[list]
                      || (has_left && oldest && sim_expiry(m, oldest) <= m->now);
    return must_leave && as_old == 1 ? oldest : NULL;
}

/* Who has to leave at once does so; for the rest it is looked at who did (sim.c). */
void sim__retain(struct sim_model *m, struct sim_task *t) {
    const struct sim_kind *kind = &m->kinds[t->spec.kind];
    int list = sim_list_of(t->state);
    t->is_telling = false;
    t->is_retained = true;
    t->retained_moment = m->moment;
    t->rank = 0;
    t->retained_at = m->now;
    if (kind->ttl[list] == 0 || kind->keep[list] == 0)
        sim_leave(m, t);
    bool has_left = false;
    for (struct sim_task *oldest; (oldest = one_too_many(m, t, has_left)) != NULL;) {
        sim_leave(m, oldest);
        has_left = m->is_in_order;
    }
}

/* Of all that are ending: each before those that end because of it. */
static void settle_ends(struct sim_model *m) {
    m->is_ending = true;
    for (int i = 0; i < m->ending_count; i++) {
        struct sim_task *t = m->ending[i];
        step_dependents(m, t);
        m->moment += m->is_in_order;
        if (must_be_told(m, t))
            t->is_telling = true;
        else
            sim__retain(m, t);
    }
    m->ending_count = 0;
    m->is_ending = false;
}

/* What follows from a terminal state. */
void sim__finish_end(struct sim_model *m, struct sim_task *t) {
    m->kinds[t->spec.kind].ended[sim_list_of(t->state)]++;
    t->is_counted = t->is_reserved = false;
    t->offsets_ms.started = t->offsets_ms.ended = t->offsets_ms.retried = m->wall_offset_ms;
    t->offsets_ms.erred = m->wall_offset_ms;
    m->ending[m->ending_count++] = t;
    if (!m->is_ending)
        settle_ends(m);
}

void sim__end_by(struct sim_model *m, struct sim_task *t, lw_state state) {
    t->state = state;
    t->ended = m->now;
    t->is_claimed = t->is_cancelling = t->is_stuck = false;
    sim__finish_end(m, t);
}

/* ---- submit -------------------------------------------------------------------------------- */

bool sim__has_room(const struct sim_model *m, const struct sim_spec *s, bool is_inside,
                   bool *is_reserved) {
    struct sim_room all = sim_room(m, -1), queue = sim_room(m, s->queue);
    const struct sim_queue *q = &m->queues[s->queue];
    bool is_free = all.tasks - all.reserved < m->task_limit && queue.tasks < q->limit
                   && all.bytes + s->bytes <= m->byte_limit
                   && queue.bytes + s->bytes <= q->byte_limit;
    *is_reserved = !is_free && is_inside;
    return is_free
           || (is_inside && all.reserved < m->reserve
               && all.reserved_bytes + s->bytes <= m->byte_limit);
}

/* Callbacks are far behind: only tasks may submit until they have caught up. */
static bool is_untold(const struct sim_model *m) {
    uint64_t count = 0, bytes = 0;
    for (lw_id id = 1; id <= m->last_id; id++) {
        const struct sim_task *t = &m->tasks[id];
        if (!t->is_there || !t->is_telling)
            continue;
        count++;
        bytes += t->spec.bytes;
    }
    return (count >= 1024 && count >= m->task_limit) || bytes > m->byte_limit;
}

static bool can_start(const struct sim_model *m, const struct sim_spec *s) {
    const struct sim_kind *kind = &m->kinds[s->kind];
    return kind->has_handler && !m->queues[s->queue].is_paused
           && sim_claimed(m, s->kind) < kind->concurrency;
}

static void settle_times(struct sim_model *m, struct sim_task *t) {
    const struct sim_spec *s = &t->spec;
    int64_t wait = s->run_at_ms > 0 ? s->run_at_ms - sim_wall_ms(m) : 0;
    t->due = m->now + s->delay + (wait > 0 ? (uint64_t)wait * SIM_MS : 0);
    t->is_wall = s->run_at_ms > 0;
    t->start_by = s->start_by ? m->now + s->start_by : SIM_NEVER;
    t->finish_by = s->finish_by ? m->now + s->finish_by : SIM_NEVER;
    t->is_limited = s->start_by || s->finish_by;
    t->key_until = m->now + s->window;
}

bool sim__wait(struct sim_model *m, struct sim_task *t) {
    bool is_doomed = false;
    for (int i = 0; i < t->spec.after_count; i++) {
        const struct sim_task *on = sim_find(m, t->spec.after[i]);
        bool is_over = on && is_known_over(m, on);
        t->is_waiting[i] = on && !is_over;
        if (is_over && on->state != LW_FINISHED && t->spec.policy == LW_AFTER_ABORT)
            is_doomed = true;
    }
    return is_doomed;
}

static struct sim_task *add(struct sim_model *m, const struct sim_spec *spec) {
    CHECK(m->last_id + SIM_MANY < SIM_TASKS);
    lw_id id = ++m->last_id;
    struct sim_task *t = &m->tasks[id];
    *t = (struct sim_task){.spec = *spec,
                           .id = id,
                           .is_there = true,
                           .created = m->now,
                           .deadline = SIM_NEVER,
                           .stuck_at = SIM_NEVER};
    struct sim_kind *kind = &m->kinds[spec->kind];
    if (spec->scope == LW_KEY_DEFAULT)
        t->spec.scope = kind->scope;
    if (spec->window == 0)
        t->spec.window = kind->window;
    settle_times(m, t);
    t->is_counted = true;
    kind->submitted++;
    m->queues[spec->queue].submitted++;
    return t;
}

static void place(struct sim_model *m, struct sim_task *t, bool is_taken) {
    t->is_doomed = sim__wait(m, t);
    if (t->is_doomed || is_waiting(t)) {
        t->state = LW_CREATED;
    } else if (t->due > m->now) {
        sim__schedule(t, t->due);
    } else {
        sim__enqueue(m, t);
    }
    t->offsets_ms.created = t->offsets_ms.key_until = m->wall_offset_ms;
    sim__keep(m, t);
    if (is_taken)
        sim_claim(m, t);
}

static int check(struct sim_model *m, struct sim_put *put, lw_id known, bool *is_reserved) {
    const struct sim_spec *s = &put->spec;
    put->id = 0;
    for (int i = 0; i < s->after_count; i++)
        if (s->after[i] == 0 || s->after[i] > known)
            return LW_EINVAL;
    put->id = s->key ? sim_key_holder(m, s->kind, s->key) : 0;
    if (put->id)
        return LW_EXISTS;
    *is_reserved = false;
    if (!put->is_inside && !put->has_dropped && is_untold(m))
        return LW_EFULL;
    if (put->is_taken)
        return can_start(m, s) ? LW_OK : LW_EFULL;
    return sim__has_room(m, s, put->is_inside, is_reserved) ? LW_OK : LW_EFULL;
}

/* Has the key of one before it: that will be there. */
static bool is_double(const struct sim_put *puts, int i) {
    for (int k = 0; k < i; k++)
        if (puts[i].spec.key && puts[k].spec.key == puts[i].spec.key
            && puts[k].spec.kind == puts[i].spec.kind)
            return true;
    return false;
}

/* Of each, whether it exists or fits beside those before it; nothing is kept of it. */
static int check_all(struct sim_model *m, struct sim_put *puts, int count, bool *is_reserved) {
    lw_id known = m->last_id;
    int rc = LW_OK;
    for (int i = 0; rc >= 0 && i < count; i++) {
        rc = puts[i].status = check(m, &puts[i], known, &is_reserved[i]);
        if (rc != LW_EINVAL && is_double(puts, i))
            rc = puts[i].status = LW_EXISTS;
        if (rc == LW_OK) /* its room, for a moment */
            m->tasks[++m->last_id] = (struct sim_task){
                .spec = puts[i].spec, .is_counted = true, .is_reserved = is_reserved[i]};
    }
    m->last_id = known;
    return rc < 0 ? rc : LW_OK;
}

int sim_put(struct sim_model *m, struct sim_put *puts, int count) {
    bool is_reserved[SIM_MANY];
    int rc = check_all(m, puts, count, is_reserved);
    for (int i = 0; rc == LW_OK && i < count; i++) {
        lw_id holder =
            puts[i].spec.key ? sim_key_holder(m, puts[i].spec.kind, puts[i].spec.key) : 0;
        puts[i].status = holder ? LW_EXISTS : LW_OK;
        puts[i].id = holder;
        m->existed += holder != 0;
        if (holder)
            continue;
        struct sim_task *t = add(m, &puts[i].spec);
        t->is_reserved = is_reserved[i];
        puts[i].id = t->id;
        place(m, t, puts[i].is_taken);
    }
    for (int i = 0; rc == LW_OK && i < count; i++) { /* when all are there */
        struct sim_task *t = &m->tasks[puts[i].id];
        m->moment++;
        if (puts[i].status == LW_OK && t->is_doomed)
            sim__abort_waiting(m, t);
    }
    return rc;
}

static struct sim_task *first_enqueued(struct sim_model *m, int queue, bool must_start);

/* How much more than there is room for, with what is put; queue -1: at all. */
static struct sim_room lack(const struct sim_model *m, const struct sim_put *puts, int count,
                            const bool *is_put, int queue) {
    struct sim_room used = sim_room(m, queue), lack = {0};
    uint64_t limit = queue < 0 ? m->task_limit : m->queues[queue].limit;
    uint64_t byte_limit = queue < 0 ? m->byte_limit : m->queues[queue].byte_limit;
    used.tasks -= queue < 0 ? used.reserved : 0;
    for (int i = 0; i < count; i++) {
        if (!is_put[i] || (queue >= 0 && puts[i].spec.queue != queue))
            continue;
        used.tasks++;
        used.bytes += puts[i].spec.bytes;
    }
    lack.tasks = used.tasks > limit ? used.tasks - limit : 0;
    lack.bytes = used.bytes > byte_limit ? used.bytes - byte_limit : 0;
    return lack;
}

static bool is_for(const struct sim_put *puts, int count, const bool *is_put, int queue) {
    bool is = false;
    for (int i = 0; i < count; i++)
        is |= is_put[i] && puts[i].spec.queue == queue;
    return is;
}

static bool can_be_dropped(const struct sim_task *t) {
    return t->is_there && t->state == LW_ENQUEUED && !t->is_claimed;
}

/* Whether the queues of a batch, all or this one, could give enough. */
static bool could_give(const struct sim_model *m, const struct sim_put *puts, int count,
                       const bool *is_put, int queue) {
    struct sim_room lacks = lack(m, puts, count, is_put, queue), had = {0};
    for (lw_id id = 1; id <= m->last_id; id++) {
        const struct sim_task *t = &m->tasks[id];
        bool is_its =
            queue < 0 ? is_for(puts, count, is_put, t->spec.queue) : t->spec.queue == queue;
        if (!can_be_dropped(t) || !is_its)
            continue;
        had.tasks += queue >= 0 || !t->is_reserved;
        had.bytes += t->spec.bytes;
    }
    return had.tasks >= lacks.tasks && had.bytes >= lacks.bytes;
}

/* Also for those whose key comes free if all goes that can. */
static bool could_all_give(const struct sim_model *m, const struct sim_put *puts, int count) {
    bool is_put[SIM_MANY], is_enough;
    for (int i = 0; i < count; i++)
        is_put[i] = puts[i].status == LW_OK;
    for (int round = 0; round < count; round++)
        for (int i = 0; i < count; i++)
            is_put[i] |= puts[i].status == LW_EXISTS && can_be_dropped(&m->tasks[puts[i].id])
                         && is_for(puts, count, is_put, m->tasks[puts[i].id].spec.queue);
    is_enough = could_give(m, puts, count, is_put, -1);
    for (int q = 0; q < SIM_QUEUES; q++)
        is_enough &= !is_for(puts, count, is_put, q) || could_give(m, puts, count, is_put, q);
    return is_enough;
}

static void pay(struct sim_room *lack, uint64_t tasks, uint64_t bytes) {
    lack->tasks -= tasks < lack->tasks ? tasks : lack->tasks;
    lack->bytes -= bytes < lack->bytes ? bytes : lack->bytes;
}

/* The first of the queue go until `of` lacks nothing. */
static void drop_first(struct sim_model *m, int queue, struct sim_room *of, struct sim_room *all) {
    struct sim_task *first;
    while ((of->tasks > 0 || of->bytes > 0) && (first = first_enqueued(m, queue, false)) != NULL) {
        uint64_t places = first->is_reserved ? 0 : 1;
        pay(of, of == all ? places : 1, first->spec.bytes);
        if (of != all)
            pay(all, places, first->spec.bytes);
        sim__abort_waiting(m, first);
    }
}

/* Of each, whether something other than room stands in its way. */
static int check_but_room(struct sim_model *m, struct sim_put *puts, int count) {
    lw_id known = m->last_id;
    for (int i = 0; i < count; i++) {
        bool is_reserved;
        int rc = check(m, &puts[i], known, &is_reserved);
        if (rc != LW_EINVAL && is_double(puts, i)) {
            rc = LW_EXISTS;
            puts[i].id = 0;
        }
        puts[i].status = rc == LW_EFULL ? LW_OK : rc;
        if (puts[i].status < 0)
            return rc;
    }
    return LW_OK;
}

/* Queues have their turn once each: what a drop has set free in one that had it stays. */
static bool is_first_of_queue(const struct sim_put *puts, const bool *is_put, int i) {
    return is_put[i] && !is_for(puts, i, is_put, puts[i].spec.queue);
}

static void drop_for(struct sim_model *m, const struct sim_put *puts, int count) {
    bool is_put[SIM_MANY];
    for (int i = 0; i < count; i++)
        is_put[i] = puts[i].status == LW_OK;
    struct sim_room all = lack(m, puts, count, is_put, -1), own[SIM_QUEUES];
    for (int q = 0; q < SIM_QUEUES; q++)
        own[q] = lack(m, puts, count, is_put, q);
    m->is_in_order = true;
    m->is_ending = m->is_durable; /* they end together; only then do their dependents hear of it */
    for (int i = 0; i < count; i++) {
        int q = puts[i].spec.queue;
        if (!m->is_durable) /* dependents have gone, too; on a disk they have not yet */
            own[q] = lack(m, puts, count, is_put, q);
        if (is_first_of_queue(puts, is_put, i))
            drop_first(m, q, &own[q], &all);
    }
    for (int i = 0; i < count; i++)
        if (is_first_of_queue(puts, is_put, i))
            drop_first(m, puts[i].spec.queue, &all, &all);
    settle_ends(m);
    m->is_in_order = false;
}

/* All or nothing: if what waits for a worker is not enough, none of it is dropped. Those that are
 * dropped have to be told, too. */
static int drop_and_put(struct sim_model *m, struct sim_put *puts, int count) {
    int rc = LW_EFULL;
    bool is_enough_untold = is_untold(m);
    while (rc == LW_EFULL) {
        rc = check_but_room(m, puts, count);
        if (rc < 0)
            return rc;
        if (is_enough_untold || !could_all_give(m, puts, count))
            return LW_EFULL;
        drop_for(m, puts, count);
        for (int i = 0; i < count; i++)
            puts[i].has_dropped = true;
        rc = sim_put(m, puts, count);
    }
    return rc;
}

static int run_in_caller(struct sim_model *m, struct sim_put *puts, int count, lw_id *guest) {
    const struct sim_spec *s = &puts[0].spec;
    bool is_late = s->run_at_ms == 0 || s->run_at_ms <= sim_wall_ms(m);
    if (count > 1 || s->delay > 0 || !is_late || s->after_count > 0)
        return LW_ETIMEDOUT;
    if (m->is_durable) { /* a key that is taken is found all the same */
        int rc = sim_put(m, puts, 1);
        return rc == LW_EFULL ? LW_ETIMEDOUT : rc;
    }
    puts[0].is_taken = true;
    int rc = sim_put(m, puts, 1);
    if (rc == LW_OK && puts[0].status == LW_OK)
        *guest = puts[0].id;
    return rc == LW_EFULL ? LW_ETIMEDOUT : rc;
}

void sim_evict(struct sim_model *m, struct sim_task *guest) {
    struct sim_room all = sim_room(m, -1), queue = sim_room(m, guest->spec.queue);
    const struct sim_queue *q = &m->queues[guest->spec.queue];
    bool is_over = all.tasks - all.reserved > m->task_limit || queue.tasks > q->limit
                   || all.bytes > m->byte_limit || queue.bytes > q->byte_limit;
    if (is_over && guest->is_there && !sim_is_terminal(guest->state))
        sim__abort_waiting(m, guest);
}

/* More than would fit if nothing else were there. */
static bool is_too_large(const struct sim_model *m, const struct sim_put *puts, int count) {
    struct sim_room all = {0}, queues[SIM_QUEUES] = {0};
    bool is_too_much = false;
    for (int i = 0; i < count; i++) {
        int q = puts[i].spec.queue;
        if (puts[i].status == LW_EXISTS || is_double(puts, i))
            continue;
        all.tasks++;
        all.bytes += puts[i].spec.bytes;
        queues[q].tasks++;
        queues[q].bytes += puts[i].spec.bytes;
        is_too_much |=
            queues[q].tasks > m->queues[q].limit || queues[q].bytes > m->queues[q].byte_limit;
    }
    return is_too_much || all.tasks > m->task_limit || all.bytes > m->byte_limit;
}

int sim_submit(struct sim_model *m, struct sim_put *puts, int count, lw_id *guest) {
    *guest = 0;
    int rc = m->is_stopping ? LW_ESTOPPING : sim_put(m, puts, count);
    if (rc == LW_EFULL && !puts[0].is_inside && !is_too_large(m, puts, count)) {
        lw_overflow overflow = m->queues[puts[0].spec.queue].overflow;
        rc = overflow == LW_BLOCK         ? LW_ETIMEDOUT
             : overflow == LW_DROP_OLDEST ? drop_and_put(m, puts, count)
             : overflow == LW_CALLER_RUNS ? run_in_caller(m, puts, count, guest)
                                          : LW_EFULL;
    }
    if (rc < 0)
        m->refused += (uint64_t)count;
    for (int i = 0; rc == LW_OK && i < count; i++)
        if (puts[i].status == LW_EXISTS)
            return LW_EXISTS;
    return rc;
}

/* ---- claim --------------------------------------------------------------------------------- */

static bool is_before(const struct sim_task *a, const struct sim_task *b) {
    if (a->spec.priority != b->spec.priority)
        return a->spec.priority < b->spec.priority;
    return a->due != b->due ? a->due < b->due : a->id < b->id;
}

static struct sim_task *first_enqueued(struct sim_model *m, int queue, bool must_start) {
    struct sim_task *first = NULL;
    for (lw_id id = 1; id <= m->last_id; id++) {
        struct sim_task *t = &m->tasks[id];
        if (!t->is_there || t->state != LW_ENQUEUED || t->is_claimed || t->spec.queue != queue)
            continue;
        if ((!first || is_before(t, first)) && (!must_start || can_start(m, &t->spec)))
            first = t;
    }
    return first;
}

struct sim_task *sim_first(struct sim_model *m, int queue) {
    return first_enqueued(m, queue, true);
}

void sim_claim(struct sim_model *m, struct sim_task *t) {
    t->is_claimed = true;
    m->last_token++;
}

void sim_unclaim(struct sim_model *m, struct sim_task *t) {
    t->is_claimed = false;
    if (t->state == LW_ABORTED)
        sim__finish_end(m, t);
}

bool sim_begin(struct sim_model *m, struct sim_task *t, uint64_t token) {
    if (t->state == LW_ABORTED)
        return false;
    t->state = LW_STARTED;
    t->started = m->now;
    t->token = token;
    t->attempts++;
    t->reason = m->no_claim         ? LW_REASON_DROPPED
                : m->is_out_of_time ? LW_REASON_STOP
                                    : LW_REASON_NONE;
    t->deadline = sim__after(m->now, m->kinds[t->spec.kind].timeout);
    if (t->is_limited && t->finish_by < t->deadline)
        t->deadline = t->finish_by;
    t->stuck_at = SIM_NEVER;
    return true;
}
