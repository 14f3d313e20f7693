/* Lean tasks: what the file has need not be in memory as well.
 *
 * A task of a store with a journal whose spec holds nothing but a payload and a value (no key, no
 * dependency, no limit of time, no scope, no callback) can do without that spec as long as nobody
 * runs it: the file has it. Its body says that it is lean, and how large the payload is, which is
 * all that the index needs to know: room is counted in bytes. For everything else it is a task with
 * nothing out of the ordinary, and takes no memory beyond its record.
 *
 *     put        durable: sheds its spec if too many bytes are resident already. So a short backlog
 *                never touches the file again, and a long one costs its records
 *     claimed    gets its spec back, before it begins: the store reads it, many at a time and those
 *                that come next as well, without the mutex
 *     postponed  as put
 *     ended      durable and told: sheds its spec, whatever is resident
 *     restored   lean: an open reads no payload
 *     revived    stays lean, until it is claimed
 *
 * A task that is lean has a row, in the table of tasks or in that of the history, for as long as it
 * can be found in the index. A snapshot of it is read there, too (store.h, read).
 *
 * The memory store knows nothing of this: no task of it is ever lean.
 *
 * Threads: under the index's mutex, but for lw__lean_make.
 */
#ifndef LW_STORE_LEAN_H
#define LW_STORE_LEAN_H

#include "store/task.h"

#include <legwork/runtime.h>

struct lw__index;

/* Bytes of specs that stay in memory although the file has them, and although nobody runs them.
 * Those that were put have half of it: the rest is for what is read ahead, which runs earlier. */
#define LW__RESIDENT_MAX (UINT64_C(4) << 20)

/* What is read in one go: a claimed task, and those after it that will be claimed next. */
#define LW__LEAN_READ_MAX 128
#define LW__LEAN_READ_BYTES (UINT64_C(256) << 10) /* with this it is enough */

struct lw__lean_read {
    uint64_t id;
    struct lw__spec *spec; /* NULL: taken over */
};

struct lw__lean_reads {
    uint32_t count;
    struct lw__lean_read all[LW__LEAN_READ_MAX];
};

/* Whether it has nothing but these two: the file can give back all that is in it. */
bool lw__lean_can_go(const struct lw__spec *spec);

/* A spec with a payload and a value alone; NULL: no memory. */
struct lw__spec *lw__lean_make(const lw_allocator *allocator, lw_bytes payload, lw_bytes value);

/* A spec comes into the index with its task, or leaves it. NULL is fine. */
void lw__lean_count_in_locked(struct lw__index *index, const struct lw__spec *spec);
void lw__lean_count_out_locked(struct lw__index *index, const struct lw__spec *spec);

/* A task that is durable and does not run becomes lean, if it can: the first always, the second if
 * too much is resident. */
void lw__lean_shed_locked(struct lw__index *index, struct lw__task *task);
void lw__lean_relieve_locked(struct lw__index *index, struct lw__task *task);

/* Whether there is room for what is read ahead. */
bool lw__lean_has_room_locked(const struct lw__index *index);

/* Gives specs that were read back to those tasks that are lean, there and not terminal. What was
 * read ahead is not taken if it is too much. */
void lw__lean_fill_locked(struct lw__index *index, struct lw__lean_reads *reads);

#endif
