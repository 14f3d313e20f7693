/* stores.c: a store on a test clock, with hooks that count, and short words for what tests do to
 * it. */
#include "stores.h"

#include "unsynced.h"

#include "base/memory.h"
#include "store/stores.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A store is added to the conformance suite by adding it here; not every build has all of them. */
static const struct {
    const char *scheme, *url; /* %u: a number of its own for each one that is opened */
} known[] = {{"memory", "memory:"}, {"sqlite", "sqlite:store-%u.db"}};

static bool is_built(const char *scheme) {
    for (size_t i = 0; lw__stores[i]; i++) {
        if (strcmp(lw__stores[i]->scheme, scheme) == 0)
            return true;
    }
    return false;
}

size_t list_stores(const char *urls[STORES_MAX]) {
    size_t count = 0;
    for (size_t i = 0; i < COUNT_OF(known); i++) {
        if (is_built(known[i].scheme))
            urls[count++] = known[i].url;
    }
    return count;
}

int drops;

/* ---- hooks -------------------------------------------------------------------------------- */

static void on_wake(void *user) {
    ((struct rig *)user)->wakes++;
}

static void on_hasten(void *user, uint64_t due) {
    ((struct rig *)user)->hastened = due;
}

static void on_cancel(void *user, uint64_t token, lw_reason reason) {
    struct rig *rig = user;
    rig->cancels++;
    rig->cancelled = token;
    rig->reason = reason;
}

static void on_scope(void *user, uint64_t scope) {
    struct rig *rig = user;
    rig->scope_changes++;
    rig->scope_changed = scope;
}

static void on_moved(void *user, const struct lw__task *task, lw_state from, lw_state to,
                     uint64_t now) {
    struct rig *rig = user;
    (void)now;
    if (rig->move_count < MOVES_MAX) {
        rig->moves[rig->move_count].id = task->id;
        rig->moves[rig->move_count].from = from;
        rig->moves[rig->move_count].to = to;
    }
    rig->move_count++;
}

/* ---- open, close -------------------------------------------------------------------------- */

static uint64_t or_plenty(uint64_t number) {
    return number ? number : UINT32_MAX;
}

static int open_store(struct rig *rig) {
    const struct rig_options *options = &rig->options;
    struct lw__store_options o = {.allocator = rig->allocator,
                                  .clock = rig->clock,
                                  .task_limit = or_plenty(options->task_limit),
                                  .byte_limit = or_plenty(options->byte_limit),
                                  .reserve = options->reserve,
                                  .resident_limit = options->resident_limit,
                                  .is_synchronous = !options->has_threads,
                                  .secret = {1, 2},
                                  .tells_failed = options->tells_failed,
                                  .tells_aborted = options->tells_aborted,
                                  .hooks = {.user = rig,
                                            .wake = on_wake,
                                            .hasten = on_hasten,
                                            .cancel = on_cancel,
                                            .scope_changed = on_scope,
                                            .moved = options->has_threads ? NULL : on_moved}};
    int rc = lw__store_open(&rig->store, rig->url, &o, NULL);
    if (rc == LW_OK)
        rig->ops = rig->store->ops;
    return rc;
}

/* Whatever the store has left in the test's folder. */
static void remove_files(const struct rig *rig) {
    static const char *const endings[] = {"", "-wal", "-shm", "-owner", "-running"};
    const char *path = strchr(rig->url, ':') + 1;
    for (size_t i = 0; *path && i < COUNT_OF(endings); i++) {
        char name[sizeof rig->url + 16];
        snprintf(name, sizeof name, "%s%s", path, endings[i]);
        unlink(name);
    }
}

static void close_rest(struct rig *rig) {
    remove_files(rig);
    lw_test_clock_close(rig->clock);
}

int try_open_rig(struct rig *rig, const char *url, const struct rig_options *options,
                 lw_test_memory *memory) {
    static unsigned number;
    const char *mark = strstr(url, "%u");
    *rig = (struct rig){.options = *options, .memory = memory};
    snprintf(rig->url, sizeof rig->url, "%s", url);
    if (mark)
        snprintf(rig->url, sizeof rig->url, "%.*s%u%s", (int)(mark - url), url, ++number, mark + 2);
    if (options->resident_limit == 0) /* of a file: by turns, beginning with none in memory */
        rig->options.resident_limit = number % 2;
    rig->allocator = lw_test_memory_allocator(memory);
    rig->clock = open_clock();
    rig->now = lw__now(rig->clock);
    int rc = open_store(rig);
    if (rc < 0)
        close_rest(rig);
    return rc;
}

void close_rig(struct rig *rig) {
    rig->ops->close(rig->store);
    close_rest(rig);
}

bool is_durable(const struct rig *rig) {
    return rig->store->index->journal != NULL;
}

int try_reopen_rig(struct rig *rig) {
    CHECK(is_durable(rig));
    rig->ops->close(rig->store);
    int rc = open_store(rig);
    if (rc < 0) {
        close_rest(rig);
        return rc;
    }
    rig->queue = add_queue(rig, "default", 1, UINT32_MAX);
    rig->kind = add_kind(rig, "mail", UINT32_MAX);
    return LW_OK;
}

void reopen_rig(struct rig *rig) {
    assert_status(try_reopen_rig(rig), LW_OK);
}

static const char *current_store;

static void tell_store(int signal_number) {
    (void)signal_number;
    fprintf(stderr, "on %s\n", current_store);
}

void each_store(void (*body)(struct rig *rig), const struct rig_options *options) {
    const char *urls[STORES_MAX];
    size_t count = list_stores(urls);
    void (*own)(int) = signal(SIGABRT, tell_store);
    if (own != SIG_DFL)
        signal(SIGABRT, own); /* the test says it itself */
    stop_syncing();
    for (size_t i = 0; i < count; i++) {
        struct rig *rig = malloc(sizeof *rig);
        lw_test_memory *memory = open_memory();
        current_store = urls[i];
        drops = 0;
        CHECK(rig != NULL);
        assert_status(try_open_rig(rig, urls[i], options, memory), LW_OK);
        rig->queue = add_queue(rig, "default", 1, UINT32_MAX);
        rig->kind = add_kind(rig, "mail", UINT32_MAX);
        body(rig);
        close_rig(rig);
        close_memory(memory);
        free(rig);
    }
}

static struct lw__kind_options kind_options(uint32_t concurrency, uint64_t ttl_ns, uint64_t max) {
    struct lw__kind_options o = {.has_handler = true, .concurrency = concurrency};
    for (int i = 0; i < 3; i++)
        o.retention[i] = (struct lw__retention_settings){ttl_ns, max, UINT64_MAX};
    return o;
}

uint16_t add_kind(struct rig *rig, const char *name, uint32_t concurrency) {
    uint16_t kind;
    struct lw__kind_options o = kind_options(concurrency, UINT64_MAX, UINT64_MAX);
    assert_status(rig->ops->kind(rig->store, name, &kind), LW_OK);
    rig->ops->set_kind(rig->store, kind, &o);
    return kind;
}

void set_retention(struct rig *rig, uint16_t kind, uint64_t ttl_ns, uint64_t max) {
    struct lw__kind_options o = kind_options(UINT32_MAX, ttl_ns, max);
    rig->ops->set_kind(rig->store, kind, &o);
}

uint16_t add_queue(struct rig *rig, const char *name, uint32_t weight, uint64_t limit) {
    uint16_t queue;
    assert_status(rig->ops->queue(rig->store, name, &queue), LW_OK);
    rig->ops->set_queue(rig->store, queue, weight, limit, UINT32_MAX);
    return queue;
}

void pass(struct rig *rig, int64_t ms) {
    advance(rig->clock, ms);
    rig->now = lw__now(rig->clock);
}

/* ---- put ---------------------------------------------------------------------------------- */

static void on_end(void *user, const lw_snapshot *task) {
    (void)user;
    (void)task;
}

static lw_outcome run(lw_ctx *ctx, const lw_task *task) {
    (void)ctx;
    (void)task;
    return LW_OUTCOME_DONE;
}

static void on_drop(void *arg) {
    (void)arg;
    drops++;
}

static uint32_t count_after(const struct wish *wish) {
    uint32_t count = 0;
    while (count < COUNT_OF(wish->after) && wish->after[count])
        count++;
    return count;
}

static bool needs_spec(const struct wish *wish) {
    return wish->key || wish->payload_size || wish->after[0] || wish->start_by || wish->finish_by
           || wish->run_at_ms || wish->is_told || wish->is_call || wish->scope;
}

static struct lw__spec *make_spec(struct rig *rig, const struct wish *wish) {
    uint32_t after_count = count_after(wish);
    size_t key_size = wish->key ? strlen(wish->key) : 0;
    size_t size = lw__spec_size(after_count, key_size, 0, wish->payload_size);
    struct lw__spec *spec = lw__alloc_zero(rig->allocator, size);
    CHECK(spec != NULL);
    spec->size = size;
    spec->start_by = wish->start_by ? wish->start_by : LW__NEVER;
    spec->finish_by = wish->finish_by ? wish->finish_by : LW__NEVER;
    spec->run_at_ms = wish->run_at_ms;
    spec->key_scope = wish->key_scope ? wish->key_scope : LW_KEY_UNFINISHED;
    spec->key_until = wish->key_until;
    spec->after_policy = wish->after_policy;
    spec->after_count = after_count;
    spec->key_size = (uint32_t)key_size;
    spec->payload_size = (uint32_t)wish->payload_size;
    spec->on_end = wish->is_told ? on_end : NULL;
    spec->run = wish->is_call ? run : NULL;
    spec->on_drop = wish->is_call ? on_drop : NULL;
    for (uint32_t i = 0; i < after_count; i++)
        spec->after[i] = wish->after[i];
    if (key_size > 0)
        memcpy(&spec->after[after_count], wish->key, key_size);
    return spec;
}

struct lw__put make_put(struct rig *rig, const struct wish *wish) {
    return (struct lw__put){.kind = wish->kind ? wish->kind : rig->kind,
                            .queue = wish->queue ? wish->queue : rig->queue,
                            .priority = wish->priority ? wish->priority : PRIORITY,
                            .due = wish->due,
                            .spec = needs_spec(wish) ? make_spec(rig, wish) : NULL,
                            .is_inside = wish->is_inside,
                            .is_taken = wish->is_taken,
                            .may_drop = wish->may_drop,
                            .holder = wish->holder,
                            .lease_ns = wish->lease_ms * MS,
                            .scope = wish->scope,
                            .generation = wish->generation};
}

void drop_put(struct rig *rig, struct lw__put *put) {
    if (put->spec)
        lw__free(rig->allocator, put->spec, put->spec->size);
    put->spec = NULL;
}

int put_dropping(struct rig *rig, struct lw__put *puts, size_t count) {
    uint32_t before;
    int rc;
    puts[0].may_drop = true;
    do {
        before = puts[0].drops;
        rc = rig->ops->put(rig->store, rig->now, puts, count);
    } while (rc == LW_EFULL && puts[0].drops > before && rig->ops->flush
             && rig->ops->flush(rig->store) == LW_OK);
    return rc;
}

bool drop_oldest(struct rig *rig) {
    struct lw__queue *queue = lw__index_queue_at(rig->store->index, rig->queue);
    uint64_t limit = queue->limit;
    struct lw__put one = make_put(rig, WISH(.priority = UINT32_MAX));
    queue->limit = queue->unfinished;
    int rc = put_dropping(rig, &one, 1);
    queue->limit = limit;
    if (rc == LW_OK) {
        assert_status(change(rig, one.id, LW__CHANGE_CANCEL), LW_OK);
        assert_status(change(rig, one.id, LW__CHANGE_FORGET), LW_OK);
    }
    return rc == LW_OK;
}

int try_put(struct rig *rig, const struct wish *wish, uint64_t *id) {
    struct lw__put one = make_put(rig, wish);
    int rc =
        wish->may_drop ? put_dropping(rig, &one, 1) : rig->ops->put(rig->store, rig->now, &one, 1);
    if (rc == LW_OK)
        rc = one.status;
    if (rc != LW_OK)
        drop_put(rig, &one);
    if (id)
        *id = one.id;
    return rc;
}

struct lw__task *put(struct rig *rig, const struct wish *wish) {
    uint64_t id;
    assert_status(try_put(rig, wish, &id), LW_OK);
    return find(rig, id);
}

/* ---- attempts ----------------------------------------------------------------------------- */

uint32_t claim(struct rig *rig, struct attempt *attempts, uint32_t max) {
    struct lw__task *tasks[LW__SETTLE_MAX];
    CHECK(max <= LW__SETTLE_MAX);
    struct lw__claim claim = {.tasks = tasks, .max = max};
    rig->ops->claim(rig->store, rig->now, &claim);
    for (uint32_t i = 0; i < claim.count; i++)
        attempts[i] = (struct attempt){tasks[i], claim.token + i};
    return claim.count;
}

struct attempt claim_one(struct rig *rig) {
    struct attempt attempt = {NULL, 0};
    claim(rig, &attempt, 1);
    return attempt;
}

struct attempt start_one(struct rig *rig) {
    struct attempt attempt = claim_one(rig);
    CHECK(attempt.task != NULL);
    CHECK(rig->ops->begin(rig->store, attempt.task, attempt.token, rig->now));
    return attempt;
}

struct attempt start_this(struct rig *rig, struct lw__task *task) {
    struct attempt attempt = start_one(rig);
    assert_int_equal(attempt.task->id, task->id);
    return attempt;
}

int settle(struct rig *rig, struct attempt attempt, struct lw__settlement *settlement) {
    settlement->task = attempt.task;
    settlement->token = attempt.token;
    rig->ops->settle(rig->store, rig->now, settlement, 1);
    return settlement->status;
}

void finish(struct rig *rig, struct attempt attempt) {
    assert_status(SETTLE(rig, attempt, .verdict = LW__VERDICT_FINISH), LW_OK);
}

uint64_t run_next(struct rig *rig) {
    struct attempt attempt = claim_one(rig);
    if (!attempt.task)
        return 0;
    uint64_t id = attempt.task->id;
    CHECK(rig->ops->begin(rig->store, attempt.task, attempt.token, rig->now));
    if (rig->ops->finish(rig->store, attempt.task, rig->now))
        rig->ops->account(rig->store, rig->now, &attempt.task, 1);
    else
        finish(rig, attempt);
    return id;
}

/* ---- looking ------------------------------------------------------------------------------ */

lw_state state_of_task(const struct lw__task *task) {
    return lw__task_state(task);
}

struct lw__task *find(struct rig *rig, uint64_t id) {
    return lw__ids_find(&rig->store->index->ids, id);
}

const char *last_error(const struct lw__task *task) {
    const struct lw__errors *errors = lw__see(&task->errors);
    if (!errors || errors->count == 0)
        return NULL;
    return (const char *)errors + errors->entries[errors->count - 1].text_at;
}

int change(struct rig *rig, uint64_t id, enum lw__change change) {
    return rig->ops->change(rig->store, rig->now, id, change);
}

void assert_state_at(const struct lw__task *task, lw_state state, const char *file, int line) {
    if (task && lw__task_state(task) == state)
        return;
    fprintf(stderr, "%s:%d: the task is %s, should be %s\n", file, line,
            task ? lw_state_name(lw__task_state(task)) : "gone", lw_state_name(state));
    abort();
}

void assert_empty(struct rig *rig) {
    struct lw__store_figures store;
    struct lw__kind_figures kind;
    while (rig->options.has_threads && !rig->ops->is_quiet(rig->store, true))
        sched_yield(); /* what the last call has left to a thread of the store */
    lw__index_figures(rig->store->index, &store);
    assert_int_equal(store.unfinished, 0);
    assert_int_equal(store.bytes, 0);
    assert_int_equal(store.reserve_used, 0);
    for (uint32_t i = 0; lw__index_kind_figures(rig->store->index, i, &kind, 1) > 0; i++) {
        assert_int_equal(kind.created, 0);
        assert_int_equal(kind.scheduled, 0);
        assert_int_equal(kind.enqueued, 0);
        assert_int_equal(kind.claimed, 0);
        CHECK(kind.submitted
              <= kind.finished + kind.failed + kind.aborted); /* revived ones end twice */
    }
    CHECK(rig->ops->is_quiet(rig->store, true));
}
