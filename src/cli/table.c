/* Tables: cells are kept until all widths are known. */
#include "cli/render.h"

#include "server/memory.h"
#include "server/utf8.h"

#include <assert.h>

#define TABLE_MAX ((size_t)64 << 20) /* bytes of all cells */
#define GAP 2

void lw__table_init(struct lw__table *table, const struct lw__table_column *columns, size_t count) {
    assert(count <= LW__TABLE_COLUMNS_MAX);
    *table = (struct lw__table){.columns = columns, .count = count};
    lw__buffer_init(&table->text, &lw__server_memory, TABLE_MAX);
}

void lw__table_clear(struct lw__table *table) {
    lw__buffer_clear(&table->text);
}

void lw__table_add(struct lw__table *table, enum lw__tone tone, const char *text) {
    lw__buffer_put_byte(&table->text, (char)tone);
    lw__put_safe(&table->text, lw__slice_of(text));
    lw__buffer_put_byte(&table->text, '\0');
    table->cells++;
}

/* The widest cell of each column; 0: it is left out. */
static void measure(const struct lw__table *table, size_t *widths) {
    const char *at = table->text.data;
    for (size_t i = 0; i < table->count; i++)
        widths[i] = 0;
    for (size_t i = 0; i < table->cells; i++) {
        size_t width = lw__width_of(lw__slice_of(at + 1));
        if (width > widths[i % table->count])
            widths[i % table->count] = width;
        at += strlen(at + 1) + 2;
    }
    for (size_t i = 0; i < table->count; i++) {
        size_t least = strlen(table->columns[i].name);
        if (widths[i] > 0 && widths[i] < least)
            widths[i] = least;
    }
}

static void put_spaces(struct lw__buffer *out, size_t count) {
    while (count-- > 0)
        lw__buffer_put_byte(out, ' ');
}

/* So much of a text as fits into these columns, with dots for what does not. */
static void put_cut(struct lw__buffer *out, const struct lw__style *style, enum lw__tone tone,
                    const char *text, size_t columns) {
    char cut[512];
    size_t size = 0, dots = columns > 3 ? 3 : 0;
    const char *end = text + strlen(text);
    if (lw__width_of(lw__slice_of(text)) <= columns) {
        lw__put_toned(out, style, tone, text);
        return;
    }
    for (size_t i = 0; i + dots < columns; i++) {
        size_t step = lw__utf8_measure(text + size, end);
        if (step == 0 || size + step + sizeof "..." > sizeof cut)
            break;
        size += step;
    }
    memcpy(cut, text, size);
    memcpy(cut + size, "...", dots);
    cut[size + dots] = '\0';
    lw__put_toned(out, style, tone, cut);
}

struct line {
    const struct lw__table *table;
    const struct lw__style *style;
    const size_t *widths;
    struct lw__buffer *out;
    size_t last; /* the last column that is shown */
    size_t used; /* columns of the terminal */
};

static void put_cell(struct line *line, size_t column, enum lw__tone tone, const char *text) {
    size_t width = line->widths[column], own = lw__width_of(lw__slice_of(text));
    if (width == 0)
        return;
    size_t left = line->style->width > line->used ? line->style->width - line->used : 1;
    if (line->table->columns[column].is_right)
        put_spaces(line->out, width - own);
    if (column == line->last)
        put_cut(line->out, line->style, tone, text, line->style->width ? left : own);
    else
        lw__put_toned(line->out, line->style, tone, text);
    if (column != line->last)
        put_spaces(line->out, GAP + (line->table->columns[column].is_right ? 0 : width - own));
    line->used += width + GAP;
}

static void end_line(struct line *line) {
    struct lw__buffer *out = line->out;
    while (out->status >= 0 && out->size > 0 && out->data[out->size - 1] == ' ')
        lw__buffer_cut(out, out->size - 1);
    lw__buffer_put_byte(line->out, '\n');
    line->used = 0;
}

int lw__table_write(const struct lw__table *table, const struct lw__style *style,
                    struct lw__buffer *out) {
    size_t widths[LW__TABLE_COLUMNS_MAX];
    struct line line = {.table = table, .style = style, .widths = widths, .out = out};
    const char *at = table->text.data;
    if (table->text.status < 0)
        return out->status = table->text.status;
    measure(table, widths);
    for (size_t i = 0; i < table->count; i++)
        line.last = widths[i] > 0 ? i : line.last;
    for (size_t i = 0; i < table->count; i++)
        put_cell(&line, i, LW__BOLD, table->columns[i].name);
    end_line(&line);
    for (size_t i = 0; i < table->cells; i++) {
        put_cell(&line, i % table->count, (enum lw__tone)at[0], at + 1);
        at += strlen(at + 1) + 2;
        if (i % table->count == table->count - 1)
            end_line(&line);
    }
    return out->status;
}
