/* The tasks of a scope, its generations, and the fence between them. */
#include "store/index.h"

#include "base/memory.h"

#include <string.h>

/* ---- rings -------------------------------------------------------------------------------- */

static struct lw__member *member_of(struct lw__task_link *link) {
    return (struct lw__member *)(void *)((char *)link - offsetof(struct lw__member, link));
}

const struct lw__task *lw__scope_task_at(const struct lw__task_link *link) {
    const char *at = (const char *)link - offsetof(struct lw__member, link);
    return ((const struct lw__member *)(const void *)at)->task;
}

static struct lw__member *first_of(const struct lw__task_link *ring) {
    return ring->next == ring ? NULL : member_of(ring->next);
}

static void append(struct lw__task_link *ring, struct lw__member *member) {
    struct lw__task_link *link = &member->link;
    link->next = ring;
    link->previous = ring->previous;
    ring->previous->next = link;
    ring->previous = link;
}

static void unlink_member(struct lw__member *member) {
    struct lw__task_link *link = &member->link;
    link->previous->next = link->next;
    link->next->previous = link->previous;
    link->next = link->previous = NULL;
}

static void tell(struct lw__index *index, const struct lw__scope *scope) {
    if (index->hooks.scope_changed)
        index->hooks.scope_changed(index->hooks.user, scope->id);
}

/* ---- members ------------------------------------------------------------------------------ */

static struct lw__scope *scope_of_put(const struct lw__index *index, const struct lw__put *put) {
    return put->scope == LW__SCOPE_THIS ? index->scopes.current
                                        : lw__scope_find_locked(index, put->scope);
}

int lw__scope_check_locked(const struct lw__index *index, const struct lw__put *put) {
    const struct lw__scope *scope = scope_of_put(index, put);
    bool is_this = put->scope == LW__SCOPE_THIS;
    if (!put->spec || put->is_taken || (is_this && !scope))
        return LW_EINVAL;
    if (!scope || scope->is_closed || (!is_this && put->generation != scope->generation))
        return LW_ELEASE;
    return scope->task_count < LW__SCOPE_TASKS_MAX ? LW_OK : LW_EFULL;
}

void lw__scope_count_locked(struct lw__index *index, const struct lw__put *put, int sign) {
    scope_of_put(index, put)->task_count += sign > 0 ? 1 : UINT32_MAX;
}

static void add_member(struct lw__scope *scope, struct lw__member *member) {
    member->is_held = scope->is_moving || scope->open > 0;
    member->is_unclean = scope->is_unclean;
    append(&scope->tasks, member);
}

bool lw__scope_join_locked(struct lw__index *index, struct lw__task *task,
                           const struct lw__put *put) {
    struct lw__scope *scope = scope_of_put(index, put);
    struct lw__member *member = lw__alloc_zero(&index->allocator, sizeof *member);
    if (!member)
        return false;
    member->scope = scope->id;
    member->generation = scope->generation;
    member->task = task;
    add_member(scope, member);
    lw__task_spec(task)->member = member;
    return true;
}

/* Its spec may go on in another task, or be freed: nobody but a reader can have seen it. */
void lw__scope_withdraw_locked(struct lw__index *index, struct lw__task *task) {
    struct lw__member *member = lw__task_spec(task)->member;
    unlink_member(member);
    lw__index_retire_block_locked(index, member, sizeof *member);
}

void lw__scope_retract_locked(struct lw__index *index, struct lw__task *task) {
    struct lw__member *member = lw__task_spec(task)->member;
    struct lw__scope *scope = lw__scope_find_locked(index, member->scope);
    if (member->generation == scope->generation)
        scope->task_count--;
    lw__scope_withdraw_locked(index, task);
    lw__scope_remove_if_over_locked(index, scope);
}

/* Nothing runs yet but what is leased; and that has smaller ids than those it may hold up. */
static void restore_place(struct lw__scope *scope, struct lw__member *member, lw_state state) {
    if (member->generation == scope->generation && !scope->is_closed) {
        member->is_held = scope->open > 0;
        member->is_unclean |= scope->is_unclean; /* it may have been held when it was written */
        append(&scope->tasks, member);
        scope->task_count++;
        return;
    }
    append(&scope->old, member);
    member->is_open = state == LW_STARTED;
    scope->open += member->is_open;
}

int lw__scope_restore_member_locked(struct lw__index *index, struct lw__task *task, uint64_t id,
                                    uint64_t generation, bool is_unclean, lw_state state) {
    struct lw__scope *scope = lw__scope_find_locked(index, id);
    bool has_ended = lw_state_is_terminal(state);
    if (!scope && !has_ended)
        return LW_ELEASE; /* it must have been closed long ago */
    struct lw__member *member = lw__alloc_zero(&index->allocator, sizeof *member);
    if (!member)
        return LW_ENOMEM;
    *member = (struct lw__member){.scope = id, .generation = generation, .task = task};
    member->is_unclean = is_unclean;
    lw__task_spec(task)->member = member;
    lw__put(&task->flags, (uint16_t)(lw__task_flags(task) | LW__TASK_SCOPED));
    if (has_ended)
        return LW_OK;
    restore_place(scope, member, state);
    return lw__scope_is_present_locked(index, task) ? LW_OK : LW_ELEASE;
}

int lw__scope_check_rejoin_locked(const struct lw__index *index, const struct lw__task *task) {
    const struct lw__scope *scope =
        lw__scope_find_locked(index, lw__task_spec(task)->member->scope);
    if (!lw__scope_is_present_locked(index, task))
        return LW_ELEASE;
    if (scope->open > 0)
        return LW_PENDING;
    return scope->task_count < LW__SCOPE_TASKS_MAX ? LW_OK : LW_EFULL;
}

void lw__scope_rejoin_locked(struct lw__index *index, struct lw__task *task) {
    struct lw__member *member = lw__task_spec(task)->member;
    struct lw__scope *scope = lw__scope_find_locked(index, member->scope);
    add_member(scope, member);
    scope->task_count++;
}

bool lw__scope_is_present_locked(const struct lw__index *index, const struct lw__task *task) {
    const struct lw__member *member = lw__task_spec(task)->member;
    const struct lw__scope *scope = lw__scope_find_locked(index, member->scope);
    return scope && !scope->is_closed && scope->generation == member->generation;
}

/* None of them runs yet: the fence stands, or the store is being opened. */
static void mark_unclean(struct lw__scope *scope) {
    for (struct lw__task_link *link = scope->tasks.next; link != &scope->tasks; link = link->next)
        member_of(link)->is_unclean = true;
}

void lw__scope_note_lost_locked(struct lw__index *index, const struct lw__task *task) {
    const struct lw__member *member = lw__task_spec(task)->member;
    struct lw__scope *scope = lw__scope_find_locked(index, member->scope);
    bool *which = member->generation == scope->generation ? &scope->has_lost : &scope->is_unclean;
    if (*which)
        return;
    *which = true;
    if (which == &scope->is_unclean)
        mark_unclean(scope);
    lw__scope_note_locked(index, scope);
}

/* ---- the fence ---------------------------------------------------------------------------- */

/* Releases what it has held; those that wait for another task, too, stay. */
static void open_fence(struct lw__index *index, struct lw__scope *scope, uint64_t now) {
    for (struct lw__task_link *link = scope->tasks.next; link != &scope->tasks; link = link->next) {
        struct lw__member *member = member_of(link);
        if (!member->is_held)
            continue;
        member->is_held = false;
        member->is_unclean = scope->is_unclean;
        if (lw__task_spec(member->task)->after_left == 0)
            lw__index_release_locked(index, member->task, now);
    }
}

void lw__scope_remove_if_over_locked(struct lw__index *index, struct lw__scope *scope) {
    if (!scope->is_closed || first_of(&scope->tasks) || first_of(&scope->old))
        return;
    if (index->journal)
        lw__journal_note_scope_leave(index->journal, scope->id);
    lw__scope_remove_locked(index, scope);
}

static void shut_member(struct lw__index *index, struct lw__scope *scope, struct lw__member *member,
                        uint64_t now) {
    member->is_open = false;
    if (--scope->open > 0)
        return;
    open_fence(index, scope, now);
    tell(index, scope);
}

void lw__scope_leave_locked(struct lw__index *index, struct lw__task *task, uint64_t now) {
    struct lw__member *member = lw__task_spec(task)->member;
    struct lw__scope *scope = lw__scope_find_locked(index, member->scope);
    unlink_member(member);
    member->is_held = false;
    if (member->generation == scope->generation) {
        scope->task_count--;
        if (lw__task_state(task) != LW_FINISHED)
            tell(index, scope);
    }
    if (member->is_open)
        shut_member(index, scope, member, now);
    lw__scope_remove_if_over_locked(index, scope);
}

/* ---- moving on ---------------------------------------------------------------------------- */

/* Aborts what waits of older generations, and asks what runs to give up. Aborting one can end or
 * release others of the scope: each turn takes the first that is left. */
static void leave_behind(struct lw__index *index, struct lw__scope *scope, uint64_t now) {
    struct lw__member *member;
    while ((member = first_of(&scope->tasks)) && member->generation != scope->generation) {
        unlink_member(member);
        append(&scope->old, member);
        if (lw__index_abort_locked(index, member->task, now, "its scope has moved on"))
            continue;
        member->is_open = lw__task_state(member->task) == LW_STARTED && !index->is_unfenced;
        scope->open += member->is_open;
    }
}

/* An operator says that what still runs need not be waited for. */
static void force_fence(struct lw__index *index, struct lw__scope *scope, uint64_t now) {
    if (scope->open == 0)
        return;
    for (struct lw__task_link *link = scope->old.next; link != &scope->old; link = link->next)
        member_of(link)->is_open = false;
    scope->open = 0;
    scope->is_unclean = true;
    open_fence(index, scope, now);
}

/* ---- changes ------------------------------------------------------------------------------ */

static bool is_move(const struct lw__scope_change *change) {
    return change->action == LW__SCOPE_MOVE || change->action == LW__SCOPE_CLOSE;
}

static int copy_bytes(struct lw__index *index, const struct lw__scope_change *change,
                      lw_bytes *copy) {
    *copy = (lw_bytes){NULL, 0};
    if (!change->has_bytes || change->bytes.size == 0)
        return LW_OK;
    if (change->bytes.size > LW__SCOPE_BYTES_MAX)
        return LW_EINVAL;
    void *block = lw__alloc(&index->allocator, change->bytes.size);
    if (!block)
        return LW_ENOMEM;
    memcpy(block, change->bytes.data, change->bytes.size);
    *copy = (lw_bytes){block, change->bytes.size};
    return LW_OK;
}

/* From here on what is put is of the new generation. That is unclean if an attempt of the one
 * before was lost; or of one before that, if the fence has not opened since, or was forced and what
 * it waited for still runs. */
static void begin_generation(struct lw__index *index, struct lw__scope *scope) {
    scope->is_moving = first_of(&scope->tasks) || first_of(&scope->old);
    scope->is_unclean = scope->has_lost || (scope->is_unclean && first_of(&scope->old));
    scope->has_lost = false;
    scope->is_closed = false;
    scope->generation = ++index->scopes.last_generation;
    scope->task_count = 0;
}

static void free_plan(struct lw__index *index, lw_bytes bytes, struct lw__scope_image *image) {
    if (bytes.data)
        lw__free(&index->allocator, (void *)bytes.data, bytes.size);
    if (image)
        lw__free(&index->allocator, image, image->size);
}

int lw__scope_prepare_locked(struct lw__index *index, struct lw__scope *scope,
                             struct lw__scope_change *change, struct lw__scope_plan *plan) {
    lw_bytes bytes = {NULL, 0};
    int rc = LW_OK;
    if (change && change->version != 0 && change->version != scope->version)
        return LW_ECHANGED;
    struct lw__scope_image *image = NULL;
    if (change)
        rc = copy_bytes(index, change, &bytes);
    if (rc == LW_OK && change && index->journal) {
        image = lw__scope_image_make(index, scope, change->has_bytes ? bytes : scope->bytes);
        rc = image && lw__journal_reserve(index->journal, 1) ? LW_OK : LW_ENOMEM;
    }
    if (rc < 0) {
        free_plan(index, bytes, image);
        return rc;
    }
    if (image) /* first of all, so that there is room for it; it is filled at the commit */
        lw__journal_note_scope(index->journal, image);
    *plan = (struct lw__scope_plan){.scope = scope,
                                    .change = change,
                                    .bytes = bytes,
                                    .image = image,
                                    .generation = scope->generation,
                                    .task_count = scope->task_count,
                                    .was_closed = scope->is_closed,
                                    .was_unclean = scope->is_unclean,
                                    .had_lost = scope->has_lost};
    if (change && is_move(change))
        begin_generation(index, scope);
    index->scopes.current = change && change->action == LW__SCOPE_CLOSE ? NULL : scope;
    return LW_OK;
}

void lw__scope_cancel_locked(struct lw__index *index, struct lw__scope_plan *plan) {
    struct lw__scope *scope = plan->scope;
    if (!scope)
        return;
    index->scopes.current = NULL;
    free_plan(index, plan->bytes, NULL);
    if (plan->image)
        lw__journal_cancel_scope(index->journal, plan->image);
    scope->is_moving = false;
    scope->is_closed = plan->was_closed;
    scope->is_unclean = plan->was_unclean;
    scope->has_lost = plan->had_lost;
    scope->generation = plan->generation;
    scope->task_count = plan->task_count;
}

static void take_bytes(struct lw__index *index, struct lw__scope *scope, lw_bytes bytes) {
    if (scope->bytes.data)
        lw__free(&index->allocator, (void *)scope->bytes.data, scope->bytes.size);
    scope->bytes = bytes;
}

/* A scope that is just being changed has its new bytes already. */
void lw__scope_note_abort_locked(struct lw__index *index, const struct lw__task *task,
                                 const char *reason) {
    char bytes[LW__SCOPE_BYTES_MAX];
    if (!index->hooks.scope_aborted || !lw__scope_is_present_locked(index, task))
        return;
    struct lw__scope *scope = lw__scope_find_locked(index, lw__task_spec(task)->member->scope);
    if (scope == index->scopes.current)
        return;
    size_t size = index->hooks.scope_aborted(index->hooks.user, task, reason, scope->bytes, bytes);
    void *block = size > 0 ? lw__alloc(&index->allocator, size) : NULL;
    if (!block)
        return;
    memcpy(block, bytes, size);
    take_bytes(index, scope, (lw_bytes){block, size});
    scope->version++;
    lw__scope_note_locked(index, scope);
}

static void move(struct lw__index *index, struct lw__scope *scope, uint64_t now) {
    leave_behind(index, scope, now);
    scope->is_moving = false;
    if (scope->open == 0)
        open_fence(index, scope, now);
}

static void abort_listed(struct lw__index *index, const struct lw__scope_plan *plan, uint64_t now) {
    const struct lw__scope_change *change = plan->change;
    for (size_t i = 0; i < change->aborted_count; i++) {
        struct lw__task *task = lw__ids_find(&index->ids, change->aborted[i]);
        bool is_scoped = task && lw__task_flags(task) & LW__TASK_SCOPED;
        const struct lw__member *member = is_scoped ? lw__task_spec(task)->member : NULL;
        if (member && member->scope == plan->scope->id && member->generation == plan->generation)
            lw__index_abort_idle_locked(index, task, now, change->reasons[i]);
    }
}

void lw__scope_commit_locked(struct lw__index *index, struct lw__scope_plan *plan, uint64_t now) {
    struct lw__scope *scope = plan->scope;
    struct lw__scope_change *change = plan->change;
    if (!scope)
        return;
    if (change)
        abort_listed(index, plan, now);
    index->scopes.current = NULL;
    if (!change)
        return;
    if (change->has_bytes)
        take_bytes(index, scope, plan->bytes);
    scope->version++;
    if (is_move(change))
        move(index, scope, now);
    else if (change->action == LW__SCOPE_FORCE)
        force_fence(index, scope, now);
    scope->is_closed = change->action == LW__SCOPE_CLOSE;
    if (plan->image)
        lw__scope_image_take(plan->image, scope);
    change->new_generation = scope->generation;
    change->new_version = scope->version;
    tell(index, scope);
    lw__scope_remove_if_over_locked(index, scope);
}

static int change_locked(struct lw__index *index, uint64_t now, struct lw__scope *scope,
                         struct lw__scope_change *change, struct lw__put *puts, size_t count) {
    struct lw__scope_plan plan = {.scope = NULL};
    int rc = lw__scope_prepare_locked(index, scope, change, &plan);
    if (rc == LW_OK)
        rc = lw__index_put_locked(index, now, puts, count);
    if (rc < 0)
        lw__scope_cancel_locked(index, &plan);
    else
        lw__scope_commit_locked(index, &plan, now);
    return rc;
}

int lw__index_scope_change(struct lw__store *store, uint64_t now, uint64_t id, uint64_t generation,
                           struct lw__scope_change *change, struct lw__put *puts, size_t count) {
    struct lw__index *index = store->index;
    int rc;
    lw__index_lock(index);
    struct lw__scope *scope = lw__scope_find_locked(index, id);
    if (!scope || scope->is_closed)
        rc = LW_ENOTFOUND;
    else if (generation != 0 && generation != scope->generation)
        rc = LW_ELEASE;
    else if (count > 0 && index->restraints & LW__STORE_NO_PUT)
        rc = LW_ESTOPPING;
    else
        rc = change_locked(index, now, scope, change, puts, count);
    lw__grace_collect(&index->grace);
    lw__index_unlock(index);
    return rc;
}
