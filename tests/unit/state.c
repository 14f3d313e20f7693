/* The moves of states are those of the rows below, for every pair of state and event;
 * and moving a task obeys it, stamps the time, and ends the program rather than break it. */
#include "test.h"

#include "store/state.h"
#include "store/task.h"

#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NEW = 0 };

/* One row of the header's table: an event, the states that it may find (0 ends them), and where it
 * leads. NEW, which is 0 as well, has a field of its own. */
struct row {
    enum lw__task_event event;
    bool from_new;
    lw_state from[6];
    lw_state to;
};

static const struct row rows[] = {
    {LW__EVENT_HOLD, true, {0}, LW_CREATED},
    {LW__EVENT_DELAY, true, {LW_CREATED}, LW_SCHEDULED},
    {LW__EVENT_ENQUEUE, true, {LW_CREATED, LW_SCHEDULED}, LW_ENQUEUED},
    {LW__EVENT_START, false, {LW_ENQUEUED}, LW_STARTED},
    {LW__EVENT_FINISH, false, {LW_STARTED}, LW_FINISHED},
    {LW__EVENT_POSTPONE, false, {LW_STARTED}, LW_SCHEDULED},
    {LW__EVENT_GIVE_BACK, false, {LW_STARTED}, LW_ENQUEUED},
    {LW__EVENT_FAIL, false, {LW_STARTED, LW_SCHEDULED}, LW_FAILED},
    {LW__EVENT_ABORT, false, {LW_CREATED, LW_SCHEDULED, LW_ENQUEUED, LW_STARTED}, LW_ABORTED},
    {LW__EVENT_REVIVE, false, {LW_FAILED, LW_ABORTED}, LW_ENQUEUED},
};

_Static_assert(sizeof rows / sizeof *rows == LW__EVENTS, "a row for every event");

/* Where the event leads by the header; 0: it is illegal there. */
static lw_state expected(int from, int event) {
    const struct row *row = &rows[event];
    if (from == NEW)
        return row->from_new ? row->to : (lw_state)0;
    for (int i = 0; row->from[i] != 0; i++) {
        if ((int)row->from[i] == from)
            return row->to;
    }
    return (lw_state)0;
}

TEST(every_pair_of_state_and_event_leads_where_the_header_says) {
    int legal = 0;
    for (int from = 0; from < LW__STATES; from++) {
        for (int event = 0; event < LW__EVENTS; event++) {
            assert_int_equal(rows[event].event, event);
            lw_state to = lw__state_after((lw_state)from, (enum lw__task_event)event);
            if (to != expected(from, event))
                fprintf(stderr, "%s, %s\n", lw_state_name((lw_state)from),
                        lw__event_name((enum lw__task_event)event));
            assert_int_equal(to, expected(from, event));
            legal += to != 0;
        }
    }
    assert_int_equal(legal, 18);
}

TEST(numbers_that_are_no_state_or_event_lead_nowhere) {
    static const int odd[] = {-1, -1000000, LW__STATES, LW__EVENTS, 255, 256, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        for (int event = 0; event < LW__EVENTS; event++)
            assert_int_equal(lw__state_after((lw_state)odd[i], (enum lw__task_event)event), 0);
        for (int from = 0; from < LW__STATES && odd[i] != LW__STATES; from++)
            assert_int_equal(lw__state_after((lw_state)from, (enum lw__task_event)odd[i]), 0);
        if (odd[i] != LW__STATES)
            assert_string_equal(lw__event_name((enum lw__task_event)odd[i]), "unknown");
        assert_string_equal(lw_state_name((lw_state)odd[i]), "unknown");
        assert_string_equal(lw_fault_name((lw_fault)odd[i]), "unknown");
        assert_false(lw_state_is_terminal((lw_state)odd[i]));
    }
    assert_string_equal(lw_state_name((lw_state)0), "unknown");
    assert_string_equal(lw_fault_name((lw_fault)0), "none");
}

TEST(terminal_states_are_left_by_hand_only) {
    for (int from = 1; from < LW__STATES; from++) {
        bool is_left_by_itself = false;
        for (int event = 0; event < LW__EVENTS; event++)
            is_left_by_itself |=
                event != LW__EVENT_REVIVE
                && lw__state_after((lw_state)from, (enum lw__task_event)event) != 0;
        assert_int_equal(lw_state_is_terminal((lw_state)from), !is_left_by_itself);
    }
    for (int event = 0; event < LW__EVENTS; event++) /* what is finished is so for ever */
        assert_int_equal(lw__state_after(LW_FINISHED, (enum lw__task_event)event), 0);
}

/* From a state, the end of a task can be reached; and each state can be reached from nothing. */
static bool is_reachable(int from, int goal) {
    bool seen[LW__STATES] = {false};
    seen[from] = true;
    for (int round = 0; round < LW__STATES; round++)
        for (int state = 0; state < LW__STATES; state++)
            for (int event = 0; seen[state] && event < LW__EVENTS; event++) {
                lw_state to = lw__state_after((lw_state)state, (enum lw__task_event)event);
                seen[to ? (int)to : state] = true;
            }
    return seen[goal];
}

TEST(no_state_is_a_dead_end_or_out_of_reach) {
    for (int state = 1; state < LW__STATES; state++) {
        assert_true(is_reachable(NEW, state));
        assert_true(state == LW_FINISHED || is_reachable(state, LW_FINISHED));
        assert_false(is_reachable(state, NEW));
    }
}

TEST(names_are_those_of_the_maps) {
#define CHECK_STATE(constant, number, name) \
    assert_int_equal(constant, number);     \
    assert_string_equal(lw_state_name(constant), (name));
    LW_STATE_MAP(CHECK_STATE)
#define CHECK_FAULT(constant, number, name) \
    assert_int_equal(constant, number);     \
    assert_string_equal(lw_fault_name(constant), (name));
    LW_FAULT_MAP(CHECK_FAULT)
#define CHECK_EVENT(constant, name, from, to) \
    assert_string_equal(lw__event_name(LW__EVENT_##constant), (name));
    LW__EVENT_MAP(CHECK_EVENT)
    assert_string_equal(lw__event_name(LW__EVENT_GIVE_BACK), "give_back");
}

/* ---- moving a task ------------------------------------------------------------------------ */

static struct lw__task task_in(int state) {
    struct lw__task task = {.id = 7};
    task.state = (uint8_t)state;
    task.enqueued_at = 1;
    task.started_at = 2;
    task.due_at = 3;
    return task;
}

TEST(a_legal_move_writes_the_state_and_stamps_its_time_only) {
    for (int from = 0; from < LW__STATES; from++) {
        for (int event = 0; event < LW__EVENTS; event++) {
            lw_state to = expected(from, event);
            if (to == 0)
                continue;
            struct lw__task task = task_in(from);
            assert_int_equal(lw__task_move(&task, (enum lw__task_event)event, 1000), from);
            assert_int_equal(lw__task_state(&task), to);
            assert_int_equal(task.enqueued_at, to == LW_ENQUEUED ? 1000 : 1);
            assert_int_equal(task.started_at, to == LW_STARTED ? 1000 : 2);
            assert_int_equal(task.due_at, lw_state_is_terminal(to) ? 1000 : 3);
        }
    }
}

static void move_illegally(int from, int event) {
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    signal(SIGABRT, SIG_DFL);
    close(STDERR_FILENO);
    struct lw__task task = task_in(from);
    lw__task_move(&task, (enum lw__task_event)event, 1000);
    _exit(0);
}

TEST(an_illegal_move_ends_the_program) {
    for (int from = 0; from < LW__STATES; from++) {
        for (int event = 0; event < LW__EVENTS; event++) {
            if (expected(from, event) != 0)
                continue;
            int status;
            pid_t child = fork();
            assert_true(child >= 0);
            if (child == 0)
                move_illegally(from, event);
            assert_int_equal(waitpid(child, &status, 0), child);
            assert_true(WIFSIGNALED(status));
            assert_int_equal(WTERMSIG(status), SIGABRT);
        }
    }
}
