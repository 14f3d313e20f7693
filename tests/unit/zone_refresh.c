/* Zone data that change on disk, or in a loader. */
#include "calendar.h"
#include "pools.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct zone_made east = {
    .rule = "AAA-1", .kinds = {{3600, false, "AAA"}}, .kind_count = 1};
static const struct zone_made west = {
    .rule = "BBB5", .kinds = {{-18000, false, "BBB"}}, .kind_count = 1};

/* As a package does it: a new file takes the name. */
static void replace_file(const char *path, const void *bytes, size_t size) {
    FILE *file = fopen("new", "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(rename("new", path), 0);
}

static void install(const char *path, const struct zone_made *made) {
    unsigned char bytes[1024];
    replace_file(path, bytes, zone_bytes(made, bytes, sizeof bytes));
}

static lw_zones *open_folder(int64_t check_ms) {
    lw_zones *zones = NULL;
    assert_int_equal(mkdir("zones", 0777), 0);
    install("zones/One", &east);
    install("zones/Two", &east);
    assert_status(
        lw_zones_open(&zones, LW_ZONES_OPTIONS(.folder = "zones", .check_ms = check_ms), NULL),
        LW_OK);
    return zones;
}

static int64_t next_tick(const lw_cron *cron) {
    int64_t tick;
    assert_status(lw_cron_next(cron, INT64_C(1700000000000), &tick), LW_OK);
    return tick;
}

TEST(new_data_are_used_and_told) {
    lw_zones *zones = open_folder(LW_ZERO);
    lw_cron *one = parse_cron(zones, "0 12 * * *", "One");
    lw_cron *two = parse_cron(zones, "0 12 * * *", "Two");
    int64_t before = next_tick(one);
    uint32_t version = lw_zone_version(lw_cron_zone(one));
    assert_int_equal(lw_zones_refresh(zones, 0, NULL), 0);
    install("zones/One", &west);
    assert_int_equal(next_tick(one), before);
    assert_int_equal(lw_zones_refresh(zones, 0, NULL), 1);
    assert_int_not_equal(lw_zone_version(lw_cron_zone(one)), version);
    assert_int_equal(lw_zone_version(lw_cron_zone(two)), version);
    assert_int_not_equal(next_tick(one), before);
    assert_int_equal(next_tick(two), before);
    assert_int_equal(lw_zones_refresh(zones, 0, NULL), 0);
    lw_cron_close(one);
    lw_cron_close(two);
    lw_zones_close(zones);
}

TEST(a_new_file_that_says_the_same_changes_nothing) {
    lw_zones *zones = open_folder(LW_ZERO);
    lw_cron *one = parse_cron(zones, "0 12 * * *", "One");
    uint32_t version = lw_zone_version(lw_cron_zone(one));
    install("zones/One", &east);
    assert_int_equal(lw_zones_refresh(zones, 0, NULL), 0);
    assert_int_equal(lw_zone_version(lw_cron_zone(one)), version);
    lw_cron_close(one);
    lw_zones_close(zones);
}

TEST(files_are_looked_at_every_check_ms_at_most) {
    lw_zones *zones = open_folder(1000);
    lw_cron *one = parse_cron(zones, "0 12 * * *", "One");
    assert_int_equal(lw_zones_refresh(zones, 5000, NULL), 0);
    install("zones/One", &west);
    assert_int_equal(lw_zones_refresh(zones, 5999, NULL), 0);
    assert_int_equal(lw_zones_refresh(zones, 6000, NULL), 1);
    install("zones/One", &east);
    assert_int_equal(lw_zones_refresh(zones, 6500, NULL), 0);
    assert_int_equal(lw_zones_refresh(zones, 100, NULL), 1); /* the clock was set back */
    lw_cron_close(one);
    lw_zones_close(zones);
}

TEST(a_broken_file_is_told_once_and_the_old_data_stay) {
    lw_zones *zones = open_folder(LW_ZERO);
    lw_cron *one = parse_cron(zones, "0 12 * * *", "One");
    lw_cron *two = parse_cron(zones, "0 12 * * *", "Two");
    lw_error err = {0};
    int64_t before = next_tick(one);
    uint32_t version = lw_zone_version(lw_cron_zone(one));
    replace_file("zones/One", "TZif", 4);
    install("zones/Two", &west);
    assert_status(lw_zones_refresh(zones, 0, &err), LW_ECORRUPT);
    assert_sentence(&err, LW_ECORRUPT, "the file of zone \"One\" is damaged");
    assert_int_equal(next_tick(one), before);
    assert_int_equal(lw_zone_version(lw_cron_zone(one)), version);
    assert_int_not_equal(next_tick(two), before); /* the others are refreshed all the same */
    assert_int_equal(lw_zones_refresh(zones, 0, &err), 0);
    assert_int_equal(unlink("zones/One"), 0);
    assert_status(lw_zones_refresh(zones, 0, &err), LW_ENOTFOUND);
    assert_int_equal(lw_zones_refresh(zones, 0, &err), 0);
    assert_int_equal(next_tick(one), before);
    install("zones/One", &west);
    assert_int_equal(lw_zones_refresh(zones, 0, &err), 1);
    assert_int_equal(next_tick(one), next_tick(two));
    lw_cron_close(one);
    lw_cron_close(two);
    lw_zones_close(zones);
}

/* ---- loaders ------------------------------------------------------------------------------- */

struct loaded {
    const struct zone_made *made;
    int status;
};

static int load(void *user, const char *name, void *into, size_t room, size_t *size) {
    const struct loaded *loaded = user;
    assert_string_equal(name, "Any/Zone");
    if (loaded->status < 0)
        return loaded->status;
    *size = zone_bytes(loaded->made, into, room);
    return LW_OK;
}

TEST(what_a_loader_gives_is_refreshed_too) {
    struct loaded loaded = {.made = &east};
    lw_zones *zones = NULL;
    lw_error err = {0};
    assert_status(
        lw_zones_open(&zones, LW_ZONES_OPTIONS(.load = load, .user = &loaded, .check_ms = LW_ZERO),
                      NULL),
        LW_OK);
    lw_cron *cron = parse_cron(zones, "0 12 * * *", "Any/Zone");
    int64_t before = next_tick(cron);
    assert_int_equal(lw_zones_refresh(zones, 0, NULL), 0);
    loaded.made = &west;
    assert_int_equal(lw_zones_refresh(zones, 0, NULL), 1);
    assert_int_not_equal(next_tick(cron), before);
    loaded.status = LW_ENOTFOUND;
    assert_status(lw_zones_refresh(zones, 0, &err), LW_ENOTFOUND);
    assert_sentence(&err, LW_ENOTFOUND, "zone \"Any/Zone\" is not there");
    assert_int_equal(lw_zones_refresh(zones, 0, &err), 0);
    loaded.status = LW_ETIMEDOUT;
    assert_status(lw_zones_refresh(zones, 0, &err), LW_ETIMEDOUT);
    assert_sentence(&err, LW_ETIMEDOUT, "the loader of zones has no bytes");
    loaded.status = LW_EFULL;
    assert_status(lw_zones_refresh(zones, 0, &err), LW_EFULL);
    loaded = (struct loaded){.made = &east};
    assert_int_equal(lw_zones_refresh(zones, 0, NULL), 1);
    assert_int_equal(next_tick(cron), before);
    lw_cron_close(cron);
    lw_zones_close(zones);
}
