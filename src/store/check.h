/* What a task must be to be accepted, as far as that can be told without a store: for an engine,
 * and for an outbox, which has none. */
#ifndef LW_STORE_CHECK_H
#define LW_STORE_CHECK_H

#include <legwork/task.h>

/* Whether it is a task at all: LW_OK, or LW_EINVAL with a sentence. */
int lw__check_task(const lw_task *task, lw_error *err);

/* All that it says, but for the names of its kind and queue (base/names.h). Likewise. */
int lw__check_fields(const lw_task *task, lw_error *err);

#endif
