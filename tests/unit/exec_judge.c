/* How a command ended, and what becomes of its task. */
#include "test.h"

#include "exec/exec.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static const struct lw__exec_options options = {.attempts = 3, .output_max = 1024};

static struct lw__exec_verdict judge(struct lw__exec_end end, unsigned attempt) {
    return lw__exec_judge(&end, attempt, &options);
}

static void set_errors(struct lw__exec_end *end, const char *text) {
    end->error_size = strlen(text);
    memcpy(end->errors, text, end->error_size);
}

#define EXIT(number) ((struct lw__exec_end){.how = LW__EXEC_EXITED, .code = (number)})

TEST(the_table_of_outcomes) {
    static const struct {
        struct lw__exec_end end;
        unsigned attempt;
        lw_outcome outcome;
        const char *text;
    } rows[] = {
        {{.how = LW__EXEC_EXITED}, 1, LW_OUTCOME_DONE, ""},
        {{.how = LW__EXEC_EXITED}, 99, LW_OUTCOME_DONE, ""},
        {{.how = LW__EXEC_EXITED, .code = 75},
         99,
         LW_OUTCOME_RETRY,
         "to be tried again (exit code 75)"},
        {{.how = LW__EXEC_EXITED, .code = 1}, 2, LW_OUTCOME_RETRY, "exit code 1"},
        {{.how = LW__EXEC_EXITED, .code = 1}, 3, LW_OUTCOME_FAIL, "exit code 1"},
        {{.how = LW__EXEC_EXITED, .code = 255}, 4, LW_OUTCOME_FAIL, "exit code 255"},
        {{.how = LW__EXEC_EXITED, .code = 126},
         1,
         LW_OUTCOME_RETRY,
         "the command cannot be run (exit code 126)"},
        {{.how = LW__EXEC_EXITED, .code = 127},
         3,
         LW_OUTCOME_FAIL,
         "the command cannot be run (exit code 127)"},
        {{.how = LW__EXEC_SIGNALLED, .code = SIGSEGV}, 1, LW_OUTCOME_RETRY, "killed by SIGSEGV"},
        {{.how = LW__EXEC_SIGNALLED, .code = SIGKILL}, 3, LW_OUTCOME_FAIL, "killed by SIGKILL"},
        {{.how = LW__EXEC_SIGNALLED, .code = 40}, 1, LW_OUTCOME_RETRY, "killed by signal 40"},
        {{.how = LW__EXEC_NOT_STARTED, .code = ENOMEM},
         99,
         LW_OUTCOME_RETRY,
         "the command could not be started: Cannot allocate memory"},
        {{.how = LW__EXEC_HELPER_GONE},
         99,
         LW_OUTCOME_RETRY,
         "the process that runs commands is gone: restart the server"},
        /* too much output is a failure, however it exits */
        {{.how = LW__EXEC_EXITED, .is_too_long = true, .is_asked = true},
         1,
         LW_OUTCOME_RETRY,
         "it printed more than 1KiB, which is all that is kept"},
        {{.how = LW__EXEC_EXITED, .code = 75, .is_too_long = true, .is_asked = true},
         3,
         LW_OUTCOME_FAIL,
         "it printed more than 1KiB, which is all that is kept"},
        /* asked to end: whoever asked decides, so it is never failed here */
        {{.how = LW__EXEC_SIGNALLED,
          .code = SIGTERM,
          .is_asked = true,
          .reason = LW_REASON_TIMEOUT},
         3,
         LW_OUTCOME_RETRY,
         "its time was over, and the command was ended"},
        {{.how = LW__EXEC_SIGNALLED,
          .code = SIGKILL,
          .is_asked = true,
          .is_killed = true,
          .reason = LW_REASON_CANCELLED},
         3,
         LW_OUTCOME_RETRY,
         "it was cancelled, and the command was killed, for it ignored SIGTERM"},
        {{.how = LW__EXEC_EXITED, .code = 1, .is_asked = true, .reason = LW_REASON_STOP},
         3,
         LW_OUTCOME_RETRY,
         "the server stopped, and the command was ended"},
        {{.how = LW__EXEC_EXITED, .is_asked = true, .reason = LW_REASON_TIMEOUT},
         3,
         LW_OUTCOME_DONE,
         ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct lw__exec_verdict verdict = judge(rows[i].end, rows[i].attempt);
        assert_string_equal(verdict.text, rows[i].text);
        assert_int_equal(verdict.outcome, rows[i].outcome);
    }
}

TEST(no_number_of_attempts_means_for_ever) {
    struct lw__exec_options forever = {.attempts = 0};
    struct lw__exec_end end = EXIT(1);
    assert_int_equal(lw__exec_judge(&end, 1000000, &forever).outcome, LW_OUTCOME_RETRY);
}

TEST(the_lines_of_standard_error_follow_as_one) {
    struct lw__exec_end end = EXIT(3);
    set_errors(&end, "\n\none\r\n\ntwo \n\n");
    assert_string_equal(judge(end, 1).text, "exit code 3: one | two ");
    set_errors(&end, "\n\r\n");
    assert_string_equal(judge(end, 1).text, "exit code 3");
    end.error_size = 3;
    memcpy(end.errors, "a\0b", 3);
    assert_string_equal(judge(end, 1).text, "exit code 3: a?b");
}

TEST(of_much_the_end_is_kept_from_the_beginning_of_a_character) {
    struct lw__exec_end end = EXIT(3);
    for (size_t i = 0; i + 1 < sizeof end.errors; i += 2)
        memcpy(end.errors + i, "\xc3\xa4", 2); /* two bytes a character */
    for (size_t left = sizeof end.errors - 8; left <= sizeof end.errors; left++) {
        end.error_size = left;
        struct lw__exec_verdict verdict = judge(end, 1);
        size_t size = strlen(verdict.text);
        assert_true(size <= LW_TEXT_MAX && size >= LW_TEXT_MAX - 1);
        assert_memory_equal(verdict.text, "exit code 3: ...\xc3\xa4", 18);
    }
    memset(end.errors, '\n', sizeof end.errors);
    for (size_t i = 0; i < sizeof end.errors; i += 2)
        end.errors[i] = 'x'; /* as much as joining can add */
    end.error_size = sizeof end.errors;
    assert_int_equal(strlen(judge(end, 1).text), LW_TEXT_MAX);
}
