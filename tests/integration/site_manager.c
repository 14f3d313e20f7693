/* The site manager over HTTP, as its users see it. */
#include "site_manager.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OPTIONS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define CALM OPTIONS("--retry-ms", "20")

/* Too large for some stacks. */
static struct http_reply reply;

static int ask(const struct site_manager *manager, const char *method, const char *path,
               const char *body) {
    return http_ask(manager->port, method, path, body, &reply);
}

static void start(struct site_manager *manager, const char *const *options) {
    CHECK(site_manager_start(manager, SITE_MANAGER_PROGRAM, options));
}

static void check_head(const char *line) {
    if (!strcasestr(reply.text, line))
        assert_string_equal(reply.text, line);
}

static void check_body(const char *part) {
    if (!strstr(reply.body, part))
        assert_string_equal(reply.body, part);
}

/* Until the status of a site has this in it, or it is gone (NULL). */
static void await_site(const struct site_manager *manager, const char *path, const char *part) {
    for (;;) {
        int status = ask(manager, "GET", path, NULL);
        if (part ? status == 200 && strstr(reply.body, part) : status == 404)
            return;
        CHECK(!site_manager_dies_within(manager, 5000));
    }
}

static void await_running(const struct site_manager *manager, const char *path) {
    await_site(manager, path, "\"state\":\"running\",\"condition\":\"at goal\"");
}

TEST(a_site_is_created_and_deleted) {
    struct site_manager manager;
    char why[200] = "";
    start(&manager, CALM);
    assert_int_equal(ask(&manager, "POST", "/sites", "domain=example.org&title=My+site"), 202);
    check_head("\r\nLocation: /sites/example.org\r\n");
    await_running(&manager, "/sites/example.org");
    check_body("\"title\":\"My site\"");
    check_body("{\"name\":\"bootstrap\",\"state\":\"done\",\"attempts\":1,\"error\":\"\"}");
    if (!site_is_there("example.org", "My site", why))
        assert_string_equal(why, "");
    assert_int_equal(ask(&manager, "DELETE", "/sites/example.org", NULL), 202);
    await_site(&manager, "/sites/example.org", NULL);
    if (!sites_are_gone(why))
        assert_string_equal(why, "");
    assert_int_equal(site_manager_stop(&manager), 0);
}

TEST(a_domain_is_taken_until_its_site_is_gone) {
    struct site_manager manager;
    start(&manager, CALM);
    assert_int_equal(ask(&manager, "POST", "/sites", "domain=example.org&title=One"), 202);
    assert_int_equal(ask(&manager, "POST", "/sites", "domain=example.org&title=Two"), 409);
    check_body("{\"message\":\"this domain is taken\"}");
    await_running(&manager, "/sites/example.org");
    assert_int_equal(ask(&manager, "POST", "/sites", "domain=example.org&title=Two"), 409);
    assert_int_equal(ask(&manager, "DELETE", "/sites/example.org", NULL), 202);
    await_site(&manager, "/sites/example.org", NULL);
    assert_int_equal(ask(&manager, "POST", "/sites", "domain=example.org&title=Two"), 202);
    await_running(&manager, "/sites/example.org");
    check_body("\"title\":\"Two\"");
    assert_int_equal(site_manager_stop(&manager), 0);
}

TEST(what_is_wrong_is_told) {
    static const char *const wrong[] = {
        "",
        "title=No+domain",
        "domain=example.org",
        "domain=example&title=x",
        "domain=..&title=x",
        "domain=a%2Fb.org&title=x",
        "domain=-a.org&title=x",
        "domain=Example.org&title=x",
        "domain=example.org&title=%3Cscript%3E",
        "domain=example.org&title=x%00y",
        "domain=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.org&title=x"};
    struct site_manager manager;
    char *large = calloc(1, 20000);
    start(&manager, CALM);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(ask(&manager, "POST", "/sites", wrong[i]), 400);
        check_body("{\"message\":\"");
    }
    memset(large, 'x', 19999);
    assert_int_equal(ask(&manager, "POST", "/sites", large), 413);
    assert_int_equal(ask(&manager, "GET", "/sites/example.org", NULL), 404);
    assert_int_equal(ask(&manager, "DELETE", "/sites/example.org", NULL), 404);
    assert_int_equal(ask(&manager, "GET", "/sites/..%2F..", NULL), 404);
    assert_int_equal(ask(&manager, "GET", "/", NULL), 404);
    assert_int_equal(ask(&manager, "GET", "/sites?after=x", NULL), 400);
    assert_int_equal(ask(&manager, "PUT", "/sites/example.org", "x"), 405);
    check_head("\r\nAllow: GET, DELETE\r\n");
    free(large);
    assert_int_equal(site_manager_stop(&manager), 0);
}

/* One task is all that fits, and it takes its time. */
TEST(a_service_that_is_full_says_so_and_later_takes_it) {
    struct site_manager manager;
    start(&manager, OPTIONS("--task-limit", "1", "--slow", "300", "--seed", "1"));
    assert_int_equal(ask(&manager, "POST", "/sites", "domain=a.org&title=A"), 202);
    int status = 202;
    for (char name = 'b'; status == 202 && name <= 'z'; name++) {
        char body[40];
        snprintf(body, sizeof body, "domain=%c.org&title=B", name);
        status = ask(&manager, "POST", "/sites", body);
    }
    assert_int_equal(status, 503);
    check_head("\r\nRetry-After: 2\r\n");
    while ((status = ask(&manager, "POST", "/sites", "domain=later.org&title=L")) == 503)
        CHECK(!site_manager_dies_within(&manager, 5000));
    assert_int_equal(status, 202);
    await_running(&manager, "/sites/later.org");
    assert_int_equal(site_manager_stop(&manager), 0);
}

TEST(the_list_has_all_sites_in_pages) {
    struct site_manager manager;
    char body[60];
    start(&manager, CALM);
    assert_int_equal(ask(&manager, "GET", "/sites", NULL), 200);
    assert_string_equal(reply.body, "{\"sites\":[]}");
    for (int i = 0; i < 101; i++) {
        snprintf(body, sizeof body, "domain=s%d.org&title=Site+%d", i, i);
        assert_int_equal(ask(&manager, "POST", "/sites", body), 202);
    }
    assert_int_equal(ask(&manager, "GET", "/sites", NULL), 200);
    check_body("{\"sites\":[{\"domain\":\"s0.org\"");
    check_body("\"domain\":\"s99.org\"");
    assert_null(strstr(reply.body, "s100.org"));
    char *next = strstr(reply.body, "\"next\":\"");
    CHECK(next);
    char *path = strndup(next + 8, strcspn(next + 8, "\""));
    assert_int_equal(ask(&manager, "GET", path, NULL), 200);
    check_body("{\"sites\":[{\"domain\":\"s100.org\"");
    assert_null(strstr(reply.body, "s99.org"));
    free(path);
    assert_int_equal(site_manager_stop(&manager), 0);
}

TEST(a_stopped_service_goes_on_when_it_is_started_again) {
    struct site_manager manager;
    char why[200] = "";
    start(&manager, OPTIONS("--slow", "200", "--seed", "1"));
    assert_int_equal(ask(&manager, "POST", "/sites", "domain=example.org&title=My+site"), 202);
    assert_int_equal(site_manager_stop(&manager), 0);
    start(&manager, CALM);
    await_running(&manager, "/sites/example.org");
    if (!site_is_there("example.org", "My site", why))
        assert_string_equal(why, "");
    assert_int_equal(site_manager_stop(&manager), 0);
}

/* ---- it dies ------------------------------------------------------------------------------- */

/* Until the site has come to this end (as await_site), or the process has died. */
static bool dies_before(const struct site_manager *manager, const char *part) {
    while (!site_manager_dies_within(manager, 2000)) {
        int status = ask(manager, "GET", "/sites/example.org", NULL);
        if (part ? status == 200 && strstr(reply.body, part) : status == 404)
            return false;
    }
    return true;
}

/* The end of a site can be seen a moment before it is on the disk: the process that was killed in
 * that moment has to come to it once more, and the domain is taken until then. */
static void create_again(const struct site_manager *manager) {
    while (ask(manager, "POST", "/sites", "domain=example.org&title=My+site") == 409
           && !site_manager_dies_within(manager, 2000)) {
    }
}

/* The process dies in some step, if the dice say so; then it is started again. */
static int die_and_go_on(struct site_manager *manager, const char *seed, const char *part) {
    int deaths = 1;
    if (site_manager_start(
            manager, SITE_MANAGER_PROGRAM,
            OPTIONS("--die", "200", "--slow", "3", "--seed", seed, "--retry-ms", "1"))) {
        if (part)
            create_again(manager);
        deaths = dies_before(manager, part);
        site_manager_kill(manager);
    }
    start(manager, CALM);
    return deaths;
}

static int live_and_die(const char *seed) {
    struct site_manager manager;
    char why[200] = "";
    int deaths = die_and_go_on(&manager, seed, "at goal");
    ask(&manager, "POST", "/sites", "domain=example.org&title=My+site"); /* 409, or it was lost */
    await_running(&manager, "/sites/example.org");
    if (!site_is_there("example.org", "My site", why))
        assert_string_equal(why, "");
    assert_int_equal(ask(&manager, "DELETE", "/sites/example.org", NULL), 202);
    site_manager_kill(&manager);
    deaths += die_and_go_on(&manager, seed, NULL);
    await_site(&manager, "/sites/example.org", NULL);
    if (!sites_are_gone(why))
        assert_string_equal(why, "");
    site_manager_kill(&manager);
    return deaths;
}

TEST(a_site_is_finished_whatever_step_the_process_dies_in) {
    char seed[24];
    int deaths = 0;
    for (int i = 0; i < test_scale(12, 300); i++) {
        snprintf(seed, sizeof seed, "%d", i);
        deaths += live_and_die(seed);
    }
    CHECK(deaths > 0);
}

/* ---- the picture --------------------------------------------------------------------------- */

/* The README shows what the program is made of. */
TEST(the_picture_is_that_of_the_flow) {
    char shown[8192], drawn[8192];
    FILE *file = fopen(SITE_MANAGER_FOLDER "/flow.dot", "re");
    FILE *output = popen(SITE_MANAGER_PROGRAM " --dot", "re");
    CHECK(file && output);
    shown[fread(shown, 1, sizeof shown - 1, file)] = 0;
    drawn[fread(drawn, 1, sizeof drawn - 1, output)] = 0;
    fclose(file);
    assert_int_equal(pclose(output), 0);
    assert_string_equal(shown, drawn);
}
