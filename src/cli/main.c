/* `legwork`: finds the subcommand and runs it. */
#include "cli/command.h"

#include "server/nearest.h"

#include <stdio.h>
#include <string.h>

static int run_help(int argc, const char *const *argv);
static int run_version(int argc, const char *const *argv);

static const struct lw__command commands[] = {
    {"serve", lw__command_serve, "serve tasks over HTTP, kept in one file"},
    {"check", lw__command_check, "say whether the settings of serve are right, and what they are"},
    {"submit", lw__command_submit, "submit a task, and perhaps wait for its result"},
    {"ls", lw__command_ls, "list tasks"},
    {"show", lw__command_show, "show all about a task: timeline, errors, result"},
    {"explain", lw__command_explain, "say why a task does not run"},
    {"watch", lw__command_watch, "print what happens, line by line"},
    {"retry", lw__command_retry, "run failed or aborted tasks again"},
    {"cancel", lw__command_cancel, "abort tasks, or ask them to give up"},
    {"pause", lw__command_pause, "let no task of a queue start"},
    {"resume", lw__command_resume, "let them start again"},
    {"drain", lw__command_drain, "stop the server when what is due has run"},
    {"bench", lw__command_bench, "measure how fast a server is"},
    {"version", run_version, "print the version"},
    {"help", run_help, "print this, or what a command does"},
};

#define COMMANDS (sizeof commands / sizeof *commands)

static int run_version(int argc, const char *const *argv) {
    (void)argc, (void)argv;
    puts("legwork " LEGWORK_VERSION);
    return LW__EXIT_OK;
}

static const struct lw__command *find(const char *name) {
    for (size_t i = 0; i < COMMANDS; i++)
        if (strcmp(name, commands[i].name) == 0)
            return &commands[i];
    return NULL;
}

static int refuse(const char *name);

/* `legwork help CMD` is what `legwork CMD --help` prints. */
static int run_help(int argc, const char *const *argv) {
    static const char *const help[] = {"--help"};
    const struct lw__command *command = argc > 0 ? find(argv[0]) : NULL;
    if (argc > 0 && !command)
        return refuse(argv[0]);
    if (command && command->run != run_help && command->run != run_version)
        return command->run(1, help);
    puts("legwork: background tasks that survive\n\nusage: legwork COMMAND [FLAG...]\n");
    for (size_t i = 0; i < COMMANDS; i++)
        printf("  %-9s %s\n", commands[i].name, commands[i].help);
    puts("\nto begin: legwork serve, and in another terminal: legwork submit greet hello\n"
         "legwork help COMMAND says more, exit codes included.");
    return LW__EXIT_OK;
}

static int refuse(const char *name) {
    struct lw__nearest nearest;
    lw__nearest_init(&nearest, lw__slice_of(name));
    for (size_t i = 0; i < COMMANDS; i++)
        lw__nearest_offer(&nearest, commands[i].name);
    fprintf(stderr, "legwork: there is no command %s; %s%s\n",
            lw__slice_show(lw__slice_of(name)).text, nearest.name ? "did you mean " : "see ",
            nearest.name ? nearest.name : "legwork help");
    return LW__EXIT_USAGE;
}

int main(int argc, char **argv) {
    if (argc < 2) {
        run_help(0, NULL);
        return LW__EXIT_USAGE;
    }
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        name = "help";
    if (strcmp(name, "--version") == 0)
        name = "version";
    const struct lw__command *command = find(name);
    return command ? command->run(argc - 2, (const char *const *)argv + 2) : refuse(name);
}
