/* A claim costs what it costs, however many queues there are: work is counted, not timed. */
#include "engines.h"

#include "engine/engine_internal.h"

#include <legwork/lease.h>
#include <stdio.h>
#include <string.h>

enum { MANY = 10000, FEW = 10 };

/* Comparisons of one claim: some 14 levels of a heap, a few of them twice. */
enum { LOOKS_MAX = 100 };

static lw_engine *open_many(int queues, int concurrency) {
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO);
    handle(engine, "mail", do_done, LW_HANDLER_OPTIONS(.concurrency = concurrency));
    start(engine);
    char name[32];
    for (int i = 0; i < queues; i++) {
        snprintf(name, sizeof name, "tenant-%d", i);
        SUBMIT(engine, .kind = "mail", .queue = name);
        SUBMIT(engine, .kind = "leased", .queue = name);
    }
    return engine;
}

static void fill(lw_engine *engine, const char *kind, int queues, int count) {
    char name[32];
    for (int i = 0; i < queues * count; i++) {
        snprintf(name, sizeof name, "tenant-%d", i % queues);
        SUBMIT(engine, .kind = kind, .queue = name);
    }
}

static uint64_t looks(const lw_engine *engine) {
    return engine->index->order.looks;
}

static double looks_per_run(lw_engine *engine) {
    uint64_t before = looks(engine);
    int ran = lw_test_run(engine);
    assert_true(ran > 0);
    return (double)(looks(engine) - before) / ran;
}

/* All of them have tasks. */
static double cost_of_turns(int queues, int concurrency) {
    lw_engine *engine = open_many(queues, concurrency);
    fill(engine, "mail", queues, 3);
    double cost = looks_per_run(engine);
    close_engine(engine);
    return cost;
}

TEST(turns_of_10000_queues_cost_little_more_than_those_of_10) {
    double few = cost_of_turns(FEW, 0), many = cost_of_turns(MANY, 0);
    printf("comparisons: %.1f with %d queues, %.1f with %d\n", few, FEW, many, MANY);
    assert_true(few > 0);
    assert_true(many <= LOOKS_MAX);
}

TEST(a_kind_at_its_limit_costs_no_more_in_10000_queues) {
    double few = cost_of_turns(FEW, 1), many = cost_of_turns(MANY, 1);
    printf("comparisons: %.1f with %d queues, %.1f with %d\n", few, FEW, many, MANY);
    assert_true(many <= 3 * LOOKS_MAX);
}

/* As other workers do while this one is busy: they find nothing. */
static lw_outcome do_claim_in_vain(lw_ctx *ctx, const lw_task *task) {
    lw_engine *engine = *(lw_engine **)lw_ctx_user(ctx);
    struct lw__task *taken;
    struct lw__claim claim = {.tasks = &taken, .max = 1};
    (void)task;
    engine->store->ops->claim(engine->store, lw__engine_now(engine), &claim);
    CHECK(claim.count == 0);
    return lw_done(ctx);
}

/* The first claim of all that finds the kind full may look at each queue once. */
static double cost_of_claims_in_vain(int queues) {
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO);
    handle(engine, "mail", do_claim_in_vain, LW_HANDLER_OPTIONS(.user = &engine, .concurrency = 1));
    start(engine);
    fill(engine, "mail", queues, 4);
    double cost = looks_per_run(engine);
    close_engine(engine);
    return cost;
}

TEST(a_claim_beside_a_kind_at_its_limit_costs_no_more_in_10000_queues) {
    double few = cost_of_claims_in_vain(FEW), many = cost_of_claims_in_vain(MANY);
    printf("comparisons: %.1f with %d queues, %.1f with %d\n", few, FEW, many, MANY);
    assert_true(many <= 10 * LOOKS_MAX);
}

/* Ten have tasks; the others are known, and empty. */
TEST(queues_without_tasks_cost_nothing) {
    double costs[2];
    for (int i = 0; i < 2; i++) {
        lw_engine *engine = open_many(i == 0 ? FEW : MANY, 0);
        lw_test_run(engine);
        fill(engine, "mail", FEW, 100);
        costs[i] = looks_per_run(engine);
        close_engine(engine);
    }
    assert_true(costs[0] == costs[1]);
}

static int lease(lw_engine *engine, const char *queue, const char *kind) {
    lw_snapshot s = LW_SNAPSHOT_INIT;
    int rc = lw_lease_claim(engine,
                            LW_CLAIM_OPTIONS(.holder = "me", .queues = &queue,
                                             .queue_count = queue != NULL, .kinds = &kind,
                                             .kind_count = kind != NULL, .max = 1),
                            &s, NULL);
    if (rc == 1) {
        lw_settlement end = {.id = s.id, .token = s.token, .outcome = LW_OUTCOME_DONE};
        assert_status(lw_lease_settle(engine, &end, 1, 0, NULL), LW_OK);
    }
    lw_snapshot_clear(&s);
    return rc;
}

TEST(leases_from_10000_queues_cost_no_more_than_from_one) {
    lw_engine *engine = open_many(MANY, 0);
    const struct {
        const char *queue, *kind;
    } claims[] = {{NULL, NULL}, {"tenant-77", NULL}, {NULL, "leased"}, {"tenant-78", "leased"}};
    for (size_t i = 0; i < sizeof claims / sizeof *claims; i++) {
        uint64_t before = looks(engine);
        assert_int_equal(lease(engine, claims[i].queue, claims[i].kind), 1);
        assert_true(looks(engine) - before <= 4);
    }
    uint64_t before = looks(engine);
    assert_int_equal(lease(engine, "tenant-77", NULL), 0); /* it is empty now */
    assert_true(looks(engine) - before <= 4);
    close_engine(engine);
}

/* They come in order, whatever queue they are in. */
TEST(leases_come_in_the_order_of_their_tasks_from_all_queues) {
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO);
    start(engine);
    char name[32];
    for (int i = 0; i < 200; i++) {
        snprintf(name, sizeof name, "tenant-%d", i * 37 % 50);
        SUBMIT(engine, .kind = i % 3 ? "a" : "b", .queue = name, .priority = 1 + i * 13 % 7);
    }
    lw_snapshot last = LW_SNAPSHOT_INIT, s = LW_SNAPSHOT_INIT;
    for (int i = 0; i < 200; i++) {
        int rc = lw_lease_claim(engine, LW_CLAIM_OPTIONS(.holder = "me", .max = 1), &s, NULL);
        assert_int_equal(rc, 1);
        assert_true(i == 0 || s.priority > last.priority
                    || (s.priority == last.priority && s.id > last.id));
        last.priority = s.priority;
        last.id = s.id;
    }
    assert_int_equal(lw_lease_claim(engine, LW_CLAIM_OPTIONS(.holder = "me", .max = 1), &s, NULL),
                     0);
    lw_snapshot_clear(&s);
    close_engine(engine);
}

/* ---- a kind with a limit ------------------------------------------------------------------- */

static char ran_in[64];

static lw_outcome do_note(lw_ctx *ctx, const lw_task *task) {
    size_t at = strlen(ran_in);
    CHECK(at + 1 < sizeof ran_in);
    ran_in[at] = task->queue[0];
    return lw_done(ctx);
}

/* Each place used to begin afresh, with the heavier queue. */
TEST(queues_take_turns_at_a_kind_with_a_limit) {
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO);
    handle(engine, "mail", do_note, LW_HANDLER_OPTIONS(.concurrency = 1));
    assert_status(lw_queue(engine, "a", LW_QUEUE_OPTIONS(.weight = 2), NULL), LW_OK);
    start(engine);
    for (int i = 0; i < 60; i++)
        SUBMIT(engine, .kind = "mail", .queue = i % 2 ? "a" : "b");
    assert_int_equal(lw_test_run(engine), 60);
    int of_a = 0;
    for (int i = 0; i < 30; i++)
        of_a += ran_in[i] == 'a';
    printf("%s\n", ran_in);
    assert_true(of_a >= 10 && of_a <= 22);
    close_engine(engine);
}

static uint32_t claim_one(lw_engine *engine, struct lw__task **task) {
    struct lw__claim claim = {.tasks = task, .max = 1};
    engine->store->ops->claim(engine->store, lw__engine_now(engine), &claim);
    return claim.count;
}

static void give_back(lw_engine *engine, struct lw__task *task) {
    engine->store->ops->unclaim(engine->store, lw__engine_now(engine), &task, 1);
}

/* One at a time: while it is claimed, all others are withheld; then some are open, and these go. */
static void lose_open_lanes(lw_engine *engine, int queues, bool is_by_pause) {
    struct lw__task *task, *none;
    for (int left = queues; left > 0; left--) {
        assert_int_equal(claim_one(engine, &task), 1);
        lw_id id = task->id;
        const char *name = lw__queue_of(engine, task->queue)->name;
        assert_int_equal(claim_one(engine, &none), 0);
        give_back(engine, task);
        if (is_by_pause)
            assert_status(lw_pause(engine, name), LW_OK);
        else
            assert_status(lw_cancel(engine, id), LW_OK);
    }
    assert_int_equal(claim_one(engine, &none), 0);
}

TEST(a_place_that_a_queue_does_not_take_goes_to_another) {
    enum { SOME = 100 };
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO);
    handle(engine, "mail", do_done, LW_HANDLER_OPTIONS(.concurrency = 1));
    start(engine);
    fill(engine, "mail", SOME, 1);
    lose_open_lanes(engine, SOME, false);
    fill(engine, "mail", SOME, 1);
    lose_open_lanes(engine, SOME, true);
    char name[32];
    for (int i = 0; i < SOME; i++) {
        snprintf(name, sizeof name, "tenant-%d", i);
        assert_status(lw_resume(engine, name), LW_OK);
    }
    assert_int_equal(lw_test_run(engine), SOME);
    close_engine(engine);
}

/* ---- waiting for something to claim -------------------------------------------------------- */

TEST(a_watch_tells_each_of_65536_queues_once_and_none_waits_for_ever) {
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO);
    static bool is_told[LW_QUEUES_MAX];
    lw_claim_watch *watch;
    char name[LW_NAME_MAX + 1];
    start(engine);
    assert_status(lw_claim_watch_open(engine, &watch, NULL), LW_OK);
    while (lw_claim_watch_next(watch, name) == 1) {
    }
    for (int i = 1; i < LW_QUEUES_MAX; i++) {
        snprintf(name, sizeof name, "%d", i);
        SUBMIT(engine, .kind = "leased", .queue = name);
    }
    int told = 0;
    for (; lw_claim_watch_next(watch, name) == 1; told++) {
        int number;
        CHECK(sscanf(name, "%d", &number) == 1 && !is_told[number]);
        is_told[number] = true;
        if (told % 2 == 0 && told < 1000) /* a busy one in between */
            SUBMIT(engine, .kind = "leased", .queue = "1"), is_told[1] = false;
    }
    for (int i = 1; i < LW_QUEUES_MAX; i++)
        CHECK(is_told[i]);
    assert_true(told < LW_QUEUES_MAX + 10);
    lw_claim_watch_close(watch);
    close_engine(engine);
}
