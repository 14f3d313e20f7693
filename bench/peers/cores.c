/* The yardstick of W3, W4, E1 and E1x4: two cores of this machine, with nothing around them.
 *
 *     W3            two threads that do the tasks of W3 and nothing else: what no pool can beat
 *     W4, E1, E1x4  `line`: how long a cache line takes from one core to the other and back
 *
 * A virtual machine's two cores are neighbours now and far apart a few seconds later; whatever
 * passes tasks from one thread to another follows that. */
#include "../common/measure.h"

#include <pthread.h>
#include <string.h>

enum { TASKS = 500000, ROUNDS = 500, TRIPS = 200 };

static struct {
    pthread_barrier_t start;
    uint64_t burn_iterations;
    int64_t begin_ns[2], end_ns[2];
} bare;

/* Two lines that the threads write in turn; the first is also what the tasks count on. */
static int64_t ping __attribute__((aligned(128))), pong __attribute__((aligned(128)));

static void run_on_two(void *(*first)(void *), void *(*second)(void *)) {
    static int numbers[2] = {0, 1};
    pthread_t threads[2];
    void *(*const runs[2])(void *) = {first, second};
    if (pthread_barrier_init(&bare.start, NULL, 2) != 0)
        bench_die("cannot make a barrier");
    for (int i = 0; i < 2; i++)
        if (pthread_create(&threads[i], NULL, runs[i], &numbers[i]) != 0)
            bench_die("cannot start a thread");
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&bare.start);
}

/* ---- W3 ----------------------------------------------------------------------------------- */

static void *do_tasks(void *arg) {
    int i = *(int *)arg;
    pthread_barrier_wait(&bare.start);
    bare.begin_ns[i] = bench_now_ns();
    for (int n = 0; n < TASKS; n++) {
        bench_burn(bare.burn_iterations);
        __atomic_add_fetch(&ping, 1, __ATOMIC_ACQ_REL);
    }
    bare.end_ns[i] = bench_now_ns();
    return NULL;
}

static void measure_tasks(const char *name) {
    bare.burn_iterations = bench_burn_calibrate();
    double before_ns = bench_burn_cost_ns(bare.burn_iterations);
    run_on_two(do_tasks, do_tasks);
    double ideal_ns = (before_ns + bench_burn_cost_ns(bare.burn_iterations)) / 2 / 2;
    int64_t begin_ns = bare.begin_ns[0] < bare.begin_ns[1] ? bare.begin_ns[0] : bare.begin_ns[1];
    int64_t end_ns = bare.end_ns[0] > bare.end_ns[1] ? bare.end_ns[0] : bare.end_ns[1];
    double task_ns = (double)(end_ns - begin_ns) / (2 * TASKS);
    bench_report(name, "task", task_ns, "ns");
    bench_report(name, "ideal", ideal_ns, "ns");
    bench_report(name, "over_ideal", task_ns / ideal_ns, "x");
}

/* ---- a line to and fro -------------------------------------------------------------------- */

static void *answer(void *arg) {
    (void)arg;
    pthread_barrier_wait(&bare.start);
    for (int64_t n = 1; n <= (int64_t)ROUNDS * TRIPS; n++) {
        while (bench_load(&ping) != n) {
        }
        bench_store(&pong, n);
    }
    return NULL;
}

static int64_t rounds_ns[ROUNDS];

static void *ask(void *arg) {
    (void)arg;
    int64_t n = 0;
    pthread_barrier_wait(&bare.start);
    for (int round = 0; round < ROUNDS; round++) {
        int64_t begin_ns = bench_now_ns();
        for (int trip = 0; trip < TRIPS; trip++) {
            bench_store(&ping, ++n);
            while (bench_load(&pong) != n) {
            }
        }
        rounds_ns[round] = (bench_now_ns() - begin_ns) / TRIPS;
    }
    return NULL;
}

static void measure_line(const char *name) {
    run_on_two(ask, answer);
    bench_report(name, "line", (double)bench_percentile(rounds_ns, ROUNDS, 50), "ns");
}

int main(int argc, char **argv) {
    if (argc != 2)
        bench_die("usage: %s WORKLOAD", argv[0]);
    if (strcmp(argv[1], "W3") == 0)
        measure_tasks(argv[1]);
    else
        measure_line(argv[1]);
    return 0;
}
