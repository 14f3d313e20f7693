/* The states of a task as data: which event leads from which state to which. state.c has the table.
 *
 *     event      what happened                                  from                      to
 *     hold       it waits for another task, or a fence          (new)                     created
 *     delay      it waits for a time                            (new), created            scheduled
 *     enqueue    it can run                                     (new), created, scheduled enqueued
 *     start      a worker begins an attempt                     enqueued                  started
 *     finish     the attempt is done                            started                   finished
 *     postpone   back-off or snooze                             started                   scheduled
 *     give_back  the attempt did not count, or snoozed for 0    started                   enqueued
 *     fail       given up                                       started, scheduled        failed
 *     abort      cancelled, expired, dropped                    all but terminal ones     aborted
 *     revive     retried by hand                                failed, aborted           enqueued
 */
#ifndef LW_STORE_STATE_H
#define LW_STORE_STATE_H

#include <legwork/task.h>

#define LW__EVENT_MAP(X)      \
    X(HOLD, "hold")           \
    X(DELAY, "delay")         \
    X(ENQUEUE, "enqueue")     \
    X(START, "start")         \
    X(FINISH, "finish")       \
    X(POSTPONE, "postpone")   \
    X(GIVE_BACK, "give_back") \
    X(FAIL, "fail")           \
    X(ABORT, "abort")         \
    X(REVIVE, "revive")

enum lw__task_event {
#define LW__EVENT_ENUM(constant, name) LW__EVENT_##constant,
    LW__EVENT_MAP(LW__EVENT_ENUM)
#undef LW__EVENT_ENUM
        LW__EVENTS
};

#define LW__STATES 8 /* numbers 1 to 7; 0: not accepted yet */

extern const unsigned char lw__state_table[LW__STATES][LW__EVENTS];

/* The state that the event leads to; 0: it is illegal there. */
static inline lw_state lw__state_after(lw_state from, enum lw__task_event event) {
    if ((unsigned)from >= LW__STATES || (unsigned)event >= LW__EVENTS)
        return (lw_state)0;
    return (lw_state)lw__state_table[from][event];
}

const char *lw__event_name(enum lw__task_event event);

#endif
