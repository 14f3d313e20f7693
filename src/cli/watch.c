/* `legwork watch`: a line for each change of state, as far as one sees it by looking again and
 * again.
 *
 * A round asks for the tasks above the highest id seen, and for the unfinished ones by state; what
 * was unfinished and is in neither has ended, or left, and is asked for by itself. So the cost is
 * that of what is unfinished or new, however many have ended before. */
#include "cli/command.h"
#include "cli/place.h"
#include "cli/screen.h"
#include "server/memory.h"

#include <poll.h>
#include <stdlib.h>

#define KNOWN_MAX 10000 /* unfinished tasks that are watched */
#define PAGE 500
#define REST_MS 200 /* between looks at a server that does not let us wait */

struct values {
    struct lw__common common;
    const char *queue, *kind;
    int64_t every_ms, for_ms;
};

#define AT(field) .offset = offsetof(struct values, field)
#define TEXT(field, what) .type = LW__CONFIG_TEXT, AT(field), .fallback = "", .argument = (what)

static const struct lw__config_row rows[] = {
    {NULL, "queue", TEXT(queue, "QUEUE"), .help = "Only tasks of this queue."},
    {NULL, "kind", TEXT(kind, "KIND"), .help = "Only tasks of this kind."},
    {NULL, "every", .type = LW__CONFIG_DURATION, AT(every_ms), .fallback = "500ms", .min = 10,
     .max = 3600000, .argument = "DURATION", .help = "How often to look, 500ms unless told."},
    {NULL, "for", .type = LW__CONFIG_DURATION, AT(for_ms), .fallback = "0",
     .max = LW_TIMEOUT_MS_MAX, .argument = "DURATION", .help = "End after this time."},
    LW__COMMON_ROWS};

static const struct lw__usage usage = {
    .line = "watch [ID...] [FLAG...]",
    .about = "Prints a line for each change that it sees, until it is interrupted. With ids it\n"
             "follows these, and ends as soon as they have ended. What comes and goes between\n"
             "two looks is not seen.",
    .example = "  legwork watch --kind send-email\n  legwork watch 17 && echo done",
    .table = {rows, sizeof rows / sizeof *rows},
    .words_max = LW__WORDS_MAX};

struct known {
    lw_id id;
    lw_state state;
    int64_t attempts;
    unsigned round; /* when it was seen last */
};

struct watch {
    struct lw__place *place;
    const struct values *values;
    struct lw__style style;
    struct lw__buffer page;
    lw_id last; /* the highest id seen */
    unsigned round;
    bool is_quiet; /* the first look: only remembers */
    bool is_told;  /* that there are too many */
    size_t count;
    struct known known[KNOWN_MAX]; /* by rising ids */
};

/* ---- lines --------------------------------------------------------------------------------- */

static void put_state(struct watch *watch, lw_state from, lw_state to) {
    if (from) {
        lw__put_toned(&watch->page, &watch->style, lw__tone_of(from), lw_state_name(from));
        lw__buffer_put_text(&watch->page, " -> ");
    }
    lw__put_toned(&watch->page, &watch->style, lw__tone_of(to), lw_state_name(to));
}

static void put_line(struct watch *watch, struct lw__json task, lw_state from) {
    char text[LW_TEXT_MAX + 1];
    int64_t now = lw__now_ms();
    lw__put_toned(&watch->page, &watch->style, LW__DIM, lw__time_of(now, now).text);
    lw__buffer_print(&watch->page, "  %-6lld ", (long long)lw__fact_number(task, "id"));
    lw__put_safe(&watch->page, lw__slice_of(lw__fact_text(task, "kind", text, sizeof text)));
    lw__buffer_put_text(&watch->page, "  ");
    put_state(watch, from, lw__fact_state(task));
    if (lw__fact_number(task, "attempts") > 1)
        lw__buffer_print(&watch->page, "  attempt %lld",
                         (long long)lw__fact_number(task, "attempts"));
    if (lw__fact_text(task, "last_error", text, sizeof text)[0]) {
        lw__buffer_put_text(&watch->page, "  ");
        lw__put_safe(&watch->page, lw__slice_of(text));
    }
    lw__buffer_put_byte(&watch->page, '\n');
}

static void tell(struct watch *watch, struct lw__json task, lw_state from) {
    if (watch->is_quiet)
        return;
    if (watch->values->common.is_json) {
        lw__buffer_put(&watch->page, task.raw);
        lw__buffer_put_byte(&watch->page, '\n');
    } else {
        put_line(watch, task, from);
    }
}

static void flush(struct watch *watch) {
    lw__page_print(&watch->page, stdout);
}

/* ---- what is known ------------------------------------------------------------------------- */

/* Where an id is, or belongs. */
static size_t place_of(const struct watch *watch, lw_id id) {
    size_t low = 0, high = watch->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (watch->known[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct known *insert(struct watch *watch, lw_id id) {
    size_t at = place_of(watch, id);
    if (at < watch->count && watch->known[at].id == id)
        return &watch->known[at];
    if (watch->count == KNOWN_MAX) {
        if (!watch->is_told)
            fprintf(stderr, "legwork: more than %d tasks are unfinished: not all are watched\n",
                    KNOWN_MAX);
        watch->is_told = true;
        return NULL;
    }
    memmove(&watch->known[at + 1], &watch->known[at],
            (watch->count++ - at) * sizeof watch->known[0]);
    watch->known[at] = (struct known){.id = id};
    return &watch->known[at];
}

/* A task as it is now. */
static void note(struct watch *watch, struct lw__json task) {
    lw_id id = (lw_id)lw__fact_number(task, "id");
    lw_state state = lw__fact_state(task);
    int64_t attempts = lw__fact_number(task, "attempts");
    size_t at = place_of(watch, id);
    bool is_known = at < watch->count && watch->known[at].id == id;
    watch->last = id > watch->last ? id : watch->last;
    if (!is_known && lw_state_is_terminal(state)) {
        tell(watch, task, (lw_state)0);
        return;
    }
    struct known *known = insert(watch, id);
    if (!known)
        return;
    known->round = watch->round;
    if (known->state != state || known->attempts != attempts)
        tell(watch, task, known->state);
    known->state = state;
    known->attempts = attempts;
}

/* ---- looking ------------------------------------------------------------------------------- */

static const char *or_null(const char *text) {
    return text[0] ? text : NULL;
}

/* All pages of what matches, up to KNOWN_MAX tasks. */
static int note_all(struct watch *watch, lw_state state, lw_id after, lw_error *err) {
    lw_filter filter = {.struct_size = sizeof filter,
                        .state = state,
                        .queue = or_null(watch->values->queue),
                        .kind = or_null(watch->values->kind),
                        .after = after,
                        .limit = PAGE};
    for (int pages = 0; pages < KNOWN_MAX / PAGE; pages++) {
        struct lw__json tasks, key, task;
        int rc = lw__place_list(watch->place, &filter, err);
        if (rc < 0 || !lw__json_find(watch->place->json, "tasks", &tasks))
            return rc;
        struct lw__json_walk walk = lw__json_enter(tasks);
        while (lw__json_next(&walk, &key, &task))
            note(watch, task);
        filter.after = (lw_id)lw__fact_number(watch->place->json, "after");
        if (!filter.after)
            break;
    }
    return LW_OK;
}

/* The highest id that there is, in some fifty questions instead of a walk through all tasks. */
static int find_last(struct watch *watch, lw_error *err) {
    lw_id low = 0, high = (lw_id)1 << 53;
    while (low < high) {
        struct lw__json tasks, key, task;
        lw_filter filter = {
            .struct_size = sizeof filter, .after = low + (high - low) / 2, .limit = 1};
        int rc = lw__place_list(watch->place, &filter, err);
        if (rc < 0)
            return rc;
        if (!lw__json_find(watch->place->json, "tasks", &tasks))
            break;
        struct lw__json_walk walk = lw__json_enter(tasks);
        if (lw__json_next(&walk, &key, &task))
            low = (lw_id)lw__fact_number(task, "id");
        else
            high = filter.after;
    }
    watch->last = low;
    return LW_OK;
}

/* Those that are not among the unfinished any more. */
static int note_ended(struct watch *watch, lw_error *err) {
    size_t kept = 0;
    for (size_t i = 0; i < watch->count; i++) {
        struct known *known = &watch->known[i];
        if (known->round != watch->round) {
            int rc = lw__place_get(watch->place, known->id, 0, err);
            if (rc < 0 && rc != LW_ENOTFOUND)
                return rc;
            if (rc == LW_OK)
                note(watch, watch->place->json);
        }
        if (known->round == watch->round && !lw_state_is_terminal(known->state))
            watch->known[kept++] = *known;
    }
    watch->count = kept;
    return LW_OK;
}

static int look_at_all(struct watch *watch, lw_error *err) {
    int rc =
        watch->is_quiet ? find_last(watch, err) : note_all(watch, (lw_state)0, watch->last, err);
    for (lw_state state = LW_CREATED; rc == LW_OK && state <= LW_STARTED; state++)
        rc = note_all(watch, state, 0, err);
    return rc == LW_OK ? note_ended(watch, err) : rc;
}

/* The tasks that were named. *left is how many have not ended, *bad whether one ended badly. */
static int look_at(struct watch *watch, const lw_id *ids, size_t count, size_t *left, bool *bad,
                   lw_error *err) {
    *left = 0;
    *bad = false;
    for (size_t i = 0; i < count; i++) {
        int rc = lw__place_get(watch->place, ids[i], 0, err);
        if (rc < 0)
            return rc;
        lw_state state = lw__fact_state(watch->place->json);
        struct known *known = insert(watch, ids[i]);
        if (known->state == state && lw_state_is_terminal(state)) {
            *bad = *bad || state != LW_FINISHED;
            continue;
        }
        note(watch, watch->place->json);
        known->state = state; /* note() keeps no ends of what it did not know */
        *left += !lw_state_is_terminal(state);
        *bad = *bad || (lw_state_is_terminal(state) && state != LW_FINISHED);
    }
    return LW_OK;
}

/* ---- the command --------------------------------------------------------------------------- */

/* Until the next look, or the end of it all. With ids, it also ends with the first that has not
 * ended. */
static void rest(struct watch *watch, size_t ids, int64_t left_ms) {
    int64_t every = watch->values->every_ms, asked = lw__now_ms();
    size_t first = 0;
    lw_error err = {0};
    if (left_ms > 0 && left_ms < every)
        every = left_ms;
    while (first < watch->count && lw_state_is_terminal(watch->known[first].state))
        first++;
    if (ids == 0 || first == watch->count) {
        poll(NULL, 0, (int)every);
        return;
    }
    lw__place_get(watch->place, watch->known[first].id, every, &err);
    int64_t rested = lw__now_ms() - asked;
    bool is_over = lw_state_is_terminal(lw__fact_state(watch->place->json));
    if (!is_over && rested < REST_MS && rested < every)
        poll(NULL, 0, (int)((every < REST_MS ? every : REST_MS) - rested));
}

static int run(struct watch *watch, const lw_id *ids, size_t count) {
    int64_t begun = lw__now_ms();
    lw_error err = {0};
    for (;; watch->round++) {
        size_t left = 1;
        bool bad = false;
        int rc =
            count > 0 ? look_at(watch, ids, count, &left, &bad, &err) : look_at_all(watch, &err);
        flush(watch);
        if (rc < 0)
            return lw__place_complain(watch->place, &err);
        if (left == 0)
            return bad ? LW__EXIT_BAD_END : LW__EXIT_OK;
        if (watch->is_quiet && watch->style.is_terminal)
            fprintf(stderr, "watching; Ctrl-C ends it\n");
        watch->is_quiet = false;
        int64_t left_ms = watch->values->for_ms - (lw__now_ms() - begun);
        if (watch->values->for_ms > 0 && left_ms <= 0)
            return count > 0 ? LW__EXIT_NOT_YET : LW__EXIT_OK;
        rest(watch, count, left_ms);
    }
}

static int read_ids(const struct lw__arguments *arguments, lw_id *ids) {
    lw_error err = {0};
    for (size_t i = 0; i < arguments->count; i++)
        if (lw__id_read(arguments->words[i], &ids[i], &err) < 0) {
            fprintf(stderr, "legwork: %s\n", err.message);
            return LW__EXIT_USAGE;
        }
    return LW__EXIT_OK;
}

static int watch_with(const struct lw__arguments *arguments, const struct values *values) {
    lw_id ids[LW__WORDS_MAX];
    int code = read_ids(arguments, ids);
    struct watch *watch = code == LW__EXIT_OK ? lw__server_alloc(sizeof *watch) : NULL;
    if (!watch)
        return code == LW__EXIT_OK ? LW__EXIT_FAILED : code;
    watch->values = values;
    watch->style = lw__style_of(stdout);
    watch->is_quiet = arguments->count == 0;
    lw__page_begin(&watch->page);
    watch->round = 1;
    watch->place = lw__place_open(&values->common, LW__TO_LOOK, "watch", &code);
    if (watch->place)
        code = run(watch, ids, arguments->count);
    lw__place_close(watch->place);
    lw__buffer_clear(&watch->page);
    lw__server_free(watch);
    return code;
}

int lw__command_watch(int argc, const char *const *argv) {
    struct lw__arguments arguments;
    struct values values;
    int code = LW__EXIT_OK;
    if (!lw__arguments_read(&arguments, &usage, argc, argv, &values, &code))
        return code;
    code = watch_with(&arguments, &values);
    lw__arguments_clear(&arguments);
    return code;
}
