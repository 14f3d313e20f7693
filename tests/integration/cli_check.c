/* Settings as a user gets them wrong: what `legwork check` says, and what a running server does
 * with them. */
#include "gate.h"
#include "served.h"
#include "test.h"

#include <legwork/engine.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char said[65536];

#define RUN(...) served_run((const char *const[]){__VA_ARGS__, NULL}, said, sizeof said)

static void assert_said(const char *part) {
    assert_has(said, part);
}

static void write_file(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    CHECK(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

TEST(every_wrong_file_is_told_where_and_what_to_do) {
    static const struct {
        const char *text, *sentence;
    } wrong[] = {
        {"[server]\nlisten = 0.0.0.0:7411\n",
         "x.conf: listen: 0.0.0.0:7411 is not a local address: Legwork listens on 127.0.0.1:PORT"},
        {"[server]\nlisten = 7411\n",
         "x.conf: listen: 7411 is no address: write HOST:PORT, such as "},
        {"[server]\nstore = tasks.db\n",
         "x.conf: store: \"tasks.db\" is no URL of a store: write sqlite:FILE, or memory:"},
        {"listen = 127.0.0.1:1\n", "x.conf:1: \"listen\" belongs into the section [server]"},
        {"[sever]\n", "x.conf:1: the section [sever] is not known; did you mean [server]?"},
        {"[limits]\nbody_max = 1MiB\n",
         "x.conf:2: the key \"body_max\" is not known; did you mean \"body-max\"?"},
        {"[server]\nport = 80\n", "x.conf:2: the key \"port\" is not known; [server] has listen, "},
        {"[limits]\nzzz = 80\n", "header-max, head-max, headers-max, body-max, "},
        {"[limits]\nbody-max = 1 MB\n", "x.conf:2: body-max: \"1 MB\""},
        {"[limits]\nbody-max = 2GiB\n", "x.conf:2: body-max: \"2GiB\" is not from 0 to 1GiB"},
        {"[timeouts]\nidle-timeout = 30\n", "x.conf:2: idle-timeout: \"30\""},
        {"[server]\nlog-level = verbose\n",
         "x.conf:2: log-level: \"verbose\" is none of debug, info, warn, error"},
        {"[limits]\nbatch-max = 1\nbatch-max = 2\n", "x.conf:3: \"batch-max\" is there twice"},
        {"[limits]\nbatch-max: 1\n", "x.conf:2: \"batch-max: 1\" is not written as key = value"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        write_file("x.conf", wrong[i].text);
        assert_int_equal(RUN("check", "--config", "x.conf"), 2);
        assert_said(wrong[i].sentence);
    }
    assert_int_equal(RUN("check", "--store", "tasks.db"), 2);
    assert_said("legwork: --store: \"tasks.db\" is no URL");
    assert_int_equal(RUN("check", "--config", "none.conf"), 1);
    assert_said("none.conf cannot be read: No such file or directory");
    assert_int_equal(RUN("check", "x.conf"), 2);
    assert_said("x.conf is not a flag; did you mean --config x.conf?");
}

TEST(a_library_with_a_known_fault_is_warned_of) {
    lw_error fault = {0};
    bool has_fault = lw_store_has_fault("sqlite:tasks.db", &fault);
    assert_int_equal(RUN("check"), 0);
    assert_int_equal(strstr(said, "WAL-reset fault") != NULL, has_fault);
    if (has_fault)
        assert_said(fault.message);
    assert_int_equal(RUN("check", "--store", "memory:"), 0);
    assert_null(strstr(said, "WAL-reset fault"));
}

TEST(variables_of_the_command_line_are_none_that_serve_warns_of) {
    CHECK(setenv("LEGWORK_URL", "http://127.0.0.1:1", 1) == 0);
    CHECK(setenv("LEGWORK_SETUP", "skip", 1) == 0);
    assert_int_equal(RUN("check"), 0);
    assert_null(strstr(said, "is not known"));
    CHECK(setenv("LEGWORK_URLS", "x", 1) == 0);
    assert_int_equal(RUN("check"), 0);
    assert_said("LEGWORK_URLS is not known");
}

/* The server's standard error goes to a file. */
static void keep_errors(void) {
    CHECK(freopen("errors", "w", stderr) != NULL);
}

static const char *read_errors(void) {
    FILE *file = fopen("errors", "r");
    size_t size = file ? fread(said, 1, sizeof said - 1, file) : 0;
    said[size] = '\0';
    if (file)
        fclose(file);
    return said;
}

static void await_error(const char *sentence) {
    await_that(strstr(read_errors(), sentence));
}

TEST(a_running_server_says_which_changes_need_a_restart) {
    struct served s;
    write_file("x.conf", "[limits]\nbody-max = 1KiB\n");
    served_start_with(&s, (const char *const[]){"--config", "x.conf", NULL}, keep_errors);
    struct answer a = served_ask(&s, "GET /healthz", NULL); /* it listens for signals, too */
    answer_free(&a);
    write_file("x.conf", "[limits]\nbody-max = 2KiB\ntasks-max = 7\n");
    kill(s.pid, SIGHUP);
    await_error("the settings were read again");
    assert_said("legwork: tasks-max has changed, and needs a restart\n");
    assert_null(strstr(said, "body-max"));
    write_file("x.conf", "[limits]\nbody-mix = 1KiB\n");
    kill(s.pid, SIGHUP);
    await_error("the settings stay as they are: x.conf:2: the key \"body-mix\"");
    served_stop(&s);
}

/* ---- help and pages -------------------------------------------------------------------------- */

TEST(every_command_has_a_page_with_its_flags) {
    static char help[65536];
    assert_int_equal(RUN("help", "--pages"), 0);
    assert_said("legwork.1\nlegwork-serve.1\n");
    assert_said("legwork-help.1\nlegwork.conf.5\n");
    assert_int_equal(RUN("help", "--man", "submit"), 0);
    memcpy(help, said, sizeof help);
    assert_said(".TH LEGWORK\\-SUBMIT 1 ");
    assert_said("legwork\\-submit \\- submit a task, and perhaps wait for its result\n");
    assert_said("\\fB\\-\\-priority\\fR \\fIN\\fR\n");
    assert_said(".SH EXIT STATUS\n.TP\n0\ndone\n");
    assert_int_equal(RUN("help", "--man", "legwork-submit.1"), 0);
    assert_string_equal(said, help);
    assert_int_equal(RUN("help", "--man"), 0);
    assert_said(".TH LEGWORK 1 ");
    assert_int_equal(RUN("help", "--man", "legwork.conf"), 0);
    assert_said(".SS [timeouts]\n.TP\n\\fBhead\\-timeout\\fR = \\fIDURATION\\fR\n");
    assert_int_equal(RUN("help", "--man", "sbmit"), 2);
    assert_said("did you mean submit");
}

TEST(the_sample_is_accepted_as_it_is) {
    assert_int_equal(RUN("help", "--sample"), 0);
    write_file("sample.conf", said);
    assert_int_equal(RUN("check", "--config", "sample.conf"), 0);
    assert_said("# default\nlisten = 127.0.0.1:7411\n");
}
