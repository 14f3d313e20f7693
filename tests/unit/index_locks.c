/* What the two locks of the index keep from each other, and what not; and the free tasks that go
 * from one side to the other. */
#include "stores.h"

#include <stdio.h>

static struct rig rig;

static lw_test_memory *memory;

static void open_store(void) {
    memory = open_memory();
    assert_status(try_open_rig(&rig, "memory:", &(struct rig_options){0}, memory), LW_OK);
    rig.queue = add_queue(&rig, "default", 1, UINT32_MAX);
    rig.kind = add_kind(&rig, "mail", UINT32_MAX);
}

static void close_store(void) {
    close_rig(&rig);
    close_memory(memory);
}

/* A submitter needs its lock for every task: it would wait for as long as others have it. */
TEST(a_plain_put_does_not_wait_for_what_follows_from_ends) {
    open_store();
    struct lw__index *index = rig.store->index;
    struct lw__put one = make_put(&rig, WISH(.priority = 1));
    uint64_t id;
    lw__brief_lock(&index->back);
    assert_status(rig.ops->put_plain(rig.store, rig.now, &one, &id), LW_OK);
    lw__brief_unlock(&index->back);
    assert_int_equal(run_next(&rig), id);
    close_store();
}

/* The same for all that can retire nothing: with a key, a payload, a delay, a limit of time. */
TEST(nor_does_any_put_that_waits_for_no_other_task) {
    open_store();
    struct lw__index *index = rig.store->index;
    const struct wish *wishes[] = {WISH(.key = "a"),          WISH(.payload_size = 100),
                                   WISH(.due = rig.now + MS), WISH(.start_by = rig.now + MS),
                                   WISH(.is_call = true),     WISH(.is_taken = true)};
    lw__brief_lock(&index->back);
    for (size_t i = 0; i < COUNT_OF(wishes); i++) {
        struct lw__put one = make_put(&rig, wishes[i]);
        assert_status(rig.ops->put(rig.store, rig.now, &one, 1), LW_OK);
        assert_status(one.status, LW_OK);
    }
    struct lw__put again = make_put(&rig, WISH(.key = "a"));
    assert_status(rig.ops->put(rig.store, rig.now, &again, 1), LW_OK);
    assert_status(again.status, LW_EXISTS);
    lw__brief_unlock(&index->back);
    drop_put(&rig, &again);
    close_store();
}

/* A key, a payload: what follows from their end is counted as one, and they leave like plain ones.
 * */
TEST(tasks_with_keys_and_payloads_leave_nothing_behind) {
    enum { TASKS = 700, KEPT = 10 };
    open_store();
    const struct lw__index *index = rig.store->index;
    set_retention(&rig, rig.kind, UINT64_MAX, KEPT);
    for (int i = 0; i < TASKS; i++) {
        char key[16];
        snprintf(key, sizeof key, "%d", i % 500);
        if (i % 3 == 0)
            PUT(&rig, 0);
        else if (i % 3 == 1)
            PUT(&rig, .payload_size = 30);
        else
            try_put(&rig, WISH(.key = key, .payload_size = 1), NULL);
        if (i % 100 == 99)
            while (run_next(&rig))
                ;
    }
    assert_int_equal(index->unfinished, 0);
    assert_int_equal(index->bytes, 0);
    assert_int_equal(lw__index_queue_at(index, rig.queue)->bytes, 0);
    assert_int_equal(index->ids.count, KEPT);
    assert_in_range(index->keys.count, 1, KEPT);
    set_retention(&rig, rig.kind, UINT64_MAX, 0);
    assert_int_equal(index->ids.count, 0);
    assert_int_equal(index->keys.count, 0);
    assert_int_equal(lw__index_kind_at(index, rig.kind)->retained[LW__RETAINED_FINISHED].bytes, 0);
    close_store();
}

/* A reader keeps those that leave from being used again; when it has gone, all of them are. */
TEST(tasks_that_somebody_looks_at_are_freed_later) {
    enum { TASKS = 100 };
    open_store();
    struct lw__index *index = rig.store->index;
    set_retention(&rig, rig.kind, UINT64_MAX, 0);
    uint32_t ticket = lw__grace_enter(&index->grace);
    for (int i = 0; i < TASKS; i++) {
        PUT(&rig, 0);
        CHECK(run_next(&rig));
    }
    assert_int_equal(index->tasks.taken_count, TASKS);
    assert_int_equal(index->spares.end, 0);
    assert_int_equal(index->planned, rig.now + LW__RETIRED_NS); /* if nobody comes before */
    assert_int_equal(lw__index_sweep(rig.store, rig.now + 1), rig.now + 1 + LW__RETIRED_NS);
    lw__grace_leave(&index->grace, ticket);
    PUT(&rig, 0);
    CHECK(run_next(&rig));
    assert_int_equal(index->tasks.taken_count, TASKS + 1);
    assert_int_equal(index->spares.end, TASKS + 1);
    for (int i = 0; i < TASKS; i++)
        PUT(&rig, 0);
    assert_int_equal(index->tasks.taken_count, TASKS + 1);
    assert_int_equal(index->spares_begin, TASKS);
    close_store();
}

TEST(free_tasks_beyond_the_magazine_are_given_back) {
    enum { TASKS = 4 * LW__MAGAZINE };
    open_store();
    const struct lw__slab *slab = &rig.store->index->tasks;
    set_retention(&rig, rig.kind, UINT64_MAX, UINT64_MAX);
    for (int i = 0; i < TASKS; i++)
        PUT(&rig, 0);
    for (int i = 0; i < TASKS; i++)
        CHECK(run_next(&rig));
    assert_int_equal(slab->taken_count, TASKS);
    set_retention(&rig, rig.kind, UINT64_MAX, 0);
    assert_int_equal(slab->taken_count, LW__MAGAZINE);
    for (int i = 0; i < TASKS; i++) /* on the way of plain ones, too */
        PUT(&rig, 0);
    for (int i = 0; i < TASKS; i++)
        CHECK(run_next(&rig));
    assert_int_equal(slab->taken_count, LW__MAGAZINE);
    close_store();
}
