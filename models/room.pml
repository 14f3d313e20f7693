/* Waiting for room: no submitter sleeps for good while there is some.
 *
 * A model of src/pool/submit.c, wait_for_room and lw__pool_offer_room, and of who calls the latter: a
 * worker that has taken something or stops hurrying, a submitter that gives up or had to wait, the
 * monitor. The gate is the bit of the ring's tail that keeps later ones out while somebody waits. Two
 * ways in which room is held back while a worker hurries are modelled as "perhaps": how much of it is
 * enough (2 of 3 cells here), and whose turn it is.
 *
 * The queue is full at first. The worker takes a few tasks and then sits in one that never ends; as many
 * submitters as it takes want to get in; or one comes besides, waits and gives up. So if anybody
 * sleeps on although there is a place left, nothing moves any more, and Spin reports an invalid end
 * state.
 *
 * Tried with `spin -a -D<name>`, and found:
 *     NO_LOOK         a submitter does not look for room after it has entered the lot
 *     NO_HAND_ON      who gives up does not hand on the wake that it may have been given
 *     NO_NEXT         who had to wait does not offer what is left to the next
 *     NO_SHIFT        a worker that stops hurrying does not offer what is enough from then on
 *     NO_TICK         the monitor does not offer room while a hurrying worker is slow
 *     TURNS_FOR_ALL   turns are kept when nobody hurries, too
 */
/* check: -DSAFETY */

#define LIMIT 3
#define QUITTER 2 /* the submitter that gives up; the patient ones are 0 and 1 */

byte head, tail = LIMIT; /* base/ring.h */
bool is_gated;           /* a bit of the tail */
bool is_listed[3], is_woken[3]; /* the lot `room` */
byte room_count;
bool is_hurrying; /* pool->hurrying */
bool is_slow;     /* the worker, for good */
/* the scenario: two want to get in and the worker may hurry, or one does and a quitter comes */
bool can_hurry;
byte wanted = 1; /* so many tasks does the worker take before the slow one */
byte started, done;
hidden byte i;

inline wake_oldest() { /* lw__lot_wake_oldest; any of them: lw__lot_enter_again makes the order vary */
    atomic {
        if
        :: room_count > 0 ->
            select_listed();
            is_listed[i] = false;
            is_woken[i] = true;
            room_count--
        :: else
        fi
    }
}

inline select_listed() {
    if
    :: is_listed[0] -> i = 0
    :: is_listed[1] -> i = 1
    :: is_listed[2] -> i = 2
    fi
}

inline leave() { /* lw__lot_leave */
    atomic {
        seen = 0;
        is_much = false;
        if
        :: is_listed[me] -> is_listed[me] = false; room_count--
        :: else
        fi
    }
}

/* lw__pool_offer_room; ring.h, lw__ring_depth reads the head first. */
inline offer_room(may_hold_back) {
    atomic { seen = head; is_much = may_hold_back && is_hurrying }
    if
    :: tail - seen + 1 + is_much > LIMIT
    :: else ->
        is_gated = false;
        if /* is_next_turn: while it is another's, and the queue has not run dry */
#ifdef TURNS_FOR_ALL
        :: may_hold_back && tail > head
#else
        :: may_hold_back && is_hurrying && tail > head
#endif
        :: true -> wake_oldest()
        fi
    fi;
    atomic { seen = 0; is_much = false }
}

proctype submitter(byte me) { /* lw_pool_submit, submit_slowly */
    byte seen;
    bool is_much, has_waited;
    atomic { me == QUITTER || started == me -> started = started + (me != QUITTER) } /* alike: in order */
again: /* try_once */
    atomic {
        if
        :: is_gated || tail - head == LIMIT -> goto wait
        :: else -> tail = tail + (me != QUITTER) /* which comes in vain if it need not wait */
        fi
    }
#ifndef NO_NEXT
    if
    :: has_waited && room_count > 0 -> offer_room(true)
    :: else
    fi;
#endif
    goto out;

wait: /* sleep_for_room */
    atomic { is_listed[me] = true; is_woken[me] = false; room_count++; has_waited = true }
    is_gated = true;
#ifndef NO_LOOK
    atomic { seen = head; is_much = is_hurrying } /* reason_to_go */
    if
    :: tail - seen + 1 + is_much <= LIMIT ->
        leave();
        offer_room(true);
        goto up
    :: else -> atomic { seen = 0; is_much = false }
    fi;
#endif
    if /* lw__lot_wait */
    :: is_woken[me]
    :: me == QUITTER -> leave() /* its deadline; or it was woken at this very moment */
    fi;
up:
    if
    :: room_count == 0 -> is_gated = false
    :: else
    fi;
    if
    :: me != QUITTER -> goto again
    :: else
    fi;
#ifndef NO_HAND_ON
    offer_room(false); /* wait_for_room */
#endif
out:
    done++
}

proctype worker() { /* take */
    byte seen, taken;
    bool is_much;
    do
    ::  if /* choose_gear, lw__worker_shift */
        :: is_hurrying ->
            is_hurrying = false;
#ifndef NO_SHIFT
            if
            :: room_count > 0 -> offer_room(false)
            :: else
            fi
#endif
        :: can_hurry && !is_hurrying -> is_hurrying = true
        :: skip
        fi;
        if
        :: taken == wanted -> break /* lw__batch_adopt: the slow one was not in the ring */
        :: else
        fi;
        atomic { /* lw__ring_pop: one, or a batch */
            tail > head;
            head++; taken++;
            if
            :: is_hurrying && tail > head && taken < wanted -> head++; taken++
            :: true
            fi
        }
        if
        :: room_count > 0 -> offer_room(is_hurrying)
        :: else
        fi
    od;
    is_slow = true
}

proctype monitor() { /* watch_all, as long as a worker hurries */
    byte seen;
    bool is_much;
end:
    do
#ifndef NO_TICK
    :: is_slow && is_hurrying && room_count > 0 && tail - head < LIMIT -> offer_room(false)
#endif
    :: false
    od
}

init {
    atomic {
        run submitter(0);
        run worker();
        run monitor();
        if
        :: can_hurry = true; wanted = 2; run submitter(1)
        :: run submitter(QUITTER)
        fi
    }
    (done == 2 && is_slow)
}
