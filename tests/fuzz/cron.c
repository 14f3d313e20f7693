/* Fuzzes cron expressions: the first line is the zone, the rest the expression. What is read has
 * ticks that rise and are found again from behind, and words; what is refused has a sentence. */
#include <legwork/cron.h>

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void walk(const lw_cron *cron, int64_t from) {
    int64_t at = from, tick, latest;
    for (int i = 0; i < 5; i++) {
        if (lw_cron_next(cron, at, &tick) != LW_OK)
            return;
        assert(tick > at && tick <= LW_TICK_MS_MAX);
        assert(lw_cron_latest(cron, at, tick, &latest) == LW_OK && latest == tick);
        assert(lw_cron_latest(cron, at, tick - 1, &latest) == LW_ENOTFOUND);
        assert(lw_cron_latest(cron, -1, tick, &latest) == LW_OK && latest == tick);
        assert(lw_cron_count(cron, at, tick, 3) == 1);
        at = tick;
    }
    assert(lw_cron_count(cron, from, at, 10) == 5);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char zone[80] = "", expression[LW_CRON_EXPRESSION_MAX + 10] = "";
    char words[LW_CRON_WORDS_MAX];
    const uint8_t *end = memchr(data, '\n', size);
    size_t first = end ? (size_t)(end - data) : 0, rest = end ? size - first - 1 : 0;
    if (!end || first >= sizeof zone || rest >= sizeof expression)
        return 0;
    memcpy(zone, data, first);
    memcpy(expression, end + 1, rest);
    lw_zones *zones = NULL;
    lw_cron *cron = NULL;
    lw_error err = {0};
    assert(lw_zones_open(&zones, NULL, NULL) == LW_OK);
    if (lw_cron_parse(&cron, zones, expression, LW_CRON_OPTIONS(.zone = zone, .offset_ms = 7), &err)
        == LW_OK) {
        int length = lw_cron_describe(cron, words, sizeof words);
        assert(length > 0 && (size_t)length < sizeof words && strlen(words) == (size_t)length);
        walk(cron, 0);
        walk(cron, INT64_C(1711800000000));
        walk(cron, INT64_C(4000000000000));
        walk(cron, LW_TICK_MS_MAX - INT64_C(86400000) * 40);
    } else {
        assert(err.message[0] != 0 && err.status < 0);
    }
    lw_cron_close(cron);
    lw_zones_close(zones);
    return 0;
}
