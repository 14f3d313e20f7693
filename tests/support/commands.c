/* Processes of commands. */
#include "commands.h"
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PATIENCE_MS 200000

void make_fifo(const char *path) {
    CHECK(mkfifo(path, 0600) == 0);
}

/* Opened for both, so that it has no end between two writers. */
void read_pids(const char *path, pid_t *pids, size_t count) {
    int fd = open(path, O_RDWR | O_CLOEXEC);
    FILE *file = fdopen(fd, "r");
    CHECK(file != NULL);
    setvbuf(file, NULL, _IONBF, 0); /* what others write later is not ours */
    for (size_t i = 0; i < count; i++)
        CHECK(fscanf(file, "%d", &pids[i]) == 1);
    fclose(file);
}

void release(const char *path) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    CHECK(fd >= 0 && write(fd, "\n", 1) == 1);
    close(fd);
}

int watch_process(pid_t pid) {
    int watch = (int)syscall(SYS_pidfd_open, pid, 0);
    CHECK(watch >= 0 || errno == ESRCH);
    return watch;
}

void await_death(int watch) {
    struct pollfd end = {.fd = watch, .events = POLLIN};
    if (watch < 0)
        return;
    CHECK(poll(&end, 1, PATIENCE_MS) == 1);
    close(watch);
}
