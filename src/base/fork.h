/* Noticing a fork: a word that is 1 here and 0 in every forked child, because the kernel empties
 * its page at fork. So it costs a load, and no handler is left behind in the host. */
#ifndef LW_BASE_FORK_H
#define LW_BASE_FORK_H

#include <legwork/status.h>
#include <stdatomic.h>

/* NULL: LW_ENOMEM or LW_ESYSTEM stands in *err, which must not be NULL. */
_Atomic uint32_t *lw__fork_word_open(lw_error *err);
void lw__fork_word_close(_Atomic uint32_t *word); /* NULL is fine */

#endif
