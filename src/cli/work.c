/* `legwork work`: a command that does the tasks of a queue.
 *
 * The main thread has the signals, and looks after the leases; the crew (crew.h) does the rest. */
#include "cli/command.h"
#include "cli/crew.h"
#include "cli/screen.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

struct values {
    struct lw__common common;
    const char *queue;
    int64_t workers, lease_ms, timeout_ms, grace_ms, attempts, output_max, stop_timeout_ms;
};

#define AT(field) .offset = offsetof(struct values, field)
#define DURATION(field, low, high) \
    .type = LW__CONFIG_DURATION, AT(field), .argument = "DURATION", .min = (low), .max = (high)
#define HOUR INT64_C(3600000)

static const struct lw__config_row rows[] = {
    {NULL, "queue", .type = LW__CONFIG_TEXT, AT(queue), .fallback = "default", .argument = "QUEUE",
     .help = "Whose tasks to do, \"default\" unless told."},
    {NULL, "workers", .type = LW__CONFIG_COUNT, AT(workers), .fallback = "4", .argument = "N",
     .min = 1, .max = LW__CREW_MAX, .help = "How many commands run at once; 4 unless told."},
    {NULL, "timeout", DURATION(timeout_ms, 0, 7 * 24 * HOUR), .fallback = "1h",
     .help = "How long a command may run; then its process group gets SIGTERM. 1h unless told; 0: "
             "as long as it likes."},
    {NULL, "grace", DURATION(grace_ms, 0, HOUR), .fallback = "5s",
     .help = "From SIGTERM to SIGKILL, for a command that does not end. 5s unless told."},
    {NULL, "attempts", .type = LW__CONFIG_COUNT, AT(attempts), .fallback = "10", .argument = "N",
     .max = 1000000,
     .help = "How often a command that fails is run before its task has failed; 10 unless told, "
             "0: for ever."},
    {NULL, "output-max", .type = LW__CONFIG_SIZE, AT(output_max), .fallback = "1MiB",
     .argument = "SIZE", .max = LW_PAYLOAD_MAX,
     .help = "What a command may print as its result; more makes its attempt fail. 1MiB unless "
             "told."},
    {NULL, "lease", DURATION(lease_ms, 1000, LW_LEASE_MS_MAX), .fallback = "1m",
     .help = "After so long without a word from here the task is given to others. It is extended "
             "while the command runs. 1m unless told."},
    {NULL, "stop-timeout", DURATION(stop_timeout_ms, 0, 24 * HOUR), .fallback = "30s",
     .help = "How long a stop waits for commands that run. 30s unless told."},
    LW__COMMON_ROWS};

static const struct lw__usage usage = {
    .line = "work [FLAG...] -- COMMAND [ARGUMENT...]",
    .about = "Runs a command for every task of a queue: the payload is its input, its output is\n"
             "the result, exit code 0 is done, 75 is try again, and any other is try again a\n"
             "limited number of times. The tasks are a server's, or of a store (sqlite:FILE)\n"
             "that no server has open. SIGTERM waits for what runs; a second one ends it.",
    .example = "  legwork work --queue photos -- convert - -resize 50% png:-",
    .table = {rows, sizeof rows / sizeof *rows},
    .words_min = 1,
    .words_max = LW__WORDS_MAX};

/* All of a run. */
struct run {
    struct values values;
    struct lw__arguments arguments;
    const char *argv[LW__WORDS_MAX + 1];
    struct lw__exec exec;
    struct lw__source source;
    struct lw__crew crew;
    int signal_fd;
};

/* ---- the helper and the signals ------------------------------------------------------------ */

static int open_commands(struct run *run, lw_error *err) {
    const char *const *command = run->argv;
    const struct values *values = &run->values;
    for (size_t i = 0; i < run->arguments.count; i++)
        run->argv[i] = run->arguments.words[i];
    struct lw__exec_options options = {.commands = &command,
                                       .command_count = 1,
                                       .running_max = (size_t)values->workers,
                                       .output_max = values->output_max,
                                       .grace_ms = values->grace_ms,
                                       .attempts = values->attempts,
                                       .now_ms = lw__now_ms};
    return lw__exec_open(&run->exec, &options, err);
}

/* Before any thread, which inherits this; after the helper, which does not. */
static bool take_signals(struct run *run) {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    run->signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    run->source.stop_fd = eventfd(0, EFD_CLOEXEC);
    if (run->signal_fd >= 0 && run->source.stop_fd >= 0)
        return true;
    fprintf(stderr, "legwork: there are too many open files\n");
    return false;
}

/* ---- waiting ------------------------------------------------------------------------------- */

#define LOOK_MS 500 /* how often leases are looked at */

static bool was_signalled(const struct run *run) {
    struct signalfd_siginfo info;
    return read(run->signal_fd, &info, sizeof info) == sizeof info;
}

/* Until the crew is through. The first signal stops it, the second hurries it, and so does the end
 * of the time. */
static void oversee(struct run *run) {
    lw_ctx *patience = NULL;
    struct pollfd polls[] = {{.fd = run->signal_fd, .events = POLLIN},
                             {.fd = run->crew.idle_fd, .events = POLLIN}};
    while (polls[1].revents == 0) {
        bool is_stopping = atomic_load(&run->crew.must_stop);
        poll(polls, 2, LOOK_MS);
        bool is_signalled = was_signalled(run);
        if (is_signalled && !is_stopping) {
            int64_t ms = run->values.stop_timeout_ms;
            lw_ctx_open(&patience, LW_CTX_OPTIONS(.timeout_ms = ms > 0 ? ms : LW_ZERO), NULL);
            lw__crew_stop(&run->crew);
        } else if (is_signalled || lw_ctx_done(patience)) {
            lw__crew_hurry(&run->crew);
        }
        lw__crew_check_leases(&run->crew);
    }
    lw_ctx_close(patience);
}

/* ---- all ----------------------------------------------------------------------------------- */

static int work(struct run *run) {
    const struct values *values = &run->values;
    int code = LW__EXIT_FAILED;
    run->source.common = &values->common;
    run->source.queue = values->queue;
    run->source.lease_ms = values->lease_ms;
    run->crew.source = &run->source;
    run->crew.exec = &run->exec;
    run->crew.timeout_ms = values->timeout_ms;
    run->crew.is_verbose = values->common.is_verbose;
    if (!take_signals(run) || !lw__source_open(&run->source, &code))
        return code;
    if (lw__crew_start(&run->crew, (size_t)values->workers, &code)) {
        oversee(run);
        lw__crew_end(&run->crew);
        code = atomic_load(&run->crew.is_refused) ? LW__EXIT_USAGE : LW__EXIT_OK;
    }
    lw__source_close(&run->source);
    return code;
}

static void close_run(struct run *run) {
    lw__exec_close(&run->exec);
    if (run->signal_fd >= 0)
        close(run->signal_fd);
    if (run->source.stop_fd >= 0)
        close(run->source.stop_fd);
    lw__arguments_clear(&run->arguments);
}

int lw__command_work(int argc, const char *const *argv) {
    struct run run = {.exec = {.orders = -1}, .signal_fd = -1, .source = {.stop_fd = -1}};
    int code = LW__EXIT_OK;
    lw_error err = {0};
    if (!lw__arguments_read(&run.arguments, &usage, argc, argv, &run.values, &code))
        return code;
    if (open_commands(&run, &err) < 0) {
        fprintf(stderr, "legwork: %s\n", err.message);
        code = LW__EXIT_FAILED;
    } else {
        code = work(&run);
    }
    close_run(&run);
    return code;
}
