/* Man pages. */
#include "cli/pages.h"

#include "cli/command.h"
#include "cli/screen.h"
#include "server/roff.h"

#include <ctype.h>
#include <legwork/version.h>

/* ---- parts --------------------------------------------------------------------------------- */

static void put_upper(struct lw__buffer *out, const char *text) {
    for (; *text; text++) {
        if (*text == '-')
            lw__buffer_put_text(out, "\\-");
        else
            lw__buffer_put_byte(out, (char)toupper((unsigned char)*text));
    }
}

/* The head, and what it is in a line. */
static void put_title(struct lw__buffer *out, const char *name, int section, const char *what) {
    lw__buffer_put_text(out,
                        ".\\\" made by `legwork help --man` from the tables of the command\n.TH ");
    put_upper(out, name);
    lw__buffer_print(out, " %d " LEGWORK_DATE " \"legwork " LW_VERSION "\" Legwork\n", section);
    lw__buffer_put_text(out, ".SH NAME\n");
    lw__roff_put(out, name);
    lw__buffer_put_text(out, " \\- ");
    lw__roff_put(out, what);
    lw__buffer_put_byte(out, '\n');
}

static void put_section(struct lw__buffer *out, const char *name, const char *text) {
    lw__buffer_print(out, ".SH %s\n", name);
    lw__roff_put(out, text);
    lw__buffer_put_byte(out, '\n');
}

static void put_term(struct lw__buffer *out, const char *term, const char *text) {
    lw__buffer_put_text(out, ".TP\n\\fB");
    lw__roff_put(out, term);
    lw__buffer_put_text(out, "\\fR\n");
    lw__roff_put(out, text);
    lw__buffer_put_byte(out, '\n');
}

/* Lines as they are. */
static void put_lines(struct lw__buffer *out, const char *text) {
    lw__buffer_put_text(out, ".nf\n");
    lw__roff_put_lines(out, text);
    lw__buffer_put_text(out, "\n.fi\n");
}

static void put_reference(struct lw__buffer *out, const char *name, int section, bool is_last) {
    lw__buffer_put_text(out, ".BR ");
    lw__roff_put(out, name);
    lw__buffer_print(out, " (%d)%s\n", section, is_last ? "" : ",");
}

static void put_see_also(struct lw__buffer *out, const char *own) {
    static const struct {
        const char *name;
        int section;
    } pages[] = {{"legwork", 1}, {"legwork-serve", 1}, {"legwork-submit", 1}, {"legwork.conf", 5}};
    size_t count = sizeof pages / sizeof *pages;
    size_t last = strcmp(own, pages[count - 1].name) == 0 ? count - 2 : count - 1;
    lw__buffer_put_text(out, ".SH SEE ALSO\n");
    for (size_t i = 0; i <= last; i++)
        if (strcmp(own, pages[i].name) != 0)
            put_reference(out, pages[i].name, pages[i].section, i == last);
}

static void put_exits(struct lw__buffer *out, bool is_local) {
    static const char *const texts[] = {
#define EXIT_TEXT(constant, number, text) text,
        LW__EXIT_MAP(EXIT_TEXT)
#undef EXIT_TEXT
    };
    size_t count = is_local ? LW__EXIT_USAGE + 1 : sizeof texts / sizeof *texts;
    lw__buffer_put_text(out, ".SH EXIT STATUS\n");
    for (size_t i = 0; i < count; i++)
        lw__buffer_print(out, ".TP\n%zu\n%s\n", i, texts[i]);
}

static int print(struct lw__buffer *page) {
    int status = page->status;
    lw__page_print(page, stdout);
    return status < 0 || ferror(stdout) ? LW__EXIT_FAILED : LW__EXIT_OK;
}

/* ---- a command ----------------------------------------------------------------------------- */

/* The page of a usage's command: legwork-submit, legwork-cron-next. */
struct page_name {
    char text[64];
};

static struct page_name page_of(const struct lw__usage *usage) {
    struct page_name name;
    size_t size;
    lw__command_of(usage->line, &size);
    snprintf(name.text, sizeof name.text, "legwork-%.*s", (int)size, usage->line);
    for (char *at = name.text; *at; at++)
        *at = *at == ' ' ? '-' : *at;
    return name;
}

/* "retry ID... | retry --all [FLAG...]" is two lines. */
static void put_synopsis(struct lw__buffer *out, const char *line) {
    lw__buffer_put_text(out, ".SH SYNOPSIS\n");
    for (bool is_first = true; *line; is_first = false) {
        const char *stop = strstr(line, " | ");
        size_t size = stop ? (size_t)(stop - line) : strlen(line);
        lw__buffer_put_text(out, is_first ? "\\fBlegwork\\fR " : ".br\n\\fBlegwork\\fR ");
        lw__roff_put_synopsis(out, (struct lw__slice){line, size});
        lw__buffer_put_byte(out, '\n');
        line += size + (stop ? 3 : 0);
    }
}

static void put_option(struct lw__buffer *out, const struct lw__config_row *row) {
    lw__buffer_put_text(out, ".TP\n");
    if (row->letter)
        lw__buffer_print(out, "\\fB\\-%c\\fR, ", row->letter);
    lw__buffer_put_text(out, "\\fB\\-\\-");
    lw__roff_put(out, row->name);
    lw__buffer_put_text(out, "\\fR");
    if (row->argument)
        lw__buffer_print(out, " \\fI%s\\fR", row->argument);
    lw__buffer_put_byte(out, '\n');
    lw__roff_put(out, row->help);
    lw__buffer_put_byte(out, '\n');
}

static void put_options(struct lw__buffer *out, const struct lw__usage *usage) {
    lw__buffer_put_text(out, ".SH OPTIONS\n");
    for (size_t i = 0; i < usage->table.count; i++)
        put_option(out, &usage->table.rows[i]);
    put_term(out, "--help", "Print the help, and end.");
}

static void put_environment(struct lw__buffer *out) {
    lw__buffer_put_text(out, ".SH ENVIRONMENT\n");
    put_term(out, "LEGWORK_URL",
             "Whom to ask, without --url. Without both it is " LW__DEFAULT_URL
             ", where `legwork serve` listens by itself.");
    put_term(out, "NO_COLOR", "If it is set and not empty, there are no colours.");
}

static void put_head(struct lw__buffer *out, const struct lw__usage *usage) {
    size_t size;
    put_title(out, page_of(usage).text, 1, lw__command_of(usage->line, &size)->help);
    put_synopsis(out, usage->line);
    put_section(out, "DESCRIPTION", usage->about);
}

static void put_tail(struct lw__buffer *out, const struct lw__usage *usage) {
    put_exits(out, usage->is_local);
    if (usage->example) {
        lw__buffer_put_text(out, ".SH EXAMPLES\n");
        put_lines(out, usage->example);
    }
    put_see_also(out, page_of(usage).text);
}

int lw__page_print_command(const struct lw__usage *usage) {
    struct lw__buffer out;
    lw__page_begin(&out);
    put_head(&out, usage);
    put_options(&out, usage);
    if (!usage->is_local)
        put_environment(&out);
    put_tail(&out, usage);
    return print(&out);
}

/* ---- a command with verbs ------------------------------------------------------------------- */

static void put_commands(struct lw__buffer *out, const char *owner,
                         const struct lw__command *table) {
    char name[64];
    lw__buffer_put_text(out, ".SH COMMANDS\n");
    for (; table->name; table++) {
        snprintf(name, sizeof name, "%s-%s", owner, table->name);
        lw__buffer_put_text(out, ".TP\n");
        put_reference(out, name, 1, true);
        lw__roff_put(out, table->help);
        lw__buffer_put_text(out, ".\n");
    }
}

int lw__page_print_verbs(const struct lw__command *owner) {
    struct lw__buffer out;
    char name[64];
    snprintf(name, sizeof name, "legwork-%s", owner->name);
    lw__page_begin(&out);
    put_title(&out, name, 1, owner->help);
    lw__buffer_put_text(&out, ".SH SYNOPSIS\n\\fBlegwork ");
    lw__roff_put(&out, owner->name);
    lw__buffer_put_text(&out, "\\fR ");
    lw__roff_put_synopsis(&out, lw__slice_of("VERB [FLAG...]"));
    lw__buffer_put_byte(&out, '\n');
    put_commands(&out, name, owner->verbs);
    put_see_also(&out, name);
    return print(&out);
}

/* ---- serve --------------------------------------------------------------------------------- */

static void put_signals(struct lw__buffer *out) {
    lw__buffer_put_text(out, ".SH SIGNALS\n");
    put_term(out, "SIGTERM, SIGINT",
             "Stop: accept nothing more, wait for what runs, end. The second one hurries.");
    put_term(out, "SIGHUP",
             "Read the settings again. Those that need a restart are said to; if they are wrong, "
             "all stay as they are.");
}

static void put_serve_environment(struct lw__buffer *out) {
    lw__buffer_put_text(out,
                        ".SH ENVIRONMENT\nEvery option can be given by the variable beside it. "
                        "These are known besides:\n");
    put_term(out, "STATE_DIRECTORY, XDG_STATE_HOME, HOME",
             "Where the store is, if no option says so: the first of $STATE_DIRECTORY, "
             "$XDG_STATE_HOME/legwork and $HOME/.local/state/legwork that there is.");
    put_term(out, "LISTEN_FDS, LISTEN_PID",
             "Sockets that a service manager hands over; they are listened on instead.");
    put_term(out, "NOTIFY_SOCKET", "Where a service manager wants to hear of the start and stop.");
}

int lw__page_print_serve(const struct lw__usage *usage, const struct lw__config_table *settings) {
    struct lw__buffer out;
    lw__page_begin(&out);
    put_head(&out, usage);
    lw__buffer_put_text(&out, ".SH OPTIONS\n");
    put_term(&out, "--help", "Print the help, and end.");
    lw__config_write_man(settings, &out);
    put_signals(&out);
    put_serve_environment(&out);
    lw__buffer_put_text(&out, ".SH FILES\n");
    put_term(&out, "~/.local/state/legwork/tasks.db", "The store, unless told otherwise.");
    put_tail(&out, usage);
    return print(&out);
}

/* ---- legwork(1) ---------------------------------------------------------------------------- */

static void put_urls(struct lw__buffer *out) {
    put_section(out, "URLS",
                "Commands that look at tasks, submit or steer them ask whom --url names, or else "
                "LEGWORK_URL, or else " LW__DEFAULT_URL ".");
    put_term(out, "http://HOST:PORT, unix:PATH", "A server.");
    put_term(out, "sqlite:FILE",
             "The store itself, without a server: to look as a reader, to submit as a client. Only "
             "`legwork work` owns it, if nobody else does; steering needs the server.");
}

int lw__page_print_legwork(void) {
    struct lw__buffer out;
    lw__page_begin(&out);
    put_title(&out, "legwork", 1, "background tasks that survive");
    lw__buffer_put_text(&out, ".SH SYNOPSIS\n\\fBlegwork\\fR ");
    lw__roff_put_synopsis(&out, lw__slice_of("COMMAND [FLAG...]"));
    lw__buffer_put_byte(&out, '\n');
    put_section(&out, "DESCRIPTION",
                "Programs in any language hand tasks to a server over HTTP, and workers do them: "
                "what was accepted is on the disk, runs at least once, is retried until it is "
                "done, and can be looked at by its id. `legwork serve` is the server; the other "
                "commands submit tasks, look at them and steer them.\n"
                "Output is tables for people, and JSON for scripts with --json. Colours are for "
                "terminals.");
    put_commands(&out, "legwork", lw__commands);
    put_urls(&out);
    put_environment(&out);
    put_term(&out, "LEGWORK_...", "The settings of `legwork serve`.");
    put_exits(&out, false);
    lw__buffer_put_text(&out, ".SH EXAMPLES\n");
    put_lines(&out, "legwork serve\n"
                    "legwork submit send-email '{\"to\":\"ann\"}' --key order-17\n"
                    "legwork ls --state failed\n"
                    "legwork show 17");
    put_see_also(&out, "legwork");
    return print(&out);
}

/* ---- legwork.conf(5) ------------------------------------------------------------------------ */

int lw__page_print_conf(const struct lw__config_table *settings) {
    struct lw__buffer out;
    lw__page_begin(&out);
    put_title(&out, "legwork.conf", 5, "the settings of legwork serve");
    put_section(&out, "DESCRIPTION",
                "`legwork serve --config FILE` reads its settings from a file as well. It has "
                "sections, written as [name], and below them lines of the form key = value. "
                "Comments stand on lines of their own, after # or ;. An indented line goes on "
                "with the value before it.");
    lw__buffer_put_text(&out, ".PP\n");
    lw__roff_put(&out, "Every key is also a flag and a variable: body-max = 1MiB, --body-max 1MiB "
                       "and LEGWORK_BODY_MAX=1MiB are one. Flags win over the environment, and "
                       "that over the file. What is not known is refused, and the nearest name "
                       "that is known is told; `legwork check --config FILE` tells without "
                       "starting anything, and prints what holds and where it is from.");
    lw__buffer_put_text(&out, "\n.PP\n");
    lw__roff_put(&out, "Durations are written as 250ms, 30s, 5m, 1h30m or 7d; sizes in bytes, or "
                       "as 64KiB, 16MiB or 1GiB; switches as yes or no.\n");
    lw__buffer_put_text(&out, ".PP\n");
    lw__roff_put(&out, "SIGHUP makes the server read all of it again. What is changed holds at "
                       "once, but for what needs a restart.\n");
    lw__buffer_put_text(&out, ".SH KEYS\n");
    lw__config_write_man_file(settings, &out);
    lw__buffer_put_text(&out, ".SH EXAMPLES\n");
    put_lines(&out, "[server]\nlisten = 127.0.0.1:7411\nstore = sqlite:/var/lib/legwork/tasks.db\n"
                    "[limits]\nbody-max = 1MiB");
    lw__buffer_put_text(&out, ".PP\n");
    lw__roff_put(&out, "`legwork help --sample` prints a file with every key and its default.\n");
    put_see_also(&out, "legwork.conf");
    return print(&out);
}

int lw__page_print_sample(const struct lw__config_table *settings) {
    struct lw__buffer out;
    lw__page_begin(&out);
    lw__config_write_sample(settings, &out);
    return print(&out);
}
