/* What the server says on standard error cannot be forged by those who ask it. */
#include "gate.h"
#include "served.h"
#include "test.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct served s;

static void say_into_file(void) {
    int fd = open("log", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0 || dup2(fd, STDERR_FILENO) < 0)
        _exit(126);
}

static size_t read_log(char *text, size_t room) {
    FILE *file = fopen("log", "r");
    CHECK(file != NULL);
    size_t size = fread(text, 1, room - 1, file);
    text[size] = '\0';
    fclose(file);
    return size;
}

/* Fails a task with this text. */
static void fail_with(const char *text) {
    char what[128];
    struct answer a = served_ask(&s, "POST /v1/queues/q/tasks?kind=k&key=%F0%9F%90%A2", "x");
    assert_int_equal(a.code, 201);
    answer_free(&a);
    a = served_ask(&s, "POST /v1/queues/q/claim", NULL);
    snprintf(what, sizeof what, "POST /v1/tasks/%lld/fail?token=%lld", number_in(a.body, "id"),
             number_in(a.body, "token"));
    answer_free(&a);
    a = served_ask(&s, what, text);
    assert_int_equal(a.code, 204);
    answer_free(&a);
}

/* Every line begins as the log begins one, and has no byte that a terminal would act on. */
static void assert_plain(const char *text, size_t size) {
    for (const char *line = text; *line; line = strchr(line, '\n') + 1) {
        bool is_ours = strncmp(line, "warn ", 5) == 0 || strncmp(line, "info ", 5) == 0
                       || strncmp(line, "legwork: ", 9) == 0;
        if (!is_ours)
            fprintf(stderr, "%s", line);
        CHECK(is_ours && strchr(line, '\n'));
    }
    for (size_t i = 0; i < size; i++)
        CHECK((unsigned char)text[i] >= ' ' || text[i] == '\n');
}

TEST(a_text_of_a_worker_is_one_line_of_the_log) {
    static const char text[] = "boom\nerror engine: all is lost\r\x1b[2J\x1b]0;title\x07\xc2\x9b"
                               "31m\xff \"quoted\" \\";
    char log[8192];
    served_start_with(&s, NULL, say_into_file);
    fail_with(text);
    served_stop(&s);
    size_t size = read_log(log, sizeof log);
    assert_plain(log, size);
    if (!strstr(log, "boom\\nerror engine: all is lost\\r\\x1b[2J"))
        fprintf(stderr, "%s", log);
    CHECK(strstr(log, "boom\\nerror engine: all is lost\\r\\x1b[2J") != NULL);
    CHECK(strstr(log, "\xc2\x9b") == NULL);
}

/* Neither can a file of settings that is read again. */
TEST(a_wrong_setting_is_one_line_of_the_log) {
    char log[8192];
    FILE *file = fopen("legwork.conf", "w");
    CHECK(file && fputs("[limits]\nbody-max = 1KiB\n", file) >= 0 && fclose(file) == 0);
    served_start_with(&s, (const char *const[]){"--config", "legwork.conf", NULL}, say_into_file);
    file = fopen("legwork.conf", "w");
    CHECK(file && fputs("[limits]\nbody-max = \x1b[2J\xff\n", file) >= 0 && fclose(file) == 0);
    kill(s.pid, SIGHUP);
    await_that(read_log(log, sizeof log) > 0 && strstr(log, "the settings stay as they are"));
    served_stop(&s);
    assert_plain(log, read_log(log, sizeof log));
}
