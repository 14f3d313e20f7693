#include "store/lean.h"

#include "base/memory.h"
#include "store/index.h"

#include <string.h>

struct lw__spec *lw__lean_make(const lw_allocator *allocator, lw_bytes payload, lw_bytes value) {
    size_t size = lw__spec_size(0, 0, value.size, payload.size);
    struct lw__spec *spec = lw__alloc_zero(allocator, size);
    if (!spec)
        return NULL;
    spec->size = size;
    spec->start_by = spec->finish_by = LW__NEVER;
    spec->value_size = (uint32_t)value.size;
    spec->payload_size = (uint32_t)payload.size;
    if (value.size > 0)
        memcpy((char *)lw__spec_value(spec), value.data, value.size);
    if (payload.size > 0)
        memcpy((char *)lw__spec_payload(spec), payload.data, payload.size);
    return spec;
}

bool lw__lean_can_go(const struct lw__spec *spec) {
    return spec->key_size == 0 && spec->after_count == 0 && spec->run_at_ms == 0
           && spec->start_by == LW__NEVER && spec->finish_by == LW__NEVER && !spec->run
           && !spec->on_drop && !spec->on_end && !spec->member;
}

void lw__lean_count_in_locked(struct lw__index *index, const struct lw__spec *spec) {
    if (spec && lw__lean_can_go(spec))
        index->resident += spec->size;
}

void lw__lean_count_out_locked(struct lw__index *index, const struct lw__spec *spec) {
    if (spec && lw__lean_can_go(spec))
        index->resident -= spec->size;
}

void lw__lean_shed_locked(struct lw__index *index, struct lw__task *task) {
    struct lw__spec *spec = lw__task_spec(task);
    if (!spec || !lw__lean_can_go(spec))
        return;
    lw__task_lock(task);
    lw__task_set_lean(task, spec->payload_size);
    lw__task_unlock(task);
    index->resident -= spec->size;
    lw__index_retire_block_locked(index, spec, spec->size);
}

void lw__lean_relieve_locked(struct lw__index *index, struct lw__task *task) {
    if (index->resident > index->options.resident_limit / 2)
        lw__lean_shed_locked(index, task);
}

bool lw__lean_has_room_locked(const struct lw__index *index) {
    return index->resident < index->options.resident_limit;
}

/* Whoever has claimed it waits for it; others can do without. */
static bool wants_back(const struct lw__index *index, const struct lw__task *task) {
    if (!task || !lw__task_is_lean(task) || lw_state_is_terminal(lw__task_state(task)))
        return false;
    bool is_claimed = (lw__task_state(task) == LW_ENQUEUED && !task->place.lane)
                      || lw__lease_find(index, task->id);
    return is_claimed || lw__lean_has_room_locked(index);
}

void lw__lean_fill_locked(struct lw__index *index, struct lw__lean_reads *reads) {
    for (uint32_t i = 0; i < reads->count; i++) {
        struct lw__lean_read *read = &reads->all[i];
        struct lw__task *task = lw__ids_find(&index->ids, read->id);
        if (!wants_back(index, task))
            continue;
        lw__task_lock(task);
        lw__task_set_spec(task, read->spec);
        lw__task_unlock(task);
        index->resident += read->spec->size;
        read->spec = NULL;
    }
}
