/* One string changed, and what was accepted survives whatever happens to the process.
 *
 *     ./durable_email mails.db 20     accepts 20 e-mails and sends them. Kill it in the middle, and
 *     ./durable_email mails.db        start it again: it sends what is left
 *     ./durable_email                 does both by itself, in a file of its own
 *
 * An accepted e-mail is on the disk before lw_submit returns. One that was just being sent when the
 * process died is sent again: at least once. (With the task's id in the Message-ID both are the
 * same e-mail to the server.)
 */
#include <legwork/legwork.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { COUNT = 20, KILLED_AFTER = 7 };

/* ---- the task ---------------------------------------------------------------------------- */

static lw_outcome send_email(lw_ctx *ctx, const lw_task *task) {
    int *until_killed = lw_ctx_user(ctx); /* NULL: nobody kills it but you */
    if (lw_ctx_sleep(ctx, 50) < 0)        /* the mail server takes its time */
        return lw_retry(ctx, "stopped before it was sent");
    if (until_killed && --*until_killed < 0)
        raise(SIGKILL);
    printf("process %d: sent <%llu@example.org> to %s\n", (int)getpid(), task->id,
           (const char *)task->payload.data); /* a zero always follows the last byte */
    fflush(stdout);
    return lw_done(ctx);
}

/* The key: whoever asks twice, even after a crash, asks for one e-mail. */
static void accept_emails(lw_engine *engine, long count) {
    lw_error err;
    for (long i = 1; i <= count; i++) {
        char address[64];
        snprintf(address, sizeof address, "customer-%ld@example.org", i);
        const lw_task *task =
            LW_TASK(.kind = "send-email", .key = address, .payload = LW_TEXT(address));
        if (lw_submit(engine, task, NULL, &err) < 0)
            fprintf(stderr, "%s: %s\n", address, err.message);
    }
    if (count > 0)
        printf("process %d: accepted %ld\n", (int)getpid(), count);
}

/* Accepts so many, and sends all that are there. Returns how many are sent by now, -1: failed. */
static int run(const char *path, long count, int *until_killed) {
    char url[300];
    lw_error err;
    lw_engine *engine = NULL;
    lw_engine_stats stats = {0};
    snprintf(url, sizeof url, "sqlite:%s", path); /* "memory:", and it would all be gone */
    if (lw_open(&engine, url, LW_ENGINE_OPTIONS(.workers = 1), &err) < 0)
        return fprintf(stderr, "%s\n", err.message), -1;
    lw_handle(engine, "send-email", send_email,
              LW_HANDLER_OPTIONS(.timeout_ms = 30000, .user = until_killed), &err);
    accept_emails(engine, count);
    if (lw_start(engine, &err) < 0)
        return fprintf(stderr, "%s\n", err.message), -1;
    lw_stop(engine, LW_DRAIN, -1);
    lw_get_stats(engine, &stats);
    lw_close(engine);
    printf("process %d: %llu are sent, nothing is left\n", (int)getpid(),
           (unsigned long long)stats.finished);
    return (int)stats.finished;
}

/* ---- kill it in the middle, start it again ------------------------------------------------ */

static void remove_files(const char *path) {
    static const char *const endings[] = {"", "-wal", "-shm", "-owner", "-running"};
    char name[300];
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        snprintf(name, sizeof name, "%s%s", path, endings[i]);
        unlink(name);
    }
}

static int show(void) {
    const char *folder = getenv("TMPDIR");
    char path[250];
    snprintf(path, sizeof path, "%s/durable_email-XXXXXX", folder && *folder ? folder : "/tmp");
    int file = mkstemp(path), until_killed = KILLED_AFTER, status = 0;
    if (file < 0)
        return perror(path), 1;
    close(file);
    fflush(stdout);
    pid_t child = fork(); /* before anything is opened */
    if (child == 0)
        _exit(run(path, COUNT, &until_killed) < 0);
    waitpid(child, &status, 0);
    printf("process %d: died of signal %d\n", (int)child,
           WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    int sent = run(path, 0, NULL);
    remove_files(path);
    return !(WIFSIGNALED(status) && sent == COUNT);
}

int main(int argc, char **argv) {
    if (argc < 2)
        return show();
    return run(argv[1], argc > 2 ? strtol(argv[2], NULL, 10) : 0, NULL) < 0;
}
