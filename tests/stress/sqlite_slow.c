/* A disk that hangs: a commit that takes longer than 5 s is said, before anybody knows how it
 * ends. */
#include "engines.h"
#include "gate.h"

#include <legwork/lease.h>
#include <stdatomic.h>
#include <string.h>

static struct gate committing = GATE;
static _Atomic bool is_armed;

void lw__test_point(const char *name);

void lw__test_point(const char *name) {
    if (atomic_load(&is_armed) && strcmp(name, "pump: written, not committed") == 0)
        gate_pass(&committing);
}

static lw_store_health look(lw_engine *engine) {
    lw_store_health health;
    assert_status(lw_get_store_health(engine, &health), LW_OK);
    return health;
}

static void on_submitted(void *user, int status, lw_id id) {
    (void)id;
    assert_status(status, LW_OK);
    tally_add(user, 1);
}

TEST(a_commit_that_hangs_counts_as_a_halt) {
    struct tally written = TALLY;
    lw_snapshot task = LW_SNAPSHOT_INIT;
    lw_error err = {0};
    lw_engine *engine = OPEN_ON("sqlite:tasks.db", .workers = 1);
    start(engine);
    SUBMIT(engine, .kind = "mail");
    atomic_store(&is_armed, true);
    assert_status(lw_submit_async(engine, LW_TASK(.kind = "mail"), on_submitted, &written, &err),
                  LW_OK);
    tally_await(&committing.arrived, 1);
    assert_status(look(engine).status, LW_OK);
    await_that(look(engine).status == LW_ESYSTEM);
    lw_store_health health = look(engine);
    assert_string_equal(health.code, "store_slow");
    CHECK(strstr(health.last.message, "the disk hangs") != NULL);
    assert_status(lw_lease_claim(engine, LW_CLAIM_OPTIONS(.holder = "w"), &task, &err), LW_ESYSTEM);
    CHECK(strstr(err.message, "the disk hangs") != NULL);
    gate_open(&committing);
    tally_await(&written, 1);
    await_that(look(engine).status == LW_OK);
    assert_int_equal(lw_lease_claim(engine, LW_CLAIM_OPTIONS(.holder = "w"), &task, &err), 1);
    lw_snapshot_clear(&task);
    close_engine(engine);
}
