/* site-manager: a small service that creates and deletes web sites, over HTTP.
 *
 * main.c wires the parts: api (HTTP) on service (what can be asked; steps.c: what is done) on repo
 * (rows) and disk (folders and databases of sites). README.md tells the story.
 */
#include "api.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FOLDER = 1, PORT, WORKERS, LIMIT, RETRY, SLOW, FAIL, DIE, SEED, UNFENCED, DRAW, HELP };

struct settings {
    struct service_options service;
    uint16_t port;
    bool must_draw;
};

static const struct choice {
    int number;
    const char *name, *value, *help;
    long long max;
} choices[] = {
    {FOLDER, "folder", "PATH", "where everything is kept (./sites)", 0},
    {PORT, "port", "N", "of 127.0.0.1; 0: any (8080)", 65535},
    {WORKERS, "workers", "N", "steps that run at once (4)", 1000},
    {LIMIT, "task-limit", "N", "steps that may wait; more is answered with 503 (10000)", 1000000},
    {RETRY, "retry-ms", "N", "first wait before a step is tried again (1000)", 3600000},
    {SLOW, "slow", "MS", "for tests: steps take up to this long at several points", 60000},
    {FAIL, "fail", "PERCENT", "for tests: they fail at so many of these points", 100},
    {DIE, "die", "PERMILLE", "for tests: the process dies at so many of them", 1000},
    {SEED, "seed", "N", "for tests: of this chance (0)", LLONG_MAX},
    {UNFENCED, "unfence", NULL, "for tests: a delete does not wait for what still creates", 0},
    {DRAW, "dot", NULL, "prints the flow for Graphviz, and ends", 0},
    {HELP, "help", NULL, "prints this", 0},
};
enum { CHOICES = sizeof choices / sizeof *choices };

static void print_help(void) {
    puts("usage: site-manager [option...]");
    for (size_t i = 0; i < CHOICES; i++)
        printf("  --%s %-*s %s\n", choices[i].name, (int)(20 - strlen(choices[i].name)),
               choices[i].value ? choices[i].value : "", choices[i].help);
}

static bool read_number(const struct choice *choice, const char *text, long long *number) {
    char *end;
    errno = 0;
    *number = strtoll(text, &end, 10);
    if (!errno && *text && !*end && *number >= 0 && *number <= choice->max)
        return true;
    fprintf(stderr, "site-manager: --%s has to be a number from 0 to %lld, not \"%s\"\n",
            choice->name, choice->max, text);
    return false;
}

static bool set(struct settings *settings, const struct choice *choice, const char *text) {
    struct service_options *service = &settings->service;
    long long number = 0;
    if (choice->max > 0 && !read_number(choice, text, &number))
        return false;
    switch (choice->number) {
    case FOLDER: service->folder = text; break;
    case PORT: settings->port = (uint16_t)number; break;
    case WORKERS: service->workers = (int)number; break;
    case LIMIT: service->task_limit = number; break;
    case RETRY: service->first_retry_ms = number; break;
    case SLOW: service->slow_ms = (int)number; break;
    case FAIL: service->fail_percent = (int)number; break;
    case DIE: service->die_permille = (int)number; break;
    case SEED: service->seed = (uint64_t)number; break;
    case UNFENCED: service->is_unfenced = true; break;
    case DRAW: settings->must_draw = true; break;
    case HELP: print_help(); exit(EXIT_SUCCESS);
    }
    return true;
}

static bool read_settings(struct settings *settings, int argc, char **argv) {
    struct option options[CHOICES + 1] = {0};
    for (size_t i = 0; i < CHOICES; i++)
        options[i] =
            (struct option){choices[i].name, choices[i].value ? required_argument : no_argument,
                            NULL, choices[i].number};
    for (int number; (number = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (number == '?' || !set(settings, &choices[number - 1], optarg))
            return false;
    }
    return optind == argc;
}

static int draw(void) {
    struct text dot = {0};
    lw_error err;
    int rc = service_draw(&dot, &err);
    if (rc < 0)
        fprintf(stderr, "site-manager: %s\n", err.message);
    else
        fputs(dot.bytes, stdout);
    free(dot.bytes);
    return rc < 0;
}

/* Until somebody says enough. All threads have these signals blocked. */
static int serve(const struct settings *settings, const sigset_t *enough) {
    struct service *service;
    lw_error err;
    int signal_number, rc = EXIT_FAILURE;
    if (service_open(&service, &settings->service, &err) < 0) {
        fprintf(stderr, "site-manager: %s\n", err.message);
        return rc;
    }
    struct api *api = api_open(service, settings->port);
    if (api) {
        printf("http://127.0.0.1:%d/sites\n", api_port(api));
        fflush(stdout);
        sigwait(enough, &signal_number);
        rc = EXIT_SUCCESS;
    } else {
        fprintf(stderr, "site-manager: cannot serve on port %d: %s\n", settings->port,
                strerrordesc_np(errno));
    }
    api_close(api);
    service_close(service);
    return rc;
}

int main(int argc, char **argv) {
    struct settings settings = {.service.folder = "./sites", .port = 8080};
    sigset_t enough;
    if (!read_settings(&settings, argc, argv))
        return fputs("site-manager --help says how\n", stderr), EXIT_FAILURE;
    if (settings.must_draw)
        return draw();
    sigemptyset(&enough);
    sigaddset(&enough, SIGINT);
    sigaddset(&enough, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &enough, NULL);
    signal(SIGPIPE, SIG_IGN);
    return serve(&settings, &enough);
}
