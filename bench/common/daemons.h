/* The servers that are measured: `legwork serve` and beanstalkd, each in a process of its own, on a
 * port of the loopback and, if it is durable, in a folder below the present one. They do not
 * outlive this program. */
#ifndef BENCH_DAEMONS_H
#define BENCH_DAEMONS_H

#include "cli/load.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct bench_daemon {
    pid_t pid;
    int port;
    char host[32];
    const struct lw__load_protocol *protocol;
} bench_daemon;

/* Which one, is for the environment to say: BENCH_SERVER=beanstalkd, or else Legwork, whose
 * command is BENCH_LEGWORK. Returns when it listens. `folder` must not be there yet. */
bench_daemon bench_daemon_start(bool is_durable, const char *folder);
void bench_daemon_stop(bench_daemon *daemon);

/* A socket that is connected to it. */
int bench_daemon_connect(const bench_daemon *daemon);

/* Options for load on it; connections, in_flight and batch are 1 still. */
struct lw__load_options bench_daemon_load(const bench_daemon *daemon);

/* Of all its threads: CPU time, and how often one of them was put on a core. */
int64_t bench_daemon_cpu_ns(const bench_daemon *daemon);
int64_t bench_daemon_switches(const bench_daemon *daemon);

#endif
