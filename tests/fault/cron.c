/* The n-th allocation fails: parsing says so, leaves nothing behind, and works the next time. */
#include "calendar.h"

#include <legwork/testing.h>

static int load(void *user, const char *name, void *into, size_t room, size_t *size) {
    const struct zone_made made = {
        .rule = *(const char **)user, .kinds = {{3600, false, "CET"}}, .kind_count = 1};
    (void)name;
    *size = zone_bytes(&made, into, room);
    return LW_OK;
}

static int use_zones(lw_test_memory *memory) {
    const char *rule = "CET-1";
    lw_zones *zones = NULL;
    lw_cron *cron = NULL;
    lw_error err = {0};
    int rc = lw_zones_open(&zones,
                           LW_ZONES_OPTIONS(.allocator = lw_test_memory_allocator(memory),
                                            .load = load, .user = &rule, .check_ms = LW_ZERO),
                           &err);
    if (rc == LW_OK)
        rc = lw_cron_parse(&cron, zones, "@daily", LW_CRON_OPTIONS(.zone = "Test/One"), &err);
    if (rc == LW_OK) {
        rule = "CET-2";
        rc = lw_zones_refresh(zones, 0, &err);
        if (rc == LW_ENOMEM) /* the next one tries again */
            assert_int_equal(lw_zones_refresh(zones, 0, &err), 1);
    }
    if (rc < 0)
        assert_true(err.status == rc && err.message[0] != 0);
    lw_cron_close(cron);
    lw_zones_close(zones);
    return rc;
}

TEST(every_allocation_may_fail) {
    lw_test_memory *memory = NULL;
    uint64_t blocks, failures = 0;
    int rc = LW_ENOMEM;
    assert_status(lw_test_memory_open(&memory), LW_OK);
    for (uint64_t nth = 1; rc == LW_ENOMEM; nth++) {
        lw_test_memory_fail_at(memory, nth);
        rc = use_zones(memory);
        lw_test_memory_usage(memory, &blocks, NULL, NULL);
        assert_int_equal(blocks, 0);
        failures += rc == LW_ENOMEM;
    }
    assert_int_equal(rc, 1); /* what the refresh has returned */
    assert_true(failures >= 6);
    lw_test_memory_close(memory);
}
