/* Help, man page, sample file, and the values as they are: all from the table. */
#include "server/config_internal.h"

#include "server/units.h"

#include <stdio.h>

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

void lw__config_write_help(const struct lw__config_table *table, struct lw__buffer *out) {
    for (size_t i = 0; i < table->count; i++) {
        if (is_new_section(table, i))
            lw__buffer_print(out, "\n[%s]\n", table->rows[i].section);
        put_help(out, &table->rows[i]);
    }
    lw__buffer_put_text(out, "\nThe same names work in the file, below their [section], and in the "
                             "environment:\n--body-max, body-max = and LEGWORK_BODY_MAX are one. "
                             "Flags win over the\nenvironment, and that over the file.\n");
}

/* ---- man page ------------------------------------------------------------------------------- */

/* roff: a hyphen that is a minus, a backslash, and what would be a request where a line begins. */
static void put_roff(struct lw__buffer *out, const char *text) {
    if (*text == '.' || *text == '\'')
        lw__buffer_put_text(out, "\\&");
    for (; *text; text++) {
        if (*text == '-')
            lw__buffer_put_text(out, "\\-");
        else if (*text == '\\')
            lw__buffer_put_text(out, "\\e");
        else
            lw__buffer_put_byte(out, *text);
    }
}

static void put_man(struct lw__buffer *out, const struct lw__config_row *row) {
    lw__buffer_put_text(out, ".TP\n\\fB\\-\\-");
    put_roff(out, row->name);
    lw__buffer_put_text(out, "\\fR \\fI");
    put_argument(out, row);
    lw__buffer_put_text(out, "\\fR, \\fB");
    lw__buffer_put_text(out, lw__config_variable_of(row).name);
    lw__buffer_put_text(out, "\\fR\n");
    put_roff(out, row->help);
    lw__buffer_put_byte(out, '\n');
    if (row->type == LW__CONFIG_LIST)
        lw__buffer_put_text(out, "May be given several times.\n");
    if (has_default(row)) {
        lw__buffer_put_text(out, "Default: ");
        put_roff(out, row->fallback);
        lw__buffer_put_byte(out, '\n');
    }
}

void lw__config_write_man(const struct lw__config_table *table, struct lw__buffer *out) {
    lw__buffer_put_text(out, ".SH OPTIONS\n");
    for (size_t i = 0; i < table->count; i++) {
        if (is_new_section(table, i)) {
            lw__buffer_put_text(out, ".SS [");
            put_roff(out, table->rows[i].section);
            lw__buffer_put_text(out, "]\n");
        }
        put_man(out, &table->rows[i]);
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

static void put_number(struct lw__buffer *out, const struct lw__config_row *row, int64_t number,
                       unsigned char source) {
    if (row->type == LW__CONFIG_DURATION) {
        put_line(out, row, lw__duration_write(number).text, source);
    } else if (row->type == LW__CONFIG_SIZE) {
        put_line(out, row, lw__size_write(number).text, source);
    } else {
        char text[32];
        snprintf(text, sizeof text, "%lld", (long long)number);
        put_line(out, row, text, source);
    }
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
    default: put_number(out, row, *(const int64_t *)value, source);
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
