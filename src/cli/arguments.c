/* Flags and words of a subcommand, and its help. */
#include "cli/arguments.h"

#include "cli/command.h"
#include "cli/pages.h"
#include "server/memory.h"
#include "server/refuse.h"

#include <stdio.h>
#include <stdlib.h>

#define FLAG_WIDTH 22
#define HELP_WIDTH 79

/* ---- help ---------------------------------------------------------------------------------- */

static void print_wrapped(const char *text, int margin) {
    int column = margin;
    while (*text) {
        int size = (int)strcspn(text, " ");
        if (column > margin && column + 1 + size > HELP_WIDTH) {
            printf("\n%*s", margin, "");
            column = margin;
        }
        printf("%s%.*s", column > margin ? " " : "", size, text);
        column += size + (column > margin);
        text += size + (text[size] == ' ');
    }
    putchar('\n');
}

static void print_row(const struct lw__config_row *row) {
    char flag[LW__CONFIG_NAME_MAX + 64];
    char letter[8] = "";
    if (row->letter)
        snprintf(letter, sizeof letter, "-%c, ", row->letter);
    int width = snprintf(flag, sizeof flag, "  %s--%s%s%s", letter, row->name,
                         row->argument ? " " : "", row->argument ? row->argument : "");
    printf("%-*s", FLAG_WIDTH, flag);
    if (width >= FLAG_WIDTH)
        printf("\n%*s", FLAG_WIDTH, "");
    print_wrapped(row->help, FLAG_WIDTH);
}

/* "exit codes: 0 done, 1 did not work, ..." */
static void print_exits(bool is_local) {
#define EXIT_TEXT(constant, number, text) #number " " text,
    static const char *const texts[] = {LW__EXIT_MAP(EXIT_TEXT)};
#undef EXIT_TEXT
    size_t count = is_local ? LW__EXIT_USAGE + 1 : sizeof texts / sizeof *texts;
    char line[512] = "exit codes:";
    size_t at = strlen(line);
    for (size_t i = 0; i < count; i++)
        at += (size_t)snprintf(line + at, sizeof line - at, "%s %s", i > 0 ? "," : "", texts[i]);
    putchar('\n');
    print_wrapped(line, 0);
}

static void print_help(const struct lw__usage *usage) {
    printf("usage: legwork %s\n\n%s\n\n", usage->line, usage->about);
    for (size_t i = 0; i < usage->table.count; i++)
        print_row(&usage->table.rows[i]);
    if (!usage->is_local)
        puts("\nWithout --url, LEGWORK_URL says whom to ask, and else it is\n" LW__DEFAULT_URL
             ", where `legwork serve` listens by itself.");
    if (usage->example)
        printf("\nfor example:\n%s\n", usage->example);
    print_exits(usage->is_local);
}

/* ---- reading ------------------------------------------------------------------------------- */

struct long_flag {
    char text[LW__CONFIG_NAME_MAX + 3];
};

/* Of "-n" the name, "--count"; "" if no flag has that letter. */
static struct long_flag long_flag_of(const struct lw__usage *usage, const char *word) {
    struct long_flag flag = {""};
    for (size_t i = 0; i < usage->table.count && word[2] == '\0'; i++)
        if (usage->table.rows[i].letter == word[1])
            snprintf(flag.text, sizeof flag.text, "--%s", usage->table.rows[i].name);
    return flag;
}

static bool takes_value(const struct lw__usage *usage, const char *flag) {
    if (strchr(flag, '='))
        return false;
    for (size_t i = 0; i < usage->table.count; i++)
        if (strcmp(usage->table.rows[i].name, flag + 2) == 0)
            return usage->table.rows[i].type != LW__CONFIG_SWITCH;
    return false;
}

static int add_word(struct lw__arguments *arguments, const struct lw__usage *usage,
                    const char *word, lw_error *err) {
    if (arguments->count == usage->words_max || arguments->count == LW__WORDS_MAX)
        return lw__refuse(err, LW_EINVAL, "%s is one too many: legwork %s",
                          lw__slice_show(lw__slice_of(word)).text, usage->line);
    arguments->words[arguments->count++] = word;
    return LW_OK;
}

/* A flag, and its value if that is the next word; *at becomes the index behind them. */
static int read_flag(struct lw__arguments *arguments, const struct lw__usage *usage, int argc,
                     const char *const *argv, int *at, bool *wants_help, lw_error *err) {
    struct long_flag flag = long_flag_of(usage, argv[*at]);
    const char *pair[2] = {flag.text[0] ? flag.text : argv[*at], NULL};
    int size = 1, used = 0;
    if (takes_value(usage, pair[0]) && *at + 1 < argc)
        pair[size++] = argv[*at + 1];
    *at += size;
    return lw__config_flags(&arguments->config, size, pair, &used, wants_help, err);
}

/* Flags one by one, because words may stand between them. */
static int read_all(struct lw__arguments *arguments, const struct lw__usage *usage, int argc,
                    const char *const *argv, bool *wants_help, lw_error *err) {
    bool is_over = false;
    int rc = LW_OK;
    for (int at = 0; at < argc && rc == LW_OK && !*wants_help;) {
        const char *word = argv[at];
        if (is_over || word[0] != '-' || word[1] == '\0') {
            rc = add_word(arguments, usage, word, err);
            at++;
        } else if (strcmp(word, "--") == 0) {
            is_over = true;
            at++;
        } else {
            rc = read_flag(arguments, usage, argc, argv, &at, wants_help, err);
        }
    }
    if (rc == LW_OK && !*wants_help && arguments->count < usage->words_min)
        return lw__refuse(err, LW_EINVAL, "something is missing: legwork %s", usage->line);
    return rc;
}

static void choose_url(struct lw__common *common) {
    const char *given = getenv("LEGWORK_URL");
    if (!common->url[0])
        common->url = given && given[0] ? given : LW__DEFAULT_URL;
}

bool lw__arguments_read(struct lw__arguments *arguments, const struct lw__usage *usage, int argc,
                        const char *const *argv, void *values, int *code) {
    lw_error err = {.status = LW_ENOMEM, .message = "out of memory"};
    bool wants_help = false;
    arguments->count = 0;
    if (argc == 1 && strcmp(argv[0], LW__ROFF_FLAG) == 0) {
        *code = lw__page_print_command(usage);
        return false;
    }
    *(struct lw__common *)values = (struct lw__common){.url = ""};
    int rc = lw__config_init(&arguments->config, &usage->table, values, &lw__server_memory);
    if (rc == LW_OK)
        rc = read_all(arguments, usage, argc, argv, &wants_help, &err);
    if (rc == LW_OK && !wants_help) {
        choose_url(values);
        return true;
    }
    size_t size;
    lw__command_of(usage->line, &size);
    *code = rc < 0 ? LW__EXIT_USAGE : LW__EXIT_OK;
    if (rc < 0)
        fprintf(stderr, "legwork: %s\nlegwork help %.*s tells more\n", err.message, (int)size,
                usage->line);
    else
        print_help(usage);
    lw__config_clear(&arguments->config);
    return false;
}

void lw__arguments_clear(struct lw__arguments *arguments) {
    lw__config_clear(&arguments->config);
}

int lw__id_read(const char *text, unsigned long long *id, lw_error *err) {
    *id = 0;
    size_t size = strspn(text, "0123456789");
    if (size > 0 && size < 17 && text[size] == '\0')
        *id = strtoull(text, NULL, 10);
    if (*id > 0)
        return LW_OK;
    return lw__refuse(err, LW_EINVAL, "%s is no id of a task: legwork ls shows them",
                      lw__slice_show(lw__slice_of(text)).text);
}
