/* How things look: colours, tables, durations, and texts of others made harmless. Writes into
 * buffers and knows neither a server nor a clock. */
#ifndef LW_CLI_RENDER_H
#define LW_CLI_RENDER_H

#include "server/buffer.h"

#include <legwork/task.h>
#include <stdint.h>
#include <stdio.h>

/* ---- style --------------------------------------------------------------------------------- */

struct lw__style {
    bool is_terminal;
    bool has_colours; /* on a terminal that is not dumb, and without NO_COLOR */
    bool has_symbols; /* the terminal shows UTF-8 */
    size_t width;     /* columns; 0: any */
};

struct lw__style lw__style_of(FILE *file);

enum lw__tone { LW__PLAIN, LW__BOLD, LW__DIM, LW__RED, LW__GREEN, LW__YELLOW, LW__BLUE, LW__CYAN };

enum lw__tone lw__tone_of(lw_state state);

/* A text in a tone; without colours the text alone. */
void lw__put_toned(struct lw__buffer *out, const struct lw__style *style, enum lw__tone tone,
                   const char *text);

/* A text of somebody else, as lw_text_show shows it. */
void lw__put_safe(struct lw__buffer *out, struct lw__slice text);

/* The same, but lines stay lines, each after this margin. */
void lw__put_lines(struct lw__buffer *out, const char *margin, struct lw__slice text);

/* Columns that a text of UTF-8 takes, one a character. */
size_t lw__width_of(struct lw__slice text);

/* ---- times --------------------------------------------------------------------------------- */

struct lw__words {
    char text[48];
};

/* "120 ms", "3.2 s", "4 m 10 s", "2 h 5 m", "3 d 4 h". */
struct lw__words lw__span_of(int64_t ms);
/* "now", "3 m ago", "in 2 h"; "" for a time of 0: has not happened. */
struct lw__words lw__age_of(int64_t at_ms, int64_t now_ms);
/* The time of day here, with the date if that is not today's. */
struct lw__words lw__time_of(int64_t at_ms, int64_t now_ms);

/* ---- tables -------------------------------------------------------------------------------- */

#define LW__TABLE_COLUMNS_MAX 12

struct lw__table_column {
    const char *name;
    bool is_right; /* numbers */
};

/* Cells are added row by row, and written at the end, when the widths are known. A column in which
 * all cells are empty is left out; the last one is cut at the terminal's edge. */
struct lw__table {
    const struct lw__table_column *columns;
    size_t count;
    size_t cells;
    struct lw__buffer text; /* a tone, the text, a zero: for each cell */
};

void lw__table_init(struct lw__table *table, const struct lw__table_column *columns, size_t count);
void lw__table_add(struct lw__table *table, enum lw__tone tone, const char *text);
int lw__table_write(const struct lw__table *table, const struct lw__style *style,
                    struct lw__buffer *out); /* the buffer's status */
void lw__table_clear(struct lw__table *table);

#endif
