/* Queues and kinds, one by one. */
#include "engines.h"
#include "test.h"

#include <stdio.h>
#include <string.h>

static lw_queue_stats queues[200];
static lw_kind_stats kinds[200];
static int count, enough;

static bool note_queue(void *user, const lw_queue_stats *queue) {
    (void)user;
    queues[count++] = *queue;
    return count != enough;
}

static bool note_kind(void *user, const lw_kind_stats *kind) {
    (void)user;
    kinds[count++] = *kind;
    return count != enough;
}

static const lw_queue_stats *queue_of(const char *name) {
    for (int i = 0; i < count; i++)
        if (strcmp(queues[i].name, name) == 0)
            return &queues[i];
    test_check_failed(name, __FILE__, __LINE__);
}

TEST(each_queue_is_shown_with_its_figures) {
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO);
    SUBMIT(engine, .kind = "k", .queue = "a", .payload = LW_TEXT("12345"));
    SUBMIT(engine, .kind = "k", .queue = "a", .delay_ms = 1000);
    SUBMIT(engine, .kind = "k", .queue = "b");
    assert_status(lw_pause(engine, "b"), LW_OK);
    int shown = lw_list_queues(engine, note_queue, NULL);
    assert_int_equal(shown, count);
    const lw_queue_stats *a = queue_of("a"), *b = queue_of("b");
    assert_int_equal(a->unfinished, 2);
    assert_int_equal(a->enqueued, 1);
    assert_int_equal(a->bytes, 5);
    assert_int_equal(a->submitted_total, 2);
    assert_false(a->is_paused);
    assert_true(b->is_paused);
    close_engine(engine);
}

TEST(each_kind_is_shown_with_its_figures) {
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO);
    handle(engine, "with", do_done, NULL);
    lw_id id = SUBMIT(engine, .kind = "without");
    SUBMIT(engine, .kind = "without", .delay_ms = 1000);
    assert_status(lw_cancel(engine, id), LW_OK);
    assert_int_equal(lw_list_kinds(engine, note_kind, NULL), 2);
    assert_string_equal(kinds[0].name, "with");
    assert_true(kinds[0].has_handler);
    assert_string_equal(kinds[1].name, "without");
    assert_false(kinds[1].has_handler);
    assert_int_equal(kinds[1].scheduled, 1);
    assert_int_equal(kinds[1].submitted_total, 2);
    close_engine(engine);
}

TEST(who_has_seen_enough_says_so_and_nonsense_is_refused) {
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO);
    for (int i = 0; i < 150; i++) {
        char name[16];
        snprintf(name, sizeof name, "n%d", i);
        SUBMIT(engine, .kind = name, .queue = name);
    }
    assert_int_equal(lw_list_kinds(engine, note_kind, NULL), 150);
    count = 0;
    enough = 7;
    assert_int_equal(lw_list_queues(engine, note_queue, NULL), 7);
    assert_status(lw_list_queues(engine, NULL, NULL), LW_EINVAL);
    assert_status(lw_list_kinds(NULL, note_kind, NULL), LW_EINVAL);
    close_engine(engine);
}
