/* Figures: that they are right, that those of one kind are of one moment, and that the text is
 * OpenMetrics to the letter. */
#include "engines.h"

#include "engine/engine_internal.h"

#include <legwork/lease.h>

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static lw_engine *engine;
static lw_clock *test_clock;

static void open_driven(void) {
    test_clock = open_clock();
    engine = OPEN_ENGINE(.workers = LW_ZERO, .clock = test_clock, .overflow = LW_REFUSE);
}

static void close_driven(void) {
    close_engine(engine);
    lw_test_clock_close(test_clock);
}

static lw_engine_stats stats(void) {
    lw_engine_stats s;
    memset(&s, 0xaa, sizeof s);
    assert_status(lw_get_stats(engine, &s), LW_OK);
    return s;
}

/* ---- a strict little parser --------------------------------------------------------------- */

enum { SAMPLES_MAX = 60000, FAMILIES_MAX = 100, NAME_MAX_HERE = 256 };

struct sample {
    char name[NAME_MAX_HERE]; /* with its labels, as written */
    double value;
};

struct family {
    char name[64], type[16], unit[16];
    bool has_help;
};

struct page {
    char *text;
    size_t size, capacity;
    size_t pieces, piece_max;
    struct sample *samples;
    size_t sample_count;
    struct family families[FAMILIES_MAX];
    size_t family_count;
};

static int collect(void *user, const char *text, size_t size) {
    struct page *page = user;
    CHECK(size > 0);
    if (page->size + size + 1 > page->capacity) {
        page->capacity = 2 * (page->size + size + 1);
        page->text = realloc(page->text, page->capacity);
        assert_non_null(page->text);
    }
    memcpy(page->text + page->size, text, size);
    page->size += size;
    page->text[page->size] = 0;
    page->pieces++;
    if (size > page->piece_max)
        page->piece_max = size;
    return LW_OK;
}

static bool is_name_letter(char c, bool is_first) {
    return (c >= 'a' && c <= 'z') || c == '_' || (!is_first && c >= '0' && c <= '9');
}

static const char *skip_name(const char *at) {
    CHECK(is_name_letter(*at, true));
    while (is_name_letter(*at, false))
        at++;
    return at;
}

/* {name="value",...}, each name once and in the same order everywhere. */
static const char *skip_labels(const char *at) {
    if (*at != '{')
        return at;
    do {
        at = skip_name(at + 1);
        CHECK(at[0] == '=' && at[1] == '"');
        for (at += 2; *at != '"'; at++) {
            CHECK((unsigned char)*at >= 0x20);
            if (*at == '\\') {
                at++;
                CHECK(*at == '\\' || *at == '"' || *at == 'n');
            }
        }
        at++;
    } while (*at == ',');
    CHECK(*at == '}');
    return at + 1;
}

static bool ends_with(const char *text, const char *end) {
    size_t length = strlen(text), end_length = strlen(end);
    return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

static void copy(char *to, size_t room, const char *from, size_t length) {
    CHECK(length < room);
    memcpy(to, from, length);
    to[length] = 0;
}

static void parse_comment(struct page *page, const char *line) {
    char name[64];
    const char *start = strchr(line + 2, ' ') + 1, *end = skip_name(start), *rest = end + 1;
    CHECK(*end == ' ' && *rest != 0 && *rest != ' ' && !ends_with(rest, " "));
    copy(name, sizeof name, start, (size_t)(end - start));
    CHECK(strncmp(name, "legwork_", 8) == 0);
    if (strncmp(line, "# TYPE ", 7) == 0) {
        for (size_t i = 0; i < page->family_count; i++)
            CHECK(strcmp(page->families[i].name, name) != 0);
        CHECK(page->family_count < FAMILIES_MAX);
        struct family *family = &page->families[page->family_count++];
        copy(family->name, sizeof family->name, name, strlen(name));
        copy(family->type, sizeof family->type, rest, strlen(rest));
        CHECK(!strcmp(rest, "gauge") || !strcmp(rest, "counter") || !strcmp(rest, "histogram"));
        CHECK(!ends_with(name, "_total") && !ends_with(name, "_count") && !ends_with(name, "_sum")
              && !ends_with(name, "_bucket") && !ends_with(name, "_info"));
        return;
    }
    CHECK(page->family_count > 0);
    struct family *family = &page->families[page->family_count - 1];
    assert_string_equal(family->name, name);
    if (strncmp(line, "# UNIT ", 7) == 0) {
        CHECK(family->unit[0] == 0);
        copy(family->unit, sizeof family->unit, rest, strlen(rest));
        CHECK(ends_with(name, rest) && name[strlen(name) - strlen(rest) - 1] == '_');
    } else {
        CHECK(strncmp(line, "# HELP ", 7) == 0 && !family->has_help);
        family->has_help = true;
    }
}

static bool is_suffix_of(const struct family *family, const char *suffix) {
    if (strcmp(family->type, "counter") == 0)
        return strcmp(suffix, "_total") == 0;
    if (strcmp(family->type, "histogram") == 0)
        return !strcmp(suffix, "_bucket") || !strcmp(suffix, "_sum") || !strcmp(suffix, "_count");
    return suffix[0] == 0;
}

static void parse_sample(struct page *page, const char *line) {
    CHECK(page->family_count > 0 && page->sample_count < SAMPLES_MAX);
    const struct family *family = &page->families[page->family_count - 1];
    struct sample *sample = &page->samples[page->sample_count++];
    char name[NAME_MAX_HERE];
    const char *name_end = skip_name(line), *end = skip_labels(name_end);
    CHECK(family->has_help);
    copy(name, sizeof name, line, (size_t)(name_end - line));
    CHECK(strncmp(name, family->name, strlen(family->name)) == 0);
    CHECK(is_suffix_of(family, name + strlen(family->name)));
    copy(sample->name, sizeof sample->name, line, (size_t)(end - line));
    CHECK(*end == ' ' && end[1] != ' ');
    char *number_end;
    sample->value = strtod(end + 1, &number_end);
    CHECK(*number_end == 0);
    CHECK(sample->value >= 0 && (!isinf(sample->value) || strcmp(end + 1, "+Inf") == 0));
}

/* All samples of a histogram follow each other: rising buckets up to +Inf, the sum, the count. */
static void check_histograms(const struct page *page) {
    double last_bound = -1, last_count = -1;
    for (size_t i = 0; i < page->sample_count; i++) {
        const struct sample *sample = &page->samples[i];
        const char *bound = strstr(sample->name, "le=\"");
        if (!bound)
            continue;
        double value = strtod(bound + 4, NULL);
        CHECK(value > last_bound && sample->value >= last_count);
        last_bound = value;
        last_count = sample->value;
        if (!isinf(value))
            continue;
        CHECK(strstr(sample[1].name, "_sum{") && strstr(sample[2].name, "_count{"));
        CHECK(sample[2].value == sample->value);
        last_bound = last_count = -1;
    }
    CHECK(last_bound < 0);
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const struct sample *)a)->name, ((const struct sample *)b)->name);
}

static void check_unique(struct page *page) {
    qsort(page->samples, page->sample_count, sizeof *page->samples, by_name);
    for (size_t i = 1; i < page->sample_count; i++)
        CHECK(strcmp(page->samples[i - 1].name, page->samples[i].name) != 0);
}

static void parse(struct page *page) {
    page->samples = malloc(SAMPLES_MAX * sizeof *page->samples);
    CHECK(page->samples && ends_with(page->text, "\n# EOF\n") && strlen(page->text) == page->size);
    char *text = strdup(page->text), *line = text;
    for (char *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        *end = 0;
        CHECK(strchr(line, '\r') == NULL && line[0] != 0);
        if (strcmp(line, "# EOF") == 0)
            CHECK(end[1] == 0);
        else if (line[0] == '#')
            parse_comment(page, line);
        else
            parse_sample(page, line);
    }
    CHECK(*line == 0);
    free(text);
    check_histograms(page);
    check_unique(page);
}

static struct page *read_page(void) {
    struct page *page = calloc(1, sizeof *page);
    assert_status(lw_metrics_write(engine, collect, page), LW_OK);
    parse(page);
    return page;
}

static void free_page(struct page *page) {
    free(page->text);
    free(page->samples);
    free(page);
}

static double value_of(const struct page *page, const char *name) {
    struct sample key;
    copy(key.name, sizeof key.name, name, strlen(name));
    const struct sample *sample =
        bsearch(&key, page->samples, page->sample_count, sizeof key, by_name);
    if (!sample)
        fprintf(stderr, "there is no %s\n", name);
    CHECK(sample != NULL);
    return sample->value;
}

#define EXPECT(page, name, wanted)                                                 \
    do {                                                                           \
        double value_ = value_of(page, name);                                      \
        if (value_ != (wanted))                                                    \
            fprintf(stderr, "%s is %g, not %g\n", name, value_, (double)(wanted)); \
        CHECK(value_ == (wanted));                                                 \
    } while (0)

/* ---- states and counters ------------------------------------------------------------------ */

static lw_outcome snooze_once(lw_ctx *ctx, const lw_task *task) {
    static bool has_snoozed;
    (void)task;
    bool must_snooze = !has_snoozed;
    has_snoozed = true;
    return must_snooze ? lw_snooze(ctx, 1) : lw_done(ctx);
}

/* Something in every state, and a count in every counter. */
static void fill(void) {
    lw_id first, ignored;
    handle(engine, "done", do_done, NULL);
    handle(engine, "fail", do_fail, NULL);
    handle(engine, "retry", do_retry,
           LW_HANDLER_OPTIONS(.retry = {.min_ms = 10, .jitter_percent = LW_ZERO, .attempts = 3},
                              .concurrency = 2));
    handle(engine, "snooze", snooze_once, NULL);
    assert_status(lw_queue(engine, "small", LW_QUEUE_OPTIONS(.limit = 2, .byte_limit = 100), NULL),
                  LW_OK);
    assert_status(lw_queue(engine, "big", LW_QUEUE_OPTIONS(.byte_limit = -1), NULL), LW_OK);
    start(engine);
    for (int i = 0; i < 4; i++)
        SUBMIT(engine, .kind = "done");
    SUBMIT(engine, .kind = "fail");
    SUBMIT(engine, .kind = "retry");
    SUBMIT(engine, .kind = "snooze");
    assert_status(lw_test_fail_next(engine, "done", 1, (lw_outcome)0, "gone"), LW_OK);
    CHECK(lw_test_advance(engine, 60000) > 0);
    first = SUBMIT(engine, .kind = "none", .queue = "small", .payload = LW_TEXT("12345"));
    SUBMIT(engine, .kind = "done", .queue = "small", .after = &first, .after_count = 1);
    assert_status(lw_submit(engine, LW_TASK(.kind = "done", .queue = "small"), &ignored, NULL),
                  LW_EFULL);
    SUBMIT(engine, .kind = "done", .queue = "big", .delay_ms = 5000, .key = "k");
    assert_status(lw_submit(engine, LW_TASK(.kind = "done", .key = "k"), &ignored, NULL),
                  LW_EXISTS);
    assert_status(lw_cancel(engine, SUBMIT(engine, .kind = "none")), LW_OK);
    assert_status(lw_pause(engine, "big"), LW_OK);
}

TEST(every_state_and_counter_is_shown_by_kind) {
    open_driven();
    fill();
    struct page *page = read_page();
    EXPECT(page, "legwork_tasks{kind=\"done\",state=\"created\"}", 1);
    EXPECT(page, "legwork_tasks{kind=\"done\",state=\"scheduled\"}", 1);
    EXPECT(page, "legwork_tasks{kind=\"done\",state=\"enqueued\"}", 0);
    EXPECT(page, "legwork_tasks{kind=\"done\",state=\"started\"}", 0);
    EXPECT(page, "legwork_tasks{kind=\"done\",state=\"finished\"}", 4);
    EXPECT(page, "legwork_tasks{kind=\"none\",state=\"enqueued\"}", 1);
    EXPECT(page, "legwork_tasks{kind=\"none\",state=\"aborted\"}", 1);
    EXPECT(page, "legwork_tasks{kind=\"fail\",state=\"failed\"}", 1);
    EXPECT(page, "legwork_tasks_submitted_total{kind=\"done\"}", 6);
    EXPECT(page, "legwork_tasks_finished_total{kind=\"done\"}", 4);
    EXPECT(page, "legwork_tasks_failed_total{kind=\"fail\"}", 1);
    EXPECT(page, "legwork_tasks_aborted_total{kind=\"none\"}", 1);
    EXPECT(page, "legwork_tasks_retried_total{kind=\"retry\"}", 2);
    EXPECT(page, "legwork_tasks_crashed_total{kind=\"done\"}", 1);
    EXPECT(page, "legwork_tasks_snoozed_total{kind=\"snooze\"}", 1);
    EXPECT(page, "legwork_kind_concurrency_limit{kind=\"retry\"}", 2);
    EXPECT(page, "legwork_kind_concurrency_limit{kind=\"done\"}", INFINITY);
    EXPECT(page, "legwork_kind_has_handler{kind=\"done\"}", 1);
    EXPECT(page, "legwork_kind_has_handler{kind=\"none\"}", 0);
    free_page(page);
    close_driven();
}

TEST(queues_show_what_is_in_them_and_their_limits) {
    open_driven();
    fill();
    struct page *page = read_page();
    EXPECT(page, "legwork_queue_tasks{queue=\"small\"}", 2);
    EXPECT(page, "legwork_queue_tasks_limit{queue=\"small\"}", 2);
    EXPECT(page, "legwork_queue_bytes{queue=\"small\"}", 5);
    EXPECT(page, "legwork_queue_limit_bytes{queue=\"small\"}", 100);
    EXPECT(page, "legwork_queue_limit_bytes{queue=\"big\"}", INFINITY);
    EXPECT(page, "legwork_queue_tasks_limit{queue=\"big\"}", 1000000);
    EXPECT(page, "legwork_queue_paused{queue=\"big\"}", 1);
    EXPECT(page, "legwork_queue_paused{queue=\"small\"}", 0);
    EXPECT(page, "legwork_queue_tasks_submitted_total{queue=\"default\"}", 8);
    EXPECT(page, "legwork_queue_enqueued_tasks{queue=\"small\",kind=\"none\"}", 1);
    EXPECT(page, "legwork_queue_enqueued_tasks{queue=\"default\",kind=\"done\"}", 0);
    EXPECT(page, "legwork_submits_existed_total", 1);
    EXPECT(page, "legwork_submits_refused_total", 1);
    EXPECT(page, "legwork_unfinished_tasks", 3);
    EXPECT(page, "legwork_unfinished_tasks_limit", 1000000);
    EXPECT(page, "legwork_payload_bytes", 5);
    EXPECT(page, "legwork_reserve_tasks_limit", 1000);
    EXPECT(page, "legwork_workers", 0);
    EXPECT(page, "legwork_engine_running{engine=\"legwork\"}", 1);
    free_page(page);
    close_driven();
}

TEST(the_sums_are_those_of_all_kinds) {
    open_driven();
    fill();
    lw_engine_stats s = stats();
    assert_int_equal(s.created, 1);
    assert_int_equal(s.scheduled, 1);
    assert_int_equal(s.enqueued, 1);
    assert_int_equal(s.started, 0);
    assert_int_equal(s.finished, 5);
    assert_int_equal(s.failed, 2);
    assert_int_equal(s.aborted, 1);
    assert_int_equal(s.submitted_total, 11);
    assert_int_equal(s.existed_total, 1);
    assert_int_equal(s.refused_total, 1);
    assert_int_equal(s.finished_total, 5);
    assert_int_equal(s.failed_total, 2);
    assert_int_equal(s.aborted_total, 1);
    assert_int_equal(s.retried_total - s.crashed_total, 2); /* a crash is tried again, too */
    assert_int_equal(s.crashed_total, 1);
    assert_int_equal(s.snoozed_total, 1);
    assert_int_equal(s.stuck_total, 0);
    assert_int_equal(s.swept_total, 0);
    assert_int_equal(s.task_bytes, 5);
    assert_int_equal(s.workers, 0);
    lw_test_advance(engine, 3 * 86400 * INT64_C(1000)); /* all that ended has left */
    s = stats();
    assert_int_equal(s.finished + s.failed + s.aborted, 0);
    assert_int_equal(s.swept_total, s.finished_total + s.failed_total + s.aborted_total);
    close_driven();
}

static lw_outcome look_inside(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    struct page *page = read_page();
    EXPECT(page, "legwork_tasks{kind=\"look\",state=\"started\"}", 1);
    EXPECT(page, "legwork_tasks{kind=\"look\",state=\"enqueued\"}", 1);
    assert_int_equal(stats().started, 1);
    free_page(page);
    return lw_fail(ctx, "once is enough");
}

TEST(a_running_task_is_started_and_the_next_one_enqueued) {
    open_driven();
    handle(engine, "look", look_inside, NULL);
    start(engine);
    lw_id first = SUBMIT(engine, .kind = "look"), second = SUBMIT(engine, .kind = "look");
    assert_status(lw_cancel(engine, second), LW_OK);
    SUBMIT(engine, .kind = "look", .delay_ms = 1);
    second = SUBMIT(engine, .kind = "look", .queue = "other", .after = &first, .after_count = 1,
                    .after_policy = LW_AFTER_ABORT);
    SUBMIT(engine, .kind = "look", .queue = "paused");
    assert_status(lw_pause(engine, "paused"), LW_OK);
    assert_int_equal(lw_test_run(engine), 1);
    assert_int_equal(state_of(engine, second), LW_ABORTED);
    close_driven();
}

/* ---- histograms --------------------------------------------------------------------------- */

static lw_outcome take_100_ms(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    advance(test_clock, 100);
    return lw_done(ctx);
}

TEST(waits_and_runs_are_counted_in_the_right_buckets) {
    open_driven();
    handle(engine, "slow", take_100_ms, NULL);
    handle(engine, "idle", do_done, NULL);
    start(engine);
    SUBMIT(engine, .kind = "slow");
    advance(test_clock, 1500);
    assert_int_equal(lw_test_run(engine), 1);
    SUBMIT(engine, .kind = "slow");
    assert_int_equal(lw_test_run(engine), 1);
    struct page *page = read_page();
    EXPECT(page, "legwork_queue_wait_seconds_bucket{kind=\"slow\",le=\"1.024e-06\"}", 1);
    EXPECT(page, "legwork_queue_wait_seconds_bucket{kind=\"slow\",le=\"1.073741824\"}", 1);
    EXPECT(page, "legwork_queue_wait_seconds_bucket{kind=\"slow\",le=\"4.294967296\"}", 2);
    EXPECT(page, "legwork_queue_wait_seconds_bucket{kind=\"slow\",le=\"4398.046511104\"}", 2);
    EXPECT(page, "legwork_queue_wait_seconds_bucket{kind=\"slow\",le=\"+Inf\"}", 2);
    EXPECT(page, "legwork_queue_wait_seconds_sum{kind=\"slow\"}", 1.5);
    EXPECT(page, "legwork_queue_wait_seconds_count{kind=\"slow\"}", 2);
    EXPECT(page, "legwork_run_seconds_bucket{kind=\"slow\",le=\"0.067108864\"}", 0);
    EXPECT(page, "legwork_run_seconds_bucket{kind=\"slow\",le=\"0.268435456\"}", 2);
    EXPECT(page, "legwork_run_seconds_sum{kind=\"slow\"}", 0.2);
    EXPECT(page, "legwork_run_seconds_count{kind=\"idle\"}", 0);
    EXPECT(page, "legwork_queue_tasks_wait_seconds_sum{queue=\"default\"}", 1.5);
    EXPECT(page, "legwork_queue_tasks_wait_seconds_bucket{queue=\"default\",le=\"+Inf\"}", 2);
    EXPECT(page, "legwork_queue_tasks_run_seconds_sum{queue=\"default\"}", 0.2);
    free_page(page);
    close_driven();
}

static lw_outcome end_thread(lw_ctx *ctx, const lw_task *task) {
    if (task->attempt == 1)
        pthread_exit(NULL);
    return lw_done(ctx);
}

static bool has_counted(const char *name, double value) {
    struct page *page = read_page();
    bool is_it = value_of(page, name) == value;
    free_page(page);
    return is_it;
}

/* A worker counts its last batch when the end of that may have been told already. */
TEST(an_attempt_that_ends_its_thread_is_counted_like_others) {
    engine = OPEN_ENGINE(.workers = 1);
    handle(engine, "exit", end_thread, LW_HANDLER_OPTIONS(.retry = {.min_ms = 1}));
    start(engine);
    assert_status(lw_wait(engine, SUBMIT(engine, .kind = "exit"), -1, NULL), LW_OK);
    await_that(has_counted("legwork_run_seconds_count{kind=\"exit\"}", 2));
    await_that(has_counted("legwork_queue_wait_seconds_count{kind=\"exit\"}", 2));
    close_engine(engine);
}

static lw_outcome give_up(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    return lw_fail(ctx, "no");
}

TEST(what_became_of_tasks_is_counted_by_queue) {
    open_driven();
    handle(engine, "good", do_done, NULL);
    handle(engine, "bad", give_up, NULL);
    start(engine);
    SUBMIT(engine, .kind = "good", .queue = "a");
    SUBMIT(engine, .kind = "good", .queue = "b", .key = "k");
    SUBMIT(engine, .kind = "bad", .queue = "b");
    assert_status(lw_cancel(engine, SUBMIT(engine, .kind = "good", .queue = "b")), LW_OK);
    assert_int_equal(lw_test_run(engine), 3);
    struct page *page = read_page();
    EXPECT(page, "legwork_queue_tasks_finished_total{queue=\"a\"}", 1);
    EXPECT(page, "legwork_queue_tasks_finished_total{queue=\"b\"}", 1);
    EXPECT(page, "legwork_queue_tasks_failed_total{queue=\"b\"}", 1);
    EXPECT(page, "legwork_queue_tasks_failed_total{queue=\"a\"}", 0);
    EXPECT(page, "legwork_queue_tasks_aborted_total{queue=\"b\"}", 1);
    EXPECT(page, "legwork_queue_tasks_run_seconds_count{queue=\"b\"}", 2);
    free_page(page);
    close_driven();
}

TEST(attempts_of_others_are_in_the_histograms_too) {
    lw_snapshot task = LW_SNAPSHOT_INIT;
    open_driven();
    start(engine);
    SUBMIT(engine, .kind = "far");
    advance(test_clock, 1500);
    assert_int_equal(lw_lease_claim(engine, LW_CLAIM_OPTIONS(.holder = "w"), &task, NULL), 1);
    advance(test_clock, 250);
    lw_settlement done = {.id = task.id, .token = task.token, .outcome = LW_OUTCOME_DONE};
    assert_status(lw_lease_settle(engine, &done, 1, 0, NULL), LW_OK);
    lw_snapshot_clear(&task);
    struct page *page = read_page();
    EXPECT(page, "legwork_queue_wait_seconds_sum{kind=\"far\"}", 1.5);
    EXPECT(page, "legwork_run_seconds_sum{kind=\"far\"}", 0.25);
    EXPECT(page, "legwork_queue_tasks_run_seconds_count{queue=\"default\"}", 1);
    free_page(page);
    close_driven();
}

TEST(a_wait_of_hours_is_only_in_the_last_bucket) {
    open_driven();
    handle(engine, "slow", do_done, NULL);
    start(engine);
    SUBMIT(engine, .kind = "slow");
    advance(test_clock, 5000000);
    assert_int_equal(lw_test_run(engine), 1);
    struct page *page = read_page();
    EXPECT(page, "legwork_queue_wait_seconds_bucket{kind=\"slow\",le=\"4398.046511104\"}", 0);
    EXPECT(page, "legwork_queue_wait_seconds_bucket{kind=\"slow\",le=\"+Inf\"}", 1);
    EXPECT(page, "legwork_queue_wait_seconds_sum{kind=\"slow\"}", 5000);
    free_page(page);
    close_driven();
}

/* The bounds are written by hand in the source: each has to be the number that it says, as short as
 * it gets. */
TEST(the_bounds_are_powers_of_four_in_nanoseconds) {
    open_driven();
    handle(engine, "k", do_done, NULL);
    struct page *page = read_page();
    for (int bits = 10; bits <= 42; bits += 2) {
        char number[32], name[NAME_MAX_HERE];
        double seconds = (double)(UINT64_C(1) << bits) / 1e9;
        for (int digits = 1; digits < 18; digits++) {
            snprintf(number, sizeof number, "%.*g", digits, seconds);
            if (strtod(number, NULL) == seconds)
                break;
        }
        snprintf(name, sizeof name, "legwork_run_seconds_bucket{kind=\"k\",le=\"%s\"}", number);
        EXPECT(page, name, 0);
    }
    free_page(page);
    close_driven();
}

/* ---- the text ----------------------------------------------------------------------------- */

TEST(an_empty_engine_has_a_page_too) {
    open_driven();
    struct page *page = read_page();
    EXPECT(page, "legwork_engine_running{engine=\"legwork\"}", 0);
    CHECK(page->family_count > 20);
    free_page(page);
    lw_engine_stats s = stats();
    static const lw_engine_stats zero;
    assert_memory_equal(&s, &zero, sizeof s);
    close_driven();
}

TEST(labels_are_escaped) {
    engine = OPEN_ENGINE(.workers = LW_ZERO, .name = "a\"b\\c");
    struct page *page = read_page();
    EXPECT(page, "legwork_engine_running{engine=\"a\\\"b\\\\c\"}", 0);
    free_page(page);
    close_engine(engine);
}

TEST(a_stop_shows) {
    open_driven();
    start(engine);
    struct page *page = read_page();
    EXPECT(page, "legwork_engine_running{engine=\"legwork\"}", 1);
    free_page(page);
    assert_status(lw_stop(engine, LW_DRAIN, 0), LW_OK);
    page = read_page();
    EXPECT(page, "legwork_engine_running{engine=\"legwork\"}", 0);
    free_page(page);
    close_driven();
}

/* More than are copied in one go, and a page of many pieces. */
/* Kinds 0 to 99, and queues "default" and 0 to 98, have series of their own. */
TEST(of_many_kinds_and_queues_the_first_are_shown_and_the_others_summed) {
    enum { KINDS = 250, QUEUES = 170, OWN = LW__SERIES_MAX };
    double others = 0, other_lanes = 0;
    char name[NAME_MAX_HERE];
    open_driven();
    for (int k = 0; k < KINDS; k++) {
        char kind[32], queue[32];
        snprintf(kind, sizeof kind, "kind-%d", k);
        snprintf(queue, sizeof queue, "queue-%d", k % QUEUES);
        for (int i = 0; i <= k % 3; i++)
            SUBMIT(engine, .kind = kind, .queue = queue);
        others += k < OWN ? 0 : k % 3 + 1;
        other_lanes += k >= OWN && k % QUEUES >= OWN - 1 ? k % 3 + 1 : 0;
    }
    struct page *page = read_page();
    for (int k = 0; k < OWN; k++) {
        snprintf(name, sizeof name, "legwork_tasks{kind=\"kind-%d\",state=\"enqueued\"}", k);
        EXPECT(page, name, k % 3 + 1);
    }
    for (int k = 0; k < OWN - 1; k++) {
        snprintf(name, sizeof name,
                 "legwork_queue_enqueued_tasks{queue=\"queue-%d\",kind=\"kind-%d\"}", k, k);
        EXPECT(page, name, k % 3 + 1);
    }
    EXPECT(page, "legwork_tasks{kind=\"(other)\",state=\"enqueued\"}", others);
    EXPECT(page, "legwork_tasks_submitted_total{kind=\"(other)\"}", others);
    EXPECT(page, "legwork_queue_enqueued_tasks{queue=\"(other)\",kind=\"(other)\"}", other_lanes);
    EXPECT(page, "legwork_known_kinds", KINDS);
    EXPECT(page, "legwork_known_queues", QUEUES + 1);
    EXPECT(page, "legwork_known_queues_limit", LW_QUEUES_MAX);
    CHECK(!strstr(page->text, "kind-100\"") && !strstr(page->text, "queue-99\""));
    CHECK(page->pieces > 10 && page->piece_max <= 4096);
    CHECK(page->size > (page->pieces - 1) * 4000); /* and not in crumbs */
    assert_int_equal(stats().enqueued, value_of(page, "legwork_unfinished_tasks"));
    free_page(page);
    close_driven();
}

TEST(a_page_is_no_larger_with_10000_names_than_with_300) {
    size_t sizes[2];
    for (int i = 0; i < 2; i++) {
        open_driven();
        for (int n = 0; n < (i == 0 ? 300 : 10000); n++) {
            char name[32];
            snprintf(name, sizeof name, "name-%d", n);
            SUBMIT(engine, .kind = name, .queue = name);
        }
        struct page *page = read_page();
        sizes[i] = page->size;
        free_page(page);
        close_driven();
    }
    printf("%zu and %zu bytes\n", sizes[0], sizes[1]);
    assert_true(sizes[1] < sizes[0] + sizes[0] / 20);
}

/* ---- places ------------------------------------------------------------------------------- */

static double total_of(const struct page *page, const char *family) {
    double total = 0;
    size_t length = strlen(family);
    for (size_t i = 0; i < page->sample_count; i++) {
        const char *name = page->samples[i].name;
        if (strncmp(name, family, length) == 0 && name[length] == '{')
            total += page->samples[i].value;
    }
    return total;
}

/* Every counter of the later page is at least what it was, or began anew. */
static void check_counters(const struct page *before, const struct page *after, const char *began) {
    for (size_t i = 0; i < after->sample_count; i++) {
        const struct sample *s = &after->samples[i];
        bool is_counter =
            strstr(s->name, "_total") || strstr(s->name, "_bucket") || strstr(s->name, "_count");
        for (size_t k = 0; is_counter && k < before->sample_count; k++) {
            if (strcmp(before->samples[k].name, s->name) == 0 && s->value < before->samples[k].value
                && !(began && strstr(s->name, began))) {
                fprintf(stderr, "%s went from %f to %f\n", s->name, before->samples[k].value,
                        s->value);
                CHECK(false);
            }
        }
    }
}

static void run_tasks(const char *name, int count) {
    for (int i = 0; i < count; i++)
        SUBMIT(engine, .kind = "mail", .queue = name);
    assert_int_equal(lw_test_run(engine), count);
}

static bool is_shown(const struct page *page, const char *queue) {
    char label[64];
    snprintf(label, sizeof label, "queue_tasks{queue=\"%s\"}", queue);
    return strstr(page->text, label) != NULL;
}

/* No counter goes back, whoever has the places. */
TEST(a_busy_queue_gets_the_place_of_an_idle_one_and_no_counter_goes_back) {
    enum { QUEUES = 150 };
    open_driven();
    handle(engine, "mail", do_done, NULL);
    assert_status(lw_queue(engine, "declared", NULL, NULL), LW_OK);
    start(engine);
    char name[32];
    for (int i = 0; i < QUEUES; i++) {
        snprintf(name, sizeof name, "queue-%d", i);
        run_tasks(name, 2);
    }
    struct page *first = read_page();
    assert_true(is_shown(first, "queue-0") && !is_shown(first, "queue-149"));
    assert_true(lw_test_advance(engine, 61000) >= 0);
    struct page *second = read_page(); /* all had as much to do */
    assert_true(is_shown(second, "queue-0") && !is_shown(second, "queue-149"));
    check_counters(first, second, NULL);
    run_tasks("queue-149", 5);
    struct page *third = read_page(); /* within a minute nothing changes */
    assert_true(!is_shown(third, "queue-149"));
    check_counters(second, third, NULL);
    assert_true(lw_test_advance(engine, 61000) >= 0);
    struct page *fourth = read_page();
    assert_true(is_shown(fourth, "queue-149") && is_shown(fourth, "declared")
                && is_shown(fourth, "default"));
    check_counters(third, fourth, NULL);
    EXPECT(fourth, "legwork_queue_tasks_submitted_total{queue=\"queue-149\"}", 0);
    /* nothing was submitted: no counter may look as if it were */
    const char *others = "legwork_queue_tasks_submitted_total{queue=\"(other)\"}";
    assert_true(value_of(fourth, others) == value_of(third, others));
    run_tasks("queue-149", 7);
    run_tasks("queue-140", 3);
    struct page *fifth = read_page();
    check_counters(fourth, fifth, NULL);
    EXPECT(fifth, "legwork_queue_tasks_submitted_total{queue=\"queue-149\"}", 7);
    EXPECT(fifth, "legwork_queue_tasks_wait_seconds_count{queue=\"queue-149\"}", 7);
    /* of all that came the sum tells the same as before */
    assert_true(total_of(fifth, "legwork_queue_tasks_submitted_total")
                    - total_of(fourth, "legwork_queue_tasks_submitted_total")
                == 10);
    free_page(first);
    free_page(second);
    free_page(third);
    free_page(fourth);
    free_page(fifth);
    close_driven();
}

TEST(a_declared_name_has_a_series_even_if_it_comes_late) {
    open_driven();
    char name[32];
    for (int i = 0; i < 200; i++) {
        snprintf(name, sizeof name, "name-%d", i);
        SUBMIT(engine, .kind = name, .queue = name);
    }
    struct page *before = read_page();
    handle(engine, "name-150", do_done, NULL);
    assert_status(lw_queue(engine, "name-160", NULL, NULL), LW_OK);
    struct page *after = read_page();
    assert_true(is_shown(after, "name-160") && is_shown(after, "default"));
    check_counters(before, after, NULL);
    EXPECT(after, "legwork_kind_has_handler{kind=\"name-150\"}", 1);
    EXPECT(after, "legwork_tasks{kind=\"name-150\",state=\"enqueued\"}", 1);
    EXPECT(after, "legwork_tasks_submitted_total{kind=\"name-150\"}", 0);
    free_page(before);
    free_page(after);
    close_driven();
}

/* As docs/guides/engine.md says. "default" is one of the 100. */
TEST(of_more_than_a_hundred_declared_names_the_first_keep_their_series) {
    enum { QUEUES = 120 };
    open_driven();
    handle(engine, "mail", do_done, NULL);
    char name[32];
    for (int i = 0; i < QUEUES; i++) {
        snprintf(name, sizeof name, "queue-%d", i);
        assert_status(lw_queue(engine, name, NULL, NULL), LW_OK);
    }
    start(engine);
    run_tasks("queue-119", 50);
    run_tasks("undeclared", 50);
    for (int minutes = 0; minutes < 3; minutes++) {
        struct page *page = read_page();
        assert_true(is_shown(page, "default") && is_shown(page, "queue-0")
                    && is_shown(page, "queue-98"));
        assert_true(!is_shown(page, "queue-99") && !is_shown(page, "queue-119")
                    && !is_shown(page, "undeclared"));
        EXPECT(page, "legwork_queue_tasks_submitted_total{queue=\"(other)\"}", 100);
        free_page(page);
        assert_true(lw_test_advance(engine, 61000) >= 0);
    }
    close_driven();
}

/* ---- write -------------------------------------------------------------------------------- */

struct refusal {
    int calls, allowed, rc;
};

static int refuse(void *user, const char *text, size_t size) {
    struct refusal *refusal = user;
    (void)text;
    (void)size;
    return ++refusal->calls > refusal->allowed ? refusal->rc : 1; /* a remark is no failure */
}

TEST(what_write_refuses_is_returned_and_it_is_not_called_again) {
    open_driven();
    fill();
    struct refusal all = {.allowed = 1000};
    assert_status(lw_metrics_write(engine, refuse, &all), LW_OK);
    CHECK(all.calls > 2);
    for (int allowed = 0; allowed < all.calls; allowed++) {
        struct refusal refusal = {.allowed = allowed, .rc = -4711};
        assert_int_equal(lw_metrics_write(engine, refuse, &refusal), -4711);
        assert_int_equal(refusal.calls, allowed + 1);
    }
    close_driven();
}

static int call_back(void *user, const char *text, size_t size) {
    (void)text;
    (void)size;
    lw_snapshot task = LW_SNAPSHOT_INIT;
    lw_id id = SUBMIT(engine, .kind = "from-write", .queue = "from-write");
    assert_status(lw_get(engine, id, &task), LW_OK);
    lw_snapshot_clear(&task);
    ++*(int *)user;
    return (int)stats().submitted_total;
}

TEST(write_may_call_the_engine) {
    open_driven();
    fill();
    int calls = 0;
    assert_status(lw_metrics_write(engine, call_back, &calls), LW_OK);
    CHECK(calls > 2);
    close_driven();
}

/* ---- edges -------------------------------------------------------------------------------- */

TEST(nonsense_is_refused) {
    lw_engine_stats s;
    open_driven();
    assert_status(lw_get_stats(NULL, &s), LW_EINVAL);
    assert_status(lw_get_stats(engine, NULL), LW_EINVAL);
    assert_status(lw_metrics_write(NULL, refuse, NULL), LW_EINVAL);
    assert_status(lw_metrics_write(engine, NULL, NULL), LW_EINVAL);
    close_driven();
}

TEST(without_memory_nothing_is_written_and_nothing_leaks) {
    lw_test_memory *memory = open_memory();
    engine = OPEN_ENGINE(.workers = LW_ZERO, .allocator = lw_test_memory_allocator(memory));
    SUBMIT(engine, .kind = "k");
    uint64_t before, after, nth = 1;
    lw_test_memory_usage(memory, &before, NULL, NULL);
    for (;; nth++) {
        struct refusal count = {.allowed = 1000};
        lw_test_memory_fail_at(memory, nth);
        int rc = lw_metrics_write(engine, refuse, &count);
        lw_test_memory_usage(memory, &after, NULL, NULL);
        assert_int_equal(after, before);
        if (!lw_test_memory_has_failed(memory)) {
            assert_status(rc, LW_OK);
            break;
        }
        assert_status(rc, LW_ENOMEM);
        assert_int_equal(count.calls, 0);
    }
    assert_int_equal(nth, 2); /* one block for all */
    lw_test_memory_fail_at(memory, 1);
    stats(); /* takes none */
    CHECK(!lw_test_memory_has_failed(memory));
    lw_test_memory_fail_at(memory, 0);
    close_engine(engine);
    close_memory(memory);
}

TEST(in_a_forked_child_there_are_no_figures) {
    open_driven();
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        lw_engine_stats s;
        _exit(lw_get_stats(engine, &s) == LW_EFORKED
                      && lw_metrics_write(engine, refuse, NULL) == LW_EFORKED
                  ? 0
                  : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    close_driven();
}

/* ---- threads ------------------------------------------------------------------------------ */

TEST(workers_are_shown_busy_and_free) {
    struct gate gate = GATE;
    engine = OPEN_ENGINE(.workers = 3);
    handle(engine, "wait", do_gate, LW_HANDLER_OPTIONS(.user = &gate));
    start(engine);
    SUBMIT(engine, .kind = "wait");
    SUBMIT(engine, .kind = "wait");
    tally_await(&gate.arrived, 2);
    struct page *page = read_page();
    EXPECT(page, "legwork_workers_busy", 2);
    EXPECT(page, "legwork_workers_stuck", 0);
    EXPECT(page, "legwork_tasks{kind=\"wait\",state=\"started\"}", 2);
    CHECK(value_of(page, "legwork_workers") >= 2);
    assert_int_equal(stats().workers, value_of(page, "legwork_workers"));
    free_page(page);
    gate_open(&gate);
    assert_status(lw_stop(engine, LW_DRAIN, -1), LW_OK);
    page = read_page();
    EXPECT(page, "legwork_workers_busy", 0);
    EXPECT(page, "legwork_tasks_finished_total{kind=\"wait\"}", 2);
    free_page(page);
    close_engine(engine);
}

static _Atomic bool must_end;

/* Nothing is ever between two counters. */
static void *look_at_stats(void *arg) {
    uint64_t submitted = 0, finished = 0;
    while (!atomic_load(&must_end)) {
        lw_engine_stats s = stats();
        uint64_t ended = s.finished_total + s.failed_total + s.aborted_total;
        assert_int_equal(s.submitted_total,
                         s.created + s.scheduled + s.enqueued + s.started + ended);
        CHECK(s.submitted_total >= submitted && s.finished_total >= finished);
        submitted = s.submitted_total;
        finished = s.finished_total;
    }
    return arg;
}

static void *look_at_pages(void *arg) {
    while (!atomic_load(&must_end))
        free_page(read_page());
    return arg;
}

TEST(figures_fit_together_while_tasks_come_and_go) {
    long count = test_scale(test_is_sanitized() ? 3000 : 30000, 1000000);
    engine = OPEN_ENGINE(.workers = 2);
    handle(engine, "plain", do_done, NULL);
    handle(engine, "fail", do_fail, LW_HANDLER_OPTIONS(.retention = {.failed_max = 10}));
    handle(engine, "retry", do_retry, LW_HANDLER_OPTIONS(.retry = {.min_ms = 1, .attempts = 3}));
    start(engine);
    pthread_t first = start_thread(look_at_stats, NULL), second = start_thread(look_at_pages, NULL);
    for (long i = 0; i < count; i++) {
        const char *kind = i % 4 == 0 ? "fail" : i % 4 == 1 ? "retry" : "plain";
        lw_id id = SUBMIT(engine, .kind = kind, .queue = i % 5 ? "a" : "b", .delay_ms = i % 7 == 0);
        if (i % 11 == 0)
            lw_cancel(engine, id);
    }
    assert_status(lw_stop(engine, LW_DRAIN_ALL, -1), LW_OK);
    atomic_store(&must_end, true);
    join_thread(first);
    join_thread(second);
    lw_engine_stats s = stats();
    assert_int_equal(s.submitted_total, count);
    assert_int_equal(s.started + s.enqueued + s.created, 0);
    close_engine(engine);
}
