/* Scopes in the index. What they are for stands in store.h; this is how they are kept.
 *
 *     scopes.c   the table: by id, by name; open, look
 *     scope.c    tasks of a scope, its generations, the fence between them
 *
 * A scope has its unfinished tasks in two rings: those of the present generation, and those of
 * older ones, which have all been aborted or asked to give up. Of the latter some have an attempt
 * that still runs: these are open, and while there are any the fence stands: tasks of the present
 * generation stay `created`. A closed scope stays for as long as it has a task, so that the fence
 * stands for whoever opens its name again.
 *
 * Whatever changes a scope is one step in three parts, because tasks are put in the middle of it:
 * prepare, which can fail; put, which can fail; then commit, or cancel. Nothing that cannot be
 * undone comes before the commit.
 *
 * Threads: under the index's mutex.
 */
#ifndef LW_STORE_SCOPE_H
#define LW_STORE_SCOPE_H

#include "base/grace.h"
#include "store/ids.h"
#include "store/keys.h"
#include "store/store.h"

/* What a task of a scope has besides its spec. */
struct lw__member {
    uint64_t scope, generation; /* fixed */
    struct lw__task *task;      /* fixed */
    struct lw__task_link link;  /* in a ring of its scope; zero: it has ended */
    bool is_held;               /* the fence stands */
    bool is_open;               /* it runs, and the scope has moved on */
    bool is_unclean;            /* an attempt of a generation before it was lost */
};

struct lw__scope {
    uint64_t id, generation, version;
    struct lw__task_link
        tasks;                /* unfinished ones of this generation, in order of their acceptance */
    struct lw__task_link old; /* of older ones, not settled or accounted for yet */
    uint32_t task_count;      /* of this generation */
    uint32_t open;            /* of `old`, those that run */
    bool is_moving;           /* what is put now is held until the commit */
    bool is_closed;
    bool is_unclean; /* an attempt of an older generation was lost */
    bool has_lost;   /* one of this generation was */
    bool is_unsaved; /* there was no memory to note it (journal.h) */
    lw_bytes bytes;  /* a block of its own; NULL: none */
    size_t name_size;
    char name[];
};

struct lw__scopes {
    struct lw__grace grace; /* for the nodes of `ids`; nobody reads them without the mutex */
    struct lw__ids ids;
    struct lw__keys names;
    uint64_t last_id, last_generation;
    uint32_t count;
    struct lw__scope *current; /* what LW__SCOPE_THIS means; NULL: nothing */
};

/* A change that was prepared. Zeroed: none, and then commit and cancel do nothing. */
struct lw__scope_plan {
    struct lw__scope *scope;
    struct lw__scope_change *change; /* NULL: it stays as it is */
    lw_bytes bytes;                  /* a copy, to be the scope's */
    uint64_t generation;             /* what it was, */
    uint32_t task_count;             /* and this */
    bool was_closed, was_unclean, had_lost;
    struct lw__scope_image *image; /* what is noted; the journal's. NULL: no journal */
};

struct lw__index;

/* ---- scopes.c ----------------------------------------------------------------------------- */

void lw__scopes_init(struct lw__index *index);
void lw__scopes_free(struct lw__index *index);

/* NULL: there is none. Closed ones are found, too. */
struct lw__scope *lw__scope_find_locked(const struct lw__index *index, uint64_t id);
void lw__scope_remove_locked(struct lw__index *index, struct lw__scope *scope);

/* Notes a scope as it is now, if there is a journal; without memory it is marked, and noted when
 * the second is called. */
void lw__scope_note_locked(struct lw__index *index, struct lw__scope *scope);
void lw__scopes_note_lost_locked(struct lw__index *index);

/* An image of a scope with these bytes, taken later; NULL: no memory. */
struct lw__scope_image *lw__scope_image_make(struct lw__index *index, const struct lw__scope *scope,
                                             lw_bytes bytes);
void lw__scope_image_take(struct lw__scope_image *image, const struct lw__scope *scope);

/* A scope as a file has kept it; all of them before their tasks. And those that are only there for
 * tasks that are not there any more go, after the tasks. LW_OK, LW_EFULL, LW_ENOMEM. */
int lw__scope_restore_locked(struct lw__index *index, const struct lw__scope_image *image);
void lw__scopes_review_locked(struct lw__index *index);

int lw__index_scope_open(struct lw__store *store, uint64_t now, const char *name, lw_bytes bytes,
                         struct lw__put *puts, size_t count, struct lw__scope_copy *copy);
int lw__index_scope_find(struct lw__store *store, const char *name, struct lw__scope_copy *copy);
int lw__index_scope_next(struct lw__store *store, uint64_t after, struct lw__scope_copy *copy);

/* The scope of a task that the caller has claimed, and whether the task was completed by a process
 * that has died since. LW_OK; LW_ELEASE: the scope has another generation, or is gone. */
int lw__index_scope_of(struct lw__index *index, const struct lw__task *task,
                       struct lw__scope_copy *copy, bool *is_done);

/* ---- scope.c ------------------------------------------------------------------------------ */

/* The task of a link of a ring. */
const struct lw__task *lw__scope_task_at(const struct lw__task_link *link);

/* Whether a task may be put into its scope: LW_OK, LW_ELEASE, LW_EINVAL, LW_EFULL. */
int lw__scope_check_locked(const struct lw__index *index, const struct lw__put *put);

/* Takes its room (sign 1), or gives it back (-1). */
void lw__scope_count_locked(struct lw__index *index, const struct lw__put *put, int sign);

/* Makes it a member, before its first state; false: no memory. And undoes that. */
bool lw__scope_join_locked(struct lw__index *index, struct lw__task *task,
                           const struct lw__put *put);
void lw__scope_withdraw_locked(struct lw__index *index, struct lw__task *task);

/* The same for one whose room was taken for good. */
void lw__scope_retract_locked(struct lw__index *index, struct lw__task *task);

/* A task that comes back from a file, with a spec; its state is not placed yet. LW_OK; LW_ELEASE:
 * its scope has moved on, it has to be aborted, unless somebody has a lease of it; LW_ENOMEM. */
int lw__scope_restore_member_locked(struct lw__index *index, struct lw__task *task, uint64_t scope,
                                    uint64_t generation, bool is_unclean, lw_state state);

/* A member has ended; the scope may be gone then. */
void lw__scope_leave_locked(struct lw__index *index, struct lw__task *task, uint64_t now);

/* A member that had ended is to run again: LW_OK: it can be rejoined; LW_ELEASE; LW_PENDING: the
 * fence stands; LW_EFULL. */
int lw__scope_check_rejoin_locked(const struct lw__index *index, const struct lw__task *task);
void lw__scope_rejoin_locked(struct lw__index *index, struct lw__task *task);

/* Removes one that is closed and has no tasks any more. */
void lw__scope_remove_if_over_locked(struct lw__index *index, struct lw__scope *scope);

/* Whether the task is of the present generation of its scope. */
bool lw__scope_is_present_locked(const struct lw__index *index, const struct lw__task *task);

/* The attempt of a member was lost: nobody knows whether it still does something. */
void lw__scope_note_lost_locked(struct lw__index *index, const struct lw__task *task);

/* A task of a scope was aborted without an attempt that could say so: the scope's bytes are told
 * (hooks.scope_aborted), and noted together with the end of the task. Without memory they stay. */
void lw__scope_note_abort_locked(struct lw__index *index, const struct lw__task *task,
                                 const char *reason);

/* The three parts. Prepare: LW_OK, LW_EINVAL, LW_ECHANGED, LW_ENOMEM; *plan is zeroed by the
 * caller, and on failure left so. */
int lw__scope_prepare_locked(struct lw__index *index, struct lw__scope *scope,
                             struct lw__scope_change *change, struct lw__scope_plan *plan);
void lw__scope_cancel_locked(struct lw__index *index, struct lw__scope_plan *plan);
void lw__scope_commit_locked(struct lw__index *index, struct lw__scope_plan *plan, uint64_t now);

int lw__index_scope_change(struct lw__store *store, uint64_t now, uint64_t id, uint64_t generation,
                           struct lw__scope_change *change, struct lw__put *puts, size_t count);

#endif
