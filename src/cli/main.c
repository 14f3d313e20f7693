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
    {"version", run_version, "print the version"},
    {"help", run_help, "print this"},
};

#define COMMANDS (sizeof commands / sizeof *commands)

static int run_version(int argc, const char *const *argv) {
    (void)argc, (void)argv;
    puts("legwork " LEGWORK_VERSION);
    return LW__EXIT_OK;
}

static int run_help(int argc, const char *const *argv) {
    (void)argc, (void)argv;
    puts("legwork: background tasks that survive\n\nusage: legwork COMMAND [FLAG...]\n");
    for (size_t i = 0; i < COMMANDS; i++)
        printf("  %-9s %s\n", commands[i].name, commands[i].help);
    puts("\nlegwork COMMAND --help says more.");
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
    for (size_t i = 0; i < COMMANDS; i++)
        if (strcmp(name, commands[i].name) == 0)
            return commands[i].run(argc - 2, (const char *const *)argv + 2);
    return refuse(name);
}
