/* Edit distance (optimal string alignment), on rows of a bounded table. */
#include "server/nearest.h"

#include <stdint.h>

static char plain(char c) {
    if (c == '_')
        return '-';
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

static size_t distance(struct lw__slice a, struct lw__slice b) {
    size_t rows[3][LW__NEAREST_MAX + 1];
    size_t *older = rows[0], *old = rows[1], *row = rows[2];
    for (size_t j = 0; j <= b.size; j++)
        old[j] = j;
    for (size_t i = 1; i <= a.size; i++) {
        row[0] = i;
        for (size_t j = 1; j <= b.size; j++) {
            char x = plain(a.data[i - 1]), y = plain(b.data[j - 1]);
            row[j] = least(least(old[j], row[j - 1]) + 1, old[j - 1] + (x != y));
            if (i > 1 && j > 1 && x == plain(b.data[j - 2]) && y == plain(a.data[i - 2]))
                row[j] = least(row[j], older[j - 2] + 1);
        }
        size_t *spare = older;
        older = old;
        old = row;
        row = spare;
    }
    return old[b.size];
}

void lw__nearest_init(struct lw__nearest *nearest, struct lw__slice wanted) {
    *nearest = (struct lw__nearest){.wanted = wanted, .edits = SIZE_MAX};
}

void lw__nearest_offer(struct lw__nearest *nearest, const char *name) {
    struct lw__slice other = lw__slice_of(name);
    size_t longer = other.size > nearest->wanted.size ? other.size : nearest->wanted.size;
    if (longer > LW__NEAREST_MAX)
        return;
    size_t edits = distance(nearest->wanted, other);
    if (edits <= longer / 3 && edits < nearest->edits) {
        nearest->name = name;
        nearest->edits = edits;
    }
}
