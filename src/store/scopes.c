/* The table of scopes: by id and by name. Both are made of what finds tasks, for which a pointer
 * is a pointer. */
#include "store/index.h"

#include "base/memory.h"

#include <string.h>

static struct lw__scope *as_scope(struct lw__task *entry) {
    return (struct lw__scope *)(void *)entry;
}

static struct lw__task *as_entry(struct lw__scope *scope) {
    return (struct lw__task *)(void *)scope;
}

static bool has_name(const struct lw__task *entry, uint32_t kind, const char *name, size_t size) {
    const struct lw__scope *scope = (const struct lw__scope *)(const void *)entry;
    (void)kind;
    return scope->name_size == size && memcmp(scope->name, name, size) == 0;
}

static void free_node(void *user, void *node, uintptr_t detail) {
    struct lw__scopes *scopes = user;
    (void)detail;
    lw__ids_free_node(&scopes->ids, node);
}

void lw__scopes_init(struct lw__index *index) {
    struct lw__scopes *scopes = &index->scopes;
    lw__grace_init(&scopes->grace, &index->allocator, free_node, scopes);
    lw__ids_init(&scopes->ids, &index->allocator, &scopes->grace);
    lw__keys_init(&scopes->names, &index->allocator, index->options.secret, has_name);
}

/* ---- one scope ---------------------------------------------------------------------------- */

static void free_scope(struct lw__index *index, struct lw__scope *scope) {
    if (scope->bytes.data)
        lw__free(&index->allocator, (void *)scope->bytes.data, scope->bytes.size);
    lw__free(&index->allocator, scope, sizeof *scope + scope->name_size + 1);
}

/* NULL: none. */
static struct lw__scope *find_named(const struct lw__scopes *scopes, const char *name,
                                    size_t name_size) {
    struct lw__keys_pair pair = lw__keys_pair(&scopes->names, 0, name, name_size);
    return as_scope(lw__keys_find(&scopes->names, &pair));
}

static int make_scope(struct lw__index *index, uint64_t id, const char *name, size_t name_size,
                      struct lw__scope **out) {
    struct lw__scopes *scopes = &index->scopes;
    if (scopes->count == LW__SCOPES_MAX)
        return LW_EFULL;
    struct lw__scope *scope = lw__alloc_zero(&index->allocator, sizeof *scope + name_size + 1);
    if (!scope)
        return LW_ENOMEM;
    memcpy(scope->name, name, name_size);
    scope->name_size = name_size;
    scope->id = id;
    lw__ring_init_links(&scope->tasks);
    lw__ring_init_links(&scope->old);
    if (!lw__keys_reserve(&scopes->names, 1)
        || !lw__ids_insert(&scopes->ids, scope->id, as_entry(scope))) {
        free_scope(index, scope);
        return LW_ENOMEM;
    }
    struct lw__keys_pair pair = lw__keys_pair(&scopes->names, 0, scope->name, name_size);
    lw__keys_set(&scopes->names, &pair, as_entry(scope));
    scopes->last_id = id > scopes->last_id ? id : scopes->last_id;
    scopes->count++;
    *out = scope;
    return LW_OK;
}

void lw__scope_remove_locked(struct lw__index *index, struct lw__scope *scope) {
    struct lw__scopes *scopes = &index->scopes;
    struct lw__keys_pair pair = lw__keys_pair(&scopes->names, 0, scope->name, scope->name_size);
    lw__keys_remove(&scopes->names, pair.hash, as_entry(scope));
    lw__ids_remove(&scopes->ids, scope->id);
    lw__grace_collect(&scopes->grace);
    scopes->count--;
    free_scope(index, scope);
}

void lw__scopes_free(struct lw__index *index) {
    struct lw__scopes *scopes = &index->scopes;
    struct lw__task *entry;
    while ((entry = lw__ids_find_from(&scopes->ids, 1)) != NULL)
        lw__scope_remove_locked(index, as_scope(entry));
    lw__grace_free(&scopes->grace);
    lw__ids_free(&scopes->ids);
    lw__keys_free(&scopes->names);
}

struct lw__scope *lw__scope_find_locked(const struct lw__index *index, uint64_t id) {
    return as_scope(lw__ids_find(&index->scopes.ids, id));
}

/* ---- in the journal, and back from it ----------------------------------------------------- */

struct lw__scope_image *lw__scope_image_make(struct lw__index *index, const struct lw__scope *scope,
                                             lw_bytes bytes) {
    size_t size = sizeof(struct lw__scope_image) + scope->name_size + 1 + bytes.size;
    struct lw__scope_image *image = lw__alloc_zero(&index->allocator, size);
    if (!image)
        return NULL;
    image->size = size;
    image->id = scope->id;
    image->name_size = scope->name_size;
    image->byte_count = bytes.size;
    return image;
}

void lw__scope_image_take(struct lw__scope_image *image, const struct lw__scope *scope) {
    image->generation = scope->generation;
    image->version = scope->version;
    image->is_closed = scope->is_closed;
    image->is_unclean = scope->is_unclean;
    image->has_lost = scope->has_lost;
    memcpy(image->name, scope->name, scope->name_size + 1);
    if (scope->bytes.size > 0)
        memcpy(image->name + scope->name_size + 1, scope->bytes.data, scope->bytes.size);
}

void lw__scope_note_locked(struct lw__index *index, struct lw__scope *scope) {
    struct lw__journal *journal = index->journal;
    if (!journal)
        return;
    bool has_room = lw__journal_reserve(journal, 1);
    struct lw__scope_image *image =
        has_room ? lw__scope_image_make(index, scope, scope->bytes) : NULL;
    scope->is_unsaved = !image;
    if (!image) {
        journal->has_lost_notes = true;
        return;
    }
    lw__scope_image_take(image, scope);
    lw__journal_note_scope(journal, image);
}

void lw__scopes_note_lost_locked(struct lw__index *index) {
    struct lw__ids *ids = &index->scopes.ids;
    for (struct lw__scope *scope = as_scope(lw__ids_find_from(ids, 1)); scope;
         scope = as_scope(lw__ids_find_from(ids, scope->id + 1))) {
        if (scope->is_unsaved)
            lw__scope_note_locked(index, scope);
    }
}

int lw__scope_restore_locked(struct lw__index *index, const struct lw__scope_image *image) {
    struct lw__scope *scope;
    void *bytes = NULL;
    int rc = make_scope(index, image->id, image->name, image->name_size, &scope);
    if (rc < 0)
        return rc;
    if (image->byte_count > 0) {
        bytes = lw__alloc(&index->allocator, image->byte_count);
        if (!bytes)
            return LW_ENOMEM;
        memcpy(bytes, image->name + image->name_size + 1, image->byte_count);
    }
    scope->bytes = (lw_bytes){bytes, image->byte_count};
    scope->generation = image->generation;
    scope->version = image->version;
    scope->is_closed = image->is_closed;
    scope->is_unclean = image->is_unclean;
    scope->has_lost = image->has_lost;
    return LW_OK;
}

void lw__scopes_review_locked(struct lw__index *index) {
    struct lw__ids *ids = &index->scopes.ids;
    uint64_t id = 0;
    struct lw__scope *scope;
    while ((scope = as_scope(lw__ids_find_from(ids, id + 1))) != NULL) {
        id = scope->id;
        lw__scope_remove_if_over_locked(index, scope);
    }
}

/* ---- looking ------------------------------------------------------------------------------ */

static void copy_task(const struct lw__task *task, struct lw__scope_task *copy) {
    const struct lw__errors *errors = lw__see(&task->errors);
    *copy = (struct lw__scope_task){.id = task->id,
                                    .kind = task->kind,
                                    .state = lw__task_state(task),
                                    .attempts = lw__see(&task->attempts),
                                    .due_at = lw__see(&task->due_at),
                                    .is_held = lw__task_spec(task)->member->is_held};
    if (errors && errors->count > 0) {
        const char *text = (const char *)errors + errors->entries[errors->count - 1].text_at;
        memcpy(copy->error, text, strlen(text) + 1); /* LW_TEXT_MAX at most */
    }
}

/* What has ended is only waiting to be durable. */
static void copy_tasks(const struct lw__scope *scope, struct lw__scope_copy *copy) {
    copy->copied_count = 0;
    for (const struct lw__task_link *link = scope->tasks.next;
         link != &scope->tasks && copy->copied_count < copy->task_capacity; link = link->next) {
        const struct lw__task *task = lw__scope_task_at(link);
        if (!lw_state_is_terminal(lw__task_state(task)))
            copy_task(task, &copy->tasks[copy->copied_count++]);
    }
}

static void copy_scope(const struct lw__scope *scope, struct lw__scope_copy *copy) {
    size_t size = scope->bytes.size < copy->capacity ? scope->bytes.size : copy->capacity;
    copy->id = scope->id;
    copy->generation = scope->generation;
    copy->version = scope->version;
    copy->task_count = scope->task_count;
    copy->open = scope->open;
    copy->is_unclean = scope->is_unclean;
    copy->size = scope->bytes.size;
    if (size > 0)
        memcpy(copy->bytes, scope->bytes.data, size);
    memcpy(copy->name, scope->name, scope->name_size + 1);
    if (copy->task_capacity > 0)
        copy_tasks(scope, copy);
}

int lw__index_scope_find(struct lw__store *store, const char *name, struct lw__scope_copy *copy) {
    struct lw__index *index = store->index;
    lw__index_lock(index);
    struct lw__scope *scope = find_named(&index->scopes, name, strlen(name));
    bool is_there = scope && !scope->is_closed;
    if (is_there)
        copy_scope(scope, copy);
    lw__index_unlock(index);
    return is_there ? LW_OK : LW_ENOTFOUND;
}

int lw__index_scope_next(struct lw__store *store, uint64_t after, struct lw__scope_copy *copy) {
    struct lw__index *index = store->index;
    struct lw__scope *scope = NULL;
    lw__index_lock(index);
    if (after < UINT64_MAX)
        scope = as_scope(lw__ids_find_from(&index->scopes.ids, after + 1));
    while (scope && scope->is_closed)
        scope = as_scope(lw__ids_find_from(&index->scopes.ids, scope->id + 1));
    if (scope)
        copy_scope(scope, copy);
    lw__index_unlock(index);
    return scope ? LW_OK : LW_ENOTFOUND;
}

int lw__index_scope_of(struct lw__index *index, const struct lw__task *task,
                       struct lw__scope_copy *copy, bool *is_done) {
    lw__index_lock(index);
    bool is_present = lw__scope_is_present_locked(index, task);
    if (is_present)
        copy_scope(lw__scope_find_locked(index, lw__task_spec(task)->member->scope), copy);
    *is_done = task->notes & LW__NOTE_DONE;
    lw__index_unlock(index);
    return is_present ? LW_OK : LW_ELEASE;
}

/* ---- open --------------------------------------------------------------------------------- */

/* A first generation is a move from nothing. One that was closed and has tasks that have not ended
 * lives on, and its fence with it. */
static int open_scope(struct lw__index *index, uint64_t now, struct lw__scope *scope,
                      lw_bytes bytes, struct lw__put *puts, size_t count) {
    struct lw__scope_change change = {.action = LW__SCOPE_MOVE, .has_bytes = true, .bytes = bytes};
    struct lw__scope_plan plan = {.scope = NULL};
    int rc = lw__scope_prepare_locked(index, scope, &change, &plan);
    if (rc == LW_OK)
        rc = lw__index_put_locked(index, now, puts, count);
    if (rc < 0)
        lw__scope_cancel_locked(index, &plan);
    else
        lw__scope_commit_locked(index, &plan, now);
    return rc;
}

static int open_locked(struct lw__index *index, uint64_t now, const char *name, lw_bytes bytes,
                       struct lw__put *puts, size_t count, struct lw__scope_copy *copy) {
    size_t name_size = strlen(name);
    struct lw__scope *scope = find_named(&index->scopes, name, name_size);
    bool is_new = !scope;
    int rc = is_new ? make_scope(index, index->scopes.last_id + 1, name, name_size, &scope) : LW_OK;
    if (rc < 0)
        return rc;
    if (is_new || scope->is_closed)
        rc = open_scope(index, now, scope, bytes, puts, count);
    else
        rc = LW_EXISTS;
    if (rc >= 0 && copy)
        copy_scope(scope, copy);
    if (rc < 0 && is_new)
        lw__scope_remove_locked(index, scope);
    return rc;
}

int lw__index_scope_open(struct lw__store *store, uint64_t now, const char *name, lw_bytes bytes,
                         struct lw__put *puts, size_t count, struct lw__scope_copy *copy) {
    struct lw__index *index = store->index;
    size_t name_size = strnlen(name, LW__SCOPE_NAME_MAX + 1);
    if (name_size == 0 || name_size > LW__SCOPE_NAME_MAX || bytes.size > LW__SCOPE_BYTES_MAX)
        return LW_EINVAL;
    lw__index_lock(index);
    int rc = index->restraints & LW__STORE_NO_PUT
                 ? LW_ESTOPPING
                 : open_locked(index, now, name, bytes, puts, count, copy);
    lw__grace_collect(&index->grace);
    lw__index_unlock(index);
    return rc;
}
