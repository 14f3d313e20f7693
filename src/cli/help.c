/* `legwork help` and `legwork version`. */
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/pages.h"
#include "server/nearest.h"
#include "server/serve_config.h"

#include <legwork/version.h>
#include <stdio.h>
#include <string.h>

int lw__command_refuse(const char *name) {
    struct lw__nearest nearest;
    lw__nearest_init(&nearest, lw__slice_of(name));
    for (size_t i = 0; i < lw__command_count; i++)
        lw__nearest_offer(&nearest, lw__commands[i].name);
    fprintf(stderr, "legwork: there is no command %s; %s%s%s\n",
            lw__slice_show(lw__slice_of(name)).text, nearest.name ? "did you mean " : "see ",
            nearest.name ? nearest.name : "legwork help", nearest.name ? "?" : "");
    return LW__EXIT_USAGE;
}

/* ---- version ------------------------------------------------------------------------------- */

int lw__command_version(int argc, const char *const *argv) {
    static const struct lw__usage own = {
        .line = "version", .about = "Prints the version.", .is_local = true};
    struct lw__arguments arguments;
    struct lw__common common;
    int code = LW__EXIT_OK;
    if (!lw__arguments_read(&arguments, &own, argc, argv, &common, &code))
        return code;
    printf("legwork %s\n", lw_version());
    lw__arguments_clear(&arguments);
    return LW__EXIT_OK;
}

/* ---- help ---------------------------------------------------------------------------------- */

struct values {
    // cppcheck-suppress unusedStructMember
    struct lw__common common; /* which lw__arguments_read wants */
    bool is_man, is_list, is_sample;
};

#define AT(field) .offset = offsetof(struct values, field)
#define SWITCH(field) .type = LW__CONFIG_SWITCH, AT(field), .fallback = "no"

static const struct lw__config_row rows[] = {
    {NULL, "man", SWITCH(is_man),
     .help = "Print it as a man page, in roff; also legwork.conf, for the file of settings."},
    {NULL, "pages", SWITCH(is_list), .help = "Print the names of all man pages."},
    {NULL, "sample", SWITCH(is_sample),
     .help = "Print a file of settings for `legwork serve --config`: every key and its default."}};

static const struct lw__usage usage = {
    .line = "help [COMMAND] [FLAG...]",
    .about = "Prints which commands there are, or all about one of them.",
    .example = "  legwork help submit\n  legwork help --man submit | man -l -\n"
               "  legwork help --sample >legwork.conf",
    .table = {rows, sizeof rows / sizeof *rows},
    .words_max = 1,
    .is_local = true};

static void print_commands(void) {
    puts("legwork: background tasks that survive\n\nusage: legwork COMMAND [FLAG...]\n");
    for (size_t i = 0; i < lw__command_count; i++)
        printf("  %-9s %s\n", lw__commands[i].name, lw__commands[i].help);
    puts("\nto begin: legwork serve, and in another terminal: legwork submit greet hello\n"
         "legwork help COMMAND says more, exit codes included.");
}

static int print_pages(void) {
    puts("legwork.1");
    for (size_t i = 0; i < lw__command_count; i++)
        printf("legwork-%s.1\n", lw__commands[i].name);
    puts("legwork.conf.5");
    return LW__EXIT_OK;
}

/* `legwork help CMD` is what `legwork CMD --help` prints. */
static int print_command(const char *name, const char *flag) {
    for (size_t i = 0; i < lw__command_count; i++)
        if (strcmp(name, lw__commands[i].name) == 0)
            return lw__commands[i].run(1, &flag);
    return lw__command_refuse(name);
}

/* A page by its command, or by its own name, with the section or without. */
static int print_page(const char *name) {
    char command[64];
    if (strcmp(name, "legwork") == 0 || strcmp(name, "legwork.1") == 0)
        return lw__page_print_legwork();
    if (strcmp(name, "legwork.conf") == 0 || strcmp(name, "legwork.conf.5") == 0)
        return lw__page_print_conf(&lw__serve_table);
    if (strncmp(name, "legwork-", 8) == 0)
        name += 8;
    snprintf(command, sizeof command, "%.*s", (int)strcspn(name, "."), name);
    return print_command(command, LW__ROFF_FLAG);
}

static int print_wanted(const struct lw__arguments *arguments, const struct values *values) {
    const char *word = arguments->count > 0 ? arguments->words[0] : NULL;
    if (values->is_sample)
        return lw__page_print_sample(&lw__serve_table);
    if (values->is_list)
        return print_pages();
    if (values->is_man)
        return print_page(word ? word : "legwork");
    if (word)
        return print_command(word, "--help");
    print_commands();
    return LW__EXIT_OK;
}

int lw__command_help(int argc, const char *const *argv) {
    struct lw__arguments arguments;
    struct values values;
    int code = LW__EXIT_OK;
    if (!lw__arguments_read(&arguments, &usage, argc, argv, &values, &code))
        return code;
    code = print_wanted(&arguments, &values);
    lw__arguments_clear(&arguments);
    return code;
}
