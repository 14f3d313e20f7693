/* A radix tree with 64 places a node, read without a lock.
 *
 * A node is complete before it is published by one release store into its place (the root's, or one
 * in its parent), and keeps what it holds when it is taken out: a reader that is still in it comes
 * to everything that has been there all the while. Finding looks at the places alone and checks at
 * the end whether it has come to the right leaf, because the path leaves out levels. The bits of
 * what is taken are for the writer, and for listing: a hint where to look, no proof.
 */
#include "store/ids.h"

#include "base/memory.h"

#include <assert.h>

enum { BITS = 6, PLACES = 1 << BITS };

struct lw__ids_node {
    /* fixed before it is published */
    uint64_t base;  /* the first id of its range */
    uint32_t shift; /* its places are 1 << shift ids wide; 0: a leaf */
    /* guarded by the owner's lock */
    struct lw__ids_node *parent; /* NULL: the root */
    /* atomic, written under the owner's lock */
    _Atomic uint64_t taken;       /* one bit a place */
    void *_Atomic places[PLACES]; /* nodes, in a leaf tasks */
};

static uint64_t place_of(const struct lw__ids_node *node, uint64_t id) {
    return (id >> node->shift) % PLACES;
}

static void *see_place(const struct lw__ids_node *node, uint64_t place) {
    return atomic_load_explicit(&node->places[place], memory_order_acquire);
}

/* What is in the id's place. */
static void *see(const struct lw__ids_node *node, uint64_t id) {
    return see_place(node, place_of(node, id));
}

static uint64_t see_taken(const struct lw__ids_node *node) {
    return atomic_load_explicit(&node->taken, memory_order_acquire);
}

static uint64_t first_place(uint64_t taken) {
    return (uint64_t)__builtin_ctzll(taken);
}

static struct lw__ids_node *see_root(const struct lw__ids *ids) {
    return atomic_load_explicit(&ids->root, memory_order_acquire);
}

/* Fills the id's place, or empties it. */
static void put(struct lw__ids_node *node, uint64_t id, void *content) {
    uint64_t place = place_of(node, id);
    uint64_t others = see_taken(node) & ~(UINT64_C(1) << place);
    uint64_t taken = others | (uint64_t)(content != NULL) << place;
    atomic_store_explicit(&node->places[place], content, memory_order_release);
    atomic_store_explicit(&node->taken, taken, memory_order_release);
}

static bool covers(const struct lw__ids_node *node, uint64_t id) {
    return (id ^ node->base) >> node->shift < PLACES;
}

/* ---- nodes ---- */

static struct lw__ids_node *new_node(struct lw__ids *ids, uint64_t id, uint32_t shift) {
    struct lw__ids_node *node = lw__alloc_zero(ids->allocator, sizeof *node);
    if (node == NULL)
        return NULL;
    node->base = id >> shift >> BITS << BITS << shift; /* in two steps: 66 would be too far */
    node->shift = shift;
    atomic_fetch_add_explicit(&ids->bytes, sizeof *node, memory_order_relaxed);
    return node;
}

void lw__ids_free_node(struct lw__ids *ids, void *node) {
    lw__free(ids->allocator, node, sizeof(struct lw__ids_node));
    atomic_fetch_sub_explicit(&ids->bytes, sizeof(struct lw__ids_node), memory_order_relaxed);
}

static void free_tree(struct lw__ids *ids, struct lw__ids_node *node) {
    for (uint64_t rest = see_taken(node); node->shift > 0 && rest != 0; rest &= rest - 1)
        free_tree(ids, see_place(node, first_place(rest)));
    lw__ids_free_node(ids, node);
}

void lw__ids_init(struct lw__ids *ids, const lw_allocator *allocator, struct lw__grace *grace) {
    *ids = (struct lw__ids){.allocator = allocator, .grace = grace};
}

void lw__ids_free(struct lw__ids *ids) {
    if (see_root(ids) != NULL)
        free_tree(ids, see_root(ids));
    atomic_store_explicit(&ids->root, NULL, memory_order_relaxed);
    ids->last_leaf = ids->left_behind = ids->removal_leaf = NULL;
    ids->count = 0;
}

/* Puts the child into its place under the parent, or at the root. */
static void link_child(struct lw__ids *ids, struct lw__ids_node *parent,
                       struct lw__ids_node *child) {
    child->parent = parent;
    if (parent != NULL)
        put(parent, child->base, child);
    else
        atomic_store_explicit(&ids->root, child, memory_order_release);
}

/* ---- inserting ---- */

/* Where two ids that are not of one leaf part: the shift of the node that has both. */
static uint32_t parting_shift(uint64_t a, uint64_t b) {
    return (63 - (uint32_t)__builtin_clzll(a ^ b)) / BITS * BITS;
}

/* A new leaf beside a node that stands where the leaf would be, and a fork that has both. */
static struct lw__ids_node *fork_leaf(struct lw__ids *ids, struct lw__ids_node *node, uint64_t id) {
    struct lw__ids_node *fork = new_node(ids, id, parting_shift(node->base, id));
    struct lw__ids_node *leaf = new_node(ids, id, 0);
    if (fork != NULL && leaf != NULL) {
        struct lw__ids_node *parent = node->parent;
        link_child(ids, fork, leaf);
        link_child(ids, fork, node);
        link_child(ids, parent, fork);
        return leaf;
    }
    if (fork != NULL)
        lw__ids_free_node(ids, fork);
    if (leaf != NULL)
        lw__ids_free_node(ids, leaf);
    return NULL;
}

/* The leaf of an id, made if need be; NULL: no memory. */
static struct lw__ids_node *reach_leaf(struct lw__ids *ids, uint64_t id) {
    struct lw__ids_node *parent = NULL, *node = see_root(ids);
    while (node != NULL && node->shift > 0 && covers(node, id)) {
        parent = node;
        node = see(node, id);
    }
    if (node != NULL)
        return covers(node, id) ? node : fork_leaf(ids, node, id);
    struct lw__ids_node *leaf = new_node(ids, id, 0);
    if (leaf != NULL)
        link_child(ids, parent, leaf);
    return leaf;
}

/* ---- removing ---- */

static void retire(struct lw__ids *ids, struct lw__ids_node *node) {
    lw__grace_retire(ids->grace, node, LW__IDS_DETAIL);
}

/* Takes out a node with one child, which comes into its place. */
static void splice_out(struct lw__ids *ids, struct lw__ids_node *node) {
    link_child(ids, node->parent, see_place(node, first_place(see_taken(node))));
    retire(ids, node);
}

static void drop_leaf(struct lw__ids *ids, struct lw__ids_node *leaf) {
    struct lw__ids_node *parent = leaf->parent;
    if (leaf == ids->removal_leaf)
        ids->removal_leaf = NULL;
    if (parent == NULL) {
        atomic_store_explicit(&ids->root, NULL, memory_order_release);
    } else {
        put(parent, leaf->base, NULL);
        uint64_t taken = see_taken(parent);
        if ((taken & (taken - 1)) == 0)
            splice_out(ids, parent);
    }
    retire(ids, leaf);
}

/* ---- what the owner calls ---- */

bool lw__ids_append(struct lw__ids *ids, uint64_t id, struct lw__task *task) {
    struct lw__ids_node *last = ids->last_leaf, *leaf = last;
    if (last == NULL || !covers(last, id)) {
        leaf = reach_leaf(ids, id);
        if (leaf == NULL)
            return false;
        ids->last_leaf = leaf;
        if (last != NULL && see_taken(last) == 0)
            ids->left_behind = last;
    }
    assert(see(leaf, id) == NULL);
    put(leaf, id, task);
    ids->count++;
    return true;
}

/* There never is more than one: before the next leaf can be empty something has to be removed, and
 * that begins with this. It may have been filled again since. */
static void drop_left_behind(struct lw__ids *ids) {
    struct lw__ids_node *leaf = ids->left_behind;
    ids->left_behind = NULL;
    if (leaf != NULL && leaf != ids->last_leaf && see_taken(leaf) == 0)
        drop_leaf(ids, leaf);
}

bool lw__ids_insert(struct lw__ids *ids, uint64_t id, struct lw__task *task) {
    bool is_there = lw__ids_append(ids, id, task);
    drop_left_behind(ids);
    return is_there;
}

/* The leaf of an id; another one or NULL if it has none, because the path leaves out levels. */
static struct lw__ids_node *walk_to_leaf(const struct lw__ids *ids, uint64_t id) {
    struct lw__ids_node *node = see_root(ids);
    while (node != NULL && node->shift > 0)
        node = see(node, id);
    return node;
}

/* Removes the first of them, and those after it that are of the same leaf. Returns how many. */
static uint32_t remove_some(struct lw__ids *ids, const uint64_t *removed, uint32_t count) {
    struct lw__ids_node *leaf = ids->removal_leaf; /* neighbours leave one after the other, too */
    if (leaf == NULL || !covers(leaf, removed[0]))
        leaf = walk_to_leaf(ids, removed[0]);
    assert(leaf != NULL && covers(leaf, removed[0]));
    uint64_t taken = see_taken(leaf);
    uint32_t i = 0;
    for (; i < count && covers(leaf, removed[i]); i++) {
        uint64_t place = removed[i] % PLACES;
        assert(taken >> place & 1);
        atomic_store_explicit(&leaf->places[place], NULL, memory_order_release);
        taken &= ~(UINT64_C(1) << place);
    }
    atomic_store_explicit(&leaf->taken, taken, memory_order_release);
    ids->removal_leaf = leaf;
    if (taken == 0 && leaf != ids->last_leaf)
        drop_leaf(ids, leaf);
    return i;
}

void lw__ids_remove_many(struct lw__ids *ids, const uint64_t *removed, uint32_t count) {
    drop_left_behind(ids);
    for (uint32_t i = 0; i < count;)
        i += remove_some(ids, removed + i, count - i);
    ids->count -= count;
}

void lw__ids_remove(struct lw__ids *ids, uint64_t id) {
    lw__ids_remove_many(ids, &id, 1);
}

/* ---- finding ---- */

/* The place in a leaf does not hang on its shift, which is 0: so both of the leaf's cache lines,
 * that a writer has just had, are on their way at once. */
struct lw__task *lw__ids_find(const struct lw__ids *ids, uint64_t id) {
    const struct lw__ids_node *leaf = walk_to_leaf(ids, id);
    return leaf != NULL && covers(leaf, id) ? see_place(leaf, id % PLACES) : NULL;
}

/* At most eleven levels deep. No node is empty for long, so that it seldom looks in vain but in the
 * one place where `from` itself belongs. */
static struct lw__task *find_from(const struct lw__ids_node *node, uint64_t from) {
    if (!covers(node, from)) {
        if (from > node->base)
            return NULL;
        from = node->base;
    }
    uint64_t first = place_of(node, from);
    for (uint64_t rest = see_taken(node) >> first << first; rest != 0; rest &= rest - 1) {
        void *content = see_place(node, first_place(rest));
        if (content != NULL && node->shift > 0)
            content = find_from(content, from);
        if (content != NULL)
            return content;
    }
    return NULL;
}

struct lw__task *lw__ids_find_from(const struct lw__ids *ids, uint64_t from) {
    const struct lw__ids_node *root = see_root(ids);
    return root != NULL ? find_from(root, from) : NULL;
}
