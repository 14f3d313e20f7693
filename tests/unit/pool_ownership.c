/* After LW_OK exactly one of fn and on_drop gets the arg; otherwise it stays the caller's. Every
 * arg here is a parcel that counts who got it, through every policy and every way to stop. */
#include "pools.h"

#include <stdatomic.h>
#include <stdlib.h>

enum { PRODUCERS = 3, EACH = 600, QUEUE = 8, WORKERS = 2 };

struct play;

struct parcel {
    atomic_int runs, drops;
    int rc;           /* what its submitter was told */
    bool was_run_for; /* given to lw_pool_run: never on_drop's */
    struct play *play;
    struct parcel *child; /* submitted from inside, or NULL */
    void (*act)(struct play *play);
};

struct play {
    lw_pool *pool;
    lw_test_memory *memory;
    struct gate gate, closed;
    struct tally progress;
    pthread_t producers[PRODUCERS];
    bool is_joined;
    struct parcel held[WORKERS], backlog[QUEUE];
    struct parcel parcels[PRODUCERS * EACH], children[PRODUCERS * EACH];
};

static void deliver(lw_ctx *ctx, void *arg) {
    (void)ctx;
    struct parcel *p = arg;
    atomic_fetch_add(&p->runs, 1);
    if (p->act != NULL)
        p->act(p->play);
    if (p->child != NULL)
        p->child->rc = lw_pool_submit(p->play->pool, deliver, p->child);
}

static void count_drop(void *arg) {
    atomic_fetch_add(&((struct parcel *)arg)->drops, 1);
}

/* ---- the submitters ------------------------------------------------------------------------ */

static void submit_and_cancel(struct parcel *p, bool must_cancel) {
    lw_ticket ticket;
    p->rc =
        lw_pool_submit_with(p->play->pool, deliver, p, LW_SUBMIT_OPTIONS(.ticket = &ticket), NULL);
    if (p->rc == LW_OK && must_cancel && lw_pool_cancel(p->play->pool, ticket) == LW_OK)
        assert_int_equal(atomic_load(&p->drops), 1); /* before it returned */
}

static void submit_three(struct parcel *p) {
    lw_pool_task tasks[3];
    size_t accepted = 99;
    for (int i = 0; i < 3; i++)
        tasks[i] = (lw_pool_task){deliver, p + i};
    int rc = lw_pool_submit_many(p->play->pool, tasks, 3, &accepted);
    CHECK(accepted <= 3 && (rc == LW_OK) == (accepted == 3));
    for (size_t i = 0; i < 3; i++)
        p[i].rc = i < accepted ? LW_OK : rc;
}

static void submit_somehow(struct parcel *p, struct parcel *child, int i) {
    lw_pool *pool = p->play->pool;
    switch (i / 3 % 6) {
    case 0: p->child = child; /* fall through */
    case 1: p->rc = lw_pool_submit(pool, deliver, p); break;
    case 2: p->rc = lw_pool_try_submit(pool, deliver, p); break;
    case 3: submit_and_cancel(p, i % 2 == 0); break;
    case 4:
        p->was_run_for = true;
        p->rc = lw_pool_run(pool, deliver, p);
        break;
    case 5: i % 3 == 0 ? submit_three(p) : (void)0; break;
    }
}

static void *produce(void *arg) {
    struct parcel *parcels = arg;
    struct play *play = parcels[0].play;
    struct parcel *children = play->children + (parcels - play->parcels);
    for (int i = 0; i < EACH; i++) {
        submit_somehow(&parcels[i], &children[i], i);
        if (i == EACH / 3)
            tally_add(&play->progress, 1);
    }
    return NULL;
}

/* Nothing may run beside a close. */
static void join_producers(struct play *play) {
    for (int i = 0; i < PRODUCERS && !play->is_joined; i++)
        join_thread(play->producers[i]);
    play->is_joined = true;
}

/* ---- the counting -------------------------------------------------------------------------- */

static void check(struct parcel *p) {
    int runs = atomic_load(&p->runs), drops = atomic_load(&p->drops);
    assert_int_equal(runs + drops, p->rc == LW_OK);
    CHECK(!p->was_run_for || drops == 0);
    CHECK(p->rc == LW_OK || p->rc == LW_EFULL || p->rc == LW_ETIMEDOUT || p->rc == LW_ESTOPPING
          || (p->rc == LW_ECANCELED && p->was_run_for));
}

static void check_all(struct play *play) {
    for (int i = 0; i < WORKERS; i++)
        check(&play->held[i]);
    for (int i = 0; i < QUEUE; i++)
        check(&play->backlog[i]);
    for (int i = 0; i < PRODUCERS * EACH; i++) {
        check(&play->parcels[i]);
        check(&play->children[i]);
    }
}

static long total_runs(struct play *play) {
    long runs = 0;
    for (int i = 0; i < PRODUCERS * EACH; i++)
        runs += atomic_load(&play->parcels[i].runs) + atomic_load(&play->children[i].runs);
    return runs;
}

/* ---- the stage ----------------------------------------------------------------------------- */

static void wait_at_gate(struct play *play) {
    gate_pass(&play->gate);
}

static void wait_for_close(struct play *play) {
    gate_pass(&play->closed);
}

static long arrived(struct play *play) {
    return tally_read(&play->gate.arrived) + tally_read(&play->closed.arrived);
}

static void hold_a_worker(struct play *play, int i, void (*act)(struct play *)) {
    play->held[i].act = act;
    long before = arrived(play);
    await_that(lw_pool_try_submit(play->pool, deliver, &play->held[i]) == LW_OK);
    play->held[i].rc = LW_OK;
    await_that(arrived(play) == before + 1);
}

static void unused(struct parcel *p, struct play *play) {
    p->rc = LW_EFULL;
    p->play = play;
}

static struct play *raise_curtain(lw_overflow overflow, int64_t submit_timeout_ms) {
    struct play *play = calloc(1, sizeof *play);
    play->gate = (struct gate)GATE;
    play->closed = (struct gate)GATE;
    play->progress = (struct tally)TALLY;
    play->memory = open_memory();
    play->pool = OPEN_POOL(.min_workers = WORKERS, .queue_limit = QUEUE, .overflow = overflow,
                           .submit_timeout_ms = submit_timeout_ms, .on_drop = count_drop,
                           .allocator = lw_test_memory_allocator(play->memory));
    for (int i = 0; i < WORKERS; i++)
        unused(&play->held[i], play);
    for (int i = 0; i < QUEUE; i++)
        unused(&play->backlog[i], play);
    for (int i = 0; i < PRODUCERS * EACH; i++) {
        unused(&play->parcels[i], play);
        unused(&play->children[i], play);
    }
    return play;
}

static void play_once(lw_overflow overflow, int64_t submit_timeout_ms, void (*held)(struct play *),
                      void (*end)(struct play *)) {
    struct play *play = raise_curtain(overflow, submit_timeout_ms);
    hold_a_worker(play, 0, held);
    for (int i = 0; i < PRODUCERS; i++)
        play->producers[i] = start_thread(produce, play->parcels + i * EACH);
    tally_await(&play->progress, PRODUCERS);
    end(play); /* closes the pool */
    join_producers(play);
    await_that(is_all_freed(play->memory));
    check_all(play);
    close_memory(play->memory);
    free(play);
}

/* Every policy; `held` is what the task does that occupies a worker meanwhile. */
static void play_all(void (*held)(struct play *), void (*end)(struct play *)) {
    for (int round = 0; round < test_scale(3, 100); round++) {
        play_once(LW_BLOCK, 0, held, end);
        play_once(LW_BLOCK, LW_ZERO, held, end);
        play_once(LW_REFUSE, 0, held, end);
        play_once(LW_CALLER_RUNS, 0, held, end);
        play_once(LW_DROP_OLDEST, 0, held, end);
    }
}

/* ---- the ways to stop ---------------------------------------------------------------------- */

static void stop_and_close(struct play *play, lw_stop_mode mode) {
    assert_status(lw_pool_stop(play->pool, mode, -1), LW_OK);
    join_producers(play);
    close_pool(play->pool);
}

static void end_by_drain(struct play *play) {
    gate_open(&play->gate);
    stop_and_close(play, LW_DRAIN);
}

TEST(a_drain_gives_every_arg_to_fn_or_to_its_owner) {
    play_all(wait_at_gate, end_by_drain);
}

static void end_by_drop(struct play *play) {
    gate_open(&play->gate);
    stop_and_close(play, LW_DROP);
}

TEST(a_drop_gives_every_arg_to_fn_or_on_drop) {
    play_all(wait_at_gate, end_by_drop);
}

static void end_by_drop_at_once(struct play *play) {
    assert_status(lw_pool_stop(play->pool, LW_DROP, 0), LW_ETIMEDOUT);
    join_producers(play);
    long before = total_runs(play);
    gate_open(&play->gate);
    stop_and_close(play, LW_DROP);
    assert_int_equal(total_runs(play), before); /* nothing has started since */
}

TEST(a_drop_that_does_not_wait_gives_every_arg_to_fn_or_on_drop) {
    play_all(wait_at_gate, end_by_drop_at_once);
}

static void end_by_drain_then_drop(struct play *play) {
    assert_status(lw_pool_stop(play->pool, LW_DRAIN, 0), LW_ETIMEDOUT);
    assert_status(lw_pool_stop(play->pool, LW_DROP, 0), LW_ETIMEDOUT);
    gate_open(&play->gate);
    stop_and_close(play, LW_DRAIN);
}

TEST(a_drain_that_a_drop_overtakes_gives_every_arg_to_fn_or_on_drop) {
    play_all(wait_at_gate, end_by_drain_then_drop);
}

static void leave_behind(struct play *play) {
    assert_status(lw_pool_stop(play->pool, LW_DRAIN, 0), LW_ETIMEDOUT);
    join_producers(play);
    assert_status(lw_pool_close(play->pool), LW_PENDING);
    gate_open(&play->gate);
}

TEST(a_close_that_leaves_a_task_behind_gives_every_arg_to_fn_or_on_drop) {
    play_all(wait_at_gate, leave_behind);
}

static void stop_from_inside(struct play *play) {
    gate_pass(&play->gate);
    assert_status(lw_pool_stop(play->pool, LW_DROP, 1000), LW_PENDING);
}

TEST(a_stop_from_inside_a_task_gives_every_arg_to_fn_or_on_drop) {
    play_all(stop_from_inside, end_by_drop);
}

/* With every worker held, so that there is a backlog for sure. */
static void fill_backlog(struct play *play) {
    join_producers(play);
    for (int i = 1; i < WORKERS; i++)
        hold_a_worker(play, i, wait_for_close);
    for (int i = 0; i < QUEUE; i++) /* a late child or two may be in there too */
        play->backlog[i].rc = lw_pool_try_submit(play->pool, deliver, &play->backlog[i]);
    assert_status(play->backlog[0].rc, LW_OK);
}

static void check_backlog_dropped(struct play *play) {
    for (int i = 0; i < QUEUE; i++)
        assert_int_equal(atomic_load(&play->backlog[i].drops), play->backlog[i].rc == LW_OK);
}

static void *open_gate_after_drop(void *arg) {
    struct play *play = arg;
    await_that(atomic_load(&play->backlog[0].drops) == 1);
    gate_open(&play->gate);
    gate_open(&play->closed);
    return NULL;
}

static void close_at_once(struct play *play) {
    fill_backlog(play);
    pthread_t opener = start_thread(open_gate_after_drop, play);
    close_pool(play->pool);
    check_backlog_dropped(play);
    join_thread(opener);
}

TEST(a_close_without_stop_gives_every_arg_to_fn_or_on_drop) {
    play_all(wait_at_gate, close_at_once);
}

static void close_from_inside(struct play *play) {
    gate_pass(&play->gate);
    assert_status(lw_pool_close(play->pool), LW_PENDING);
    check_backlog_dropped(play);
    gate_open(&play->closed);
}

static void let_it_close(struct play *play) {
    fill_backlog(play);
    gate_open(&play->gate);
}

TEST(a_close_from_inside_a_task_gives_every_arg_to_fn_or_on_drop) {
    play_all(close_from_inside, let_it_close);
}

/* ---- other ways out ------------------------------------------------------------------------ */

static void submit_backlog_inside(lw_ctx *ctx, void *arg) {
    (void)ctx;
    struct play *play = arg;
    for (int i = 0; i < QUEUE; i++)
        play->backlog[i].rc = lw_pool_submit(play->pool, deliver, &play->backlog[i]);
    gate_pass(&play->gate);
}

TEST(what_a_task_submitted_past_a_full_queue_is_dropped_by_a_drop) {
    struct play *play = calloc(1, sizeof *play);
    play->gate = (struct gate)GATE;
    play->pool = OPEN_POOL(.min_workers = 1, .queue_limit = 1, .on_drop = count_drop);
    for (int i = 0; i < QUEUE; i++)
        unused(&play->backlog[i], play);
    assert_status(lw_pool_submit(play->pool, submit_backlog_inside, play), LW_OK);
    tally_await(&play->gate.arrived, 1);
    assert_status(lw_pool_stop(play->pool, LW_DROP, 0), LW_ETIMEDOUT);
    gate_open(&play->gate);
    assert_status(lw_pool_stop(play->pool, LW_DROP, -1), LW_OK);
    for (int i = 0; i < QUEUE; i++) {
        assert_status(play->backlog[i].rc, LW_OK);
        assert_int_equal(atomic_load(&play->backlog[i].runs), 0);
        assert_int_equal(atomic_load(&play->backlog[i].drops), 1);
    }
    close_pool(play->pool);
    free(play);
}

TEST(without_an_on_drop_the_args_of_dropped_tasks_go_to_nobody) {
    struct gate gate = GATE;
    struct tally runs = TALLY;
    lw_pool *pool = OPEN_POOL(.min_workers = 1, .queue_limit = 2, .overflow = LW_DROP_OLDEST);
    occupy(pool, &gate, 1);
    submit_times(pool, tally_task, &runs, 5);
    gate_open(&gate);
    assert_status(lw_pool_stop(pool, LW_DRAIN, -1), LW_OK);
    assert_int_equal(tally_read(&runs), 2);
    close_pool(pool);
}
