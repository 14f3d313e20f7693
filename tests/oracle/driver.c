/* What the oracles of the calendar talk to: reads questions from its input, one a line with tabs
 * between their words, and answers each with a line.
 *
 *     next    ZONE EXPRESSION AFTER_MS COUNT      the next COUNT ticks
 *     latest  ZONE EXPRESSION AFTER_MS UNTIL_MS   the latest tick in between, or nothing
 *     local   ZONE AT_MS                          the local time as text
 *     changes ZONE FROM_MS UNTIL_MS               clock changes, as AT_MS:BEFORE_S:AFTER_S
 *     words   ZONE EXPRESSION                     the expression in words
 *
 * A question that is refused is answered with "! " and the sentence. */
#include <legwork/cron.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORDS_MAX 5

static void answer_next(const lw_cron *cron, char **words) {
    int64_t at = strtoll(words[3], NULL, 10);
    for (long count = strtol(words[4], NULL, 10); count > 0; count--) {
        if (lw_cron_next(cron, at, &at) != LW_OK)
            break;
        printf("%" PRId64 " ", at);
    }
}

static void answer_latest(const lw_cron *cron, char **words) {
    int64_t tick;
    if (lw_cron_latest(cron, strtoll(words[3], NULL, 10), strtoll(words[4], NULL, 10), &tick)
        == LW_OK)
        printf("%" PRId64, tick);
}

static void answer_words(const lw_cron *cron) {
    char text[LW_CRON_WORDS_MAX];
    if (lw_cron_describe(cron, text, sizeof text) >= 0)
        printf("%s", text);
}

static void answer_cron(lw_zones *zones, char **words) {
    lw_cron *cron = NULL;
    lw_error err;
    if (lw_cron_parse(&cron, zones, words[2], LW_CRON_OPTIONS(.zone = words[1]), &err) < 0)
        printf("! %s", err.message);
    else if (strcmp(words[0], "next") == 0)
        answer_next(cron, words);
    else if (strcmp(words[0], "latest") == 0)
        answer_latest(cron, words);
    else
        answer_words(cron);
    lw_cron_close(cron);
}

static void answer_changes(const lw_zone *zone, char **words) {
    int64_t until = strtoll(words[3], NULL, 10);
    lw_zone_change change = {.at_ms = strtoll(words[2], NULL, 10)};
    while (lw_zone_next_change(zone, change.at_ms, &change) == LW_OK && change.at_ms < until)
        printf("%" PRId64 ":%d:%d ", change.at_ms, (int)change.before_s, (int)change.after_s);
}

static void answer_zone(lw_zones *zones, char **words) {
    lw_zone *zone = NULL;
    lw_error err;
    char text[64];
    if (lw_zone_open(&zone, zones, words[1], &err) < 0)
        printf("! %s", err.message);
    else if (strcmp(words[0], "changes") == 0)
        answer_changes(zone, words);
    else if (lw_zone_format(zone, strtoll(words[2], NULL, 10), text, sizeof text) == LW_OK)
        printf("%s", text);
    lw_zone_close(zone);
}

static void answer(lw_zones *zones, char *line) {
    char *words[WORDS_MAX] = {NULL}, *rest = NULL;
    int count = 0;
    for (char *word = strtok_r(line, "\t\n", &rest); word && count < WORDS_MAX;
         word = strtok_r(NULL, "\t\n", &rest))
        words[count++] = word;
    static const struct {
        const char *name;
        int count;
        void (*answer)(lw_zones *zones, char **words);
    } questions[] = {{"next", 5, answer_cron},
                     {"latest", 5, answer_cron},
                     {"words", 3, answer_cron},
                     {"local", 3, answer_zone},
                     {"changes", 4, answer_zone}};
    for (size_t i = 0; i < sizeof questions / sizeof *questions; i++)
        if (count == questions[i].count && strcmp(words[0], questions[i].name) == 0)
            questions[i].answer(zones, words);
    putchar('\n');
}

int main(void) {
    static char line[4096];
    lw_zones *zones = NULL;
    if (lw_zones_open(&zones, NULL, NULL) < 0)
        return 1;
    while (fgets(line, sizeof line, stdin))
        answer(zones, line);
    lw_zones_close(zones);
    return 0;
}
