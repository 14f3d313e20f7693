/* One command, on the thread that waits for it.
 *
 * Four descriptors are its own: the three pipes and the control (exec.h). What the command does
 * with its ends is its own affair: it may not read its input, close its outputs, or leave a process
 * behind that keeps them open. The attempt is over when the helper says that the command has ended;
 * what is in the pipes at that moment is read, and nothing is waited for. */
#include "exec/order.h"
#include "server/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PIECE 16384   /* bytes of one read */
#define LEFT_READS 64 /* of what is left in a pipe at the end: more than a pipe holds */
#define BLIND_MS 1000 /* how often a context without a descriptor is looked at */

struct command {
    const struct lw__exec_options *options;
    const struct lw__exec_job *job;
    lw_ctx *ctx;
    struct lw__exec_end *end;
    struct lw__slice input; /* what is left of it */
    int in, out, errors, control;
    int ctx_fd;    /* the context's; negative: it cannot have one */
    lw_ctx *grace; /* until it is killed; NULL: was not asked to end, or is killed already */
    bool has_ended;
};

/* ---- descriptors --------------------------------------------------------------------------- */

static void close_fd(int *fd) {
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static bool open_pipe(int *ours, int *theirs, bool we_write) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return false;
    *ours = ends[we_write];
    *theirs = ends[!we_write];
    return fcntl(*ours, F_SETFL, O_NONBLOCK) == 0; /* theirs waits, as commands expect it to */
}

static bool open_all(struct command *command, int theirs[LW__EXEC_ORDER_FDS]) {
    int ends[2];
    if (!open_pipe(&command->in, &theirs[LW__EXEC_ORDER_IN], true)
        || !open_pipe(&command->out, &theirs[LW__EXEC_ORDER_OUT], false)
        || !open_pipe(&command->errors, &theirs[LW__EXEC_ORDER_ERRORS], false)
        || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        return false;
    command->control = ends[0];
    theirs[LW__EXEC_ORDER_CONTROL] = ends[1];
    return true;
}

/* ---- beginning ----------------------------------------------------------------------------- */

static int64_t deadline_of(const struct lw__exec *exec, lw_ctx *ctx) {
    int64_t left = lw_ctx_left_ms(ctx);
    return left < 0 ? 0 : exec->options.now_ms() + left;
}

static bool give_order(const struct lw__exec *exec, const struct lw__exec_job *job,
                       struct command *command) {
    struct lw__exec_order order;
    int theirs[LW__EXEC_ORDER_FDS] = {-1, -1, -1, -1};
    int failed = EMSGSIZE;
    bool is_given = false;
    if (lw__exec_order_write(&order, job, deadline_of(exec, command->ctx)) == LW_OK) {
        is_given =
            open_all(command, theirs) && lw__exec_order_send(exec->orders, &order, theirs) == LW_OK;
        failed = errno;
    }
    for (int i = 0; i < LW__EXEC_ORDER_FDS; i++)
        close_fd(&theirs[i]);
    if (is_given)
        return true;
    bool is_gone = failed == EPIPE || failed == ECONNRESET;
    command->end->how = is_gone ? LW__EXEC_HELPER_GONE : LW__EXEC_NOT_STARTED;
    command->end->code = failed;
    return false;
}

/* ---- asking it to end ---------------------------------------------------------------------- */

static void say(const struct command *command, char letter) {
    while (send(command->control, &letter, 1, MSG_NOSIGNAL) < 0 && errno == EINTR) {
    }
}

static void kill_it(struct command *command) {
    lw_ctx_close(command->grace);
    command->grace = NULL;
    command->end->is_killed = true;
    say(command, LW__EXEC_ASK_KILL);
}

static void ask_to_end(struct command *command) {
    int64_t ms = command->options->grace_ms;
    if (command->end->is_asked)
        return;
    command->end->is_asked = true;
    command->end->reason = lw_ctx_reason(command->ctx);
    if (command->end->reason == LW_REASON_DROPPED && ms > LW__EXEC_HURRY_MS)
        ms = LW__EXEC_HURRY_MS;
    if (command->job->is_void && atomic_load(command->job->is_void)) {
        kill_it(command);
        return;
    }
    say(command, LW__EXEC_ASK_TERM);
    const lw_ctx_options *options = LW_CTX_OPTIONS(.timeout_ms = ms > 0 ? ms : LW_ZERO);
    if (lw_ctx_open(&command->grace, options, NULL) < 0)
        kill_it(command);
}

/* ---- its pipes ----------------------------------------------------------------------------- */

static void feed(struct command *command) {
    struct lw__slice *input = &command->input;
    ssize_t size = input->size > 0 ? write(command->in, input->data, input->size) : 0;
    if (size > 0) {
        input->data += size;
        input->size -= (size_t)size;
    }
    bool is_refused = size < 0 && errno != EAGAIN && errno != EINTR; /* it does not want more */
    if (is_refused || input->size == 0)
        close_fd(&command->in);
}

static void keep_errors(struct lw__exec_end *end, struct lw__slice piece) {
    if (piece.size > LW__EXEC_ERRORS_MAX) {
        piece.data += piece.size - LW__EXEC_ERRORS_MAX;
        piece.size = LW__EXEC_ERRORS_MAX;
    }
    size_t kept = LW__EXEC_ERRORS_MAX - piece.size;
    if (end->error_size > kept) {
        memmove(end->errors, end->errors + end->error_size - kept, kept);
        end->error_size = kept;
    }
    memcpy(end->errors + end->error_size, piece.data, piece.size);
    end->error_size += piece.size;
}

/* Beyond the limit it is read on, so that the command can end in its own way. */
static void keep_output(struct command *command, struct lw__slice piece) {
    struct lw__exec_end *end = command->end;
    if (lw__buffer_put(&end->output, piece) == LW_OK)
        return;
    end->is_too_long = true;
    ask_to_end(command);
}

/* False: nothing came now, or nothing will. */
static bool read_from(struct command *command, int *fd) {
    char piece[PIECE];
    ssize_t size = *fd >= 0 ? read(*fd, piece, sizeof piece) : 0;
    if (size < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (size <= 0) {
        close_fd(fd);
        return false;
    }
    struct lw__slice got = {piece, (size_t)size};
    if (fd == &command->errors)
        keep_errors(command->end, got);
    else
        keep_output(command, got);
    return true;
}

/* ---- its end ------------------------------------------------------------------------------- */

static void hear(struct command *command) {
    struct lw__exec_report report = {.how = LW__EXEC_HELPER_GONE};
    int rc = lw__exec_report_receive(command->control, &report);
    if (rc == LW_PENDING)
        return;
    command->has_ended = true;
    command->end->how = rc == LW_OK ? (enum lw__exec_how)report.how : LW__EXEC_HELPER_GONE;
    command->end->code = rc == LW_OK ? report.code : 0;
}

static void read_what_is_left(struct command *command) {
    for (int i = 0; i < LEFT_READS && read_from(command, &command->out); i++) {
    }
    for (int i = 0; i < LEFT_READS && read_from(command, &command->errors); i++) {
    }
}

/* ---- all ----------------------------------------------------------------------------------- */

static int patience_of(const struct command *command) {
    int64_t left = command->grace ? lw_ctx_left_ms(command->grace) : -1;
    if (!command->end->is_asked && command->ctx_fd < 0)
        left = BLIND_MS;
    return left > INT32_MAX ? INT32_MAX : (int)left;
}

static void wait_and_serve(struct command *command) {
    struct pollfd polls[] = {
        {.fd = command->control, .events = POLLIN},
        {.fd = command->in, .events = POLLOUT},
        {.fd = command->out, .events = POLLIN},
        {.fd = command->errors, .events = POLLIN},
        {.fd = command->end->is_asked ? -1 : command->ctx_fd, .events = POLLIN}};
    if (poll(polls, sizeof polls / sizeof *polls, patience_of(command)) < 0)
        return;
    if (polls[1].revents)
        feed(command);
    if (polls[2].revents)
        read_from(command, &command->out);
    if (polls[3].revents)
        read_from(command, &command->errors);
    if (lw_ctx_done(command->ctx))
        ask_to_end(command);
    if (command->grace && lw_ctx_done(command->grace))
        kill_it(command);
    if (polls[0].revents)
        hear(command);
}

void lw__exec_run(const struct lw__exec *exec, const struct lw__exec_job *job, lw_ctx *ctx,
                  struct lw__exec_end *end) {
    struct command command = {.options = &exec->options,
                              .job = job,
                              .ctx = ctx,
                              .end = end,
                              .input = {job->payload.data, job->payload.size},
                              .in = -1,
                              .out = -1,
                              .errors = -1,
                              .control = -1,
                              .ctx_fd = lw_ctx_fd(ctx)};
    *end = (struct lw__exec_end){.how = LW__EXEC_NOT_STARTED};
    lw__buffer_init(&end->output, &lw__server_memory, (size_t)exec->options.output_max);
    if (give_order(exec, job, &command)) {
        while (!command.has_ended)
            wait_and_serve(&command);
        read_what_is_left(&command);
    }
    close_fd(&command.in);
    close_fd(&command.out);
    close_fd(&command.errors);
    close_fd(&command.control);
    lw_ctx_close(command.grace);
}

void lw__exec_end_clear(struct lw__exec_end *end) {
    lw__buffer_clear(&end->output);
}
