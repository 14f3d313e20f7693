/* `legwork`: finds the subcommand and runs it. */
#include "cli/command.h"

#include <string.h>

const struct lw__command lw__commands[] = {
    {"serve", lw__command_serve, "serve tasks over HTTP, kept in one file", NULL},
    {"check", lw__command_check, "say whether the settings of serve are right, and what they are",
     NULL},
    {"submit", lw__command_submit, "submit a task, and perhaps wait for its result", NULL},
    {"ls", lw__command_ls, "list tasks", NULL},
    {"show", lw__command_show, "show all about a task, or a resource of a flow", NULL},
    {"explain", lw__command_explain, "say why a task does not run", NULL},
    {"watch", lw__command_watch, "print what happens, line by line", NULL},
    {"cron", NULL, "schedules: what a calendar submits", lw__cron_verbs},
    {"flows", lw__command_flows, "list the resources of flows", NULL},
    {"work", lw__command_work, "run a command for every task of a queue", NULL},
    {"retry", lw__command_retry, "run failed or aborted tasks again", NULL},
    {"cancel", lw__command_cancel, "abort tasks, or ask them to give up", NULL},
    {"pause", lw__command_pause, "let no task of a queue start", NULL},
    {"resume", lw__command_resume, "let them start again", NULL},
    {"drain", lw__command_drain, "stop the server when what is due has run", NULL},
    {"bench", lw__command_bench, "measure how fast a server is", NULL},
    {"version", lw__command_version, "print the version", NULL},
    {"help", lw__command_help, "print this, or what a command does", NULL},
    {0},
};

int main(int argc, char **argv) {
    if (argc < 2) {
        lw__command_help(0, NULL);
        return LW__EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        return lw__command_help(argc - 2, (const char *const *)argv + 2);
    if (strcmp(argv[1], "--version") == 0)
        return lw__command_version(argc - 2, (const char *const *)argv + 2);
    return lw__command_run(NULL, argc - 1, (const char *const *)argv + 1);
}
