/* Which known name was probably meant. */
#ifndef LW_SERVER_NEAREST_H
#define LW_SERVER_NEAREST_H

#include "server/slice.h"

#define LW__NEAREST_MAX 64 /* bytes of a name; longer ones are near nothing */

/* A search among names, which are offered one by one from wherever they stand. A letter that is
 * missing, too many, wrong, or swapped with its neighbour is one edit; - and _ are one letter, A
 * and a too. A name is near if it takes edits of at most a third of the longer one's letters. */
struct lw__nearest {
    struct lw__slice wanted;
    const char *name; /* the nearest so far, of equally near ones the first; NULL: none is near */
    size_t edits;
};

void lw__nearest_init(struct lw__nearest *nearest, struct lw__slice wanted);
void lw__nearest_offer(struct lw__nearest *nearest, const char *name);

#endif
