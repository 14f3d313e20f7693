/* The pump: the one thread of a database store that writes. In each turn it takes what the index
 * has noted since the last one (store/journal.h), writes it in one transaction, and then lets go
 * what waited for that: tasks that were put can run, ends have their effects, submitters return.
 * What comes while it commits goes into the next turn: group commit needs nothing else.
 *
 * It sleeps while nothing is noted. When a turn cannot be written, its puts are refused, everything
 * else is tried again, less and less often, and no new attempt starts until it has worked; nor does
 * one while it cannot look for what others have written, where attempts may have been completed.
 *
 * Besides the index other connections can call it: what they have written it takes in before a
 * turn. While it sleeps it watches a descriptor for them. That announces a write and not its
 * commit, and it announces the pump's own writes, too. So whoever wakes it by that is waited for;
 * and after a turn of its own it looks once more, a little later.
 *
 * A synchronous pump has no thread, and takes nothing in: whoever has noted something takes its
 * turns (lw__pump_run).
 */
#ifndef LW_STORE_DB_PUMP_H
#define LW_STORE_DB_PUMP_H

#include "store/db/bell.h"
#include "store/index.h"
#include "store/journal.h"

#include <pthread.h>

#define LW__PUMP_RETRY_MS_MAX 2000 /* between turns that fail */

/* The database, as the pump needs it. Called by its thread only. */
struct lw__db_ops {
    /* A turn begins: whatever it waits for from now on, it waits for a bounded time in all, and
     * after a failure for less by the time that has passed since. NULL: it never waits. */
    void (*start)(void *db, bool has_failed);
    int (*begin)(void *db, lw_error *err);
    int (*write)(void *db, const struct lw__journal_entry *entries, size_t count, lw_error *err);
    int (*commit)(void *db, lw_error *err); /* LW_EUNSURE: nobody knows whether it is durable */
    void (*rollback)(void *db);
    /* After a failure: whatever it takes to go on. LW_OK: it may be tried again. */
    int (*recover)(void *db, lw_error *err);

    /* What other connections have asked for; all three or none of them.
     * Before a turn, notes it in the index. is_sure: they may be in the middle of a commit, which
     * has to be waited for. Returns how much there is to be committed, whatever else the turn has;
     * negative, with a sentence: it could not look. */
    int (*intake)(void *db, bool is_sure, lw_error *err);
    /* A descriptor that is readable after a connection has begun to write, be it one's own. -1:
     * there is none, and it has to look from time to time. */
    int (*watch)(void *db);
    bool (*heed)(void *db); /* empties the descriptor; whether there was something */
};

struct lw__pump {
    /* fixed after start */
    struct lw__index *index;
    const struct lw__db_ops *ops;
    void *db;
    void *user; /* of after_turn */
    pthread_t thread;
    bool is_running, is_synchronous;
    struct lw__mutex turn_mu; /* of a synchronous one: one turn at a time */
    struct lw__bell bell;     /* instead of `call`, if it takes something in */
    /* atomic */
    _Atomic uint32_t call; /* what it sleeps on */
    _Atomic uint32_t is_asleep;
    _Atomic uint32_t must_end;
    _Atomic uint32_t is_distrusted; /* somebody could not read */
    _Atomic uint32_t is_given_up;   /* nothing is written any more */
    _Atomic uint64_t turns;
    struct lw__mutex after_mu;
    void (*after_turn)(void *user); /* the engine looks who can go on; guarded by after_mu */
    /* guarded by the index's mutex */
    struct lw__journal journal;
    /* of whoever takes the turns */
    struct lw__journal_batch batch; /* what it writes; after a failure, what it writes again */
    uint32_t crowd;                 /* who slept until the last turn was over, or came meanwhile */
    uint32_t failures;              /* turns in a row */
    uint32_t misses;                /* looks in a row that could not be made, while turns could */
    lw_error told;                  /* why the last one could not be written; LW_OK: it was */
    bool has_echo;                  /* somebody has written: it itself, for all it knows */
    bool is_suspicious;             /* it may have been another connection */
    bool has_missed;                /* it could not look: the next look comes by itself */
};

void lw__pump_init(struct lw__pump *pump, struct lw__index *index, const struct lw__db_ops *ops,
                   void *db);
bool lw__pump_start(struct lw__pump *pump);

/* Writes what is noted, ends the thread, and frees what belongs to the pump. */
void lw__pump_stop(struct lw__pump *pump);

/* From now on after_turn is not called, nor is it running. Not from inside it. */
void lw__pump_mute(struct lw__pump *pump);

/* Takes turns until nothing is noted any more, or one has failed. For a synchronous pump. */
void lw__pump_run(struct lw__pump *pump);

/* Takes a turn, even if nothing is noted: there may be something to take in. Any thread. */
void lw__pump_call(struct lw__pump *pump);

/* What the file has could not be read: nothing is claimed any more until a turn, a little later,
 * has worked. Any thread. */
void lw__pump_distrust(struct lw__pump *pump, const lw_error *err);

/* Nothing that is noted from now on is written, even if it could be: after a stop that could not
 * wait for a database which has failed for long. Any thread. */
void lw__pump_give_up(struct lw__pump *pump);

/* Sleeps until what the caller noted is durable; the wait was announced under the mutex. Returns
 * its status. */
int lw__pump_await(struct lw__pump *pump, struct lw__journal_wait *wait);

#endif
