/* The names of states, events and faults. */
#include "store/state.h"

const char *lw__event_name(enum lw__task_event event) {
    static const char *const names[] = {
#define EVENT_NAME(constant, name, from, to) name,
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
    switch ((int)fault) {
    case 0: return "none";
#define FAULT_NAME(constant, number, name) \
    case constant: return name;
        LW_FAULT_MAP(FAULT_NAME)
#undef FAULT_NAME
    }
    return "unknown";
}
