/* `legwork serve` and beanstalkd under the same load (src/cli/load.h), over TCP on the loopback. */
#include "common/daemons.h"
#include "common/measure.h"
#include "common/program.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    CONNECTIONS = 64,
    IN_FLIGHT = 32,         /* of H2's second line */
    BATCH = 100,            /* of H3 */
    BATCHERS = 16,          /* connections of H3 */
    SAMPLES = 300,          /* of H4 */
    IDLE_CONNECTIONS = 100, /* of H5 */
    CROWD = 10000,          /* idle connections of H6 */
    BUSY = 500,             /* connections of H6 that submit, */
    FEW = 10,               /* and those that they are compared with */
    SLICES = 16,            /* of either, in turns */
    PACE = 1000             /* submits a second of H6 */
};

#define WARM_UP_US 300000
#define MEASURE_US 1500000
#define SLICE_US 250000
#define REST_NS 2000000
#define SETTLE_NS 1000000000
#define IDLE_NS 3000000000

static void sleep_ns(int64_t ns) {
    struct timespec t = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
    nanosleep(&t, NULL);
}

static struct lw__load *open_load(const struct lw__load_options *options) {
    lw_error err = {0};
    struct lw__load *load = bench_alloc(sizeof *load);
    if (lw__load_open(load, options, &err) < 0)
        bench_die("%s", err.message);
    return load;
}

static void close_load(struct lw__load *load) {
    lw__load_close(load);
    free(load);
}

static void run_load(struct lw__load *load, struct lw__load_plan plan) {
    lw_error err = {0};
    plan.stop_fd = -1;
    if (lw__load_run(load, &plan, &err) < 0)
        bench_die("%s", err.message);
}

/* ---- H1, H2, H3: how many ----------------------------------------------------------------- */

struct rates {
    double task_us, cpu_us;
};

static struct rates measure_rates(const bench_daemon *daemon,
                                  const struct lw__load_options *options, enum lw__load_mode mode,
                                  long tasks) {
    struct lw__load *load = open_load(options);
    uint64_t count = tasks > 0 ? (uint64_t)tasks : 0;
    run_load(load, (struct lw__load_plan){
                       .mode = mode, .tasks = count, .for_us = count > 0 ? 0 : WARM_UP_US});
    int64_t cpu_ns = bench_daemon_cpu_ns(daemon);
    run_load(load, (struct lw__load_plan){
                       .mode = mode, .tasks = count, .for_us = count > 0 ? 0 : MEASURE_US});
    cpu_ns = bench_daemon_cpu_ns(daemon) - cpu_ns;
    double done = (double)load->figures.tasks;
    if (load->figures.tasks == 0)
        bench_die("not a single task was done");
    struct rates rates = {.task_us = lw__load_seconds(&load->figures) * 1e6 / done,
                          .cpu_us = (double)cpu_ns / 1e3 / done};
    close_load(load);
    return rates;
}

static void report_rates(const char *name, const bench_daemon *daemon,
                         const struct lw__load_options *options, enum lw__load_mode mode,
                         long tasks) {
    struct rates rates = measure_rates(daemon, options, mode, tasks);
    bench_report(name, "task", rates.task_us, "µs");
    bench_report(name, "cpu", rates.cpu_us, "µs");
}

static void run_submits(const char *name, long tasks) {
    bench_daemon daemon = bench_daemon_start(false, "memory");
    struct lw__load_options options = bench_daemon_load(&daemon);
    options.connections = CONNECTIONS;
    report_rates(name, &daemon, &options, LW__LOAD_SUBMITS, tasks);
    bench_daemon_stop(&daemon);
}

static void run_lives(const char *name, long tasks) {
    bench_daemon daemon = bench_daemon_start(true, "durable");
    struct lw__load_options options = bench_daemon_load(&daemon);
    options.connections = CONNECTIONS;
    report_rates(name, &daemon, &options, LW__LOAD_LIVES, tasks);
    options.in_flight = IN_FLIGHT;
    if (daemon.protocol == &lw__load_http) /* the other one syncs for each of them all the same */
        bench_report(name, "in_flight_32",
                     measure_rates(&daemon, &options, LW__LOAD_LIVES, tasks).task_us, "µs");
    bench_daemon_stop(&daemon);
    daemon = bench_daemon_start(false, "memory");
    options = bench_daemon_load(&daemon);
    options.connections = CONNECTIONS;
    struct rates rates = measure_rates(&daemon, &options, LW__LOAD_LIVES, tasks);
    bench_report(name, "memory", rates.task_us, "µs");
    bench_daemon_stop(&daemon);
}

static void run_batches(const char *name, long tasks) {
    bench_daemon daemon = bench_daemon_start(true, "durable");
    struct lw__load_options options = bench_daemon_load(&daemon);
    options.connections = BATCHERS;
    options.batch = BATCH;
    report_rates(name, &daemon, &options, LW__LOAD_LIVES, tasks);
    bench_daemon_stop(&daemon);
}

/* ---- H4: from the submit to a worker that waits ------------------------------------------- */

static void send_step(struct lw__load_conn *conn, enum lw__load_step step) {
    lw_error err = {0};
    struct lw__load_lane *lane = &conn->lanes[0];
    lane->step = step;
    lane->wanted = 1;
    if (conn->load->options.protocol->ask(lane, &conn->out) < 0
        || lw__load_conn_flush(conn, &err) < 0)
        bench_die("cannot ask: %s", err.message);
}

/* Waits until the answer is there. */
static void await_answer(struct lw__load_conn *conn) {
    char bytes[4096];
    lw_error err = {0};
    int rc = LW_PENDING;
    while (rc == LW_PENDING) {
        struct pollfd waiting = {.fd = conn->fd, .events = POLLIN};
        size_t used = 0;
        if (poll(&waiting, 1, LW__LOAD_SILENCE_MS) <= 0)
            bench_die("there is no answer");
        ssize_t size = recv(conn->fd, bytes, sizeof bytes, 0);
        if (size <= 0)
            bench_die("the server is gone: %s", strerror(errno));
        lw__buffer_put(&conn->in, (struct lw__slice){bytes, (size_t)size});
        rc = conn->load->options.protocol->read(&conn->lanes[0], conn->in.data, conn->in.size,
                                                &used, &err);
        memmove(conn->in.data, conn->in.data + used, conn->in.size - used);
        lw__buffer_cut(&conn->in, conn->in.size - used);
    }
    if (rc < 0)
        bench_die("%s", err.message);
}

/* The worker waits already when the task comes. */
static int64_t hand_over(struct lw__load_conn *producer, struct lw__load_conn *worker) {
    send_step(worker, LW__LOAD_CLAIM);
    sleep_ns(REST_NS);
    int64_t begun_ns = bench_now_ns();
    send_step(producer, LW__LOAD_SUBMIT);
    await_answer(worker);
    int64_t took_ns = bench_now_ns() - begun_ns;
    if (worker->lanes[0].count != 1)
        bench_die("the worker got nothing");
    await_answer(producer);
    send_step(worker, LW__LOAD_SETTLE);
    await_answer(worker);
    return took_ns;
}

static void report_hand_overs(const char *name, bool is_durable, const char *const *metrics,
                              long tasks) {
    size_t count = tasks > 0 ? (size_t)tasks : SAMPLES;
    int64_t *took_ns = bench_alloc(count * sizeof *took_ns);
    bench_daemon daemon = bench_daemon_start(is_durable, is_durable ? "durable" : "memory");
    struct lw__load_options options = bench_daemon_load(&daemon);
    options.connections = 2;
    options.waits = true;
    struct lw__load *load = open_load(&options);
    for (size_t i = 0; i < count / 10; i++)
        hand_over(&load->conns[0], &load->conns[1]);
    for (size_t i = 0; i < count; i++)
        took_ns[i] = hand_over(&load->conns[0], &load->conns[1]);
    bench_report(name, metrics[0], (double)bench_percentile(took_ns, count, 50) / 1e3, "µs");
    bench_report(name, metrics[1], (double)bench_percentile(took_ns, count, 99) / 1e3, "µs");
    close_load(load);
    bench_daemon_stop(&daemon);
    free(took_ns);
}

static void run_hand_overs(const char *name, long tasks) {
    report_hand_overs(name, true, (const char *const[]){"p50", "p99"}, tasks);
    report_hand_overs(name, false, (const char *const[]){"memory_p50", "memory_p99"}, tasks);
}

/* ---- H5: nothing to do -------------------------------------------------------------------- */

/* It has worked before, and its connections are open. */
static void run_idle(const char *name, long tasks) {
    bench_daemon daemon = bench_daemon_start(true, "durable");
    struct lw__load_options options = bench_daemon_load(&daemon);
    options.connections = IDLE_CONNECTIONS;
    struct lw__load *load = open_load(&options);
    run_load(load, (struct lw__load_plan){.mode = LW__LOAD_LIVES,
                                          .tasks = tasks > 0 ? (uint64_t)tasks : 1000});
    sleep_ns(SETTLE_NS);
    int64_t cpu_ns = bench_daemon_cpu_ns(&daemon), switches = bench_daemon_switches(&daemon);
    if (cpu_ns == 0 || switches == 0)
        bench_die("the system does not count what its threads do");
    int64_t begun_ns = bench_now_ns();
    sleep_ns(IDLE_NS);
    double seconds = (double)(bench_now_ns() - begun_ns) / 1e9;
    cpu_ns = bench_daemon_cpu_ns(&daemon) - cpu_ns;
    switches = bench_daemon_switches(&daemon) - switches;
    bench_report(name, "cpu", (double)cpu_ns / 1e9 / seconds, "cores");
    bench_report(name, "wake_ups", (double)switches / seconds, "per second");
    close_load(load);
    bench_daemon_stop(&daemon);
}

/* ---- H6: a crowd -------------------------------------------------------------------------- */

/* A server, who is connected to it, and how long its submits took. */
struct side {
    bench_daemon daemon;
    struct lw__load *load;
    struct lw__latency submits;
};

static void raise_descriptors(void) {
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_max < CROWD + BUSY + 100)
        bench_die("%d descriptors are needed, the system gives %llu", CROWD + BUSY + 100,
                  (unsigned long long)limit.rlim_max);
}

static void open_side(struct side *side, const char *folder, uint32_t connections) {
    side->daemon = bench_daemon_start(true, folder);
    struct lw__load_options options = bench_daemon_load(&side->daemon);
    options.connections = connections;
    side->load = open_load(&options);
}

static void close_side(struct side *side) {
    close_load(side->load);
    bench_daemon_stop(&side->daemon);
}

static void run_slice(struct side *side, uint64_t us) {
    run_load(side->load,
             (struct lw__load_plan){.mode = LW__LOAD_SUBMITS, .for_us = us, .rate = PACE});
    lw__latency_merge(&side->submits, &side->load->figures.steps[LW__LOAD_SUBMIT]);
}

/* As many submits a second on either side: more connections are not more work. */
static void run_crowd(const char *name, long tasks) {
    int *crowd = bench_alloc(CROWD * sizeof *crowd);
    struct side *few = bench_alloc(sizeof *few), *many = bench_alloc(sizeof *many);
    (void)tasks;
    raise_descriptors();
    open_side(few, "few", FEW);
    open_side(many, "many", BUSY);
    for (int i = 0; i < CROWD; i++)
        crowd[i] = bench_daemon_connect(&many->daemon);
    run_slice(few, WARM_UP_US);
    run_slice(many, WARM_UP_US);
    few->submits = many->submits = (struct lw__latency){0};
    for (int i = 0; i < SLICES; i++) {
        run_slice(few, SLICE_US);
        run_slice(many, SLICE_US);
    }
    double few_us = (double)lw__latency_quantile(&few->submits, 0.99);
    double many_us = (double)lw__latency_quantile(&many->submits, 0.99);
    bench_report(name, "few_p99", few_us, "µs");
    bench_report(name, "crowd_p99", many_us, "µs");
    bench_report(name, "crowd_over_few", many_us / few_us, "x");
    for (int i = 0; i < CROWD; i++)
        close(crowd[i]);
    close_side(few);
    close_side(many);
    free(few);
    free(many);
    free(crowd);
}

static const bench_workload workloads[] = {
    {"H1", run_submits},    {"H2", run_lives}, {"H3", run_batches},
    {"H4", run_hand_overs}, {"H5", run_idle},  {"H6", run_crowd},
};

int main(int argc, char **argv) {
    return bench_main(argc, argv, "the server", workloads, sizeof workloads / sizeof workloads[0]);
}
