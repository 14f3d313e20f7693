/* Try again with back-off, keep the errors, and be told when it is given up.
 *
 * The mail server is busy at first, and knows one of the addresses not at all. A handler says which
 * of the two it was; everything else is the engine's: when to try again, what went wrong each time,
 * and whom to tell at the end.
 */
#include <legwork/legwork.h>
#include <stdio.h>
#include <string.h>

/* ---- a mail server, as far as we need one ------------------------------------------------ */

static int smtp_send(lw_bytes to, unsigned attempt, int64_t timeout_ms) {
    (void)timeout_ms; /* a real one would not wait longer than this */
    if (to.size >= 6 && memcmp(to.data, "nobody", 6) == 0)
        return 550;
    return attempt < 3 ? 421 : 250;
}

/* ---- the task ---------------------------------------------------------------------------- */

static lw_outcome send_email(lw_ctx *ctx, const lw_task *task) {
    int code = smtp_send(task->payload, task->attempt, lw_ctx_left_ms(ctx));
    if (code == 550)
        return lw_fail(ctx, "mailbox does not exist"); /* for good */
    if (code != 250)
        return lw_retry(ctx, "smtp said %d", code); /* as the policy says */
    return lw_done(ctx);
}

/* On a worker, with no lock held. The errors of all attempts are in the snapshot. */
static void given_up(void *user, const lw_snapshot *task) {
    int *alerts = user;
    printf("ALERT: e-mail %llu failed after %u attempt%s: %s\n", task->id, task->attempts,
           task->attempts == 1 ? "" : "s", task->last_error);
    ++*alerts;
}

/* ---- what became of it ------------------------------------------------------------------- */

static void print_story(const lw_snapshot *s) {
    printf("\ne-mail %llu to %.*s: %s, %u attempt%s\n", s->id, (int)s->payload.size,
           (const char *)s->payload.data, lw_state_name(s->state), s->attempts,
           s->attempts == 1 ? "" : "s");
    for (unsigned i = 0; i < s->error_count; i++)
        printf("  %5lld ms  attempt %u: %s\n", (long long)(s->errors[i].at_ms - s->created_ms),
               s->errors[i].attempt, s->errors[i].text);
    printf("  %5lld ms  %s\n", (long long)(s->ended_ms - s->created_ms), lw_state_name(s->state));
}

static lw_id submit(lw_engine *engine, const char *address) {
    lw_error err;
    lw_id id = 0;
    if (lw_submit(engine, LW_TASK(.kind = "send-email", .payload = LW_TEXT(address)), &id, &err)
        < 0)
        fprintf(stderr, "%s\n", err.message);
    return id;
}

int main(void) {
    lw_error err;
    lw_engine *engine = NULL;
    lw_snapshot ann = LW_SNAPSHOT_INIT, nobody = LW_SNAPSHOT_INIT;
    int alerts = 0;
    if (lw_open(&engine, "memory:", LW_ENGINE_OPTIONS(.on_failed = given_up, .user = &alerts), &err)
        < 0)
        return fprintf(stderr, "%s\n", err.message), 1;
    lw_handle(
        engine, "send-email", send_email,
        LW_HANDLER_OPTIONS(.timeout_ms = 30000,
                           .retry = {.min_ms = 100, .max_ms = 60000, .factor = 2, .attempts = 8}),
        &err);
    if (lw_start(engine, &err) < 0)
        return fprintf(stderr, "%s\n", err.message), 1;

    lw_id first = submit(engine, "ann@example.org"), second = submit(engine, "nobody@example.org");
    lw_wait(engine, first, 10000, &ann);
    lw_wait(engine, second, 10000, &nobody);
    lw_stop(engine, LW_DRAIN, 5000); /* waits for given_up, too */
    lw_close(engine);

    print_story(&ann);
    print_story(&nobody);
    bool is_right = ann.state == LW_FINISHED && ann.error_count == 2 && nobody.state == LW_FAILED
                    && alerts == 1;
    lw_snapshot_clear(&ann);
    lw_snapshot_clear(&nobody);
    return !is_right;
}
