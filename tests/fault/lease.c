/* The n-th allocation fails, for every call of legwork/lease.h that allocates, on every store, and
 * every n until it passes. Each time: LW_ENOMEM with a sentence and nothing has happened, or the
 * call did without; nothing leaks, and the same again succeeds. */
#include "engines.h"
#include "stores.h"

#include <legwork/lease.h>
#include <stdio.h>

enum { TASKS = 3 };

struct scene {
    lw_test_memory *memory;
    lw_clock *clock;
    lw_engine *engine;
    lw_id ids[TASKS];
    lw_settlement held; /* the first of them, unless the body claims it */
    bool has_failed;    /* an allocation has */
};

/* ---- help --------------------------------------------------------------------------------- */

static void open_scene(struct scene *scene, const char *url, bool is_held) {
    lw_snapshot task = LW_SNAPSHOT_INIT;
    scene->memory = open_memory();
    scene->clock = open_clock();
    scene->engine = OPEN_ON(url, .workers = LW_ZERO, .clock = scene->clock,
                            .allocator = lw_test_memory_allocator(scene->memory));
    start(scene->engine);
    for (int i = 0; i < TASKS; i++)
        scene->ids[i] = SUBMIT(scene->engine, .kind = "mail", .payload = LW_TEXT("payload"));
    if (!is_held)
        return;
    assert_int_equal(lw_lease_claim(scene->engine, LW_CLAIM_OPTIONS(.holder = "w"), &task, NULL),
                     1);
    scene->held = (lw_settlement){.id = task.id, .token = task.token};
    lw_snapshot_clear(&task);
}

static void close_scene(struct scene *scene) {
    close_engine(scene->engine);
    lw_test_clock_close(scene->clock);
    close_memory(scene->memory);
}

static void call_off(struct scene *scene) {
    scene->has_failed |= lw_test_memory_has_failed(scene->memory);
    lw_test_memory_fail_at(scene->memory, 0);
}

/* The body orders the failure and calls it off. Returns how many there were, of the store that had
 * fewest. */
static uint64_t fewest;
static bool is_held_first;
static void (*body)(struct scene *scene, uint64_t nth);

static void loop_on(const char *url) {
    struct scene scene;
    uint64_t nth = 0;
    do {
        char fresh[64]; /* with a file of its own */
        CHECK(++nth < 200);
        snprintf(fresh, sizeof fresh, is_durable_url(url) ? "%s-%llu" : "%s", url,
                 (unsigned long long)nth);
        scene = (struct scene){.has_failed = false};
        open_scene(&scene, fresh, is_held_first);
        body(&scene, nth);
        close_scene(&scene);
    } while (scene.has_failed);
    fewest = nth - 1 < fewest ? nth - 1 : fewest;
}

static uint64_t until_clean(void (*of)(struct scene *scene, uint64_t nth), bool is_held) {
    fewest = UINT64_MAX;
    body = of;
    is_held_first = is_held;
    each_engine_url(loop_on);
    return fewest;
}

static lw_snapshot get(struct scene *scene, lw_id id) {
    lw_snapshot task = LW_SNAPSHOT_INIT;
    assert_status(lw_get(scene->engine, id, &task), LW_OK);
    return task;
}

static bool was_refused(struct scene *scene, int rc) {
    call_off(scene);
    CHECK(rc >= 0 || rc == LW_ENOMEM);
    CHECK(rc >= 0 || scene->has_failed);
    return rc < 0;
}

/* ---- claim, return ------------------------------------------------------------------------ */

/* Whoever was told less than all can have the rest at once, and nobody was charged. */
static void claim_all(struct scene *scene, uint64_t nth) {
    lw_snapshot tasks[TASKS] = {LW_SNAPSHOT_INIT};
    lw_error err = {0};
    const lw_claim_options *options = LW_CLAIM_OPTIONS(.holder = "w", .max = TASKS);
    lw_test_memory_fail_at(scene->memory, nth);
    int got = lw_lease_claim(scene->engine, options, tasks, &err);
    if (was_refused(scene, got))
        assert_sentence(&err, LW_ENOMEM, "memory");
    got = got < 0 ? 0 : got;
    CHECK(got == TASKS || scene->has_failed);
    int rest = lw_lease_claim(scene->engine, options, &tasks[got], &err);
    assert_int_equal(got + rest, TASKS);
    for (int i = 0; i < TASKS; i++) {
        assert_int_equal(tasks[i].attempts, 1);
        assert_int_equal(tasks[i].payload.size, 7);
        assert_status(lw_lease_return(scene->engine, tasks[i].id, tasks[i].token, 0), LW_OK);
        lw_snapshot_clear(&tasks[i]);
    }
}

TEST(what_is_claimed_without_memory_can_be_claimed_again_and_was_not_counted) {
    CHECK(until_clean(claim_all, false) >= 3);
}

/* Payloads that are in the file alone are read before anybody hears of the task. */
static bool claim_lean(struct rig *rig, uint64_t nth) {
    struct lw__kind_options options = {
        .concurrency = UINT32_MAX, .crashes = 3, .max_age_ns = UINT64_MAX};
    struct lw__leased leased[TASKS];
    struct lw__lease_claim claim = {
        .holder = "w", .until = rig->now + MS, .max = TASKS, .leased = leased};
    struct lw__task *tasks[TASKS];
    uint16_t kind;
    assert_status(rig->ops->kind(rig->store, "remote", &kind), LW_OK);
    rig->ops->set_kind(rig->store, kind, &options);
    for (int i = 0; i < TASKS; i++)
        tasks[i] = PUT(rig, .kind = kind, .payload_size = 100);
    lw_test_memory_fail_at(rig->memory, nth);
    int rc = rig->ops->lease(rig->store, rig->now, &claim);
    bool has_failed = lw_test_memory_has_failed(rig->memory);
    lw_test_memory_fail_at(rig->memory, 0);
    assert_status(rc, rc < 0 ? LW_ENOMEM : LW_OK);
    for (uint32_t i = 0; i < TASKS; i++) {
        bool is_claimed = rc == LW_OK && i < claim.count;
        assert_state(tasks[i], is_claimed ? LW_STARTED : LW_ENQUEUED);
        assert_int_equal(lw__see(&tasks[i]->attempts), is_claimed);
        assert_int_equal(lw__see(&tasks[i]->crashes), 0);
        CHECK(!is_claimed || !lw__task_is_lean(tasks[i]));
    }
    return has_failed;
}

TEST(a_claim_that_cannot_read_its_payloads_has_never_been) {
    static struct rig rig;
    const char *urls[STORES_MAX];
    for (size_t i = 0, count = list_stores(urls); i < count; i++) {
        uint64_t nth = 0;
        bool has_failed = true;
        while (has_failed) {
            CHECK(++nth < 200);
            lw_test_memory *memory = open_memory();
            const struct rig_options *options = &(struct rig_options){.resident_limit = 1};
            assert_status(try_open_rig(&rig, urls[i], options, memory), LW_OK);
            rig.queue = add_queue(&rig, "default", 1, UINT32_MAX);
            rig.kind = add_kind(&rig, "mail", UINT32_MAX);
            has_failed = claim_lean(&rig, nth);
            close_rig(&rig);
            close_memory(memory);
        }
    }
}

static void give_back(struct scene *scene, uint64_t nth) {
    lw_test_memory_fail_at(scene->memory, nth);
    int rc = lw_lease_return(scene->engine, scene->held.id, scene->held.token, 0);
    if (was_refused(scene, rc))
        rc = lw_lease_return(scene->engine, scene->held.id, scene->held.token, 0);
    assert_status(rc, LW_OK);
    lw_snapshot task = get(scene, scene->held.id);
    assert_int_equal(task.state, LW_ENQUEUED);
    assert_int_equal(task.attempts + task.crashes, 0);
    lw_snapshot_clear(&task);
}

TEST(a_return_without_memory_is_done_or_can_be_done_again) {
    until_clean(give_back, true);
}

/* ---- meanwhile ---------------------------------------------------------------------------- */

static int64_t lease_end(struct scene *scene) {
    lw_snapshot task = get(scene, scene->held.id);
    int64_t end_ms = task.lease_until_ms;
    lw_snapshot_clear(&task);
    return end_ms;
}

static void extend(struct scene *scene, uint64_t nth) {
    int64_t before = lease_end(scene);
    lw_test_memory_fail_at(scene->memory, nth);
    int rc = lw_lease_extend(scene->engine, scene->held.id, scene->held.token, 90000, 0);
    if (was_refused(scene, rc)) {
        assert_int_equal(lease_end(scene), before);
        rc = lw_lease_extend(scene->engine, scene->held.id, scene->held.token, 90000, 0);
    }
    assert_status(rc, LW_OK);
    assert_int_equal(lease_end(scene), before + 60000);
}

TEST(an_extension_without_memory_is_done_or_the_lease_ends_as_before) {
    until_clean(extend, true);
}

static int publish_all(struct scene *scene) {
    lw_engine *engine = scene->engine;
    lw_id id = scene->held.id;
    uint64_t token = scene->held.token;
    int rc = lw_lease_progress(engine, id, token, 1, 2, "half");
    if (rc == LW_OK)
        rc = lw_lease_partial(engine, id, token, LW_TEXT("part"));
    return rc == LW_OK ? lw_lease_checkpoint(engine, id, token, LW_TEXT("here"), 0) : rc;
}

static void publish(struct scene *scene, uint64_t nth) {
    lw_test_memory_fail_at(scene->memory, nth);
    int rc = publish_all(scene);
    if (was_refused(scene, rc))
        rc = publish_all(scene);
    assert_status(rc, LW_OK);
    lw_snapshot task = get(scene, scene->held.id);
    assert_int_equal(task.state, LW_STARTED);
    assert_int_equal(task.progress.done, 1);
    assert_int_equal(task.partial.size, 4);
    assert_int_equal(task.checkpoint.size, 4);
    lw_snapshot_clear(&task);
}

TEST(progress_and_position_without_memory_are_refused_and_can_be_said_again) {
    CHECK(until_clean(publish, true) >= 2);
}

/* ---- settle ------------------------------------------------------------------------------- */

static int settle_held(struct scene *scene, lw_error *err) {
    const lw_task *then[] = {LW_TASK(.kind = "mail", .delay_ms = 1, .payload = LW_TEXT("x")),
                             LW_TASK(.kind = "new", .queue = "new")};
    lw_settlement end = scene->held;
    end.outcome = LW_OUTCOME_DONE;
    end.result = LW_TEXT("result");
    end.then = then;
    end.then_count = 2;
    assert_status(lw_lease_settle(scene->engine, &end, 1, 0, err), LW_OK);
    return end.status;
}

static uint64_t submitted(struct scene *scene) {
    lw_engine_stats stats;
    assert_status(lw_get_stats(scene->engine, &stats), LW_OK);
    return stats.submitted_total;
}

static void settle_all(struct scene *scene, uint64_t nth) {
    lw_error err = {0};
    lw_test_memory_fail_at(scene->memory, nth);
    int rc = settle_held(scene, &err);
    if (was_refused(scene, rc)) {
        assert_sentence(&err, LW_ENOMEM, "memory");
        assert_int_equal(state_of(scene->engine, scene->held.id), LW_STARTED);
        assert_int_equal(submitted(scene), TASKS);
        rc = settle_held(scene, &err);
    }
    assert_status(rc, LW_OK);
    assert_int_equal(submitted(scene), TASKS + 2);
    lw_snapshot task = get(scene, scene->held.id);
    assert_int_equal(task.state, LW_FINISHED);
    assert_int_equal(task.result.size, 6);
    lw_snapshot_clear(&task);
}

TEST(a_settlement_without_memory_is_all_there_or_the_attempt_goes_on) {
    CHECK(until_clean(settle_all, true) >= 4);
}

/* ---- the end of a lease ------------------------------------------------------------------- */

/* Nobody is there who could be told: it has to work, if not at once then a little later. */
static void run_out(struct scene *scene, uint64_t nth) {
    lw_test_memory_fail_at(scene->memory, nth);
    lw_test_advance(scene->engine, 30001);
    call_off(scene);
    lw_test_advance(scene->engine, 60000);
    lw_snapshot task = get(scene, scene->held.id);
    assert_int_equal(task.state, LW_ENQUEUED);
    assert_int_equal(task.crashes, 1);
    lw_snapshot_clear(&task);
    lw_settlement late = scene->held;
    late.outcome = LW_OUTCOME_DONE;
    assert_status(lw_lease_settle(scene->engine, &late, 1, 0, NULL), LW_OK);
    assert_status(late.status, LW_ELEASE);
}

TEST(a_lease_runs_out_and_is_charged_without_memory) {
    until_clean(run_out, true);
}

/* ---- with the submit ---------------------------------------------------------------------- */

static void count_submitted(void *user, int status, lw_id id) {
    CHECK(status == LW_OK && id > 0);
    ++*(int *)user;
}

/* Refused, or accepted and leased, or accepted for whoever claims it; and nobody was charged. */
static void submit_for(struct scene *scene, uint64_t nth) {
    int told = 0;
    lw_snapshot leased = LW_SNAPSHOT_INIT;
    lw_error err = {0};
    const lw_task *task = LW_TASK(.kind = "sms", .queue = "new", .payload = LW_TEXT("payload"));
    lw_test_memory_fail_at(scene->memory, nth);
    int rc = lw_lease_submit(scene->engine, task, LW_CLAIM_OPTIONS(.holder = "w"), &leased,
                             count_submitted, &told, &err);
    bool is_refused = was_refused(scene, rc);
    lw_test_run(scene->engine);
    assert_int_equal(told, !is_refused);
    if (is_refused) {
        assert_sentence(&err, LW_ENOMEM, "memory");
        assert_int_equal(leased.token, 0);
        return;
    }
    if (leased.token == 0)
        assert_int_equal(
            lw_lease_claim(scene->engine,
                           LW_CLAIM_OPTIONS(.holder = "w", .queues = (const char *[]){"new"},
                                            .queue_count = 1),
                           &leased, &err),
            1);
    assert_int_equal(leased.attempts, 1);
    assert_int_equal(leased.payload.size, 7);
    assert_status(lw_lease_return(scene->engine, leased.id, leased.token, 0), LW_OK);
    lw_snapshot_clear(&leased);
}

TEST(a_submit_with_a_lease_without_memory_is_refused_or_leaves_the_task_to_others) {
    CHECK(until_clean(submit_for, false) >= 3);
}

/* ---- durable, watches --------------------------------------------------------------------- */

static void count_synced(void *user, int status, lw_id id) {
    CHECK(status == LW_OK && id == 0);
    ++*(int *)user;
}

static void sync_all(struct scene *scene, uint64_t nth) {
    int told = 0;
    lw_error err = {0};
    lw_test_memory_fail_at(scene->memory, nth);
    int rc = lw_sync_async(scene->engine, count_synced, &told, &err);
    if (was_refused(scene, rc))
        assert_sentence(&err, LW_ENOMEM, "memory");
    assert_status(lw_sync(scene->engine), LW_OK);
    lw_test_run(scene->engine);
    assert_int_equal(told, rc == LW_OK);
}

TEST(a_callback_without_memory_is_refused_and_never_called) {
    CHECK(until_clean(sync_all, true) >= 1);
}

static void watch(struct scene *scene, uint64_t nth) {
    char queue[LW_NAME_MAX + 1];
    lw_error err = {0};
    lw_claim_watch *watch = (lw_claim_watch *)&err;
    int fds = fd_count();
    lw_test_memory_fail_at(scene->memory, nth);
    int rc = lw_claim_watch_open(scene->engine, &watch, &err);
    if (was_refused(scene, rc)) {
        assert_sentence(&err, LW_ENOMEM, "memory");
        assert_null(watch);
        assert_int_equal(fd_count(), fds);
        assert_status(lw_claim_watch_open(scene->engine, &watch, &err), LW_OK);
    }
    assert_int_equal(lw_claim_watch_next(watch, queue), 1);
    lw_claim_watch_close(watch);
    assert_int_equal(fd_count(), fds);
}

TEST(a_watch_without_memory_is_refused_and_leaves_no_descriptor) {
    CHECK(until_clean(watch, true) >= 1);
}
