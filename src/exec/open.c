/* Open and close: the fork. */
#include "exec/order.h"
#include "server/refuse.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static int refuse(lw_error *err) {
    int failed = errno;
    lw__refuse(err, LW_ESYSTEM, "the process that runs commands cannot be started: %s",
               strerror(failed));
    if (err)
        err->native = failed;
    return LW_ESYSTEM;
}

int lw__exec_open(struct lw__exec *exec, const struct lw__exec_options *options, lw_error *err) {
    sigset_t all, before;
    int ends[2];
    *exec = (struct lw__exec){.options = *options, .orders = -1};
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        return refuse(err);
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before); /* in the helper they stay so */
    exec->helper = fork();
    if (exec->helper == 0) {
        close(ends[0]);
        lw__exec_helper_run(ends[1], options);
    }
    int rc = exec->helper < 0 ? refuse(err) : LW_OK;
    sigprocmask(SIG_SETMASK, &before, NULL);
    close(ends[1]);
    if (rc < 0) {
        close(ends[0]);
        return rc;
    }
    exec->orders = ends[0];
    exec->options.commands = NULL;
    signal(SIGPIPE, SIG_IGN); /* a command need not read its input */
    return LW_OK;
}

void lw__exec_close(struct lw__exec *exec) {
    if (exec->helper <= 0)
        return;
    close(exec->orders);
    while (waitpid(exec->helper, NULL, 0) < 0 && errno == EINTR) {
    }
    *exec = (struct lw__exec){.orders = -1};
}
