/* `legwork retry`, `cancel`, `pause`, `resume`, `drain`: what an operator wants of a server. */
#include "cli/command.h"
#include "cli/place.h"
#include "cli/screen.h"

static const struct lw__config_row rows[] = {LW__COMMON_ROWS};

/* What is done to each word. */
struct deed {
    const char *name;         /* of the command */
    const char *path, *end;   /* around the word */
    const char *noun;         /* "task" */
    const char *done, *asked; /* what is said at 204, and at 202 */
    bool takes_ids;
};

static void tell(const struct deed *deed, const char *word, bool is_asked, bool is_json) {
    struct lw__buffer page;
    struct lw__json_writer json;
    lw__page_begin(&page);
    if (is_json) {
        lw__json_write(&json, &page);
        lw__json_object(&json);
        lw__json_key(&json, deed->noun);
        lw__json_put_text(&json, word);
        lw__json_key(&json, "is_done");
        lw__json_put_bool(&json, !is_asked);
        lw__json_close(&json);
    } else {
        lw__buffer_print(&page, "%s ", deed->noun);
        lw__put_safe(&page, lw__slice_of(word));
        lw__buffer_print(&page, " %s", is_asked ? deed->asked : deed->done);
    }
    lw__buffer_put_byte(&page, '\n');
    lw__page_print(&page, stdout);
}

static int do_one(struct lw__place *place, const struct deed *deed, const char *word,
                  bool is_json) {
    struct lw__target target;
    lw_error err = {0};
    lw_id id;
    int got = 0;
    lw__target_begin(&target, deed->path);
    lw__target_part(&target, word);
    lw__buffer_put_text(&target.out, deed->end);
    const char *path = lw__target_end(&target);
    if (!path) {
        fprintf(stderr, "legwork: this name is too long\n");
        return LW__EXIT_USAGE;
    }
    if ((deed->takes_ids && lw__id_read(word, &id, &err) < 0)
        || lw__place_post(place, path, &got, &err) < 0)
        return lw__place_complain(place, &err);
    tell(deed, word, got == 202, is_json);
    return LW__EXIT_OK;
}

static int do_each(struct lw__place *place, const struct deed *deed,
                   const struct lw__arguments *arguments, bool is_json) {
    int code = LW__EXIT_OK;
    for (size_t i = 0; i < arguments->count; i++) {
        int one = do_one(place, deed, arguments->words[i], is_json);
        code = one == LW__EXIT_OK ? code : one;
    }
    return code;
}

static int run_deed(int argc, const char *const *argv, const struct lw__usage *usage,
                    const struct deed *deed) {
    struct lw__arguments arguments;
    struct lw__common common;
    int code = LW__EXIT_OK;
    if (!lw__arguments_read(&arguments, usage, argc, argv, &common, &code))
        return code;
    struct lw__place *place = lw__place_open(&common, LW__TO_STEER, deed->name, &code);
    if (place)
        code = do_each(place, deed, &arguments, common.is_json);
    lw__place_close(place);
    lw__arguments_clear(&arguments);
    return code;
}

#define USAGE(says, what, shows)                                                                \
    {                                                                                           \
        .line = (says), .about = (what), .example = (shows),                                    \
        .table = {rows, sizeof rows / sizeof *rows}, .words_min = 1, .words_max = LW__WORDS_MAX \
    }

int lw__command_cancel(int argc, const char *const *argv) {
    static const struct lw__usage usage =
        USAGE("cancel ID... [FLAG...]", "Aborts tasks that wait; asks those that run to give up.",
              "  legwork cancel 17 18");
    static const struct deed deed = {"cancel", "/v1/tasks/", "/cancel",
                                     "task",   "is aborted", "runs, and was asked to give up",
                                     true};
    return run_deed(argc, argv, &usage, &deed);
}

int lw__command_pause(int argc, const char *const *argv) {
    static const struct lw__usage usage =
        USAGE("pause QUEUE... [FLAG...]",
              "Lets no task of a queue start. It goes on accepting them, and what runs goes on.",
              "  legwork pause mail");
    static const struct deed deed = {"pause",     "/v1/queues/",     "/pause", "queue",
                                     "is paused", "is being paused", false};
    return run_deed(argc, argv, &usage, &deed);
}

int lw__command_resume(int argc, const char *const *argv) {
    static const struct lw__usage usage = USAGE(
        "resume QUEUE... [FLAG...]", "Lets tasks of a queue start again.", "  legwork resume mail");
    static const struct deed deed = {"resume",  "/v1/queues/", "/resume", "queue",
                                     "goes on", "is going on", false};
    return run_deed(argc, argv, &usage, &deed);
}

/* ---- drain --------------------------------------------------------------------------------- */

int lw__command_drain(int argc, const char *const *argv) {
    static const struct lw__usage usage = {
        .line = "drain [FLAG...]",
        .about = "Stops the server: it accepts no more tasks, runs what is due up to its\n"
                 "stop-timeout, and ends. Nothing is lost.",
        .table = {rows, sizeof rows / sizeof *rows}};
    struct lw__arguments arguments;
    struct lw__common common;
    int code = LW__EXIT_OK;
    lw_error err = {0};
    if (!lw__arguments_read(&arguments, &usage, argc, argv, &common, &code))
        return code;
    struct lw__place *place = lw__place_open(&common, LW__TO_STEER, "drain", &code);
    if (place && lw__place_post(place, "/v1/drain", NULL, &err) < 0)
        code = lw__place_complain(place, &err);
    else if (place)
        puts(common.is_json ? "{\"is_draining\":true}" : "the server drains, and then ends");
    lw__place_close(place);
    lw__arguments_clear(&arguments);
    return code;
}

/* ---- retry --------------------------------------------------------------------------------- */

struct retry_values {
    struct lw__common common;
    bool is_all, is_dry;
    const char *queue, *kind, *state;
};

#define AT(field) .offset = offsetof(struct retry_values, field)
#define TEXT(field, what) .type = LW__CONFIG_TEXT, AT(field), .fallback = "", .argument = (what)

static const struct lw__config_row retry_rows[] = {
    {NULL, "all", .type = LW__CONFIG_SWITCH, AT(is_all), .fallback = "no",
     .help = "All that failed or were aborted, and match the next three."},
    {NULL, "queue", TEXT(queue, "QUEUE"), .help = "With --all: of this queue."},
    {NULL, "kind", TEXT(kind, "KIND"), .help = "With --all: of this kind."},
    {NULL, "state", TEXT(state, "STATE"),
     .help = "With --all: in this state: failed, aborted, or scheduled."},
    {NULL, "dry-run", .type = LW__CONFIG_SWITCH, AT(is_dry), .fallback = "no",
     .help = "With --all: only say how many they are."},
    LW__COMMON_ROWS};

static void add_filter(struct lw__target *target, const char *name, const char *value) {
    lw__target_query(target, name, value[0] ? value : NULL);
}

static int retry_all(struct lw__place *place, const struct retry_values *values) {
    struct lw__target target;
    lw_error err = {0};
    lw__target_begin(&target, "/v1/run");
    add_filter(&target, "queue", values->queue);
    add_filter(&target, "kind", values->kind);
    add_filter(&target, "state", values->state);
    add_filter(&target, "dry_run", values->is_dry ? "yes" : "");
    const char *path = lw__target_end(&target);
    if (!path || lw__place_post(place, path, NULL, &err) < 0)
        return lw__place_complain(place, &err);
    if (values->common.is_json)
        lw__place_print(place);
    else
        printf("%lld tasks %s\n", (long long)lw__fact_number(place->json, "count"),
               values->is_dry ? "would run again" : "run again");
    return LW__EXIT_OK;
}

static int retry(const struct lw__arguments *arguments, const struct retry_values *values) {
    static const struct deed deed = {
        "retry", "/v1/tasks/", "/run", "task", "runs again", "is on its way already", true};
    bool has_filter = values->queue[0] || values->kind[0] || values->state[0] || values->is_dry;
    int code = LW__EXIT_USAGE;
    if (values->is_all == (arguments->count > 0) || (has_filter && !values->is_all)) {
        fputs("legwork: give the ids of tasks, or --all with what they must match\n", stderr);
        return code;
    }
    struct lw__place *place = lw__place_open(&values->common, LW__TO_STEER, "retry", &code);
    if (place)
        code = values->is_all ? retry_all(place, values)
                              : do_each(place, &deed, arguments, values->common.is_json);
    lw__place_close(place);
    return code;
}

int lw__command_retry(int argc, const char *const *argv) {
    static const struct lw__usage usage = {
        .line = "retry ID... | retry --all [FLAG...]",
        .about = "Runs failed or aborted tasks again, with a fresh budget, or scheduled ones now.",
        .example = "  legwork retry 17\n  legwork retry --all --kind send-email --dry-run",
        .table = {retry_rows, sizeof retry_rows / sizeof *retry_rows},
        .words_max = LW__WORDS_MAX};
    struct lw__arguments arguments;
    struct retry_values values;
    int code = LW__EXIT_OK;
    if (!lw__arguments_read(&arguments, &usage, argc, argv, &values, &code))
        return code;
    code = retry(&arguments, &values);
    lw__arguments_clear(&arguments);
    return code;
}
