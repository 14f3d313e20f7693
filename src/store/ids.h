/* From an id to its task: a radix tree that readers walk without a lock.
 *
 * Ids rise, so that neighbours share a leaf of 64 and inserting is filling the next place of the
 * last leaf: about 9 bytes a task, and O(1). Inner nodes have 64 children too, and never less than
 * two: levels at which all ids agree have no node, so that a tree of late ids is no deeper than one
 * of early ids, and an insert adds two nodes at most.
 *
 * A node that becomes empty is retired to the grace, so that old ids cost nothing once their tasks
 * have left. Only the leaf of the last insert stays until that is elsewhere: otherwise an engine
 * that has one task at a time would allocate for each.
 *
 * Threads: the finds from any thread inside a grace section (base/grace.h); the rest under the
 * owner's lock. An owner with a lock of its own for the grace (index.h) may append without that
 * one, and collect without the other. A find beside a writer sees each id that is there all the
 * while; one that comes or goes meanwhile it may see or not.
 */
#ifndef LW_STORE_IDS_H
#define LW_STORE_IDS_H

#include "base/grace.h"

struct lw__task;
struct lw__ids_node;

struct lw__ids {
    /* fixed after init */
    const lw_allocator *allocator;
    struct lw__grace *grace; /* its free_fn frees a node when it gets LW__IDS_DETAIL */
    /* atomic, written under the owner's lock */
    struct lw__ids_node *_Atomic root; /* NULL: empty */
    /* guarded by the owner's lock; on a line that readers do not touch */
    _Alignas(64) struct lw__ids_node *last_leaf; /* where the last insert was; NULL: none was yet */
    struct lw__ids_node *left_behind;  /* was that, and empty when it ceased to be; NULL: none */
    struct lw__ids_node *removal_leaf; /* where the last remove was; NULL: gone, or none was */
    size_t count;
    /* atomic: nodes are freed under the grace's lock */
    _Atomic size_t bytes; /* of all nodes, those that are retired but not free yet included */
};

/* The detail with which nodes are retired; lw__ids_free_node frees one then. */
#define LW__IDS_DETAIL ((uintptr_t)1)

void lw__ids_init(struct lw__ids *ids, const lw_allocator *allocator, struct lw__grace *grace);

/* Frees all nodes but those that are retired: they come to lw__ids_free_node, before or after this.
 * No reader may be inside. */
void lw__ids_free(struct lw__ids *ids);
void lw__ids_free_node(struct lw__ids *ids, void *node);

/* The id must not be there. False: no memory, and nothing has changed. The second retires nothing,
 * and leaves that to the next call of another one. */
bool lw__ids_insert(struct lw__ids *ids, uint64_t id, struct lw__task *task);
bool lw__ids_append(struct lw__ids *ids, uint64_t id, struct lw__task *task);

/* The id must be there; all of them must. Cannot fail. Of many, neighbours are removed together. */
void lw__ids_remove(struct lw__ids *ids, uint64_t id);
void lw__ids_remove_many(struct lw__ids *ids, const uint64_t *removed, uint32_t count);

/* NULL: none. */
struct lw__task *lw__ids_find(const struct lw__ids *ids, uint64_t id);

/* The task with the smallest id of at least `from`; NULL: none. As lw__ids_find. */
struct lw__task *lw__ids_find_from(const struct lw__ids *ids, uint64_t from);

#endif
