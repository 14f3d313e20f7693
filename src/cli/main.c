/* `legwork`: finds the subcommand and runs it. */
#include "cli/command.h"

#include <string.h>

const struct lw__command lw__commands[] = {
    {"serve", lw__command_serve, "serve tasks over HTTP, kept in one file"},
    {"check", lw__command_check, "say whether the settings of serve are right, and what they are"},
    {"submit", lw__command_submit, "submit a task, and perhaps wait for its result"},
    {"ls", lw__command_ls, "list tasks"},
    {"show", lw__command_show, "show all about a task, or a resource of a flow"},
    {"explain", lw__command_explain, "say why a task does not run"},
    {"watch", lw__command_watch, "print what happens, line by line"},
    {"flows", lw__command_flows, "list the resources of flows"},
    {"work", lw__command_work, "run a command for every task of a queue"},
    {"retry", lw__command_retry, "run failed or aborted tasks again"},
    {"cancel", lw__command_cancel, "abort tasks, or ask them to give up"},
    {"pause", lw__command_pause, "let no task of a queue start"},
    {"resume", lw__command_resume, "let them start again"},
    {"drain", lw__command_drain, "stop the server when what is due has run"},
    {"bench", lw__command_bench, "measure how fast a server is"},
    {"version", lw__command_version, "print the version"},
    {"help", lw__command_help, "print this, or what a command does"},
};

const size_t lw__command_count = sizeof lw__commands / sizeof *lw__commands;

int main(int argc, char **argv) {
    if (argc < 2) {
        lw__command_help(0, NULL);
        return LW__EXIT_USAGE;
    }
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        name = "help";
    if (strcmp(name, "--version") == 0)
        name = "version";
    for (size_t i = 0; i < lw__command_count; i++)
        if (strcmp(name, lw__commands[i].name) == 0)
            return lw__commands[i].run(argc - 2, (const char *const *)argv + 2);
    return lw__command_refuse(name);
}
