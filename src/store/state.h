/* The states of a task as data: what can happen to it, in which states, and where that leads. */
#ifndef LW_STORE_STATE_H
#define LW_STORE_STATE_H

#include "base/inline.h"

#include <legwork/task.h>
#include <stdint.h>

#define LW__STATES 8                  /* numbers 1 to 7; 0: not accepted yet */
#define LW__IN(state) (1u << (state)) /* a set of states */

/* X(event, its name, the states that it can happen in (0: a new task), where it leads)
 *
 *     hold       it waits for another task, or a fence
 *     delay      it waits for a time
 *     enqueue    it can run
 *     start      a worker begins an attempt
 *     finish     the attempt is done
 *     postpone   back-off or snooze
 *     give_back  the attempt did not count, or snoozed for 0
 *     fail       given up
 *     abort      cancelled, expired, dropped
 *     revive     retried by hand
 */
/* clang-format off */
#define LW__EVENT_MAP(X)                                                                           \
    X(HOLD,      "hold",      LW__IN(0),                                            LW_CREATED)    \
    X(DELAY,     "delay",     LW__IN(0) | LW__IN(LW_CREATED),                       LW_SCHEDULED)  \
    X(ENQUEUE,   "enqueue",   LW__IN(0) | LW__IN(LW_CREATED) | LW__IN(LW_SCHEDULED), LW_ENQUEUED)  \
    X(START,     "start",     LW__IN(LW_ENQUEUED),                                  LW_STARTED)    \
    X(FINISH,    "finish",    LW__IN(LW_STARTED),                                   LW_FINISHED)   \
    X(POSTPONE,  "postpone",  LW__IN(LW_STARTED),                                   LW_SCHEDULED)  \
    X(GIVE_BACK, "give_back", LW__IN(LW_STARTED),                                   LW_ENQUEUED)   \
    X(FAIL,      "fail",      LW__IN(LW_STARTED) | LW__IN(LW_SCHEDULED),            LW_FAILED)     \
    X(ABORT,     "abort",     LW__IN(LW_CREATED) | LW__IN(LW_SCHEDULED) | LW__IN(LW_ENQUEUED)      \
                              | LW__IN(LW_STARTED),                                 LW_ABORTED)    \
    X(REVIVE,    "revive",    LW__IN(LW_FAILED) | LW__IN(LW_ABORTED),               LW_ENQUEUED)
/* clang-format on */

enum lw__task_event {
#define LW__EVENT_ENUM(constant, name, from, to) LW__EVENT_##constant,
    LW__EVENT_MAP(LW__EVENT_ENUM)
#undef LW__EVENT_ENUM
        LW__EVENTS
};

/* The state that the event leads to; 0: it is illegal there. */
LW__INLINE lw_state lw__state_after(lw_state from, enum lw__task_event event) {
    static const struct {
        uint8_t from, to;
    } moves[] = {
#define LW__EVENT_MOVE(constant, name, from, to) {from, to},
        LW__EVENT_MAP(LW__EVENT_MOVE)
#undef LW__EVENT_MOVE
    };
    if ((unsigned)from >= LW__STATES || (unsigned)event >= LW__EVENTS)
        return (lw_state)0;
    return (moves[event].from & LW__IN(from)) != 0 ? (lw_state)moves[event].to : (lw_state)0;
}

const char *lw__event_name(enum lw__task_event event);

#endif
