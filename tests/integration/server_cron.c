/* When an expression is due, over HTTP. */
#include "served.h"
#include "test.h"

#include <stdio.h>
#include <string.h>

static struct served s;

static void assert_refused(const char *query, const char *part) {
    char what[512];
    snprintf(what, sizeof what, "GET /v1/cron/next%s", query);
    assert_has(served_expect(&s, 400, what, NULL), part);
}

TEST(a_server_says_when_an_expression_is_due) {
    served_start(&s, NULL);
    const char *body = served_expect(
        &s, 200,
        "GET /v1/cron/next?expression=30+2+*+*+*&zone=Europe/Berlin&n=2&from_ms=1774695600000",
        NULL);
    assert_string_equal(
        body, "{\"expression\":\"30 2 * * *\",\"zone\":\"Europe/Berlin\","
              "\"words\":\"at 02:30\",\"ticks\":[{\"at_ms\":1774746000000,"
              "\"local\":\"2026-03-29 03:00:00 +02:00 CEST\","
              "\"change\":{\"at_ms\":1774746000000,\"before_s\":3600,\"after_s\":7200}},"
              "{\"at_ms\":1774830600000,\"local\":\"2026-03-30 02:30:00 +02:00 CEST\"}]}");
    body =
        served_expect(&s, 200, "GET /v1/cron/next?expression=@every+90s&offset=7s&from_ms=0", NULL);
    assert_has(body, "\"zone\":\"UTC\",\"words\":\"every 90 seconds\",\"ticks\":[{\"at_ms\":7000,");
    assert_has(body, "{\"at_ms\":817000,");
    CHECK(!strstr(body, "change"));
    served_expect(&s, 200, "GET /v1/cron/next?expression=@daily", NULL); /* from now on */
    body =
        served_expect(&s, 200, "GET /v1/cron/next?expression=@daily&from_ms=253402300799999", NULL);
    assert_has(body, "\"ticks\":[]}");
    served_stop(&s);
}

TEST(a_server_refuses_expressions_and_zones_with_a_sentence) {
    served_start(&s, NULL);
    assert_refused("", "say which expression");
    assert_refused("?expression=0+25+*+*+*", "hour field, position 3: \\\"25\\\" is too large");
    assert_refused("?expression=0+0+30+2+*", "never comes");
    assert_refused("?expression=@daily&zone=Europe/Berln", "did you mean \\\"Europe/Berlin\\\"?");
    assert_refused("?expression=@daily&zone=../../etc/passwd", "zone");
    assert_refused("?expression=%1b%5B31m+*+*+*+*", "\\\\x1b");
    assert_refused("?expression=@daily&n=0", "n is 0, and must be a number from 1 to 1000");
    assert_refused("?expression=@daily&from_ms=253402300800000", "from_ms");
    assert_refused("?expression=@daily&zome=UTC", "did you mean \\\"zone\\\"?");
    served_stop(&s);
}
