/* What it costs to cancel tasks that wait for others, in dependencies that are looked at: the named
 * points count them. */
#include "engines.h"

#include <string.h>

#define FEW 250

static uint64_t looks; /* one thread drives the engine */

void lw__test_point(const char *name);

void lw__test_point(const char *name) {
    looks += strcmp(name, "undepend: looks at one") == 0;
}

/* The looks that it takes to cancel this many tasks, each of which waits for the same two. */
static uint64_t cancel_dependents(int count) {
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO);
    lw_id ids[FEW * 4], after[2];
    for (int i = 0; i < 2; i++)
        after[i] = SUBMIT(engine, .kind = "task");
    for (int i = 0; i < count; i++)
        ids[i] = SUBMIT(engine, .kind = "task", .after = after, .after_count = 2);
    looks = 0;
    for (int i = 0; i < count; i++)
        assert_status(lw_cancel(engine, ids[i]), LW_OK);
    uint64_t taken = looks;
    for (int i = 0; i < count; i++)
        assert_int_equal(state_of(engine, ids[i]), LW_ABORTED);
    assert_status(lw_close(engine), LW_OK);
    return taken;
}

TEST(to_cancel_four_times_as_many_dependents_is_four_times_the_work) {
    uint64_t few = cancel_dependents(FEW), many = cancel_dependents(FEW * 4);
    assert_int_equal(few, FEW * 2);
    assert_int_equal(many, FEW * 4 * 2);
}
