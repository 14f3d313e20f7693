/* The pump: the one thread of a database store that writes. In each turn it takes what the index
 * has noted since the last one (store/journal.h), writes it in one transaction, and then lets go
 * what waited for that: tasks that were put can run, ends have their effects, submitters return.
 * Everything that comes while it writes goes into the next turn: group commit needs nothing else.
 *
 * It sleeps while nothing is noted. When a turn cannot be written, its puts are refused, everything
 * else is tried again, less and less often, and no new attempt starts until it has worked.
 */
#ifndef LW_STORE_DB_PUMP_H
#define LW_STORE_DB_PUMP_H

#include "store/index.h"
#include "store/journal.h"

#include <pthread.h>

/* The database, as the pump needs it. Called by its thread only. */
struct lw__db_ops {
    int (*begin)(void *db, lw_error *err);
    int (*write)(void *db, const struct lw__journal_entry *entry, lw_error *err);
    int (*commit)(void *db, lw_error *err); /* LW_EUNSURE: nobody knows whether it is durable */
    void (*rollback)(void *db);
    /* After a failure: whatever it takes to go on. LW_OK: it may be tried again. */
    int (*recover)(void *db, lw_error *err);
};

struct lw__pump {
    /* fixed after start */
    struct lw__index *index;
    const struct lw__db_ops *ops;
    void *db;
    void (*after_turn)(void *user); /* no lock held: the engine looks who can go on */
    void *user;
    pthread_t thread;
    bool is_running;
    /* atomic */
    _Atomic uint32_t call; /* what it sleeps on */
    _Atomic uint32_t is_asleep;
    _Atomic uint32_t must_end;
    _Atomic uint64_t turns;
    /* guarded by the index's mutex */
    struct lw__journal journal;
    uint32_t failures; /* turns in a row */
};

void lw__pump_init(struct lw__pump *pump, struct lw__index *index, const struct lw__db_ops *ops,
                   void *db);
bool lw__pump_start(struct lw__pump *pump);

/* Writes what is noted, ends the thread, and frees what belongs to the pump. */
void lw__pump_stop(struct lw__pump *pump);

/* Sleeps until what the caller noted is durable; the wait was announced under the mutex. Returns
 * its status. */
int lw__pump_await(struct lw__pump *pump, struct lw__journal_wait *wait);

#endif
