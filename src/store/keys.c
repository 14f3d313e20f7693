/* A hash table with linear probing.
 *
 * A pair is looked for from its home, the place that its hash names, up to the first free place.
 * Removing moves those behind the gap that may stand nearer to their home, so that no place has to
 * remember that something was there. Whole hashes are kept: tables are resized without a look at
 * the tasks, and a task is looked at only when it almost certainly is the one.
 */
#include "store/keys.h"

#include "base/memory.h"

#include <assert.h>
#include <string.h>

enum { CAPACITY_MIN = 16 };

/* ---- SipHash-1-3 [Aumasson and Bernstein 2012] ---- */

static uint64_t rotate_left(uint64_t x, int by) {
    return x << by | x >> (64 - by);
}

struct sip {
    uint64_t a, b, c, d;
};

static inline struct sip sip_round(struct sip v) {
    v.a += v.b;
    v.c += v.d;
    v.b = rotate_left(v.b, 13) ^ v.a;
    v.d = rotate_left(v.d, 16) ^ v.c;
    v.a = rotate_left(v.a, 32);
    v.c += v.b;
    v.a += v.d;
    v.b = rotate_left(v.b, 17) ^ v.c;
    v.d = rotate_left(v.d, 21) ^ v.a;
    v.c = rotate_left(v.c, 32);
    return v;
}

static inline struct sip sip_word(struct sip v, uint64_t word) {
    v.d ^= word;
    v = sip_round(v);
    v.a ^= word;
    return v;
}

/* Of the kind as eight bytes, then the key. Hashes stay in this process: byte order is all one. */
static uint64_t hash_pair(const uint64_t secret[2], uint32_t kind, const char *key, size_t size) {
    struct sip v = {secret[0] ^ 0x736f6d6570736575, secret[1] ^ 0x646f72616e646f6d,
                    secret[0] ^ 0x6c7967656e657261, secret[1] ^ 0x7465646279746573};
    uint64_t word, last = (uint64_t)(sizeof word + size) << 56;
    v = sip_word(v, kind);
    for (; size >= sizeof word; size -= sizeof word, key += sizeof word) {
        memcpy(&word, key, sizeof word);
        v = sip_word(v, word);
    }
    for (size_t i = 0; i < size; i++)
        last |= (uint64_t)(unsigned char)key[i] << (8 * i);
    v = sip_word(v, last);
    v.c ^= 0xff;
    v = sip_round(sip_round(sip_round(v)));
    return v.a ^ v.b ^ v.c ^ v.d;
}

struct lw__keys_pair lw__keys_pair(const struct lw__keys *keys, uint32_t kind, const char *key,
                                   size_t key_size) {
    return (struct lw__keys_pair){.kind = kind,
                                  .key = key,
                                  .key_size = key_size,
                                  .hash = hash_pair(keys->secret, kind, key, key_size)};
}

/* ---- the table ---- */

static bool is_room_for(size_t capacity, size_t count) {
    return count <= capacity / 4 * 3;
}

static bool is_pair(const struct lw__keys *keys, const struct lw__keys_place *place,
                    const struct lw__keys_pair *pair) {
    return place->hash == pair->hash
           && keys->is_same(place->task, pair->kind, pair->key, pair->key_size);
}

/* The place of the pair, or the free one where it would stand. */
static struct lw__keys_place *find_place(const struct lw__keys *keys,
                                         const struct lw__keys_pair *pair) {
    struct lw__keys_place *places = keys->places;
    size_t mask = keys->capacity - 1, i = pair->hash & mask;
    while (places[i].task != NULL && !is_pair(keys, &places[i], pair))
        i = (i + 1) & mask;
    return &places[i];
}

static void place_again(struct lw__keys_place *places, size_t mask, struct lw__keys_place moved) {
    size_t i = moved.hash & mask;
    while (places[i].task != NULL)
        i = (i + 1) & mask;
    places[i] = moved;
}

static bool resize(struct lw__keys *keys, size_t capacity) {
    struct lw__keys_place *places = lw__alloc_zero(keys->allocator, capacity * sizeof *places);
    if (places == NULL)
        return false;
    for (size_t i = 0; i < keys->capacity; i++)
        if (keys->places[i].task != NULL)
            place_again(places, capacity - 1, keys->places[i]);
    lw__free(keys->allocator, keys->places, keys->capacity * sizeof *places);
    keys->places = places;
    keys->capacity = capacity;
    return true;
}

void lw__keys_init(struct lw__keys *keys, const lw_allocator *allocator, const uint64_t secret[2],
                   bool (*is_same)(const struct lw__task *task, uint32_t kind, const char *key,
                                   size_t key_size)) {
    *keys = (struct lw__keys){
        .allocator = allocator, .secret = {secret[0], secret[1]}, .is_same = is_same};
}

void lw__keys_free(struct lw__keys *keys) {
    lw__free(keys->allocator, keys->places, keys->capacity * sizeof *keys->places);
    keys->places = NULL;
    keys->capacity = keys->count = keys->reserved = 0;
}

struct lw__task *lw__keys_find(const struct lw__keys *keys, const struct lw__keys_pair *pair) {
    return keys->count > 0 ? find_place(keys, pair)->task : NULL;
}

bool lw__keys_reserve(struct lw__keys *keys, size_t count) {
    if (count > SIZE_MAX / sizeof *keys->places / 4 - keys->count)
        return false;
    size_t capacity = keys->capacity > 0 ? keys->capacity : CAPACITY_MIN;
    while (!is_room_for(capacity, keys->count + count))
        capacity *= 2;
    if (capacity > keys->capacity && !resize(keys, capacity))
        return false;
    keys->reserved = count;
    return true;
}

void lw__keys_set(struct lw__keys *keys, const struct lw__keys_pair *pair, struct lw__task *task) {
    assert(task != NULL && keys->reserved > 0);
    keys->reserved--;
    struct lw__keys_place *place = find_place(keys, pair);
    keys->count += place->task == NULL;
    *place = (struct lw__keys_place){.task = task, .hash = pair->hash};
}

static void close_gap(struct lw__keys *keys, size_t gap) {
    struct lw__keys_place *places = keys->places;
    size_t mask = keys->capacity - 1;
    for (size_t i = (gap + 1) & mask; places[i].task != NULL; i = (i + 1) & mask) {
        size_t from_home = (i - places[i].hash) & mask;
        if (from_home >= ((i - gap) & mask)) {
            places[gap] = places[i];
            gap = i;
        }
    }
    places[gap].task = NULL;
}

void lw__keys_remove(struct lw__keys *keys, uint64_t hash, const struct lw__task *task) {
    const struct lw__keys_place *places = keys->places;
    if (keys->count == 0 || task == NULL)
        return;
    size_t mask = keys->capacity - 1, i = hash & mask;
    while (places[i].task != NULL && places[i].task != task)
        i = (i + 1) & mask;
    if (places[i].task == NULL)
        return;
    close_gap(keys, i);
    keys->count--;
    if (mask >= CAPACITY_MIN && keys->count + keys->reserved < (mask + 1) / 8)
        resize(keys, (mask + 1) / 2);
}
