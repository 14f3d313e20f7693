/* Settings from flags, environment, file and defaults, and all that is printed of their table. */
#include "test.h"

#include "server/serve_config.h"

#include <errno.h>
#include <legwork/testing.h>
#include <stdio.h>
#include <stdlib.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

/* A table with a row of every type. */
struct settings {
    const char *file, *name;
    int64_t count, wait_ms, size;
    bool is_loud;
    int level;
    struct lw__config_list list;
};

static const char *const levels[] = {"low", "high", NULL};

#define AT(field) .offset = offsetof(struct settings, field)
static const struct lw__config_row rows[] = {
    {NULL, "file", LW__CONFIG_TEXT, AT(file), .fallback = "", .argument = "FILE",
     .help = "A file."},
    {"one", "name", LW__CONFIG_TEXT, AT(name), .fallback = "none", .argument = "NAME",
     .help = "A name that is long enough to make two lines of help, which is what this sentence "
             "is for."},
    {"one", "item-count", LW__CONFIG_COUNT, AT(count), .fallback = "5", .argument = "N", .min = 1,
     .max = 10, .help = "How many."},
    {"one", "wait", LW__CONFIG_DURATION, AT(wait_ms), .fallback = "5s", .argument = "DURATION",
     .min = 1000, .max = 60000, .help = "How long."},
    {"two", "size-max", LW__CONFIG_SIZE, AT(size), .fallback = "1KiB", .argument = "SIZE", .min = 1,
     .max = 1 << 20, .help = ".How large\\small."},
    {"two", "loud", LW__CONFIG_SWITCH, AT(is_loud), .fallback = "no", .help = "Whether."},
    {"two", "level", LW__CONFIG_CHOICE, AT(level), .fallback = "low", .choices = levels,
     .help = "Which."},
    {"two", "exec", LW__CONFIG_LIST, AT(list), .argument = "KIND=COMMAND", .help = "Commands."},
};
static const char *const others[] = {"LEGWORK_URL", NULL};
static const struct lw__config_table table = {rows, COUNT_OF(rows)};

static lw_test_memory *memory;
static struct settings settings;
static struct lw__config config;

static void open_config(void) {
    assert_status(lw_test_memory_open(&memory), LW_OK);
    memset(&settings, 0xa5, sizeof settings);
    assert_status(lw__config_init(&config, &table, &settings, lw_test_memory_allocator(memory)),
                  LW_OK);
    config.others = others;
}

static void close_config(void) {
    lw__config_clear(&config);
    lw_test_memory_close(memory); /* asserts that all is freed */
}

#define FLAGS(...) \
    read_flags((const char *const[]){__VA_ARGS__}, COUNT_OF(((const char *const[]){__VA_ARGS__})))
static int rest;
static bool wants_help;

static const char *read_flags(const char *const *argv, size_t argc) {
    static lw_error err;
    err = (lw_error){0};
    int status = lw__config_flags(&config, (int)argc, argv, &rest, &wants_help, &err);
    assert_status(status, err.status);
    return err.message;
}

static const char *read_text(const char *text) {
    static lw_error err;
    err = (lw_error){0};
    char *block = malloc(strlen(text) + 1); /* without its zero, to see that nobody reads it */
    memcpy(block, text, strlen(text));
    struct lw__slice slice = {block, strlen(text)};
    int status = lw__config_text(&config, "x.conf", slice, &err);
    assert_status(status, err.status);
    free(block);
    return err.message;
}

static char warning[300];

static void note_warning(void *user, const char *sentence) {
    assert_ptr_equal(user, warning);
    snprintf(warning, sizeof warning, "%s", sentence);
}

#define ENVIRONMENT(...) read_environment((const char *const[]){__VA_ARGS__, NULL})
static const char *read_environment(const char *const *environment) {
    static lw_error err;
    err = (lw_error){0};
    warning[0] = 0;
    int status = lw__config_environment(&config, environment, note_warning, warning, &err);
    assert_status(status, err.status);
    return err.message;
}

/* ---- values --------------------------------------------------------------------------------- */

TEST(without_settings_there_are_the_defaults) {
    open_config();
    assert_string_equal(settings.name, "none");
    assert_string_equal(settings.file, "");
    assert_int_equal(settings.count, 5);
    assert_int_equal(settings.wait_ms, 5000);
    assert_int_equal(settings.size, 1024);
    assert_int_equal(settings.level, 0);
    CHECK(!settings.is_loud);
    assert_int_equal(settings.list.count, 0);
    close_config();
}

TEST(the_same_row_is_a_flag_a_variable_and_a_key) {
    open_config();
    assert_string_equal(read_text("[two]\nsize-max = 2KiB\n"), "");
    assert_int_equal(settings.size, 2048);
    assert_string_equal(ENVIRONMENT("HOME=/", "LEGWORK_SIZE_MAX=3KiB", "LEGWORKER=1"), "");
    assert_int_equal(settings.size, 3072);
    assert_string_equal(FLAGS("--size-max", "4KiB"), "");
    assert_int_equal(settings.size, 4096);
    assert_string_equal(FLAGS("--size-max=5KiB"), "");
    assert_int_equal(settings.size, 5120);
    close_config();
}

TEST(flags_win_over_the_environment_and_that_over_the_file_in_any_order) {
    open_config();
    assert_string_equal(FLAGS("--name=flag", "--exec", "a=1", "--exec=b=2"), "");
    assert_string_equal(ENVIRONMENT("LEGWORK_NAME=env", "LEGWORK_LEVEL=high", "LEGWORK_EXEC=c=3"),
                        "");
    assert_string_equal(
        read_text("[one]\nname = file\nwait = 9s\n[two]\nlevel = low\nexec = d=4\n"), "");
    assert_string_equal(settings.name, "flag");
    assert_int_equal(settings.level, 1);
    assert_int_equal(settings.wait_ms, 9000);
    assert_int_equal(settings.list.count, 2);
    assert_string_equal(settings.list.items[0], "a=1");
    assert_string_equal(settings.list.items[1], "b=2");
    assert_int_equal(config.sources[1], LW__CONFIG_FLAG);
    assert_int_equal(config.sources[2], LW__CONFIG_DEFAULT);
    assert_int_equal(config.sources[3], LW__CONFIG_FILE);
    assert_int_equal(config.sources[6], LW__CONFIG_ENVIRONMENT);
    close_config();
    open_config();
    assert_string_equal(read_text("[two]\nexec = d=4\nexec = e=5\n"), "");
    assert_int_equal(settings.list.count, 2);
    assert_string_equal(FLAGS("--exec=f=6"), "");
    assert_int_equal(settings.list.count, 1);
    assert_string_equal(settings.list.items[0], "f=6");
    close_config();
}

TEST(a_value_that_loses_is_checked_all_the_same) {
    open_config();
    assert_string_equal(FLAGS("--wait=7s"), "");
    assert_string_equal(read_text("[one]\nwait = 7\n"),
                        "x.conf:2: wait: \"7\" is no duration; write 30s, 250ms, 5m, 1h30m or 7d "
                        "(at most 3181d)");
    close_config();
}

TEST(values_out_of_shape_or_range_are_refused_with_what_would_do) {
    open_config();
    assert_string_equal(FLAGS("--item-count=0"), "--item-count: \"0\" is not from 1 to 10");
    assert_string_equal(FLAGS("--item-count=11"), "--item-count: \"11\" is not from 1 to 10");
    assert_string_equal(FLAGS("--item-count=x"), "--item-count: \"x\" is no whole number");
    assert_string_equal(FLAGS("--item-count="), "--item-count: \"\" is no whole number");
    assert_string_equal(FLAGS("--item-count=-1"), "--item-count: \"-1\" is no whole number");
    assert_string_equal(FLAGS("--item-count=99999999999999999999"),
                        "--item-count: \"99999999999999999999\" is no whole number");
    assert_string_equal(FLAGS("--wait=999ms"), "--wait: \"999ms\" is not from 1s to 1m");
    assert_string_equal(FLAGS("--size-max=2MiB"), "--size-max: \"2MiB\" is not from 1 to 1MiB");
    assert_string_equal(FLAGS("--level=middle"), "--level: \"middle\" is none of low, high");
    assert_string_equal(FLAGS("--loud=maybe"), "--loud: \"maybe\" is neither yes nor no");
    assert_string_equal(FLAGS("--name=a\nb"), "--name: \"a\\x0ab\" has the control byte 0x0a");
    assert_string_equal(ENVIRONMENT("LEGWORK_LOUD=maybe"),
                        "LEGWORK_LOUD: \"maybe\" is neither yes nor no");
    assert_int_equal(settings.count, 5);
    close_config();
}

/* ---- names ---------------------------------------------------------------------------------- */

TEST(a_wrong_name_tells_the_nearest_right_one) {
    open_config();
    assert_string_equal(FLAGS("--item-cuont=1"),
                        "--item-cuont is not known; did you mean --item-count?");
    assert_string_equal(FLAGS("--item_count", "1"),
                        "--item_count is not known; did you mean --item-count?");
    assert_string_equal(FLAGS("--zzz"), "--zzz is not known; --help tells what is");
    assert_string_equal(FLAGS("-x"), "-x is not known; --help tells what is");
    assert_string_equal(FLAGS("--no-name"), "--no-name is not known; --help tells what is");
    assert_string_equal(read_text("[one]\n\nnmae = x\n"),
                        "x.conf:3: the key \"nmae\" is not known; did you mean \"name\"?");
    assert_string_equal(
        read_text("[one]\nfile = x\n"),
        "x.conf:2: the key \"file\" is not known; [one] has name, item-count, wait");
    assert_string_equal(read_text("file = x\n"), "x.conf:1: the key \"file\" is not known");
    close_config();
}

TEST(a_section_is_known_too) {
    open_config();
    assert_string_equal(read_text("[tow]\n"),
                        "x.conf:1: the section [tow] is not known; did you mean [two]?");
    assert_string_equal(read_text("# fine\n[zzzz]\n"),
                        "x.conf:2: the section [zzzz] is not known; there are one, two");
    assert_string_equal(read_text("[two]\nname = x\n"),
                        "x.conf:2: \"name\" belongs into the section [one]");
    assert_string_equal(read_text("name = x\n"),
                        "x.conf:1: \"name\" belongs into the section [one]");
    assert_string_equal(read_text("[one\nname = x\n"), "x.conf:1: a section is written as [name]");
    assert_string_equal(read_text("[one]\nname = x\nname = x\n"),
                        "x.conf:3: \"name\" is there twice");
    close_config();
}

/* Others put names into the environment, too. */
TEST(a_variable_that_is_not_known_is_a_warning) {
    open_config();
    assert_string_equal(ENVIRONMENT("LEGWORK_PORT=tcp://10.0.0.1:80", "LEGWORK_NAME=x"), "");
    assert_string_equal(warning, "LEGWORK_PORT is not known");
    assert_string_equal(settings.name, "x");
    assert_string_equal(ENVIRONMENT("LEGWORK_SIZEMAX=1"), "");
    assert_string_equal(warning, "LEGWORK_SIZEMAX is not known; did you mean LEGWORK_SIZE_MAX?");
    assert_string_equal(ENVIRONMENT("LEGWORK_WAIT=", "LEGWORK_X="), ""); /* as good as unset */
    assert_string_equal(warning, "");
    assert_string_equal(ENVIRONMENT("LEGWORK_URL=http://localhost:1"), ""); /* somebody else's */
    assert_string_equal(warning, "");
    const char *const unknown[] = {"LEGWORK_X=1", NULL};
    assert_status(lw__config_environment(&config, unknown, NULL, NULL, NULL), LW_OK);
    close_config();
}

/* ---- flags ---------------------------------------------------------------------------------- */

TEST(flags_end_where_something_else_begins) {
    open_config();
    assert_string_equal(FLAGS("--name", "-odd", "words", "--wait=1s"), "");
    assert_string_equal(settings.name, "-odd");
    assert_int_equal(rest, 2);
    assert_int_equal(settings.wait_ms, 5000);
    assert_string_equal(FLAGS("--wait=1s", "--", "--name"), "");
    assert_int_equal(rest, 2);
    assert_string_equal(FLAGS("-", "--name"), "");
    assert_int_equal(rest, 0);
    assert_string_equal(FLAGS("--name"), "--name needs a value: --name NAME");
    CHECK(!wants_help);
    assert_string_equal(FLAGS("--help", "--wait=2s"), "");
    CHECK(wants_help);
    assert_int_equal(settings.wait_ms, 2000);
    assert_string_equal(FLAGS("-h"), "");
    CHECK(wants_help);
    close_config();
}

TEST(a_switch_needs_no_value) {
    open_config();
    assert_string_equal(FLAGS("--loud", "yes"), "");
    CHECK(settings.is_loud);
    assert_int_equal(rest, 1);
    assert_string_equal(FLAGS("--no-loud"), "");
    CHECK(!settings.is_loud);
    assert_string_equal(FLAGS("--loud=on"), "");
    CHECK(settings.is_loud);
    assert_string_equal(FLAGS("--no-loud=yes"), "--no-loud takes no value");
    close_config();
}

TEST(a_list_has_an_end) {
    open_config();
    for (int i = 0; i < LW__CONFIG_LIST_MAX; i++)
        assert_string_equal(FLAGS("--exec=a=b"), "");
    assert_string_equal(FLAGS("--exec=a=b"), "--exec: it is there more than 64 times");
    close_config();
}

/* ---- files ---------------------------------------------------------------------------------- */

TEST(a_file_may_be_laid_out_in_some_ways) {
    open_config();
    assert_string_equal(
        read_text("\xef\xbb\xbf# comment ; with = and : all\r\n\r\n[one]\r\n"
                  "  ; indented comment\r\nname=  two words  \r\n\twait = no\r\n"
                  "  item-count\r\n[two]\nexec = mail:send=convert - ; echo"),
        "x.conf:9: \" ;\" would begin a comment; those stand on lines of their own");
    assert_string_equal(settings.name, "two words wait = no item-count");
    close_config();
    open_config();
    assert_string_equal(read_text("[two]\nexec = mail:send=cd /x; convert\n   # not me\n\n"
                                  "    --flag 'a = b'\n[one]\nname =\n"),
                        "");
    assert_string_equal(settings.list.items[0], "mail:send=cd /x; convert --flag 'a = b'");
    assert_string_equal(settings.name, "");
    assert_string_equal(read_text(""), "");
    close_config();
}

TEST(lines_that_would_be_read_otherwise_than_meant_are_refused) {
    open_config();
    assert_string_equal(read_text("[one]\nname: x\n"),
                        "x.conf:2: \"name: x\" is not written as key = value");
    assert_string_equal(read_text("[one]\nna:me = x\n"),
                        "x.conf:2: \"na:me = x\" is not written as key = value");
    assert_string_equal(read_text("[one]\njust words\n"),
                        "x.conf:2: \"just words\" is not written as key = value");
    assert_string_equal(read_text("  name = x\n"),
                        "x.conf:1: an indented line has no key before it to go on with");
    assert_string_equal(read_text("[one]\n name = x\n"),
                        "x.conf:2: an indented line has no key before it to go on with");
    assert_string_equal(read_text("[one]\nname = a\x01\n"),
                        "x.conf:2: there is the control byte 0x01");
    assert_string_equal(
        read_text("[one] ; x\n"),
        "x.conf:1: \" ;\" would begin a comment; those stand on lines of their own");
    lw_error err = {0};
    struct lw__slice zero = {"[one]\nname = a\0b\n", 17};
    assert_status(lw__config_text(&config, "x.conf", zero, &err), LW_EINVAL);
    assert_string_equal(err.message, "x.conf:2: there is the control byte 0x00");
    assert_string_equal(settings.name, "none");
    close_config();
}

TEST(long_lines_are_refused_and_long_values_are_not) {
    char text[8192];
    open_config();
    snprintf(text, sizeof text, "[one]\nname = %0191d\n", 0); /* 198 bytes */
    assert_string_equal(read_text(text), "");
    assert_int_equal(strlen(settings.name), 191);
    snprintf(text, sizeof text, "[one]\nname = %0192d\n", 0);
    assert_string_equal(read_text(text), "x.conf:2: the line has more than 198 bytes; go on in an "
                                         "indented line");
    size_t at = (size_t)snprintf(text, sizeof text, "[one]\nname = x\n");
    for (int i = 0; i < 22; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, " %0180d\n", 0);
    assert_string_equal(read_text(text), "");
    assert_int_equal(strlen(settings.name), 1 + 22 * 181);
    snprintf(text + at, sizeof text - at, " %0180d\n", 0);
    assert_string_equal(read_text(text), "x.conf:25: the value has more than 4096 bytes");
    close_config();
}

TEST(files_are_read_by_their_names) {
    lw_error err = {0};
    open_config();
    FILE *file = fopen("legwork.conf", "w");
    fputs("[one]\nname = from a file\n", file);
    fclose(file);
    assert_status(lw__config_file(&config, "legwork.conf", &err), LW_OK);
    assert_string_equal(settings.name, "from a file");
    assert_status(lw__config_file(&config, "missing.conf", &err), LW_ESYSTEM);
    assert_int_equal(err.native, ENOENT);
    assert_string_equal(err.message, "missing.conf cannot be read: No such file or directory");
    assert_status(lw__config_file(&config, ".", NULL), LW_ESYSTEM);
    file = fopen("large.conf", "w");
    for (int i = 0; i < LW__CONFIG_FILE_MAX / 2 + 1; i++)
        fputs("#\n", file);
    fclose(file);
    assert_status(lw__config_file(&config, "large.conf", &err), LW_ESYSTEM);
    assert_int_equal(err.native, EFBIG);
    close_config();
}

TEST(without_memory_nothing_leaks) {
    for (uint64_t nth = 1;; nth++) {
        assert_status(lw_test_memory_open(&memory), LW_OK);
        lw_test_memory_fail_at(memory, nth);
        int status = lw__config_init(&config, &table, &settings, lw_test_memory_allocator(memory));
        const char *const argv[] = {"--name=x", "--exec=a=b"};
        if (status == LW_OK)
            status = lw__config_flags(&config, 2, argv, &rest, &wants_help, NULL);
        bool has_failed = lw_test_memory_has_failed(memory);
        assert_status(status, has_failed ? LW_ENOMEM : LW_OK);
        close_config();
        if (!has_failed)
            break;
    }
}

/* ---- what is printed ------------------------------------------------------------------------ */

static char page[32 << 10];

static void begin_page(struct lw__buffer *out) {
    memset(page, 0, sizeof page);
    lw__buffer_init_fixed(out, page, sizeof page - 1);
}

TEST(the_help_has_every_flag_within_its_width) {
    struct lw__buffer out;
    begin_page(&out);
    lw__config_write_help(&table, &out);
    assert_non_null(strstr(page, "  --file FILE\n        A file.\n\n[one]\n"));
    assert_non_null(strstr(page, "  --level low|high\n        Which. Default: low\n"));
    assert_non_null(strstr(page, "  --loud\n        Whether. Default: no\n"));
    assert_non_null(strstr(page, "  --exec KIND=COMMAND\n        Commands. May be given several "
                                 "times.\n"));
    begin_page(&out);
    lw__config_write_help(&lw__serve_table, &out);
    assert_status(out.status, LW_OK);
    for (const char *line = page; *line; line += strcspn(line, "\n") + 1)
        CHECK(strcspn(line, "\n") <= 79);
    for (size_t i = 0; i < lw__serve_table.count; i++)
        assert_non_null(strstr(page, lw__serve_table.rows[i].name));
}

TEST(the_man_page_is_roff) {
    struct lw__buffer out;
    begin_page(&out);
    lw__config_write_man(&table, &out);
    assert_non_null(strstr(page, ".SS [two]\n.TP\n\\fB\\-\\-size\\-max\\fR \\fISIZE\\fR, "
                                 "\\fBLEGWORK_SIZE_MAX\\fR\n\\&.How large\\esmall.\nFrom 1 to "
                                 "1MiB.\nDefault: 1KiB.\n"));
    assert_non_null(strstr(page, "\\fB\\-\\-loud\\fR, \\fBLEGWORK_LOUD\\fR\n"));
    begin_page(&out);
    lw__config_write_man_file(&table, &out);
    assert_non_null(strstr(page, ".SS [two]\n.TP\n\\fBsize\\-max\\fR = \\fISIZE\\fR\n"));
    assert_non_null(strstr(page, "\\fBloud\\fR = \\fIyes|no\\fR\n"));
    assert_null(strstr(page, "A file.")); /* which is a flag alone */
}

TEST(what_needs_a_restart_is_said_everywhere) {
    struct lw__buffer out;
    begin_page(&out);
    lw__config_write_help(&lw__serve_table, &out);
    assert_non_null(strstr(page, "restart: listen socket store log-level"));
    begin_page(&out);
    lw__config_write_man(&lw__serve_table, &out);
    assert_non_null(strstr(page, "Default: 127.0.0.1:7411.\nA change needs a restart.\n"));
    begin_page(&out);
    lw__config_write_sample(&lw__serve_table, &out);
    assert_non_null(strstr(page, "as well. A change needs a restart.\n#socket ="));
}

static const struct lw__config_row restart_rows[] = {
    {"one", "name", LW__CONFIG_TEXT, AT(name), .fallback = "a", .needs_restart = true},
    {"one", "item-count", LW__CONFIG_COUNT, AT(count), .fallback = "5", .max = 10},
    {"one", "wait", LW__CONFIG_DURATION, AT(wait_ms), .fallback = "5s", .max = 60000,
     .needs_restart = true},
    {"one", "loud", LW__CONFIG_SWITCH, AT(is_loud), .fallback = "no", .needs_restart = true},
    {"one", "level", LW__CONFIG_CHOICE, AT(level), .fallback = "low", .choices = levels,
     .needs_restart = true},
    {"one", "exec", LW__CONFIG_LIST, AT(list), .needs_restart = true}};

/* How many settings that need a restart a file changes. */
static int count_restarts(const char *text) {
    static const struct lw__config_table restarts = {restart_rows, COUNT_OF(restart_rows)};
    static struct settings before, after;
    struct lw__config old, new;
    const struct lw__config_row *row = NULL;
    int count = 0;
    lw_error err = {.message = ""};
    assert_status(lw_test_memory_open(&memory), LW_OK);
    const lw_allocator *allocator = lw_test_memory_allocator(memory);
    assert_status(lw__config_init(&old, &restarts, &before, allocator), LW_OK);
    assert_status(lw__config_init(&new, &restarts, &after, allocator), LW_OK);
    if (lw__config_text(&new, "file", lw__slice_of(text), &err) < 0)
        assert_string_equal(err.message, "");
    while ((row = lw__config_differs(&old, &new, row)))
        count++;
    lw__config_clear(&old);
    lw__config_clear(&new);
    lw_test_memory_close(memory);
    return count;
}

TEST(changes_that_need_a_restart_are_found) {
    assert_int_equal(count_restarts("[one]\nname = a\nitem-count = 7\nwait = 5000ms\n"), 0);
    assert_int_equal(count_restarts("[one]\nname = b\n"), 1);
    assert_int_equal(count_restarts("[one]\nwait = 6s\nloud = yes\nlevel = high\n"), 3);
    assert_int_equal(count_restarts("[one]\nexec = a=b\n"), 1);
}

/* Takes the # from every setting of a sample, but not from its sentences. */
static void uncomment(char *text) {
    for (char *line = text; *line; line += strcspn(line, "\n") + 1)
        if (line[0] == '#' && line[1] != ' ')
            memmove(line, line + 1, strlen(line));
}

TEST(the_sample_says_what_the_defaults_are) {
    static struct lw__serve_config fresh, read;
    static struct lw__config other;
    struct lw__buffer out;
    begin_page(&out);
    lw__config_write_sample(&lw__serve_table, &out);
    assert_status(out.status, LW_OK);
    uncomment(page);
    assert_status(lw_test_memory_open(&memory), LW_OK);
    const lw_allocator *allocator = lw_test_memory_allocator(memory);
    assert_status(lw__config_init(&config, &lw__serve_table, &fresh, allocator), LW_OK);
    assert_status(lw__config_init(&other, &lw__serve_table, &read, allocator), LW_OK);
    lw_error err = {.message = ""};
    if (lw__config_text(&other, "sample", lw__slice_of(page), &err) < 0)
        assert_string_equal(err.message, "");
    for (size_t i = 0; i < lw__serve_table.count; i++) {
        const struct lw__config_row *row = &lw__serve_table.rows[i];
        assert_int_equal(other.sources[i], row->section ? LW__CONFIG_FILE : LW__CONFIG_DEFAULT);
        if (row->type == LW__CONFIG_COUNT || row->type == LW__CONFIG_SIZE
            || row->type == LW__CONFIG_DURATION)
            assert_memory_equal((char *)&fresh + row->offset, (char *)&read + row->offset, 8);
    }
    assert_string_equal(read.listen, fresh.listen);
    assert_string_equal(read.exec.items[0], "KIND=COMMAND");
    lw__config_clear(&other);
    close_config();
}

TEST(the_values_are_printed_with_where_they_are_from) {
    struct lw__buffer out;
    open_config();
    FLAGS("--wait=60000ms", "--exec=a=b", "--exec=c=d");
    ENVIRONMENT("LEGWORK_SIZE_MAX=2048", "LEGWORK_LOUD=1");
    read_text("[two]\nlevel = high\n");
    begin_page(&out);
    lw__config_write_values(&config, &out);
    assert_string_equal(page, "[one]\n# default\nname = none\n# default\nitem-count = 5\n"
                              "# flag\nwait = 1m\n[two]\n# environment\nsize-max = 2KiB\n"
                              "# environment\nloud = yes\n# file\nlevel = high\n"
                              "# flag\nexec = a=b\n# flag\nexec = c=d\n");
    close_config();
}

/* ---- the server's table --------------------------------------------------------------------- */

TEST(every_row_of_the_server_is_in_shape) {
    for (size_t i = 0; i < lw__serve_table.count; i++) {
        const struct lw__config_row *row = &lw__serve_table.rows[i];
        size_t length = strlen(row->name);
        assert_int_equal(strspn(row->name, "abcdefghijklmnopqrstuvwxyz0123456789-"), length);
        CHECK(length <= LW__CONFIG_NAME_MAX && strcmp(row->name, "port") != 0);
        CHECK(row->help[strlen(row->help) - 1] == '.');
        CHECK(row->type == LW__CONFIG_LIST || row->fallback);
        CHECK(row->argument || row->type == LW__CONFIG_SWITCH || row->choices);
        for (size_t j = 0; j < i; j++) /* once, and beside its section */
            CHECK(strcmp(row->name, lw__serve_table.rows[j].name) != 0);
    }
}
