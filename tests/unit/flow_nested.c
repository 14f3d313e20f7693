/* Handlers that wait for resources (lw_flow_wait): a worker that waits is replaced if no other is
 * left, and a wait that no worker is left for is refused, as with lw_wait. */
#include "engines.h"

#include <legwork/flow.h>
#include <pthread.h>

#define LONG_MS 200000

static struct tally ended = TALLY;
static int waited;

static lw_outcome do_step(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    return lw_done(ctx);
}

static const lw_step steps[] = {{.name = "a", .run = do_step, .state = "on"},
                                {.name = "b", .run = do_step, .state = "on", .needs = {"a"}}};

static lw_outcome do_wait(lw_ctx *ctx, const lw_task *task) {
    lw_engine *engine = lw_ctx_user(ctx);
    (void)task;
    assert_status(lw_flow_start(engine, "chain", "x", LW_TEXT(""), NULL), LW_OK);
    waited = lw_flow_wait(engine, "chain", "x", -1, NULL);
    tally_add(&ended, 1);
    return lw_done(ctx);
}

static lw_engine *open_chain(const char *url, int stuck_max) {
    lw_engine *engine = OPEN_ON(url, .workers = 1, .stuck_max = stuck_max);
    handle(engine, "waits", do_wait, LW_HANDLER_OPTIONS(.user = engine));
    assert_status(
        lw_flow_register(engine,
                         LW_FLOW(.name = "chain", .steps = LW_STEPS(steps),
                                 .states = {{"on", .goal = "off", .end = true}}, .user = engine),
                         NULL),
        LW_OK);
    start(engine);
    SUBMIT(engine, .kind = "waits");
    tally_await(&ended, 1);
    assert_status(lw_wait_idle(engine, LONG_MS), LW_OK);
    return engine;
}

TEST(a_handler_waits_for_a_resource_with_one_worker) {
    close_engine(open_chain("memory:", 0));
    assert_status(waited, LW_OK);
}

TEST(a_wait_for_a_resource_that_no_worker_is_left_for_is_refused) {
    close_engine(open_chain("memory:", LW_ZERO));
    assert_status(waited, LW_EDEADLOCK);
}

/* ---- a stop -------------------------------------------------------------------------------- */

static struct tally begun = TALLY;
static const lw_step by_hand[] = {{.name = "a", .state = "on"}}; /* and nobody does it */

static void *wait_outside(void *engine) {
    assert_status(lw_flow_start(engine, "chain", "x", LW_TEXT(""), NULL), LW_OK);
    tally_add(&begun, 1);
    waited = lw_flow_wait(engine, "chain", "x", -1, NULL);
    return NULL;
}

static lw_outcome do_wait_for_people(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    wait_outside(lw_ctx_user(ctx));
    return lw_done(ctx);
}

static lw_engine *open_by_hand(void) {
    lw_engine *engine = OPEN_ON("memory:", .workers = 2);
    handle(engine, "waits", do_wait_for_people, LW_HANDLER_OPTIONS(.user = engine));
    assert_status(
        lw_flow_register(engine,
                         LW_FLOW(.name = "chain", .steps = LW_STEPS(by_hand),
                                 .states = {{"on", .goal = "off", .end = true}}, .user = engine),
                         NULL),
        LW_OK);
    start(engine);
    return engine;
}

TEST(a_stop_that_drops_ends_the_wait_of_a_handler_for_a_resource) {
    lw_engine *engine = open_by_hand();
    SUBMIT(engine, .kind = "waits");
    tally_await(&begun, 1);
    assert_status(lw_stop(engine, LW_DROP, LONG_MS), LW_OK);
    assert_status(waited, LW_ESTOPPING);
    close_engine(engine);
}

TEST(a_stop_ends_the_wait_of_another_thread_for_a_resource) {
    pthread_t thread;
    lw_engine *engine = open_by_hand();
    assert_int_equal(pthread_create(&thread, NULL, wait_outside, engine), 0);
    tally_await(&begun, 1);
    assert_status(lw_stop(engine, LW_DRAIN, LONG_MS), LW_OK);
    pthread_join(thread, NULL);
    assert_status(waited, LW_ESTOPPING);
    close_engine(engine);
}
