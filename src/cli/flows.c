/* `legwork flows`: a page of resources; and one of them, for `legwork show FLOW/ID`. */
#include "cli/flows.h"

#include "cli/command.h"
#include "cli/screen.h"

#define LIMIT_MAX 1000

/* ---- words --------------------------------------------------------------------------------- */

static enum lw__tone tone_of(const char *condition) {
    static const struct {
        const char *name;
        enum lw__tone tone;
    } tones[] = {{"held", LW__YELLOW},  {"active", LW__CYAN},   {"halted", LW__RED},
                 {"aborted", LW__RED},  {"at goal", LW__GREEN}, {"done", LW__GREEN},
                 {"skipped", LW__GREEN}};
    for (size_t i = 0; i < sizeof tones / sizeof *tones; i++)
        if (strcmp(tones[i].name, condition) == 0)
            return tones[i].tone;
    return LW__PLAIN;
}

static void add_text(struct lw__table *table, enum lw__tone tone, struct lw__json object,
                     const char *name) {
    char text[LW_TEXT_MAX + 1];
    lw__table_add(table, tone, lw__fact_text(object, name, text, sizeof text));
}

static void add_toned(struct lw__table *table, struct lw__json object, const char *name) {
    char text[64];
    lw__fact_text(object, name, text, sizeof text);
    lw__table_add(table, tone_of(text), text);
}

static void add_number(struct lw__table *table, struct lw__json object, const char *name) {
    char text[32];
    int64_t number = lw__fact_number(object, name);
    snprintf(text, sizeof text, "%lld", (long long)number);
    lw__table_add(table, LW__PLAIN, number ? text : "");
}

static void add_age(struct lw__table *table, struct lw__json object, const char *name,
                    int64_t now) {
    lw__table_add(table, LW__DIM, lw__age_of(lw__fact_number(object, name), now).text);
}

/* Calls `add` for each object of an array, and writes the table; nothing if it is empty. */
static void put_table(struct lw__buffer *page, const struct lw__style *style, struct lw__json whole,
                      const char *name, const struct lw__table_column *columns, size_t count,
                      void (*add)(struct lw__table *table, struct lw__json object, int64_t now)) {
    struct lw__json array, key, object;
    struct lw__table table;
    int64_t now = lw__now_ms();
    lw__table_init(&table, columns, count);
    if (lw__json_find(whole, name, &array)) {
        struct lw__json_walk walk = lw__json_enter(array);
        while (lw__json_next(&walk, &key, &object))
            add(&table, object, now);
    }
    if (table.cells > 0)
        lw__table_write(&table, style, page);
    lw__table_clear(&table);
}

/* ---- one ----------------------------------------------------------------------------------- */

static void add_step(struct lw__table *table, struct lw__json step, int64_t now) {
    add_text(table, LW__PLAIN, step, "flag");
    add_text(table, LW__PLAIN, step, "step");
    add_toned(table, step, "state");
    add_number(table, step, "attempts");
    add_age(table, step, lw__fact_number(step, "done_ms") ? "done_ms" : "due_ms", now);
    add_number(table, step, "task");
    add_text(table, LW__PLAIN, step, "error");
}

static void add_move(struct lw__table *table, struct lw__json move, int64_t now) {
    lw__table_add(table, LW__PLAIN, lw__time_of(lw__fact_number(move, "at_ms"), now).text);
    add_age(table, move, "at_ms", now);
    add_text(table, LW__PLAIN, move, "state");
    add_number(table, move, "generation");
}

static void put_head(struct lw__buffer *page, const struct lw__style *style, struct lw__json flow) {
    char text[LW_TEXT_MAX + 1], condition[32];
    lw__put_safe(page, lw__slice_of(lw__fact_text(flow, "flow", text, sizeof text)));
    lw__buffer_put_byte(page, '/');
    lw__put_safe(page, lw__slice_of(lw__fact_text(flow, "id", text, sizeof text)));
    lw__buffer_put_text(page, "  ");
    lw__put_safe(page, lw__slice_of(lw__fact_text(flow, "state", text, sizeof text)));
    lw__buffer_put_text(page, "  ");
    lw__fact_text(flow, "condition", condition, sizeof condition);
    lw__put_toned(page, style, tone_of(condition), condition);
    if (lw__fact_flag(flow, "is_unclean"))
        lw__put_toned(page, style, LW__YELLOW, "  unclean");
    lw__buffer_put_byte(page, '\n');
    if (lw__fact_text(flow, "reason", text, sizeof text)[0]) {
        lw__buffer_put_text(page, "  ");
        lw__put_safe(page, lw__slice_of(text));
        lw__buffer_put_byte(page, '\n');
    }
    if (lw__fact_number(flow, "open"))
        lw__buffer_print(page, "  waits for %lld attempts of an older generation\n",
                         (long long)lw__fact_number(flow, "open"));
}

static void put_payload(struct lw__buffer *page, const struct lw__style *style,
                        struct lw__json flow) {
    struct lw__buffer bytes;
    lw__page_begin(&bytes);
    if (lw__fact_bytes(flow, "payload", &bytes) && bytes.size > 0) {
        lw__buffer_put_byte(page, '\n');
        lw__put_toned(page, style, LW__BOLD, "payload");
        lw__buffer_print(page, " (%zu bytes)\n", bytes.size);
        lw__put_lines(page, "  ", lw__buffer_slice(&bytes));
    }
    lw__buffer_clear(&bytes);
}

void lw__print_flow(struct lw__json flow) {
    static const struct lw__table_column steps[] = {
        {"FLAG", false}, {"STEP", false}, {"STATE", false}, {"TRIES", true},
        {"AGE", true},   {"TASK", true},  {"ERROR", false}};
    static const struct lw__table_column moves[] = {
        {"TIME", false}, {"AGE", true}, {"MOVED TO", false}, {"GENERATION", true}};
    struct lw__style style = lw__style_of(stdout);
    struct lw__buffer page;
    lw__page_begin(&page);
    put_head(&page, &style, flow);
    lw__buffer_put_byte(&page, '\n');
    put_table(&page, &style, flow, "steps", steps, sizeof steps / sizeof *steps, add_step);
    lw__buffer_put_byte(&page, '\n');
    put_table(&page, &style, flow, "history", moves, sizeof moves / sizeof *moves, add_move);
    put_payload(&page, &style, flow);
    if (lw__fact_flag(flow, "is_partial"))
        lw__put_toned(&page, &style, LW__DIM,
                      "\nas the store has it: steps that have not begun are known to the program "
                      "that has\ndeclared the flow, which alone can move it\n");
    lw__page_print(&page, stdout);
}

/* ---- many ---------------------------------------------------------------------------------- */

struct values {
    struct lw__common common;
    const char *flow, *state;
    int condition;
    int64_t after, limit;
};

#define AT(field) .offset = offsetof(struct values, field)
#define TEXT(field, what) .type = LW__CONFIG_TEXT, AT(field), .fallback = "", .argument = (what)

static const char *const conditions[] = {"any",     "held",    "active", "halted",
                                         "aborted", "at-goal", NULL};

static const struct lw__config_row rows[] = {
    {NULL, "flow", TEXT(flow, "FLOW"), .help = "Only those of this flow."},
    {NULL, "state", TEXT(state, "STATE"), .help = "Only those in this state, or at this goal."},
    {NULL, "condition", .type = LW__CONFIG_CHOICE, AT(condition), .fallback = "any",
     .choices = conditions, .argument = "CONDITION",
     .help = "Only those: held, active, halted, aborted, at-goal."},
    {NULL, "after", .type = LW__CONFIG_COUNT, AT(after), .fallback = "0", .argument = "NUMBER",
     .max = INT64_C(1) << 53, .help = "Only those behind this one: the next page."},
    {NULL, "limit", .type = LW__CONFIG_COUNT, AT(limit), .fallback = "50", .argument = "N",
     .min = 1, .max = LIMIT_MAX, .help = "At most so many, 50 unless told."},
    LW__COMMON_ROWS};

static const struct lw__usage usage = {
    .line = "flows [FLAG...]",
    .about = "Lists the resources of flows, in the order of their start; `legwork show FLOW/ID`\n"
             "shows one with its flags, steps and history. A program with flows can be looked at\n"
             "through its store (--url sqlite:FILE) while it runs. Moving a resource takes that\n"
             "program itself.",
    .example = "  legwork flows --condition halted\n  legwork show site/example.org",
    .table = {rows, sizeof rows / sizeof *rows}};

static void add_flow(struct lw__table *table, struct lw__json flow, int64_t now) {
    add_text(table, LW__PLAIN, flow, "flow");
    add_text(table, LW__PLAIN, flow, "id");
    add_text(table, LW__PLAIN, flow, "state");
    add_toned(table, flow, "condition");
    add_number(table, flow, "generation");
    add_age(table, flow, "since_ms", now);
    add_text(table, LW__PLAIN, flow, "reason");
}

static void print_page(struct lw__json answer) {
    static const struct lw__table_column columns[] = {
        {"FLOW", false}, {"ID", false},   {"STATE", false}, {"CONDITION", false},
        {"GEN", true},   {"SINCE", true}, {"NOTE", false}};
    struct lw__style style = lw__style_of(stdout);
    struct lw__buffer page;
    lw__page_begin(&page);
    put_table(&page, &style, answer, "flows", columns, sizeof columns / sizeof *columns, add_flow);
    if (page.size == 0)
        fputs("no flows\n", stderr);
    lw__page_print(&page, stdout);
    if (lw__fact_number(answer, "after"))
        fprintf(stderr, "there may be more: legwork flows --after %lld\n",
                (long long)lw__fact_number(answer, "after"));
}

int lw__command_flows(int argc, const char *const *argv) {
    struct lw__arguments arguments;
    struct values values;
    int code = LW__EXIT_OK;
    lw_error err = {0};
    if (!lw__arguments_read(&arguments, &usage, argc, argv, &values, &code))
        return code;
    struct lw__place *place = lw__place_open(&values.common, LW__TO_LOOK, "flows", &code);
    const lw_flow_filter filter = {.struct_size = sizeof filter,
                                   .flow = values.flow[0] ? values.flow : NULL,
                                   .state = values.state[0] ? values.state : NULL,
                                   .condition = (lw_flow_condition)values.condition,
                                   .after = (uint64_t)values.after,
                                   .limit = (size_t)values.limit};
    if (place && lw__place_flows(place, &filter, &err) < 0)
        code = lw__place_complain(place, &err);
    else if (place && values.common.is_json)
        lw__place_print(place);
    else if (place)
        print_page(place->json);
    lw__place_close(place);
    lw__arguments_clear(&arguments);
    return code;
}
