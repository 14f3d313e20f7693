/* A buffer that answers are written into: in memory of the caller's, or growing up to a limit.
 *
 * The first append that does not fit, or finds no memory, changes nothing and is remembered; all
 * later ones do nothing. So whoever writes asks once, at the end, and never sees half a piece. */
#ifndef LW_SERVER_BUFFER_H
#define LW_SERVER_BUFFER_H

#include "server/slice.h"

#include <legwork/runtime.h>
#include <legwork/status.h>
#include <stdint.h>

struct lw__buffer {
    char *data;
    size_t size;                   /* bytes written */
    size_t capacity;               /* bytes of data */
    size_t limit;                  /* capacity is never more than this */
    const lw_allocator *allocator; /* NULL: the memory is the caller's and does not grow */
    int status;                    /* LW_OK; LW_EFULL: the limit was reached; LW_ENOMEM */
};

/* On the caller's memory, which must outlive it. */
void lw__buffer_init_fixed(struct lw__buffer *buffer, char *memory, size_t capacity);

/* Empty, growing by the allocator as needed, up to limit bytes. lw__buffer_clear frees it. */
void lw__buffer_init(struct lw__buffer *buffer, const lw_allocator *allocator, size_t limit);
void lw__buffer_clear(struct lw__buffer *buffer); /* frees what it grew; it is empty and usable */

/* All return buffer->status. */
int lw__buffer_put(struct lw__buffer *buffer, struct lw__slice slice);
int lw__buffer_put_text(struct lw__buffer *buffer, const char *text);
int lw__buffer_put_byte(struct lw__buffer *buffer, char byte);
int lw__buffer_put_uint(struct lw__buffer *buffer, uint64_t number); /* in decimal */
LW_PRINTF(2, 3) int lw__buffer_print(struct lw__buffer *buffer, const char *format, ...);

/* Room for so many bytes in one piece, which the caller fills at once; NULL if there is none. */
char *lw__buffer_take_more(struct lw__buffer *buffer, size_t size);
static inline char *lw__buffer_take(struct lw__buffer *buffer, size_t size) {
    if (buffer->status < 0 || size > buffer->capacity - buffer->size || !buffer->data)
        return lw__buffer_take_more(buffer, size);
    char *taken = buffer->data + buffer->size;
    buffer->size += size;
    return taken;
}

/* Back to an earlier size, and well again whatever had happened since. */
void lw__buffer_cut(struct lw__buffer *buffer, size_t size);

static inline struct lw__slice lw__buffer_slice(const struct lw__buffer *buffer) {
    return (struct lw__slice){buffer->data, buffer->size};
}

#endif
