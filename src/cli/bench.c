/* `legwork bench`: how fast is this server?
 *
 * Its tasks are in a queue of its own, and of a kind of its own, always the same: so that what a
 * killed one has left is seen as what it is, and finished by the next. */
#include "cli/bench.h"

#include "cli/client.h"
#include "cli/command.h"
#include "cli/place.h"
#include "server/memory.h"
#include "server/refuse.h"

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define FOR_MS_DEFAULT 5000
#define CLEAN_CONNECTIONS 4
#define CLEAN_BATCH 250
#define DESCRIPTORS_SPARE 32 /* besides the connections */

static const char *const modes[] = {"life", "submit", NULL};

#define AT(field) .offset = offsetof(struct lw__bench_values, field)
#define COUNT(field, low, high, usual)                                                 \
    .type = LW__CONFIG_COUNT, AT(field), .argument = "N", .min = (low), .max = (high), \
    .fallback = (usual)

static const struct lw__config_row rows[] = {
    {NULL, "mode", .type = LW__CONFIG_CHOICE, AT(mode), .fallback = "life", .choices = modes,
     .argument = "MODE", .help = "life, unless told: submit, claim and finish; or submit alone."},
    {NULL, "connections", COUNT(connections, 1, LW__LOAD_CONNECTIONS_MAX, "16"),
     .help = "Connections at once, 16 unless told."},
    {NULL, "in-flight", COUNT(in_flight, 1, LW__LOAD_IN_FLIGHT_MAX, "1"),
     .help = "Requests that a connection sends before it has the answers, 1 unless told."},
    {NULL, "batch", COUNT(batch, 1, LW__LOAD_BATCH_MAX, "1"),
     .help = "Tasks of one request, 1 unless told."},
    {NULL, "size", .type = LW__CONFIG_SIZE, AT(size), .fallback = "100", .max = LW_PAYLOAD_MAX,
     .argument = "SIZE", .help = "Bytes of a payload, 100 unless told."},
    {NULL, "rate", COUNT(rate, 0, 10000000, "0"),
     .help = "Tasks a second; as many as the server takes, unless told."},
    {NULL, "for", .type = LW__CONFIG_DURATION, AT(for_ms), .fallback = "0",
     .max = LW_TIMEOUT_MS_MAX, .argument = "DURATION",
     .help = "How long, 5s unless told, or until --tasks are through."},
    {NULL, "tasks", COUNT(tasks, 0, INT64_C(1) << 53, "0"), .help = "How many tasks."},
    LW__COMMON_ROWS};

static const struct lw__usage usage = {
    .line = "bench [FLAG...]",
    .about =
        "Puts load on a server and says how many tasks a second it does, and how long its\n"
        "answers take. The tasks are of the queue " LW__BENCH_QUEUE ", and finished at the end.\n"
        "Ctrl-C ends it early, with the figures so far; a second one leaves tasks behind,\n"
        "which the next run finishes. With --rate, times are counted from when a request\n"
        "was due: what had to wait for others is slow, too.",
    .example = "  legwork bench\n"
               "  legwork bench --connections 64 --for 30s\n"
               "  legwork bench --connections 8 --batch 100\n"
               "  legwork bench --rate 500 --json",
    .table = {rows, sizeof rows / sizeof *rows}};

/* ---- connections --------------------------------------------------------------------------- */

static int connect_to(void *user, lw_error *err) {
    struct lw__client client = {.fd = -1};
    int rc = lw__client_open(&client, user, err);
    int fd = client.fd;
    client.fd = -1;
    lw__client_close(&client);
    if (rc < 0 && fd >= 0)
        close(fd);
    return rc < 0 ? rc : fd;
}

static int raise_descriptors(int64_t connections, lw_error *err) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return LW_OK;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_max == RLIM_INFINITY
        || limit.rlim_max >= (rlim_t)connections + DESCRIPTORS_SPARE)
        return LW_OK;
    return lw__refuse(err, LW_EINVAL,
                      "the system gives this process %llu descriptors, too few for %lld "
                      "connections: ulimit -n changes that",
                      (unsigned long long)limit.rlim_max, (long long)connections);
}

/* -1: signals do what they always do. */
static int open_signals(void) {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    if (sigprocmask(SIG_BLOCK, &signals, NULL) < 0)
        return -1;
    return signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC);
}

static struct lw__load_options options_of(const struct lw__bench_values *values, const char *host) {
    return (struct lw__load_options){.protocol = &lw__load_http,
                                     .connect = connect_to,
                                     .user = (void *)values->common.url,
                                     .url = values->common.url,
                                     .host = host,
                                     .queue = LW__BENCH_QUEUE,
                                     .connections = (uint32_t)values->connections,
                                     .in_flight = (uint32_t)values->in_flight,
                                     .batch = (uint32_t)values->batch,
                                     .payload_size = (size_t)values->size};
}

/* ---- running ------------------------------------------------------------------------------- */

/* Finishes all that is in the queue. */
static int clean_up(struct lw__bench *bench, lw_error *err) {
    struct lw__load_options options = options_of(bench->values, bench->host);
    options.connections = CLEAN_CONNECTIONS;
    options.in_flight = 1;
    options.batch = CLEAN_BATCH;
    options.payload_size = 0;
    bench->is_cleaning = true;
    int rc = lw__load_open(&bench->load, &options, err);
    if (rc == LW_OK)
        rc = lw__load_run(&bench->load,
                          &(struct lw__load_plan){.mode = LW__LOAD_DRAIN,
                                                  .stop_fd = bench->signal_fd,
                                                  .tick = lw__bench_tick,
                                                  .user = bench},
                          err);
    if (rc == LW_OK && bench->load.was_stopped)
        rc = lw__refuse(err, LW_ESTOPPING, "interrupted");
    lw__load_close(&bench->load);
    bench->is_cleaning = false;
    return rc;
}

static double cpu_seconds(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec)
           + (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

static int measure(struct lw__bench *bench, lw_error *err) {
    const struct lw__bench_values *values = bench->values;
    struct lw__load_options options = options_of(values, bench->host);
    int64_t for_ms = values->for_ms || values->tasks ? values->for_ms : FOR_MS_DEFAULT;
    bench->plan =
        (struct lw__load_plan){.mode = values->mode == 1 ? LW__LOAD_SUBMITS : LW__LOAD_LIVES,
                               .for_us = (uint64_t)for_ms * 1000,
                               .tasks = (uint64_t)values->tasks,
                               .rate = (double)values->rate,
                               .stop_fd = bench->signal_fd,
                               .tick = lw__bench_tick,
                               .user = bench};
    int rc = lw__load_open(&bench->load, &options, err);
    double cpu = cpu_seconds();
    if (rc == LW_OK)
        rc = lw__load_run(&bench->load, &bench->plan, err);
    bench->figures = bench->load.figures;
    bench->was_stopped = bench->load.was_stopped;
    double seconds = lw__load_seconds(&bench->figures);
    bench->busy = seconds > 0 ? (cpu_seconds() - cpu) / seconds : 0;
    lw__load_close(&bench->load);
    return rc;
}

static int complain(const lw_error *err) {
    fprintf(stderr, "legwork: %s\n", err->message);
    return err->status == LW_EINVAL ? LW__EXIT_USAGE : LW__EXIT_FAILED;
}

/* What was measured is told even if something went wrong, and it is cleaned up, unless somebody was
 * in a hurry. */
static int run(struct lw__bench *bench) {
    lw_error err = {0}, left = {0};
    int rc = clean_up(bench, &err);
    if (rc < 0) {
        lw__bench_wipe(bench);
        return complain(&err);
    }
    rc = measure(bench, &err);
    left = err;
    int cleaned = rc == LW_ESTOPPING ? rc : clean_up(bench, &left);
    lw__bench_wipe(bench);
    if (bench->figures.tasks > 0 || rc == LW_OK)
        lw__bench_report(bench);
    int code = rc < 0 ? complain(&err) : LW__EXIT_OK;
    if (cleaned == LW_OK)
        return code;
    fprintf(stderr,
            "legwork: tasks may be left in the queue " LW__BENCH_QUEUE
            " (%s): the next bench finishes them\n",
            left.message);
    return LW__EXIT_FAILED;
}

/* ---- the command --------------------------------------------------------------------------- */

/* Says whether there is a server, and what its name is. */
static bool find_server(struct lw__bench *bench, int *code) {
    struct lw__place *place = lw__place_open(&bench->values->common, LW__TO_STEER, "bench", code);
    if (!place)
        return false;
    memcpy(bench->host, place->client.host, sizeof bench->host);
    lw__place_close(place);
    return true;
}

static int bench_server(const struct lw__bench_values *values) {
    lw_error err = {0};
    int code = LW__EXIT_OK;
    if (raise_descriptors(values->connections, &err) < 0)
        return complain(&err);
    struct lw__bench *bench = lw__server_alloc(sizeof *bench);
    if (!bench)
        return LW__EXIT_FAILED;
    bench->values = values;
    bench->style = lw__style_of(stderr);
    if (find_server(bench, &code)) {
        bench->signal_fd = open_signals();
        code = run(bench);
        if (bench->signal_fd >= 0)
            close(bench->signal_fd);
    }
    lw__server_free(bench);
    return code;
}

int lw__command_bench(int argc, const char *const *argv) {
    struct lw__arguments arguments;
    struct lw__bench_values values;
    int code = LW__EXIT_OK;
    if (!lw__arguments_read(&arguments, &usage, argc, argv, &values, &code))
        return code;
    code = bench_server(&values);
    lw__arguments_clear(&arguments);
    return code;
}
