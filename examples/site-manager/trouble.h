/* Trouble on order, for the demo and the tests: steps that are slow, that fail, in which the
 * process dies. All zero: none. */
#ifndef SITE_MANAGER_TROUBLE_H
#define SITE_MANAGER_TROUBLE_H

#include <legwork/task.h>
#include <stdatomic.h>

struct trouble {
    int slow_ms;      /* a step takes up to this long at each of its points; at one in four it
                         hangs, for up to eight times that */
    int fail_percent; /* of the points; the attempt fails there */
    int die_permille; /* of the points; the process dies there of SIGKILL */
    uint64_t seed;
    _Atomic uint64_t count; /* points that were passed */
};

/* A point in a step: between two things that it does. One that hangs does not listen to the
 * context, like a call into somebody else's code: when that is done it still takes the longest time
 * there is, so that it is there while what comes after it goes on. LW_OK; LW_ECANCELED: give up;
 * LW_ESYSTEM: fails; both with a sentence. */
int trouble_at(struct trouble *trouble, lw_ctx *ctx, lw_error *err);

#endif
