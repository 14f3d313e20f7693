/* Opening an engine, starting it, and freeing it. */
#include "engine/engine_internal.h"

#include "base/error.h"
#include "base/fork.h"
#include "base/futex.h"
#include "base/log.h"
#include "base/memory.h"

#include <pthread.h>
#include <string.h>
#include <sys/random.h>

int lw__engine_check(const lw_engine *engine) {
    if (__builtin_expect(!engine, 0))
        return LW_EINVAL;
    return __builtin_expect(lw__engine_is_alive(engine), 1) ? LW_OK : LW_EFORKED;
}

int lw__engine_check_told(const lw_engine *engine, lw_error *err) {
    int rc = lw__engine_check(engine);
    return rc < 0 ? lw__error_set(err, rc, 0, "%s",
                                  rc == LW_EINVAL ? "the engine is NULL" : lw_status_text(rc))
                  : LW_OK;
}

static void note_news(void *user) {
    lw_engine *engine = user;
    if (!atomic_load_explicit(&engine->has_news, memory_order_relaxed))
        atomic_store(&engine->has_news, 1);
}

/* The store has written a turn. */
static void look_after_turn(void *user) {
    lw_engine *engine = user;
    lw__submit_offer_room(engine);
    lw__stop_announce(engine);
    lw__engine_attend(engine);
}

/* A task comes in that another connection has submitted: its names may be new here. */
static int meet(void *user, const char *kind, const char *queue) {
    lw_engine *engine = user;
    struct lw__kind_info *kind_info;
    struct lw__queue_info *queue_info;
    int rc = lw__registry_kind(engine, kind, &kind_info, NULL);
    if (rc == LW_OK)
        rc = lw__registry_queue(engine, queue, &queue_info, NULL);
    if (rc == LW_OK && !kind_info->run)
        lw__registry_use(engine, kind_info, false);
    return rc;
}

/* A task that was aborted in the batch of a worker waits for the one before it, which may run for
 * long. The scheduler would take it back, but the scheduler may be the one who waits: on_stuck. */
static void relieve_hands(void *user) {
    lw__hand_relieve_all(user, false);
}

/* ---- open --------------------------------------------------------------------------------- */

static int open_store(lw_engine *engine, const char *url, lw_error *err) {
    struct lw__store_options options = {
        .allocator = engine->blocks,
        .log = &engine->set.log,
        .clock = engine->set.clock,
        .role = engine->set.role,
        .task_limit = engine->set.task_limit,
        .byte_limit = engine->set.byte_limit,
        .reserve = engine->set.reserve,
        .worker_slots = engine->set.workers + engine->set.stuck_max,
        .is_synchronous = engine->set.workers == 0,
        .tells_failed = engine->set.on_failed || lw__log_wants(&engine->set.log, LW_LOG_WARN),
        .tells_aborted = engine->set.on_aborted || lw__log_wants(&engine->set.log, LW_LOG_DEBUG),
        .tells_errors = lw__log_wants(&engine->set.log, LW_LOG_INFO),
        .hooks = {.user = engine,
                  .wake = note_news,
                  .hasten = lw__scheduler_hasten,
                  .cancel = lw__hand_cancel,
                  .relieve = relieve_hands,
                  .claimable = lw__watch_note,
                  .scope_changed = lw__layer_scope_changed,
                  .scope_aborted = lw__layer_scope_aborted,
                  .settled = look_after_turn,
                  .meet = meet,
                  .listeners = &engine->event_streams,
                  .moved = lw__events_note},
    };
    if (getrandom(options.secret, sizeof options.secret, 0) != sizeof options.secret)
        return lw__error_set(err, LW_ESYSTEM, 0, "the system gives no random numbers");
    int rc = lw__store_open(&engine->store, url, &options, err);
    if (rc == LW_OK)
        engine->index = engine->store->index;
    return rc;
}

static void init(lw_engine *engine) {
    lw__lot_init(&engine->room);
    lw__lot_init(&engine->quiet);
    lw__mutex_init(&engine->registry_mu);
    lw__mutex_init(&engine->hands_mu);
    lw__mutex_init(&engine->alarms_mu);
    lw__mutex_init(&engine->scheduler_mu);
    lw__mutex_init(&engine->events_mu);
    lw__mutex_init(&engine->scopes_mu);
    lw__mutex_init(&engine->watches_mu);
    lw__mutex_init(&engine->series_mu);
    engine->kind_series.counter_count = LW__SERIES_COUNTERS;
    engine->queue_series.counter_count = 4;
    lw__series_init(&engine->kind_series, lw__engine_now(engine));
    lw__series_init(&engine->queue_series, lw__engine_now(engine));
    lw__timer_init(&engine->alarms, lw__engine_now(engine));
    lw__random_seed(&engine->random, engine->set.seed);
    atomic_init(&engine->sleeps_until, LW__NEVER);
    atomic_init(&engine->stop_deadline, LW__NEVER);
    lw__answers_init(engine);
    lw__queue_settle_options(&engine->unnamed_queue.set, &engine->set, NULL, NULL);
    atomic_init(&engine->holders, 1);
}

/* An allocator of the program's own is asked for every block: it may have its reasons. */
static bool choose_blocks(lw_engine *engine) {
    bool is_default = engine->set.allocator.resize == lw__allocator_default()->resize;
    engine->blocks = is_default ? &engine->recycler.allocator : &engine->set.allocator;
    return !is_default || lw__recycler_init(&engine->recycler, &engine->set.allocator);
}

static int build(lw_engine *engine, const char *url, lw_error *err) {
    engine->has_barrier = lw__barrier_prepare();
    engine->is_alive = lw__fork_word_open(err);
    if (!engine->is_alive)
        return err->status;
    if (lw__registry_open(engine) < 0 || !choose_blocks(engine))
        return lw__error_set(err, LW_ENOMEM, 0, "no memory for the engine's tables");
    int rc = open_store(engine, url, err);
    if (rc < 0)
        return rc;
    rc = lw__registry_load(engine, err);
    if (rc < 0 && engine->store->ops->abandon)
        engine->store->ops->abandon(engine->store);
    return rc;
}

int lw_open(lw_engine **out, const char *url, const lw_engine_options *options, lw_error *err) {
    struct lw__engine_settings set;
    lw_error own;
    if (!err)
        err = &own;
    if (!out)
        return lw__error_set(err, LW_EINVAL, 0,
                             "there is nowhere to put the engine: the first argument is NULL");
    *out = NULL;
    if (!url)
        return lw__error_set(err, LW_EINVAL, 0,
                             "the store URL is NULL, must be one, such as \"memory:\"");
    int rc = lw__engine_settle_options(&set, options, err);
    if (rc < 0)
        return rc;
    lw_engine *engine = lw__alloc_aligned(&set.allocator, sizeof *engine, _Alignof(lw_engine));
    if (!engine)
        return lw__error_set(err, LW_ENOMEM, 0, "no memory for an engine of %zu bytes",
                             sizeof *engine);
    memset(engine, 0, sizeof *engine);
    engine->set = set;
    init(engine);
    lw__driver_set(engine);
    rc = build(engine, url, err);
    if (rc < 0) {
        lw__engine_free(engine);
        return rc;
    }
    *out = engine;
    return LW_OK;
}

/* ---- start -------------------------------------------------------------------------------- */

static int make_hands(lw_engine *engine, lw_error *err) {
    uint32_t count = engine->set.workers + engine->set.stuck_max;
    size_t size = count * sizeof *engine->all_hands;
    engine->all_hands = lw__alloc_aligned(&engine->set.allocator, size, LW__LINE);
    if (!engine->all_hands)
        return lw__error_set(err, LW_ENOMEM, 0, "no memory for %u workers", count);
    memset(engine->all_hands, 0, size);
    engine->hand_count = count;
    for (uint32_t i = count; i-- > 0;) {
        struct lw__hand *hand = &engine->all_hands[i];
        lw__hand_init(hand, engine);
        hand->running = engine->index->running ? &engine->index->running[i] : NULL;
        hand->next = engine->free_hands;
        engine->free_hands = hand;
    }
    return LW_OK;
}

/* The guard timeout never comes: it is there because only a guarded pool can write workers off. */
static int start_workers(lw_engine *engine, lw_error *err) {
    /* They are there since a start that failed, perhaps. */
    int rc = engine->all_hands ? LW_OK : make_hands(engine, err);
    if (rc < 0)
        return rc;
    rc = lw_pool_open(
        &engine->pool,
        LW_POOL_OPTIONS(.name = engine->set.name, .min_workers = (int)engine->set.workers,
                        .max_workers = (int)engine->set.workers,
                        .queue_limit = (int)engine->hand_count + 1, .overflow = LW_REFUSE,
                        .task_timeout_ms = LW_TIMEOUT_MS_MAX, .on_drop = lw__hand_drop_token,
                        .stuck_max = engine->set.stuck_max ? (int)engine->set.stuck_max : LW_ZERO,
                        .log = engine->set.log.write ? &engine->set.log : NULL,
                        .clock = engine->set.clock, .allocator = &engine->set.allocator),
        err);
    if (rc == LW_OK && !lw__scheduler_start(engine)) {
        lw_pool_close(engine->pool);
        engine->pool = NULL;
        rc = lw__error_set(err, LW_ESYSTEM, 0, "the system gives no thread for the scheduler");
    }
    return rc;
}

static int check_start_locked(lw_engine *engine, lw_error *err) {
    if (lw__engine_remote(engine))
        return lw__client_refuse(engine, "there is nothing to start", err);
    if (engine->start_status < 0) {
        if (err)
            *err = engine->start_error;
        return engine->start_status;
    }
    if (atomic_load(&engine->is_started))
        return lw__error_set(err, LW_EINVAL, 0, "the engine was started before");
    if (lw__engine_stop_level(engine) != LW__RUNNING)
        return lw__error_set(err, LW_ESTOPPING, 0, "the engine has been stopped");
    return LW_OK;
}

/* Aborts what should have started or finished before there were workers: none of them is to begin
 * it. */
static void end_overdue(lw_engine *engine) {
    uint64_t now = lw__engine_now(engine);
    while (engine->store->ops->sweep(engine->store, now) <= now)
        ;
}

int lw_start(lw_engine *engine, lw_error *err) {
    int rc = lw__engine_check_told(engine, err);
    if (rc < 0)
        return rc;
    lw__mutex_lock(&engine->registry_mu);
    rc = check_start_locked(engine, err);
    lw__mutex_unlock(&engine->registry_mu);
    if (rc == LW_OK) /* without the lock: callbacks of the program may run inside */
        rc = lw__layer_start_annexes(engine, err);
    if (rc < 0)
        return rc;
    end_overdue(engine);
    lw__mutex_lock(&engine->registry_mu);
    rc = check_start_locked(engine, err); /* it may have been stopped, or started, meanwhile */
    if (rc == LW_OK && engine->set.workers > 0)
        rc = start_workers(engine, err);
    if (rc == LW_OK)
        atomic_store(&engine->is_started, true);
    lw__mutex_unlock(&engine->registry_mu);
    if (rc < 0)
        return rc;
    lw__log(&engine->set.log, LW_LOG_DEBUG, "engine", "started",
            LW__FIELD_TEXT("engine", engine->set.name),
            LW__FIELD_U64("workers", engine->set.workers));
    if (engine->store->ops->start)
        engine->store->ops->start(engine->store);
    atomic_store(&engine->has_news, 1); /* there may be tasks from before */
    lw__engine_attend(engine);
    lw__unhandled_start(engine);
    return lw__engine_is_forked(engine) ? LW_EFORKED : LW_OK;
}

/* ---- close -------------------------------------------------------------------------------- */

static void free_all(void *arg) {
    lw_engine *engine = arg;
    lw_allocator allocator = engine->set.allocator;
    if (engine->is_alive && lw__engine_is_forked(engine))
        return;
    for (uint32_t i = 0; i < engine->hand_count; i++)
        lw__hand_free(&engine->all_hands[i]);
    if (engine->all_hands)
        lw__free_aligned(&allocator, engine->all_hands,
                         engine->hand_count * sizeof *engine->all_hands, LW__LINE);
    if (engine->store)
        engine->store->ops->close(engine->store);
    lw__answers_free(engine);
    lw__layer_free_annexes(engine);
    lw__registry_free(engine);
    lw__series_free(&engine->kind_series, &allocator);
    lw__series_free(&engine->queue_series, &allocator);
    lw__mutex_free(&engine->series_mu);
    lw__recycler_free(&engine->recycler);
    lw__mutex_free(&engine->watches_mu);
    lw__mutex_free(&engine->scopes_mu);
    lw__mutex_free(&engine->events_mu);
    lw__mutex_free(&engine->scheduler_mu);
    lw__mutex_free(&engine->alarms_mu);
    lw__mutex_free(&engine->hands_mu);
    lw__mutex_free(&engine->registry_mu);
    lw__lot_free(&engine->quiet);
    lw__lot_free(&engine->room);
    lw__fork_word_close(engine->is_alive);
    lw__free_aligned(&allocator, engine, sizeof *engine, _Alignof(lw_engine));
}

/* Callbacks may end the thread, and the engine is freed all the same. */
void lw__engine_free(lw_engine *engine) {
    atomic_store(&engine->has_stopped, true); /* answers that are left: nobody waits for quiet */
    engine->pool = NULL;                      /* that was closed */
    pthread_cleanup_push(free_all, engine);
    if (!engine->has_told_left)
        lw__leftovers_tell(engine, true);
    pthread_cleanup_pop(1);
}

void lw__engine_release(lw_engine *engine) {
    if (atomic_fetch_sub(&engine->holders, 1) == 1)
        lw__engine_free(engine);
}

int lw_close(lw_engine *engine) {
    if (!engine)
        return LW_OK;
    if (!lw__engine_is_alive(engine))
        return LW_EFORKED;
    if (lw__hand_is_inside(engine))
        return LW_EDEADLOCK;
    int rc = lw_stop(engine, LW_DROP, atomic_load(&engine->has_timed_out) ? 0 : -1);
    if (rc == LW_EFORKED || !lw__leftovers_tell(engine, false))
        return LW_EFORKED;
    engine->has_told_left = rc == LW_OK; /* nothing ran that was left out */
    bool is_told = rc == LW_OK || lw__answers_are_told(engine);
    lw__answers_stop(engine, is_told);
    lw__scheduler_stop(engine);
    engine->store->ops->restrain(engine->store, LW__STORE_NO_HOOK); /* it would look for the pool */
    lw_pool *pool = engine->pool;
    if (pool) {
        lw_pool_stop(pool, LW_DRAIN, rc == LW_OK ? -1 : 0);
        rc = lw_pool_close(pool); /* handlers that still run are left behind */
    }
    if (!is_told)
        rc = LW_PENDING; /* so are callbacks, and the thread that makes them */
    lw__engine_release(engine);
    return rc;
}
