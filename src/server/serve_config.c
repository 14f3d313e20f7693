/* The settings of `legwork serve`, one row each. */
#include "server/serve_config.h"

#include "server/http.h"
#include "server/json.h"

#include <legwork/engine.h>
#include <legwork/task.h>
#include <stddef.h>

#define AT(field) .offset = offsetof(struct lw__serve_config, field)
#define TEXT(field, what) .type = LW__CONFIG_TEXT, AT(field), .argument = (what)
#define COUNT(field, low, high) \
    .type = LW__CONFIG_COUNT, AT(field), .argument = "N", .min = (low), .max = (high)
#define SIZE(field, low, high) \
    .type = LW__CONFIG_SIZE, AT(field), .argument = "SIZE", .min = (low), .max = (high)
#define DURATION(field, low, high) \
    .type = LW__CONFIG_DURATION, AT(field), .argument = "DURATION", .min = (low), .max = (high)

#define KIB INT64_C(1024)
#define MIB (INT64_C(1024) * 1024)
#define GIB (INT64_C(1024) * 1024 * 1024)
#define SECOND INT64_C(1000)
#define HOUR (INT64_C(3600) * 1000)

static const char *const log_levels[] = {"debug", "info", "warn", "error", NULL};

static const struct lw__config_row rows[] = {
    {NULL, "config", TEXT(config, "FILE"), .fallback = "", .help = "Reads this file, too."},

    {"server", "listen", TEXT(listen, "ADDRESS:PORT"), .fallback = "127.0.0.1:7411",
     .needs_restart = true,
     .help = "Where to listen for HTTP: an address of the loopback and a port. Empty: nowhere."},
    {"server", "socket", TEXT(socket, "PATH"), .fallback = "", .needs_restart = true,
     .help = "A unix socket to listen on as well."},
    {"server", "store", TEXT(store, "URL"), .fallback = "", .needs_restart = true,
     .help = "Where the tasks are: sqlite:FILE, or memory: for none that outlive the server. "
             "Without it, a file under the user's state folder."},
    {"server", "log-level", .type = LW__CONFIG_CHOICE, AT(log_level), .fallback = "info",
     .choices = log_levels, .needs_restart = true, .help = "How much is said on standard error."},
    {"server", "stop-timeout", DURATION(stop_timeout_ms, 0, 24 * HOUR), .fallback = "30s",
     .help = "How long a stop waits for what is running."},

    {"work", "exec", .type = LW__CONFIG_LIST, AT(exec), .argument = "KIND=COMMAND",
     .needs_restart = true,
     .help = "Runs this command for every task of the kind: the payload is its input, its output "
             "is the result, exit code 0 is done and 75 is try again."},
    {"work", "exec-workers", COUNT(exec_workers, 1, LW_WORKERS_MAX - 1), .fallback = "4",
     .needs_restart = true, .help = "How many commands of a kind run at once."},
    {"work", "exec-timeout", DURATION(exec_timeout_ms, 0, 7 * 24 * HOUR), .fallback = "1h",
     .needs_restart = true,
     .help = "How long a command may run; then its process group gets SIGTERM. 0: as long as it "
             "likes."},
    {"work", "exec-grace", DURATION(exec_grace_ms, 0, HOUR), .fallback = "5s",
     .needs_restart = true, .help = "From SIGTERM to SIGKILL, for a command that does not end."},
    {"work", "exec-attempts", COUNT(exec_attempts, 0, 1000000), .fallback = "10",
     .needs_restart = true,
     .help = "How often a command that fails is run before its task has failed. 0: for ever."},
    {"work", "exec-output-max", SIZE(exec_output_max, 0, LW_PAYLOAD_MAX), .fallback = "1MiB",
     .needs_restart = true,
     .help = "What a command may print as its result; more makes its attempt fail."},
    {"work", "lease", DURATION(lease_ms, SECOND, 24 * HOUR), .fallback = "1m",
     .help = "How long a remote worker has a task before it must extend its lease, if its claim "
             "does not say."},

    {"limits", "connections-max", COUNT(connections_max, 1, 1000000), .fallback = "12000",
     .help = "Connections at once; one more is answered with 503 and closed."},
    {"limits", "line-max", SIZE(line_max, 256, 64 * KIB), .fallback = "8KiB",
     .help = "A request line, which the query is a part of; a longer one is 414."},
    {"limits", "header-max", SIZE(header_max, 256, 64 * KIB), .fallback = "8KiB",
     .help = "One header; a longer one is 431."},
    {"limits", "head-max", SIZE(head_max, 512, 256 * KIB), .fallback = "12KiB",
     .help = "The request line and all headers; more is 431."},
    {"limits", "headers-max", COUNT(headers_max, 4, LW__HTTP_FIELDS_MAX), .fallback = "64",
     .help = "Headers of a request; more are 431."},
    {"limits", "body-max", SIZE(body_max, 0, GIB), .fallback = "16MiB",
     .help = "The body of a request; a larger one is 413 before it is read."},
    {"limits", "json-depth-max", COUNT(json_depth_max, 4, LW__JSON_DEPTH_MAX), .fallback = "64",
     .help = "Arrays and objects in each other."},
    {"limits", "json-keys-max", COUNT(json_keys_max, 64, 1 << 24), .fallback = "65536",
     .help = "Keys of all objects that are open at one place of a document."},
    {"limits", "batch-max", COUNT(batch_max, 1, LW_SUBMIT_MAX), .fallback = "1000",
     .help = "Tasks of one submit, and outcomes of one settle."},
    {"limits", "claim-max", COUNT(claim_max, 1, 1000), .fallback = "1000",
     .help = "Tasks of one claim."},
    {"limits", "list-max", COUNT(list_max, 1, 10000), .fallback = "1000",
     .help = "Tasks on one page of a list."},
    {"limits", "tasks-max", COUNT(tasks_max, 1, LW_TASKS_MAX), .fallback = "1000000",
     .needs_restart = true, .help = "Unfinished tasks; when there are as many, a submit is 503."},
    {"limits", "payloads-max", SIZE(payloads_max, MIB, 1024 * GIB), .fallback = "1GiB",
     .needs_restart = true, .help = "The payloads of unfinished tasks together."},
    {"limits", "queues-max", COUNT(queues_max, 1, LW_QUEUES_MAX), .fallback = "65536",
     .needs_restart = true,
     .help = "Queues that the server knows; a submit that brings one more is 503. Those without a "
             "task are forgotten at a restart."},
    {"limits", "kinds-max", COUNT(kinds_max, 1, LW_KINDS_MAX), .fallback = "65536",
     .needs_restart = true, .help = "Kinds, likewise."},
    {"limits", "buffers-max", SIZE(buffers_max, MIB, 1024 * GIB), .fallback = "256MiB",
     .help = "Requests and answers that are under way together; then others are 503."},

    {"timeouts", "head-timeout", DURATION(head_timeout_ms, SECOND, HOUR), .fallback = "10s",
     .help = "From the first byte of a request to the end of its head."},
    {"timeouts", "body-timeout", DURATION(body_timeout_ms, SECOND, HOUR), .fallback = "30s",
     .help = "For each 16 KiB of a body to come."},
    {"timeouts", "write-timeout", DURATION(write_timeout_ms, SECOND, HOUR), .fallback = "30s",
     .help = "For a client to take each 16 KiB of an answer."},
    {"timeouts", "idle-timeout", DURATION(idle_timeout_ms, SECOND, 24 * HOUR), .fallback = "2m",
     .help = "For a connection without a request."},
    {"timeouts", "wait-max", DURATION(wait_max_ms, 0, HOUR), .fallback = "5m",
     .help = "The longest wait that a request may ask for."},
};

const struct lw__config_table lw__serve_table = {rows, sizeof rows / sizeof *rows};

/* Of the command line, and of the build's scripts. */
const char *const lw__serve_others[] = {"LEGWORK_URL", "LEGWORK_SETUP", NULL};
