/* The helper: the process that commands are children of. One thread, one loop, nothing of the
 * server's: it was forked before there was any.
 *
 * A command leads a process group of its own, and is reaped here. When it has ended what is left of
 * its group is killed: first that, then it is reaped, because until then no other group can have
 * its number. For the same reason a group is signalled only while its leader is not reaped. */
#include "exec/order.h"
#include "server/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define ORDERS_FD 3

struct running {
    pid_t pid;   /* and its group */
    int control; /* -1: nobody wants to know of it any more */
};

struct helper {
    const struct lw__exec_options *options;
    size_t count;
    struct running *all;
    struct pollfd *polls; /* the orders, and the controls */
};

/* ---- in the child -------------------------------------------------------------------------- */

static void reset_signals(void) {
    sigset_t none;
    for (int number = 1; number < NSIG; number++)
        signal(number, SIG_DFL); /* refused for some, which are so already */
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* The order is of this process now: its variables can stay in the environment. */
static void set_variables(const struct lw__exec_order *order) {
    for (const char *next = NULL; (next = lw__exec_order_next(order, next));)
        putenv((char *)(uintptr_t)next);
}

_Noreturn static void become(const char *const *argv, const struct lw__exec_order *order,
                             const int fds[LW__EXEC_ORDER_FDS]) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* should the helper itself be killed */
    dup2(fds[LW__EXEC_ORDER_IN], STDIN_FILENO);
    dup2(fds[LW__EXEC_ORDER_OUT], STDOUT_FILENO);
    dup2(fds[LW__EXEC_ORDER_ERRORS], STDERR_FILENO);
    set_variables(order);
    reset_signals();
    execvp(argv[0], (char *const *)argv);
    int failed = errno;
    dprintf(STDERR_FILENO, "%s: %s\n", argv[0], strerror(failed));
    _exit(failed == ENOENT ? 127 : 126); /* as shells do */
}

/* ---- beginning ----------------------------------------------------------------------------- */

static void refuse(int control, int failed) {
    lw__exec_report_send(control, (struct lw__exec_report){LW__EXEC_NOT_STARTED, failed});
    close(control);
}

static void begin(struct helper *helper, const struct lw__exec_order *order,
                  const int fds[LW__EXEC_ORDER_FDS]) {
    const struct lw__exec_options *options = helper->options;
    int control = fds[LW__EXEC_ORDER_CONTROL];
    if (order->command >= options->command_count || helper->count == options->running_max) {
        refuse(control, order->command >= options->command_count ? EINVAL : EAGAIN);
        return;
    }
    pid_t pid = fork();
    if (pid == 0)
        become(options->commands[order->command], order, fds);
    if (pid < 0) {
        refuse(control, errno);
        return;
    }
    setpgid(pid, pid); /* whoever of the two is first */
    helper->all[helper->count++] = (struct running){pid, control};
}

/* False: the server is gone. */
static bool take_order(struct helper *helper) {
    struct lw__exec_order order = {0};
    int fds[LW__EXEC_ORDER_FDS];
    int rc = lw__exec_order_receive(ORDERS_FD, &order, fds);
    if (rc == LW_OK) {
        begin(helper, &order, fds);
        for (int i = 0; i < LW__EXEC_ORDER_CONTROL; i++)
            close(fds[i]);
    }
    return rc != LW_ESYSTEM;
}

/* ---- meanwhile ----------------------------------------------------------------------------- */

static void heed_control(struct running *running) {
    char letter = 0;
    ssize_t size = recv(running->control, &letter, 1, MSG_DONTWAIT);
    if (size < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (size <= 0) { /* whoever wanted it is gone */
        close(running->control);
        running->control = -1;
    }
    kill(-running->pid, size == 1 && letter == LW__EXEC_ASK_TERM ? SIGTERM : SIGKILL);
}

/* ---- ending -------------------------------------------------------------------------------- */

static struct running *find(struct helper *helper, pid_t pid) {
    for (size_t i = 0; i < helper->count; i++)
        if (helper->all[i].pid == pid)
            return &helper->all[i];
    return NULL;
}

static struct lw__exec_report report_of(int status) {
    if (WIFSIGNALED(status))
        return (struct lw__exec_report){LW__EXEC_SIGNALLED, WTERMSIG(status)};
    return (struct lw__exec_report){LW__EXEC_EXITED, WEXITSTATUS(status)};
}

/* What is no command was a child of one, and has come to us as its reaper. */
static void reap(struct helper *helper, pid_t pid) {
    struct running *running = find(helper, pid);
    int status = 0;
    if (running)
        kill(-pid, SIGKILL);
    waitpid(pid, &status, 0);
    if (!running)
        return;
    if (running->control >= 0) {
        lw__exec_report_send(running->control, report_of(status));
        close(running->control);
    }
    *running = helper->all[--helper->count];
}

static void reap_all(struct helper *helper) {
    for (;;) {
        siginfo_t info = {.si_pid = 0};
        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || info.si_pid == 0)
            return;
        reap(helper, info.si_pid);
    }
}

/* ---- the end of all ------------------------------------------------------------------------ */

/* Also of those that have left their groups, which a kernel without this file does not show. */
static void kill_children(void) {
    char path[64];
    int pid;
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    FILE *file = fopen(path, "re");
    while (file && fscanf(file, "%d", &pid) == 1)
        kill(pid, SIGKILL);
    if (file)
        fclose(file);
}

/* Each death can make us the parent of somebody else. */
_Noreturn static void end_all(struct helper *helper) {
    for (size_t i = 0; i < helper->count; i++)
        kill(-helper->all[i].pid, SIGKILL);
    do
        kill_children();
    while (waitpid(-1, NULL, 0) > 0 || errno == EINTR);
    _exit(0);
}

/* ---- the loop ------------------------------------------------------------------------------ */

static void on_child(int number) {
    (void)number; /* it ends the wait */
}

/* SIGCHLD comes while we wait, and only then. What is sent to all is not for us, and never comes:
 * blocked, not ignored, so that a child that has hardly begun keeps it until it can heed it. */
static void set_signals(sigset_t *waiting) {
    struct sigaction action = {.sa_handler = on_child};
    sigset_t all;
    sigaction(SIGCHLD, &action, NULL);
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    *waiting = all;
    sigdelset(waiting, SIGCHLD);
}

/* Nothing of the server's stays open, and commands find nothing that is meant for it. */
static void leave_server(int orders) {
    static const char *const managers[] = {"NOTIFY_SOCKET",  "LISTEN_FDS",   "LISTEN_PID",
                                           "LISTEN_FDNAMES", "WATCHDOG_PID", "WATCHDOG_USEC"};
    if (orders != ORDERS_FD)
        dup2(orders, ORDERS_FD);
    fcntl(ORDERS_FD, F_SETFD, FD_CLOEXEC);
    close_range(ORDERS_FD + 1, ~0U, 0);
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    dup2(nothing, STDIN_FILENO);
    dup2(nothing, STDOUT_FILENO);
    close(nothing);
    for (size_t i = 0; i < sizeof managers / sizeof *managers; i++)
        unsetenv(managers[i]);
    for (const char *const *name = lw__exec_variables; *name; name++)
        unsetenv(*name);
}

static void wait_for_something(struct helper *helper, const sigset_t *waiting) {
    helper->polls[0] = (struct pollfd){.fd = ORDERS_FD, .events = POLLIN};
    for (size_t i = 0; i < helper->count; i++)
        helper->polls[i + 1] = (struct pollfd){.fd = helper->all[i].control, .events = POLLIN};
    if (ppoll(helper->polls, helper->count + 1, NULL, waiting) < 0)
        for (size_t i = 0; i <= helper->count; i++)
            helper->polls[i].revents = 0;
}

void lw__exec_helper_run(int orders, const struct lw__exec_options *options) {
    struct helper helper = {.options = options};
    sigset_t waiting;
    setsid();
    prctl(PR_SET_NAME, "legwork-exec");
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    set_signals(&waiting);
    leave_server(orders);
    helper.all = lw__server_alloc(options->running_max * sizeof *helper.all);
    helper.polls = lw__server_alloc((options->running_max + 1) * sizeof *helper.polls);
    if (!helper.all || !helper.polls)
        _exit(1); /* the first order finds nobody */
    for (bool has_server = true; has_server;) {
        wait_for_something(&helper, &waiting);
        for (size_t i = 0; i < helper.count; i++)
            if (helper.polls[i + 1].revents)
                heed_control(&helper.all[i]);
        if (helper.polls[0].revents)
            has_server = take_order(&helper);
        reap_all(&helper);
    }
    end_all(&helper);
}
