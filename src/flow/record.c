/* The status of a resource as bytes, and back: lines of text, so that any SQLite tool can show it.
 *
 *     legwork-flow 1
 *     state creating active
 *     reason because of that
 *     dropped 2
 *     move 1763260000000 17 creating
 *     flag metadata 1763260000123 1 done
 *     flag db 0 3 open no space left
 *     payload 5
 *     12345
 *
 * Names have no blanks; a text is the rest of its line; the payload is the rest of all. */
#include "flow/flow_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define HEAD "legwork-flow 1\n"

/* ---- a record ----------------------------------------------------------------------------- */

/* Of too many the first one stays. */
static lw_flow_move_info *add_move(struct lw__record *record) {
    if (record->history_count < LW_FLOW_HISTORY_MAX)
        return &record->history[record->history_count++];
    memmove(&record->history[1], &record->history[2],
            (LW_FLOW_HISTORY_MAX - 2) * sizeof *record->history);
    record->history_dropped++;
    return &record->history[LW_FLOW_HISTORY_MAX - 1];
}

void lw__record_note(struct lw__record *record, const char *state, int64_t now_ms) {
    lw_flow_move_info *move = add_move(record);
    *move = (lw_flow_move_info){.at_ms = now_ms};
    memcpy(move->state, state, strlen(state) + 1);
}

void lw__record_begin(struct lw__record *record, const char *state, int64_t now_ms,
                      uint64_t generation) {
    for (unsigned i = 0; i < record->history_count; i++) {
        if (record->history[i].generation == 0)
            record->history[i].generation = generation;
    }
    record->is_at_goal = record->is_aborted = false;
    record->reason[0] = 0;
    record->flag_count = 0;
    memmove(record->state, state, strlen(state) + 1);
    lw__record_note(record, record->state, now_ms);
}

const struct lw__record_flag *lw__record_find(const struct lw__record *record, const char *flag) {
    for (unsigned i = 0; i < record->flag_count; i++) {
        if (strcmp(record->flags[i].name, flag) == 0)
            return &record->flags[i];
    }
    return NULL;
}

struct lw__record_flag *lw__record_flag(struct lw__record *record, const char *flag) {
    for (unsigned i = 0; i < record->flag_count; i++) {
        if (strcmp(record->flags[i].name, flag) == 0)
            return &record->flags[i];
    }
    if (record->flag_count == LW_FLOW_STEPS_MAX)
        return NULL;
    struct lw__record_flag *made = &record->flags[record->flag_count++];
    *made = (struct lw__record_flag){.done_ms = 0};
    memcpy(made->name, flag, strlen(flag) + 1);
    return made;
}

/* Not in the middle of a character. */
void lw__record_copy_text(char copy[LW_FLOW_TEXT_MAX + 1], const char *text) {
    size_t size = text ? strnlen(text, LW_FLOW_TEXT_MAX + 1) : 0;
    if (size > LW_FLOW_TEXT_MAX) {
        for (size = LW_FLOW_TEXT_MAX; size > 0 && ((unsigned char)text[size] & 0xc0) == 0x80;)
            size--;
    }
    for (size_t i = 0; i < size; i++)
        copy[i] = (unsigned char)text[i] < 0x20 ? ' ' : text[i];
    copy[size] = 0;
}

struct lw__record_flag *lw__record_note_task(struct lw__record *record, const char *name,
                                             uint32_t attempts, const char *error) {
    struct lw__record_flag *flag = lw__record_flag(record, name);
    if (!flag)
        return NULL;
    flag->attempts = attempts;
    flag->is_resumed = false;
    if (error[0])
        lw__record_copy_text(flag->error, error);
    return flag;
}

/* ---- writing ------------------------------------------------------------------------------ */

static char *put_text(char *at, const char *text) {
    size_t size = strlen(text);
    memcpy(at, text, size);
    return at + size;
}

static char *put_number(char *at, uint64_t number) {
    char digits[20];
    size_t count = 0;
    do {
        digits[count++] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    while (count > 0)
        *at++ = digits[--count];
    return at;
}

static char *put_word(char *at, const char *word) {
    *at++ = ' ';
    return put_text(at, word);
}

static char *put_count(char *at, uint64_t number) {
    *at++ = ' ';
    return put_number(at, number);
}

static char *put_move(char *at, const lw_flow_move_info *move) {
    at = put_count(put_text(at, "move"), (uint64_t)move->at_ms);
    at = put_word(put_count(at, move->generation), move->state);
    return put_text(at, "\n");
}

static const char *condition_of(const struct lw__record_flag *flag) {
    if (flag->done_ms == 0)
        return flag->is_resumed ? "resumed" : "open";
    return flag->is_skipped ? "skipped" : "done";
}

static char *put_flag(char *at, const struct lw__record_flag *flag) {
    at = put_count(put_word(put_text(at, "flag"), flag->name), (uint64_t)flag->done_ms);
    at = put_count(at, flag->attempts);
    at = put_word(at, condition_of(flag));
    if (flag->error[0])
        at = put_word(at, flag->error);
    return put_text(at, "\n");
}

size_t lw__record_write(const struct lw__record *record, char *buffer) {
    char *at = put_word(put_text(buffer, HEAD "state"), record->state);
    at = put_word(at, record->is_at_goal ? "goal" : record->is_aborted ? "aborted" : "active");
    at = put_text(at, "\n");
    if (record->reason[0])
        at = put_text(put_word(put_text(at, "reason"), record->reason), "\n");
    if (record->history_dropped > 0)
        at = put_text(put_count(put_text(at, "dropped"), record->history_dropped), "\n");
    for (unsigned i = 0; i < record->history_count; i++)
        at = put_move(at, &record->history[i]);
    for (unsigned i = 0; i < record->flag_count; i++)
        at = put_flag(at, &record->flags[i]);
    at = put_text(put_count(put_text(at, "payload"), record->payload.size), "\n");
    if (record->payload.size > 0)
        memcpy(at, record->payload.data, record->payload.size);
    return (size_t)(at - buffer) + record->payload.size;
}

/* The most that there can be: lines with names, numbers, texts; then the payload. */
#define NUMBER_MAX 20
#define MOVE_MAX (sizeof "move   \n" + 2 * NUMBER_MAX + LW_FLOW_NAME_MAX)
#define FLAG_MAX \
    (sizeof "flag    skipped \n" + NUMBER_MAX + 10 + LW_FLOW_NAME_MAX + LW_FLOW_TEXT_MAX)
_Static_assert(sizeof HEAD + sizeof "state  aborted\nreason \ndropped \npayload \n"
                       + LW_FLOW_NAME_MAX + LW_FLOW_TEXT_MAX + 2 * NUMBER_MAX
                       + LW_FLOW_HISTORY_MAX * MOVE_MAX + LW_FLOW_STEPS_MAX * FLAG_MAX
                       + LW_FLOW_PAYLOAD_MAX
                   <= LW__SCOPE_BYTES_MAX,
               "a record fits into a scope");

/* ---- reading ------------------------------------------------------------------------------ */

struct reader {
    const char *at, *end; /* of the present line, without its newline */
};

static bool take_name(struct reader *r, char name[LW_FLOW_NAME_MAX + 1]) {
    const char *blank = memchr(r->at, ' ', (size_t)(r->end - r->at));
    size_t size = (size_t)((blank ? blank : r->end) - r->at);
    if (size == 0 || size > LW_FLOW_NAME_MAX)
        return false;
    memcpy(name, r->at, size);
    name[size] = 0;
    r->at += size + (blank != NULL);
    return true;
}

static bool take_number(struct reader *r, uint64_t max, uint64_t *number) {
    const char *begin = r->at;
    *number = 0;
    for (; r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++) {
        uint64_t digit = (uint64_t)(*r->at - '0');
        if (*number > (max - digit) / 10)
            return false;
        *number = *number * 10 + digit;
    }
    bool has_digits = r->at > begin;
    if (r->at < r->end && *r->at++ != ' ')
        return false;
    return has_digits;
}

static bool take_text(struct reader *r, char text[LW_FLOW_TEXT_MAX + 1]) {
    size_t size = (size_t)(r->end - r->at);
    if (size > LW_FLOW_TEXT_MAX || memchr(r->at, 0, size))
        return false;
    memcpy(text, r->at, size);
    text[size] = 0;
    return true;
}

static bool is_word(const char *word, const char *expected) {
    return strcmp(word, expected) == 0;
}

static bool read_state(struct lw__record *record, struct reader *r) {
    char condition[LW_FLOW_NAME_MAX + 1];
    if (!take_name(r, record->state) || !take_name(r, condition))
        return false;
    record->is_at_goal = is_word(condition, "goal");
    record->is_aborted = is_word(condition, "aborted");
    return record->is_at_goal || record->is_aborted || is_word(condition, "active");
}

static bool read_move(struct lw__record *record, struct reader *r) {
    uint64_t at_ms, generation;
    if (record->history_count == LW_FLOW_HISTORY_MAX || !take_number(r, INT64_MAX, &at_ms)
        || !take_number(r, UINT64_MAX, &generation))
        return false;
    lw_flow_move_info *move = &record->history[record->history_count++];
    move->at_ms = (int64_t)at_ms;
    move->generation = generation;
    return take_name(r, move->state);
}

static bool read_flag(struct lw__record *record, struct reader *r) {
    char name[LW_FLOW_NAME_MAX + 1], condition[LW_FLOW_NAME_MAX + 1];
    uint64_t done_ms, attempts;
    if (!take_name(r, name) || !take_number(r, INT64_MAX, &done_ms)
        || !take_number(r, UINT32_MAX, &attempts) || !take_name(r, condition))
        return false;
    struct lw__record_flag *flag = lw__record_flag(record, name);
    if (!flag)
        return false;
    flag->done_ms = (int64_t)done_ms;
    flag->attempts = (uint32_t)attempts;
    flag->is_skipped = is_word(condition, "skipped");
    flag->is_resumed = is_word(condition, "resumed");
    return take_text(r, flag->error);
}

static bool read_dropped(struct lw__record *record, struct reader *r) {
    uint64_t dropped;
    if (!take_number(r, UINT32_MAX, &dropped))
        return false;
    record->history_dropped = (unsigned)dropped;
    return true;
}

static bool read_line(struct lw__record *record, struct reader *r) {
    char what[LW_FLOW_NAME_MAX + 1];
    if (!take_name(r, what))
        return false;
    if (is_word(what, "flag"))
        return read_flag(record, r);
    if (is_word(what, "move"))
        return read_move(record, r);
    if (is_word(what, "state"))
        return read_state(record, r);
    if (is_word(what, "reason"))
        return take_text(r, record->reason);
    return is_word(what, "dropped") && read_dropped(record, r);
}

static bool read_payload(struct lw__record *record, struct reader *r, const char *end) {
    uint64_t size;
    if (!take_number(r, LW_FLOW_PAYLOAD_MAX, &size) || size != (uint64_t)(end - r->end - 1))
        return false;
    record->payload = (lw_bytes){r->end + 1, (size_t)size};
    return true;
}

/* The arrays are long and mostly empty: only what counts is cleared. */
static void clear(struct lw__record *record) {
    record->state[0] = record->reason[0] = 0;
    record->is_at_goal = record->is_aborted = false;
    record->history_count = record->history_dropped = record->flag_count = 0;
    record->payload = (lw_bytes){NULL, 0};
}

int lw__record_read(struct lw__record *record, lw_bytes bytes) {
    static const char payload[] = "payload ";
    const char *at = bytes.data, *end = at + bytes.size;
    clear(record);
    if (bytes.size < sizeof HEAD || memcmp(at, HEAD, sizeof HEAD - 1) != 0)
        return LW_ECORRUPT;
    for (at += sizeof HEAD - 1; at < end;) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        if (!newline)
            return LW_ECORRUPT;
        struct reader r = {.at = at, .end = newline};
        bool is_last = (size_t)(newline - at) > sizeof payload - 1
                       && memcmp(at, payload, sizeof payload - 1) == 0;
        if (is_last) {
            r.at += sizeof payload - 1;
            bool is_whole = record->state[0] && record->history_count > 0;
            return is_whole && read_payload(record, &r, end) ? LW_OK : LW_ECORRUPT;
        }
        if (!read_line(record, &r))
            return LW_ECORRUPT;
        at = newline + 1;
    }
    return LW_ECORRUPT;
}
