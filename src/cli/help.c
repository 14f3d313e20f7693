/* `legwork help` and `legwork version`. */
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/pages.h"
#include "server/serve_config.h"

#include <legwork/version.h>
#include <stdio.h>
#include <string.h>

#define LINE_MAX_BYTES 128

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
    .line = "help [COMMAND [VERB]] [FLAG...]",
    .about = "Prints which commands there are, or all about one of them.",
    .example =
        "  legwork help submit\n  legwork help cron next\n  legwork help --man submit | man -l -\n"
        "  legwork help --sample >legwork.conf",
    .table = {rows, sizeof rows / sizeof *rows},
    .words_max = 2,
    .is_local = true};

static void print_table(const struct lw__command *table) {
    for (; table->name; table++)
        printf("  %-9s %s\n", table->name, table->help);
}

void lw__help_print_verbs(const struct lw__command *owner) {
    printf("usage: legwork %s VERB [FLAG...]\n\n%s\n\n", owner->name, owner->help);
    print_table(owner->verbs);
    printf("\nlegwork help %s VERB says more.\n", owner->name);
}

static void print_commands(void) {
    puts("legwork: background tasks that survive\n\nusage: legwork COMMAND [FLAG...]\n");
    print_table(lw__commands);
    puts("\nto begin: legwork serve, and in another terminal: legwork submit greet hello\n"
         "legwork help COMMAND says more, exit codes included.");
}

static int print_pages(void) {
    puts("legwork.1");
    for (const struct lw__command *one = lw__commands; one->name; one++) {
        printf("legwork-%s.1\n", one->name);
        for (const struct lw__command *verb = one->verbs; verb && verb->name; verb++)
            printf("legwork-%s-%s.1\n", one->name, verb->name);
    }
    puts("legwork.conf.5");
    return LW__EXIT_OK;
}

/* `legwork help CMD` is what `legwork CMD --help` prints; a verb stands behind its command. */
static int print_command(const char *line, const char *flag) {
    size_t size;
    const struct lw__command *command = lw__command_of(line, &size);
    if (command && line[size] == '\0')
        return command->run ? command->run(1, &flag) : lw__command_run(command, 1, &flag);
    char owner[LINE_MAX_BYTES];
    snprintf(owner, sizeof owner, "%.*s", (int)size, line);
    command = size > 0 ? lw__command_of(owner, &size) : NULL;
    if (command && !command->verbs)
        command = NULL; /* "submit now": there are no commands of two words below it */
    return lw__command_refuse(command, command ? line + size + 1 : line);
}

/* A page by its command, or by its own name, with the section or without. */
static int print_page(const char *name) {
    char command[LINE_MAX_BYTES];
    if (strcmp(name, "legwork") == 0 || strcmp(name, "legwork.1") == 0)
        return lw__page_print_legwork();
    if (strcmp(name, "legwork.conf") == 0 || strcmp(name, "legwork.conf.5") == 0)
        return lw__page_print_conf(&lw__serve_table);
    if (strncmp(name, "legwork-", 8) == 0)
        name += 8;
    snprintf(command, sizeof command, "%.*s", (int)strcspn(name, "."), name);
    char *dash = strchr(command, '-');
    if (dash)
        *dash = ' '; /* legwork-cron-next */
    return print_command(command, LW__ROFF_FLAG);
}

static int print_wanted(const struct lw__arguments *arguments, const struct values *values) {
    char line[LINE_MAX_BYTES] = "legwork";
    if (arguments->count > 0)
        snprintf(line, sizeof line, "%s%s%s", arguments->words[0], arguments->count > 1 ? " " : "",
                 arguments->count > 1 ? arguments->words[1] : "");
    if (values->is_sample)
        return lw__page_print_sample(&lw__serve_table);
    if (values->is_list)
        return print_pages();
    if (values->is_man)
        return print_page(line);
    if (arguments->count > 0)
        return print_command(line, "--help");
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
