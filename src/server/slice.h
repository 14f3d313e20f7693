/* Slices: bytes that somebody else owns, such as a part of a request, without an ending zero.
 *
 * The parts of the server (HTTP, JSON, queries, units, configuration) use the library's public
 * headers and each other, nothing else: whatever they share with base/ is small enough to have
 * twice, and the server stays a program that anybody could have written. */
#ifndef LW_SERVER_SLICE_H
#define LW_SERVER_SLICE_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct lw__slice {
    const char *data; /* may be NULL if size is 0 */
    size_t size;
};

/* A string without its ending zero. */
static inline struct lw__slice lw__slice_of(const char *text) {
    return (struct lw__slice){text, strlen(text)};
}

/* The bytes between two places of one block. */
static inline struct lw__slice lw__slice_between(const char *from, const char *to) {
    return (struct lw__slice){from, (size_t)(to - from)};
}

/* Behind its last byte; adding 0 to NULL would be undefined. */
static inline const char *lw__slice_end(struct lw__slice slice) {
    return slice.size > 0 ? slice.data + slice.size : slice.data;
}

/* Whether it has exactly the letters of a string; the second one does not tell A from a, in ASCII
 * alone and whatever the locale. */
static inline bool lw__slice_is(struct lw__slice slice, const char *text) {
    size_t size = strlen(text);
    return slice.size == size && (size == 0 || memcmp(slice.data, text, size) == 0);
}
bool lw__slice_has_letters(struct lw__slice slice, const char *text); /* of the same length */
static inline bool lw__slice_is_caseless(struct lw__slice slice, const char *text) {
    return slice.size == strlen(text) && lw__slice_has_letters(slice, text);
}

#define LW__SHOWN_MAX 40 /* bytes of a slice that a sentence shows */

/* A slice as a sentence or a log line shows it: at most LW__SHOWN_MAX bytes, "..." if there were
 * more, and \xNN for all that a terminal might take for more than a letter. */
struct lw__shown {
    char text[LW__SHOWN_MAX * 4 + sizeof "..."];
};
struct lw__shown lw__slice_show(struct lw__slice slice);

#endif
