/* Flows over HTTP and on the command line: in a server, and for readers, that have never heard of
 * the flow. */
#include "flows.h"
#include "served.h"

#include <stdio.h>
#include <string.h>

static struct served s;
static struct flow_rig rig;
static char said[65536];

#define RUN(...) served_run((const char *const[]){__VA_ARGS__, NULL}, said, sizeof said)

static void assert_said(const char *part) {
    assert_has(said, part);
}

/* A program with flows: one resource at its goal, one halted, one that is tried again. */
static void open_program(void) {
    assert_status(try_open_flow_rig(&rig, "sqlite:tasks.db", NULL), LW_OK);
    start_flow(&rig, "a");
    run(&rig);
    rig.scripts[DBASE] = script_fail;
    start_flow(&rig, "b/c");
    run(&rig);
    rig.scripts[DBASE] = script_retry;
    start_flow(&rig, "d");
    run(&rig);
    assert_status(lw_flow_wait(rig.engine, "site", "d", 0, NULL), LW_PENDING);
}

static void ask(const char *what, int code) {
    struct answer a = served_ask(&s, what, NULL);
    assert_int_equal(a.code, code);
    snprintf(said, sizeof said, "%s", a.body);
    answer_free(&a);
}

static void serve(void) {
    open_program();
    close_flow_rig(&rig);
    served_start(&s, NULL);
}

TEST(a_server_lists_flows_that_a_program_has_left) {
    serve();
    ask("GET /v1/flows", 200);
    assert_said("{\"flows\":[{\"number\":1,\"flow\":\"site\",\"id\":\"a\",\"state\":\"running\","
                "\"condition\":\"at goal\"");
    assert_said("\"condition\":\"halted\",\"reason\":\"db: never\"");
    CHECK(!strstr(said, "\"steps\"") && !strstr(said, "\"after\""));
    ask("GET /v1/flows?limit=2", 200);
    assert_said("\"after\":2}");
    ask("GET /v1/flows?limit=2&after=2", 200);
    assert_said("{\"flows\":[{\"number\":3,");
    ask("GET /v1/flows?state=running", 200);
    CHECK(!strstr(said, "halted"));
    ask("GET /v1/flows?condition=at%20goal&flow=site", 200);
    assert_said("\"id\":\"a\"");
    ask("GET /v1/flows?flow=none", 200);
    assert_string_equal(said, "{\"flows\":[]}");
    ask("GET /v1/flows?condition=haltd", 400);
    assert_said("halted");
    served_stop(&s);
}

TEST(a_server_shows_a_resource_with_its_flags_steps_and_history) {
    serve();
    ask("GET /v1/flows/site/d", 200);
    assert_said("\"state\":\"creating\",\"condition\":\"active\"");
    assert_said("\"is_partial\":true");
    assert_said("{\"flag\":\"metadata\",\"state\":\"done\",\"done_ms\":");
    assert_said("{\"step\":\"db\",\"state\":\"active\",\"task\":");
    assert_said("\"attempts\":1,\"error\":\"no 1\"}");
    assert_said("\"history\":[{\"at_ms\":");
    assert_said("\"payload_base64\":\"Ym9keQ==\"");
    ask("GET /v1/flows/site/b%2Fc", 200);
    assert_said("\"id\":\"b/c\"");
    ask("GET /v1/flows/site/none", 404);
    assert_said("there is no site/none, or it has ended");
    ask("POST /v1/flows/site/d", 405);
    served_stop(&s);
}

/* A worker would not know what follows from it, and the resource would halt. */
TEST(steps_are_not_claimed_by_workers_elsewhere) {
    serve();
    ask("GET /v1/tasks?kind=site.db&state=enqueued", 200);
    assert_said("\"kind\":\"site.db\"");
    ask("POST /v1/queues/default/tasks?kind=plain", 201);
    ask("POST /v1/queues/default/claim?n=10", 200);
    CHECK(strstr(said, "\"kind\":\"plain\"") && !strstr(said, "site.db"));
    ask("POST /v1/queues/default/claim?n=10", 200);
    assert_string_equal(said, "[]");
    served_stop(&s);
}

static void look_by_command(const char *url) {
    assert_int_equal(RUN("flows", "--url", url), 0);
    assert_said("FLOW  ID   STATE     CONDITION");
    assert_said("halted");
    assert_said("db: never");
    assert_int_equal(RUN("flows", "--url", url, "--condition", "at-goal", "--json"), 0);
    assert_said("\"id\":\"a\"");
    CHECK(!strstr(said, "creating"));
    assert_int_equal(RUN("flows", "--url", url, "--limit", "1"), 0);
    assert_said("there may be more: legwork flows --after 1\n");
    assert_int_equal(RUN("show", "site/b/c", "--url", url), 0);
    assert_said("site/b/c  creating  halted\n  db: never\n");
    assert_said("MOVED TO");
    assert_int_equal(RUN("show", "site/d", "--json", "--url", url), 0);
    assert_said("\"error\":\"no 1\"");
    assert_int_equal(RUN("show", "site/none", "--url", url), 4);
    assert_said("there is no site/none");
    assert_int_equal(RUN("show", "/x", "--url", url), 2);
}

TEST(the_command_line_asks_the_server_for_flows) {
    char url[64];
    serve();
    snprintf(url, sizeof url, "http://127.0.0.1:%d", s.port);
    look_by_command(url);
    served_stop(&s);
}

TEST(the_command_line_looks_at_a_program_that_runs_flows_now) {
    open_program();
    look_by_command("sqlite:tasks.db");
    close_flow_rig(&rig);
}
