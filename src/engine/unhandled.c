/* Kinds that have tasks and no handler: told to the log, once each.
 *
 * A kind is noted when its first task is accepted, which may be under a lock of the store, or at
 * lw_start if its tasks come from a file. The log is told by lw_start or by the scheduler: it is
 * the program's function, and no lock may be held. Before lw_start nothing is told: its handler may
 * still be registered. */
#include "engine/engine_internal.h"

#include "base/log.h"
#include "base/names.h"

void lw__unhandled_note(lw_engine *engine, struct lw__kind_info *info) {
    struct lw__unhandled *unhandled = &engine->unhandled;
    if (atomic_exchange(&info->is_unhandled, true))
        return;
    uint32_t at = atomic_fetch_add(&unhandled->count, 1);
    if (at < LW__UNHANDLED_MAX)
        atomic_store(&unhandled->kinds[at], info);
    if (at <= LW__UNHANDLED_MAX && atomic_load(&engine->is_started))
        lw__scheduler_call(engine);
}

struct lw__neighbour lw__unhandled_nearest(const lw_engine *engine, const char *kind) {
    struct lw__kind_figures figures[LW__FIGURES_MAX];
    const char *known[1 + LW__FIGURES_MAX];
    struct lw__neighbour found = {.nearest = NULL};
    uint32_t first = 0, count;
    while ((count = lw__index_kind_figures(engine->index, first, figures, LW__FIGURES_MAX)) > 0) {
        known[0] = found.nearest;
        for (uint32_t i = 0; i < count; i++) {
            known[1 + i] = figures[i].has_handler ? figures[i].name : NULL;
            found.has_handlers |= figures[i].has_handler;
        }
        found.nearest = lw__name_nearest(kind, known, 1 + count);
        first += count;
    }
    return found;
}

/* Without any handler the engine is one whose tasks are claimed (lease.h), or the program has
 * forgotten all of them: one line for all kinds says so. */
static void tell_kind(lw_engine *engine, const struct lw__kind_info *info) {
    struct lw__neighbour found = lw__unhandled_nearest(engine, info->name);
    if (info->run || info->is_registered || atomic_load(&info->is_call))
        return; /* it has got one since, or is declared to have none here */
    if (!found.has_handlers && !atomic_exchange(&engine->unhandled.is_all_told, true))
        lw__log(&engine->set.log, LW_LOG_INFO, "engine",
                "no kind has a handler here: tasks wait until a worker claims them",
                LW__FIELD_TEXT("engine", engine->set.name), LW__FIELD_TEXT("kind", info->name));
    else if (found.has_handlers && found.nearest)
        lw__log(&engine->set.log, LW_LOG_WARN, "engine",
                "a kind has no handler here: its tasks wait until a worker claims them",
                LW__FIELD_TEXT("engine", engine->set.name), LW__FIELD_TEXT("kind", info->name),
                LW__FIELD_TEXT("did_you_mean", found.nearest));
    else if (found.has_handlers)
        lw__log(&engine->set.log, LW_LOG_INFO, "engine",
                "a kind has no handler here: its tasks wait until a worker claims them",
                LW__FIELD_TEXT("engine", engine->set.name), LW__FIELD_TEXT("kind", info->name));
}

void lw__unhandled_tell(lw_engine *engine) {
    struct lw__unhandled *unhandled = &engine->unhandled;
    uint32_t told = atomic_load(&unhandled->told);
    while (atomic_load(&engine->is_started) && told < atomic_load(&unhandled->count)) {
        const struct lw__kind_info *info =
            told < LW__UNHANDLED_MAX ? atomic_load(&unhandled->kinds[told]) : NULL;
        if (told > LW__UNHANDLED_MAX || (told < LW__UNHANDLED_MAX && !info))
            return; /* all that are told were, or another thread is about to write it: it calls */
        if (!atomic_compare_exchange_strong(&unhandled->told, &told, told + 1))
            continue;
        if (info)
            tell_kind(engine, info);
        else if (!atomic_load(&unhandled->is_all_told))
            lw__log(&engine->set.log, LW_LOG_INFO, "engine",
                    "more kinds have no handler here: they are not told one by one",
                    LW__FIELD_TEXT("engine", engine->set.name),
                    LW__FIELD_U64("told", LW__UNHANDLED_MAX));
        if (lw__engine_is_forked(engine))
            return;
        told = atomic_load(&unhandled->told);
    }
}

void lw__unhandled_start(lw_engine *engine) {
    struct lw__kind_figures figures[LW__FIGURES_MAX];
    uint32_t first = 0, count;
    while ((count = lw__index_kind_figures(engine->index, first, figures, LW__FIGURES_MAX)) > 0) {
        for (uint32_t i = 0; i < count; i++) {
            struct lw__kind_info *info = lw__registry_find_kind(engine, figures[i].name);
            if (info && !figures[i].has_handler
                && figures[i].created + figures[i].scheduled + figures[i].enqueued > 0)
                lw__unhandled_note(engine, info);
        }
        first += count;
    }
    lw__unhandled_tell(engine);
}
