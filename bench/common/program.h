/* The command line of a benchmark program: the name of one workload, and how many tasks. */
#ifndef BENCH_PROGRAM_H
#define BENCH_PROGRAM_H

#include <stdlib.h>
#include <string.h>

#include "measure.h"

typedef struct bench_workload {
    const char *name;
    void (*run)(const char *name, long tasks); /* tasks 0: as many as take about half a second */
} bench_workload;

static int bench_main(int argc, char **argv, const char *system, const bench_workload *workloads,
                      size_t count) {
    if (argc < 2 || argc > 3)
        bench_die("usage: %s WORKLOAD [tasks]", argv[0]);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(argv[1], workloads[i].name) != 0)
            continue;
        workloads[i].run(argv[1], argc == 3 ? strtol(argv[2], NULL, 10) : 0);
        return 0;
    }
    bench_die("%s has no workload %s", system, argv[1]);
}

#endif
