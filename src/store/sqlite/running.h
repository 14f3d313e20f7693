/* Which tasks run right now: a small file beside the database, mapped into memory, with a place for
 * each worker. After a kill the next owner finds in it exactly the tasks that were running, and
 * charges them to their crash budget. Writing to it is a store to memory: the kernel keeps it when
 * the process dies. (A power cut may lose it; then nobody is charged.) */
#ifndef LW_STORE_SQLITE_RUNNING_H
#define LW_STORE_SQLITE_RUNNING_H

#include <legwork/runtime.h>
#include <legwork/status.h>
#include <stdatomic.h>
#include <stdbool.h>

struct lw__running {
    _Atomic uint64_t *places; /* ids; 0: nothing runs there */
    size_t size;              /* of the mapping */
    uint64_t *crashed;        /* ids that were found */
    uint32_t crashed_count, crashed_capacity;
    const lw_allocator *allocator;
};

/* Reads what is in <path>-running. Returns LW_OK, LW_ENOMEM, LW_ESYSTEM with a sentence. */
int lw__running_read(struct lw__running *running, const char *path, const lw_allocator *allocator,
                     lw_error *err);

/* Then, when that is charged and the charge is durable: maps it with so many places, all empty, and
 * with room on the disk: a full one is told here, not by a signal at some task. A process that dies
 * in between charges once more; the other way round one that dies soon enough, again and again,
 * would never be charged. Returns as above. */
int lw__running_open(struct lw__running *running, const char *path, uint32_t places, lw_error *err);

/* Whether the owner of the database with this path says that it runs this task. */
bool lw__running_has(const char *path, uint64_t id);

/* Zeroed is fine. */
void lw__running_close(struct lw__running *running);

#endif
