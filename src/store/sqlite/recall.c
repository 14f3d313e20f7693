/* Payloads that are in the file only, back into memory: for whoever runs the task, or looks at
 * it. */
#include "store/sqlite/sqlite.h"

#include "base/log.h"
#include "base/memory.h"

#include <string.h>

static void free_reads(struct lw__sqlite *sqlite, struct lw__lean_reads *reads) {
    for (uint32_t i = 0; i < reads->count; i++) {
        struct lw__spec *spec = reads->all[i].spec;
        if (spec)
            lw__free(&sqlite->allocator, spec, spec->size);
    }
}

/* ---- for workers -------------------------------------------------------------------------- */

/* LW_OK: it has its spec, or there is no row. */
static int recall_one(struct lw__sqlite *sqlite, uint64_t id, bool is_ahead, lw_error *err) {
    struct lw__index *index = sqlite->index;
    struct lw__lean_reads reads;
    int rc = lw__reader_read_locked(&sqlite->for_workers, sqlite->file, &sqlite->allocator, id,
                                    is_ahead, &reads, err);
    lw__index_lock(index);
    lw__lean_fill_locked(index, &reads);
    lw__index_unlock(index);
    free_reads(sqlite, &reads);
    return rc;
}

static bool can_read_ahead(struct lw__index *index) {
    lw__index_lock(index);
    bool has_room = lw__lean_has_room_locked(index);
    lw__index_unlock(index);
    return has_room;
}

/* Tasks that were claimed together mostly stand together in the file, so the first look finds all
 * of them; or another worker has just read them ahead. */
static int recall_all(struct lw__sqlite *sqlite, const struct lw__claim *claim, lw_error *err) {
    int rc = LW_OK;
    bool has_looked = false;
    for (uint32_t i = 0; rc == LW_OK && i < claim->count; i++) {
        struct lw__task *task = claim->tasks[i];
        if (!lw__task_is_lean(task))
            continue;
        if (!has_looked && can_read_ahead(sqlite->index))
            rc = recall_one(sqlite, task->id, true, err);
        has_looked = true;
        if (rc == LW_OK && lw__task_is_lean(task))
            rc = recall_one(sqlite, task->id, false, err);
    }
    return rc;
}

/* Whoever has changed the file by hand has to live with that. Its worker finds it aborted. */
static void give_up(struct lw__sqlite *sqlite, uint64_t now, struct lw__task *task) {
    struct lw__index *index = sqlite->index;
    lw__index_lock(index);
    lw__index_abort_idle_locked(index, task, now, "its row is gone from the file");
    lw__index_unlock(index);
}

static void give_back(struct lw__sqlite *sqlite, uint64_t now, struct lw__claim *claim,
                      const lw_error *err) {
    struct lw__index *index = sqlite->index;
    struct lw__task *lean[LW__CLAIM_MAX];
    uint32_t lean_count = 0, kept = 0;
    for (uint32_t i = 0; i < claim->count; i++) {
        if (lw__task_is_lean(claim->tasks[i]))
            lean[lean_count++] = claim->tasks[i];
        else
            claim->tasks[kept++] = claim->tasks[i];
    }
    claim->count = kept;
    lw__log(index->options.log, LW_LOG_ERROR, "store", "payloads could not be read",
            LW__FIELD_TEXT("why", err->message), LW__FIELD_U64("tasks", lean_count));
    lw__pump_distrust(&sqlite->pump, err);
    lw__index_unclaim(&index->store, now, lean, lean_count);
}

static bool has_lean(const struct lw__claim *claim) {
    for (uint32_t i = 0; i < claim->count; i++) {
        if (lw__task_is_lean(claim->tasks[i]))
            return true;
    }
    return false;
}

void lw__sqlite_recall(struct lw__sqlite *sqlite, uint64_t now, struct lw__claim *claim) {
    lw_error err = {0};
    if (!has_lean(claim))
        return;
    lw__reader_lock(&sqlite->for_workers);
    int rc = recall_all(sqlite, claim, &err);
    lw__reader_unlock(&sqlite->for_workers);
    if (rc < 0) {
        give_back(sqlite, now, claim, &err);
        return;
    }
    for (uint32_t i = 0; i < claim->count; i++) {
        if (lw__task_is_lean(claim->tasks[i]))
            give_up(sqlite, now, claim->tasks[i]);
    }
}

/* ---- for whoever has a lease -------------------------------------------------------------- */

static bool is_lean(struct lw__index *index, uint64_t id) {
    lw__index_lock(index);
    const struct lw__task *task = lw__ids_find(&index->ids, id);
    bool is_lean = task && lw__task_is_lean(task);
    lw__index_unlock(index);
    return is_lean;
}

int lw__sqlite_recall_leased(struct lw__sqlite *sqlite, const struct lw__lease_claim *claim) {
    lw_error err = {0};
    int rc = LW_OK;
    lw__reader_lock(&sqlite->for_workers);
    for (uint32_t i = 0; rc == LW_OK && i < claim->count; i++) {
        uint64_t id = claim->leased[i].id;
        bool can_read = is_lean(sqlite->index, id);
        if (can_read && can_read_ahead(sqlite->index))
            rc = recall_one(sqlite, id, true, &err);
        if (rc == LW_OK && can_read && is_lean(sqlite->index, id))
            rc = recall_one(sqlite, id, false, &err);
    }
    lw__reader_unlock(&sqlite->for_workers);
    if (rc < 0)
        lw__pump_distrust(&sqlite->pump, &err);
    return rc;
}

/* ---- for those who look ------------------------------------------------------------------- */

int lw__sqlite_read(struct lw__store *store, uint64_t id, void *payload, size_t size) {
    struct lw__sqlite *sqlite = lw__sqlite_of(store);
    struct lw__lean_reads reads;
    lw_error err = {0};
    lw__reader_lock(&sqlite->for_lookers);
    int rc = lw__reader_read_locked(&sqlite->for_lookers, sqlite->file, &sqlite->allocator, id,
                                    false, &reads, &err);
    lw__reader_unlock(&sqlite->for_lookers);
    const struct lw__spec *spec = rc == LW_OK && reads.count > 0 ? reads.all[0].spec : NULL;
    bool is_it = spec && spec->payload_size == size;
    if (is_it)
        memcpy(payload, lw__spec_payload(spec), size);
    free_reads(sqlite, &reads);
    return rc < 0 ? rc : is_it ? LW_OK : LW_ENOTFOUND;
}
