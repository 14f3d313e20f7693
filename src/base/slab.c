/* Objects of one size in chunks.
 *
 * Before each object stand 8 bytes with its index and generation, so that a pointer leads to a
 * ticket without a search and a ticket is checked in one cache line. Free slots of a chunk are
 * chained through the same 8 bytes; slots that were never used are not touched until they are.
 *
 * Generations come from one counter for the whole slab instead of one per slot: they need no place
 * to survive in when a chunk is freed, and a slot that is used all the time, which decides how soon
 * numbers repeat, would get through its own just as fast.
 *
 * A take prefers the chunk that had a give most recently when it was full, which is likely the
 * fullest: so the others can become empty.
 */
#include "base/slab.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/poison.h"

#include <assert.h>
#include <string.h>

#define NONE UINT32_MAX

enum { CHUNK_ALIGN = 64, CHUNK_SIZE = 128 * 1024, SLOTS_MIN = 8, DIRECTORY_MIN = 8 };

struct slot {
    uint32_t place;      /* taken: the index; free: the number in its chunk of the next free slot */
    uint32_t generation; /* 0 while free */
    /* the object */
};

struct lw__slab_chunk {
    struct lw__slab_chunk *next, *prev; /* among the roomy ones */
    uint32_t number;
    uint32_t taken_count;
    uint32_t fresh_slot; /* this one and those behind it were never taken */
    uint32_t free_slot;  /* first of those that were and are no more, or NONE */
    _Alignas(CHUNK_ALIGN) unsigned char slots[];
};

struct lw__slab_entry {
    struct lw__slab_chunk *chunk; /* NULL: the number is free */
    uint32_t next_free;           /* then the next such number, or NONE */
};

static uint32_t slots_per_chunk(const struct lw__slab *slab) {
    return UINT32_C(1) << slab->chunk_shift;
}

static size_t chunk_size(const struct lw__slab *slab) {
    return sizeof(struct lw__slab_chunk) + slots_per_chunk(slab) * slab->slot_size;
}

static struct slot *slot_at(const struct lw__slab *slab, struct lw__slab_chunk *chunk,
                            uint32_t number) {
    return (struct slot *)(void *)(chunk->slots + number * slab->slot_size);
}

static struct slot *slot_of(const void *object) {
    return (struct slot *)object - 1;
}

static size_t object_size(const struct lw__slab *slab) {
    return slab->slot_size - sizeof(struct slot);
}

void lw__slab_init(struct lw__slab *slab, const lw_allocator *allocator, size_t size,
                   uint32_t limit, const char *limit_name) {
    assert(size > 0 && size <= CHUNK_SIZE);
    assert(limit > 0 && limit <= LW__SLAB_LIMIT_MAX);
    *slab = (struct lw__slab){
        .allocator = allocator,
        .limit_name = limit_name,
        .limit = limit,
        .slot_size = sizeof(struct slot) + (size + 7) / 8 * 8,
        .free_number = NONE,
    };
    /* As many as fit, but no more than are needed. */
    while (slots_per_chunk(slab) < limit
           && (slots_per_chunk(slab) < SLOTS_MIN
               || 2 * slots_per_chunk(slab) * slab->slot_size <= CHUNK_SIZE))
        slab->chunk_shift++;
}

static void free_chunk(struct lw__slab *slab, struct lw__slab_chunk *chunk) {
    LW__UNPOISON(chunk->slots, slots_per_chunk(slab) * slab->slot_size);
    lw__free_aligned(slab->allocator, chunk, chunk_size(slab), CHUNK_ALIGN);
    slab->chunk_count--;
}

void lw__slab_free(struct lw__slab *slab) {
    for (uint32_t i = 0; i < slab->directory_used; i++)
        if (slab->directory[i].chunk != NULL)
            free_chunk(slab, slab->directory[i].chunk);
    lw__free(slab->allocator, slab->directory, slab->directory_size * sizeof *slab->directory);
    *slab = (struct lw__slab){.limit_name = slab->limit_name};
}

/* ---- the roomy chunks: a list, so that a chunk can leave it from the middle ---- */

static void list_roomy(struct lw__slab *slab, struct lw__slab_chunk *chunk) {
    chunk->prev = NULL;
    chunk->next = slab->roomy;
    if (chunk->next != NULL)
        chunk->next->prev = chunk;
    slab->roomy = chunk;
}

static void unlist_roomy(struct lw__slab *slab, struct lw__slab_chunk *chunk) {
    if (chunk->prev != NULL)
        chunk->prev->next = chunk->next;
    else
        slab->roomy = chunk->next;
    if (chunk->next != NULL)
        chunk->next->prev = chunk->prev;
}

/* ---- taking ---- */

static bool grow_directory(struct lw__slab *slab) {
    size_t size = slab->directory_size;
    size_t larger = size > 0 ? 2 * size : DIRECTORY_MIN;
    struct lw__slab_entry *directory = lw__resize(
        slab->allocator, slab->directory, size * sizeof *directory, larger * sizeof *directory);
    if (directory == NULL)
        return false;
    slab->directory = directory;
    slab->directory_size = (uint32_t)larger;
    return true;
}

static struct lw__slab_chunk *new_chunk(struct lw__slab *slab) {
    if (slab->free_number == NONE && slab->directory_used == slab->directory_size
        && !grow_directory(slab))
        return NULL;
    struct lw__slab_chunk *chunk =
        lw__alloc_aligned(slab->allocator, chunk_size(slab), CHUNK_ALIGN);
    if (chunk == NULL)
        return NULL;

    uint32_t number = slab->free_number;
    if (number != NONE)
        slab->free_number = slab->directory[number].next_free;
    else
        number = slab->directory_used++;
    slab->directory[number] = (struct lw__slab_entry){.chunk = chunk};
    slab->chunk_count++;

    *chunk = (struct lw__slab_chunk){.number = number, .free_slot = NONE};
    LW__POISON(chunk->slots, slots_per_chunk(slab) * slab->slot_size);
    return chunk;
}

/* A chunk with room, which is listed as such; NULL if there is no memory. */
static struct lw__slab_chunk *find_room(struct lw__slab *slab) {
    if (slab->roomy != NULL)
        return slab->roomy;
    struct lw__slab_chunk *chunk = slab->spare != NULL ? slab->spare : new_chunk(slab);
    if (chunk == NULL)
        return NULL;
    slab->spare = NULL;
    list_roomy(slab, chunk);
    return chunk;
}

static struct slot *take_slot(struct lw__slab *slab, struct lw__slab_chunk *chunk) {
    uint32_t number = chunk->free_slot;
    struct slot *slot = slot_at(slab, chunk, number != NONE ? number : chunk->fresh_slot);
    if (number != NONE) {
        chunk->free_slot = slot->place;
    } else {
        number = chunk->fresh_slot++;
        LW__UNPOISON(slot, sizeof *slot);
    }
    if (++slab->generation == 0)
        slab->generation = 1;
    slot->place = chunk->number << slab->chunk_shift | number;
    slot->generation = slab->generation;
    return slot;
}

int lw__slab_take(struct lw__slab *slab, void **object, lw_error *err) {
    if (slab->taken_count == slab->limit)
        return lw__error_set(err, LW_EFULL, 0, "%s is %u, and all are taken", slab->limit_name,
                             (unsigned)slab->limit);
    struct lw__slab_chunk *chunk = find_room(slab);
    if (chunk == NULL)
        return lw__error_set(err, LW_ENOMEM, 0, "no memory for more than %u of %s",
                             (unsigned)slab->taken_count, slab->limit_name);
    struct slot *slot = take_slot(slab, chunk);
    LW__UNPOISON(slot + 1, object_size(slab));
    slab->taken_count++;
    if (++chunk->taken_count == slots_per_chunk(slab))
        unlist_roomy(slab, chunk);
    *object = slot + 1;
    return LW_OK;
}

/* ---- giving back ---- */

static void retire_chunk(struct lw__slab *slab, struct lw__slab_chunk *chunk) {
    unlist_roomy(slab, chunk);
    if (slab->spare == NULL) {
        slab->spare = chunk;
        return;
    }
    slab->directory[chunk->number] = (struct lw__slab_entry){.next_free = slab->free_number};
    slab->free_number = chunk->number;
    free_chunk(slab, chunk);
}

void lw__slab_give(struct lw__slab *slab, void *object) {
    struct slot *slot = slot_of(object);
    uint32_t index = slot->place;
    assert(lw__slab_at(slab, index) == object); /* taken, and from this slab */

    struct lw__slab_chunk *chunk = slab->directory[index >> slab->chunk_shift].chunk;
    slot->generation = 0;
    slot->place = chunk->free_slot;
    LW__POISON(object, object_size(slab));
    chunk->free_slot = index & (slots_per_chunk(slab) - 1);
    slab->taken_count--;
    if (chunk->taken_count-- == slots_per_chunk(slab))
        list_roomy(slab, chunk);
    if (chunk->taken_count == 0)
        retire_chunk(slab, chunk);
}

/* ---- finding ---- */

/* The slot of an index if it is taken, else NULL. */
static struct slot *taken_slot(const struct lw__slab *slab, uint32_t index) {
    uint32_t chunk_number = index >> slab->chunk_shift;
    uint32_t number = index & (slots_per_chunk(slab) - 1);
    if (chunk_number >= slab->directory_used)
        return NULL;
    struct lw__slab_chunk *chunk = slab->directory[chunk_number].chunk;
    if (chunk == NULL || number >= chunk->fresh_slot)
        return NULL;
    struct slot *slot = slot_at(slab, chunk, number);
    return slot->generation != 0 ? slot : NULL;
}

uint32_t lw__slab_index(const void *object) {
    assert(slot_of(object)->generation != 0);
    return slot_of(object)->place;
}

uint64_t lw__slab_ticket(const void *object) {
    const struct slot *slot = slot_of(object);
    assert(slot->generation != 0);
    return (uint64_t)slot->generation << 32 | slot->place;
}

void *lw__slab_at(const struct lw__slab *slab, uint32_t index) {
    struct slot *slot = taken_slot(slab, index);
    assert(slot != NULL);
    return slot + 1;
}

void *lw__slab_find(const struct lw__slab *slab, uint64_t ticket) {
    struct slot *slot = taken_slot(slab, (uint32_t)ticket);
    return slot != NULL && slot->generation == ticket >> 32 ? slot + 1 : NULL;
}

size_t lw__slab_bytes(const struct lw__slab *slab) {
    return slab->chunk_count * lw__aligned_size(chunk_size(slab), CHUNK_ALIGN)
           + slab->directory_size * sizeof(struct lw__slab_entry);
}
