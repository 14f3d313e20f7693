/* The blocks that a task points to. They are made whole and never changed, so that readers can copy
 * them without a lock. */
#include "store/index.h"

#include "base/memory.h"
#include "base/text.h"

#include <string.h>

static size_t text_length(const char *text) {
    size_t length = strnlen(text, LW_TEXT_MAX + 1);
    return length > LW_TEXT_MAX ? lw__text_cut(text, LW_TEXT_MAX) : length;
}

static const char *entry_text(const struct lw__errors *errors, uint32_t i) {
    return (const char *)errors + errors->entries[i].text_at;
}

/* Which of the old errors stay: all; or, when there are too many, all but the second. */
static bool is_kept(const struct lw__errors *old, uint32_t i) {
    return old->count < LW_ERRORS_MAX || i != 1;
}

static char *add_entry(struct lw__errors *errors, char *at, const struct lw__fault_entry *entry,
                       const char *text, size_t length) {
    struct lw__fault_entry *added = &errors->entries[errors->count++];
    *added = *entry;
    added->text_at = (uint32_t)(at - (char *)errors);
    memcpy(at, text, length);
    at[length] = 0;
    return at + length + 1;
}

struct lw__errors *lw__errors_add(const lw_allocator *allocator, const struct lw__errors *old,
                                  uint64_t at, uint32_t attempt, uint32_t fault, const char *text) {
    uint32_t count = 1;
    size_t length = text_length(text), bytes = length + 1;
    for (uint32_t i = 0; old && i < old->count; i++) {
        if (!is_kept(old, i))
            continue;
        count++;
        bytes += strlen(entry_text(old, i)) + 1;
    }
    size_t head = sizeof(struct lw__errors) + count * sizeof(struct lw__fault_entry);
    struct lw__errors *errors = lw__alloc(allocator, head + bytes);
    if (!errors)
        return NULL;
    errors->size = head + bytes;
    errors->count = 0;
    errors->retried_at = old ? old->retried_at : 0;
    errors->dropped = old ? old->dropped + (old->count == LW_ERRORS_MAX) : 0;
    char *end = (char *)errors + head;
    for (uint32_t i = 0; old && i < old->count; i++) {
        if (is_kept(old, i))
            end = add_entry(errors, end, &old->entries[i], entry_text(old, i),
                            strlen(entry_text(old, i)));
    }
    struct lw__fault_entry entry = {.at = at, .attempt = attempt, .fault = fault};
    add_entry(errors, end, &entry, text, length);
    return errors;
}

struct lw__errors *lw__errors_retry(const lw_allocator *allocator, const struct lw__errors *old,
                                    uint64_t now) {
    size_t size = old ? old->size : sizeof *old;
    struct lw__errors *errors = lw__alloc_zero(allocator, size);
    if (!errors)
        return NULL;
    if (old)
        memcpy(errors, old, size);
    errors->size = size;
    errors->retried_at = now;
    return errors;
}

/* ---- output ------------------------------------------------------------------------------- */

static lw_bytes partial_of(const struct lw__output *old, const struct lw__publication *fresh) {
    if (fresh && fresh->has_partial)
        return fresh->partial;
    return old ? (lw_bytes){lw__output_partial(old), old->partial_size} : (lw_bytes){NULL, 0};
}

static lw_bytes checkpoint_of(const struct lw__output *old, const struct lw__publication *fresh) {
    if (fresh && fresh->has_checkpoint)
        return fresh->checkpoint;
    return old ? (lw_bytes){lw__output_checkpoint(old), old->checkpoint_size} : (lw_bytes){NULL, 0};
}

static void append(char **at, const void *data, size_t size) {
    if (size > 0)
        memcpy(*at, data, size);
    *at += size;
}

struct lw__output *lw__output_make(const lw_allocator *allocator, const struct lw__output *old,
                                   const struct lw__publication *publication, bool has_result,
                                   lw_bytes result) {
    bool has_progress = publication && publication->has_progress;
    const char *text = has_progress ? publication->text : old ? old->bytes : "";
    size_t text_size = text ? text_length(text) : 0;
    lw_bytes partial = partial_of(old, publication), checkpoint = checkpoint_of(old, publication);
    size_t size =
        sizeof(struct lw__output) + text_size + 1 + partial.size + result.size + checkpoint.size;
    struct lw__output *output = lw__alloc(allocator, size);
    if (!output)
        return NULL;
    output->size = size;
    output->done = has_progress ? publication->done : old ? old->done : 0;
    output->total = has_progress ? publication->total : old ? old->total : 0;
    output->text_size = (uint32_t)text_size;
    output->partial_size = (uint32_t)partial.size;
    output->result_size = (uint32_t)result.size;
    output->checkpoint_size = (uint32_t)checkpoint.size;
    output->has_result = has_result;
    output->has_checkpoint =
        (publication && publication->has_checkpoint) || (old && old->has_checkpoint);
    char *at = output->bytes;
    append(&at, text, text_size);
    *at++ = 0;
    append(&at, partial.data, partial.size);
    append(&at, result.data, result.size);
    append(&at, checkpoint.data, checkpoint.size);
    return output;
}
