/* Threads parse, compute and close while zones get new data. */
#include "calendar.h"

#include <pthread.h>
#include <stdatomic.h>

static _Atomic int round_number;

static int load(void *user, const char *name, void *into, size_t room, size_t *size) {
    const struct zone_made made = {.rule = atomic_load(&round_number) % 2 ? "AAA-1" : "BBB5",
                                   .kinds = {{0, false, "AAA"}},
                                   .kind_count = 1};
    (void)user;
    (void)name;
    *size = zone_bytes(&made, into, room);
    return LW_OK;
}

static void *compute(void *zones) {
    int64_t last = 0;
    for (long i = 0; i < test_scale(3000, 100000); i++) {
        lw_cron *cron = parse_cron(zones, "0 12 * * *", i % 2 ? "Test/One" : "Test/Two");
        for (int k = 0; k < 10; k++) {
            int64_t tick;
            assert_status(lw_cron_next(cron, INT64_C(1700000000000), &tick), LW_OK);
            assert_true(tick == INT64_C(1700046000000) || tick == INT64_C(1700067600000));
            last = tick;
        }
        lw_cron_close(cron);
    }
    assert_true(last > 0);
    return NULL;
}

TEST(zones_get_new_data_while_others_compute) {
    lw_zones *zones = NULL;
    pthread_t threads[3];
    int changed = 0;
    assert_status(lw_zones_open(&zones, LW_ZONES_OPTIONS(.load = load, .check_ms = LW_ZERO), NULL),
                  LW_OK);
    lw_cron *kept = parse_cron(zones, "0 12 * * *", "Test/One");
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, compute, zones), 0);
    for (int i = 0; i < 2000; i++) {
        atomic_fetch_add(&round_number, 1);
        int rc = lw_zones_refresh(zones, 0, NULL);
        assert_true(rc >= 0);
        changed += rc;
    }
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    assert_true(changed >= 2000); /* Test/One was in use throughout */
    lw_cron_close(kept);
    lw_zones_close(zones);
}
