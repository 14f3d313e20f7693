/* Help, man page, sample file, and the values as they are: all from the table. */
#include "server/config_internal.h"

#include "server/roff.h"

#define WIDTH 79 /* columns of the help */

static bool is_new_section(const struct lw__config_table *table, size_t i) {
    const char *section = table->rows[i].section,
               *before = i > 0 ? table->rows[i - 1].section : NULL;
    return section && (!before || strcmp(section, before) != 0);
}

static bool has_default(const struct lw__config_row *row) {
    return row->type != LW__CONFIG_LIST && row->fallback[0] != 0;
}

/* Words in lines of WIDTH columns, each after `margin`. */
static void put_wrapped(struct lw__buffer *out, const char *margin, const char *text,
                        size_t *column) {
    while (*text) {
        size_t size = strcspn(text, " ");
        if (*column > 0 && *column + 1 + size > WIDTH) {
            lw__buffer_put_byte(out, '\n');
            *column = 0;
        }
        lw__buffer_put_text(out, *column == 0 ? margin : " ");
        *column += (*column == 0 ? strlen(margin) : 1) + size;
        lw__buffer_put(out, (struct lw__slice){text, size});
        text += size + (text[size] == ' ');
    }
}

/* The choices, as one argument: debug|info. */
static void put_choices(struct lw__buffer *out, const struct lw__config_row *row) {
    for (size_t i = 0; row->choices[i]; i++) {
        lw__buffer_put_text(out, i > 0 ? "|" : "");
        lw__buffer_put_text(out, row->choices[i]);
    }
}

static void put_argument(struct lw__buffer *out, const struct lw__config_row *row) {
    if (row->type == LW__CONFIG_CHOICE)
        put_choices(out, row);
    else if (row->type != LW__CONFIG_SWITCH)
        lw__buffer_put_text(out, row->argument);
}

/* ---- help ----------------------------------------------------------------------------------- */

static void put_help(struct lw__buffer *out, const struct lw__config_row *row) {
    static const char margin[] = "        ";
    size_t column = 0;
    lw__buffer_print(out, "  --%s%s", row->name, row->type == LW__CONFIG_SWITCH ? "" : " ");
    put_argument(out, row);
    lw__buffer_put_byte(out, '\n');
    put_wrapped(out, margin, row->help, &column);
    if (row->type == LW__CONFIG_LIST)
        put_wrapped(out, margin, "May be given several times.", &column);
    if (has_default(row)) {
        put_wrapped(out, margin, "Default:", &column);
        put_wrapped(out, margin, row->fallback, &column);
    }
    lw__buffer_put_byte(out, '\n');
}

static bool has_restarts(const struct lw__config_table *table) {
    for (size_t i = 0; i < table->count; i++)
        if (table->rows[i].needs_restart)
            return true;
    return false;
}

/* Which of them are taken up at a restart only. */
static void put_restarts(struct lw__buffer *out, const struct lw__config_table *table) {
    size_t column = 0;
    if (!has_restarts(table))
        return;
    lw__buffer_put_byte(out, '\n');
    put_wrapped(out, "",
                "SIGHUP reads them again, and all hold at once but for these, which need "
                "a restart:",
                &column);
    for (size_t i = 0; i < table->count; i++)
        if (table->rows[i].needs_restart)
            put_wrapped(out, "", table->rows[i].name, &column);
    lw__buffer_put_byte(out, '\n');
}

void lw__config_write_help(const struct lw__config_table *table, struct lw__buffer *out) {
    for (size_t i = 0; i < table->count; i++) {
        if (is_new_section(table, i))
            lw__buffer_print(out, "\n[%s]\n", table->rows[i].section);
        put_help(out, &table->rows[i]);
    }
    lw__buffer_put_text(out, "\nThe same names work in the file, below their [section], and in the "
                             "environment:\n--body-max, body-max = and LEGWORK_BODY_MAX are one. "
                             "Flags win over the\nenvironment, and that over the file.\n");
    put_restarts(out, table);
}

/* ---- man page ------------------------------------------------------------------------------- */

/* What is known of a row besides its sentence. */
static void put_man_remarks(struct lw__buffer *out, const struct lw__config_row *row) {
    bool has_range = row->type == LW__CONFIG_COUNT || row->type == LW__CONFIG_DURATION
                     || row->type == LW__CONFIG_SIZE;
    if (row->type == LW__CONFIG_LIST)
        lw__buffer_put_text(out, "May be given several times.\n");
    if (has_range)
        lw__buffer_print(out, "From %s to %s.\n", lw__config_number(row, row->min).text,
                         lw__config_number(row, row->max).text);
    if (has_default(row)) {
        lw__buffer_put_text(out, "Default: ");
        lw__roff_put(out, row->fallback);
        lw__buffer_put_text(out, ".\n");
    }
    if (row->needs_restart)
        lw__buffer_put_text(out, "A change needs a restart.\n");
}

static void put_man_argument(struct lw__buffer *out, const struct lw__config_row *row,
                             const char *before) {
    if (row->type == LW__CONFIG_SWITCH)
        return;
    lw__buffer_put_text(out, before);
    lw__buffer_put_text(out, "\\fI");
    put_argument(out, row);
    lw__buffer_put_text(out, "\\fR");
}

static void put_man(struct lw__buffer *out, const struct lw__config_row *row) {
    lw__buffer_put_text(out, ".TP\n\\fB\\-\\-");
    lw__roff_put(out, row->name);
    lw__buffer_put_text(out, "\\fR");
    put_man_argument(out, row, " ");
    lw__buffer_print(out, ", \\fB%s\\fR\n", lw__config_variable_of(row).name);
    lw__roff_put(out, row->help);
    lw__buffer_put_byte(out, '\n');
    put_man_remarks(out, row);
}

static void put_man_key(struct lw__buffer *out, const struct lw__config_row *row) {
    lw__buffer_put_text(out, ".TP\n\\fB");
    lw__roff_put(out, row->name);
    lw__buffer_put_text(out, "\\fR = ");
    if (row->type == LW__CONFIG_SWITCH)
        lw__buffer_put_text(out, "\\fIyes|no\\fR");
    put_man_argument(out, row, "");
    lw__buffer_put_byte(out, '\n');
    lw__roff_put(out, row->help);
    lw__buffer_put_byte(out, '\n');
    put_man_remarks(out, row);
}

static void put_man_section(struct lw__buffer *out, const struct lw__config_table *table,
                            size_t i) {
    if (!is_new_section(table, i))
        return;
    lw__buffer_put_text(out, ".SS [");
    lw__roff_put(out, table->rows[i].section);
    lw__buffer_put_text(out, "]\n");
}

void lw__config_write_man(const struct lw__config_table *table, struct lw__buffer *out) {
    for (size_t i = 0; i < table->count; i++) {
        put_man_section(out, table, i);
        put_man(out, &table->rows[i]);
    }
}

void lw__config_write_man_file(const struct lw__config_table *table, struct lw__buffer *out) {
    for (size_t i = 0; i < table->count; i++) {
        put_man_section(out, table, i);
        if (table->rows[i].section)
            put_man_key(out, &table->rows[i]);
    }
}

/* ---- files ---------------------------------------------------------------------------------- */

void lw__config_write_sample(const struct lw__config_table *table, struct lw__buffer *out) {
    lw__buffer_put_text(out, "# Every setting with its default. Comments stand on lines of their "
                             "own; an\n# indented line goes on with the value before it.\n");
    for (size_t i = 0; i < table->count; i++) {
        const struct lw__config_row *row = &table->rows[i];
        size_t column = 0;
        if (!row->section)
            continue;
        if (is_new_section(table, i))
            lw__buffer_print(out, "\n[%s]\n", row->section);
        lw__buffer_put_byte(out, '\n');
        put_wrapped(out, "# ", row->help, &column);
        if (row->needs_restart)
            put_wrapped(out, "# ", "A change needs a restart.", &column);
        lw__buffer_put_text(out, "\n#");
        lw__buffer_put_text(out, row->name);
        lw__buffer_put_text(out, " = ");
        lw__buffer_put_text(out, row->type == LW__CONFIG_LIST ? row->argument : row->fallback);
        lw__buffer_put_byte(out, '\n');
    }
}

static void put_line(struct lw__buffer *out, const struct lw__config_row *row, const char *value,
                     unsigned char source) {
    static const char *const sources[] = {"default", "file", "environment", "flag"};
    lw__buffer_print(out, "# %s\n%s = ", sources[source], row->name);
    lw__buffer_put_text(out, value);
    lw__buffer_put_byte(out, '\n');
}

static void put_values(struct lw__buffer *out, const struct lw__config_row *row, const void *value,
                       unsigned char source) {
    const struct lw__config_list *list = value;
    switch (row->type) {
    case LW__CONFIG_TEXT: put_line(out, row, *(const char *const *)value, source); break;
    case LW__CONFIG_SWITCH: put_line(out, row, *(const bool *)value ? "yes" : "no", source); break;
    case LW__CONFIG_CHOICE: put_line(out, row, row->choices[*(const int *)value], source); break;
    case LW__CONFIG_LIST:
        for (size_t i = 0; i < list->count; i++)
            put_line(out, row, list->items[i], source);
        break;
    default: put_line(out, row, lw__config_number(row, *(const int64_t *)value).text, source);
    }
}

void lw__config_write_values(const struct lw__config *config, struct lw__buffer *out) {
    const struct lw__config_table *table = config->table;
    for (size_t i = 0; i < table->count; i++) {
        const struct lw__config_row *row = &table->rows[i];
        if (!row->section)
            continue;
        if (is_new_section(table, i))
            lw__buffer_print(out, "[%s]\n", row->section);
        put_values(out, row, (const char *)config->values + row->offset, config->sources[i]);
    }
}
