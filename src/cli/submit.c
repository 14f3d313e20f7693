/* `legwork submit`: a task, and perhaps its end. */
#include "cli/command.h"
#include "cli/place.h"
#include "cli/screen.h"
#include "server/memory.h"
#include "server/refuse.h"

#include <errno.h>
#include <poll.h>

#define POLL_MS 1000 /* one look; so often what the spinner says is new */
#define REST_MS 200  /* between looks at a server that does not let us wait */

struct values {
    struct lw__common common;
    const char *queue, *key, *file;
    int64_t delay_ms, priority, timeout_ms;
    bool waits;
};

#define AT(field) .offset = offsetof(struct values, field)
#define TEXT(field, what) .type = LW__CONFIG_TEXT, AT(field), .argument = (what)
#define DURATION(field) \
    .type = LW__CONFIG_DURATION, AT(field), .argument = "DURATION", .max = LW_TIMEOUT_MS_MAX

static const struct lw__config_row rows[] = {
    {NULL, "file", TEXT(file, "FILE"), .fallback = "",
     .help = "The payload is what is in this file; - is standard input."},
    {NULL, "queue", TEXT(queue, "QUEUE"), .fallback = "default",
     .help = "Into this queue, \"default\" unless told."},
    {NULL, "key", TEXT(key, "KEY"), .fallback = "",
     .help = "At most one unfinished task of the kind has this key: safe to repeat."},
    {NULL, "delay", DURATION(delay_ms), .fallback = "0", .help = "Not before this: 30s, 1h30m."},
    {NULL, "priority", .type = LW__CONFIG_COUNT, AT(priority), .fallback = "1000", .argument = "N",
     .max = UINT32_MAX, .help = "Smaller runs first; 1000 unless told."},
    {NULL, "wait", .type = LW__CONFIG_SWITCH, AT(waits), .fallback = "no",
     .help = "Wait for its end, and print the result."},
    {NULL, "timeout", DURATION(timeout_ms), .fallback = "0",
     .help = "With --wait: no longer than this."},
    LW__COMMON_ROWS};

static const struct lw__usage usage = {
    .line = "submit KIND [PAYLOAD] [FLAG...]",
    .about = "Submits a task and prints its id, when it is on the disk. The payload is the\n"
             "argument, or standard input if that is -, or a file; or else empty.",
    .example = "  legwork submit send-email '{\"to\":\"ann\"}' --key order-17\n"
               "  tar c photos | legwork submit resize - --wait > result",
    .table = {rows, sizeof rows / sizeof *rows},
    .words_min = 1,
    .words_max = 2};

/* ---- payload ------------------------------------------------------------------------------- */

static int read_stream(FILE *file, const char *name, struct lw__buffer *payload, lw_error *err) {
    char piece[16384];
    size_t size;
    while ((size = fread(piece, 1, sizeof piece, file)) > 0)
        lw__buffer_put(payload, (struct lw__slice){piece, size});
    if (ferror(file))
        return lw__refuse(err, LW_ESYSTEM, "%s cannot be read: %s", name, strerror(errno));
    if (payload->status < 0)
        return lw__refuse(err, LW_EINVAL,
                          "%s has more than %d MiB, which no payload may have: submit where it is "
                          "instead",
                          name, LW_PAYLOAD_MAX >> 20);
    return LW_OK;
}

static int read_payload(const struct lw__arguments *arguments, const struct values *values,
                        struct lw__buffer *payload, lw_error *err) {
    const char *word = arguments->count > 1 ? arguments->words[1] : NULL;
    const char *name = values->file[0] ? values->file : word;
    lw__buffer_init(payload, &lw__server_memory, LW_PAYLOAD_MAX);
    if (values->file[0] && word)
        return lw__refuse(err, LW_EINVAL, "a payload and --file: give one of them");
    if (name && strcmp(name, "-") == 0)
        return read_stream(stdin, "standard input", payload, err);
    if (!values->file[0])
        return word ? lw__buffer_put_text(payload, word) : LW_OK;
    FILE *file = fopen(name, "re");
    if (!file)
        return lw__refuse(err, LW_EINVAL, "%s cannot be opened: %s", name, strerror(errno));
    int rc = read_stream(file, name, payload, err);
    fclose(file);
    return rc;
}

/* ---- wait ---------------------------------------------------------------------------------- */

static void describe(struct lw__spinner *spinner, lw_id id, struct lw__json task) {
    struct lw__json progress;
    int size = snprintf(spinner->what, sizeof spinner->what, "task %llu %s", id,
                        lw_state_name(lw__fact_state(task)));
    if (lw__json_find(task, "progress", &progress) && lw__fact_number(progress, "total"))
        snprintf(spinner->what + size, sizeof spinner->what - (size_t)size, " %lld of %lld",
                 (long long)lw__fact_number(progress, "done"),
                 (long long)lw__fact_number(progress, "total"));
}

/* LW_OK: it has ended, and place->json is how. LW_ETIMEDOUT: not in time. */
static int await_end(struct lw__place *place, lw_id id, int64_t timeout_ms, lw_error *err) {
    struct lw__spinner spinner;
    int64_t begun = lw__now_ms(), look_ms = 0;
    int rc = LW_OK;
    lw__spinner_begin(&spinner);
    place->tick = lw__spinner_turn;
    place->user = &spinner;
    for (;;) {
        int64_t asked = lw__now_ms();
        rc = lw__place_get(place, id, look_ms, err);
        if (rc < 0 || lw_state_is_terminal(lw__fact_state(place->json)))
            break;
        describe(&spinner, id, place->json);
        int64_t left = timeout_ms - (lw__now_ms() - begun);
        if (timeout_ms > 0 && left <= 0) {
            rc =
                lw__refuse(err, LW_ETIMEDOUT, "task %llu is still %s; legwork show %llu tells more",
                           id, lw_state_name(lw__fact_state(place->json)), id);
            break;
        }
        if (look_ms > 0 && lw__now_ms() - asked < REST_MS)
            poll(NULL, 0, REST_MS);
        look_ms = timeout_ms > 0 && left < POLL_MS ? left : POLL_MS;
    }
    lw__spinner_end(&spinner);
    place->tick = NULL;
    place->user = NULL;
    return rc;
}

static void print_result(struct lw__place *place) {
    struct lw__style style = lw__style_of(stdout);
    struct lw__buffer bytes;
    lw__page_begin(&bytes);
    if (lw__fact_bytes(place->json, "result", &bytes))
        lw__print_bytes(lw__buffer_slice(&bytes), &style);
    lw__buffer_clear(&bytes);
}

static int tell_end(struct lw__place *place, lw_id id, const struct values *values) {
    lw_state state = lw__fact_state(place->json);
    char why[LW_TEXT_MAX + 1];
    struct lw__buffer page;
    if (values->common.is_json)
        lw__place_print(place);
    else if (state == LW_FINISHED)
        print_result(place);
    if (state == LW_FINISHED)
        return LW__EXIT_OK;
    lw__fact_text(place->json, "last_error", why, sizeof why);
    lw__page_begin(&page);
    lw__buffer_print(&page, "legwork: task %llu %s%s", id,
                     state == LW_FAILED ? "has failed" : "was aborted", why[0] ? ": " : "");
    lw__put_safe(&page, lw__slice_of(why));
    lw__buffer_print(&page, "\nlegwork show %llu tells more, legwork retry %llu runs it again\n",
                     id, id);
    lw__page_print(&page, stderr);
    return LW__EXIT_BAD_END;
}

static int wait_and_tell(struct lw__place *place, lw_id id, const struct values *values) {
    lw_error err = {0};
    int rc = await_end(place, id, values->timeout_ms, &err);
    if (rc == LW_OK)
        return tell_end(place, id, values);
    int code = lw__place_complain(place, &err);
    return rc == LW_ETIMEDOUT ? LW__EXIT_NOT_YET : code;
}

/* ---- the command --------------------------------------------------------------------------- */

static int tell_id(struct lw__place *place, lw_id id, const struct values *values) {
    bool existed = lw__fact_flag(place->json, "existed");
    if (existed && !values->common.is_json)
        fprintf(stderr, "its key is taken by this task; nothing was added\n");
    if (values->waits)
        return wait_and_tell(place, id, values);
    if (values->common.is_json)
        lw__place_print(place);
    else
        printf("%llu\n", id);
    if (!values->common.is_json && !existed && lw__style_of(stdout).is_terminal)
        fprintf(stderr, "accepted; legwork show %llu tells how it goes\n", id);
    return LW__EXIT_OK;
}

static int submit(const struct lw__arguments *arguments, const struct values *values,
                  struct lw__slice payload) {
    int code = LW__EXIT_OK;
    lw_error err = {0};
    struct lw__place *place = lw__place_open(&values->common, LW__TO_SUBMIT, "submit", &code);
    if (!place)
        return code;
    const lw_task task = {.struct_size = sizeof task,
                          .kind = arguments->words[0],
                          .queue = values->queue,
                          .key = values->key[0] ? values->key : NULL,
                          .payload = {payload.data, payload.size},
                          .delay_ms = values->delay_ms,
                          .priority = values->priority ? values->priority : LW_ZERO};
    if (lw__place_submit(place, &task, &err) < 0)
        code = lw__place_complain(place, &err);
    else
        code = tell_id(place, (lw_id)lw__fact_number(place->json, "id"), values);
    lw__place_close(place);
    return code;
}

int lw__command_submit(int argc, const char *const *argv) {
    struct lw__arguments arguments;
    struct lw__buffer payload;
    struct values values;
    int code = LW__EXIT_OK;
    lw_error err = {0};
    if (!lw__arguments_read(&arguments, &usage, argc, argv, &values, &code))
        return code;
    int rc = read_payload(&arguments, &values, &payload, &err);
    if (rc < 0) {
        fprintf(stderr, "legwork: %s\n", err.message);
        code = rc == LW_EINVAL ? LW__EXIT_USAGE : LW__EXIT_FAILED;
    } else {
        code = submit(&arguments, &values, lw__buffer_slice(&payload));
    }
    lw__buffer_clear(&payload);
    lw__arguments_clear(&arguments);
    return code;
}
