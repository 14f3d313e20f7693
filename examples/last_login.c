/* Note each user's last login, and let no login wait for it.
 *
 * The smallest useful program with the engine. The user's name is the key of the task: someone who
 * logs in again before it was noted does not make a second one.
 */
#include <legwork/legwork.h>
#include <stdio.h>

/* The handler: one attempt, on a worker. */
static lw_outcome note_login(lw_ctx *ctx, const lw_task *task) {
    if (lw_ctx_sleep(ctx, 50) < 0) /* a slow database */
        return lw_retry(ctx, "interrupted");
    printf("      task %llu: the last login of %s is noted\n", task->id, task->key);
    return lw_done(ctx);
}

int main(void) {
    static const char *const logins[] = {"ann", "bob", "ann", "cyd", "bob"};
    lw_error err;
    lw_engine *engine = NULL;
    int accepted = 0, existed = 0;
    if (lw_open(&engine, "memory:", NULL, &err) < 0)
        return fprintf(stderr, "%s\n", err.message), 1;
    lw_handle(engine, "note-login", note_login, NULL, &err);
    if (lw_start(engine, &err) < 0) /* also tells what was wrong with a handler */
        return fprintf(stderr, "%s\n", err.message), 1;

    for (size_t i = 0; i < sizeof logins / sizeof *logins; i++) {
        lw_id id = 0;
        int rc = lw_submit(engine, LW_TASK(.kind = "note-login", .key = logins[i]), &id, &err);
        if (rc < 0)
            return fprintf(stderr, "%s\n", err.message), 1;
        printf("welcome, %s: task %llu %s\n", logins[i], id,
               rc == LW_EXISTS ? "is on its way already" : "will note it");
        *(rc == LW_EXISTS ? &existed : &accepted) += 1;
    }

    int rc = lw_stop(engine, LW_DRAIN, 5000); /* runs what is enqueued, for 5 s at most */
    lw_close(engine);
    printf("%d logins, %d tasks; %s\n", accepted + existed, accepted,
           rc == LW_OK ? "stopped cleanly" : lw_status_text(rc));
    return rc < 0;
}
