#include "store/journal.h"

#include "base/futex.h"
#include "base/memory.h"
#include "store/index.h"

#include <assert.h>
#include <limits.h>
#include <string.h>

void lw__journal_init(struct lw__journal *journal, const lw_allocator *allocator,
                      void (*call)(void *user), void *user) {
    *journal =
        (struct lw__journal){.allocator = allocator, .call = call, .user = user, .number = 1};
}

static void free_image(struct lw__journal *journal, struct lw__journal_entry *entry) {
    if (entry->op == LW__JOURNAL_SCOPE)
        lw__free(journal->allocator, entry->image, entry->image->size);
    else if (entry->op == LW__JOURNAL_KIND)
        lw__free(journal->allocator, entry->kind, sizeof *entry->kind);
}

void lw__journal_free_batch(struct lw__journal *journal, struct lw__journal_batch *batch) {
    for (size_t i = 0; i < batch->count; i++)
        free_image(journal, &batch->entries[i]);
    if (batch->entries)
        lw__free(journal->allocator, batch->entries, batch->capacity * sizeof *batch->entries);
    *batch = (struct lw__journal_batch){0};
}

void lw__journal_free(struct lw__journal *journal) {
    lw__journal_free_batch(journal, &journal->batch);
}

/* ---- noting ------------------------------------------------------------------------------- */

static bool reserve(struct lw__journal *journal, struct lw__journal_batch *batch, size_t count) {
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

bool lw__journal_reserve(struct lw__journal *journal, size_t count) {
    return reserve(journal, &journal->batch, count);
}

static void add(struct lw__journal *journal, struct lw__journal_entry entry) {
    journal->batch.entries[journal->batch.count++] = entry;
    journal->pending++;
    journal->call(journal->user);
}

static void set_unsaved(struct lw__task *task, bool is_unsaved) {
    lw__task_lock(task);
    lw__task_flag(task, is_unsaved ? LW__TASK_UNSAVED : 0, is_unsaved ? 0 : LW__TASK_UNSAVED);
    lw__task_unlock(task);
}

/* Without memory: it is found by its mark. */
static void lose(struct lw__journal *journal, enum lw__journal_op op, struct lw__task *task) {
    uint8_t mark = op == LW__JOURNAL_REVIVE   ? LW__NOTE_LOST_REVIVE
                   : op == LW__JOURNAL_CHANGE ? LW__NOTE_LOST_CHANGE
                   : op == LW__JOURNAL_END    ? LW__NOTE_LOST_END
                                              : 0;
    assert(op != LW__JOURNAL_PUT && op != LW__JOURNAL_THEN); /* whoever puts has reserved it */
    if (!mark)
        return;
    if (!(task->notes & mark))
        journal->pending++;
    task->notes |= mark;
    journal->has_lost_notes = true;
    journal->call(journal->user);
}

/* Who waits for what was lost of this task, or for its end, waits for the turn that is being
 * collected. */
static void join_waits(struct lw__journal *journal, uint64_t id) {
    struct lw__journal_wait **link = &journal->for_ends;
    while (*link) {
        struct lw__journal_wait *wait = *link;
        if (wait->id != id) {
            link = &wait->next;
            continue;
        }
        *link = wait->next;
        lw__journal_await_locked(journal, wait);
    }
}

static void note(struct lw__journal *journal, enum lw__journal_op op, struct lw__task *task) {
    const struct lw__spec *spec = lw__task_spec(task);
    struct lw__journal_entry entry = {.op = op, .id = task->id};
    uint8_t mark = op == LW__JOURNAL_CHANGE    ? LW__NOTE_CHANGE
                   : op == LW__JOURNAL_PUBLISH ? LW__NOTE_PUBLISH
                   : op == LW__JOURNAL_LEASE   ? LW__NOTE_LEASE
                                               : 0;
    if (task->notes & mark)
        return; /* it is written as it is then */
    if (op == LW__JOURNAL_PUT || op == LW__JOURNAL_THEN) {
        entry.is_held = lw__index_must_wait(task);
        entry.is_unclean = spec && spec->member && spec->member->is_unclean;
    }
    if (op == LW__JOURNAL_PUT || op == LW__JOURNAL_THEN || op == LW__JOURNAL_END)
        set_unsaved(task, true);
    if (!lw__journal_reserve(journal, 1)) {
        lose(journal, op, task);
        return;
    }
    task->notes |= mark;
    journal->has_marks |= mark != 0;
    entry.task = op == LW__JOURNAL_LEAVE || op == LW__JOURNAL_UNLEASE ? NULL : task;
    add(journal, entry);
    if (op != LW__JOURNAL_END)
        return;
    task->is_end_noted = true;
    if (journal->for_ends)
        join_waits(journal, task->id);
}

/* What was lost of one task, in the order in which it must have happened. */
static void note_lost(struct lw__journal *journal, struct lw__task *task) {
    static const struct {
        uint8_t mark;
        enum lw__journal_op op;
    } all[] = {{LW__NOTE_LOST_REVIVE, LW__JOURNAL_REVIVE},
               {LW__NOTE_LOST_CHANGE, LW__JOURNAL_CHANGE},
               {LW__NOTE_LOST_END, LW__JOURNAL_END}};
    uint8_t lost = task->notes & LW__NOTE_LOST;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (!(lost & all[i].mark))
            continue;
        task->notes &= (uint8_t)~all[i].mark;
        journal->pending--;
        note(journal, all[i].op, task);
    }
    bool is_terminal = lw_state_is_terminal(lw__task_state(task));
    if (journal->for_ends && !(task->notes & LW__NOTE_LOST)
        && (!is_terminal || lw__journal_has_end(task)))
        join_waits(journal, task->id); /* a retry by hand, for instance, is no end */
}

/* What was lost of the task before has to stand before this. */
void lw__journal_note(struct lw__journal *journal, enum lw__journal_op op, struct lw__task *task) {
    if (task->notes & LW__NOTE_LOST)
        note_lost(journal, task);
    note(journal, op, task);
}

void lw__journal_note_scope(struct lw__journal *journal, struct lw__scope_image *image) {
    add(journal,
        (struct lw__journal_entry){.op = LW__JOURNAL_SCOPE, .id = image->id, .image = image});
}

/* What was noted after it has been called off before. */
void lw__journal_cancel_scope(struct lw__journal *journal, const struct lw__scope_image *image) {
    struct lw__journal_entry *entry = &journal->batch.entries[journal->batch.count - 1];
    assert(entry->op == LW__JOURNAL_SCOPE && entry->image == image);
    free_image(journal, entry);
    lw__journal_undo(journal, journal->batch.count - 1);
}

void lw__journal_note_scope_leave(struct lw__journal *journal, uint64_t id) {
    if (lw__journal_reserve(journal, 1))
        add(journal, (struct lw__journal_entry){.op = LW__JOURNAL_SCOPE_LEAVE, .id = id});
}

/* Without memory it goes without: the next owner lets go by what it is told itself. */
void lw__journal_note_kind(struct lw__journal *journal, const char *name,
                           const struct lw__retention_settings retention[3]) {
    struct lw__kind_image *image = lw__alloc(journal->allocator, sizeof *image);
    if (!image)
        return;
    image->name = name;
    memcpy(image->retention, retention, sizeof image->retention);
    if (lw__journal_reserve(journal, 1))
        add(journal, (struct lw__journal_entry){.op = LW__JOURNAL_KIND, .kind = image});
    else
        lw__free(journal->allocator, image, sizeof *image);
}

void lw__journal_undo(struct lw__journal *journal, size_t count) {
    journal->pending -= journal->batch.count - count;
    journal->batch.count = count;
}

static void link_wait(struct lw__journal_wait **list, struct lw__journal_wait *wait) {
    wait->next = *list;
    wait->link = list;
    if (wait->next)
        wait->next->link = &wait->next;
    *list = wait;
}

static void unlink_wait(struct lw__journal_wait *wait) {
    *wait->link = wait->next;
    if (wait->next)
        wait->next->link = wait->link;
}

static void await(struct lw__journal *journal, struct lw__journal_wait *wait) {
    wait->turn = journal->number;
    wait->status = LW_OK;
    wait->has_stayed = false;
    atomic_init(&wait->is_over, 0);
    wait->take = journal->take;
    link_wait(&journal->batch.waits, wait);
    journal->batch.sleeper_count += !wait->over;
    journal->call(journal->user);
}

void lw__journal_await_locked(struct lw__journal *journal, struct lw__journal_wait *wait) {
    wait->first_put = wait->last_put = 0;
    await(journal, wait);
}

void lw__journal_await_puts_locked(struct lw__journal *journal, struct lw__journal_wait *wait,
                                   const struct lw__put *puts, size_t count) {
    wait->first_put = wait->last_put = 0;
    for (size_t i = 0; i < count; i++) {
        if (!puts[i].task)
            continue;
        wait->first_put = wait->first_put ? wait->first_put : puts[i].id;
        wait->last_put = puts[i].id; /* ids rise */
    }
    const struct lw__journal_entry *entries = journal->batch.entries;
    size_t begin = journal->batch.count;
    bool is_found = !wait->first_put;
    while (!is_found && begin-- > 0)
        is_found = entries[begin].op == LW__JOURNAL_PUT && entries[begin].id == wait->first_put;
    wait->entry_begin = begin;
    wait->entry_end = journal->batch.count;
    await(journal, wait);
}

bool lw__journal_need(struct lw__journal *journal, struct lw__task *task) {
    if (!(lw__task_flags(task) & LW__TASK_UNSAVED) || task->is_needed)
        return false;
    task->is_needed = true;
    journal->has_needed_puts = true;
    return true;
}

bool lw__journal_need_before(struct lw__index *index, const struct lw__task *task) {
    const struct lw__spec *spec = lw__task_spec(task);
    bool is_news = false;
    for (uint32_t i = 0; spec && i < spec->after_count; i++) {
        struct lw__task *other = lw__ids_find(&index->ids, spec->after[i]);
        is_news |= other && lw__journal_need(index->journal, other);
    }
    return is_news;
}

void lw__journal_await_end_locked(struct lw__journal *journal, struct lw__journal_wait *wait) {
    wait->next = journal->for_ends;
    journal->for_ends = wait;
}

/* ---- taking ------------------------------------------------------------------------------- */

static void find_lost(struct lw__index *index) {
    struct lw__journal *journal = index->journal;
    journal->has_lost_notes = false;
    for (struct lw__task *task = lw__ids_find_from(&index->ids, 1);
         task && !journal->has_lost_notes; task = lw__ids_find_from(&index->ids, task->id + 1))
        note_lost(journal, task);
    lw__scopes_note_lost_locked(index);
}

static void clear_marks(struct lw__journal *journal) {
    for (size_t i = 0; i < journal->batch.count; i++) {
        struct lw__journal_entry *entry = &journal->batch.entries[i];
        if (entry->op >= LW__JOURNAL_CHANGE && entry->op <= LW__JOURNAL_LEASE)
            entry->task->notes &= (uint8_t) ~(LW__NOTE_CHANGE | LW__NOTE_PUBLISH | LW__NOTE_LEASE);
    }
    journal->has_marks = false;
}

static void append_waits(struct lw__journal_batch *batch, struct lw__journal_batch *more) {
    struct lw__journal_wait **last = &more->waits;
    while (*last)
        last = &(*last)->next;
    *last = batch->waits;
    if (*last)
        (*last)->link = last;
    batch->waits = more->waits;
    if (batch->waits)
        batch->waits->link = &batch->waits;
    batch->sleeper_count += more->sleeper_count;
    more->waits = NULL;
    more->sleeper_count = 0;
}

static void exchange_entries(struct lw__journal_batch *one, struct lw__journal_batch *other) {
    struct lw__journal_batch old = *one;
    one->entries = other->entries;
    one->count = other->count;
    one->capacity = other->capacity;
    one->void_count = other->void_count;
    other->entries = old.entries;
    other->count = old.count;
    other->capacity = old.capacity;
    other->void_count = old.void_count;
}

/* There is room, or it is empty: then they exchange their memory. */
static void append(struct lw__journal_batch *batch, struct lw__journal_batch *more) {
    append_waits(batch, more);
    if (batch->count == 0) {
        exchange_entries(batch, more);
        return;
    }
    if (more->count > 0) /* else it may have no memory yet */
        memcpy(&batch->entries[batch->count], more->entries, more->count * sizeof *more->entries);
    batch->count += more->count;
    batch->void_count += more->void_count;
    more->count = more->void_count = 0;
}

bool lw__journal_take_locked(struct lw__index *index, struct lw__journal_batch *batch) {
    struct lw__journal *journal = index->journal;
    if (journal->has_lost_notes)
        find_lost(index);
    if (journal->batch.count == 0 && !journal->batch.waits)
        return false;
    if (batch->count > 0 && !reserve(journal, batch, journal->batch.count))
        return false;
    if (journal->has_marks)
        clear_marks(journal);
    append(batch, &journal->batch);
    journal->take++;
    return true;
}

void lw__journal_close_locked(struct lw__journal *journal) {
    journal->number++;
}

/* ---- after the transaction ---------------------------------------------------------------- */

/* A put that is durable can run, unless something else holds it, or it has ended meanwhile. */
static void let_run(struct lw__index *index, const struct lw__journal_entry *entry, uint64_t now) {
    struct lw__task *task = entry->task;
    if (lw_state_is_terminal(lw__task_state(task)))
        return;
    set_unsaved(task, false);
    lw__lean_relieve_locked(index, task);
    if (lw__task_state(task) == LW_CREATED && !lw__index_must_wait(task))
        lw__index_release_put_locked(index, task, now, entry->is_held);
    lw__lease_put_written_locked(index, task, now);
}

void lw__journal_flush_locked(struct lw__index *index, struct lw__journal_batch *batch,
                              uint64_t now) {
    for (size_t i = 0; i < batch->count; i++) {
        struct lw__journal_entry *entry = &batch->entries[i];
        if (entry->op == LW__JOURNAL_PUT || entry->op == LW__JOURNAL_THEN) {
            let_run(index, entry, now);
        } else if (entry->op == LW__JOURNAL_END) {
            set_unsaved(entry->task, false);
            lw__index_end_durable_locked(index, entry->task, now);
        } else if (entry->op == LW__JOURNAL_LEASE) {
            lw__lease_written_locked(index, entry->task, now);
        } else {
            free_image(index->journal, entry);
        }
    }
    index->journal->pending -= batch->count - batch->void_count;
    batch->count = batch->void_count = 0;
    if (index->journal->pending == 0)
        index->journal->has_needed_puts = false;
    lw__grace_collect(&index->grace);
}

static bool has_task(const struct lw__journal_entry *entry) {
    return entry->op >= LW__JOURNAL_PUT && entry->op <= LW__JOURNAL_REVIVE;
}

/* ---- puts that stay ------------------------------------------------------------------------ */

static struct lw__task *needed_put(const struct lw__journal_entry *entry) {
    return entry->op == LW__JOURNAL_PUT && entry->task->is_needed ? entry->task : NULL;
}

/* All that were put in one step stay, or none of them. True: that is news. */
static bool need_companions(struct lw__index *index, struct lw__journal_wait *waits, uint64_t id) {
    bool is_news = false;
    struct lw__journal_wait *wait = waits;
    while (wait && !(wait->first_put <= id && id <= wait->last_put))
        wait = wait->next;
    if (!wait || wait->has_stayed)
        return false;
    wait->has_stayed = true;
    for (uint64_t other = wait->first_put; other <= wait->last_put; other++) {
        struct lw__task *task = lw__ids_find(&index->ids, other);
        is_news |= task && lw__journal_need(index->journal, task);
    }
    return is_news;
}

/* From the last to the first: what comes after another was put after it. */
static bool need_more(struct lw__index *index, const struct lw__journal_batch *batch,
                      struct lw__journal_wait *const waits[2]) {
    bool is_news = false;
    for (size_t i = batch->count; i-- > 0;) {
        struct lw__task *task = needed_put(&batch->entries[i]);
        if (!task)
            continue;
        is_news |= lw__journal_need_before(index, task);
        is_news |= need_companions(index, waits[0], task->id);
        is_news |= need_companions(index, waits[1], task->id);
    }
    return is_news;
}

/* They are written again with all that stays. Their submitters are told that nobody knows, and are
 * not called back after that. */
static void keep_puts(struct lw__index *index, struct lw__journal_batch *batch) {
    for (size_t i = 0; i < batch->count; i++) {
        struct lw__task *task = needed_put(&batch->entries[i]);
        if (!task)
            continue;
        batch->entries[i].op = LW__JOURNAL_THEN;
        lw__index_disarm_locked(index, task);
    }
}

static void keep_needed_puts(struct lw__index *index, struct lw__journal_batch *batch) {
    struct lw__journal_batch *next = &index->journal->batch;
    struct lw__journal_wait *const waits[] = {batch->waits, next->waits};
    bool is_news = index->journal->has_needed_puts;
    while (is_news) {
        is_news = need_more(index, next, waits);
        is_news |= need_more(index, batch, waits);
    }
    if (index->journal->has_needed_puts) {
        keep_puts(index, batch);
        keep_puts(index, next);
    }
}

/* ---- puts that are taken back -------------------------------------------------------------- */

static void mark_puts(const struct lw__journal_batch *batch) {
    for (size_t i = 0; i < batch->count; i++) {
        if (batch->entries[i].op == LW__JOURNAL_PUT)
            batch->entries[i].task->notes |= LW__NOTE_VOID;
    }
}

/* Its end, for instance, may not even be noted: whoever waits for it is told of the failure. */
static void forget_lost(struct lw__journal *journal, struct lw__task *task) {
    journal->pending -= (uint64_t)__builtin_popcount(task->notes & LW__NOTE_LOST);
    task->notes &= (uint8_t)~LW__NOTE_LOST;
    join_waits(journal, task->id);
}

/* What makes up for an entry of a put that is taken back, although it may have been written. */
static enum lw__journal_op undo_of(enum lw__journal_op op) {
    switch (op) {
    case LW__JOURNAL_PUT: return LW__JOURNAL_VOID;
    case LW__JOURNAL_LEASE: return LW__JOURNAL_UNLEASE;
    default: return LW__JOURNAL_NONE;
    }
}

/* From the last to the first, so that what else was noted of a task goes before the task does, and
 * one that waits for another before that one. Taking one back may note something. */
static void take_back_between(struct lw__index *index, struct lw__journal_batch *batch,
                              size_t begin, size_t end, bool is_unsure, uint64_t now) {
    for (size_t i = end; i-- > begin;) {
        struct lw__journal_entry entry = batch->entries[i];
        if (!has_task(&entry) || !(entry.task->notes & LW__NOTE_VOID))
            continue;
        bool is_put = entry.op == LW__JOURNAL_PUT;
        batch->entries[i] = (struct lw__journal_entry){
            .op = is_unsure ? undo_of(entry.op) : LW__JOURNAL_NONE, .id = entry.id};
        if (batch->entries[i].op == LW__JOURNAL_NONE) {
            batch->void_count++;
            index->journal->pending--;
        }
        if (is_put) {
            forget_lost(index->journal, entry.task);
            lw__index_take_back_locked(index, entry.task, now);
        }
    }
}

static void take_back_puts(struct lw__index *index, struct lw__journal_batch *batch, bool is_unsure,
                           uint64_t now) {
    size_t kept = 0;
    take_back_between(index, batch, 0, batch->count, is_unsure, now);
    for (size_t i = 0; i < batch->count; i++) {
        if (batch->entries[i].op != LW__JOURNAL_NONE)
            batch->entries[kept++] = batch->entries[i];
    }
    batch->count = kept;
    batch->void_count = 0;
}

void lw__journal_fail_locked(struct lw__index *index, struct lw__journal_batch *batch,
                             bool is_unsure, uint64_t now) {
    struct lw__journal_batch *next = &index->journal->batch;
    keep_needed_puts(index, batch);
    mark_puts(batch);
    mark_puts(next);
    take_back_puts(index, next, false, now);
    take_back_puts(index, batch, is_unsure, now);
    append_waits(batch, next);
    index->journal->take++;
    lw__grace_collect(&index->grace);
}

static void trim(struct lw__journal_batch *batch) {
    while (batch->count > 0 && batch->entries[batch->count - 1].op == LW__JOURNAL_NONE) {
        batch->count--;
        batch->void_count--;
    }
}

void lw__journal_withdraw_locked(struct lw__index *index, struct lw__journal_wait *wait,
                                 const struct lw__put *puts, size_t count, uint64_t now) {
    struct lw__journal_batch *batch = &index->journal->batch;
    size_t end = wait->entry_end;
    unlink_wait(wait);
    batch->sleeper_count -= !wait->over;
    for (size_t i = 0; i < count; i++) {
        if (!puts[i].task)
            continue;
        puts[i].task->notes |= LW__NOTE_VOID;
        if (lw_state_is_terminal(lw__task_state(puts[i].task)))
            end = batch->count; /* its end may have been noted later */
    }
    take_back_between(index, batch, wait->entry_begin, end, false, now);
    trim(batch);
    lw__grace_collect(&index->grace);
}

void lw__journal_tell(struct lw__journal *journal, struct lw__journal_batch *batch, int status) {
    struct lw__journal_wait *next;
    bool has_sleepers[2] = {false, false};
    for (struct lw__journal_wait *wait = batch->waits; wait; wait = next) {
        next = wait->next; /* its memory is gone once it is told */
        wait->status = status < 0 && wait->has_stayed ? LW_EUNSURE : status;
        if (wait->over) {
            wait->over(wait);
            continue;
        }
        has_sleepers[wait->turn & 1] = true;
        atomic_store(&wait->is_over, 1);
    }
    batch->waits = NULL;
    batch->sleeper_count = 0;
    for (int i = 0; i < 2; i++) {
        if (!has_sleepers[i])
            continue;
        atomic_fetch_add(&journal->told[i], 1);
        lw__futex_wake(&journal->told[i], INT_MAX);
    }
}

void lw__journal_sleep(struct lw__journal *journal, struct lw__journal_wait *wait) {
    _Atomic uint32_t *told = &journal->told[wait->turn & 1];
    for (;;) {
        uint32_t seen = atomic_load(told);
        if (atomic_load(&wait->is_over))
            return;
        lw__futex_wait(told, seen, LW__NEVER);
    }
}
