/* `legwork ls`: a page of tasks. */
#include "cli/command.h"
#include "cli/place.h"
#include "cli/screen.h"

#define LIMIT_MAX 1000

struct values {
    struct lw__common common;
    int state;
    const char *queue, *kind, *key;
    int64_t after, limit;
};

#define AT(field) .offset = offsetof(struct values, field)
#define TEXT(field, what) .type = LW__CONFIG_TEXT, AT(field), .fallback = "", .argument = (what)

static const char *const states[] = {"any",      "created", "scheduled", "enqueued", "started",
                                     "finished", "failed",  "aborted",   NULL};

static const struct lw__config_row rows[] = {
    {NULL, "state", .type = LW__CONFIG_CHOICE, AT(state), .fallback = "any", .choices = states,
     .argument = "STATE",
     .help = "Only those: created, scheduled, enqueued, started, finished, failed, aborted."},
    {NULL, "queue", TEXT(queue, "QUEUE"), .help = "Only those of this queue."},
    {NULL, "kind", TEXT(kind, "KIND"), .help = "Only those of this kind."},
    {NULL, "key", TEXT(key, "KEY"), .help = "Only those with this key."},
    {NULL, "after", .type = LW__CONFIG_COUNT, AT(after), .fallback = "0", .argument = "ID",
     .max = INT64_C(1) << 53, .help = "Only ids above this one: the next page."},
    {NULL, "limit", .type = LW__CONFIG_COUNT, AT(limit), .fallback = "50", .argument = "N",
     .min = 1, .max = LIMIT_MAX, .help = "At most so many, 50 unless told."},
    LW__COMMON_ROWS};

static const struct lw__usage usage = {.line = "ls [FLAG...]",
                                       .about = "Lists tasks, the oldest first.",
                                       .example = "  legwork ls --state failed --kind send-email\n"
                                                  "  legwork ls --json | jq '.tasks[].id'",
                                       .table = {rows, sizeof rows / sizeof *rows}};

static const struct lw__table_column columns[] = {
    {"ID", true},   {"STATE", false}, {"KIND", false}, {"QUEUE", false},
    {"KEY", false}, {"TRIES", true},  {"AGE", true},   {"NOTE", false}};

/* The one thing to know about a task besides: what went wrong, how far it is, when it is due. */
static void add_note(struct lw__table *table, struct lw__json task, int64_t now) {
    char note[LW_TEXT_MAX + 64];
    struct lw__json progress;
    int64_t due = lw__fact_number(task, "due_ms");
    char error[LW_TEXT_MAX + 1];
    lw__fact_text(task, "last_error", error, sizeof error);
    if (lw__fact_flag(task, "is_stuck"))
        lw__table_add(table, LW__RED, "stuck");
    else if (lw__fact_flag(task, "is_cancelling"))
        lw__table_add(table, LW__YELLOW, "asked to give up");
    else if (due) {
        snprintf(note, sizeof note, "%s%s%s", lw__age_of(due, now).text, error[0] ? ": " : "",
                 error);
        lw__table_add(table, LW__DIM, note);
    } else if (error[0]) {
        lw__table_add(table, lw__tone_of(lw__fact_state(task)), error);
    } else if (lw__json_find(task, "progress", &progress)) {
        snprintf(note, sizeof note, "%lld of %lld", (long long)lw__fact_number(progress, "done"),
                 (long long)lw__fact_number(progress, "total"));
        lw__table_add(table, LW__DIM, note);
    } else {
        lw__table_add(table, LW__PLAIN, "");
    }
}

static void add_task(struct lw__table *table, struct lw__json task, int64_t now) {
    char text[LW_KEY_MAX + 1];
    lw_state state = lw__fact_state(task);
    int64_t attempts = lw__fact_number(task, "attempts");
    snprintf(text, sizeof text, "%lld", (long long)lw__fact_number(task, "id"));
    lw__table_add(table, LW__PLAIN, text);
    lw__table_add(table, lw__tone_of(state), lw_state_name(state));
    lw__table_add(table, LW__PLAIN, lw__fact_text(task, "kind", text, sizeof text));
    lw__table_add(table, LW__PLAIN, lw__fact_text(task, "queue", text, sizeof text));
    lw__table_add(table, LW__PLAIN, lw__fact_text(task, "key", text, sizeof text));
    snprintf(text, sizeof text, "%lld", (long long)attempts);
    lw__table_add(table, LW__PLAIN, attempts ? text : "");
    lw__table_add(table, LW__DIM, lw__age_of(lw__fact_number(task, "created_ms"), now).text);
    add_note(table, task, now);
}

static void print_table(struct lw__json answer) {
    struct lw__style style = lw__style_of(stdout);
    struct lw__json tasks, key, task;
    struct lw__table table;
    struct lw__buffer page;
    lw__page_begin(&page);
    lw__table_init(&table, columns, sizeof columns / sizeof *columns);
    if (lw__json_find(answer, "tasks", &tasks)) {
        struct lw__json_walk walk = lw__json_enter(tasks);
        while (lw__json_next(&walk, &key, &task))
            add_task(&table, task, lw__now_ms());
    }
    if (table.cells > 0)
        lw__table_write(&table, &style, &page);
    else
        fputs("no tasks\n", stderr);
    lw__table_clear(&table);
    lw__page_print(&page, stdout);
    if (lw__fact_number(answer, "after"))
        fprintf(stderr, "there may be more: legwork ls --after %lld\n",
                (long long)lw__fact_number(answer, "after"));
}

static const char *or_null(const char *text) {
    return text[0] ? text : NULL;
}

int lw__command_ls(int argc, const char *const *argv) {
    struct lw__arguments arguments;
    struct values values;
    int code = LW__EXIT_OK;
    lw_error err = {0};
    if (!lw__arguments_read(&arguments, &usage, argc, argv, &values, &code))
        return code;
    struct lw__place *place = lw__place_open(&values.common, LW__TO_LOOK, "ls", &code);
    const lw_filter filter = {.struct_size = sizeof filter,
                              .state = (lw_state)values.state,
                              .queue = or_null(values.queue),
                              .kind = or_null(values.kind),
                              .key = or_null(values.key),
                              .after = (lw_id)values.after,
                              .limit = (size_t)values.limit};
    if (place && lw__place_list(place, &filter, &err) < 0)
        code = lw__place_complain(place, &err);
    else if (place && values.common.is_json)
        lw__place_print(place);
    else if (place)
        print_table(place->json);
    lw__place_close(place);
    lw__arguments_clear(&arguments);
    return code;
}
