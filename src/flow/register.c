/* The flows of an engine: registered before it starts, and fixed then. */
#include "flow/flow_internal.h"

#include "base/error.h"
#include "base/memory.h"

#include <stdio.h>
#include <string.h>

#define DEFAULT_RETRY_MIN_MS 3000
#define DEFAULT_RETRY_MAX_MS 300000
#define DEFAULT_CRASHES 100

/* What hangs on the engine. */
struct book {
    unsigned count;
    struct lw__flow *flows[LW_FLOWS_MAX];
};

static struct book *book_of(const lw_engine *engine) {
    return lw__layer_annex(engine, LW__ANNEX_FLOW);
}

static struct lw__flow *find(const struct book *book, const char *name) {
    for (unsigned i = 0; book && i < book->count; i++) {
        if (strcmp(book->flows[i]->name, name) == 0)
            return book->flows[i];
    }
    return NULL;
}

static struct lw__flow *find_sized(const struct book *book, const char *name, size_t size) {
    char copy[LW_FLOW_NAME_MAX + 1];
    if (size > LW_FLOW_NAME_MAX)
        return NULL;
    memcpy(copy, name, size);
    copy[size] = 0;
    return find(book, copy);
}

/* ---- the annex of the engine --------------------------------------------------------------- */

static void free_book(const lw_allocator *allocator, void *data) {
    struct book *book = data;
    for (unsigned i = 0; i < book->count; i++)
        lw__free(allocator, book->flows[i], sizeof *book->flows[i]);
    lw__free(allocator, book, sizeof *book);
}

static int start_book(lw_engine *engine, void *data, lw_error *err) {
    (void)data;
    return lw__flow_review(engine, err);
}

/* lw_start has settled what is not declared any more, but for resources whose state is not, either:
 * they may be of a newer program, which is to find them as they were. */
static bool explain_kind(const void *data, const char *kind, char text[LW_ERROR_MESSAGE_MAX]) {
    const char *dot = strchr(kind, '.');
    const struct lw__flow *flow = dot ? find_sized(data, kind, (size_t)(dot - kind)) : NULL;
    if (flow)
        snprintf(
            text, LW_ERROR_MESSAGE_MAX,
            "flow \"%s\" has no step \"%s\" here, nor the state that its resource is in: declare "
            "them again, or lw_flow_move takes it from there",
            flow->name, dot + 1);
    return flow != NULL;
}

static const struct lw__annex_ops book_ops = {
    .free = free_book, .start = start_book, .explain = explain_kind};

static struct book *make_book(lw_engine *engine) {
    struct book *book = lw__alloc_zero(lw__layer_allocator(engine), sizeof *book);
    if (book)
        lw__layer_set_annex(engine, LW__ANNEX_FLOW, book, &book_ops);
    return book;
}

/* ---- finding ------------------------------------------------------------------------------ */

int lw__flow_find(const lw_engine *engine, const char *name, const struct lw__flow **flow,
                  lw_error *err) {
    int rc = lw__layer_check(engine, err);
    if (rc < 0)
        return rc;
    if (!name)
        return lw__error_set(err, LW_EINVAL, 0, "the name of the flow is NULL");
    const struct book *book = book_of(engine);
    *flow = find(book, name);
    if (*flow)
        return LW_OK;
    const char *known[LW_FLOWS_MAX];
    unsigned count = book ? book->count : 0;
    for (unsigned i = 0; i < count; i++)
        known[i] = book->flows[i]->name;
    return lw__flow_unknown(LW_ENOTFOUND, "flow", name, known, count, err);
}

const struct lw__flow *lw__flow_named(const lw_engine *engine, const char *name, size_t size) {
    return find_sized(book_of(engine), name, size);
}

/* ---- kinds -------------------------------------------------------------------------------- */

/* What is not given has the defaults of flows, not those of handlers. */
static lw_retry_policy fill_in(const lw_retry_policy *given) {
    lw_retry_policy retry = *given;
    if (retry.min_ms == 0)
        retry.min_ms = DEFAULT_RETRY_MIN_MS;
    if (retry.max_ms == 0)
        retry.max_ms = retry.min_ms > DEFAULT_RETRY_MAX_MS ? retry.min_ms : DEFAULT_RETRY_MAX_MS;
    if (retry.crashes == 0)
        retry.crashes = DEFAULT_CRASHES;
    return retry;
}

static int handle_step(lw_engine *engine, const lw_flow *declared, size_t place,
                       struct lw__step *step, lw_error *err) {
    const lw_step *given = &declared->steps[place];
    lw_handler_options options = {.struct_size = sizeof options,
                                  .concurrency = given->concurrency,
                                  .timeout_ms = given->timeout_ms,
                                  .stuck_ms = given->stuck_ms,
                                  .retry = fill_in(&given->retry),
                                  .retention = declared->retention,
                                  .user = given->user ? given->user : declared->user};
    const struct lw__layer_task task = lw__step_task(step);
    struct lw__put put = {0};
    int rc = lw__layer_handle(engine, step->kind, given->run ? lw__step_run : NULL, &options,
                              &lw__flow_layer, step, err);
    if (rc == LW_OK) /* the priority and the queue are checked with it */
        rc = lw__layer_make_put(engine, &task, false, &put, err);
    lw__layer_drop_put(engine, &put);
    step->kind_number = put.kind;
    return rc;
}

static int handle_all(lw_engine *engine, const lw_flow *declared, struct lw__flow *flow,
                      lw_error *err) {
    const lw_retry_policy none = {0};
    int rc = lw__layer_handle(engine, flow->start_kind, lw__flow_run_start,
                              LW_HANDLER_OPTIONS(.retry = fill_in(&none)), NULL, flow, err);
    for (unsigned i = 0; rc == LW_OK && i < flow->step_count; i++)
        rc = handle_step(engine, declared, i, &flow->steps[i], err);
    return rc;
}

/* ---- registering -------------------------------------------------------------------------- */

static int add(lw_engine *engine, struct book *book, const lw_flow *declared, lw_error *err) {
    const lw_allocator *allocator = lw__layer_allocator(engine);
    struct lw__flow *flow = lw__alloc(allocator, sizeof *flow);
    if (!flow)
        return lw__error_set(err, LW_ENOMEM, 0, "no memory for a flow");
    int rc = lw__flow_declare(declared, flow, err);
    if (rc == LW_OK && find(book, flow->name))
        rc = lw__error_set(err, LW_EINVAL, 0, "flow \"%s\" is registered already", flow->name);
    if (rc < 0) {
        lw__free(allocator, flow, sizeof *flow);
        return rc;
    }
    flow->engine = engine;
    book->flows[book->count++] = flow; /* its kinds point to it from now on */
    return handle_all(engine, declared, flow, err);
}

static int register_flow(lw_engine *engine, const lw_flow *declared, lw_error *err) {
    if (lw__layer_is_started(engine))
        return lw__error_set(err, LW_EINVAL, 0, "a flow is registered before lw_start");
    struct book *book = book_of(engine);
    if (!book)
        book = make_book(engine);
    if (!book)
        return lw__error_set(err, LW_ENOMEM, 0, "no memory for flows");
    if (book->count == LW_FLOWS_MAX)
        return lw__error_set(err, LW_EINVAL, 0, "an engine has at most %d flows", LW_FLOWS_MAX);
    return add(engine, book, declared, err);
}

int lw_flow_register(lw_engine *engine, const lw_flow *flow, lw_error *err) {
    lw_error own = {0};
    int rc = lw__layer_check(engine, err);
    if (rc < 0)
        return rc;
    rc = register_flow(engine, flow, &own);
    return rc < 0 ? lw__layer_refuse(engine, &own, err) : LW_OK;
}
