/* Names from outside: of kinds and queues, keys, ids, names of workers; and the known name that was
 * probably meant. */
#ifndef LW_BASE_NAMES_H
#define LW_BASE_NAMES_H

#include "base/inline.h"

#include <legwork/status.h>
#include <stdint.h>
#include <string.h>

/* Checks the name of a kind or queue: 1 to LW_NAME_MAX letters (of ASCII), digits and . _ - / :
 * `what` begins the sentence: "kind", "queue". Returns LW_OK, or LW_EINVAL with a sentence that
 * shows the name and, if it is one, the wrong byte and where it is, counted from 1. */
int lw__name_check(const char *what, const char *name, lw_error *err);

/* Checks a key, or another text that is chosen freely (the id of a resource, the name of a worker
 * or of an engine): 1 to max bytes of letters that can be shown (text.h), so that every store,
 * JSON, a log and a terminal can hold it. Returns as lw__name_check. */
int lw__key_check(const char *what, const char *key, size_t max, lw_error *err);

/* Checks a text that a sentence shows: its first max bytes, likewise, but it may be empty or
 * longer. */
int lw__shown_check(const char *what, const char *text, size_t max, lw_error *err);

/* The known name that is nearest to a wanted one: by letters that are missing, too many, wrong or
 * swapped, whatever their case; of equally near ones the first. NULL if more than a third of the
 * letters (of the longer one) would change, or if it is longer than LW_NAME_MAX. Any argument may
 * be NULL. */
const char *lw__name_nearest(const char *wanted, const char *const *known, size_t count);

/* ---- to be found by ------------------------------------------------------------------------ */

/* A name in words. Every submit looks names up: by the bytes it took a tenth of a submitter's time
 * to hash and compare them (perf, one producer of plain tasks). */
struct lw__name_key {
    uint64_t head, tail; /* its first and its last bytes: all there are, up to 16 */
    uint32_t size;
    uint32_t hash; /* of all its bytes */
};

static inline uint64_t lw__name_word(const char *at) {
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

/* All of up to seven bytes in one word; some of them twice. */
static inline uint64_t lw__name_short_word(const char *name, size_t size) {
    const unsigned char *bytes = (const unsigned char *)name;
    uint32_t first, last;
    if (size == 0)
        return 0;
    if (size < 4)
        return bytes[0] | (uint32_t)bytes[size / 2] << 8 | (uint32_t)bytes[size - 1] << 16;
    memcpy(&first, name, sizeof first);
    memcpy(&last, name + size - sizeof last, sizeof last);
    return (uint64_t)first << 32 | last;
}

/* The seed decides the hash: see name_table.h. */
LW__INLINE struct lw__name_key lw__name_key(const char *name, uint64_t seed) {
    const uint64_t odd = UINT64_C(0x9e3779b97f4a7c15);
    size_t size = strlen(name);
    struct lw__name_key key = {.size = (uint32_t)size};
    if (size < 8) {
        key.head = lw__name_short_word(name, size);
    } else {
        key.head = lw__name_word(name);
        key.tail = lw__name_word(name + size - 8);
    }
    uint64_t mixed = (key.head ^ size ^ seed) * odd;
    for (size_t at = 8; at + 8 < size; at += 8)
        mixed = (mixed ^ mixed >> 32 ^ lw__name_word(name + at)) * odd;
    __extension__ unsigned __int128 whole =
        (unsigned __int128)(mixed ^ mixed >> 32 ^ key.tail) * odd;
    /* the bits in the middle know of all others, also of those that a last letter changes */
    key.hash = (uint32_t)((uint64_t)(whole >> 64) ^ (uint64_t)whole >> 32);
    return key;
}

/* Whether the names that the keys were made of are the same. */
LW__INLINE bool lw__name_is(const char *a, const struct lw__name_key *a_key, const char *b,
                            const struct lw__name_key *b_key) {
    return a_key->head == b_key->head && a_key->tail == b_key->tail && a_key->size == b_key->size
           && (a_key->size <= 16 || memcmp(a, b, a_key->size) == 0);
}

#endif
