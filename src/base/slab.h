/* Many objects of one size: taken and given back in O(1), found by pointer, index or ticket.
 *
 * An index is a 32-bit number that stays the object's while it is taken: half a pointer. A ticket
 * is 64 bits, generation << 32 | index, for whoever may come back late: once its object was given
 * back a ticket finds nothing, even if the slot has another object by then. (Generations wrap: this
 * holds for the next 2^32 - 2 takes.) No ticket is 0.
 *
 * Memory comes in chunks of about 128 KiB, never more of them than the limit needs; a chunk that
 * becomes empty returns to the allocator, except for one that is kept, so that a slab that breathes
 * around a chunk's border does not allocate each time. Objects never move. They are aligned to 8
 * bytes and cost 8 more than their size; one of 56 bytes fills a cache line of its own.
 *
 * Threads: not safe; the caller locks.
 */
#ifndef LW_BASE_SLAB_H
#define LW_BASE_SLAB_H

#include <legwork/runtime.h>
#include <legwork/status.h>

#define LW__SLAB_LIMIT_MAX (UINT32_C(1) << 31)

struct lw__slab_chunk;

struct lw__slab {
    /* fixed after init */
    const lw_allocator *allocator;
    const char *limit_name;
    uint32_t limit;
    uint32_t chunk_shift; /* an index is chunk number << chunk_shift | slot number */
    size_t slot_size;

    /* guarded by the caller's lock */
    struct lw__slab_entry *directory; /* chunks by number */
    uint32_t directory_size;
    uint32_t directory_used;      /* numbers ever given to a chunk */
    uint32_t free_number;         /* of these, the first that has no chunk now */
    struct lw__slab_chunk *roomy; /* the chunks that have objects and room */
    struct lw__slab_chunk *spare; /* an empty one, or NULL */
    uint32_t taken_count;
    uint32_t chunk_count;
    uint32_t generation; /* of the last take */
};

/* Makes an empty slab; it takes no memory yet. The limit (1 to LW__SLAB_LIMIT_MAX) is the most
 * objects that can be taken at once; limit_name is what messages call it, usually the option that
 * sets it, and must outlive the slab. */
void lw__slab_init(struct lw__slab *slab, const lw_allocator *allocator, size_t object_size,
                   uint32_t limit, const char *limit_name);

/* Frees all memory, whether or not objects are still taken. */
void lw__slab_free(struct lw__slab *slab);

/* Takes an object; its bytes are undefined. Returns LW_OK, LW_EFULL at the limit, or LW_ENOMEM. */
int lw__slab_take(struct lw__slab *slab, void **object, lw_error *err);

/* Gives an object back; its tickets are void from now on. */
void lw__slab_give(struct lw__slab *slab, void *object);

/* The index and the ticket of an object that is taken. */
uint32_t lw__slab_index(const void *object);
uint64_t lw__slab_ticket(const void *object);

/* The object of an index, which must be taken. */
void *lw__slab_at(const struct lw__slab *slab, uint32_t index);

/* The object of a ticket; NULL if it was given back, or for a number that never was a ticket. */
void *lw__slab_find(const struct lw__slab *slab, uint64_t ticket);

/* All bytes that the slab has allocated. */
size_t lw__slab_bytes(const struct lw__slab *slab);

#endif
