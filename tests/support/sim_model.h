/* sim_model.h: what an engine should do, said as plainly as possible: arrays, loops over all tasks,
 * and no memory of anything that can be counted anew. The simulation (sim.h) does each step to an
 * engine and to this, and compares.
 *
 * Times are nanoseconds on the engine's clock. Nothing here looks at the engine. */
#ifndef LW_TESTS_SUPPORT_SIM_MODEL_H
#define LW_TESTS_SUPPORT_SIM_MODEL_H

#include <legwork/engine.h>

enum { SIM_KINDS = 6, SIM_QUEUES = 3, SIM_AFTER = 3, SIM_THEN = 2, SIM_MANY = 4, SIM_TASKS = 1024 };

#define SIM_NEVER UINT64_MAX
#define SIM_MS UINT64_C(1000000)
#define SIM_BASE (UINT64_C(2300000000) * 1000 * SIM_MS) /* what clocks show at their beginning */

/* Which list of terminal tasks: finished, failed, aborted. */
enum { SIM_LISTS = 3 };

struct sim_kind {
    const char *name;
    bool has_handler;
    uint64_t concurrency; /* SIM_NEVER: any */
    uint64_t timeout, stuck;
    uint64_t min, max, max_age;
    uint64_t doublings, jitter_percent, attempts, crashes;
    uint64_t ttl[SIM_LISTS], keep[SIM_LISTS];
    lw_key_scope scope;
    uint64_t window;
    /* counted */
    uint64_t submitted, ended[SIM_LISTS], retried, crashed, snoozed;
};

struct sim_queue {
    const char *name;
    int weight;
    uint64_t limit, byte_limit;
    lw_overflow overflow;
    bool is_paused;
    uint64_t submitted;
};

/* A task as submitted. */
struct sim_spec {
    int kind, queue;
    int key; /* 0: none */
    lw_key_scope scope;
    uint64_t window;
    uint32_t priority;
    uint64_t delay, start_by, finish_by; /* from now; 0: none */
    int64_t run_at_ms;
    lw_id after[SIM_AFTER];
    int after_count;
    lw_after_policy policy;
    uint64_t bytes;
    bool is_call, is_told;
};

struct sim_offsets {
    int64_t created, retried, key_until, due, start_by, finish_by, started, ended, erred;
};

struct sim_task {
    struct sim_spec spec;
    lw_id id;
    bool is_there; /* has not left */
    lw_state state;
    uint64_t created, enqueued, started, ended, due;
    uint64_t retried; /* by hand, the last time; 0: never */
    uint64_t erred;   /* the last of its errors; 0: none */
    uint64_t start_by, finish_by, key_until;
    unsigned attempts, crashes, snoozes, errors;
    bool is_waiting[SIM_AFTER];   /* created: for which it still waits */
    bool is_doomed;               /* created: one of them has not finished */
    bool is_counted, is_reserved; /* takes room; of the reserve */
    bool is_claimed;
    bool is_wall, is_limited, is_asked, is_drained;
    bool is_cancelling, is_stuck, is_spent;
    bool is_telling, is_retained, is_lingering;
    bool is_bare; /* its key and times are there, and nothing else; more may be in the file */
    uint64_t retained_moment, retained_at;
    uint64_t rank; /* among those of a moment; 0: not known yet */
    /* in the file: whether it can run at once, and its times, less what they are on the clock */
    bool is_kept_enqueued;
    struct sim_offsets offsets_ms;
    /* the present attempt */
    uint64_t token, deadline, stuck_at;
    lw_reason reason;
};

struct sim_model {
    struct sim_kind kinds[SIM_KINDS];
    struct sim_queue queues[SIM_QUEUES];
    uint64_t task_limit, byte_limit, reserve;
    bool tells_failed, tells_aborted;
    bool is_durable; /* on a disk: no functions, and callers do not run what has no room */
    uint64_t now, step;
    lw_id leaving;   /* a task that ends together with what is put: its key is free for that */
    uint64_t moment; /* a step, or one of several ends in it whose order is known */
    int64_t wall_offset_ms, known_offset_ms; /* wall minus clock; as the last sweep found it */
    struct sim_task tasks[SIM_TASKS + 1];    /* by id */
    lw_id last_id;
    struct sim_task *ending[SIM_TASKS]; /* one, and what ends because of it */
    int ending_count;
    bool is_ending;   /* somebody settles them */
    bool is_in_order; /* the order in which tasks end is known */
    uint64_t last_token;
    lw_stop_mode stop_mode;
    bool is_stopping, no_release, no_claim, no_delay, is_out_of_time;
    bool has_stopped; /* the engine said so: it was quiet, and starts nothing more */
    uint64_t existed, refused, stuck_total;
};

bool sim_is_terminal(lw_state state);
int sim_list_of(lw_state state);
int64_t sim_wall_ms(const struct sim_model *m);

/* The task, NULL if it never was or has left. */
struct sim_task *sim_find(struct sim_model *m, lw_id id);

/* The task that keeps a key from others; 0: none. */
lw_id sim_key_holder(struct sim_model *m, int kind, int key);

/* Sums over all tasks. queue -1: all of them. */
struct sim_room {
    uint64_t tasks, bytes, reserved, reserved_bytes;
};
struct sim_room sim_room(const struct sim_model *m, int queue);
uint64_t sim_count(const struct sim_model *m, int kind, lw_state state);
uint64_t sim_claimed(const struct sim_model *m, int kind);

/* Puts tasks as the store does, all or none; ids and statuses of each. Returns the status of all.
 */
struct sim_put {
    struct sim_spec spec;
    bool is_inside, is_taken;
    bool has_dropped; /* others, to get in itself */
    int status;
    lw_id id;
};
int sim_put(struct sim_model *m, struct sim_put *puts, int count);

/* As the engine does, with the overflow policy of the first one's queue and no time to wait.
 * *guest is the task that the caller has to run then; 0: none. */
int sim_submit(struct sim_model *m, struct sim_put *puts, int count, lw_id *guest);

/* One that its caller has run and that is to be tried again: aborted, if it is one too many. */
void sim_evict(struct sim_model *m, struct sim_task *guest);

/* Who is next in a queue; NULL: nobody. */
struct sim_task *sim_first(struct sim_model *m, int queue);
void sim_claim(struct sim_model *m, struct sim_task *task);
void sim_unclaim(struct sim_model *m, struct sim_task *task);

/* The attempt begins; false: it was aborted meanwhile. */
bool sim_begin(struct sim_model *m, struct sim_task *task, uint64_t token);

/* What a handler says. */
struct sim_words {
    bool is_crash;
    lw_outcome outcome; /* 9: something that is none */
    bool has_wait, has_result;
    uint64_t wait;
    struct sim_put then[SIM_THEN];
    int then_count;
};

/* What lw_then says to a successor of this task: LW_OK, LW_EINVAL. */
int sim_then(const struct sim_task *task, const struct sim_spec *successor);

/* The attempt ends. A back-off with jitter may end anywhere from *due_min to *due_max: the task's
 * due is due_min then. */
void sim_end_attempt(struct sim_model *m, struct sim_task *task, const struct sim_words *words,
                     uint64_t *due_min, uint64_t *due_max);

/* A plain task is finished before it is accounted for. */
void sim_finish(struct sim_model *m, struct sim_task *task);
void sim_account(struct sim_model *m, struct sim_task *task);

int sim_cancel(struct sim_model *m, lw_id id);
int sim_retry_now(struct sim_model *m, lw_id id);
int sim_forget(struct sim_model *m, lw_id id);

/* The scheduler looks at the time. */
void sim_look(struct sim_model *m);

/* Why it should have looked; NULL: nothing is overdue. */
const char *sim_overdue(struct sim_model *m, lw_id *id);

/* A retained task has left the list; it lingers if it keeps its key. */
void sim_leave(struct sim_model *m, struct sim_task *task);
uint64_t sim_expiry(const struct sim_model *m, const struct sim_task *task);

void sim_tell_all(struct sim_model *m);

/* Closed, when nothing ran and all was told, and opened again. What counts begins anew; in which
 * order terminal tasks leave that were there before is not known. Times are as the wall clock tells
 * them then; it does not tell all of them if it was set back, and a key's window that was over
 * would not be any more. */
bool sim_can_reopen(struct sim_model *m);
void sim_reopen(struct sim_model *m);
void sim_begin_stop(struct sim_model *m, lw_stop_mode mode);
void sim_end_contexts(struct sim_model *m, lw_reason reason);
bool sim_is_quiet(struct sim_model *m);

#endif
