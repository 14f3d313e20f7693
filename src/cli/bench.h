/* `legwork bench`: what its two files share. bench.c runs it, bench_report.c tells how it goes and
 * went. */
#ifndef LW_CLI_BENCH_H
#define LW_CLI_BENCH_H

#include "cli/arguments.h"
#include "cli/client.h"
#include "cli/load.h"
#include "cli/render.h"

#define LW__BENCH_QUEUE "legwork-bench" /* and the kind */

struct lw__bench_values {
    struct lw__common common;
    int64_t connections, in_flight, batch, size, rate, for_ms, tasks;
    int mode; /* 0: life, 1: submit */
};

struct lw__bench {
    const struct lw__bench_values *values;
    struct lw__style style; /* of standard error */
    char host[LW__CLIENT_HOST_MAX];
    int signal_fd;
    struct lw__load load; /* that is running */
    struct lw__load_plan plan;
    struct lw__load_figures figures; /* of what was measured */
    double busy;                     /* share of a core that this process took */
    bool was_stopped, is_cleaning, has_bar;
};

/* The bar on a terminal; nothing elsewhere. */
void lw__bench_tick(void *bench);
void lw__bench_wipe(struct lw__bench *bench);

void lw__bench_report(const struct lw__bench *bench);

#endif
