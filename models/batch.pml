/* Batches: every task that a worker has taken is run once, by it or by who takes it from behind a slow
 * one.
 *
 * A model of src/pool/batch.c and lw__batch_claim (hot.h): an owner that claims item after item without
 * a fence; the monitor, or a stop, that makes orphans of what has not begun; another worker that adopts
 * them; the owner, adopting its own and filling the batch anew. Unlike in the other models memory is not
 * sequentially consistent here, because the protocol turns on just that: what the owner writes to `next`
 * stays in its store buffer until the processor likes, it takes the mutex, or the other side passes
 * lw__barrier_everywhere. (That is x86; what a weaker machine does besides, the barrier undoes as well.)
 *
 * Tried with `spin -a -D<name>`, and found:
 *     NO_BARRIER   the monitor passes no barrier: the owner's claim is still in its store buffer
 *     LOOK_FIRST   it reads `next` before it withdraws the end
 *     CHECK_FIRST  the owner reads `end` before it writes its claim
 *     NO_AGAIN     an owner that finds the end withdrawn does not ask again under the mutex
 */
/* check: -DSAFETY */

#define FIRST 4 /* items of the first batch: tasks 0 to 3 */
#define SECOND 2 /* of a second one, which is taken when there are no orphans: 4 and 5 */
#define TASKS (FIRST + SECOND)

byte next, batch_end = FIRST; /* batch->next, batch->end, as all see them */
byte buffer;                /* the owner's next, as it sees it itself … */
bool is_buffered;           /* … while all others still see the old one */
bool is_locked;             /* batch->mu */
byte orphan_next, orphan_end; /* guarded by it */
byte orphans;               /* pool->orphans */
byte items[FIRST];
byte ran[TASKS], done;
hidden byte k;

inline flush() {
    if
    :: is_buffered -> next = buffer; is_buffered = false
    :: else
    fi
}

inline lock() { /* a locked instruction empties the store buffer; only the owner has one here */
    atomic { !is_locked -> is_locked = true }
}

inline perform(task) {
    atomic { ran[task]++; assert(ran[task] == 1) }
}

/* adopt_from: up to `most`. Under the mutex, and nobody looks at anything of it without. */
#define ADOPT(most, into) \
    lock(); \
    atomic { \
        n = 0; \
        do \
        :: n < most && orphan_next < orphan_end -> \
            into[n] = items[orphan_next]; \
            orphan_next++; \
            n++ \
        :: else -> break \
        od; \
        orphans = orphans - n; \
        is_locked = false \
    }

proctype owner() {
    byte index, n, limit, most, refills = 1;
    if /* LW__BATCH_MAX at that time: how many it adopts or takes at once */
    :: most = 1
    :: most = 2
    :: most = 3
    fi;
claim: /* lw__batch_claim */
#ifdef CHECK_FIRST
    limit = batch_end;
#endif
    atomic { index = (is_buffered -> buffer : next); buffer = index + 1; is_buffered = true }
#ifndef CHECK_FIRST
    limit = batch_end;
#endif
    if
    :: index < limit -> perform(items[index]); goto claim
    :: else
    fi;
#ifndef NO_AGAIN
    atomic { !is_locked -> is_locked = true; flush() } /* lw__batch_claim_again */
    if
    :: index < batch_end -> is_locked = false; perform(items[index]); goto claim
    :: else -> atomic { next = 0; batch_end = 0; is_locked = false }
    fi;
#else
    atomic { !is_locked -> flush(); next = 0; batch_end = 0 }
#endif
take: /* lw__batch_adopt with its own batch, then the ring */
    n = 0;
    if
    :: orphans > 0 -> ADOPT(most, items)
    :: orphans == 0 && refills > 0 -> /* it is the only worker whose batch has orphans */
        refills--;
        atomic { items[0] = FIRST; items[1] = FIRST + 1; n = SECOND }
    :: orphans == 0 && refills == 0 -> goto out
    fi;
    if /* run_batch */
    :: n == 0 -> goto take
    :: n == 1 -> perform(items[0]); goto take
    :: else ->
        atomic { !is_locked -> flush(); next = 0; batch_end = n } /* lw__batch_start */
        goto claim
    fi;
out:
    done++
}

proctype monitor() { /* lw__batch_orphan, twice: two ticks, or a tick and a stop */
    byte old_end, seen, times = 2;
    do
    :: times > 0 ->
        times--;
        lock();
        atomic {
            old_end = batch_end;
            seen = next
        }
        if
        :: seen < old_end && orphan_next == orphan_end ->
            batch_end = 0;
#ifndef NO_BARRIER
            atomic { flush() } /* lw__barrier_everywhere */
#endif
#ifndef LOOK_FIRST
            seen = next;
#endif
            seen = (seen < old_end -> seen : old_end);
            atomic {
                batch_end = seen;
                orphan_next = seen;
                orphan_end = old_end;
                orphans = orphans + old_end - seen
            }
        :: else
        fi;
        is_locked = false
    :: else -> break
    od;
    done++
}

proctype adopter() { /* another worker, or drop_queued; it comes and goes */
    byte mine[2], n, times = 2;
    do
    :: times > 0 && orphans > 0 ->
        times--;
        ADOPT(2, mine)
        if
        :: n > 0 -> perform(mine[0])
        :: else
        fi;
        if
        :: n > 1 -> perform(mine[1])
        :: else
        fi
    :: true -> break
    od;
    done++
}

proctype processor() { /* empties the store buffer when it likes */
end:
    do
    :: atomic { is_buffered -> flush() }
    od
}

init {
    atomic {
        for (k : 0 .. FIRST - 1) {
            items[k] = k
        }
        run owner();
        run monitor();
        run adopter();
        run processor()
    }
    (done == 3);
    assert(orphans == 0 && orphan_next == orphan_end);
    atomic {
        for (k : 0 .. TASKS - 1) {
            assert(ran[k] == 1)
        }
    }
}
