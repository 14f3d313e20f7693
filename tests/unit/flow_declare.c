/* Declarations: what is refused when a flow is registered, each with its sentence; its graph. */
#include "engines.h"

#include <legwork/flow.h>
#include <stdio.h>
#include <string.h>

#define SITE_STATES                                \
    {"creating", .goal = "running"}, {             \
        "deleting", .goal = "deleted", .end = true \
    }

static const lw_step site_steps[] = {
    {.name = "save-metadata", .run = do_done, .state = "creating", .sets = "metadata_ready"},
    {.name = "create-files",
     .run = do_done,
     .state = "creating",
     .needs = {"metadata_ready"},
     .sets = "files_ready"},
    {.name = "create-db",
     .run = do_done,
     .state = "creating",
     .needs = {"metadata_ready"},
     .sets = "db_ready"},
    {.name = "bootstrap",
     .run = do_done,
     .state = "creating",
     .needs = {"db_ready"},
     .sets = "bootstrapped"},
    {.name = "delete-site", .run = do_done, .state = "deleting", .sets = "gone"},
};

/* Registers it with a fresh engine: the status and the sentence, which lw_start has to give as
 * well. */
static int try_register(const lw_flow *flow, lw_error *err) {
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO);
    lw_error again = {0};
    *err = (lw_error){0};
    int rc = lw_flow_register(engine, flow, err);
    assert_int_equal(rc, err->status);
    assert_status(lw_start(engine, &again), rc);
    assert_string_equal(again.message, err->message);
    close_engine(engine);
    return rc;
}

static void assert_refused(const lw_flow *flow, const char *sentence) {
    lw_error err;
    assert_status(try_register(flow, &err), LW_EINVAL);
    assert_string_equal(err.message, sentence);
}

#define REFUSED(sentence, ...) assert_refused(LW_FLOW(__VA_ARGS__), sentence)

struct graph {
    size_t size;
    char text[4096];
};

static int collect(void *user, const char *text, size_t size) {
    struct graph *graph = user;
    assert_int_equal(strlen(text), size);
    CHECK(graph->size + size < sizeof graph->text);
    memcpy(graph->text + graph->size, text, size + 1);
    graph->size += size;
    return 0;
}

/* ---- accepted ----------------------------------------------------------------------------- */

TEST(the_site_manager_is_accepted) {
    lw_error err;
    assert_status(
        try_register(
            LW_FLOW(.name = "site", .steps = LW_STEPS(site_steps), .states = {SITE_STATES}), &err),
        LW_OK);
}

TEST(a_flag_has_the_name_of_its_step_unless_it_says_otherwise) {
    const lw_step steps[] = {{.name = "a", .state = "s"},
                             {.name = "b", .state = "s", .needs = {"a"}}};
    lw_error err;
    assert_status(
        try_register(LW_FLOW(.name = "f", .steps = LW_STEPS(steps), .states = {{"s", .goal = "g"}}),
                     &err),
        LW_OK);
}

TEST(states_without_steps_are_where_a_resource_rests) {
    lw_error err;
    assert_status(
        try_register(LW_FLOW(.name = "site", .steps = LW_STEPS(site_steps),
                             .states = {SITE_STATES, {.name = "suspended"}, {"x", .end = true}}),
                     &err),
        LW_OK);
}

TEST(as_many_steps_and_needs_as_there_is_room_for) {
    lw_step steps[LW_FLOW_STEPS_MAX + 1];
    char names[LW_FLOW_STEPS_MAX + 1][8];
    lw_error err;
    for (int i = 0; i <= LW_FLOW_STEPS_MAX; i++) {
        snprintf(names[i], sizeof names[i], "s%d", i);
        steps[i] = (lw_step){.name = names[i], .state = "on"};
        for (int k = 0; k < LW_FLOW_NEEDS_MAX && k < i; k++)
            steps[i].needs[k] = names[i - 1 - k];
    }
    lw_flow flow = {.struct_size = sizeof flow,
                    .name = "long",
                    .steps = steps,
                    .step_count = LW_FLOW_STEPS_MAX,
                    .states = {{"on", .goal = "off"}}};
    assert_status(try_register(&flow, &err), LW_OK);
    flow.step_count++;
    assert_status(try_register(&flow, &err), LW_EINVAL);
    assert_string_equal(err.message, "flow \"long\": there are 33 steps, must be at most 32");
}

/* ---- refused ------------------------------------------------------------------------------ */

TEST(names_are_checked) {
    lw_error err;
    const lw_step nameless[] = {{.state = "s"}};
    const lw_step odd[] = {{.name = "a.b", .state = "s"}};
    assert_status(try_register(NULL, &err), LW_EINVAL);
    assert_string_equal(err.message, "the flow is NULL");
    lw_flow flow = {.struct_size = 3, .name = "f"};
    assert_status(try_register(&flow, &err), LW_EINVAL);
    CHECK(strstr(err.message, "struct_size is 3"));
    REFUSED("the name of a flow is missing", .queue = NULL);
    REFUSED("flow \"\" must have 1 to 31 letters, digits, _ and -", .name = "");
    REFUSED("flow \"a/b\" must have 1 to 31 letters, digits, _ and -", .name = "a/b");
    REFUSED("flow \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\" must have 1 to 31 letters, digits, _ and -",
            .name = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
    REFUSED("flow \"f\": there are no states: a flow starts in the first", .name = "f");
    REFUSED("flow \"f\": the name of a step is missing", .name = "f", .steps = LW_STEPS(nameless),
            .states = {{"s", .goal = "g"}});
    REFUSED("flow \"f\": step \"a.b\" must have 1 to 31 letters, digits, _ and -", .name = "f",
            .steps = LW_STEPS(odd), .states = {{"s", .goal = "g"}});
    REFUSED("flow \"f\": there are 2 steps, but .steps is NULL", .name = "f", .step_count = 2,
            .states = {{"s", .goal = "g"}});
}

TEST(what_is_there_twice_is_refused) {
    const lw_step names[] = {{.name = "a", .state = "s"}, {.name = "a", .state = "s", .sets = "b"}};
    const lw_step flags[] = {{.name = "a", .state = "s"}, {.name = "b", .state = "s", .sets = "a"}};
    REFUSED("flow \"f\": state \"s\" is there twice", .name = "f",
            .states = {{"s", .goal = "g"}, {.name = "s"}});
    REFUSED("flow \"f\": step \"a\" is there twice", .name = "f", .steps = LW_STEPS(names),
            .states = {{"s", .goal = "g"}});
    REFUSED("flow \"f\": steps \"a\" and \"b\" both set the flag \"a\": which is done?",
            .name = "f", .steps = LW_STEPS(flags), .states = {{"s", .goal = "g"}});
}

TEST(a_step_serves_a_state_that_is_there) {
    const lw_step none[] = {{.name = "a"}};
    const lw_step typo[] = {{.name = "a", .state = "craeting"}};
    const lw_step other[] = {{.name = "a", .state = "x"}};
    REFUSED("flow \"f\": step \"a\" serves no state: .state is missing", .name = "f",
            .steps = LW_STEPS(none), .states = {{"creating", .goal = "g"}});
    REFUSED("flow \"f\": step \"a\": state \"craeting\" is not known; did you mean \"creating\"?",
            .name = "f", .steps = LW_STEPS(typo), .states = {{"creating", .goal = "g"}});
    REFUSED("flow \"f\": step \"a\": state \"x\" is not known", .name = "f",
            .steps = LW_STEPS(other), .states = {{"creating", .goal = "g"}});
}

TEST(a_flag_that_nobody_sets_is_refused) {
    const lw_step typo[] = {{.name = "a", .state = "s", .sets = "ready"},
                            {.name = "b", .state = "s", .needs = {"raedy"}}};
    const lw_step other[] = {{.name = "a", .state = "s"},
                             {.name = "b", .state = "s", .needs = {"a", "quite-different"}}};
    REFUSED("flow \"f\": step \"b\" is never reached: nobody sets the flag \"raedy\"; did you mean "
            "\"ready\"?",
            .name = "f", .steps = LW_STEPS(typo), .states = {{"s", .goal = "g"}});
    REFUSED("flow \"f\": step \"b\" is never reached: nobody sets the flag \"quite-different\"",
            .name = "f", .steps = LW_STEPS(other), .states = {{"s", .goal = "g"}});
}

TEST(a_flag_that_is_set_in_another_state_only_is_refused) {
    const lw_step steps[] = {{.name = "a", .state = "s"},
                             {.name = "b", .state = "t", .needs = {"a"}}};
    REFUSED("flow \"f\": step \"b\" of state \"t\" is never reached: its flag \"a\" is set in "
            "state \"s\" only",
            .name = "f", .steps = LW_STEPS(steps),
            .states = {{"s", .goal = "g"}, {"t", .goal = "h"}});
}

TEST(steps_that_wait_for_each_other_in_a_circle_are_refused) {
    const lw_step self[] = {{.name = "a", .state = "s", .needs = {"a"}}};
    const lw_step three[] = {{.name = "first", .state = "s"},
                             {.name = "after", .state = "s", .needs = {"c"}},
                             {.name = "a", .state = "s", .needs = {"first", "c"}},
                             {.name = "b", .state = "s", .needs = {"a"}},
                             {.name = "c", .state = "s", .needs = {"b"}}};
    REFUSED("flow \"f\": state \"s\" goes round in a circle and never reaches its goal: a waits "
            "for a",
            .name = "f", .steps = LW_STEPS(self), .states = {{"s", .goal = "g"}});
    REFUSED("flow \"f\": state \"s\" goes round in a circle and never reaches its goal: c waits "
            "for b waits for a waits for c",
            .name = "f", .steps = LW_STEPS(three), .states = {{"s", .goal = "g"}});
}

TEST(a_circle_of_long_names_is_cut) {
    lw_step steps[LW_FLOW_STEPS_MAX];
    char names[LW_FLOW_STEPS_MAX][LW_FLOW_NAME_MAX + 1];
    lw_error err;
    for (int i = 0; i < LW_FLOW_STEPS_MAX; i++) {
        snprintf(names[i], sizeof names[i], "a-very-long-name-of-a-step--%03d", i);
        steps[i] = (lw_step){.name = names[i], .state = "s"};
        steps[i].needs[0] = names[(i + 1) % LW_FLOW_STEPS_MAX];
    }
    assert_status(
        try_register(LW_FLOW(.name = "f", .steps = LW_STEPS(steps), .states = {{"s", .goal = "g"}}),
                     &err),
        LW_EINVAL);
    CHECK(strstr(err.message, "goes round in a circle"));
}

TEST(a_goal_that_cannot_be_reached_is_refused) {
    const lw_step steps[] = {{.name = "a", .state = "s"}};
    REFUSED("flow \"f\": goal \"h\" is never reached: state \"t\" has no steps", .name = "f",
            .steps = LW_STEPS(steps), .states = {{"s", .goal = "g"}, {"t", .goal = "h"}});
    REFUSED("flow \"f\": state \"s\" has steps and no goal: .goal is missing", .name = "f",
            .steps = LW_STEPS(steps), .states = {{.name = "s"}});
    REFUSED("flow \"f\": goal \"t\" of state \"s\" is a state itself: a goal is where a resource "
            "rests",
            .name = "f", .steps = LW_STEPS(steps), .states = {{"s", .goal = "t"}, {.name = "t"}});
    REFUSED("flow \"f\": the first state \"t\" is an end without steps: nothing would start",
            .name = "f", .steps = LW_STEPS(steps),
            .states = {{"t", .end = true}, {"s", .goal = "g"}});
}

TEST(options_of_a_step_are_checked_as_those_of_a_handler) {
    const lw_step late[] = {{.name = "a", .run = do_done, .state = "s", .timeout_ms = -7}};
    const lw_step queue[] = {{.name = "a", .run = do_done, .state = "s", .queue = "a b"}};
    const lw_step urgent[] = {{.name = "a", .run = do_done, .state = "s", .priority = -9}};
    lw_error err;
    assert_status(
        try_register(LW_FLOW(.name = "f", .steps = LW_STEPS(late), .states = {{"s", .goal = "g"}}),
                     &err),
        LW_EINVAL);
    CHECK(strstr(err.message, "kind \"f.a\"") && strstr(err.message, "timeout_ms is -7"));
    assert_status(
        try_register(LW_FLOW(.name = "f", .steps = LW_STEPS(queue), .states = {{"s", .goal = "g"}}),
                     &err),
        LW_EINVAL);
    CHECK(strstr(err.message, "queue \"a b\""));
    assert_status(
        try_register(
            LW_FLOW(.name = "f", .steps = LW_STEPS(urgent), .states = {{"s", .goal = "g"}}), &err),
        LW_EINVAL);
    CHECK(strstr(err.message, "priority is -9"));
}

TEST(a_flow_is_registered_once_and_before_the_start) {
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO);
    const lw_flow *site =
        LW_FLOW(.name = "site", .steps = LW_STEPS(site_steps), .states = {SITE_STATES});
    lw_error err = {0};
    assert_status(lw_flow_register(NULL, site, &err), LW_EINVAL);
    assert_status(lw_flow_register(engine, site, &err), LW_OK);
    start(engine);
    assert_status(lw_flow_register(engine, site, &err), LW_EINVAL);
    assert_string_equal(err.message, "a flow is registered before lw_start");
    close_engine(engine);
    engine = OPEN_ENGINE(.workers = LW_ZERO);
    assert_status(lw_flow_register(engine, site, NULL), LW_OK);
    assert_status(lw_flow_register(engine, site, &err), LW_EINVAL);
    assert_string_equal(err.message, "flow \"site\" is registered already");
    close_engine(engine);
}

TEST(an_engine_has_so_many_flows) {
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO);
    const lw_step steps[] = {{.name = "a", .run = do_done, .state = "s"}};
    char name[8];
    lw_error err;
    for (int i = 0; i <= LW_FLOWS_MAX; i++) {
        snprintf(name, sizeof name, "f%d", i);
        assert_status(lw_flow_register(engine,
                                       LW_FLOW(.name = name, .steps = LW_STEPS(steps),
                                               .states = {{"s", .goal = "g"}}),
                                       &err),
                      i < LW_FLOWS_MAX ? LW_OK : LW_EINVAL);
    }
    assert_string_equal(err.message, "an engine has at most 64 flows");
    close_engine(engine);
}

/* ---- the graph ---------------------------------------------------------------------------- */

TEST(the_graph_of_the_site_manager) {
    struct graph graph = {.size = 0};
    lw_error err;
    const lw_step steps[] = {
        site_steps[0], site_steps[1], site_steps[4], {.name = "approve", .state = "creating"}};
    assert_status(lw_flow_dot(LW_FLOW(.name = "site", .steps = LW_STEPS(steps),
                                      .states = {SITE_STATES, {.name = "suspended"}}),
                              collect, &graph, &err),
                  LW_OK);
    assert_string_equal(graph.text,
                        "digraph \"site\" {\n"
                        "    rankdir=LR;\n"
                        "    node [shape=box];\n"
                        "    subgraph \"cluster_creating\" {\n"
                        "        label=\"creating\";\n"
                        "        penwidth=2;\n"
                        "        \"save-metadata\";\n"
                        "        \"create-files\";\n"
                        "        \"approve\" [style=dashed];\n"
                        "        \"creating.goal\" [label=\"running\", shape=ellipse];\n"
                        "    }\n"
                        "    subgraph \"cluster_deleting\" {\n"
                        "        label=\"deleting\";\n"
                        "        \"delete-site\";\n"
                        "        \"deleting.goal\" [label=\"deleted\", shape=ellipse, "
                        "peripheries=2];\n"
                        "    }\n"
                        "    subgraph \"cluster_suspended\" {\n"
                        "        label=\"suspended\";\n"
                        "        \"suspended.goal\" [label=\"suspended\", shape=ellipse];\n"
                        "    }\n"
                        "    \"save-metadata\" -> \"create-files\" [label=\"metadata_ready\"];\n"
                        "    \"create-files\" -> \"creating.goal\" [label=\"files_ready\"];\n"
                        "    \"delete-site\" -> \"deleting.goal\" [label=\"gone\"];\n"
                        "    \"approve\" -> \"creating.goal\" [label=\"approve\"];\n"
                        "}\n");
}

static int refuse_third(void *user, const char *text, size_t size) {
    (void)text;
    (void)size;
    return ++*(int *)user == 3 ? LW_ESYSTEM : 0;
}

TEST(a_graph_that_cannot_be_written_or_is_wrong_says_so) {
    int calls = 0;
    lw_error err = {0};
    const lw_flow *site =
        LW_FLOW(.name = "site", .steps = LW_STEPS(site_steps), .states = {SITE_STATES});
    assert_status(lw_flow_dot(site, refuse_third, &calls, &err), LW_ESYSTEM);
    assert_int_equal(calls, 3);
    assert_status(lw_flow_dot(site, NULL, NULL, &err), LW_EINVAL);
    assert_status(lw_flow_dot(NULL, refuse_third, &calls, &err), LW_EINVAL);
    assert_status(lw_flow_dot(LW_FLOW(.name = "f"), refuse_third, &calls, &err), LW_EINVAL);
    assert_int_equal(calls, 3);
    assert_string_equal(err.message, "flow \"f\": there are no states: a flow starts in the first");
}
