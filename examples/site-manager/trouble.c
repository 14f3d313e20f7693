#include "trouble.h"

#include <signal.h>
#include <stdio.h>
#include <time.h>

/* splitmix64 */
static uint64_t next_dice(struct trouble *trouble) {
    uint64_t x = trouble->seed + 0x9e3779b97f4a7c15u * (atomic_fetch_add(&trouble->count, 1) + 1);
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static void hang(lw_ctx *ctx, int ms, int most_ms) {
    struct timespec most = {.tv_sec = most_ms / 1000, .tv_nsec = most_ms % 1000 * 1000000L};
    lw_ctx_sleep(ctx, ms);
    if (lw_ctx_done(ctx))
        nanosleep(&most, NULL);
}

static int give_up(lw_error *err, int status, const char *why) {
    *err = (lw_error){.status = status};
    snprintf(err->message, sizeof err->message, "%s", why);
    return status;
}

int trouble_at(struct trouble *trouble, lw_ctx *ctx, lw_error *err) {
    uint64_t dice = next_dice(trouble);
    if ((int)(dice % 1000) < trouble->die_permille)
        raise(SIGKILL);
    bool hangs = trouble->slow_ms > 0 && dice >> 62 == 0;
    int most_ms = trouble->slow_ms * (hangs ? 8 : 1);
    int ms = (int)(dice / 1000 % ((unsigned)most_ms + 1));
    if (hangs)
        hang(ctx, ms, most_ms);
    else if (ms > 0)
        lw_ctx_sleep(ctx, ms);
    if (!hangs && lw_ctx_done(ctx))
        return give_up(err, LW_ECANCELED, "asked to give up");
    if ((int)((dice >> 32) % 100) < trouble->fail_percent)
        return give_up(err, LW_ESYSTEM, "trouble on order");
    return LW_OK;
}
