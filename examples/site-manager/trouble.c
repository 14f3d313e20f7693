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

static void take_time(lw_ctx *ctx, int ms, bool listens) {
    if (listens)
        lw_ctx_sleep(ctx, ms);
    else
        nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}, NULL);
}

static int give_up(lw_error *err, int status, const char *why) {
    *err = (lw_error){.status = status};
    snprintf(err->message, sizeof err->message, "%s", why);
    return status;
}

/* Up to slow_ms; one in eight hangs for up to eight times that. */
static int time_of(const struct trouble *trouble, uint64_t dice) {
    unsigned most = (unsigned)trouble->slow_ms * (dice / 8 % 8 == 0 ? 8 : 1);
    return (int)(dice / 64 % (most + 1));
}

int trouble_at(struct trouble *trouble, lw_ctx *ctx, lw_error *err) {
    uint64_t dice = next_dice(trouble);
    if ((int)(dice % 1000) < trouble->die_permille)
        raise(SIGKILL);
    bool listens = trouble->slow_ms == 0 || dice >> 63;
    if (trouble->slow_ms > 0)
        take_time(ctx, time_of(trouble, dice / 1000), listens);
    if (listens && lw_ctx_done(ctx))
        return give_up(err, LW_ECANCELED, "asked to give up");
    if ((int)((dice >> 32) % 100) < trouble->fail_percent)
        return give_up(err, LW_ESYSTEM, "trouble on order");
    return LW_OK;
}
