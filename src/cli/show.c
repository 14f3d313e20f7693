/* `legwork show` and `legwork explain`: all about a task, and why it is where it is. */
#include "cli/command.h"
#include "cli/flows.h"
#include "cli/place.h"
#include "cli/screen.h"
#include "server/refuse.h"

#include <legwork/lease.h>
#include <stdlib.h>

#define MOMENTS_MAX (LW_ERRORS_MAX + 8)
#define SHOWN_MAX 4096 /* bytes of a payload or result; the rest is for --json */

static const struct lw__config_row rows[] = {LW__COMMON_ROWS};

/* ---- timeline ------------------------------------------------------------------------------ */

/* Something that happened. Of equal times the order in which they were found stays. */
struct moment {
    int64_t at_ms;
    size_t order;
    enum lw__tone tone;
    char name[16];
    char text[LW_TEXT_MAX + 64];
};

struct timeline {
    size_t count;
    struct moment moments[MOMENTS_MAX];
    struct moment none; /* what has not happened is written here */
};

static struct moment *add(struct timeline *timeline, int64_t at_ms, lw_state state) {
    if (at_ms == 0 || timeline->count == MOMENTS_MAX)
        return &timeline->none;
    struct moment *moment = &timeline->moments[timeline->count];
    *moment = (struct moment){.at_ms = at_ms, .order = timeline->count++};
    moment->tone = lw__tone_of(state);
    snprintf(moment->name, sizeof moment->name, "%s", lw_state_name(state));
    return moment;
}

static void add_errors(struct timeline *timeline, struct lw__json task) {
    struct lw__json errors, key, error;
    char fault[16], text[LW_TEXT_MAX + 1];
    if (!lw__json_find(task, "errors", &errors))
        return;
    struct lw__json_walk walk = lw__json_enter(errors);
    while (lw__json_next(&walk, &key, &error)) {
        struct moment *moment = add(timeline, lw__fact_number(error, "at_ms"), LW_FAILED);
        lw__fact_text(error, "fault", fault, sizeof fault);
        lw__fact_text(error, "text", text, sizeof text);
        snprintf(moment->name, sizeof moment->name, "%s", fault[0] ? fault : "reason");
        snprintf(moment->text, sizeof moment->text, "attempt %lld: %s",
                 (long long)lw__fact_number(error, "attempt"), text);
    }
}

static int compare(const void *a, const void *b) {
    const struct moment *x = a, *y = b;
    if (x->at_ms != y->at_ms)
        return x->at_ms < y->at_ms ? -1 : 1;
    return x->order < y->order ? -1 : 1;
}

static void gather(struct timeline *timeline, struct lw__json task) {
    lw_state state = lw__fact_state(task);
    int64_t started = lw__fact_number(task, "started_ms"),
            ended = lw__fact_number(task, "ended_ms");
    timeline->count = 0;
    add(timeline, lw__fact_number(task, "created_ms"), LW_CREATED);
    add(timeline, lw__fact_number(task, "enqueued_ms"), LW_ENQUEUED);
    struct moment *start = add(timeline, started, LW_STARTED);
    snprintf(start->text, sizeof start->text, "attempt %lld",
             (long long)lw__fact_number(task, "attempts"));
    add_errors(timeline, task);
    struct moment *end = add(timeline, ended, state);
    if (started && ended >= started)
        snprintf(end->text, sizeof end->text, "after %s", lw__span_of(ended - started).text);
    struct moment *due = add(timeline, lw__fact_number(task, "due_ms"), LW_SCHEDULED);
    snprintf(due->name, sizeof due->name, "due");
    qsort(timeline->moments, timeline->count, sizeof timeline->moments[0], compare);
}

static void put_timeline(struct lw__buffer *page, const struct lw__style *style,
                         struct lw__json task, int64_t now) {
    static const struct lw__table_column columns[] = {
        {"TIME", false}, {"AGE", true}, {"WHAT", false}, {"", false}};
    struct timeline timeline;
    struct lw__table table;
    gather(&timeline, task);
    lw__table_init(&table, columns, sizeof columns / sizeof *columns);
    for (size_t i = 0; i < timeline.count; i++) {
        const struct moment *moment = &timeline.moments[i];
        lw__table_add(&table, LW__PLAIN, lw__time_of(moment->at_ms, now).text);
        lw__table_add(&table, LW__DIM, lw__age_of(moment->at_ms, now).text);
        lw__table_add(&table, moment->tone, moment->name);
        lw__table_add(&table, LW__PLAIN, moment->text);
    }
    lw__buffer_put_byte(page, '\n');
    lw__table_write(&table, style, page);
    lw__table_clear(&table);
    if (lw__fact_number(task, "errors_dropped"))
        lw__buffer_print(page, "(%lld more errors after the first are not kept)\n",
                         (long long)lw__fact_number(task, "errors_dropped"));
}

/* ---- show ---------------------------------------------------------------------------------- */

static void put_field(struct lw__buffer *page, const struct lw__style *style, const char *name,
                      const char *text) {
    char label[16];
    if (!text[0])
        return;
    snprintf(label, sizeof label, "  %-10s", name);
    lw__put_toned(page, style, LW__DIM, label);
    lw__put_safe(page, lw__slice_of(text));
    lw__buffer_put_byte(page, '\n');
}

/* Who has it, and until when. */
static void put_worker(struct lw__buffer *page, const struct lw__style *style, struct lw__json task,
                       int64_t now) {
    char name[LW_HOLDER_MAX + 1], text[LW_HOLDER_MAX + 64];
    if (!lw__fact_text(task, "worker", name, sizeof name)[0])
        return;
    snprintf(text, sizeof text, "%s, until %s", name,
             lw__time_of(lw__fact_number(task, "lease_until_ms"), now).text);
    put_field(page, style, "worker", text);
}

static void put_head(struct lw__buffer *page, const struct lw__style *style, struct lw__json task) {
    char text[LW_KEY_MAX + 1];
    lw_state state = lw__fact_state(task);
    lw__buffer_print(page, "task %lld  ", (long long)lw__fact_number(task, "id"));
    lw__put_toned(page, style, lw__tone_of(state), lw_state_name(state));
    lw__buffer_put_text(page, lw__fact_flag(task, "is_stuck") ? "  stuck" : "");
    lw__buffer_put_text(page, lw__fact_flag(task, "is_cancelling") ? "  asked to give up" : "");
    lw__buffer_put_byte(page, '\n');
    put_field(page, style, "kind", lw__fact_text(task, "kind", text, sizeof text));
    put_field(page, style, "queue", lw__fact_text(task, "queue", text, sizeof text));
    put_field(page, style, "key", lw__fact_text(task, "key", text, sizeof text));
    snprintf(text, sizeof text, "%lld", (long long)lw__fact_number(task, "priority"));
    put_field(page, style, "priority", text);
    snprintf(text, sizeof text, "%lld (crashes %lld, snoozes %lld)",
             (long long)lw__fact_number(task, "attempts"),
             (long long)lw__fact_number(task, "crashes"),
             (long long)lw__fact_number(task, "snoozes"));
    put_field(page, style, "attempts", text);
}

static void put_progress(struct lw__buffer *page, const struct lw__style *style,
                         struct lw__json task) {
    char text[LW_TEXT_MAX + 64], words[LW_TEXT_MAX + 1];
    struct lw__json progress;
    if (!lw__json_find(task, "progress", &progress))
        return;
    snprintf(text, sizeof text, "%lld of %lld  %s", (long long)lw__fact_number(progress, "done"),
             (long long)lw__fact_number(progress, "total"),
             lw__fact_text(progress, "text", words, sizeof words));
    put_field(page, style, "progress", text);
}

static void put_bytes(struct lw__buffer *page, const struct lw__style *style, struct lw__json task,
                      const char *name) {
    struct lw__buffer bytes;
    lw__page_begin(&bytes);
    if (lw__fact_bytes(task, name, &bytes) && bytes.size > 0) {
        size_t shown = bytes.size < SHOWN_MAX ? bytes.size : SHOWN_MAX;
        lw__buffer_put_byte(page, '\n');
        lw__put_toned(page, style, LW__BOLD, name);
        lw__buffer_print(page, " (%zu bytes)\n", bytes.size);
        lw__put_lines(page, "  ", (struct lw__slice){bytes.data, shown});
        if (shown < bytes.size)
            lw__buffer_print(page, "  ... %zu bytes more: see --json\n", bytes.size - shown);
    }
    lw__buffer_clear(&bytes);
}

static void print_task(struct lw__json task) {
    struct lw__style style = lw__style_of(stdout);
    struct lw__buffer page;
    lw__page_begin(&page);
    put_head(&page, &style, task);
    put_worker(&page, &style, task, lw__now_ms());
    put_progress(&page, &style, task);
    put_timeline(&page, &style, task, lw__now_ms());
    put_bytes(&page, &style, task, "payload");
    put_bytes(&page, &style, task, "partial");
    put_bytes(&page, &style, task, "result");
    lw__page_print(&page, stdout);
}

/* ---- explain ------------------------------------------------------------------------------- */

static void print_reasons(struct lw__json why) {
    struct lw__style style = lw__style_of(stdout);
    struct lw__json reasons, key, reason;
    struct lw__buffer page;
    lw_state state = lw__fact_state(why);
    lw__page_begin(&page);
    lw__put_toned(&page, &style, lw__tone_of(state), lw_state_name(state));
    lw__buffer_put_byte(&page, '\n');
    if (lw__json_find(why, "reasons", &reasons)) {
        struct lw__json_walk walk = lw__json_enter(reasons);
        while (lw__json_next(&walk, &key, &reason)) {
            char text[LW_ERROR_MESSAGE_MAX];
            if (lw__json_unescape(reason, text, sizeof text, NULL) < 0)
                continue;
            lw__buffer_put_text(&page, "  - ");
            lw__put_safe(&page, lw__slice_of(text));
            lw__buffer_put_byte(&page, '\n');
        }
    }
    lw__page_print(&page, stdout);
}

/* ---- commands ------------------------------------------------------------------------------ */

/* What is asked about each word, and how the answer is printed. */
struct question {
    const char *command;
    int (*ask)(struct lw__place *place, const char *word, lw_error *err);
    void (*print)(struct lw__json answer);
};

/* "site/example.org": of a flow. */
static int show_flow(struct lw__place *place, const char *word, const char *slash, lw_error *err) {
    char flow[LW_FLOW_NAME_MAX + 1];
    size_t size = (size_t)(slash - word);
    if (size == 0 || size > LW_FLOW_NAME_MAX || !slash[1])
        return lw__refuse(err, LW_EINVAL, "%s is no FLOW/ID: legwork flows shows them",
                          lw__slice_show(lw__slice_of(word)).text);
    memcpy(flow, word, size);
    flow[size] = '\0';
    return lw__place_flow(place, flow, slash + 1, err);
}

static int show_any(struct lw__place *place, const char *word, lw_error *err) {
    const char *slash = strchr(word, '/');
    lw_id id;
    if (slash)
        return show_flow(place, word, slash, err);
    int rc = lw__id_read(word, &id, err);
    return rc < 0 ? rc : lw__place_get(place, id, 0, err);
}

static void print_any(struct lw__json answer) {
    struct lw__json part;
    if (lw__json_find(answer, "flow", &part))
        lw__print_flow(answer);
    else
        print_task(answer);
}

static int explain(struct lw__place *place, const char *word, lw_error *err) {
    lw_id id;
    int rc = lw__id_read(word, &id, err);
    return rc < 0 ? rc : lw__place_explain(place, id, err);
}

/* For each word: asks, and prints. The worst exit code is the one that counts. */
static int for_each(int argc, const char *const *argv, const struct lw__usage *usage,
                    const struct question *question) {
    struct lw__arguments arguments;
    struct lw__common common;
    int code = LW__EXIT_OK;
    if (!lw__arguments_read(&arguments, usage, argc, argv, &common, &code))
        return code;
    struct lw__place *place = lw__place_open(&common, LW__TO_LOOK, question->command, &code);
    for (size_t i = 0; place && i < arguments.count; i++) {
        lw_error err = {0};
        if (i > 0 && !common.is_json)
            putchar('\n');
        if (question->ask(place, arguments.words[i], &err) < 0)
            code = lw__place_complain(place, &err);
        else if (common.is_json)
            lw__place_print(place);
        else
            question->print(place->json);
    }
    lw__place_close(place);
    lw__arguments_clear(&arguments);
    return code;
}

int lw__command_show(int argc, const char *const *argv) {
    static const struct lw__usage usage = {
        .line = "show ID... [FLAG...] | show FLOW/ID... [FLAG...]",
        .about = "Shows all about tasks: what happened when, the errors of the attempts, the\n"
                 "payload and the result. Of a resource of a flow: its state, flags and history.",
        .example = "  legwork show 17\n  legwork show 17 --json | jq .result\n"
                   "  legwork show site/example.org",
        .table = {rows, sizeof rows / sizeof *rows},
        .words_min = 1,
        .words_max = LW__WORDS_MAX};
    static const struct question question = {"show", show_any, print_any};
    return for_each(argc, argv, &usage, &question);
}

int lw__command_explain(int argc, const char *const *argv) {
    static const struct lw__usage usage = {
        .line = "explain ID... [FLAG...]",
        .about = "Says in sentences why a task does not run, or why it ended as it did.",
        .example = "  legwork explain 17",
        .table = {rows, sizeof rows / sizeof *rows},
        .words_min = 1,
        .words_max = LW__WORDS_MAX};
    static const struct question question = {"explain", explain, print_reasons};
    return for_each(argc, argv, &usage, &question);
}
