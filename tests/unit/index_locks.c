/* What the two locks of the index keep from each other, and what not; and the free tasks that go
 * from one side to the other. */
#include "stores.h"

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
