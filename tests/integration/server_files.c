/* The files that `legwork serve` makes: who may read them, and who is let in twice. */
#include "served.h"
#include "test.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void allow_all(void) {
    umask(0);
}

static int mode_of(const char *name) {
    struct stat st;
    CHECK(stat(name, &st) == 0);
    return (int)(st.st_mode & 07777);
}

static void assert_modes(int mode) {
    static const char *const names[] = {"tasks.db", "tasks.db-owner", "tasks.db-running",
                                        "tasks.db-wal", "tasks.db-shm"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_int_equal(mode_of(names[i]), mode);
}

/* Payloads are e-mail addresses and worse. */
TEST(new_files_of_the_server_are_its_users_alone) {
    struct served s;
    served_start_with(&s, NULL, allow_all);
    assert_int_equal(served_code(&s, "POST /v1/queues/q/tasks?kind=k", "secret"), 201);
    assert_modes(0600);
    served_stop(&s);
    assert_int_equal(mode_of("tasks.db"), 0600);
}

TEST(files_that_are_there_keep_the_mode_that_they_have) {
    struct served s;
    served_start_with(&s, NULL, allow_all);
    served_stop(&s);
    CHECK(chmod("tasks.db", 0660) == 0);
    served_start_with(&s, NULL, allow_all);
    assert_int_equal(served_code(&s, "POST /v1/queues/q/tasks?kind=k", "secret"), 201);
    assert_modes(0660); /* SQLite gives its own files that of the database, and so do we */
    served_stop(&s);
}

/* What commands write is theirs. */
TEST(commands_of_the_server_keep_the_umask) {
    struct served s;
    served_start_with(&s, (const char *const[]){"--exec", "touch=touch made", NULL}, allow_all);
    assert_int_equal(served_code(&s, "POST /v1/queues/q/tasks?kind=touch", ""), 201);
    served_await(&s, "GET /v1/tasks/1", "\"finished\"", NULL, 0);
    assert_int_equal(mode_of("made"), 0666);
    served_stop(&s);
}

TEST(a_server_whose_lock_was_deleted_is_not_ready_once_another_has_come) {
    struct served first, second;
    served_start(&first, NULL);
    CHECK(unlink("tasks.db-owner") == 0);
    served_start(&second, NULL);
    served_await(&first, "GET /readyz", "store_taken", NULL, 0);
    assert_has(served_expect(&first, 503, "POST /v1/queues/q/tasks?kind=k", ""), "store_taken");
    assert_int_equal(served_code(&first, "POST /v1/queues/q/claim", ""), 503);
    assert_int_equal(served_code(&second, "POST /v1/queues/q/tasks?kind=k", ""), 201);
    assert_int_equal(served_code(&second, "GET /readyz", NULL), 200);
    kill(first.pid, SIGTERM);
    served_wait(&first);
    assert_int_equal(served_code(&second, "POST /v1/queues/q/tasks?kind=k", ""), 201);
    served_stop(&second);
}
