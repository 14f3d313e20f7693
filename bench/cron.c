/* What it costs to find the next tick of an expression: typical ones, and those that have to look
 * far. Ticks are looked up one after the other, each from the one before, and from random moments
 * between 1970 and 2100. */
#include <legwork/cron.h>
#include <stdio.h>

#include "common/program.h"

enum {
    WALK = 20000,  /* ticks, one after the other */
    STARTS = 2000, /* moments from which one is looked up */
    TRIES = 7,     /* of which the quickest counts: the others were interrupted */
};

#define SPAN_MS INT64_C(4102444800000) /* 1970 to 2100 */
#define MIX UINT64_C(0x9e3779b97f4a7c15)

typedef struct expression {
    const char *text, *zone;
} expression;

static const expression typical[] = {
    {"0 3 * * MON-FRI", "Europe/Berlin"}, {"*/5 * * * *", "UTC"},
    {"@hourly", "America/New_York"},      {"30 8 1,15 * *", "Europe/London"},
    {"0 0 * * SUN", "Asia/Tokyo"},        {"*/10 * 9-17/2 * * 1-5", "Australia/Sydney"},
    {"0 2 * * *", "Europe/Berlin"},       {"@every 90s", "UTC"},
    {"0 0 L * *", "America/Sao_Paulo"}};

/* Rare ticks, and clock changes in between that have to be looked at. */
static const expression rare[] = {{"0 0 29 2 *", "Europe/Berlin"},
                                  {"0 0 29 2 */7", "Europe/Berlin"}, /* on a Sunday */
                                  {"59 59 23 29 2 ?", "America/New_York"},
                                  {"30 2 29W 2 ?", "Australia/Lord_Howe"},
                                  {"0 0 ? 2 THU#5", "Africa/Casablanca"}};

/* Keeps the compiler from leaving a lookup out. */
static int64_t check_sum;

static lw_cron *open_cron(lw_zones *zones, const expression *e) {
    lw_cron *cron = NULL;
    lw_error err;
    if (lw_cron_parse(&cron, zones, e->text, LW_CRON_OPTIONS(.zone = e->zone), &err) < 0)
        bench_die("%s", err.message);
    return cron;
}

static int64_t next_of(const lw_cron *cron, int64_t after) {
    int64_t tick;
    if (lw_cron_next(cron, after, &tick) != LW_OK)
        bench_die("there is no tick after %lld", (long long)after);
    if (tick <= after)
        bench_die("%lld is not after %lld", (long long)tick, (long long)after);
    check_sum += tick;
    return tick;
}

/* ns of one lookup, on average over a walk. */
static double walk(const lw_cron *cron) {
    double best = 0;
    for (int i = 0; i < TRIES; i++) {
        int64_t at = INT64_C(1774700000000), begin = bench_now_ns();
        for (int j = 0; j < WALK; j++)
            at = next_of(cron, at < SPAN_MS ? at : 0);
        double ns = (double)(bench_now_ns() - begin) / WALK;
        best = i == 0 || ns < best ? ns : best;
    }
    return best;
}

/* ns of the slowest lookup from any of many moments. A clock's own cost is in it. */
static double slowest(const lw_cron *cron) {
    double worst = 0;
    uint64_t random = MIX;
    for (int i = 0; i < STARTS; i++) {
        double best = 0;
        random = (random ^ random >> 29) * MIX;
        int64_t after = (int64_t)(random >> 20) % SPAN_MS;
        for (int j = 0; j < TRIES; j++) {
            int64_t begin = bench_now_ns();
            next_of(cron, after);
            double ns = (double)(bench_now_ns() - begin);
            best = j == 0 || ns < best ? ns : best;
        }
        worst = best > worst ? best : worst;
    }
    return worst;
}

static double most(lw_zones *zones, const expression *list, size_t count,
                   double (*measure)(const lw_cron *cron)) {
    double worst = 0;
    for (size_t i = 0; i < count; i++) {
        lw_cron *cron = open_cron(zones, &list[i]);
        double ns = measure(cron);
        worst = ns > worst ? ns : worst;
        lw_cron_close(cron);
    }
    return worst;
}

#define COUNT_OF(list) (sizeof(list) / sizeof *(list))

static void run_next(const char *name, long tasks) {
    lw_zones *zones = NULL;
    lw_error err;
    (void)tasks;
    if (lw_zones_open(&zones, NULL, &err) < 0)
        bench_die("%s", err.message);
    bench_report(name, "typical", most(zones, typical, COUNT_OF(typical), walk), "ns");
    bench_report(name, "worst_typical", most(zones, typical, COUNT_OF(typical), slowest), "ns");
    bench_report(name, "worst_rare", most(zones, rare, COUNT_OF(rare), slowest), "ns");
    lw_zones_close(zones);
    if (check_sum == 0)
        bench_die("nothing was looked up");
}

static const bench_workload workloads[] = {{"B1", run_next}};

int main(int argc, char **argv) {
    return bench_main(argc, argv, "legwork", workloads, COUNT_OF(workloads));
}
