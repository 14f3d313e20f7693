#include "forks.h"

#include "test.h"

#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Whether a thread of this process sleeps, or is gone. */
static bool is_asleep(const char *thread) {
    char path[64], state = 'S';
    snprintf(path, sizeof path, "/proc/self/task/%.20s/stat", thread);
    FILE *file = fopen(path, "r");
    if (!file)
        return true;
    if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
        state = 'S';
    fclose(file);
    return state == 'S';
}

static bool are_others_asleep(void) {
    char own[24];
    snprintf(own, sizeof own, "%ld", syscall(SYS_gettid));
    DIR *threads = opendir("/proc/self/task");
    CHECK(threads);
    bool is_quiet = true;
    for (struct dirent *entry = readdir(threads); entry; entry = readdir(threads)) {
        bool is_other = entry->d_name[0] != '.' && strcmp(entry->d_name, own) != 0;
        is_quiet &= !is_other || is_asleep(entry->d_name);
    }
    closedir(threads);
    return is_quiet;
}

pid_t fork_when_settled(void) {
    while (!are_others_asleep())
        sched_yield();
    return fork();
}

atomic_int *open_shared(void) {
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    return page;
}

void expect_good_end(pid_t child) {
    int status = -1;
    CHECK(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static bool is_child;

/* The leak sanitizer asks this. What a child has and does not free is the parent's. */
__attribute__((visibility("default"))) int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void) {
    return is_child;
}

static void end_child(void *unused) {
    (void)unused;
    _exit(0);
}

/* gcc's address sanitizer gives a thread's memory back when it ends, under a lock that another one
 * may have held at the fork: this ends the process just before, when the thread is through. */
static void end_before_the_sanitizer(void) {
    static pthread_key_t key;
    CHECK(pthread_key_create(&key, end_child) == 0);
    CHECK(pthread_setspecific(key, &key) == 0);
}

void begin_child(void) {
    is_child = true;
    alarm(200); /* as patient as gate.c */
    if (test_is_sanitized())
        end_before_the_sanitizer();
}
