/* The order hands out by priority, due time and id, gives queues their turns by weight, and
 * needs no more memory than its content. */
#include "test.h"

#include "base/random.h"
#include "store/order.h"

#include <legwork/testing.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { QUEUES = 8, LANES = 16, TASKS = 20000 };

static struct lw__order order;
static struct lw__order_queue queues[QUEUES];
static struct lw__lane lanes[LANES];
static struct lw__order_kind only_kind;
static struct lw__task tasks[TASKS];
static uint32_t queue_count, lane_count, task_count;
static lw_test_memory *memory;
static struct lw__random random_numbers;

static void seed(uint64_t number) {
    printf("seed %llu\n", (unsigned long long)number);
    lw__random_seed(&random_numbers, number);
}

static uint64_t below(uint64_t bound) {
    return lw__random_below(&random_numbers, bound);
}

/* ---- memory that can run out for a while ---- */

static bool is_dry;

static void *resize_unless_dry(void *user, void *ptr, size_t old_size, size_t new_size) {
    const lw_allocator *inner = lw_test_memory_allocator(user);
    if (is_dry && new_size > old_size)
        return NULL;
    return inner->resize(inner->user, ptr, old_size, new_size);
}

static uint64_t bytes_in_use(void) {
    uint64_t bytes;
    lw_test_memory_usage(memory, NULL, &bytes, NULL);
    return bytes;
}

static uint64_t allocations(void) {
    uint64_t calls;
    lw_test_memory_usage(memory, NULL, NULL, &calls);
    return calls;
}

/* ---- building ---- */

static void open_order(void) {
    static lw_allocator allocator;
    assert_status(lw_test_memory_open(&memory), LW_OK);
    allocator = (lw_allocator){.resize = resize_unless_dry, .user = memory};
    lw__order_init(&order, &allocator);
    memset(queues, 0, sizeof queues);
    memset(lanes, 0, sizeof lanes);
    memset(&only_kind, 0, sizeof only_kind);
    queue_count = lane_count = task_count = 0;
}

static void close_order(void) {
    uint64_t blocks;
    assert_int_equal(order.bytes, bytes_in_use());
    for (uint32_t i = 0; i < LANES; i++)
        lw__order_free_lane(&order, &lanes[i]);
    for (uint32_t i = 0; i < QUEUES; i++)
        lw__order_free_queue(&order, &queues[i]);
    lw__order_free_kind(&order, &only_kind);
    lw__order_free(&order);
    lw_test_memory_usage(memory, &blocks, NULL, NULL);
    assert_int_equal(blocks, 0);
    lw_test_memory_close(memory);
}

static struct lw__order_queue *add_queue(uint32_t weight) {
    assert_true(lw__order_add_queue(&order, &queues[queue_count], weight));
    return &queues[queue_count++];
}

static struct lw__lane *add_lane(struct lw__order_queue *queue) {
    assert_true(lw__order_add_lane(&order, queue, &lanes[lane_count], NULL, &only_kind));
    return &lanes[lane_count++];
}

static struct lw__lane *open_lane(void) {
    open_order();
    return add_lane(add_queue(1));
}

/* The next of all tasks, whose ids rise. */
static struct lw__task *make(uint32_t priority, uint64_t due) {
    assert_true(task_count < TASKS);
    struct lw__task *task = &tasks[task_count++];
    memset(task, 0, sizeof *task);
    task->id = task_count;
    task->priority = priority;
    lw__put(&task->due_at, due);
    return task;
}

static struct lw__task *insert(struct lw__lane *lane, uint32_t priority, uint64_t due) {
    struct lw__task *task = make(priority, due);
    lw__order_insert(&order, lane, task);
    assert_ptr_equal(task->place.lane, lane);
    return task;
}

/* As the owner does it. */
static uint32_t take_tasks(struct lw__order *from, struct lw__task **into, uint32_t max,
                           struct lw__lane **lane) {
    uint32_t count = lw__order_take(from, into, max, lane);
    lw__order_forget(into, count);
    return count;
}

static struct lw__task *take_one(void) {
    struct lw__task *task = NULL;
    struct lw__lane *next = lw__order_next(&order), *lane;
    uint32_t count = take_tasks(&order, &task, 1, &lane);
    assert_ptr_equal(lane, next);
    assert_int_equal(count, next != NULL);
    if (task != NULL)
        assert_null(task->place.lane);
    return task;
}

static bool is_less(const struct lw__task *a, const struct lw__task *b) {
    if (a->priority != b->priority)
        return a->priority < b->priority;
    return a->due_at != b->due_at ? a->due_at < b->due_at : a->id < b->id;
}

/* Takes all, `max` at a time: they come in order. */
static void drain_sorted(uint32_t max, uint32_t expected) {
    struct lw__task *taken[256], *last = NULL;
    struct lw__lane *lane;
    uint32_t total = 0, count;
    while ((count = take_tasks(&order, taken, max, &lane)) > 0) {
        for (uint32_t i = 0; i < count; i++) {
            assert_true(last == NULL || is_less(last, taken[i]));
            assert_null(taken[i]->place.lane);
            last = taken[i];
        }
        total += count;
    }
    assert_null(lane);
    assert_int_equal(total, expected);
    assert_int_equal(order.count + order.ready_count, 0);
    assert_null(lw__order_next(&order));
}

/* ---- order ---- */

TEST(an_empty_order_has_nothing) {
    struct lw__lane *lane = open_lane();
    assert_null(take_one());
    assert_null(lw__lane_first(lane));
    assert_null(lw__order_oldest(&queues[0]));
    assert_int_equal(take_tasks(&order, NULL, 0, &lane), 0);
    close_order();
}

TEST(tasks_of_one_priority_come_as_they_went_in) {
    struct lw__lane *lane = open_lane(), *from;
    struct lw__task *taken[64];
    for (uint32_t i = 0; i < 1000; i++)
        insert(lane, 1000, i / 7);
    for (uint32_t at = 0; at < 1000;) {
        uint32_t count = take_tasks(&order, taken, 64, &from);
        assert_int_equal(count, at + 64 <= 1000 ? 64 : 1000 - at);
        assert_ptr_equal(from, lane);
        for (uint32_t i = 0; i < count; i++)
            assert_ptr_equal(taken[i], &tasks[at++]);
        assert_int_equal(order.count, 1000 - at);
    }
    assert_int_equal(lane->heap.capacity, 0);
    close_order();
}

TEST(taking_from_a_run_reads_nothing_of_its_tasks) {
    struct lw__lane *lane = open_lane(), *from;
    struct lw__task *taken[300];
    for (uint32_t i = 0; i < 300; i++)
        insert(lane, 1000, 5);
    insert(lane, 2000, 1); /* no rivals: their priority is greater */
    insert(add_lane(lane->queue), 2000, 1);
    for (uint32_t i = 0; i < 300; i++)
        memset(&tasks[i], 0xa5, sizeof tasks[i]);
    assert_int_equal(take_tasks(&order, taken, 300, &from), 300);
    for (uint32_t i = 0; i < 300; i++) {
        assert_ptr_equal(taken[i], &tasks[i]);
        assert_null(taken[i]->place.lane);
    }
    close_order();
}

TEST(priority_comes_before_due_time_and_due_time_before_id) {
    struct lw__lane *lane = open_lane();
    seed(31);
    for (int i = 0; i < 3000; i++)
        insert(lane, (uint32_t)below(3), below(20));
    drain_sorted(64, 3000);
    close_order();
}

TEST(more_priorities_than_runs_come_in_order) {
    struct lw__lane *lane = open_lane();
    seed(32);
    for (uint32_t i = 0; i < 3000; i++)
        insert(lane, (uint32_t)below(20), i);
    assert_int_equal(lane->run_count, LW__LANE_RUNS);
    drain_sorted(64, 3000);
    close_order();
}

TEST(one_that_comes_late_is_taken_at_its_time) {
    struct lw__lane *lane = open_lane();
    for (uint32_t i = 0; i < 200; i++)
        insert(lane, 1000, 100 + i);
    struct lw__task *late = insert(lane, 1000, 150);
    struct lw__task *first = insert(lane, 1000, 99);
    assert_ptr_equal(lw__lane_first(lane), first);
    assert_ptr_equal(take_one(), first);
    for (uint32_t i = 0; i <= 50; i++)
        assert_ptr_equal(take_one(), &tasks[i]);
    assert_ptr_equal(take_one(), late);
    drain_sorted(64, 149);
    close_order();
}

TEST(of_two_with_the_same_due_time_the_smaller_id_is_first) {
    struct lw__lane *lane = open_lane();
    struct lw__task *first = make(1000, 5), *second = make(1000, 5);
    lw__order_insert(&order, lane, second);
    lw__order_insert(&order, lane, first);
    assert_ptr_equal(take_one(), first);
    assert_ptr_equal(take_one(), second);
    close_order();
}

TEST(a_run_that_was_emptied_serves_another_priority) {
    struct lw__lane *lane = open_lane();
    for (uint32_t priority = 0; priority < 1000; priority++) {
        struct lw__task *task = insert(lane, 1000 - priority, 1000 - priority);
        assert_non_null(task->place.block);
        assert_ptr_equal(take_one(), task);
    }
    close_order();
}

TEST(lanes_of_a_queue_are_merged) {
    open_order();
    add_queue(1);
    for (int i = 0; i < 10; i++)
        add_lane(&queues[0]);
    seed(33);
    for (uint32_t i = 0; i < 5000; i++)
        insert(&lanes[below(10)], (uint32_t)below(2), below(10) ? i / 4 : below(1250));
    drain_sorted(64, 5000);
    close_order();
}

TEST(a_take_ends_where_another_lane_is_next) {
    open_order();
    struct lw__lane *a = add_lane(add_queue(1)), *b = add_lane(&queues[0]), *lane;
    struct lw__task *taken[64];
    for (uint32_t due = 0; due < 10; due++)
        insert(due == 3 || due == 4 ? b : a, 1000, due);
    assert_int_equal(take_tasks(&order, taken, 64, &lane), 3);
    assert_ptr_equal(lane, a);
    assert_int_equal(take_tasks(&order, taken, 64, &lane), 2);
    assert_ptr_equal(lane, b);
    assert_int_equal(take_tasks(&order, taken, 64, &lane), 5);
    assert_ptr_equal(lane, a);
    close_order();
}

TEST(a_rival_is_seen_among_many_lanes) {
    for (uint32_t rival = 1; rival < 8; rival++) {
        struct lw__lane *lane = open_lane();
        struct lw__task *taken[64];
        insert(lane, 5, 1);
        insert(lane, 5, 10);
        for (uint32_t i = 1; i < 8; i++)
            insert(add_lane(&queues[0]), i == rival ? 5 : 9, 2);
        assert_int_equal(take_tasks(&order, taken, 64, &lane), 1);
        drain_sorted(64, 8);
        close_order();
    }
}

TEST(a_lane_that_gets_a_smaller_key_is_next) {
    open_order();
    struct lw__lane *a = add_lane(add_queue(1)), *b = add_lane(&queues[0]);
    insert(a, 1000, 10);
    insert(b, 1000, 20);
    assert_ptr_equal(lw__order_next(&order), a);
    insert(b, 1000, 5);
    assert_ptr_equal(lw__order_next(&order), b);
    insert(a, 999, 30);
    assert_ptr_equal(lw__order_next(&order), a);
    drain_sorted(1, 4);
    close_order();
}

/* ---- shut lanes ---- */

TEST(shut_lanes_are_skipped_until_they_are_open) {
    open_order();
    struct lw__lane *a = add_lane(add_queue(1)), *b = add_lane(&queues[0]);
    for (uint32_t i = 0; i < 100; i++)
        insert(i % 2 ? b : a, 1000, i);
    lw__order_shut(&order, a, 4);
    assert_int_equal(order.ready_count, 50);
    assert_int_equal(order.count, 100);
    assert_int_equal(queues[0].count, 100);
    assert_ptr_equal(take_one(), &tasks[1]);
    lw__order_shut(&order, b, 1);
    assert_int_equal(order.ready_count, 0);
    assert_null(take_one());
    insert(a, 1000, 1000); /* it can be added to meanwhile */
    assert_null(take_one());
    lw__order_shut(&order, a, 2); /* another reason is a reason */
    assert_null(take_one());
    lw__order_shut(&order, a, 0);
    assert_ptr_equal(take_one(), &tasks[0]);
    lw__order_shut(&order, b, 0);
    assert_int_equal(order.ready_count, 99);
    drain_sorted(64, 99);
    close_order();
}

TEST(an_empty_lane_can_be_shut_and_opened) {
    struct lw__lane *lane = open_lane();
    lw__order_shut(&order, lane, 1);
    lw__order_shut(&order, lane, 0);
    assert_null(take_one());
    lw__order_shut(&order, lane, 1);
    insert(lane, 1000, 1);
    assert_null(take_one());
    lw__order_shut(&order, lane, 0);
    drain_sorted(64, 1);
    close_order();
}

/* ---- turns ---- */

/* Takes from the next queue and puts the task back at its end. Returns the queue's number. */
static uint32_t turn(void) {
    struct lw__lane *lane = lw__order_next(&order);
    struct lw__task *task = take_one();
    task->due_at++;
    lw__order_insert(&order, lane, task);
    return (uint32_t)(lane->queue - queues);
}

static void assert_fair(const uint32_t *weights, uint32_t count, uint64_t turns) {
    uint64_t served[QUEUES] = {0}, sum = 0;
    for (uint32_t i = 0; i < count; i++)
        sum += weights[i];
    for (uint64_t t = 1; t <= turns; t++) {
        served[turn()]++;
        for (uint32_t i = 0; i < count; i++) {
            double share = (double)t * weights[i] / (double)sum;
            double off = (double)served[i] - share;
            if (off > 1.001 || off < -1.001)
                printf("turn %llu: queue %u has %llu instead of %f\n", (unsigned long long)t, i,
                       (unsigned long long)served[i], share);
            assert_true(off <= 1.001 && off >= -1.001);
        }
    }
}

static const uint32_t weightings[][QUEUES] = {{1, 1},
                                              {1, 2, 5},
                                              {5, 1, 1},
                                              {1000, 1},
                                              {3, 7, 11, 13},
                                              {100, 1, 1, 1, 1, 1, 1, 1},
                                              {1000, 999, 998, 1, 2, 3, 500, 37}};

static void open_queues(const uint32_t *weights, uint64_t pass) {
    open_order();
    order.pass = pass;
    for (uint32_t i = 0; i < QUEUES && weights[i] > 0; i++) {
        struct lw__lane *lane = add_lane(add_queue(weights[i]));
        insert(lane, 1000, 0);
        insert(lane, 1000, 0);
    }
}

TEST(at_any_time_each_queue_is_within_one_turn_of_its_share) {
    for (size_t i = 0; i < sizeof weightings / sizeof *weightings; i++) {
        open_queues(weightings[i], 0);
        assert_fair(weightings[i], queue_count, 100000);
        close_order();
    }
}

TEST(shares_hold_where_passes_wrap_around) {
    for (size_t i = 0; i < sizeof weightings / sizeof *weightings; i++) {
        open_queues(weightings[i], UINT64_MAX - (UINT64_C(1) << 42));
        assert_fair(weightings[i], queue_count, 20000);
        assert_true(order.pass < UINT64_MAX / 2);
        close_order();
    }
}

TEST(a_queue_that_was_away_gets_no_burst) {
    struct lw__order_queue *stays;
    struct lw__lane *away;
    open_order();
    insert(add_lane(stays = add_queue(1)), 1000, 0);
    insert(add_lane(stays), 1000, 0);
    away = add_lane(add_queue(1));
    for (int i = 0; i < 1000; i++)
        assert_int_equal(turn(), 0);
    insert(away, 1000, 0);
    insert(away, 1000, 0);
    int served = 0;
    for (int i = 0; i < 10; i++)
        served += turn() == 1;
    assert_int_equal(served, 5);
    close_order();
}

/* Each of its tasks finds it empty, so that it comes and goes all the time. */
TEST(a_queue_that_comes_and_goes_gets_no_more_than_its_share) {
    open_order();
    struct lw__lane *stays = add_lane(add_queue(3)), *goes = add_lane(add_queue(1));
    insert(stays, 1000, 0);
    insert(stays, 1000, 0);
    insert(goes, 1000, 0);
    int served = 0;
    for (int i = 0; i < 4000; i++)
        served += turn() == 1;
    assert_true(served >= 999 && served <= 1001);
    close_order();
}

TEST(queues_that_come_and_go_have_their_shares_too) {
    static const uint32_t weights[] = {1, 2, 5};
    int served[3] = {0};
    open_order();
    for (int i = 0; i < 3; i++)
        insert(add_lane(add_queue(weights[i])), 1000, 0);
    for (int i = 0; i < 8000; i++)
        served[turn()]++;
    for (int i = 0; i < 3; i++)
        assert_in_range(served[i] + 2 - 1000 * (int)weights[i], 0, 4);
    close_order();
}

TEST(the_order_catches_up_with_queues_that_are_ahead_of_it) {
    open_order();
    struct lw__lane *a = add_lane(add_queue(1)), *b = add_lane(add_queue(1));
    insert(a, 1000, 0);
    insert(a, 1000, 0);
    order.pass -= 10 * queues[0].stride; /* as if by rounding, in years */
    turn();
    insert(b, 1000, 0);
    insert(b, 1000, 0);
    int served = 0;
    for (int i = 0; i < 10; i++)
        served += turn() == 1;
    assert_int_equal(served, 5);
    close_order();
}

TEST(a_queue_is_not_held_back_by_a_pass_from_before_the_wrap) {
    open_order();
    struct lw__lane *a = add_lane(add_queue(1)), *b = add_lane(add_queue(1));
    insert(a, 1000, 0);
    insert(a, 1000, 0);
    queues[1].pass = order.pass + (UINT64_C(1) << 62); /* looks far ahead */
    insert(b, 1000, 0);
    insert(b, 1000, 0);
    int served = 0;
    for (int i = 0; i < 10; i++)
        served += turn() == 1;
    assert_int_equal(served, 5);
    close_order();
}

TEST(what_a_queue_took_alone_is_not_held_against_it) {
    open_order();
    struct lw__lane *a = add_lane(add_queue(1)), *b = add_lane(add_queue(1)), *lane;
    struct lw__task *taken[64];
    for (uint32_t i = 0; i < 100; i++)
        insert(a, 1000, i);
    assert_int_equal(take_tasks(&order, taken, 64, &lane), 64);
    for (uint32_t i = 0; i < 100; i++)
        insert(b, 1000, i);
    int served = 0;
    for (int i = 0; i < 10; i++)
        served += turn() == 0;
    assert_true(served == 4 || served == 5);
    close_order();
}

TEST(another_weight_counts_from_then_on) {
    open_queues((uint32_t[QUEUES]){1, 1}, 0);
    for (int i = 0; i < 101; i++)
        turn();
    lw__order_set_weight(&order, &queues[1], 9);
    int served = 0;
    for (int i = 0; i < 1000; i++)
        served += turn() == 1;
    assert_true(served >= 899 && served <= 901);
    lw__order_set_weight(&order, &queues[1], 1);
    served = 0;
    for (int i = 0; i < 1000; i++)
        served += turn() == 1;
    assert_true(served >= 499 && served <= 501);
    close_order();
}

TEST(with_several_queues_a_take_ends_with_the_turn) {
    struct lw__task *taken[64];
    struct lw__lane *lane;
    open_order();
    for (int i = 0; i < 2; i++) {
        add_lane(add_queue(1));
        for (uint32_t due = 0; due < 100; due++)
            insert(&lanes[i], 1000, due);
    }
    for (int i = 0; i < 100; i++) {
        uint32_t count = take_tasks(&order, taken, 64, &lane);
        assert_true(count >= 1 && count <= 2); /* the end of its last turn and the begin of this */
    }
    close_order();
}

/* ---- removing ---- */

TEST(tasks_are_removed_from_the_front_the_middle_and_the_end) {
    struct lw__lane *lane = open_lane();
    uint32_t left = 1000;
    for (uint32_t i = 0; i < 1000; i++)
        insert(lane, i % 5 == 4 ? 7 : 1000, i % 3 ? i : i / 2);
    for (uint32_t i = 0; i < 1000; i++) {
        if (i < 10 || i > 990 || (i * 7919) % 3 == 0) {
            lw__order_remove(&order, &tasks[i]);
            assert_null(tasks[i].place.lane);
            assert_int_equal(order.count, --left);
            assert_int_equal(order.ready_count, left);
            assert_int_equal(lane->queue->count, left);
        }
    }
    drain_sorted(64, left);
    close_order();
}

TEST(removing_the_first_of_a_lane_lets_another_lane_be_next) {
    open_order();
    struct lw__lane *a = add_lane(add_queue(1)), *b = add_lane(&queues[0]);
    struct lw__task *first = insert(a, 1000, 1);
    insert(b, 1000, 2);
    insert(a, 1000, 3);
    struct lw__task *inner = insert(a, 1000, 4);
    lw__order_remove(&order, inner);
    assert_ptr_equal(lw__order_next(&order), a);
    lw__order_remove(&order, first);
    assert_ptr_equal(lw__order_next(&order), b);
    drain_sorted(64, 2);
    close_order();
}

TEST(removing_what_is_not_there_ends_the_program) {
    pid_t child = fork();
    if (child == 0) {
        struct lw__task *task = insert(open_lane(), 1000, 1);
        close(STDERR_FILENO); /* its message would look like a failure of this test */
        lw__order_remove(&order, task);
        lw__order_remove(&order, task);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

/* ---- memory ---- */

enum { FLAT = 40 * 1024 }; /* spare blocks, small heaps */

TEST(blocks_without_tasks_are_freed_wherever_they_are) {
    struct lw__lane *lane = open_lane();
    for (uint32_t i = 0; i < 20000; i++)
        insert(lane, 1000, i);
    assert_true(bytes_in_use() < 20000 * 9);
    for (uint32_t i = 1; i < 19999; i++) /* all but the first and the last */
        lw__order_remove(&order, &tasks[(uint32_t)(i * UINT64_C(7919)) % 19998 + 1]);
    assert_int_equal(order.count, 2);
    assert_true(bytes_in_use() < FLAT);
    assert_int_equal(order.bytes, bytes_in_use());
    drain_sorted(64, 2);
    close_order();
}

/* One old task in front, and then `count` come and go over and over. */
static void submit_and_cancel(bool is_in_order, uint32_t count, uint32_t priorities) {
    struct lw__lane *lane = open_lane();
    uint64_t due = 1000000;
    lw__order_shut(&order, lane, 4);
    insert(lane, 0, 0);
    for (uint32_t round = 0; round < 100000 / count; round++) {
        task_count = 1;
        for (uint32_t i = 0; i < count; i++)
            insert(lane, i % priorities, is_in_order ? ++due : --due);
        for (uint32_t i = 1; i < task_count; i++)
            lw__order_remove(&order, &tasks[i]);
        assert_true(bytes_in_use() < FLAT);
        assert_int_equal(order.bytes, bytes_in_use());
    }
    lw__order_shut(&order, lane, 0);
    drain_sorted(64, 1);
    close_order();
}

TEST(submitting_and_cancelling_in_a_paused_queue_stays_flat) {
    submit_and_cancel(true, 1, 1);
    submit_and_cancel(true, 1000, 1);
    submit_and_cancel(true, 1000, 20);
    submit_and_cancel(false, 1, 1);
    submit_and_cancel(false, 1000, 1);
    submit_and_cancel(false, 1000, 20);
}

TEST(what_was_reserved_for_nothing_is_given_back) {
    struct lw__lane *lane = open_lane();
    assert_true(lw__order_reserve(&order, lane, 100000));
    assert_true(bytes_in_use() > FLAT);
    for (uint32_t i = 0; i < 10000; i++)
        insert(lane, 1000, i);
    drain_sorted(64, 10000);
    assert_true(bytes_in_use() < FLAT);
    close_order();
}

TEST(a_stream_of_tasks_allocates_nothing) {
    struct lw__lane *lane = open_lane();
    uint64_t before = 0;
    for (uint32_t round = 0; round < 1000; round++) {
        task_count = 0;
        for (uint32_t i = 0; i < 200; i++) {
            assert_true(lw__order_reserve(&order, lane, 1));
            insert(lane, 1000, round);
        }
        drain_sorted(64, 200);
        if (round == 0)
            before = allocations();
    }
    assert_int_equal(allocations(), before);
    close_order();
}

static void insert_anything(struct lw__lane *lane, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        insert(lane, (uint32_t)below(7), below(1000));
}

TEST(what_is_reserved_needs_no_memory_at_any_place) {
    struct lw__lane *lane = open_lane(), *other = add_lane(&queues[0]);
    seed(34);
    for (uint32_t count = 1; count < 3000; count = count * 2 + 1) {
        task_count = 0;
        assert_true(lw__order_reserve(&order, lane, count));
        assert_true(lw__order_reserve(&order, other, 5)); /* each lane has its own */
        is_dry = true;
        insert_anything(lane, count);
        insert_anything(other, 5);
        is_dry = false;
        assert_null(lane->strays);
        assert_null(other->strays);
        drain_sorted(64, count + 5);
    }
    close_order();
}

TEST(a_reserve_without_memory_says_so) {
    struct lw__lane *lane = open_lane();
    is_dry = true;
    assert_false(lw__order_reserve(&order, lane, 1));
    insert(lane, 1000, 1); /* a stray, which must not take what is reserved now */
    assert_false(lw__order_reserve(&order, lane, 1));
    is_dry = false;
    assert_true(lw__order_reserve(&order, lane, 16));
    assert_false(lw__order_reserve(&order, lane, SIZE_MAX));
    is_dry = true;
    task_count = 1;
    seed(35);
    insert_anything(lane, 16);
    is_dry = false;
    assert_null(lane->strays);
    drain_sorted(64, 17);
    close_order();
}

TEST(without_memory_nothing_is_lost_and_the_order_is_kept) {
    struct lw__lane *lane = open_lane(), *other = add_lane(&queues[0]);
    seed(36);
    insert_anything(lane, 300);
    is_dry = true;
    insert_anything(lane, 1000);
    insert_anything(other, 1000);
    assert_non_null(lane->strays);
    assert_non_null(other->strays);
    for (uint32_t i = 0; i < 2300; i += 3)
        lw__order_remove(&order, &tasks[i]);
    drain_sorted(64, 2300 - 767);
    is_dry = false;
    close_order();
}

TEST(a_stray_comes_between_those_of_a_run) {
    struct lw__lane *lane = open_lane();
    for (uint32_t i = 0; i < 10; i++)
        insert(lane, 1000, 10 * i);
    is_dry = true;
    insert(lane, 1000, 35);
    is_dry = false;
    assert_non_null(lane->strays);
    drain_sorted(64, 11);
    close_order();
}

TEST(strays_come_home_when_there_is_memory_again) {
    struct lw__lane *lane = open_lane();
    seed(37);
    is_dry = true;
    insert_anything(lane, 500);
    assert_non_null(lane->strays);
    is_dry = false;
    insert_anything(lane, 1);
    assert_null(lane->strays);
    assert_null(lane->last_stray);
    insert_anything(lane, 100);
    drain_sorted(64, 601);
    close_order();
}

/* ---- the n-th allocation fails ---- */

TEST(every_failed_allocation_is_told_or_made_up_for) {
    for (uint64_t nth = 1;; nth++) {
        uint32_t refusals = 0;
        lw__random_seed(&random_numbers, nth);
        open_order();
        lw_test_memory_fail_at(memory, nth);
        for (uint32_t i = 0; i < 3; i++)
            while (!lw__order_add_queue(&order, &queues[i], 1))
                refusals++;
        for (uint32_t i = 0; i < LANES; i++) /* more than a first heap holds */
            while (!lw__order_add_lane(&order, &queues[0], &lanes[i], NULL, &only_kind))
                refusals++;
        for (uint32_t i = 0; i < 1000; i++) {
            struct lw__lane *lane = &lanes[below(3)];
            if (i % 10 == 0)
                refusals += !lw__order_reserve(&order, lane, 20);
            insert(lane, (uint32_t)below(6), below(100) ? i : below(1000));
        }
        bool has_failed = lw_test_memory_has_failed(memory);
        assert_true(refusals <= has_failed);
        drain_sorted(64, 1000);
        close_order();
        if (!has_failed)
            break;
        assert_true(nth < 1000);
    }
}

/* ---- looking ---- */

TEST(the_oldest_is_found_in_shut_lanes_too) {
    open_order();
    struct lw__lane *a = add_lane(add_queue(1)), *b = add_lane(&queues[0]),
                    *c = add_lane(&queues[0]);
    struct lw__lane *elsewhere = add_lane(add_queue(1));
    insert(elsewhere, 0, 0);
    insert(a, 1000, 3);
    insert(a, 2000, 1);
    struct lw__task *second = insert(b, 1000, 2), *first = insert(c, 1000, 1);
    assert_ptr_equal(lw__order_oldest(&queues[0]), first);
    lw__order_shut(&order, c, 1);
    assert_ptr_equal(lw__order_oldest(&queues[0]), first);
    lw__order_remove(&order, first);
    assert_ptr_equal(lw__order_oldest(&queues[0]), second);
    lw__order_shut(&order, a, 1);
    lw__order_shut(&order, b, 1);
    assert_ptr_equal(lw__order_oldest(&queues[0]), second);
    close_order();
}

static bool mark(void *user, struct lw__task *task) {
    unsigned char *marks = user;
    marks[task - tasks]++;
    return true;
}

static bool mark_three(void *user, struct lw__task *task) {
    unsigned *seen = user;
    (void)task;
    return ++*seen < 3;
}

TEST(each_task_of_a_lane_is_visited_once) {
    unsigned char marks[1300] = {0};
    struct lw__lane *lane = open_lane(), *other = add_lane(&queues[0]);
    seed(38);
    insert_anything(lane, 1000);
    is_dry = true;
    insert_anything(lane, 200);
    is_dry = false;
    assert_non_null(lane->strays);
    for (uint32_t i = 0; i < 1200; i += 4)
        lw__order_remove(&order, &tasks[i]);
    insert_anything(other, 100);
    assert_true(lw__order_each(lane, mark, marks));
    for (uint32_t i = 0; i < 1300; i++)
        assert_int_equal(marks[i], i < 1200 && i % 4 != 0);
    unsigned seen = 0;
    assert_false(lw__order_each(lane, mark_three, &seen));
    assert_int_equal(seen, 3);
    close_order();
}

/* ---- against a plain array ------------------------------------------------------------------ */

enum { MODEL_QUEUES = 3, MODEL_LANES = 9, MODEL_MAX = 1500 };

static struct lw__task *model[MODEL_MAX], *unused[MODEL_MAX];
static uint32_t model_count, unused_count;
static uint64_t model_now, model_id;

static void model_open(void) {
    open_order();
    model_count = unused_count = 0;
    model_now = 1000;
    for (uint32_t i = 0; i < MODEL_QUEUES; i++)
        add_queue((uint32_t)below(5) + 1);
    for (uint32_t i = 0; i < MODEL_LANES; i++)
        add_lane(&queues[i % MODEL_QUEUES]);
    for (uint32_t i = 0; i < MODEL_MAX; i++)
        unused[unused_count++] = &tasks[i];
}

static void model_insert(void) {
    if (unused_count == 0)
        return;
    struct lw__task *task = unused[--unused_count];
    memset(task, 0xa5, sizeof *task); /* what a timer may have left in the place */
    model_now += below(2);
    task->id = ++model_id;
    task->priority = below(4) ? 1000 : 998 + (uint32_t)below(7);
    lw__put(&task->due_at, below(5) ? model_now : model_now - below(1000));
    if (below(4) == 0)
        (void)lw__order_reserve(&order, &lanes[below(MODEL_LANES)], 1 + below(20));
    lw__order_insert(&order, &lanes[below(MODEL_LANES)], task);
    model[model_count++] = task;
}

static void model_forget(uint32_t at) {
    assert_null(model[at]->place.lane);
    unused[unused_count++] = model[at];
    model[at] = model[--model_count];
}

/* The first of a queue, of all its lanes or of open ones only: its index, or model_count. */
static uint32_t model_first(const struct lw__order_queue *queue, bool is_open_only) {
    uint32_t best = model_count;
    for (uint32_t i = 0; i < model_count; i++) {
        struct lw__lane *lane = model[i]->place.lane;
        if (lane->queue != queue || (is_open_only && lane->shut))
            continue;
        if (best == model_count || is_less(model[i], model[best]))
            best = i;
    }
    return best;
}

/* Those that were taken have no lane any more: they are put back on paper and compared one by
 * one. */
static void model_take(void) {
    struct lw__task *taken[100];
    struct lw__lane *next = lw__order_next(&order), *lane;
    uint32_t max = (uint32_t)below(100) + 1;
    uint32_t count = take_tasks(&order, taken, max, &lane);
    assert_ptr_equal(lane, next);
    assert_int_equal(count == 0, next == NULL);
    if (count < max && count > 0)
        assert_ptr_not_equal(lw__order_next(&order), lane);
    for (uint32_t i = 0; i < count; i++) {
        assert_null(taken[i]->place.lane);
        taken[i]->place.lane = lane;
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = model_first(lane->queue, true);
        assert_true(at < model_count);
        assert_ptr_equal(model[at], taken[i]);
        taken[i]->place.lane = NULL;
        model_forget(at);
    }
    if (count == 0)
        for (uint32_t i = 0; i < MODEL_QUEUES; i++)
            assert_int_equal(model_first(&queues[i], true), model_count);
}

static void model_check(void) {
    size_t counts[MODEL_LANES] = {0}, ready = 0;
    for (uint32_t i = 0; i < model_count; i++) {
        counts[model[i]->place.lane - lanes]++;
        ready += model[i]->place.lane->shut == 0;
    }
    for (uint32_t i = 0; i < MODEL_LANES; i++)
        assert_int_equal(lanes[i].count, counts[i]);
    assert_int_equal(order.count, model_count);
    assert_int_equal(order.ready_count, ready);
    assert_int_equal(order.bytes, bytes_in_use());
    for (uint32_t i = 0; i < MODEL_QUEUES; i++) {
        uint32_t at = model_first(&queues[i], false);
        assert_ptr_equal(lw__order_oldest(&queues[i]), at < model_count ? model[at] : NULL);
    }
}

static void model_step(uint32_t tide) {
    uint32_t dice = (uint32_t)below(1000);
    if (dice < tide) {
        model_insert();
    } else if (dice < 850) {
        if (model_count > 0) {
            uint32_t at = (uint32_t)below(model_count);
            lw__order_remove(&order, model[at]);
            model_forget(at);
        }
    } else if (dice < 880) {
        model_take();
    } else if (dice < 960) {
        lw__order_shut(&order, &lanes[below(MODEL_LANES)], below(3) ? 0 : (uint32_t)below(8));
    } else if (dice < 970) {
        lw__order_set_weight(&order, &queues[below(MODEL_QUEUES)], (uint32_t)below(5) + 1);
    } else if (dice < 980) {
        is_dry = below(4) == 0;
    } else {
        model_check();
    }
}

TEST(random_use_is_like_that_of_a_plain_array) {
    long rounds = test_scale(20, 1000);
    for (long round = 0; round < rounds; round++) {
        seed(20240901 + (uint64_t)round);
        model_open();
        for (int i = 0; i < 10000; i++)
            model_step(i / 2500 % 2 == 0 ? 750
                                         : 350); /* tides, so that it fills up and runs empty */
        is_dry = false;
        for (uint32_t i = 0; i < MODEL_LANES; i++)
            lw__order_shut(&order, &lanes[i], 0);
        while (model_count > 0)
            model_take();
        model_check();
        close_order();
    }
}
