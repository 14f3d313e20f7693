/* A bounded buffer; one that grows doubles, so that n bytes cost O(n) to write. */
#include "server/buffer.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

#define CAPACITY_MIN 256 /* of a buffer that grows */

void lw__buffer_init_fixed(struct lw__buffer *buffer, char *memory, size_t capacity) {
    *buffer = (struct lw__buffer){.data = memory, .capacity = capacity, .limit = capacity};
}

void lw__buffer_init(struct lw__buffer *buffer, const lw_allocator *allocator, size_t limit) {
    assert(allocator);
    *buffer = (struct lw__buffer){.limit = limit, .allocator = allocator};
}

void lw__buffer_clear(struct lw__buffer *buffer) {
    const lw_allocator *allocator = buffer->allocator;
    if (allocator && buffer->data) {
        allocator->resize(allocator->user, buffer->data, buffer->capacity, 0);
        buffer->data = NULL;
        buffer->capacity = 0;
    }
    lw__buffer_cut(buffer, 0);
}

void lw__buffer_cut(struct lw__buffer *buffer, size_t size) {
    assert(size <= buffer->size);
    buffer->size = size;
    buffer->status = LW_OK;
}

static int grow(struct lw__buffer *buffer, size_t wanted) {
    size_t capacity = buffer->capacity < CAPACITY_MIN ? CAPACITY_MIN : buffer->capacity;
    while (capacity < wanted)
        capacity = capacity > buffer->limit / 2 ? buffer->limit : capacity * 2;
    if (capacity > buffer->limit)
        capacity = buffer->limit;
    char *data = buffer->allocator->resize(buffer->allocator->user, buffer->data, buffer->capacity,
                                           capacity);
    if (!data)
        return buffer->status = LW_ENOMEM;
    buffer->data = data;
    buffer->capacity = capacity;
    return LW_OK;
}

char *lw__buffer_take_more(struct lw__buffer *buffer, size_t size) {
    if (buffer->status < 0)
        return NULL;
    if (size > buffer->limit - buffer->size) {
        buffer->status = LW_EFULL;
        return NULL;
    }
    if (size > buffer->capacity - buffer->size && grow(buffer, buffer->size + size) < 0)
        return NULL;
    char *taken = buffer->data + buffer->size;
    buffer->size += size;
    return taken;
}

int lw__buffer_put(struct lw__buffer *buffer, struct lw__slice slice) {
    if (slice.size == 0)
        return buffer->status;
    char *taken = lw__buffer_take(buffer, slice.size);
    if (taken)
        memcpy(taken, slice.data, slice.size);
    return buffer->status;
}

int lw__buffer_put_text(struct lw__buffer *buffer, const char *text) {
    return lw__buffer_put(buffer, lw__slice_of(text));
}

int lw__buffer_put_byte(struct lw__buffer *buffer, char byte) {
    char *taken = lw__buffer_take(buffer, 1);
    if (taken)
        *taken = byte;
    return buffer->status;
}

int lw__buffer_put_uint(struct lw__buffer *buffer, uint64_t number) {
    char digits[20], *end = digits + sizeof digits, *at = end;
    do
        *--at = (char)('0' + number % 10);
    while ((number /= 10) > 0);
    return lw__buffer_put(buffer, lw__slice_between(at, end));
}

int lw__buffer_print(struct lw__buffer *buffer, const char *format, ...) {
    char text[512]; /* what is printed here is short; what is long is put */
    va_list args;
    va_start(args, format);
    int length = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    assert(length >= 0 && (size_t)length < sizeof text);
    return lw__buffer_put(buffer, (struct lw__slice){text, (size_t)length});
}
