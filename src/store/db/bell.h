/* What a pump sleeps on when something besides the index can call it: other connections to its
 * database, which make a descriptor readable. Rung by any thread, waited for by one.
 */
#ifndef LW_STORE_DB_BELL_H
#define LW_STORE_DB_BELL_H

#include <stdbool.h>
#include <stdint.h>

struct lw__bell {
    int fd; /* -1: none */
};

enum lw__bell_call { LW__BELL_RUNG, LW__BELL_WATCHED, LW__BELL_NOBODY };

/* False: the system gives no descriptor. */
bool lw__bell_open(struct lw__bell *bell);
void lw__bell_close(struct lw__bell *bell); /* one that is not open is fine */

void lw__bell_ring(struct lw__bell *bell);

/* Sleeps until it is rung, or `watched` (-1: nothing) is readable, or the deadline (of the
 * system's clock; LW__NEVER: none) has come. A ring from before counts. */
enum lw__bell_call lw__bell_wait(struct lw__bell *bell, int watched, uint64_t deadline);

#endif
