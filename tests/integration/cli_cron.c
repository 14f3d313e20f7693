/* `legwork cron`. */
#include "served.h"
#include "test.h"

#include <pty.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char said[65536];

#define RUN(...) served_run((const char *const[]){__VA_ARGS__, NULL}, said, sizeof said)
#define NEXT(...) RUN("cron", "next", __VA_ARGS__)

static void assert_said(const char *part) {
    assert_has(said, part);
}

/* ---- next ------------------------------------------------------------------------------------ */

TEST(next_says_what_an_expression_means_and_when_it_is_due) {
    assert_int_equal(NEXT("0 3 * * 1-5", "--zone", "Europe/Berlin"), 0);
    assert_said("at 03:00 on Monday to Friday, in Europe/Berlin\n\nIN EUROPE/BERLIN");
    size_t lines = 0;
    for (const char *at = said; *at; at++)
        lines += *at == '\n';
    assert_int_equal(lines, 13);
    assert_int_equal(NEXT("@every 90s", "-n", "2", "--from", "1970-01-01"), 0);
    assert_said("every 90 seconds, in UTC\n\nIN UTC     ");
    assert_said("\nThu 1970-01-01 00:01:30 UTC");
    assert_said("Thu 1970-01-01 00:03:00 UTC");
    assert_int_equal(NEXT("@every 90s", "--count", "1", "--offset", "7s", "--from", "1970-01-01"),
                     0);
    assert_said("00:00:07 UTC");
}

TEST(next_marks_where_clocks_change) {
    assert_int_equal(
        NEXT("30 2 * * *", "--zone", "Europe/Berlin", "--from", "2026-03-28", "-n", "3"), 0);
    assert_said("Sat 2026-03-28 02:30 CET   2026-03-28 01:30");
    assert_said("Sun 2026-03-29 03:00 CEST  2026-03-29 01:00");
    assert_said("  clocks go forward 1 h at 02:00 on 2026-03-29\nMon 2026-03-30 02:30 CEST");
    assert_int_equal(
        NEXT("30 * * * *", "--zone", "Europe/Berlin", "--from", "2026-10-25 02:00", "-n", "3"), 0);
    assert_said("Sun 2026-10-25 02:30 CEST  2026-10-25 00:30");
    assert_said("Sun 2026-10-25 02:30 CET   2026-10-25 01:30");
    assert_said("clocks go back 1 h at 03:00 on 2026-10-25\nSun 2026-10-25 03:30 CET");
}

TEST(next_is_json_for_scripts) {
    assert_int_equal(NEXT("30 2 * * *", "--zone", "Europe/Berlin", "--from", "2026-03-28 12:00",
                          "-n", "1", "--json"),
                     0);
    assert_string_equal(
        said, "{\"expression\":\"30 2 * * *\",\"zone\":\"Europe/Berlin\","
              "\"words\":\"at 02:30\",\"ticks\":[{\"at_ms\":1774746000000,"
              "\"local\":\"2026-03-29 03:00:00 +02:00 CEST\","
              "\"change\":{\"at_ms\":1774746000000,\"before_s\":3600,\"after_s\":7200}}]}\n");
}

TEST(next_ends_with_the_calendar) {
    assert_int_equal(NEXT("@yearly", "--from", "9998-06-01"), 0);
    assert_said("9999-01-01 00:00");
    assert_int_equal(NEXT("@yearly", "--from", "9999-06-01"), 0);
    assert_said("never again up to the year 9999");
}

TEST(next_refuses_with_the_field_and_the_place) {
    assert_int_equal(NEXT("0 25 * * *"), 2);
    assert_said("legwork: hour field, position 3: \"25\" is too large");
    CHECK(!strchr(said, '^')); /* this is no terminal */
    assert_int_equal(NEXT("0 0 30 2 *"), 2);
    assert_said("never comes");
    assert_int_equal(NEXT("@daily", "--zone", "Europe/Berln"), 2);
    assert_said("did you mean \"Europe/Berlin\"?");
    assert_int_equal(NEXT("@daily", "--zone", "../etc/passwd"), 2);
    assert_int_equal(NEXT("@daily", "--from", "tomorow"), 2);
    assert_said("\"tomorow\" is no time");
    assert_int_equal(NEXT("@daily", "-n", "0"), 2);
    assert_said("--count");
    assert_int_equal(NEXT("@daily", "-n", "1001"), 2);
    assert_int_equal(NEXT("@daily", "-x", "1"), 2);
    assert_said("-x");
    assert_int_equal(NEXT("\x1b[31m * * * *"), 2);
    CHECK(!strchr(said, '\x1b'));
    assert_int_equal(RUN("cron", "next"), 2);
    assert_said("something is missing: legwork cron next EXPRESSION");
    assert_said("legwork help cron next tells more");
}

/* A terminal of 60 columns shows the caret, and cuts what does not fit. */
TEST(next_on_a_terminal_points_at_the_mistake) {
    struct winsize size = {.ws_row = 24, .ws_col = 60};
    struct served c = {0};
    int keyboard, screen;
    CHECK(setenv("NO_COLOR", "1", 1) == 0);
    CHECK(openpty(&keyboard, &screen, NULL, NULL, &size) == 0);
    served_spawn_on(&c, (const char *const[]){"cron", "next", "0 25 * * *", NULL}, screen);
    close(screen);
    assert_int_equal(served_wait_said(&c, keyboard, said, sizeof said), 2);
    assert_said("\r\n  0 25 * * *\r\n    ^\r\n");
    CHECK(openpty(&keyboard, &screen, NULL, NULL, &size) == 0);
    served_spawn_on(&c,
                    (const char *const[]){"cron", "next", "@daily", "--zone", "Europe/Berlin",
                                          "--from", "2026-03-29 12:00", "-n", "300", NULL},
                    screen);
    close(screen);
    assert_int_equal(served_wait_said(&c, keyboard, said, sizeof said), 0);
    assert_said("...");
    for (const char *line = said; *line; line += strcspn(line, "\n") + 1)
        CHECK(strcspn(line, "\r\n") <= 60);
}

/* ---- verbs ----------------------------------------------------------------------------------- */

TEST(a_command_with_verbs_says_what_they_are) {
    assert_int_equal(RUN("cron"), 2);
    assert_said("usage: legwork cron VERB [FLAG...]\n");
    assert_said("\n  next ");
    assert_int_equal(RUN("cron", "--help"), 0);
    assert_said("legwork help cron VERB says more.");
    assert_int_equal(RUN("help", "cron"), 0);
    assert_said("usage: legwork cron VERB");
    assert_int_equal(RUN("help", "cron", "next"), 0);
    assert_said("usage: legwork cron next EXPRESSION [FLAG...]");
    assert_said("  -n, --count N ");
    assert_int_equal(RUN("cron", "nxt"), 2);
    assert_said("there is no command cron nxt; did you mean cron next?");
    assert_int_equal(RUN("help", "cron", "zzzzz"), 2);
    assert_said("there is no command cron zzzzz; see legwork help cron");
    assert_int_equal(RUN("help", "submit", "now"), 2);
    assert_said("there is no command submit now; see legwork help\n");
}

TEST(verbs_have_man_pages) {
    static char page[65536];
    assert_int_equal(RUN("help", "--pages"), 0);
    assert_said("legwork-cron.1\nlegwork-cron-next.1\n");
    assert_int_equal(RUN("help", "--man", "legwork-cron-next.1"), 0);
    assert_said(".TH LEGWORK\\-CRON\\-NEXT 1");
    memcpy(page, said, sizeof page);
    assert_int_equal(RUN("help", "--man", "cron", "next"), 0);
    assert_string_equal(said, page);
    assert_int_equal(RUN("help", "--man", "cron"), 0);
    assert_said(".BR legwork\\-cron\\-next (1)");
    assert_int_equal(RUN("help", "--man", "cron-nxt"), 2);
}
