#include "store/journal.h"

#include "base/futex.h"
#include "base/memory.h"
#include "store/index.h"

void lw__journal_init(struct lw__journal *journal, const lw_allocator *allocator,
                      void (*call)(void *user), void *user) {
    *journal =
        (struct lw__journal){.allocator = allocator, .call = call, .user = user, .number = 1};
}

void lw__journal_free(struct lw__journal *journal) {
    struct lw__journal_batch *batch = &journal->batch;
    if (batch->entries)
        lw__free(journal->allocator, batch->entries, batch->capacity * sizeof *batch->entries);
    *batch = (struct lw__journal_batch){0};
}

/* ---- noting ------------------------------------------------------------------------------- */

bool lw__journal_reserve(struct lw__journal *journal, size_t count) {
    struct lw__journal_batch *batch = &journal->batch;
    if (batch->capacity - batch->count >= count)
        return true;
    size_t capacity = batch->capacity ? batch->capacity * 2 : 256;
    while (capacity - batch->count < count)
        capacity *= 2;
    struct lw__journal_entry *entries =
        lw__resize(journal->allocator, batch->entries, batch->capacity * sizeof *entries,
                   capacity * sizeof *entries);
    if (!entries)
        return false;
    batch->entries = entries;
    batch->capacity = capacity;
    return true;
}

static void set_unsaved(struct lw__task *task, bool is_unsaved) {
    lw__task_lock(task);
    lw__task_flag(task, is_unsaved ? LW__TASK_UNSAVED : 0, is_unsaved ? 0 : LW__TASK_UNSAVED);
    lw__task_unlock(task);
}

void lw__journal_note(struct lw__journal *journal, enum lw__journal_op op, struct lw__task *task) {
    struct lw__journal_batch *batch = &journal->batch;
    if (op == LW__JOURNAL_PUT || op == LW__JOURNAL_THEN || op == LW__JOURNAL_END)
        set_unsaved(task, true);
    if (!lw__journal_reserve(journal, 1)) {
        journal->has_lost_notes = true;
    } else {
        batch->entries[batch->count++] = (struct lw__journal_entry){
            .op = op, .id = task->id, .task = op == LW__JOURNAL_LEAVE ? NULL : task};
        journal->pending++;
    }
    journal->call(journal->user);
}

void lw__journal_await_locked(struct lw__journal *journal, struct lw__journal_wait *wait) {
    wait->batch = journal->number;
    wait->status = LW_OK;
    atomic_init(&wait->is_over, 0);
    wait->next = journal->batch.waits;
    journal->batch.waits = wait;
    journal->call(journal->user);
}

void lw__journal_take_locked(struct lw__journal *journal, struct lw__journal_batch *empty) {
    struct lw__journal_batch taken = journal->batch;
    empty->count = 0;
    empty->waits = NULL;
    journal->batch = *empty;
    journal->number++;
    *empty = taken;
}

/* ---- after the transaction ---------------------------------------------------------------- */

/* A put that is durable can run, unless something else holds it. */
static void let_run(struct lw__index *index, struct lw__task *task, uint64_t now) {
    set_unsaved(task, false);
    if (lw__task_state(task) == LW_CREATED && !lw__index_must_wait(task))
        lw__index_release_locked(index, task, now);
}

void lw__journal_flush_locked(struct lw__index *index, struct lw__journal_batch *batch,
                              uint64_t now) {
    for (size_t i = 0; i < batch->count; i++) {
        struct lw__journal_entry *entry = &batch->entries[i];
        if (entry->op == LW__JOURNAL_PUT || entry->op == LW__JOURNAL_THEN)
            let_run(index, entry->task, now);
        if (entry->op != LW__JOURNAL_END)
            continue;
        set_unsaved(entry->task, false);
        lw__index_end_durable_locked(index, entry->task, now);
    }
    index->journal->pending -= batch->count;
    lw__grace_collect(&index->grace);
}

void lw__journal_fail_locked(struct lw__index *index, struct lw__journal_batch *batch,
                             uint64_t now) {
    (void)now;
    for (size_t i = 0; i < batch->count; i++) {
        struct lw__journal_entry *entry = &batch->entries[i];
        if (entry->op == LW__JOURNAL_PUT)
            lw__index_take_back_locked(index, entry->task);
        else if (entry->task)
            lw__journal_note(index->journal, entry->op, entry->task);
    }
    index->journal->pending -= batch->count;
}

void lw__journal_tell(struct lw__journal_batch *batch, int status) {
    struct lw__journal_wait *next;
    for (struct lw__journal_wait *wait = batch->waits; wait; wait = next) {
        next = wait->next; /* its memory is gone once it is told */
        wait->status = status;
        atomic_store(&wait->is_over, 1);
        lw__futex_wake(&wait->is_over, 1);
    }
    batch->waits = NULL;
}
