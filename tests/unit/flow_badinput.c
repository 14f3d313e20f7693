/* Flows and bad input: what is wrong is said, and nothing happens. */
#include "flows.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char X[] = "example.org";

FLOW_TEST(null_is_refused_everywhere) {
    lw_flow_status status;
    lw_error err = {0};
    lw_bytes none = {NULL, 0};
    assert_status(lw_flow_start(NULL, "site", X, none, &err), LW_EINVAL);
    assert_status(lw_flow_start(rig->engine, NULL, X, none, &err), LW_EINVAL);
    assert_status(lw_flow_start(rig->engine, "site", NULL, none, &err), LW_EINVAL);
    assert_string_equal(err.message, "the id is NULL");
    assert_status(lw_flow_start_get(NULL, "site", X, none, &status, NULL), LW_EINVAL);
    assert_status(lw_flow_move(NULL, "site", X, "deleting", NULL), LW_EINVAL);
    assert_status(lw_flow_move(rig->engine, "site", X, NULL, &err), LW_EINVAL);
    assert_status(lw_flow_move(rig->engine, "site", NULL, "deleting", NULL), LW_EINVAL);
    assert_status(lw_flow_set(NULL, "site", X, "db", 0, NULL), LW_EINVAL);
    assert_status(lw_flow_set(rig->engine, "site", X, NULL, 0, NULL), LW_EINVAL);
    assert_status(lw_flow_resume(NULL, "site", X, NULL), LW_EINVAL);
    assert_status(lw_flow_force(NULL, "site", X, NULL), LW_EINVAL);
    assert_status(lw_flow_get(NULL, "site", X, &status), LW_EINVAL);
    assert_status(lw_flow_get(rig->engine, "site", NULL, &status), LW_EINVAL);
    start_flow(rig, X);
    assert_status(lw_flow_get(rig->engine, "site", X, NULL), LW_EINVAL);
    assert_status(lw_flow_wait(NULL, "site", X, 0, &status), LW_EINVAL);
    assert_status(lw_flow_wait(rig->engine, "site", NULL, 0, &status), LW_EINVAL);
    assert_status(lw_flow_wait(rig->engine, "site", X, -2, &status), LW_EINVAL);
    assert_status(lw_flow_wait_fence(rig->engine, "site", X, LW_TIMEOUT_MS_MAX + 1, &status),
                  LW_EINVAL);
    assert_status(lw_flow_wait(rig->engine, "site", X, 0, NULL), LW_PENDING);
}

FLOW_TEST(what_is_not_there_is_not_found) {
    lw_flow_status status;
    lw_error err = {0};
    assert_status(lw_flow_start(rig->engine, "siet", X, LW_TEXT(""), &err), LW_ENOTFOUND);
    assert_string_equal(err.message, "flow \"siet\" is not known; did you mean \"site\"?");
    assert_status(lw_flow_get(rig->engine, "none", X, &status), LW_ENOTFOUND);
    assert_status(lw_flow_get(rig->engine, "site", X, &status), LW_ENOTFOUND);
    assert_status(lw_flow_move(rig->engine, "site", X, "deleting", &err), LW_ENOTFOUND);
    assert_string_equal(err.message, "there is no \"site/example.org\"");
    assert_status(lw_flow_set(rig->engine, "site", X, "db", 0, NULL), LW_ENOTFOUND);
    assert_status(lw_flow_resume(rig->engine, "site", X, NULL), LW_ENOTFOUND);
    assert_status(lw_flow_force(rig->engine, "site", X, NULL), LW_ENOTFOUND);
    assert_status(lw_flow_wait(rig->engine, "site", X, -1, NULL), LW_ENOTFOUND);
    assert_status(lw_flow_wait_fence(rig->engine, "site", X, -1, NULL), LW_ENOTFOUND);
    start_flow(rig, X);
    assert_status(lw_flow_move(rig->engine, "site", X, "deletnig", &err), LW_EINVAL);
    assert_string_equal(err.message, "state \"deletnig\" is not known; did you mean \"deleting\"?");
    assert_status(lw_flow_move(rig->engine, "site", X, "running", &err), LW_EINVAL); /* a goal */
}

FLOW_TEST(ids_and_payloads_have_limits) {
    char id[LW_FLOW_ID_MAX + 2], payload[LW_FLOW_PAYLOAD_MAX + 1];
    lw_error err = {0};
    lw_bytes most = {payload, LW_FLOW_PAYLOAD_MAX}, more = {payload, LW_FLOW_PAYLOAD_MAX + 1};
    lw_flow_status status;
    memset(payload, '\n', sizeof payload);
    memset(id, 'i', sizeof id);
    id[LW_FLOW_ID_MAX + 1] = 0;
    assert_status(lw_flow_start(rig->engine, "site", id, most, &err), LW_EINVAL);
    CHECK(strstr(err.message, "has 201 bytes, must have 1 to 200"));
    assert_status(lw_flow_get(rig->engine, "site", id, &status), LW_ENOTFOUND);
    assert_status(lw_flow_start(rig->engine, "site", "", most, &err), LW_EINVAL);
    assert_status(lw_flow_start(rig->engine, "site", "a\nb", most, &err), LW_EINVAL);
    assert_string_equal(err.message, "the id \"a\\x0ab\" has the byte 0x0a at position 2, may not "
                                     "have control characters");
    assert_status(lw_flow_move(rig->engine, "site", "a\x1b[2J\xe2\x80\xae", "deleting", &err),
                  LW_ENOTFOUND);
    assert_string_equal(err.message, "there is no \"site/a\\x1b[2J\\xe2\\x80\\xae\"");
    assert_status(lw_flow_start(rig->engine, "site", "\xff", most, &err), LW_EINVAL);
    id[LW_FLOW_ID_MAX] = 0;
    assert_status(lw_flow_start(rig->engine, "site", id, more, &err), LW_EINVAL);
    CHECK(strstr(err.message, "8193 bytes"));
    assert_status(lw_flow_start(rig->engine, "site", id, (lw_bytes){NULL, 1}, &err), LW_EINVAL);
    assert_status(lw_flow_start(rig->engine, "site", id, most, &err), LW_OK);
    run(rig);
    assert_flow(rig, id, "running", LW_FLOW_AT_GOAL);
    status = status_of(rig, id);
    assert_string_equal(status.id, id);
    assert_int_equal(status.payload_size, LW_FLOW_PAYLOAD_MAX);
    assert_memory_equal(status.payload, payload, LW_FLOW_PAYLOAD_MAX);
}

FLOW_TEST(a_stopping_engine_starts_and_moves_nothing) {
    lw_error err = {0};
    start_flow(rig, X);
    assert_status(lw_stop(rig->engine, LW_DROP, 0), LW_OK);
    assert_status(lw_flow_start(rig->engine, "site", "b", LW_TEXT(""), &err), LW_ESTOPPING);
    CHECK(strstr(err.message, "stopping"));
    assert_status(lw_flow_move(rig->engine, "site", X, "deleting", &err), LW_ESTOPPING);
    assert_flow(rig, X, "creating", LW_FLOW_ACTIVE);
}

TEST(names_of_conditions_and_of_states_of_steps) {
    assert_string_equal(lw_flow_condition_name(LW_FLOW_HELD), "held");
    assert_string_equal(lw_flow_condition_name(LW_FLOW_GONE), "gone");
    assert_string_equal(lw_flow_condition_name((lw_flow_condition)0), "unknown");
    assert_string_equal(lw_step_state_name(LW_STEP_WAITING), "waiting");
    assert_string_equal(lw_step_state_name(LW_STEP_ABORTED), "aborted");
    assert_string_equal(lw_step_state_name((lw_step_state)99), "unknown");
}

TEST(in_a_forked_child_all_calls_say_so) {
    struct flow_rig rig = {.user = NULL};
    lw_flow_status status;
    rig.engine = OPEN_ENGINE(.workers = 1);
    assert_status(register_site(rig.engine, &rig, NULL), LW_OK);
    start(rig.engine);
    pid_t child = fork();
    if (child == 0) {
        bool is_so = lw_flow_start(rig.engine, "site", X, LW_TEXT(""), NULL) == LW_EFORKED
                     && lw_flow_move(rig.engine, "site", X, "deleting", NULL) == LW_EFORKED
                     && lw_flow_set(rig.engine, "site", X, "db", 0, NULL) == LW_EFORKED
                     && lw_flow_get(rig.engine, "site", X, &status) == LW_EFORKED
                     && lw_flow_wait(rig.engine, "site", X, -1, &status) == LW_EFORKED
                     && lw_flow_list(rig.engine, "site", 0, 0, NULL, NULL) == LW_EFORKED
                     && lw_test_unfence(rig.engine) == LW_EFORKED;
        _exit(is_so ? 0 : 1);
    }
    int status_of_child;
    assert_int_equal(waitpid(child, &status_of_child, 0), child);
    assert_int_equal(status_of_child, 0);
    close_engine(rig.engine);
}
