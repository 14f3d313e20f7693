/* `legwork serve`: the settings, the engine, the server. `legwork check`: the settings alone. */
#include "cli/command.h"

#include "cli/pages.h"
#include "cli/screen.h"
#include "exec/exec.h"
#include "server/api/api.h"
#include "server/memory.h"
#include "server/refuse.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

extern char **environ;

#define HELP_MAX (1 << 16)
#define GIVE_UP_MS 30000 /* for a command to be gone after it was killed */

/* What a run of the server is made of. */
struct run {
    int argc;
    const char *const *argv;
    struct lw__config config;
    struct lw__serve_config values;
    lw_log log;
    struct lw__exec_kinds kinds; /* as they were at the start */
    struct lw__exec exec;
    lw_engine *engine;
    char store[PATH_MAX + 32];
    struct lw__server server;
};

/* ---- settings ------------------------------------------------------------------------------ */

static void warn(void *user, const char *sentence) {
    (void)user;
    fprintf(stderr, "legwork: %s\n", sentence);
}

static int check_store(const char *url, lw_error *err) {
    if (strncmp(url, "sqlite:", 7) == 0 || strncmp(url, "memory:", 7) == 0)
        return LW_OK;
    return lw__refuse(err, LW_EINVAL, "\"%s\" is no URL of a store: write sqlite:FILE, or memory:",
                      lw__slice_show(lw__slice_of(url)).text);
}

/* A sentence about a value, with where that is from. */
static int refuse_value(const struct run *run, const char *name, const lw_error *reason,
                        lw_error *err) {
    const struct lw__config_table *table = run->config.table;
    size_t i = 0;
    while (strcmp(table->rows[i].name, name) != 0)
        i++;
    switch (run->config.sources[i]) {
    case LW__CONFIG_FILE:
        return lw__refuse(err, LW_EINVAL, "%s: %s: %s", run->values.config, name, reason->message);
    case LW__CONFIG_ENVIRONMENT:
        return lw__refuse(err, LW_EINVAL, "%s: %s", lw__config_variable_of(&table->rows[i]).name,
                          reason->message);
    default: return lw__refuse(err, LW_EINVAL, "--%s: %s", name, reason->message);
    }
}

/* What `serve` would stumble over when it opens these, and so rows do not say. */
static int check_values(const struct run *run, lw_error *err) {
    const struct lw__serve_config *values = &run->values;
    lw_error reason = {0};
    if (values->listen[0] && lw__listener_check(values->listen, &reason) < 0)
        return refuse_value(run, "listen", &reason, err);
    if (values->store[0] && check_store(values->store, &reason) < 0)
        return refuse_value(run, "store", &reason, err);
    return LW_OK;
}

static int refuse_word(const char *word, lw_error *err) {
    struct lw__slice text = lw__slice_of(word);
    if (access(word, F_OK) == 0)
        return lw__refuse(err, LW_EINVAL, "%s is not a flag; did you mean --config %s?",
                          lw__slice_show(text).text, lw__slice_show(text).text);
    return lw__refuse(err, LW_EINVAL, "%s is not a flag, and takes no place here",
                      lw__slice_show(text).text);
}

static int check_commands(const struct lw__serve_config *values, lw_error *err) {
    struct lw__exec_kinds kinds;
    int64_t most = (LW_WORKERS_MAX - 1) / (values->exec.count > 0 ? (int)values->exec.count : 1);
    int rc = lw__exec_kinds_read(&kinds, &values->exec, err);
    if (rc == LW_OK && values->exec_workers > most)
        rc = lw__refuse(err, LW_EINVAL,
                        "exec-workers: with %zu commands at most %lld of each can run at once",
                        values->exec.count, (long long)most);
    return rc;
}

/* Flags, environment, and the file that they name. */
static int read_settings(const struct run *run, struct lw__config *config,
                         struct lw__serve_config *values, bool *wants_help, lw_error *err) {
    int rest = 0;
    int rc = lw__config_init(config, &lw__serve_table, values, &lw__server_memory);
    config->others = lw__serve_others;
    if (rc == LW_OK)
        rc = lw__config_flags(config, run->argc, run->argv, &rest, wants_help, err);
    if (rc < 0 || *wants_help)
        return rc;
    if (rest < run->argc)
        return refuse_word(run->argv[rest], err);
    rc = lw__config_environment(config, (const char *const *)environ, warn, NULL, err);
    if (rc == LW_OK && values->config[0])
        rc = lw__config_file(config, values->config, err);
    return rc == LW_OK ? check_commands(values, err) : rc;
}

static void print(struct lw__buffer *text) {
    fwrite(text->data, 1, text->size, stdout);
    lw__buffer_clear(text);
}

static void print_help(const struct lw__usage *usage) {
    struct lw__buffer text;
    lw__buffer_init(&text, &lw__server_memory, HELP_MAX);
    printf("usage: legwork %s\n\n%s\n\n", usage->line, usage->about);
    lw__config_write_help(&lw__serve_table, &text);
    print(&text);
}

static void print_values(const struct lw__config *config) {
    struct lw__buffer text;
    lw__buffer_init(&text, &lw__server_memory, HELP_MAX);
    lw__config_write_values(config, &text);
    print(&text);
}

static int complain(const lw_error *err) {
    fprintf(stderr, "legwork: %s\n", err->message);
    return err->status == LW_EINVAL ? LW__EXIT_USAGE : LW__EXIT_FAILED;
}

/* ---- the store ----------------------------------------------------------------------------- */

/* Makes a folder and those above it; what is there already is fine. */
static int make_folders(char *path, lw_error *err) {
    for (char *at = strchr(path + 1, '/');; at = strchr(at + 1, '/')) {
        if (at)
            *at = '\0';
        if (mkdir(path, 0700) < 0 && errno != EEXIST)
            return lw__refuse(err, LW_ESYSTEM, "the folder %s cannot be made: %s", path,
                              strerror(errno));
        if (!at)
            return LW_OK;
        *at = '/';
    }
}

/* STATE_DIRECTORY is what a service manager has made for us. */
static int find_folder(char *folder, size_t room, lw_error *err) {
    const char *state = getenv("STATE_DIRECTORY"), *xdg = getenv("XDG_STATE_HOME");
    const char *home = getenv("HOME");
    int length;
    if (state && state[0] == '/')
        length = snprintf(folder, room, "%s", state);
    else if (xdg && xdg[0] == '/')
        length = snprintf(folder, room, "%s/legwork", xdg);
    else if (home && home[0] == '/')
        length = snprintf(folder, room, "%s/.local/state/legwork", home);
    else
        return lw__refuse(err, LW_EINVAL, "there is no HOME: say where, with --store sqlite:PATH");
    if ((size_t)length >= room)
        return lw__refuse(err, LW_EINVAL, "the path of the state folder is too long");
    return make_folders(folder, err);
}

static int choose_store(struct run *run, lw_error *err) {
    const char *given = run->values.store;
    if (!given[0]) {
        char folder[PATH_MAX];
        int rc = find_folder(folder, sizeof folder, err);
        if (rc == LW_OK)
            snprintf(run->store, sizeof run->store, "sqlite:%s/tasks.db", folder);
        return rc;
    }
    if (strlen(given) >= sizeof run->store)
        return lw__refuse(err, LW_EINVAL, "the URL of the store is too long");
    memcpy(run->store, given, strlen(given) + 1);
    return LW_OK;
}

/* What the library says is for programs: here somebody sits who may have started two. */
static int explain_owned(const struct run *run, lw_error *err) {
    lw_error why = *err;
    return lw__refuse(
        err, LW_EBUSY,
        "%.*s: end that first, or keep other tasks elsewhere with --store sqlite:FILE "
        "(this is %s)",
        (int)strcspn(why.message, ";:"), why.message, run->store);
}

/* New files of the store are for this user alone: payloads may be secret. The library makes them as
 * the umask says; files that come later get the mode of the database. There is no other thread yet
 * that would make any. */
static int open_store(struct run *run, lw_error *err) {
    const struct lw__serve_config *values = &run->values;
    int commands = (int)run->kinds.count * (int)values->exec_workers;
    mode_t before = umask(077);
    /* one more than commands: it tells what has ended while they run */
    int rc =
        lw_open(&run->engine, run->store,
                LW_ENGINE_OPTIONS(.workers = commands + 1, .task_limit = values->tasks_max,
                                  .byte_limit = values->payloads_max, .overflow = LW_REFUSE,
                                  .kind_count_max = (int)values->kinds_max,
                                  .queue_count_max = (int)values->queues_max, .log = &run->log),
                err);
    umask(before);
    return rc;
}

static int open_engine(struct run *run, lw_error *err) {
    const struct lw__serve_config *values = &run->values;
    int rc = choose_store(run, err);
    if (rc == LW_OK)
        rc = open_store(run, err);
    if (rc == LW_EBUSY)
        rc = explain_owned(run, err);
    if (rc == LW_OK)
        rc = lw__exec_kinds_handle(&run->kinds, &run->exec, run->engine, values->exec_workers,
                                   values->exec_timeout_ms);
    return rc == LW_OK ? lw_start(run->engine, err) : rc;
}

/* ---- commands ------------------------------------------------------------------------------ */

/* The helper is forked here, before there is a thread, a store, or a socket. */
static int open_commands(struct run *run, lw_error *err) {
    const struct lw__serve_config *values = &run->values;
    int rc = lw__exec_kinds_read(&run->kinds, &values->exec, err);
    if (rc < 0 || run->kinds.count == 0)
        return rc;
    struct lw__exec_options options = {
        .commands = run->kinds.commands,
        .command_count = run->kinds.count,
        .running_max = run->kinds.count * (size_t)values->exec_workers,
        .output_max = values->exec_output_max,
        .grace_ms = values->exec_grace_ms,
        .attempts = values->exec_attempts,
        .now_ms = lw__now_ms,
    };
    return lw__exec_open(&run->exec, &options, err);
}

/* ---- serve --------------------------------------------------------------------------------- */

/* Says what of the new settings holds after a restart only. */
static void tell_restarts(const struct lw__config *old, const struct lw__config *config) {
    const struct lw__config_row *row = NULL;
    while ((row = lw__config_differs(old, config, row)))
        fprintf(stderr, "legwork: %s has changed, and needs a restart\n", row->name);
}

/* Limits and timeouts hold at once; where it listens and stores, and its commands, stay. */
static void reload(void *user) {
    struct run *run = user;
    struct lw__config config;
    struct lw__serve_config values;
    bool wants_help = false;
    lw_error err = {.status = LW_ENOMEM, .message = "out of memory"};
    if (read_settings(run, &config, &values, &wants_help, &err) < 0) {
        fprintf(stderr, "legwork: the settings stay as they are: %s\n", err.message);
        lw__config_clear(&config);
        return;
    }
    tell_restarts(&run->config, &config);
    lw__config_clear(&run->config);
    run->config = config;
    run->values = values;
    run->config.values = &run->values;
    lw__server_apply(&run->server);
    fprintf(stderr, "legwork: the settings were read again\n");
}

static void greet(const struct run *run) {
    const struct lw__listener *first = &run->server.listeners[0];
    const char *url = first->is_unix ? "http://localhost" : first->text;
    char curl[LW__LISTENER_TEXT_MAX + 32] = "curl";
    if (first->is_unix)
        snprintf(curl, sizeof curl, "curl --unix-socket %s", first->text + strlen("unix:"));
    for (size_t i = 0; i < run->server.listener_count; i++)
        printf("legwork serves %s\n", run->server.listeners[i].text);
    printf("tasks are kept in %s\n", run->store);
    printf("try, in another terminal:\n");
    printf("  %s -d hello '%s/v1/queues/default/tasks?kind=greet'\n", curl, url);
    printf("  %s -X POST '%s/v1/queues/default/claim?wait=10s'\n", curl, url);
    printf("  %s '%s/v1/tasks'\n", curl, url);
    fflush(stdout);
}

/* A connection is a descriptor: as many as the system lets us have. */
static void raise_descriptors(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur == limit.rlim_max)
        return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

static int serve(struct run *run, lw_error *err) {
    int rc = open_commands(run, err);
    raise_descriptors(); /* for us, not for commands */
    if (rc == LW_OK)
        rc = open_engine(run, err);
    if (rc == LW_OK)
        rc = lw__server_open(&run->server, &run->values, run->engine, &run->log, err);
    if (rc < 0)
        return rc;
    run->server.is_volatile = strncmp(run->store, "memory:", strlen("memory:")) == 0;
    if (run->kinds.count > 0)
        run->server.give_up_ms = run->values.exec_grace_ms + GIVE_UP_MS;
    run->server.on_reload = reload;
    run->server.user = run;
    greet(run);
    rc = lw__server_run(&run->server);
    if (rc == LW_PENDING)
        _exit(LW__EXIT_FAILED); /* what was accepted is on the disk */
    lw__server_close(&run->server);
    if (rc == LW_ETIMEDOUT)
        fprintf(stderr, "legwork: stopped before all that was due had run\n");
    return LW_OK;
}

/* ---- subcommands --------------------------------------------------------------------------- */

static int with_settings(int argc, const char *const *argv, const struct lw__usage *usage,
                         int (*go_on)(struct run *run, lw_error *err)) {
    struct run *run = lw__server_alloc(sizeof *run);
    bool wants_help = false;
    lw_error err = {.status = LW_ENOMEM, .message = "out of memory"};
    if (!run)
        return complain(&err);
    run->argc = argc;
    run->argv = argv;
    int rc = read_settings(run, &run->config, &run->values, &wants_help, &err);
    run->log = (lw_log){.write = lw_log_print, .level = (lw_log_level)(run->values.log_level + 1)};
    if (rc == LW_OK && wants_help)
        print_help(usage);
    else if (rc == LW_OK)
        rc = go_on(run, &err);
    int code = rc < 0 ? complain(&err) : LW__EXIT_OK;
    if (lw_close(run->engine) == LW_PENDING)
        _exit(LW__EXIT_FAILED); /* a command that nothing can end has its thread here */
    lw__exec_close(&run->exec);
    lw__config_clear(&run->config);
    lw__server_free(run);
    return code;
}

static int show_settings(struct run *run, lw_error *err) {
    lw_error fault = {0};
    const char *store = run->values.store[0] ? run->values.store : "sqlite:";
    int rc = check_values(run, err);
    if (rc == LW_OK)
        print_values(&run->config);
    if (rc == LW_OK && lw_store_has_fault(store, &fault))
        warn(NULL, fault.message);
    return rc;
}

static bool wants_roff(int argc, const char *const *argv) {
    return argc == 1 && strcmp(argv[0], LW__ROFF_FLAG) == 0;
}

int lw__command_serve(int argc, const char *const *argv) {
    static const struct lw__usage usage = {
        .line = "serve [FLAG...]",
        .about =
            "Serves tasks over HTTP in the foreground, kept in one SQLite file, until a signal\n"
            "ends it. It needs no settings at all. Paths and bodies are described by\n"
            "openapi.json and http-api.md of the documentation.",
        .example = "  legwork serve\n  legwork serve --store sqlite:tasks.db --socket legwork.sock",
        .is_local = true};
    return wants_roff(argc, argv) ? lw__page_print_serve(&usage, &lw__serve_table)
                                  : with_settings(argc, argv, &usage, serve);
}

int lw__command_check(int argc, const char *const *argv) {
    static const struct lw__usage usage = {
        .line = "check [FLAG...]",
        .about =
            "Reads the settings of `legwork serve` as that would, from flags, environment and\n"
            "file, and prints what they are and where each is from, or what is wrong. It also\n"
            "warns of a library that has a known fault. It starts nothing. Its flags are those\n"
            "of `legwork serve`.",
        .example = "  legwork check --config legwork.conf",
        .is_local = true};
    return wants_roff(argc, argv) ? lw__page_print_command(&usage)
                                  : with_settings(argc, argv, &usage, show_settings);
}
