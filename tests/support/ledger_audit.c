/* What must hold of a ledger. Each record is looked at in its turn, with what is known by then. */
#include "ledger.h"

#include "test.h"

#include <legwork/task.h>
#include <stdio.h>
#include <stdlib.h>

#define EARLY_NS 50000000u /* wall time is kept in ms, and may be slewed while a task waits */

struct wish { /* by serial */
    bool is_known;
    uint64_t id, parent, parent_token, not_before_ns, after;
    uint32_t flags, batch;
};

struct deed { /* by id */
    uint64_t serial, token, final_token;
    uint32_t begun_life, seen_life; /* 0: never */
    lw_outcome returned;            /* of the attempt with this token; 0: not yet */
    lw_state end;                   /* 0: none that is known to be durable */
    bool is_acked, has_ended_once;  /* once: an attempt was the last one, as far as it knew */
    uint64_t heir_token;            /* which attempt named the successors in the present list */
    uint32_t heir_life, heirs;
};

struct audit {
    const struct ledger_record *records;
    size_t count, at;
    uint64_t seed;
    uint32_t last;
    struct wish *wishes;
    struct deed *deeds;
    size_t wish_count, deed_count;
    struct ledger_figures figures;
};

static _Noreturn void object(const struct audit *a, const struct ledger_record *r,
                             const char *what) {
    fprintf(stderr, "record %zu (event %u, life %u, serial %llu, id %llu, token %llu): %s\n", a->at,
            r->event, r->life, (unsigned long long)r->serial, (unsigned long long)r->id,
            (unsigned long long)r->token, what);
    abort();
}

#define HOLDS(condition, what) ((condition) ? (void)0 : object(a, r, what))

/* ---- finding ------------------------------------------------------------------------------ */

static void size_up(struct audit *a) {
    for (size_t i = 0; i < a->count; i++) {
        a->wish_count =
            a->records[i].serial >= a->wish_count ? a->records[i].serial + 1 : a->wish_count;
        a->deed_count = a->records[i].id >= a->deed_count ? a->records[i].id + 1 : a->deed_count;
    }
    a->wishes = calloc(a->wish_count + 1, sizeof *a->wishes);
    a->deeds = calloc(a->deed_count + 1, sizeof *a->deeds);
    CHECK(a->wishes && a->deeds);
}

/* The task of a record, which is and stays that of its serial. */
static struct deed *deed_of(struct audit *a, const struct ledger_record *r) {
    struct wish *wish = &a->wishes[r->serial];
    struct deed *deed = &a->deeds[r->id];
    HOLDS(wish->is_known, "nobody has submitted this");
    HOLDS(r->id != 0, "it has no id");
    HOLDS(wish->id == 0 || wish->id == r->id, "there twice, under two ids");
    HOLDS(deed->serial == 0 || deed->serial == r->serial, "an id was given twice");
    wish->id = r->id;
    deed->serial = r->serial;
    return deed;
}

static bool is_last_word(lw_outcome outcome) {
    return outcome != LW_OUTCOME_RETRY && outcome != LW_OUTCOME_SNOOZE;
}

static bool has_promised_more(const struct deed *deed) {
    return deed->returned && !is_last_word(deed->returned);
}

/* ---- one record --------------------------------------------------------------------------- */

static void see_about(struct audit *a, const struct ledger_record *r) {
    struct wish *wish = &a->wishes[r->serial];
    HOLDS(r->serial != 0, "it has no serial");
    if (!wish->is_known || r->not_before_ns < wish->not_before_ns)
        wish->not_before_ns = r->not_before_ns; /* said twice it is due as the first time */
    wish->is_known = true;
    wish->after = r->other;
    wish->flags = r->what;
    wish->batch = r->batch; /* repeated after a crash it is alone */
}

static void see_then(struct audit *a, const struct ledger_record *r) {
    struct wish *wish = &a->wishes[r->serial];
    HOLDS(!wish->is_known, "a serial was given twice");
    *wish = (struct wish){.is_known = true, .parent = r->id, .parent_token = r->token};
}

static void check_order(struct audit *a, const struct ledger_record *r, const struct wish *wish) {
    HOLDS(r->at_ns + EARLY_NS >= wish->not_before_ns, "begun before it was due");
    /* One that was itself aborted for another may be told later than its dependents begin. */
    if (wish->after && !a->wishes[a->deeds[wish->after].serial].after)
        HOLDS(a->deeds[wish->after].has_ended_once, "begun before what it waits for has ended");
    if (wish->parent)
        HOLDS(a->deeds[wish->parent].has_ended_once, "begun before its predecessor was done");
}

static void see_begun(struct audit *a, const struct ledger_record *r) {
    struct deed *deed = deed_of(a, r);
    HOLDS(r->life != a->last, "run again after a proper end of all");
    HOLDS(!deed->end, "run again after an end that was durable");
    if (deed->begun_life == r->life)
        HOLDS(has_promised_more(deed), "run again without a crash");
    else if (deed->begun_life && !has_promised_more(deed))
        a->figures.repeated++, a->figures.redone += deed->returned != 0;
    check_order(a, r, &a->wishes[r->serial]);
    deed->begun_life = r->life;
    deed->token = r->token;
    deed->returned = 0;
    a->figures.executed++;
}

static void see_returned(struct audit *a, const struct ledger_record *r) {
    struct deed *deed = deed_of(a, r);
    HOLDS(deed->token == r->token && deed->begun_life == r->life, "returned without a begin");
    deed->returned = (lw_outcome)r->what;
    deed->has_ended_once = deed->has_ended_once || is_last_word(deed->returned);
}

static lw_state state_after(int outcome) {
    return outcome == LW_OUTCOME_DONE   ? LW_FINISHED
           : outcome == LW_OUTCOME_FAIL ? LW_FAILED
                                        : LW_ABORTED;
}

/* It ended without an attempt: for what it waited for. A list has that before it; callbacks come
 * in any order. */
static void check_unrun(struct audit *a, const struct ledger_record *r) {
    const struct wish *wish = &a->wishes[r->serial];
    lw_state before = a->deeds[wish->after].end;
    HOLDS(wish->after && r->what == LW_ABORTED && !(wish->flags & LEDGER_AFTER_RUN),
          "it has ended, and never ran");
    HOLDS(before ? before != LW_FINISHED : r->event == LEDGER_TOLD,
          "aborted for one that has not failed");
}

static void check_run(struct audit *a, const struct ledger_record *r, const struct deed *deed) {
    lw_state planned = state_after(ledger_plan(a->seed, r->serial).end);
    HOLDS(deed->token == r->token, "the outcome of a stale attempt was applied");
    HOLDS(deed->returned && state_after((int)deed->returned) == (lw_state)r->what,
          "it ended otherwise than its last attempt said");
    HOLDS(planned == (lw_state)r->what, "it ended otherwise than planned");
}

/* The state that it ended in, and whether that is what became of its last attempt. */
static void see_end(struct audit *a, const struct ledger_record *r, struct deed *deed) {
    HOLDS(!deed->end || (deed->end == (lw_state)r->what && deed->final_token == r->token),
          "its end has changed");
    if (deed->begun_life)
        check_run(a, r, deed);
    else
        check_unrun(a, r);
    deed->end = (lw_state)r->what;
    deed->final_token = r->token;
    deed->has_ended_once = true;
}

static void see_told(struct audit *a, const struct ledger_record *r) {
    see_end(a, r, deed_of(a, r));
}

static void see_heir(struct audit *a, const struct ledger_record *r) {
    const struct wish *wish = &a->wishes[r->serial];
    struct deed *parent = &a->deeds[wish->parent];
    if (parent->heir_life != r->life) {
        parent->heir_life = r->life;
        parent->heirs = 0;
        parent->heir_token = wish->parent_token;
    }
    parent->heirs++;
    HOLDS(parent->heir_token == wish->parent_token, "successors of two attempts are there");
}

static void see_seen(struct audit *a, const struct ledger_record *r) {
    struct deed *deed = deed_of(a, r);
    HOLDS(deed->seen_life != r->life, "it is in the list twice");
    deed->seen_life = r->life;
    if (a->wishes[r->serial].parent)
        see_heir(a, r);
    if (lw_state_is_terminal((lw_state)r->what))
        see_end(a, r, deed);
    else
        HOLDS(!deed->end, "its end was told, and is gone");
    HOLDS(r->what != LW_FINISHED || r->other == r->token, "its result is not of its last attempt");
    HOLDS(r->life != a->last || deed->end, "not done, although all was waited for");
}

static void see_acked(struct audit *a, const struct ledger_record *r) {
    struct deed *deed = deed_of(a, r);
    a->figures.acked += !deed->is_acked;
    deed->is_acked = true;
}

/* ---- a whole list ------------------------------------------------------------------------- */

/* What was acknowledged, has begun or was there before is there, or has left after its end. */
static void check_presence(struct audit *a, const struct ledger_record *r,
                           const struct deed *deed) {
    bool is_seen = deed->seen_life == r->life;
    bool can_have_left = a->wishes[deed->serial].flags & LEDGER_FLEETING && deed->has_ended_once;
    if (is_seen || can_have_left)
        return;
    fprintf(stderr, "serial %llu: ", (unsigned long long)deed->serial);
    HOLDS(!deed->is_acked, "acknowledged, and lost");
    HOLDS(!deed->begun_life, "run before it was durable, and lost");
    HOLDS(!deed->seen_life, "it was there, and is lost");
}

/* An end and its successors are there together, or neither is. */
static void check_heirs(struct audit *a, const struct ledger_record *r, const struct deed *deed) {
    uint32_t heirs = deed->heir_life == r->life ? deed->heirs : 0;
    unsigned planned = ledger_plan(a->seed, deed->serial).successors;
    bool is_seen = deed->seen_life == r->life;
    if (is_seen && deed->end == LW_FINISHED) {
        HOLDS(heirs == planned, "finished without its successors");
        HOLDS(heirs == 0 || deed->heir_token == deed->final_token,
              "successors of a stale attempt are there");
    } else if (is_seen || !deed->has_ended_once) {
        HOLDS(heirs == 0, "successors without the end that they belong to");
    } else if (ledger_plan(a->seed, deed->serial).end == LW_OUTCOME_DONE) {
        HOLDS(heirs == planned, "left without its successors");
    }
}

static void check_batches(struct audit *a, const struct ledger_record *r) {
    for (size_t i = 1; i < a->wish_count; i++) {
        const struct wish *wish = &a->wishes[i], *first = &a->wishes[wish->batch];
        if (wish->batch && first->batch == wish->batch)
            HOLDS((wish->id != 0) == (first->id != 0), "half of a batch is there");
    }
}

static void see_listed(struct audit *a, const struct ledger_record *r) {
    for (size_t i = 1; i < a->deed_count; i++) {
        if (a->deeds[i].serial == 0)
            continue;
        check_presence(a, r, &a->deeds[i]);
        check_heirs(a, r, &a->deeds[i]);
    }
    check_batches(a, r);
}

/* ---- all ---------------------------------------------------------------------------------- */

static int compare_tokens(const void *left, const void *right) {
    uint64_t l = *(const uint64_t *)left, r = *(const uint64_t *)right;
    return (l > r) - (l < r);
}

static void check_tokens(const struct audit *a) {
    uint64_t *tokens = calloc(a->count + 1, sizeof *tokens);
    size_t count = 0;
    CHECK(tokens);
    for (size_t i = 0; i < a->count; i++) {
        if (a->records[i].event == LEDGER_BEGUN)
            tokens[count++] = a->records[i].token;
    }
    qsort(tokens, count, sizeof *tokens, compare_tokens);
    for (size_t i = 1; i < count; i++)
        CHECK(tokens[i] != tokens[i - 1]); /* two attempts have the same token */
    free(tokens);
}

struct ledger_figures ledger_audit(int ledger, uint64_t seed, uint32_t last) {
    static void (*const see[])(struct audit *, const struct ledger_record *) = {
        [LEDGER_ABOUT] = see_about,       [LEDGER_ACKED] = see_acked,  [LEDGER_THEN] = see_then,
        [LEDGER_BEGUN] = see_begun,       [LEDGER_TOLD] = see_told,    [LEDGER_SEEN] = see_seen,
        [LEDGER_RETURNED] = see_returned, [LEDGER_LISTED] = see_listed};
    struct audit a = {.seed = seed, .last = last};
    a.records = ledger_map(ledger, &a.count);
    CHECK(a.count > 0 && a.records[a.count - 1].event == LEDGER_LISTED);
    size_up(&a);
    for (; a.at < a.count; a.at++)
        see[a.records[a.at].event](&a, &a.records[a.at]);
    check_tokens(&a);
    free(a.wishes);
    free(a.deeds);
    return a.figures;
}
