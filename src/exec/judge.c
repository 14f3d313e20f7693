/* From how a command ended to what becomes of the task.
 *
 *     exit 0                  done; what it printed is the result
 *     exit 75                 retry, however often
 *     other exits, a signal,  retry, until `attempts` are used up: then fail
 *     too much output
 *     asked to end            retry: who asked decides what that means (a timeout is charged to the
 *                             crash budget, a cancelled task is aborted, a stop does not count)
 *     could not be started,   retry, however often: it is not the command's fault
 *     helper gone
 *
 * An exit 0 after it was asked to end is an exit 0: it was just in time. */
#include "exec/exec.h"
#include "server/units.h"

#include <stdio.h>
#include <string.h>

/* ---- the end of standard error -------------------------------------------------------------- */

static const char between[] = " | ", cut[] = "...";

/* Its lines as one: it stands in tables and logs. Zeros cannot stand in a text. */
static size_t join_lines(const struct lw__exec_end *end, char *into) {
    size_t size = 0;
    bool is_between = false;
    for (size_t i = 0; i < end->error_size; i++) {
        char c = end->errors[i];
        if (c == '\n' || c == '\r') {
            is_between = size > 0;
            continue;
        }
        if (is_between) {
            memcpy(into + size, between, sizeof between - 1);
            size += sizeof between - 1;
        }
        is_between = false;
        into[size++] = c ? c : '?';
    }
    return size;
}

/* The last bytes, as many as fit, from the beginning of a character. */
static void add_errors(char *text, size_t at, const struct lw__exec_end *end) {
    char lines[LW__EXEC_ERRORS_MAX * (sizeof between - 1)];
    size_t size = join_lines(end, lines), from = 0, room = LW_TEXT_MAX - at - strlen(": ");
    if (size == 0)
        return;
    if (size > room) {
        from = size - (room - (sizeof cut - 1));
        while (from < size && ((unsigned char)lines[from] & 0xc0) == 0x80)
            from++;
    }
    snprintf(text + at, LW_TEXT_MAX + 1 - at, ": %s%.*s", from > 0 ? cut : "", (int)(size - from),
             lines + from);
}

/* ---- why ----------------------------------------------------------------------------------- */

static int write_signal(char *text, size_t room, int number) {
    const char *name = sigabbrev_np(number);
    return name ? snprintf(text, room, "killed by SIG%s", name)
                : snprintf(text, room, "killed by signal %d", number);
}

static int write_asked(char *text, size_t room, const struct lw__exec_end *end) {
    const char *why = end->reason == LW_REASON_TIMEOUT     ? "its time was over"
                      : end->reason == LW_REASON_CANCELLED ? "it was cancelled"
                                                           : "the server stopped";
    return snprintf(text, room, "%s, and the command was %s", why,
                    end->is_killed ? "killed, for it ignored SIGTERM" : "ended");
}

static int write_exit(char *text, size_t room, int code) {
    if (code == LW__EXEC_EXIT_RETRY)
        return snprintf(text, room, "to be tried again (exit code %d)", code);
    if (code == 126 || code == 127)
        return snprintf(text, room, "the command cannot be run (exit code %d)", code);
    return snprintf(text, room, "exit code %d", code);
}

static int write_why(char *text, size_t room, const struct lw__exec_end *end, int64_t output_max) {
    if (end->how == LW__EXEC_HELPER_GONE)
        return snprintf(text, room, "the process that runs commands is gone: restart the server");
    if (end->how == LW__EXEC_NOT_STARTED)
        return snprintf(text, room, "the command could not be started: %s", strerror(end->code));
    if (end->is_too_long)
        return snprintf(text, room, "it printed more than %s, which is all that is kept",
                        lw__size_write(output_max).text);
    if (end->is_asked)
        return write_asked(text, room, end);
    if (end->how == LW__EXEC_SIGNALLED)
        return write_signal(text, room, end->code);
    return write_exit(text, room, end->code);
}

/* ---- the verdict --------------------------------------------------------------------------- */

static lw_outcome outcome_of(const struct lw__exec_end *end, unsigned attempt, int64_t attempts) {
    bool has_ended = end->how == LW__EXEC_EXITED || end->how == LW__EXEC_SIGNALLED;
    bool is_exit = end->how == LW__EXEC_EXITED;
    if (is_exit && end->code == 0 && !end->is_too_long)
        return LW_OUTCOME_DONE;
    if (!has_ended || (is_exit && end->code == LW__EXEC_EXIT_RETRY && !end->is_too_long))
        return LW_OUTCOME_RETRY;
    if (end->is_asked && end->reason != LW_REASON_NONE)
        return LW_OUTCOME_RETRY;
    return attempts > 0 && attempt >= attempts ? LW_OUTCOME_FAIL : LW_OUTCOME_RETRY;
}

struct lw__exec_verdict lw__exec_judge(const struct lw__exec_end *end, unsigned attempt,
                                       const struct lw__exec_options *options) {
    struct lw__exec_verdict verdict = {outcome_of(end, attempt, options->attempts), ""};
    if (verdict.outcome == LW_OUTCOME_DONE)
        return verdict;
    int size = write_why(verdict.text, sizeof verdict.text, end, options->output_max);
    add_errors(verdict.text, (size_t)size, end);
    return verdict;
}
