/* stores.h: what tests of the store port share. Everything here asserts that it works, unless its
 * name begins with try_.
 *
 *     STORE_TEST(a_task_is_claimed_once) {
 *         struct lw__task *task = PUT(rig, .key = "a");
 *         ...
 *     }
 *
 * runs on every store of the list in stores.c, each time on a fresh one that must give back all its
 * memory. */
#ifndef LW_TESTS_SUPPORT_STORES_H
#define LW_TESTS_SUPPORT_STORES_H

#include "pools.h"
#include "test.h"

#include "store/index.h"

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

enum { MS = 1000000, PRIORITY = 1000, MOVES_MAX = 4096 };

/* 0: the default, which is plenty of everything. */
struct rig_options {
    uint64_t task_limit, byte_limit, reserve;
    uint64_t resident_limit; /* 1: as little as can be (store/lean.h) */
    bool tells_failed, tells_aborted;
    bool has_threads; /* moves are not kept then */
};

struct rig {
    char url[64];
    struct rig_options options;
    struct lw__store *store;
    const struct lw__store_ops *ops;
    lw_test_memory *memory;
    const lw_allocator *allocator;
    lw_clock *clock;
    uint64_t now;         /* what it shows */
    uint16_t kind, queue; /* "mail" in "default" */
    /* what the hooks have seen */
    uint64_t wakes;
    uint64_t hastened; /* the last time that it was told */
    uint64_t cancels, cancelled;
    lw_reason reason;
    uint64_t scope_changes, scope_changed;
    uint64_t move_count; /* of state; the first are kept */
    struct {
        uint64_t id;
        lw_state from, to;
    } moves[MOVES_MAX];
};

void each_store(void (*body)(struct rig *rig), const struct rig_options *options);

#define STORE_TEST(name) STORE_TEST_WITH(name, .task_limit = 0)
#define STORE_TEST_WITH(name, ...)                                       \
    static void name##_on(struct rig *rig);                              \
    TEST(name) {                                                         \
        each_store(name##_on, &(const struct rig_options){__VA_ARGS__}); \
    }                                                                    \
    static void name##_on(struct rig *rig)

/* For loops of their own, such as those of failing memory. The URLs of all stores; how many. */
enum { STORES_MAX = 8 };
size_t list_stores(const char *urls[STORES_MAX]);
int try_open_rig(struct rig *rig, const char *url, const struct rig_options *options,
                 lw_test_memory *memory);
void close_rig(struct rig *rig);

/* Whether what it has survives a close. */
bool is_durable(const struct rig *rig);

/* Closes a durable store and opens it again, on the same clock. Pointers to tasks, and numbers of
 * kinds and queues, are others then; the rig's own are set. If it cannot be opened the rig is
 * closed. */
void reopen_rig(struct rig *rig);
int try_reopen_rig(struct rig *rig);

uint16_t add_kind(struct rig *rig, const char *name, uint32_t concurrency);
uint16_t add_queue(struct rig *rig, const char *name, uint32_t weight, uint64_t limit);
void set_retention(struct rig *rig, uint16_t kind, uint64_t ttl_ns, uint64_t max);
void pass(struct rig *rig, int64_t ms);

/* ---- put ---------------------------------------------------------------------------------- */

struct wish {
    uint16_t kind, queue; /* 0: the rig's own */
    uint32_t priority;    /* 0: PRIORITY */
    uint64_t due;
    bool is_inside, is_taken, may_drop;
    const char *holder; /* leased to this one for lease_ms, if that can be */
    uint64_t lease_ms;
    uint64_t scope, generation;
    const char *key; /* what follows needs a spec */
    lw_key_scope key_scope;
    uint64_t key_until;
    size_t payload_size;
    uint64_t after[4]; /* 0 ends them */
    lw_after_policy after_policy;
    uint64_t start_by, finish_by; /* 0: never */
    int64_t run_at_ms;
    bool is_told, is_call; /* has on_end; has a function, an argument and on_drop */
};

#define WISH(...) (&(const struct wish){__VA_ARGS__})

extern int drops; /* calls of on_drop */

/* The put has a spec of its own, which is freed by drop_put if it was not accepted. */
struct lw__put make_put(struct rig *rig, const struct wish *wish);
void drop_put(struct rig *rig, struct lw__put *put);

/* PUT(rig, .key = "a"); PUT(rig, 0): a plain one */
#define PUT(rig, ...) put((rig), WISH(__VA_ARGS__))
struct lw__task *put(struct rig *rig, const struct wish *wish);

/* The status of the call, or else of the put. */
#define TRY_PUT(rig, ...) try_put((rig), WISH(__VA_ARGS__), NULL)
int try_put(struct rig *rig, const struct wish *wish, uint64_t *id);

/* Puts as the engine does that may drop others: again when their end is durable. */
int put_dropping(struct rig *rig, struct lw__put *puts, size_t count);

/* Makes the queue full for a moment, and puts one more that has to go after it: whether the first
 * one was dropped for it. */
bool drop_oldest(struct rig *rig);

/* ---- attempts ----------------------------------------------------------------------------- */

struct attempt {
    struct lw__task *task;
    uint64_t token;
};

uint32_t claim(struct rig *rig, struct attempt *attempts, uint32_t max);
struct attempt claim_one(struct rig *rig); /* its task NULL: there was none */
struct attempt start_one(struct rig *rig);
struct attempt start_this(struct rig *rig, struct lw__task *task); /* it must be the next */

#define SETTLE(rig, attempt, ...) settle((rig), (attempt), &(struct lw__settlement){__VA_ARGS__})
int settle(struct rig *rig, struct attempt attempt, struct lw__settlement *settlement);
void finish(struct rig *rig, struct attempt attempt);

/* Begins and finishes the next task, whatever that takes; its id, 0: there is none. */
uint64_t run_next(struct rig *rig);

/* ---- looking ------------------------------------------------------------------------------ */

lw_state state_of_task(const struct lw__task *task);
struct lw__task *find(struct rig *rig, uint64_t id); /* NULL: none */
const char *last_error(const struct lw__task *task); /* NULL: none */
int change(struct rig *rig, uint64_t id, enum lw__change change);

#define assert_state(task, state) assert_state_at((task), (state), __FILE__, __LINE__)
void assert_state_at(const struct lw__task *task, lw_state state, const char *file, int line);

/* Nothing is counted, held or waiting that should not be: after everything has ended. */
void assert_empty(struct rig *rig);

#endif
