/* A task as it lies in memory: 120 bytes, the same for every store that keeps the order of its
 * tasks here (memory, SQLite), whether the task waits, runs or is retained.
 *
 * Who may do what:
 * - `lock` is a sequence lock of this one task. All fields of the view are written between
 *   lw__task_lock and lw__task_unlock, with lw__put; readers copy them without a lock and look
 *   whether the sequence has changed (lw__task_view). So readers never hold up anybody.
 * - What it is a member of (place, timer, lists) is guarded by the store's locks (index.h), which
 *   are taken before the task's lock, never after: by both of them, but the ring of retained ones
 *   and the end of a place by `back` alone.
 * - spec, errors and output point to blocks that are never changed once they are published: a
 *   change is a new block, and the old one is retired (base/grace.h). Whoever has a consistent view
 *   can follow them as long as it is in its grace section.
 *
 * Release stores and acquire loads are what makes the sequence lock right on weak machines, too; on
 * x86 they cost nothing.
 */
#ifndef LW_STORE_TASK_H
#define LW_STORE_TASK_H

#include "base/clock.h"
#include "base/timer.h"
#include "store/state.h"

#include <legwork/task.h>
#include <stdatomic.h>

struct lw__lane;
struct lw__member;
struct lw__run_block;

#define lw__put(field, value) atomic_store_explicit(field, value, memory_order_release)
#define lw__see(field) atomic_load_explicit(field, memory_order_acquire)

/* Where an enqueued task stands in the order (order.h). Zeroed: nowhere. */
struct lw__place {
    struct lw__lane *lane;       /* NULL: nowhere */
    struct lw__run_block *block; /* NULL: in the lane's heap */
    uint32_t index;              /* in the block, or in the heap */
};

/* In a ring with a head of its own. */
struct lw__task_link {
    struct lw__task_link *next, *previous; /* NULL: in none */
};

/* Flags. Those of LW__TASK_SLOW need the store's locks when the task ends, and where there is a
 * journal a key does, too. */
#define LW__TASK_KEYED 0x0001u      /* stands in the table of keys */
#define LW__TASK_WAITED 0x0002u     /* somebody waits in lw_wait */
#define LW__TASK_AWAITED 0x0004u    /* other tasks wait for it (after) */
#define LW__TASK_LIMITED 0x0008u    /* has start_by or finish_by */
#define LW__TASK_SCOPED 0x0010u     /* belongs to a scope */
#define LW__TASK_TOLD 0x0020u       /* has on_end, or errors that the log wants (tells_errors) */
#define LW__TASK_CALL 0x0040u       /* has a function and an argument: spec->call */
#define LW__TASK_CANCELLING 0x0080u /* started, asked to give up */
#define LW__TASK_STUCK 0x0100u      /* started, past its hard deadline */
#define LW__TASK_UNSAVED 0x0200u    /* put or ended, and not durable yet (journal.h) */
#define LW__TASK_WALL 0x0400u       /* scheduled by wall time: run_at */
#define LW__TASK_RESERVED 0x0800u   /* its room is of the reserve */
#define LW__TASK_DRAINED 0x1000u    /* a drain of all has brought it forward once */
#define LW__TASK_SPENT 0x2000u      /* its argument has been received for good */
#define LW__TASK_LINGERS 0x4000u /* terminal, not retained any more, stays until its key is free */
#define LW__TASK_TELLING 0x8000u /* terminal, its end has to be told, or is being told */
#define LW__TASK_SLOW (0x003eu | LW__TASK_CALL)

/* A moment in the life of anything but a scheduled task. */
struct lw__alarm {
    struct lw__timer timer;
    enum lw__alarm_type { LW__ALARM_LIMIT, LW__ALARM_RETAINED, LW__ALARM_LEASE } type;
};

/* What a task was submitted with beyond the ordinary; never changed, but for on_end of a task that
 * is unfinished at the close (lw__index_take_left). The bytes follow. */
struct lw__spec {
    size_t size;                  /* of this block */
    uint64_t key_hash;            /* 0: not known yet (lw__index_pair) */
    uint64_t start_by, finish_by; /* on the clock; LW__NEVER: none */
    uint64_t key_until;           /* LW_KEY_WINDOW */
    int64_t run_at_ms;
    lw_key_scope key_scope;
    lw_after_policy after_policy;
    uint32_t after_count;
    uint32_t key_size, payload_size, value_size;
    lw_handler run;
    void *arg;
    void (*on_drop)(void *arg);
    void (*on_end)(void *user, const lw_snapshot *task);
    void *user;
    struct lw__member *member; /* of a scope (scope.h); the store's. NULL: none */
    /* guarded by the store's locks */
    struct lw__alarm limit;              /* start_by, finish_by */
    struct lw__task *task;               /* back from the alarm */
    struct lw__dependency *dependencies; /* of this task (index.h), one for each that is left */
    uint32_t after_left;                 /* of `after`, not terminal yet */
    bool is_doomed;                      /* one of them has not finished, and that is not to be */
    uint64_t after[];                    /* after_count; then key (with a zero), value, payload */
};

/* The errors of a task's attempts; never changed. */
struct lw__fault_entry {
    uint64_t at;
    uint32_t attempt;
    uint32_t fault;   /* lw_fault; 0: why it was aborted */
    uint32_t text_at; /* offset of its text, which ends with a zero */
};

struct lw__errors {
    size_t size;         /* of this block */
    uint64_t retried_at; /* by hand, the last time: its age counts from then; 0: never */
    uint32_t count, dropped;
    struct lw__fault_entry entries[]; /* then the texts */
};

/* What a handler has published; never changed. */
struct lw__output {
    size_t size; /* of this block */
    uint64_t done, total;
    uint32_t text_size, partial_size, result_size, checkpoint_size;
    bool has_result, has_checkpoint;
    char bytes[]; /* text with a zero, partial, result, checkpoint */
};

struct lw__task {
    /* the view: written under the task's lock, read by anybody */
    _Atomic uint32_t lock; /* odd: being written */
    _Atomic uint8_t state; /* lw_state; only lw__task_move writes it */
    uint8_t notes;         /* of the journal; guarded by the store's locks */
    _Atomic uint16_t flags;
    uint64_t id;         /* fixed */
    uint64_t created_at; /* fixed */
    _Atomic uint64_t enqueued_at;
    _Atomic uint64_t started_at;
    _Atomic uint64_t due_at;   /* terminal: when it ended */
    uint32_t priority;         /* fixed */
    uint16_t kind, queue;      /* fixed */
    _Atomic uint32_t attempts; /* begun and counted */
    _Atomic uint16_t crashes, snoozes;
    _Atomic uint64_t token;
    _Atomic uintptr_t body; /* its spec, or what is left of that: see lean.h; 0: nothing out of the
                             * ordinary */
    struct lw__errors *_Atomic errors;
    struct lw__output *_Atomic output;

    /* guarded by the store's locks */
    union {
        struct lw__timer timer;        /* scheduled: until due */
        struct lw__place place;        /* enqueued; zero: claimed */
        struct {                       /* created, terminal, or unsaved, which may be leased */
            struct lw__task_link link; /* retained or to be told; zero: not yet, or no more */
            bool is_end_noted;         /* in the journal; see lw__journal_has_end */
            bool is_found;             /* unsaved: a submit was told that this task has its key */
            bool is_needed; /* unsaved: something that is never taken back relies on this put */
        };
    };
};

_Static_assert(sizeof(struct lw__task) == 120, "with the slab's 8 bytes it fills two cache lines");

/* The view of a task: all fields of one moment. */
struct lw__task_view {
    lw_state state;
    uint32_t flags;
    uint64_t id;
    uint64_t created_at, enqueued_at, started_at, due_at;
    uint32_t priority;
    uint16_t kind, queue;
    uint32_t attempts, crashes, snoozes;
    uint64_t token;
    const struct lw__spec *spec; /* NULL: nothing out of the ordinary, or it is lean */
    uint32_t payload_size;       /* whether or not that is in memory */
    const struct lw__errors *errors;
    const struct lw__output *output;
};

void lw__task_wait(struct lw__task *task); /* the slow half of a lock: takes it */

static inline bool lw__task_try_lock(struct lw__task *task) {
    uint32_t seen = atomic_load_explicit(&task->lock, memory_order_relaxed);
    return !(seen & 1)
           && atomic_compare_exchange_weak_explicit(&task->lock, &seen, seen + 1,
                                                    memory_order_acquire, memory_order_relaxed);
}

/* Waits for the few instructions that another writer may need. */
static inline void lw__task_lock(struct lw__task *task) {
    if (__builtin_expect(!lw__task_try_lock(task), 0))
        lw__task_wait(task);
}

static inline void lw__task_unlock(struct lw__task *task) {
    atomic_store_explicit(&task->lock, atomic_load_explicit(&task->lock, memory_order_relaxed) + 1,
                          memory_order_release);
}

/* Copies a consistent view. Inside a grace section, or under the store's locks. */
void lw__task_view(const struct lw__task *task, struct lw__task_view *view);

static inline lw_state lw__task_state(const struct lw__task *task) {
    return (lw_state)lw__see(&task->state);
}

static inline uint32_t lw__task_flags(const struct lw__task *task) {
    return lw__see(&task->flags);
}

/* Under the task's lock. */
static inline void lw__task_flag(struct lw__task *task, uint32_t set, uint32_t clear) {
    lw__put(&task->flags, (uint16_t)((lw__see(&task->flags) & ~clear) | set));
}

/* ---- its state ---------------------------------------------------------------------------- */

/* A wrong event means that the program's memory or our code is broken: going on would lose or
 * repeat tasks. */
_Noreturn void lw__task_refuse(const struct lw__task *task, lw_state from,
                               enum lw__task_event event);

static inline uint64_t lw__at_least(uint64_t now, uint64_t earlier) {
    return now > earlier ? now : earlier;
}

/* What each state guarantees, after a move: its time, not before that of the one before. (Threads
 * read the clock before they get a lock, and a batch only once.) */
LW__INLINE void lw__task_stamp(struct lw__task *task, lw_state to, uint64_t now) {
    switch (to) {
    case LW_ENQUEUED: lw__put(&task->enqueued_at, lw__at_least(now, task->created_at)); break;
    case LW_STARTED:
        lw__put(&task->started_at, lw__at_least(now, lw__see(&task->enqueued_at)));
        break;
    case LW_FINISHED:
    case LW_FAILED:
    case LW_ABORTED:
        now = lw__at_least(now,
                           lw__at_least(lw__see(&task->enqueued_at), lw__see(&task->started_at)));
        lw__put(&task->due_at, lw__at_least(now, task->created_at));
        break;
    case LW_CREATED:
    case LW_SCHEDULED: break;
    }
}

/* Moves the task to the state that the event leads to (state.h), and stamps it; the only function
 * that writes a state. The caller holds the task's lock, or the task is not public yet. An illegal
 * event is a programmer's error and ends the program. Returns the state before. (In a header,
 * because most callers know the event: of 35 instructions some ten are left then, and a task moves
 * three times.) */
LW__INLINE lw_state lw__task_move(struct lw__task *task, enum lw__task_event event, uint64_t now) {
    lw_state from = lw__task_state(task), to = lw__state_after(from, event);
    if (__builtin_expect(to == 0, 0))
        lw__task_refuse(task, from, event);
    lw__task_stamp(task, to, now);
    lw__put(&task->state, (uint8_t)to);
    return from;
}

/* ---- the body ----------------------------------------------------------------------------- */

/* Odd: the task is lean (lean.h), and this is twice the size of its payload. */
static inline bool lw__task_is_lean(const struct lw__task *task) {
    return lw__see(&task->body) & 1;
}

/* NULL: nothing out of the ordinary, or it is lean. */
static inline struct lw__spec *lw__task_spec(const struct lw__task *task) {
    uintptr_t body = lw__see(&task->body);
    return body & 1 ? NULL : (struct lw__spec *)body;
}

static inline uint32_t lw__task_payload_size(const struct lw__task *task) {
    uintptr_t body = lw__see(&task->body);
    const struct lw__spec *spec = (const struct lw__spec *)body;
    return body & 1 ? (uint32_t)(body >> 1) : spec ? spec->payload_size : 0;
}

/* Under the task's lock, or before it is public. */
static inline void lw__task_set_spec(struct lw__task *task, struct lw__spec *spec) {
    lw__put(&task->body, (uintptr_t)spec);
}

static inline void lw__task_set_lean(struct lw__task *task, uint32_t payload_size) {
    lw__put(&task->body, (uintptr_t)payload_size << 1 | 1);
}

/* Until when it has to be finished; LW__NEVER: no limit, or it was retried by hand since. */
static inline uint64_t lw__task_finish_by(const struct lw__task *task) {
    return lw__task_flags(task) & LW__TASK_LIMITED ? lw__task_spec(task)->finish_by : LW__NEVER;
}

/* When it was accepted, or retried by hand since. Inside a grace section, or under the store's
 * mutex. */
static inline uint64_t lw__age_begins_at(uint64_t created_at, const struct lw__errors *errors) {
    return errors && errors->retried_at > created_at ? errors->retried_at : created_at;
}

/* ---- the parts of an output --------------------------------------------------------------- */

static inline const char *lw__output_partial(const struct lw__output *output) {
    return output->bytes + output->text_size + 1;
}

static inline const char *lw__output_result(const struct lw__output *output) {
    return lw__output_partial(output) + output->partial_size;
}

static inline const char *lw__output_checkpoint(const struct lw__output *output) {
    return lw__output_result(output) + output->result_size;
}

/* ---- the parts of a spec ------------------------------------------------------------------ */

/* Value and payload stand where a handler can read them as any type. */
static inline size_t lw__spec_align(size_t at) {
    return (at + 15) & ~(size_t)15;
}

/* Of a whole block, with a zero after the payload. */
static inline size_t lw__spec_size(size_t after_count, size_t key_size, size_t value_size,
                                   size_t payload_size) {
    size_t key_at = sizeof(struct lw__spec) + after_count * sizeof(uint64_t);
    return lw__spec_align(lw__spec_align(key_at + key_size + 1) + value_size) + payload_size + 1;
}

/* Whether the i-th of `after` was named before. */
static inline bool lw__spec_is_repeated(const struct lw__spec *spec, uint32_t i) {
    uint32_t first = 0;
    while (spec->after[first] != spec->after[i])
        first++;
    return first < i;
}

static inline const char *lw__spec_key(const struct lw__spec *spec) {
    return (const char *)&spec->after[spec->after_count];
}

static inline const char *lw__spec_value(const struct lw__spec *spec) {
    size_t key_at = (size_t)(lw__spec_key(spec) - (const char *)spec);
    return (const char *)spec + lw__spec_align(key_at + spec->key_size + 1);
}

static inline const char *lw__spec_payload(const struct lw__spec *spec) {
    size_t value_at = (size_t)(lw__spec_value(spec) - (const char *)spec);
    return (const char *)spec + lw__spec_align(value_at + spec->value_size);
}

#endif
