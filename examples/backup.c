/* One backup at a time, and anyone may ask how far it is.
 *
 * Three people press the button. The key makes one task of that, and each of them gets its id. One
 * of them watches. The disk stalls on the way: the attempt ends, the task waits a little, and the
 * next attempt goes on where the first one stopped.
 */
#include <legwork/legwork.h>
#include <stdio.h>

#define PARTS 100

struct disk {
    int copied; /* parts that are safe */
    bool has_stalled;
};

static bool copy_part(struct disk *disk, lw_ctx *ctx, int part) {
    if (part == 60 && !disk->has_stalled) {
        disk->has_stalled = true;
        return false;
    }
    return lw_ctx_sleep(ctx, 8) == LW_OK; /* the copying; it heeds its context */
}

static lw_outcome backup(lw_ctx *ctx, const lw_task *task) {
    struct disk *disk = lw_ctx_user(ctx); /* given at lw_handle; with .concurrency = 1 ours alone */
    char result[64];
    for (; disk->copied < PARTS; disk->copied++) {
        if (!copy_part(disk, ctx, disk->copied))
            return lw_retry(ctx, "the disk stalled at part %d", disk->copied);
        lw_progress(ctx, (uint64_t)disk->copied + 1, PARTS, "copying");
    }
    snprintf(result, sizeof result, "%d parts, in %u attempts", PARTS, task->attempt);
    return lw_done_with(ctx, LW_TEXT(result));
}

/* ---- those who ask ----------------------------------------------------------------------- */

static void press_button(lw_engine *engine, const char *who, lw_id *id) {
    lw_error err;
    int rc = lw_submit(engine, LW_TASK(.kind = "backup", .key = "disk-1"), id, &err);
    if (rc < 0)
        printf("%s: %s\n", who, err.message);
    else
        printf("%s: backup %llu %s\n", who, *id,
               rc == LW_EXISTS ? "is on its way already" : "is accepted");
}

static void print_progress(const lw_snapshot *now) {
    int percent = now->progress.total ? (int)(now->progress.done * 100 / now->progress.total) : 0;
    char bar[21] = "....................";
    for (int i = 0; i < percent / 5; i++)
        bar[i] = '#';
    printf("  %-9s [%s] %3d %%  %s\n", lw_state_name(now->state), bar, percent,
           now->state == LW_SCHEDULED ? now->last_error : now->progress.text);
}

/* Looks every 100 ms; a look holds nobody up. */
static bool watch(lw_engine *engine, lw_id id) {
    lw_snapshot now = LW_SNAPSHOT_INIT;
    int rc;
    while ((rc = lw_wait(engine, id, 100, &now)) == LW_PENDING)
        print_progress(&now);
    if (rc == LW_OK) {
        print_progress(&now);
        printf("%s: %.*s\n", lw_state_name(now.state), (int)now.result.size,
               now.result.size ? (const char *)now.result.data : "");
    }
    bool is_finished = rc == LW_OK && now.state == LW_FINISHED;
    lw_snapshot_clear(&now);
    return is_finished;
}

int main(void) {
    lw_error err;
    lw_engine *engine = NULL;
    struct disk disk = {0};
    lw_id ids[3] = {0};
    if (lw_open(&engine, "memory:", NULL, &err) < 0)
        return fprintf(stderr, "%s\n", err.message), 1;
    lw_handle(engine, "backup", backup,
              LW_HANDLER_OPTIONS(.concurrency = 1, .user = &disk,
                                 .retry = {.min_ms = 150, .attempts = 5}),
              &err);

    press_button(engine, "ann", &ids[0]);
    press_button(engine, "bob", &ids[1]);
    press_button(engine, "cyd", &ids[2]);
    if (lw_start(engine, &err) < 0)
        return fprintf(stderr, "%s\n", err.message), 1;
    bool is_finished = watch(engine, ids[0]);
    bool was_one = ids[0] == ids[1] && ids[1] == ids[2];

    lw_stop(engine, LW_DRAIN, 10000);
    lw_close(engine);
    return !is_finished || !was_one;
}
