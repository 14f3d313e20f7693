/* What a program asked for, settled: defaults filled in, nonsense refused with a sentence. Once, at
 * open, and where kinds and queues are registered.
 *
 * None of these takes memory. Each returns LW_OK, or LW_EINVAL with a sentence about the first
 * wrong field, and then leaves *set untouched. Options may be NULL: all defaults.
 */
#ifndef LW_ENGINE_OPTIONS_H
#define LW_ENGINE_OPTIONS_H

#include "engine/retry.h"

#include <legwork/engine.h>

/* Counts and bytes: UINT64_MAX is no limit. Times: LW__NEVER, which is the same, is none. */

struct lw__engine_settings {
    char name[LW_POOL_NAME_MAX + 1];
    uint32_t workers; /* 0: the program drives the engine */
    uint32_t stuck_max;
    uint64_t task_limit;
    uint64_t byte_limit;
    uint64_t reserve;
    lw_overflow overflow;
    uint64_t submit_timeout_ns;
    void (*on_failed)(void *user, const lw_snapshot *task);
    void (*on_aborted)(void *user, const lw_snapshot *task);
    void (*on_stuck)(void *user, const lw_snapshot *task);
    void (*on_attempt)(void *user, const lw_snapshot *task);
    void *user;
    uint64_t seed; /* the given one, or one that nobody can foresee */
    lw_log log;    /* its write NULL: silence */
    lw_clock *clock;
    lw_allocator allocator;
    lw_role role;
    uint32_t kind_count_max, queue_count_max;
};

/* Also LW_ESYSTEM: no seed was given, and the system has no entropy. */
int lw__engine_settle_options(struct lw__engine_settings *set, const lw_engine_options *options,
                              lw_error *err);

/* How long tasks in one terminal state stay, and how many of a kind. */
struct lw__keep {
    uint64_t ns; /* 0: not at all */
    uint64_t max;
    uint64_t byte_max;
};

struct lw__kind_settings {
    uint32_t concurrency; /* UINT32_MAX: as many as there are workers */
    uint64_t timeout_ns;
    uint64_t
        stuck_ns; /* from the soft deadline, whether that is timeout_ns or the task's finish_by */
    struct lw__retry retry;
    struct lw__keep finished, failed, aborted;
    lw_key_scope key_scope; /* never LW_KEY_DEFAULT */
    uint64_t key_window_ns; /* 0: not given, and key_scope is not LW_KEY_WINDOW */
    void *user;
};

int lw__kind_settle_options(struct lw__kind_settings *set, const lw_handler_options *options,
                            lw_error *err);

struct lw__queue_settings {
    uint32_t weight;
    uint64_t limit;      /* where the queue has none of its own: the engine's */
    uint64_t byte_limit; /* likewise */
    lw_overflow overflow;
    uint64_t submit_timeout_ns;
};

/* `engine` is where a queue has its defaults from. */
int lw__queue_settle_options(struct lw__queue_settings *set,
                             const struct lw__engine_settings *engine,
                             const lw_queue_options *options, lw_error *err);

#endif
