/* Fuzzes TZif files: whatever is accepted has clock changes that rise, and ticks in it rise and are
 * found again from behind. */
#include <legwork/cron.h>

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
    const uint8_t *data;
    size_t size;
};

static int load(void *user, const char *name, void *into, size_t room, size_t *size) {
    const struct input *input = user;
    (void)name;
    if (input->size > room)
        return LW_EFULL;
    memcpy(into, input->data, input->size);
    *size = input->size;
    return LW_OK;
}

static void walk_changes(const lw_zone *zone) {
    lw_zone_change change = {.at_ms = 0};
    lw_local_time local;
    for (int i = 0; i < 50; i++) {
        int64_t after = change.at_ms;
        if (lw_zone_next_change(zone, after, &change) != LW_OK)
            return;
        assert(change.at_ms > after && change.before_s != change.after_s);
        assert(lw_zone_local(zone, change.at_ms, &local) == LW_OK);
        assert(local.offset_s == change.after_s);
        assert(lw_zone_local(zone, change.at_ms - 1, &local) == LW_OK);
        assert(local.offset_s == change.before_s);
    }
}

static void walk_ticks(lw_zones *zones, const char *expression, int64_t at) {
    lw_cron *cron = NULL;
    int64_t tick, latest;
    assert(lw_cron_parse(&cron, zones, expression, LW_CRON_OPTIONS(.zone = "Fuzz/Zone"), NULL)
           == LW_OK);
    for (int i = 0; i < 20 && lw_cron_next(cron, at, &tick) == LW_OK; i++) {
        assert(tick > at);
        assert(lw_cron_latest(cron, at, tick, &latest) == LW_OK && latest == tick);
        assert(lw_cron_latest(cron, at, tick - 1, &latest) == LW_ENOTFOUND);
        at = tick;
    }
    lw_cron_close(cron);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct input input = {data, size};
    lw_zones *zones = NULL;
    lw_zone *zone = NULL;
    lw_error err = {0};
    assert(lw_zones_open(&zones, LW_ZONES_OPTIONS(.load = load, .user = &input), NULL) == LW_OK);
    if (lw_zone_open(&zone, zones, "Fuzz/Zone", &err) == LW_OK) {
        static const int64_t froms[] = {0, INT64_C(1700000000000), INT64_C(4000000000000)};
        walk_changes(zone);
        for (size_t i = 0; i < sizeof froms / sizeof *froms; i++) {
            walk_ticks(zones, "*/20 * * * *", froms[i]);
            walk_ticks(zones, "30 1,2,23 * * *", froms[i]);
            walk_ticks(zones, "0 */6 29 2 */7", froms[i]);
            walk_ticks(zones, "15 3 1 1,4,10 ?", froms[i]);
        }
    } else {
        assert(err.message[0] != 0 && (err.status == LW_ECORRUPT || err.status == LW_EINVAL));
    }
    lw_zone_close(zone);
    lw_zones_close(zones);
    return 0;
}
