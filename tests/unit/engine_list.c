/* Listing tasks: filters, pages, and tasks that come and go meanwhile. */
#include "engines.h"

#include <limits.h>
#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

/* What was shown: the ids, in order. */
struct shown {
    lw_id ids[512];
    size_t count;
    size_t stop_after; /* 0: never */
};

static bool note(void *user, const lw_snapshot *task) {
    struct shown *shown = user;
    CHECK(shown->count < COUNT_OF(shown->ids));
    CHECK(task->id > (shown->count ? shown->ids[shown->count - 1] : 0));
    shown->ids[shown->count++] = task->id;
    return shown->count != shown->stop_after;
}

#define LIST(engine, ...) list(engine, LW_FILTER(__VA_ARGS__))
static struct shown list(lw_engine *engine, const lw_filter *filter) {
    struct shown shown = {.count = 0};
    int rc = lw_list(engine, filter, note, &shown);
    assert_int_equal(rc, shown.count);
    return shown;
}

static void assert_ids(struct shown shown, const lw_id *ids, size_t count) {
    assert_int_equal(shown.count, count);
    assert_memory_equal(shown.ids, ids, count * sizeof *ids);
}

#define ASSERT_IDS(shown, ...) \
    assert_ids(shown, (const lw_id[]){__VA_ARGS__}, COUNT_OF(((const lw_id[]){__VA_ARGS__})))

/* ---- filters ------------------------------------------------------------------------------- */

TEST(each_field_of_a_filter_restricts) {
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO);
    handle(engine, "mail", do_done, NULL);
    handle(engine, "fail", do_fail, NULL);
    start(engine);
    lw_id finished = SUBMIT(engine, .kind = "mail", .queue = "slow");
    lw_id failed = SUBMIT(engine, .kind = "fail", .key = "ann");
    assert_int_equal(lw_test_run(engine), 2);
    lw_id waiting = SUBMIT(engine, .kind = "mail", .key = "ann");
    lw_id delayed =
        SUBMIT(engine, .kind = "mail", .key = "anna", .queue = "slow", .delay_ms = 1000);
    ASSERT_IDS(list(engine, NULL), finished, failed, waiting, delayed);
    ASSERT_IDS(LIST(engine, .limit = 0), finished, failed, waiting, delayed);
    ASSERT_IDS(LIST(engine, .state = LW_FAILED), failed);
    ASSERT_IDS(LIST(engine, .state = LW_SCHEDULED), delayed);
    ASSERT_IDS(LIST(engine, .is_unfinished = true), waiting, delayed);
    ASSERT_IDS(LIST(engine, .kind = "mail"), finished, waiting, delayed);
    ASSERT_IDS(LIST(engine, .queue = "slow"), finished, delayed);
    ASSERT_IDS(LIST(engine, .key = "ann"), failed, waiting);
    ASSERT_IDS(LIST(engine, .key = "ann", .kind = "mail"), waiting);
    ASSERT_IDS(LIST(engine, .queue = "slow", .is_unfinished = true), delayed);
    ASSERT_IDS(LIST(engine, .after = failed), waiting, delayed);
    assert_int_equal(LIST(engine, .is_unfinished = true, .state = LW_FAILED).count, 0);
    close_engine(engine);
}

TEST(what_nobody_has_heard_of_is_not_there) {
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO);
    assert_int_equal(list(engine, NULL).count, 0);
    lw_id id = SUBMIT(engine, .kind = "mail", .key = "ann");
    assert_int_equal(LIST(engine, .kind = "parcel").count, 0);
    assert_int_equal(LIST(engine, .queue = "slow").count, 0);
    assert_int_equal(LIST(engine, .key = "bob").count, 0);
    assert_int_equal(LIST(engine, .key = "").count, 0);
    assert_int_equal(LIST(engine, .after = id).count, 0);
    assert_int_equal(LIST(engine, .after = UINT64_MAX).count, 0);
    close_engine(engine);
}

TEST(nonsense_is_refused) {
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO);
    struct shown shown = {.count = 0};
    lw_filter filter = *LW_FILTER(.limit = 1);
    assert_status(lw_list(NULL, &filter, note, &shown), LW_EINVAL);
    assert_status(lw_list(engine, &filter, NULL, &shown), LW_EINVAL);
    filter.state = (lw_state)8;
    assert_status(lw_list(engine, &filter, note, &shown), LW_EINVAL);
    filter = *LW_FILTER(.limit = 1);
    filter.struct_size--;
    assert_status(lw_list(engine, &filter, note, &shown), LW_EINVAL);
    close_engine(engine);
}

/* ---- pages --------------------------------------------------------------------------------- */

TEST(pages_show_each_task_once) {
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO);
    lw_id ids[250], after = 0;
    for (size_t i = 0; i < COUNT_OF(ids); i++)
        ids[i] = SUBMIT(engine, .kind = "mail");
    assert_ids(list(engine, NULL), ids, 100);
    assert_ids(LIST(engine, .limit = SIZE_MAX), ids, COUNT_OF(ids));
    for (size_t i = 0; i < COUNT_OF(ids); i += 50) {
        struct shown page = LIST(engine, .limit = 50, .after = after);
        assert_ids(page, &ids[i], 50);
        after = page.ids[49];
    }
    assert_int_equal(LIST(engine, .limit = 50, .after = after).count, 0);
    close_engine(engine);
}

TEST(a_list_ends_when_its_reader_has_enough) {
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO);
    struct shown shown = {.stop_after = 3};
    for (int i = 0; i < 10; i++)
        SUBMIT(engine, .kind = "mail");
    assert_int_equal(lw_list(engine, NULL, note, &shown), 3);
    assert_int_equal(shown.count, 3);
    close_engine(engine);
}

static bool forget_it(void *engine, const lw_snapshot *task) {
    assert_status(lw_cancel(engine, task->id), LW_OK);
    assert_status(lw_forget(engine, task->id), LW_OK);
    SUBMIT(engine, .kind = "mail");
    return true;
}

TEST(a_reader_may_change_what_it_reads) {
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO);
    for (int i = 0; i < 10; i++)
        SUBMIT(engine, .kind = "mail");
    assert_int_equal(lw_list(engine, LW_FILTER(.limit = 200), forget_it, engine), 200);
    assert_int_equal(list(engine, NULL).count, 10);
    close_engine(engine);
}

TEST(without_memory_a_list_says_so) {
    lw_test_memory *memory = open_memory();
    lw_engine *engine =
        OPEN_ENGINE(.workers = LW_ZERO, .allocator = lw_test_memory_allocator(memory));
    struct shown shown = {.count = 0};
    char body[1000];
    memset(body, 'x', sizeof body);
    SUBMIT(engine, .kind = "mail");
    SUBMIT(engine, .kind = "mail", .payload = {body, sizeof body});
    lw_test_memory_fail_at(memory, 1);
    assert_status(lw_list(engine, NULL, note, &shown), LW_ENOMEM);
    assert_int_equal(shown.count, 0);
    lw_test_memory_fail_at(memory, 2); /* for the second task, which is larger */
    assert_status(lw_list(engine, NULL, note, &shown), LW_ENOMEM);
    assert_int_equal(shown.count, 1);
    assert_int_equal(list(engine, NULL).count, 2);
    close_engine(engine);
    close_memory(memory);
}
