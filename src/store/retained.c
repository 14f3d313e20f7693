/* Terminal tasks, kept to be looked at: a ring per kind and state, oldest first, because all of a
 * ring stay for the same time. Letting one go is O(1), and so is looking whether one has to. */
#include "store/index.h"

#include "base/memory.h"

#include <string.h>

#define NEIGHBOUR (8 * 128) /* bytes; a task takes two cache lines */
#define TRIM_MAX 256        /* tasks that leave in one go, while the mutex is held */

void lw__link_append(struct lw__task_link *head, struct lw__task *task) {
    struct lw__task_link *link = &task->link, *last = head->previous;
    link->next = head;
    link->previous = last;
    last->next = link;
    head->previous = link;
}

void lw__link_remove(struct lw__task *task) {
    struct lw__task_link *link = &task->link;
    link->previous->next = link->next;
    link->next->previous = link->previous;
    link->next = link->previous = NULL;
}

static struct lw__task *task_of(struct lw__task_link *link) {
    return (struct lw__task *)(void *)((char *)link - offsetof(struct lw__task, link));
}

struct lw__task *lw__link_first(const struct lw__task_link *head) {
    return head->next == head ? NULL : task_of(head->next);
}

static struct lw__retained *retained_of(struct lw__index *index, const struct lw__task *task) {
    lw_state state = lw__task_state(task);
    return &lw__index_kind_of(index, task)
                ->retained[state == LW_FINISHED ? LW__RETAINED_FINISHED
                           : state == LW_FAILED ? LW__RETAINED_FAILED
                                                : LW__RETAINED_ABORTED];
}

static uint64_t expiry(const struct lw__retained *retained, const struct lw__task *task) {
    uint64_t ended = lw__see(&task->due_at), ttl = retained->settings.ttl_ns;
    return ttl > LW__NEVER - ended ? LW__NEVER : ended + ttl;
}

/* One that keeps a key for a while longer stays until then. */
static bool must_stay(const struct lw__task *task, uint64_t now) {
    if (!(lw__task_flags(task) & LW__TASK_KEYED))
        return false;
    const struct lw__spec *spec = lw__task_spec(task);
    return spec->key_scope == LW_KEY_WINDOW && spec->key_until > now;
}

static uint64_t bytes_of_blocks(const struct lw__task *task) {
    const struct lw__spec *spec = lw__task_spec(task);
    const struct lw__errors *errors = lw__see(&task->errors);
    const struct lw__output *output = lw__see(&task->output);
    return (spec ? spec->size : 0) + (errors ? errors->size : 0) + (output ? output->size : 0);
}

/* What it has beside its record; none of it changes while it is retained. */
LW__INLINE uint64_t bytes_of(const struct lw__task *task) {
    bool has_blocks = lw__see(&task->body) || lw__see(&task->errors) || lw__see(&task->output);
    return has_blocks ? bytes_of_blocks(task) : 0;
}

LW__INLINE void add(struct lw__retained *retained, struct lw__task *task) {
    lw__link_append(&retained->ring, task);
    retained->count++;
    retained->bytes += bytes_of(task);
}

LW__INLINE void take_out(struct lw__retained *retained, struct lw__task *task) {
    lw__link_remove(task);
    retained->count--;
    retained->bytes -= bytes_of(task);
}

static bool is_too_much(const struct lw__retained *retained) {
    return retained->count > retained->settings.max
           || retained->bytes > retained->settings.byte_max;
}

/* A spec of a key alone; NULL: no memory. */
static struct lw__spec *copy_key(const struct lw__index *index, const struct lw__spec *old) {
    size_t size = lw__spec_size(0, old->key_size, 0, 0);
    struct lw__spec *spec = lw__alloc(&index->allocator, size);
    if (!spec)
        return NULL;
    *spec = *old;
    spec->size = size;
    spec->after_count = spec->value_size = spec->payload_size = 0;
    memcpy((char *)&spec->after[0], lw__spec_key(old), old->key_size + 1);
    return spec;
}

/* Of one that has finished nobody can want more than its key: there may be as many of them as a
 * window is long. (Others can be retried by hand. Without memory it stays as it is.) */
static void shed_all_but_key(struct lw__index *index, struct lw__task *task) {
    struct lw__spec *old = lw__task_spec(task);
    bool can_shed = lw__task_state(task) == LW_FINISHED && !old->member;
    struct lw__spec *bare = can_shed ? copy_key(index, old) : NULL;
    if (!bare)
        return;
    struct lw__errors *errors = lw__see(&task->errors);
    struct lw__output *output = lw__see(&task->output);
    lw__task_lock(task);
    lw__task_set_spec(task, bare);
    lw__put(&task->errors, NULL);
    lw__put(&task->output, NULL);
    lw__task_unlock(task);
    lw__index_retire_block_locked(index, old, old->size);
    lw__index_retire_block_locked(index, errors, errors ? errors->size : 0);
    lw__index_retire_block_locked(index, output, output ? output->size : 0);
}

static void let_go(struct lw__index *index, struct lw__retained *retained, struct lw__task *task,
                   uint64_t now) {
    take_out(retained, task);
    if (must_stay(task, now)) {
        lw__task_lock(task);
        lw__task_flag(task, LW__TASK_LINGERS, 0);
        lw__task_unlock(task);
        index->lingering++;
        shed_all_but_key(index, task);
        lw__timer_set(&index->scheduled, &task->timer, lw__task_spec(task)->key_until);
        lw__index_hasten_locked(index, lw__timer_next_due(&index->scheduled));
    } else {
        index->swept++;
        lw__index_leave_locked(index, task);
    }
}

static void set_alarm(struct lw__index *index, struct lw__retained *retained) {
    struct lw__task *oldest = lw__link_first(&retained->ring);
    if (!oldest || lw__timer_is_set(&retained->alarm.timer))
        return;
    uint64_t due = expiry(retained, oldest);
    if (due == LW__NEVER)
        return;
    lw__timer_set(&index->alarms, &retained->alarm.timer, due);
    lw__index_hasten_locked(index, lw__timer_next_due(&index->alarms));
}

/* Whether the oldest has to go. Threads read the clock before they get a lock: one that does not
 * stay may have ended after now. */
static bool is_over(const struct lw__retained *retained, const struct lw__task *oldest,
                    uint64_t now) {
    return is_too_much(retained) || retained->settings.ttl_ns == 0
           || expiry(retained, oldest) <= now;
}

/* Tasks are used again in the order in which they leave, so those that leave next are mostly
 * neighbours in memory; the links would tell for sure, but only one step ahead. */
static void fetch_ahead(const struct lw__task *task) {
    const char *neighbour = (const char *)task + NEIGHBOUR;
    lw__fetch_to_write(neighbour);
    lw__fetch_to_write(neighbour + 64);
}

void lw__retained_trim_locked(struct lw__index *index, struct lw__retained *retained,
                              uint64_t now) {
    for (int i = 0; i < TRIM_MAX; i++) {
        struct lw__task *oldest = lw__link_first(&retained->ring);
        if (!oldest || !is_over(retained, oldest, now))
            break;
        fetch_ahead(oldest);
        let_go(index, retained, oldest, now);
    }
    set_alarm(index, retained);
}

void lw__retained_review_locked(struct lw__index *index, struct lw__retained *retained,
                                uint64_t now) {
    uint64_t before;
    lw__timer_cancel(&index->alarms, &retained->alarm.timer);
    do {
        before = retained->count;
        lw__retained_trim_locked(index, retained, now);
    } while (retained->count < before);
}

/* One has come: another one may have to go. Otherwise the alarm tells when. */
static bool must_trim(const struct lw__retained *retained) {
    return is_too_much(retained) || retained->settings.ttl_ns == 0;
}

static void trim_or_set_alarm(struct lw__index *index, struct lw__retained *retained,
                              uint64_t now) {
    if (must_trim(retained))
        lw__retained_trim_locked(index, retained, now);
    else
        set_alarm(index, retained);
}

void lw__retain_locked(struct lw__index *index, struct lw__task *task, uint64_t now) {
    struct lw__retained *retained = retained_of(index, task);
    add(retained, task);
    trim_or_set_alarm(index, retained, now);
}

/* ---- a batch of plain ones ---------------------------------------------------------------- */

/* Whether nobody but readers has to do with it any more. */
static bool can_just_go(const struct lw__task *task, uint64_t now) {
    if (__builtin_expect(!lw__see(&task->body), 1))
        return !(lw__task_flags(task) & LW__TASK_WAITED);
    return !(lw__task_flags(task) & (LW__TASK_WAITED | LW__TASK_SCOPED)) && !must_stay(task, now);
}

void lw__retain_plain(struct lw__kind *kind, struct lw__task *const *tasks, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        add(&kind->retained[LW__RETAINED_FINISHED], tasks[i]);
}

uint32_t lw__retain_choose(struct lw__kind *kind, uint64_t now, struct lw__task **leaving,
                           uint64_t *ids, uint32_t max) {
    struct lw__retained *retained = &kind->retained[LW__RETAINED_FINISHED];
    uint32_t left = 0;
    while (left < max && must_trim(retained)) {
        struct lw__task *oldest = lw__link_first(&retained->ring);
        if (!oldest || !is_over(retained, oldest, now) || !can_just_go(oldest, now))
            break;
        fetch_ahead(oldest);
        take_out(retained, oldest);
        ids[left] = oldest->id;
        leaving[left++] = oldest;
    }
    return left;
}

void lw__retain_rest_locked(struct lw__index *index, struct lw__kind *kind, uint64_t now) {
    trim_or_set_alarm(index, &kind->retained[LW__RETAINED_FINISHED], now);
}

/* ---- back from a file --------------------------------------------------------------------- */

void lw__retain_again_locked(struct lw__index *index, struct lw__task *task) {
    add(retained_of(index, task), task);
}

static bool has_ended_before(struct lw__task_link *a, struct lw__task_link *b) {
    uint64_t at = lw__see(&task_of(a)->due_at), other = lw__see(&task_of(b)->due_at);
    return at != other ? at < other : task_of(a)->id < task_of(b)->id;
}

/* Takes two lists in order, by `next` only, and makes one of them. */
static struct lw__task_link *merge(struct lw__task_link *a, struct lw__task_link *b) {
    struct lw__task_link head, *last = &head;
    while (a && b) {
        struct lw__task_link **first = has_ended_before(b, a) ? &b : &a;
        last->next = *first;
        last = *first;
        *first = (*first)->next;
    }
    last->next = a ? a : b;
    return head.next;
}

/* lists[i] is NULL or has 2^i tasks. */
static struct lw__task_link *sort(struct lw__task_link *list) {
    struct lw__task_link *lists[64] = {NULL}, *all = NULL;
    while (list) {
        struct lw__task_link *one = list;
        list = list->next;
        one->next = NULL;
        int i = 0;
        for (; lists[i]; i++) {
            one = merge(lists[i], one);
            lists[i] = NULL;
        }
        lists[i] = one;
    }
    for (int i = 0; i < 64; i++)
        all = merge(lists[i], all);
    return all;
}

static void sort_ring(struct lw__task_link *ring) {
    ring->previous->next = NULL;
    struct lw__task_link *list = sort(ring->next);
    lw__ring_init_links(ring);
    while (list) {
        struct lw__task_link *next = list->next;
        lw__link_append(ring, task_of(list));
        list = next;
    }
}

void lw__retained_sort_locked(struct lw__index *index) {
    for (uint32_t k = 0; k < index->kind_count; k++) {
        for (int i = 0; i < 3; i++) {
            struct lw__retained *retained = &lw__index_kind_at(index, k)->retained[i];
            if (retained->count == 0)
                continue;
            sort_ring(&retained->ring);
            set_alarm(index, retained);
        }
    }
}

void lw__unretain_locked(struct lw__index *index, struct lw__task *task) {
    if (lw__task_flags(task) & LW__TASK_LINGERS) {
        lw__timer_cancel(&index->scheduled, &task->timer);
        lw__task_lock(task);
        lw__task_flag(task, 0, LW__TASK_LINGERS);
        lw__task_unlock(task);
        index->lingering--;
        return;
    }
    take_out(retained_of(index, task), task);
}
