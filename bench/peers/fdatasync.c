/* The yardstick of S2 and S4: 4 KiB appended to a file and made durable, with nothing around it.
 *
 * No system can acknowledge a single task sooner than its disk has taken it. In S1 it shows
 * the mood of the disk meanwhile. */
#include "../common/durable.h"
#include "../common/program.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

enum { BLOCK_SIZE = 4096 };

#define FILE_NAME "appended"

static int open_file(void) {
    int fd = open(FILE_NAME, O_WRONLY | O_CREAT | O_EXCL | O_APPEND, 0600);
    if (fd < 0)
        bench_die("cannot create the file %s here: is the folder empty?", FILE_NAME);
    return fd;
}

static void append(void *user, int number) {
    static const char block[BLOCK_SIZE] = "legwork";
    int fd = *(int *)user;
    (void)number;
    if (write(fd, block, BLOCK_SIZE) != BLOCK_SIZE || fdatasync(fd) != 0)
        bench_die("cannot append to %s", FILE_NAME);
}

static int64_t append_once(void *user) {
    int64_t begin_ns = bench_now_ns();
    append(user, 0);
    return bench_now_ns() - begin_ns;
}

static void close_file(int fd) {
    close(fd);
    unlink(FILE_NAME);
}

static void run_one_by_one(const char *name, long tasks) {
    int fd = open_file();
    (void)tasks;
    call_for(CALLING_WARM_UP_NS, 1, append, &fd);
    int64_t begin_ns = bench_now_ns();
    int64_t count = call_for(CALLING_NS, 1, append, &fd);
    double elapsed_ns = (double)(bench_now_ns() - begin_ns);
    bench_report(name, "task", elapsed_ns / (double)count / NS_PER_US, "µs");
    close_file(fd);
}

static void run_after_idleness(const char *name, long tasks) {
    int fd = open_file();
    report_starts(name, append_once, &fd, tasks);
    close_file(fd);
}

/* In the words of H4, which it stands beside. */
static void run_beside_hand_overs(const char *name, long tasks) {
    int fd = open_file();
    size_t count = tasks > 0 ? (size_t)tasks : IDLE_SAMPLES;
    int64_t *took_ns = bench_alloc(count * sizeof *took_ns);
    for (size_t i = 0; i < count; i++) {
        rest();
        took_ns[i] = append_once(&fd);
    }
    bench_report(name, "p50", (double)bench_percentile(took_ns, count, 50) / NS_PER_US, "µs");
    bench_report(name, "p99", (double)bench_percentile(took_ns, count, 99) / NS_PER_US, "µs");
    free(took_ns);
    close_file(fd);
}

static const bench_workload workloads[] = {
    {"S1", run_one_by_one},
    {"S2", run_one_by_one},
    {"S4", run_after_idleness},
    {"H4", run_beside_hand_overs},
};

int main(int argc, char **argv) {
    return bench_main(argc, argv, "fdatasync", workloads, sizeof workloads / sizeof workloads[0]);
}
