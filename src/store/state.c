/* The table of states. */
#include "store/state.h"

const unsigned char lw__state_table[LW__STATES][LW__EVENTS] = {
    [0] = {[LW__EVENT_HOLD] = LW_CREATED,
           [LW__EVENT_DELAY] = LW_SCHEDULED,
           [LW__EVENT_ENQUEUE] = LW_ENQUEUED},
    [LW_CREATED] = {[LW__EVENT_DELAY] = LW_SCHEDULED,
                    [LW__EVENT_ENQUEUE] = LW_ENQUEUED,
                    [LW__EVENT_ABORT] = LW_ABORTED},
    [LW_SCHEDULED] = {[LW__EVENT_ENQUEUE] = LW_ENQUEUED,
                      [LW__EVENT_FAIL] = LW_FAILED,
                      [LW__EVENT_ABORT] = LW_ABORTED},
    [LW_ENQUEUED] = {[LW__EVENT_START] = LW_STARTED, [LW__EVENT_ABORT] = LW_ABORTED},
    [LW_STARTED] = {[LW__EVENT_FINISH] = LW_FINISHED,
                    [LW__EVENT_POSTPONE] = LW_SCHEDULED,
                    [LW__EVENT_GIVE_BACK] = LW_ENQUEUED,
                    [LW__EVENT_FAIL] = LW_FAILED,
                    [LW__EVENT_ABORT] = LW_ABORTED},
    [LW_FAILED] = {[LW__EVENT_REVIVE] = LW_ENQUEUED},
    [LW_ABORTED] = {[LW__EVENT_REVIVE] = LW_ENQUEUED},
};

const char *lw__event_name(enum lw__task_event event) {
    static const char *const names[] = {
#define EVENT_NAME(constant, name) name,
        LW__EVENT_MAP(EVENT_NAME)
#undef EVENT_NAME
    };
    return (unsigned)event < LW__EVENTS ? names[event] : "unknown";
}

const char *lw_state_name(lw_state state) {
    switch (state) {
#define STATE_NAME(constant, number, name) \
    case constant: return name;
        LW_STATE_MAP(STATE_NAME)
#undef STATE_NAME
    }
    return "unknown";
}

bool lw_state_is_terminal(lw_state state) {
    return state == LW_FINISHED || state == LW_FAILED || state == LW_ABORTED;
}

const char *lw_fault_name(lw_fault fault) {
    switch (fault) {
#define FAULT_NAME(constant, number, name) \
    case constant: return name;
        LW_FAULT_MAP(FAULT_NAME)
#undef FAULT_NAME
    }
    return "unknown";
}
