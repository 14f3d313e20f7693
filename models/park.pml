/* Parking and waking: nobody sleeps while work is queued, and a stop loses nothing.
 *
 * A model of src/pool/attention.c and what it touches: submitters that push and look whether anybody
 * attends or is expected; workers that take, withdraw, run, give, spin, sleep and leave; a draining
 * stop (park_stop.pml); and the monitor, which revokes the attention of a hurrying worker that sits in
 * a slow task (park_hurry.pml), or late after it (park_revoke.pml). A step here is one atomic access there, in the order of the program;
 * the function it stands in is named beside it. In C all of them are sequentially consistent: that
 * they interleave is all that can happen.
 *
 * Time is left out, and so is chance: an expectation may be over at any moment, or never. Also left
 * out: batches (batch.pml), waiting for room (room.pml), workers that quit, lw__attention_reinforce.
 *
 * How a lost wake-up shows: the first task ends only when a second one has begun, which takes two
 * workers. If one of them sleeps through it nothing moves any more before everything has run, and
 * Spin reports an invalid end state. Also checked: what was accepted has run when a stop is over,
 * then all workers have left, and the count of attentive ones never falls below 0 and ends at 0.
 *
 * Each of these was tried, with `spin -a -D<name>`, and Spin found the run that goes wrong, here or in
 * one of the other scenarios:
 *     NO_RECHECK     a worker does not look again after it has announced its sleep
 *     EARLY_DROP     it gives up its attention, looks again, and enters the lot only then
 *     EARLY_LOOK     a submitter looks who attends before it pushes
 *     NO_PASS_ON     who withdraws last does not look whether somebody else should wake
 *     NO_TAKE_BACK   a submitter that expects a sleeper and finds none leaves it expected …
 *     NO_LOOK_AGAIN  … or takes that back and does not look again (wake_first)
 *     NO_CLEAR       a worker that comes up stays expected while it runs a task
 *     NO_GIVE_AGAIN  it does not look whether the monitor has revoked its attention meanwhile, and relied
 *                    on its expectation
 *     SHOW_FIRST     attention is shown before it is counted, and may be revoked in between
 *     MODE_FIRST     a stop sets the mode before it closes the ring
 *     NO_REVOKE      the monitor does nothing
 */
/* check: -DSAFETY */

/* The scenario: two submitters with two tasks each, and the end is that all sleep. */
#ifndef SCENARIO
#define FIRST_TASKS 2  /* of the first submitter */
#define SECOND_TASKS 2 /* of the other, if there is one */
#define TIME_OUTS 0    /* so many sleeps may end by themselves; without a limit they would cover up for
                          everything */
#define CAN_HURRY 0    /* worker 0 may stay attentive while it runs, and there is a monitor */
#define CAN_SPIN 1     /* a worker may spin before it sleeps */
#define IS_LATE 0      /* a revoke may come when its slow task is over; the second task ends when the
                          third has begun */
#define IS_STOPPED 0   /* a stop comes at any time */
#endif

#define WORKERS 2
#define TASKS (FIRST_TASKS + SECOND_TASKS)

/* the ring: base/ring.c */
byte tail, head;      /* positions */
bool is_closed;       /* a bit of the tail, and changed only together with it */
bool is_there[TASKS]; /* the cell's turn says that it is full */

/* the lot `idle`: base/lot.c; all of it under its mutex, but for reading the count */
bool is_listed[WORKERS], is_woken[WORKERS];
byte idle_count, oldest;

/* the pool */
short attentive;
bool is_expected = true;    /* pool->expected; crew.c, grow_locked: of the new threads */
bool is_attending[WORKERS]; /* w->is_attending */
bool is_stopping;
byte settled; /* the sum of all w->settled */

/* what the model watches */
byte begun, ended, time_outs = TIME_OUTS;
bool is_slow;     /* worker 0 hurries and is in a task that takes long */
bool is_revoking; /* the monitor is not done yet */
hidden byte chosen;

#define has_work (head < tail && is_there[head]) /* lw__pool_has_work */
#define may_end (is_stopping && settled == tail) /* lw__pool_may_end */

inline unlist(w) {
    is_listed[w] = false;
    idle_count--;
    oldest = (idle_count > 0 -> 1 - w : 0)
}

inline wake_one(is_newest, found) { /* wake_counted: lw__lot_wake_newest or _oldest */
    atomic {
        found = idle_count > 0;
        if
        :: found ->
            chosen = (is_newest && idle_count == 2 -> 1 - oldest : oldest);
            unlist(chosen);
            is_woken[chosen] = true
        :: else
        fi
    }
}

inline uncount(was_last) { /* atomic_fetch_sub(&pool->attentive, 1) == 1 */
    atomic {
        attentive--;
        assert(attentive >= 0);
        was_last = attentive == 0
    }
}

inline wake_first(found) { /* lw__attention_wake_first */
    do
    :: attentive != 0 -> break /* lw__attention_is_missing: the one, … */
    :: else ->
        if
        :: idle_count == 0 -> break /* … then the other */
        :: else ->
            if
            :: !has_work -> break
            :: else ->
                found = is_expected; /* lw__expect_is_overdue */
                if
                :: found -> break /* its time is not over */
                :: true
                fi;
                atomic { /* compare and exchange */
                    if
                    :: is_expected == found -> is_expected = true
                    :: is_expected || found -> break /* another moment, or over */
                    fi
                }
                wake_one(true, found);
                if
                :: found -> break
                :: else
#ifdef NO_TAKE_BACK
                    ; break
#else
                    ; is_expected = false
#ifdef NO_LOOK_AGAIN
                    ; break
#endif
#endif
                fi
            fi
        fi
    od
}

inline wake_all(found) { /* lw__attention_wake_all */
    sleepers = idle_count;
    do
    :: sleepers == 0 -> break
    :: else ->
        sleepers--;
        wake_one(false, found);
        if
        :: found
        :: else -> break
        fi
    od
}

/* lw__attention_withdraw by the worker itself. That the exchange of is_attending and the subtraction
 * are one step here hides nothing: only the monitor looks at the former, and what it does between
 * them it can as well do after both. */
inline withdraw(found) {
    atomic {
        found = false;
        if
        :: is_attending[me] -> is_attending[me] = false; uncount(found)
        :: else
        fi
    }
#ifndef NO_PASS_ON
    if
    :: found -> wake_first(found)
    :: else
    fi
#endif
}

inline give() { /* lw__attention_give; one step for the same reason */
#ifdef SHOW_FIRST
    is_attending[me] = true;
    attentive++
#else
    atomic { attentive++; assert(!is_attending[me]); is_attending[me] = true }
#endif
}

inline come_up() { /* lw__attention_come_up */
    give();
#ifndef NO_CLEAR
    is_expected = false
#endif
#ifndef NO_GIVE_AGAIN
    ; if
    :: !is_attending[me] -> give()
    :: else
    fi
#endif
}

inline drop_attention() { /* in lw__attention_sleep, lw__attention_spin */
    atomic {
        if
        :: is_attending[me] -> is_attending[me] = false; uncount(found)
        :: else
        fi
    }
}

inline revoke(w, found) { /* lw__attention_revoke */
    atomic { found = is_attending[w]; is_attending[w] = false }
    if
    :: found ->
        uncount(found);
        if
        :: found -> wake_first(found)
        :: else
        fi
    :: else
    fi;
    is_revoking = false
}

proctype submitter(byte count; bool is_second) { /* lw_pool_submit, so many times */
    byte position;
    bool found;
    (!is_second || tail > 0 || is_closed); /* they are alike: let the first be the first */
    do
    :: count > 0 ->
#ifdef EARLY_LOOK
        wake_first(found);
#endif
        atomic { /* claim_cells: the bars are in the word that is compared and exchanged */
            count--;
            if
            :: is_closed -> break /* LW_ESTOPPING */
            :: else -> position = tail; tail++
            fi
        }
        is_there[position] = true; /* lw__ring_push: the exchange at its end */
#ifndef EARLY_LOOK
        wake_first(found) /* after_push */
#endif
    :: else -> break
    od;
    ended++
}

proctype worker(byte me) { /* lw__worker_main, work */
    byte position, sleepers;
    bool found, is_hurrying;
    come_up();
again:
    atomic { /* take, lw__ring_pop */
        if
        :: has_work -> position = head; head++
        :: else -> goto nothing
        fi
    }
    if /* run_batch */
    :: CAN_HURRY && me == 0 -> is_hurrying = true
    :: withdraw(found); is_hurrying = false
    fi;
#if IS_LATE
    atomic { begun++; is_slow = (me == 0 -> is_hurrying : is_slow) }
    atomic { position != 1 || begun > 2; is_slow = (me == 0 -> false : is_slow); settled++ }
#else
    atomic { begun++; is_slow = is_hurrying && position == 0 }
    atomic { IS_STOPPED || position > 0 || begun > 1; is_slow = false; settled++ }
#endif
    if
    :: !is_hurrying || !is_attending[me] -> give()
    :: else
    fi;
    goto again;

nothing: /* await_work */
    if
    :: may_end -> goto leave
    :: else
    fi;
    if
    :: CAN_SPIN -> /* lw__spin_for_work */
        is_expected = true;
        drop_attention();
        if /* poll */
        :: has_work -> come_up(); goto again
        :: true
        fi;
        come_up()
    :: true
    fi;
    /* lw__attention_sleep */
#ifdef EARLY_DROP
    drop_attention();
    if
    :: has_work -> give(); goto again
    :: else
    fi;
#endif
    atomic { /* lw__lot_enter */
        is_woken[me] = false;
        is_listed[me] = true;
        oldest = (idle_count == 0 -> me : oldest);
        idle_count++
    }
#ifndef EARLY_DROP
    drop_attention();
#ifndef NO_RECHECK
    if /* has_reason_to_stay_up: the one, … */
    :: has_work -> goto stay
    :: else
    fi;
    if /* … then the other */
    :: may_end -> goto stay
    :: else
    fi;
#endif
#endif
end_asleep:
    if /* lw__lot_wait */
    :: is_woken[me] -> goto woken
    :: atomic { time_outs > 0 && is_listed[me] -> time_outs--; unlist(me) }
        give();
        goto again
    fi;
stay:
    atomic { /* lw__lot_leave */
        if
        :: is_listed[me] -> unlist(me)
        :: else -> goto woken
        fi
    }
woken:
    come_up();
    goto again;

leave: /* lw__crew_leave */
    withdraw(found);
    wake_all(found);
    ended++
}

proctype monitor() { /* relieve: decided while the task is slow, done whenever it comes to it */
    bool found;
end:
    do
    :: atomic { is_slow -> is_revoking = true }
        revoke(0, found)
    od
}

proctype stopper() { /* lw__pool_begin_stop with LW_DRAIN */
    byte sleepers;
    bool found;
#ifdef MODE_FIRST
    is_stopping = true;
    is_closed = true;
#else
    is_closed = true;
    is_stopping = true;
#endif
    wake_all(found);
    ended++
}

init {
    atomic {
        run submitter(FIRST_TASKS, false);
        if
        :: SECOND_TASKS > 0 -> run submitter(SECOND_TASKS, true)
        :: else -> ended++
        fi;
        run worker(0);
        run worker(1);
        if
        :: IS_STOPPED -> run stopper()
        :: else
        fi;
#ifndef NO_REVOKE
        if
        :: CAN_HURRY -> run monitor()
        :: else
        fi
#endif
    }
    if
    :: IS_STOPPED ->
        (ended == 3 + WORKERS && !is_revoking);
        assert(attentive == 0 && idle_count == 0)
    :: else -> (ended == 2 && settled == TASKS)
    fi;
    assert(head == tail && begun == tail && settled == tail)
}
