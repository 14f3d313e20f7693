/* Random operations on a store and on a plain model of it, which is a list of tasks that is
 * searched from end to end for everything. After each step both must agree on the state of every
 * task and scope, and on what the call has said. A durable store is closed now and then, and opened
 * again: all is as it was. Same seed, same run; LW_SEED=n replays one. */
#include "stores.h"

#include "base/random.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    TASKS_MAX = 600,
    SCOPES_MAX = 300,
    STEPS = 400,
    TASK_LIMIT = 40,
    RESERVE = 4,
    NARROW_LIMIT = 2,
    NARROW = 1 /* as the kind of a wish */
};

/* ---- the model ---------------------------------------------------------------------------- */

struct entry {
    uint64_t id;
    lw_state state;
    bool is_narrow; /* of the kind with a limit */
    uint32_t priority;
    uint64_t due;
    char key[4]; /* "": none */
    bool is_key_retained;
    uint64_t after[4];  /* those that it still waits for */
    uint64_t wanted[4]; /* as it was put */
    bool runs_anyway;
    uint64_t scope, generation;
    bool is_held, is_open, is_forced;
    bool is_cancelling;
    bool is_claimed, is_reserved, is_counted, is_gone;
    uint32_t attempts, errors;
    uint64_t token;
    struct lw__task *task;
};

struct place {
    uint64_t id, generation, version;
    char name[4];
    bool is_closed, is_gone;
};

static struct model {
    struct rig *rig;
    struct lw__random random;
    uint16_t narrow;
    struct entry tasks[TASKS_MAX];
    int count;
    struct place scopes[SCOPES_MAX];
    int scope_count;
    uint64_t last_id, last_token, last_generation;
} m;

static uint64_t below(uint64_t bound) {
    return lw__random_below(&m.random, bound);
}

static bool chance(int percent) {
    return below(100) < (uint64_t)percent;
}

static bool is_over(const struct entry *e) {
    return lw_state_is_terminal(e->state);
}

/* Others rely on an end when the file has it, or is about to: as long as a worker has the task it
 * has not said so. */
static bool is_known_over(const struct entry *e) {
    return is_over(e) && !(e->is_claimed && is_durable(m.rig));
}

static struct entry *entry_of(uint64_t id) {
    for (int i = 0; i < m.count; i++) {
        if (m.tasks[i].id == id && !m.tasks[i].is_gone)
            return &m.tasks[i];
    }
    return NULL;
}

static struct place *place_of(uint64_t id) {
    for (int i = 0; i < m.scope_count; i++) {
        if (m.scopes[i].id == id && !m.scopes[i].is_gone)
            return &m.scopes[i];
    }
    return NULL;
}

static int open_count(uint64_t scope) {
    int count = 0;
    for (int i = 0; i < m.count; i++)
        count += m.tasks[i].scope == scope && m.tasks[i].is_open;
    return count;
}

/* ---- the model: ends and releases --------------------------------------------------------- */

static void abort_entry(struct entry *e);

static bool waits(const struct entry *e) {
    return e->after[0] || e->is_held;
}

static void release(struct entry *e) {
    if (e->state == LW_CREATED && !waits(e))
        e->state = e->due > m.rig->now ? LW_SCHEDULED : LW_ENQUEUED;
}

/* Takes every mention of the id out; true: there was one. */
static bool drop_after(struct entry *e, uint64_t id) {
    int kept = 0, i = 0;
    for (; i < 4 && e->after[i]; i++) {
        if (e->after[i] != id)
            e->after[kept++] = e->after[i];
    }
    bool has_dropped = kept < i;
    while (kept < 4)
        e->after[kept++] = 0;
    return has_dropped;
}

static void lift_fence(uint64_t scope) {
    const struct place *place = place_of(scope);
    for (int i = 0; i < m.count; i++) {
        struct entry *e = &m.tasks[i];
        if (e->scope != scope || e->generation != place->generation || !e->is_held)
            continue;
        e->is_held = false;
        release(e);
    }
}

static bool has_members(uint64_t scope) {
    for (int i = 0; i < m.count; i++) {
        if (m.tasks[i].scope == scope && m.tasks[i].is_counted)
            return true;
    }
    return false;
}

static void review_scope(uint64_t scope) {
    struct place *place = place_of(scope);
    if (place && place->is_closed && !has_members(scope))
        place->is_gone = true;
}

/* It has ended, and nobody has it any more. */
static void end_entry(struct entry *e) {
    e->is_counted = e->is_held = false;
    if (e->is_open) {
        e->is_open = false;
        if (open_count(e->scope) == 0)
            lift_fence(e->scope);
    }
    for (int i = 0; i < m.count; i++) {
        struct entry *d = &m.tasks[i];
        if (d->state != LW_CREATED || !drop_after(d, e->id))
            continue;
        if (e->state != LW_FINISHED && !d->runs_anyway)
            abort_entry(d);
        else
            release(d);
    }
    review_scope(e->scope);
}

static void abort_entry(struct entry *e) {
    e->state = LW_ABORTED;
    if (!e->is_claimed)
        end_entry(e);
}

/* ---- the model: put ----------------------------------------------------------------------- */

static struct entry *key_holder(bool is_narrow, const char *key) {
    for (int i = 0; key[0] && i < m.count; i++) {
        struct entry *e = &m.tasks[i];
        if (!e->is_gone && e->is_narrow == is_narrow && strcmp(e->key, key) == 0
            && (!is_known_over(e) || e->is_key_retained))
            return e;
    }
    return NULL;
}

static uint64_t unfinished(void) {
    uint64_t count = 0;
    for (int i = 0; i < m.count; i++)
        count += m.tasks[i].is_counted;
    return count;
}

static uint64_t reserve_used(void) {
    uint64_t count = 0;
    for (int i = 0; i < m.count; i++)
        count += m.tasks[i].is_counted && m.tasks[i].is_reserved;
    return count;
}

static bool has_room(uint64_t extra) {
    return unfinished() - reserve_used() + extra + 1 <= TASK_LIMIT;
}

/* What the store should say; `scope` is what THIS means. */
static int judge(const struct wish *wish, const struct place *this) {
    const struct place *place = wish->scope == LW__SCOPE_THIS ? this
                                : wish->scope                 ? place_of(wish->scope)
                                                              : NULL;
    bool is_narrow = wish->kind == NARROW;
    for (int i = 0; i < 4 && wish->after[i]; i++) {
        if (wish->after[i] > m.last_id)
            return LW_EINVAL;
    }
    if (wish->key && key_holder(is_narrow, wish->key))
        return LW_EXISTS;
    if (wish->scope
        && (!place || place->is_closed
            || (wish->scope != LW__SCOPE_THIS && wish->generation != place->generation)))
        return LW_ELEASE;
    if (!has_room(0) && !(wish->is_inside && reserve_used() < RESERVE))
        return LW_EFULL;
    return LW_OK;
}

static void place_entry(struct entry *e, const struct wish *wish) {
    bool is_doomed = false;
    int count = 0;
    memcpy(e->wanted, wish->after, sizeof e->wanted);
    for (int i = 0; i < 4 && wish->after[i]; i++) {
        const struct entry *on = entry_of(wish->after[i]);
        if (on && !is_known_over(on))
            e->after[count++] = on->id;
        is_doomed |= on && !e->runs_anyway && is_known_over(on) && on->state != LW_FINISHED;
    }
    if (is_doomed || waits(e))
        e->state = LW_CREATED;
    else
        e->state = e->due > m.rig->now ? LW_SCHEDULED : LW_ENQUEUED;
    if (is_doomed)
        abort_entry(e);
}

static void add_entry(const struct wish *wish, const struct lw__put *put, const struct place *this,
                      bool is_held) {
    CHECK(m.count < TASKS_MAX);
    CHECK(put->id > m.last_id);
    m.last_id = put->id;
    struct entry *e = &m.tasks[m.count++];
    *e = (struct entry){.id = put->id,
                        .is_narrow = wish->kind == NARROW,
                        .priority = wish->priority,
                        .due = wish->due > m.rig->now ? wish->due : m.rig->now,
                        .is_key_retained = wish->key_scope == LW_KEY_RETAINED,
                        .runs_anyway = wish->after_policy == LW_AFTER_RUN,
                        .is_reserved = wish->is_inside && !has_room(0),
                        .is_held = is_held,
                        .task = put->task};
    e->is_counted = true;
    if (wish->key)
        memcpy(e->key, wish->key, strlen(wish->key));
    if (wish->scope) {
        const struct place *place = wish->scope == LW__SCOPE_THIS ? this : place_of(wish->scope);
        e->scope = place->id;
        e->generation = place->generation;
    }
    place_entry(e, wish);
}

/* ---- random tasks ------------------------------------------------------------------------- */

static uint64_t random_id(void) {
    return m.count > 0 && chance(95) ? m.tasks[below((uint64_t)m.count)].id : below(m.last_id + 2);
}

static struct place *random_scope(void) {
    struct place *place = m.scope_count > 0 ? &m.scopes[below((uint64_t)m.scope_count)] : NULL;
    return place && !place->is_gone && !place->is_closed ? place : NULL;
}

static struct wish random_wish(void) {
    static const char *const keys[] = {"a", "b", "c", "d"};
    struct wish wish = {.priority = 1 + (uint32_t)below(3)};
    wish.kind = chance(30) ? NARROW : 0;
    if (chance(25))
        wish.due = m.rig->now + (1 + below(20)) * MS;
    if (chance(30))
        wish.key = keys[below(4)];
    if (chance(30))
        wish.key_scope = LW_KEY_RETAINED;
    for (int i = 0; chance(25) && i < 3; i++)
        wish.after[i] = random_id();
    if (wish.after[0] == 0)
        memset(wish.after, 0, sizeof wish.after);
    for (int i = 1; i < 4 && wish.after[0]; i++) /* a 0 ends them */
        wish.after[i] = wish.after[i - 1] ? wish.after[i] : 0;
    wish.after_policy = chance(40) ? LW_AFTER_RUN : LW_AFTER_ABORT;
    wish.is_inside = chance(10);
    const struct place *place = chance(30) ? random_scope() : NULL;
    if (place) {
        wish.scope = place->id;
        wish.generation = place->generation - (chance(10) ? 1 : 0);
    }
    return wish;
}

/* ---- operations: tasks -------------------------------------------------------------------- */

/* The number of a kind is another one after the store was opened again. */
static struct lw__put put_of(const struct wish *wish) {
    struct wish plain = *wish;
    plain.kind = 0;
    struct lw__put put = make_put(m.rig, &plain);
    put.kind = wish->kind == NARROW ? m.narrow : m.rig->kind;
    return put;
}

static void do_put(void) {
    struct wish wish = random_wish();
    int expected = judge(&wish, NULL);
    struct lw__put one = put_of(&wish);
    int rc = m.rig->ops->put(m.rig->store, m.rig->now, &one, 1);
    assert_status(rc < 0 ? rc : one.status, expected);
    if (expected == LW_OK)
        add_entry(&wish, &one, NULL, wish.scope && open_count(wish.scope) > 0);
    else
        drop_put(m.rig, &one);
    if (expected == LW_EXISTS)
        assert_int_equal(one.id, key_holder(wish.kind != 0, wish.key)->id);
}

static int narrow_claims(void) {
    int count = 0;
    for (int i = 0; i < m.count; i++)
        count += m.tasks[i].is_narrow && m.tasks[i].is_claimed;
    return count;
}

static bool is_before(const struct entry *a, const struct entry *b) {
    if (a->priority != b->priority)
        return a->priority < b->priority;
    return a->due != b->due ? a->due < b->due : a->id < b->id;
}

static struct entry *first_enqueued(bool is_claimable) {
    struct entry *first = NULL;
    bool is_narrow_full = is_claimable && narrow_claims() >= NARROW_LIMIT;
    for (int i = 0; i < m.count; i++) {
        struct entry *e = &m.tasks[i];
        if (e->state == LW_ENQUEUED && !e->is_claimed && !(e->is_narrow && is_narrow_full)
            && (!first || is_before(e, first)))
            first = e;
    }
    return first;
}

static void do_claim(void) {
    uint32_t max = 1 + (uint32_t)below(4), count;
    struct attempt got[4];
    count = claim(m.rig, got, max);
    bool is_narrow = count > 0 && first_enqueued(true)->is_narrow;
    for (uint32_t i = 0; i < count; i++) {
        struct entry *e = first_enqueued(true);
        CHECK(e != NULL);
        assert_int_equal(got[i].task->id, e->id);
        CHECK(got[i].token > m.last_token);
        assert_int_equal(e->is_narrow, is_narrow);
        m.last_token = e->token = got[i].token;
        e->is_claimed = true;
    }
    const struct entry *next = first_enqueued(true);
    CHECK(count == max || is_narrow || !next || (count > 0 && next->is_narrow != is_narrow));
}

static struct entry *random_entry(bool (*is_wanted)(const struct entry *e)) {
    struct entry *found = NULL;
    uint64_t seen = 0;
    for (int i = 0; i < m.count; i++) {
        if (is_wanted(&m.tasks[i]) && below(++seen) == 0)
            found = &m.tasks[i];
    }
    return found;
}

static bool is_about_to_begin(const struct entry *e) {
    return e->is_claimed && e->state != LW_STARTED;
}

static bool is_started(const struct entry *e) {
    return e->state == LW_STARTED;
}

static void do_begin(void) {
    struct entry *e = random_entry(is_about_to_begin);
    if (!e)
        return;
    bool has_begun = m.rig->ops->begin(m.rig->store, e->task, e->token, m.rig->now);
    assert_int_equal(has_begun, e->state == LW_ENQUEUED);
    if (has_begun) {
        e->state = LW_STARTED;
        e->attempts++;
    } else {
        m.rig->ops->account(m.rig->store, m.rig->now, &e->task, 1);
        e->is_claimed = false;
        end_entry(e);
    }
}

static void do_unclaim(void) {
    struct entry *e = random_entry(is_about_to_begin);
    if (!e)
        return;
    m.rig->ops->unclaim(m.rig->store, m.rig->now, &e->task, 1);
    e->is_claimed = false;
    if (is_over(e))
        end_entry(e);
}

/* ---- operations: scopes ------------------------------------------------------------------- */

static void move_place(struct place *place, uint64_t generation) {
    CHECK(generation > m.last_generation);
    m.last_generation = place->generation = generation;
    for (int i = 0; i < m.count; i++) {
        struct entry *e = &m.tasks[i];
        if (e->scope != place->id || e->generation == generation || !e->is_counted)
            continue;
        if (e->state == LW_STARTED)
            e->is_open = !e->is_forced;
        else if (!is_over(e))
            abort_entry(e);
    }
}

static struct place *closed_place(const char *name) {
    for (int i = 0; i < m.scope_count; i++) {
        struct place *place = &m.scopes[i];
        if (!place->is_gone && strcmp(place->name, name) == 0)
            return place;
    }
    return NULL;
}

static void do_open(void) {
    static const char *const names[] = {"x", "y", "z"};
    const char *name = names[below(3)];
    struct place *place = closed_place(name);
    struct wish wish = {.priority = 1, .scope = LW__SCOPE_THIS};
    struct lw__put one = make_put(m.rig, &wish);
    struct lw__scope_copy copy = {.bytes = NULL};
    int expected = place && !place->is_closed ? LW_EXISTS : has_room(0) ? LW_OK : LW_EFULL;
    assert_status(
        m.rig->ops->scope_open(m.rig->store, m.rig->now, name, LW_TEXT("0"), &one, 1, &copy),
        expected);
    if (expected != LW_OK) {
        drop_put(m.rig, &one);
        return;
    }
    if (!place) {
        CHECK(m.scope_count < SCOPES_MAX);
        place = &m.scopes[m.scope_count++];
        *place = (struct place){.id = copy.id};
        memcpy(place->name, name, 2);
    }
    assert_int_equal(copy.id, place->id);
    place->is_closed = false;
    move_place(place, copy.generation);
    add_entry(&wish, &one, place, open_count(place->id) > 0);
}

static void close_place(struct place *place) {
    place->is_closed = true;
    review_scope(place->id);
}

static void do_move(void) {
    struct place *place = random_scope();
    if (!place)
        return;
    bool is_close = chance(20);
    struct lw__scope_change change = {.action = is_close ? LW__SCOPE_CLOSE : LW__SCOPE_MOVE};
    struct wish wish = {.priority = 2, .scope = LW__SCOPE_THIS};
    struct lw__put one = make_put(m.rig, &wish);
    int expected = is_close || has_room(0) ? LW_OK : LW_EFULL;
    assert_status(m.rig->ops->scope_change(m.rig->store, m.rig->now, place->id, place->generation,
                                           &change, &one, is_close ? 0 : 1),
                  expected);
    if (expected != LW_OK || is_close)
        drop_put(m.rig, &one);
    if (expected != LW_OK)
        return;
    move_place(place, change.new_generation);
    if (is_close)
        close_place(place);
    else
        add_entry(&wish, &one, place, open_count(place->id) > 0);
}

static void do_force(void) {
    struct place *place = random_scope();
    if (!place)
        return;
    struct lw__scope_change change = {.action = LW__SCOPE_FORCE};
    assert_status(
        m.rig->ops->scope_change(m.rig->store, m.rig->now, place->id, 0, &change, NULL, 0), LW_OK);
    for (int i = 0; i < m.count; i++) {
        struct entry *e = &m.tasks[i];
        if (e->scope == place->id && e->is_open) {
            e->is_open = false;
            e->is_forced = true; /* nobody waits for it any more */
        }
    }
    lift_fence(place->id);
}

/* ---- operations: settle ------------------------------------------------------------------- */

/* What was cancelled does not run again. */
static enum lw__verdict heed_cancel(const struct entry *e, enum lw__verdict verdict) {
    bool is_again = verdict == LW__VERDICT_POSTPONE || verdict == LW__VERDICT_GIVE_BACK;
    return is_again && e->is_cancelling ? LW__VERDICT_ABORT : verdict;
}

static void apply_verdict(struct entry *e, enum lw__verdict verdict, uint64_t due) {
    verdict = heed_cancel(e, verdict);
    e->is_claimed = e->is_cancelling = false;
    switch (verdict) {
    case LW__VERDICT_FINISH: e->state = LW_FINISHED; break;
    case LW__VERDICT_FAIL: e->state = LW_FAILED; break;
    case LW__VERDICT_ABORT: e->state = LW_ABORTED; break;
    case LW__VERDICT_POSTPONE:
        e->state = due > m.rig->now ? LW_SCHEDULED : LW_ENQUEUED;
        e->due = due > m.rig->now ? due : m.rig->now;
        return;
    case LW__VERDICT_GIVE_BACK: e->state = LW_ENQUEUED; return;
    }
}

/* Whether the task's scope has moved on; and if not, the scope. */
static bool is_stale(const struct entry *e, struct place **place) {
    *place = e->scope ? place_of(e->scope) : NULL;
    return e->scope && ((*place)->is_closed || (*place)->generation != e->generation);
}

static void settle_started(struct entry *e, struct lw__settlement *s, struct place *place,
                           const struct wish *wish, struct lw__put *next) {
    bool is_move = s->scope && s->scope->action != LW__SCOPE_WRITE;
    apply_verdict(e, s->verdict, s->due);
    struct place old = place ? *place : (struct place){0};
    if (is_move)
        place->generation = s->scope->new_generation;
    if (next)
        add_entry(wish, next, place, wish->scope && (is_move || open_count(place->id) > 0));
    if (is_move)
        place->generation = old.generation;
    if (is_over(e))
        end_entry(e);
    if (!is_move)
        return;
    move_place(place, s->scope->new_generation);
    if (s->scope->action == LW__SCOPE_CLOSE)
        close_place(place);
    else if (open_count(place->id) == 0)
        lift_fence(place->id);
}

static void do_settle(void) {
    struct entry *e = random_entry(is_started);
    if (!e)
        return;
    struct place *place;
    bool is_old = is_stale(e, &place);
    struct lw__scope_change change = {.action = (enum lw__scope_action)below(3)};
    struct wish wish = {.priority = 3, .is_inside = true};
    wish.scope = place && change.action != LW__SCOPE_CLOSE ? LW__SCOPE_THIS : 0;
    struct lw__put next = make_put(m.rig, &wish);
    struct lw__settlement s = {.verdict = (enum lw__verdict)below(5),
                               .due = m.rig->now + below(4) * MS,
                               .fault = LW_FAULT_ERROR,
                               .text = "x"};
    s.scope = place && chance(30) ? &change : NULL;
    s.successor_count = chance(30);
    s.successors = s.successor_count ? &next : NULL;
    bool is_lie = chance(5);
    struct attempt attempt = {e->task, e->token + is_lie};
    int expected = is_lie || is_old ? LW_ELEASE : LW_OK;
    if (expected == LW_OK && s.successor_count)
        expected = judge(&wish, place);
    assert_status(settle(m.rig, attempt, &s), expected);
    if (expected != LW_OK || !s.successor_count)
        drop_put(m.rig, &next);
    if (is_old && !is_lie) {
        apply_verdict(e, LW__VERDICT_ABORT, 0);
        end_entry(e);
    } else if (expected == LW_OK) {
        settle_started(e, &s, place, &wish, s.successor_count ? &next : NULL);
    }
}

/* ---- operations: the rest ----------------------------------------------------------------- */

static int expect_retry(struct entry *e) {
    if (e->state == LW_FINISHED)
        return LW_EINVAL;
    if (!is_over(e) || e->is_claimed)
        return LW_PENDING;
    struct entry *holder = key_holder(e->is_narrow, e->key);
    if (holder && holder != e)
        return LW_EXISTS;
    const struct place *place = e->scope ? place_of(e->scope) : NULL;
    if (e->scope && (!place || place->is_closed || place->generation != e->generation))
        return LW_ELEASE;
    if (place && open_count(place->id) > 0)
        return LW_PENDING;
    return has_room(0) ? LW_OK : LW_EFULL;
}

static void run_now(struct entry *e) {
    e->state = LW_ENQUEUED;
    e->due = m.rig->now;
}

static void do_retry(struct entry *e) {
    int expected = e->state == LW_SCHEDULED ? LW_OK : expect_retry(e);
    assert_status(change(m.rig, e->id, LW__CHANGE_RETRY), expected);
    if (expected != LW_OK)
        return;
    if (e->state != LW_SCHEDULED) {
        e->is_counted = true;
        e->is_reserved = false;
        e->attempts = 0;
    }
    run_now(e);
}

static void do_cancel(struct entry *e) {
    bool is_unwritten = e->state == LW_ABORTED && !is_known_over(e);
    int expected = is_unwritten             ? LW_OK
                   : is_over(e)             ? LW_ENOTFOUND
                   : e->state == LW_STARTED ? LW_PENDING
                                            : LW_OK;
    assert_status(change(m.rig, e->id, LW__CHANGE_CANCEL), expected);
    if (expected == LW_OK && !is_unwritten)
        abort_entry(e);
    e->is_cancelling = expected == LW_PENDING;
}

static void do_forget(struct entry *e) {
    int expected = is_over(e) && !e->is_claimed ? LW_OK : LW_PENDING;
    assert_status(change(m.rig, e->id, LW__CHANGE_FORGET), expected);
    e->is_gone = expected == LW_OK;
}

static void do_change(void) {
    uint64_t id = random_id();
    struct entry *e = entry_of(id);
    if (!e) {
        assert_status(change(m.rig, id, (enum lw__change)below(4)), LW_ENOTFOUND);
        return;
    }
    switch (below(4)) {
    case 0: do_cancel(e); break;
    case 1: do_retry(e); break;
    case 2: do_forget(e); break;
    default:
        assert_status(change(m.rig, id, LW__CHANGE_EXPEDITE),
                      e->state == LW_SCHEDULED ? LW_OK : LW_PENDING);
        if (e->state == LW_SCHEDULED)
            run_now(e);
        break;
    }
}

static void do_sweep(void) {
    pass(m.rig, (int64_t)below(8));
    while (m.rig->ops->sweep(m.rig->store, m.rig->now) <= m.rig->now) {
    }
    for (int i = 0; i < m.count; i++) {
        if (m.tasks[i].state == LW_SCHEDULED && m.tasks[i].due <= m.rig->now)
            m.tasks[i].state = LW_ENQUEUED;
    }
}

static void do_drop(void) {
    uint64_t lack = has_room(0) ? 0 : 1, had = 0;
    for (int i = 0; i < m.count; i++) {
        const struct entry *e = &m.tasks[i];
        had += e->state == LW_ENQUEUED && !e->is_claimed && !e->is_reserved;
    }
    struct entry *e = first_enqueued(false);
    bool can_drop = e && had >= lack;
    assert_int_equal(drop_oldest(m.rig), can_drop);
    m.last_id = m.rig->store->index->last_id;
    for (bool is_first = true; can_drop && (is_first || lack > 0); is_first = false) {
        e = first_enqueued(false);
        lack -= lack > 0 && !e->is_reserved;
        abort_entry(e);
    }
}

/* ---- comparing ---------------------------------------------------------------------------- */

static void compare_tasks(void) {
    for (int i = 0; i < m.count; i++) {
        const struct entry *e = &m.tasks[i];
        const struct lw__task *task = find(m.rig, e->id);
        CHECK((task == NULL) == e->is_gone);
        if (!task)
            continue;
        if (state_of_task(task) != e->state || (!is_over(e) && lw__see(&task->due_at) != e->due))
            fprintf(stderr, "task %llu, %s\n", (unsigned long long)e->id, lw_state_name(e->state));
        assert_state(task, e->state);
        assert_int_equal(lw__see(&task->attempts), e->attempts);
        if (!is_over(e))
            assert_int_equal(lw__see(&task->due_at), e->due);
    }
}

static void compare_figures(void) {
    struct lw__store_figures figures;
    struct lw__kind_figures kind;
    lw__index_figures(m.rig->store->index, &figures);
    assert_int_equal(figures.unfinished, unfinished());
    assert_int_equal(figures.reserve_used, reserve_used());
    lw__index_kind_figures(m.rig->store->index, m.narrow, &kind, 1);
    assert_int_equal(kind.claimed, narrow_claims());
}

static void compare_scopes(void) {
    for (int i = 0; i < m.scope_count; i++) {
        const struct place *place = &m.scopes[i];
        const struct lw__scope *scope = lw__scope_find_locked(m.rig->store->index, place->id);
        struct lw__scope_copy copy = {.bytes = NULL};
        CHECK((scope == NULL) == place->is_gone);
        if (place->is_gone || place->is_closed)
            continue;
        assert_status(m.rig->ops->scope_find(m.rig->store, place->name, &copy), LW_OK);
        assert_int_equal(copy.id, place->id);
        assert_int_equal(copy.generation, place->generation);
        assert_int_equal(copy.open, open_count(place->id));
    }
}

/* ---- closing and opening ------------------------------------------------------------------ */

static void stop_all(void) {
    for (int i = 0; i < m.count; i++) {
        struct entry *e = &m.tasks[i];
        struct place *place;
        bool is_old = e->is_claimed && is_stale(e, &place), is_running = e->state == LW_STARTED;
        if (is_running)
            assert_status(SETTLE(m.rig, ((struct attempt){e->task, e->token}),
                                 .verdict = LW__VERDICT_GIVE_BACK),
                          is_old ? LW_ELEASE : LW_OK);
        else if (e->is_claimed)
            m.rig->ops->unclaim(m.rig->store, m.rig->now, &e->task, 1);
        else
            continue;
        e->is_claimed = false;
        if (is_running)
            apply_verdict(e, is_old ? LW__VERDICT_ABORT : LW__VERDICT_GIVE_BACK, 0);
        if (is_over(e))
            end_entry(e);
    }
}

static void compare_errors(const struct entry *e, const struct lw__task *task) {
    const struct lw__errors *errors = lw__see(&task->errors);
    assert_int_equal(errors ? errors->count + errors->dropped : 0, e->errors);
}

static void count_errors(void) {
    for (int i = 0; i < m.count; i++) {
        const struct lw__task *task = find(m.rig, m.tasks[i].id);
        const struct lw__errors *errors = task ? lw__see(&task->errors) : NULL;
        m.tasks[i].errors = errors ? errors->count + errors->dropped : 0;
    }
}

/* One that it has waited for and that was retried since is waited for again. */
static void wait_anew(struct entry *e) {
    int count = 0;
    memset(e->after, 0, sizeof e->after);
    for (int i = 0; i < 4 && e->wanted[i]; i++) {
        const struct entry *on = entry_of(e->wanted[i]);
        if (on && !is_over(on))
            e->after[count++] = on->id;
    }
}

/* What runs would be charged for it: a store is closed when nothing does. */
static void do_reopen(void) {
    if (!is_durable(m.rig))
        return;
    stop_all();
    count_errors();
    reopen_rig(m.rig);
    m.narrow = add_kind(m.rig, "narrow", NARROW_LIMIT);
    for (int i = 0; i < m.count; i++) {
        struct entry *e = &m.tasks[i];
        e->task = find(m.rig, e->id);
        if (!e->task)
            continue;
        if (e->state == LW_CREATED)
            wait_anew(e);
        assert_int_equal(e->task->priority, e->priority);
        assert_int_equal(e->task->kind, e->is_narrow ? m.narrow : m.rig->kind);
        compare_errors(e, e->task);
    }
}

static void step(void) {
    uint64_t dice = below(100);
    if (dice < 25)
        do_put();
    else if (dice < 37)
        do_claim();
    else if (dice < 52)
        do_begin();
    else if (dice < 55)
        do_unclaim();
    else if (dice < 72)
        do_settle();
    else if (dice < 82)
        do_change();
    else if (dice < 87)
        do_sweep();
    else if (dice < 88)
        do_drop();
    else if (dice < 93)
        do_open();
    else if (dice < 97)
        do_move();
    else if (dice < 99)
        do_force();
    else
        do_reopen();
    compare_tasks();
    compare_figures();
    compare_scopes();
}

/* Everything is let go, so that nothing is left when the store says so. */
static void wind_up(void) {
    for (int i = 0; i < m.scope_count; i++) {
        struct lw__scope_change change = {.action = LW__SCOPE_CLOSE};
        if (!m.scopes[i].is_gone && !m.scopes[i].is_closed)
            assert_status(m.rig->ops->scope_change(m.rig->store, m.rig->now, m.scopes[i].id, 0,
                                                   &change, NULL, 0),
                          LW_OK);
    }
    for (int i = 0; i < m.count; i++) {
        struct entry *e = &m.tasks[i];
        if (e->state == LW_STARTED)
            SETTLE(m.rig, ((struct attempt){e->task, e->token}), .verdict = LW__VERDICT_ABORT);
        else if (e->is_claimed)
            m.rig->ops->unclaim(m.rig->store, m.rig->now, &e->task, 1);
    }
    for (int i = 0; i < m.count; i++)
        change(m.rig, m.tasks[i].id, LW__CHANGE_CANCEL);
    assert_empty(m.rig);
    assert_int_equal(m.rig->store->index->scopes.count, 0);
    assert_int_equal(m.rig->store->index->dependency_count, 0);
}

static uint64_t seed;

static void tell_seed(int signal_number) {
    (void)signal_number;
    fprintf(stderr, "seed %llu on %s: replay it with LW_SEED=%llu\n", (unsigned long long)seed,
            m.rig->url, (unsigned long long)seed);
}

static void run_seed(struct rig *rig) {
    memset(&m, 0, sizeof m);
    m.rig = rig;
    m.narrow = add_kind(rig, "narrow", NARROW_LIMIT);
    lw__random_seed(&m.random, seed);
    for (int i = 0; i < STEPS; i++)
        step();
    wind_up();
}

TEST(a_store_does_what_a_plain_model_does) {
    const char *given = getenv("LW_SEED");
    uint64_t first = given ? strtoull(given, NULL, 10) : 1;
    uint64_t last = given ? first : (uint64_t)(test_scale(240, 20000) / test_stride(6));
    signal(SIGABRT, tell_seed);
    for (seed = first; seed <= last; seed++)
        each_store(run_seed,
                   &(const struct rig_options){.task_limit = TASK_LIMIT, .reserve = RESERVE});
}
