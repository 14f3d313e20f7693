/* Sites are created and deleted at random moments while their steps are slow and fail, and while
 * the process is killed, by others and by itself. After each race the site is wholly there or
 * wholly gone, as the last answer has promised; and in the end nothing is left of any.
 *
 * `make test-races` runs 2,000 of them. LW_SEED=7 repeats the plan of a run, if not its timing. */
#include "ledger.h"
#include "site_manager.h"
#include "test.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LANES = 10, PAUSE_US = 70000, AIM_TURNS = 1000 };
enum { SETTLE_TURNS = 60000 }; /* of a millisecond and more */

/* What the answers so far have promised. */
enum promise {
    FREE,   /* nobody has it */
    THERE,  /* it will be there */
    GONE,   /* it will be gone */
    UNKNOWN /* an answer was lost */
};

struct race;

/* A domain, and who creates and deletes it; each round is one race. */
struct lane {
    struct race *race;
    char domain[32], path[48];
    uint64_t dice;
    enum promise promise;
    struct http_reply reply;
    char why[200]; /* what is wrong; "": nothing */
};

struct race {
    struct site_manager manager;
    _Atomic uint16_t port; /* 0: it is down */
    _Atomic int lanes_left;
    bool is_unfenced; /* and nobody kills it: that would end what is to come too late */
    uint64_t seed, round;
    int kills, deaths; /* by others, by itself */
    struct lane lanes[LANES];
};

static uint64_t draw(struct lane *lane) {
    return lane->dice = ledger_hash(lane->dice, lane->race->seed);
}

static void pause_us(int64_t us) {
    static const struct site_manager nobody = {.pidfd = -1};
    site_manager_dies_within(&nobody, us);
}

/* ---- a lane ------------------------------------------------------------------------------- */

/* Asks until there is an answer; *was_cut: an earlier try may have had its effect. */
static int insist(struct lane *lane, const char *method, const char *path, const char *body,
                  bool *was_cut) {
    *was_cut = false;
    for (;;) {
        uint16_t port = atomic_load(&lane->race->port);
        int status = port ? http_ask(port, method, path, body, &lane->reply) : 0;
        if (status != 0 && status != 503)
            return status;
        *was_cut |= port != 0 && status == 0;
        pause_us(500);
    }
}

static void find_broken(struct lane *lane, const char *what) {
    if (!*lane->why)
        snprintf(lane->why, sizeof lane->why, "%s: %s", lane->domain, what);
}

static void create(struct lane *lane) {
    char body[80];
    bool was_cut;
    snprintf(body, sizeof body, "domain=%s&title=Site+of+a+race", lane->domain);
    int status = insist(lane, "POST", "/sites", body, &was_cut);
    if (status == 202)
        lane->promise = THERE;
    else if (status != 409)
        find_broken(lane, "neither 202 nor 409 for a create");
    else if (was_cut && lane->promise == FREE)
        lane->promise = THERE;
    else if (was_cut && lane->promise == GONE)
        lane->promise = UNKNOWN; /* it is the old one or the new one */
    else if (lane->promise == FREE)
        find_broken(lane, "nobody has it, and it is not free");
}

static void delete (struct lane *lane) {
    bool was_cut;
    int status = insist(lane, "DELETE", lane->path, NULL, &was_cut);
    if (status != 202 && status != 404)
        find_broken(lane, "neither 202 nor 404 for a delete");
    if (status == 404 && lane->promise == THERE && !was_cut)
        find_broken(lane, "it was created, and cannot be found");
    if (status == 202 && lane->promise == FREE)
        find_broken(lane, "nobody has created it, and it is deleted");
    lane->promise = lane->promise == FREE ? FREE : GONE;
}

/* Until the files and the database are about to be made, if they ever are. */
static void await_the_middle(struct lane *lane) {
    for (int turn = 0; turn < AIM_TURNS; turn++) {
        uint16_t port = atomic_load(&lane->race->port);
        int status = port ? http_ask(port, "GET", lane->path, NULL, &lane->reply) : 0;
        if (status == 404
            || (status == 200
                && !strstr(lane->reply.body, "\"name\":\"create-db\",\"state\":\"waiting\"")))
            return;
        pause_us(500);
    }
}

/* c: create, d: delete. Mostly what matters most: a delete in the middle of a create. */
static const char *const plans[] = {"cd", "cd", "cd", "cd", "cd", "c", "dc", "ccd", "cdd", "cdc"};

static void *run_lane(void *arg) {
    struct lane *lane = arg;
    for (const char *at = plans[draw(lane) % (sizeof plans / sizeof *plans)]; *at; at++) {
        if (*at == 'd' && lane->promise == THERE && draw(lane) % 2)
            await_the_middle(lane); /* however slow the machine is */
        else if (draw(lane) % 4 != 0)
            pause_us((int64_t)(draw(lane) % PAUSE_US));
        *at == 'c' ? create(lane) : delete (lane);
    }
    atomic_fetch_sub(&lane->race->lanes_left, 1);
    return NULL;
}

/* ---- the process -------------------------------------------------------------------------- */

/* With trouble it may die at once. */
static void start(struct race *race, bool is_calm) {
    char seed[24];
    const char *options[20] = {"--retry-ms", "3", "--workers", "24"};
    size_t count = 4;
    snprintf(seed, sizeof seed, "%lld",
             (long long)(ledger_hash(race->seed, (uint64_t)(race->kills + race->deaths)) >> 1));
    if (race->is_unfenced)
        options[count++] = "--unfence";
    if (!is_calm) {
        const char *trouble[] = {"--slow", "10", "--fail", "4", "--seed", seed, "--die", "8"};
        memcpy(options + count, trouble, sizeof trouble);
        count += sizeof trouble / sizeof *trouble - (race->is_unfenced ? 2 : 0);
    }
    options[count] = NULL;
    while (!site_manager_start(&race->manager, SITE_MANAGER_PROGRAM, options))
        CHECK(!is_calm && ++race->deaths);
    atomic_store(&race->port, race->manager.port);
}

static void kill_it(struct race *race, int *count) {
    atomic_store(&race->port, 0);
    site_manager_kill(&race->manager);
    ++*count;
}

/* Until all lanes have had their answers: kills it at most twice, and starts it again. */
static void supervise(struct race *race, uint64_t dice) {
    int kills = race->is_unfenced || dice % 4 < 2 ? 0 : (int)(dice % 4) - 1;
    int64_t next_us = (int64_t)(dice / 4 % (2 * PAUSE_US));
    while (atomic_load(&race->lanes_left) > 0) {
        bool has_died = site_manager_dies_within(&race->manager, kills > 0 ? next_us : 1000);
        if (!has_died && kills == 0)
            continue;
        kills -= !has_died;
        kill_it(race, has_died ? &race->deaths : &race->kills);
        start(race, false);
        next_us = (int64_t)(ledger_hash(dice, (uint64_t)kills) % (2 * PAUSE_US));
    }
}

/* ---- after the race ----------------------------------------------------------------------- */

/* LW_SOAK or not: a site that neither rests nor goes away is found, and not waited for for ever. */
static void await_rest(struct race *race, struct lane *lane) {
    for (int turn = 0; turn < SETTLE_TURNS; turn++) {
        int status = http_ask(race->manager.port, "GET", lane->path, NULL, &lane->reply);
        if (status == 404 || strstr(lane->reply.body, "\"condition\":\"at goal\""))
            return;
        if (site_manager_dies_within(&race->manager, 1000)) {
            kill_it(race, &race->deaths);
            start(race, true);
        }
    }
    printf("%s\n", lane->reply.body);
    find_broken(lane, "it does not come to rest");
}

static void check_promise(struct lane *lane) {
    bool is_there = lane->reply.status == 200;
    if (is_there && (lane->promise == GONE || lane->promise == FREE))
        find_broken(lane, "it was to be gone, and is there");
    if (!is_there && lane->promise == THERE)
        find_broken(lane, "it was to be there, and is gone");
}

static void check_disk(struct lane *lane) {
    if (*lane->why)
        return;
    if (lane->reply.status == 200)
        site_is_there(lane->domain, "Site of a race", lane->why);
    else
        site_is_gone(lane->domain, lane->why);
}

/* It ends in one of two ways: what still runs then dies, or has its effect first. */
static void end_it(struct race *race, bool is_kill) {
    atomic_store(&race->port, 0);
    if (is_kill) {
        kill_it(race, &race->kills);
        return;
    }
    int status = site_manager_stop(&race->manager);
    if (status != SIGKILL) /* by itself, before it could end well */
        assert_int_equal(status, 0);
}

static void check_lanes(struct race *race, bool is_kill) {
    for (int i = 0; i < LANES; i++) {
        await_rest(race, &race->lanes[i]);
        check_promise(&race->lanes[i]);
    }
    end_it(race, is_kill);
    for (int i = 0; i < LANES; i++)
        check_disk(&race->lanes[i]);
}

static void clear_lane(struct race *race, struct lane *lane) {
    if (*lane->why || lane->reply.status == 404)
        return;
    while (http_ask(race->manager.port, "DELETE", lane->path, NULL, &lane->reply) != 202)
        CHECK(!site_manager_dies_within(&race->manager, 1000));
    await_rest(race, lane);
}

static void clear_lanes(struct race *race) {
    start(race, true);
    for (int i = 0; i < LANES; i++)
        clear_lane(race, &race->lanes[i]);
    end_it(race, false);
}

static const char *find_garbage(struct race *race) {
    static char why[200];
    for (int i = 0; i < LANES; i++) {
        if (*race->lanes[i].why)
            return race->lanes[i].why;
    }
    return sites_are_gone(why) ? NULL : why;
}

/* ---- races -------------------------------------------------------------------------------- */

static void start_lanes(struct race *race, pthread_t *threads) {
    atomic_store(&race->lanes_left, LANES);
    for (int i = 0; i < LANES; i++) {
        struct lane *lane = &race->lanes[i];
        lane->race = race;
        lane->dice = ledger_hash(race->seed, race->round * LANES + (unsigned)i);
        lane->promise = FREE;
        snprintf(lane->domain, sizeof lane->domain, "site-%d.org", i);
        snprintf(lane->path, sizeof lane->path, "/sites/site-%d.org", i);
        CHECK(pthread_create(&threads[i], NULL, run_lane, lane) == 0);
    }
}

/* A race in each lane. Returns what is left that should not be; NULL: nothing. */
static const char *run_round(struct race *race) {
    pthread_t threads[LANES];
    uint64_t dice = ledger_hash(race->seed ^ 1, race->round++);
    start(race, false);
    start_lanes(race, threads);
    supervise(race, dice >> 8);
    for (int i = 0; i < LANES; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    if (!race->is_unfenced && dice % 4 == 0) { /* otherwise it goes on as it is */
        kill_it(race, &race->kills);
        start(race, true);
    }
    check_lanes(race, !race->is_unfenced && dice / 4 % 4 == 0);
    clear_lanes(race);
    return find_garbage(race);
}

static struct race *open_race(bool is_unfenced) {
    const char *seed = getenv("LW_SEED");
    struct race *race = calloc(1, sizeof *race);
    CHECK(race);
    race->is_unfenced = is_unfenced;
    race->seed = seed ? strtoull(seed, NULL, 10) : (uint64_t)time(NULL);
    printf("LW_SEED=%llu\n", (unsigned long long)race->seed);
    return race;
}

static void report(const struct race *race, const char *garbage) {
    printf("%llu races, killed %d times, died %d times by itself: %s\n",
           (unsigned long long)race->round * LANES, race->kills, race->deaths,
           garbage ? garbage : "nothing is left");
    fflush(stdout);
}

TEST(races_leave_a_whole_site_or_nothing) {
    struct race *race = open_race(false);
    const char *garbage = NULL;
    long races = test_scale(50, 2000);
    while (!garbage && (long)race->round * LANES < races)
        garbage = run_round(race);
    report(race, garbage);
    if (garbage)
        assert_string_equal(garbage, "");
    free(race);
}

/* So that it is known that the test above would see it. */
TEST(without_the_fence_the_same_races_leave_garbage) {
    struct race *race = open_race(true);
    const char *garbage = NULL;
    while (!garbage && race->round * LANES < 2000)
        garbage = run_round(race);
    report(race, garbage);
    CHECK(garbage);
    free(race);
}
