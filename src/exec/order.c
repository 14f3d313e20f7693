/* Orders and reports, as packets. */
#include "exec/order.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

const char *const lw__exec_variables[] = {
    "LEGWORK_TASK_ID", "LEGWORK_ATTEMPT",  "LEGWORK_KIND", "LEGWORK_QUEUE",
    "LEGWORK_KEY",     "LEGWORK_DEADLINE", "TRACEPARENT",  NULL};

enum { TASK_ID, ATTEMPT, KIND, QUEUE, KEY, DEADLINE, TRACEPARENT };

/* ---- variables ----------------------------------------------------------------------------- */

static void put(struct lw__buffer *out, int variable, struct lw__slice value) {
    lw__buffer_put_text(out, lw__exec_variables[variable]);
    lw__buffer_put_byte(out, '=');
    lw__buffer_put(out, value);
    lw__buffer_put_byte(out, '\0');
}

static void put_number(struct lw__buffer *out, int variable, uint64_t number) {
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)number);
    put(out, variable, lw__slice_of(text));
}

int lw__exec_order_write(struct lw__exec_order *order, const struct lw__exec_job *job,
                         int64_t deadline_ms) {
    struct lw__buffer out;
    lw__buffer_init_fixed(&out, order->variables, sizeof order->variables);
    put_number(&out, TASK_ID, job->id);
    put_number(&out, ATTEMPT, job->attempt);
    put(&out, KIND, lw__slice_of(job->kind));
    put(&out, QUEUE, lw__slice_of(job->queue));
    if (job->key)
        put(&out, KEY, lw__slice_of(job->key));
    if (deadline_ms > 0)
        put_number(&out, DEADLINE, (uint64_t)deadline_ms / 1000);
    if (job->traceparent.size > 0)
        put(&out, TRACEPARENT, job->traceparent);
    order->command = (uint32_t)job->command;
    order->size = (uint32_t)out.size;
    return out.status;
}

const char *lw__exec_order_next(const struct lw__exec_order *order, const char *previous) {
    const char *next = previous ? previous + strlen(previous) + 1 : order->variables;
    return next < order->variables + order->size ? next : NULL;
}

/* ---- orders -------------------------------------------------------------------------------- */

union rights {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(LW__EXEC_ORDER_FDS * sizeof(int))];
};

int lw__exec_order_send(int socket, const struct lw__exec_order *order,
                        const int fds[LW__EXEC_ORDER_FDS]) {
    union rights rights = {.bytes = {0}};
    struct iovec part = {(void *)(uintptr_t)order,
                         offsetof(struct lw__exec_order, variables) + order->size};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &rights,
                             .msg_controllen = sizeof rights.bytes};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(LW__EXEC_ORDER_FDS * sizeof(int));
    memcpy(CMSG_DATA(head), fds, LW__EXEC_ORDER_FDS * sizeof(int));
    ssize_t sent;
    while ((sent = sendmsg(socket, &message, MSG_NOSIGNAL)) < 0 && errno == EINTR) {
    }
    return sent < 0 ? LW_ESYSTEM : LW_OK;
}

/* The descriptors that came, up to the number of an order's; how many. */
static size_t take_fds(struct msghdr *message, int *fds) {
    struct cmsghdr *head = CMSG_FIRSTHDR(message);
    if (!head || head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS)
        return 0;
    size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    memcpy(fds, CMSG_DATA(head), count * sizeof(int));
    return count;
}

static bool is_whole(const struct lw__exec_order *order, size_t size) {
    size_t head = offsetof(struct lw__exec_order, variables);
    return size >= head && order->size == size - head
           && (order->size == 0 || order->variables[order->size - 1] == '\0');
}

int lw__exec_order_receive(int socket, struct lw__exec_order *order, int fds[LW__EXEC_ORDER_FDS]) {
    union rights rights;
    struct iovec part = {order, sizeof *order};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &rights,
                             .msg_controllen = sizeof rights.bytes};
    ssize_t size = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (size < 0 && (errno == EAGAIN || errno == EINTR))
        return LW_PENDING;
    if (size <= 0)
        return LW_ESYSTEM;
    size_t count = take_fds(&message, fds);
    bool is_cut = message.msg_flags & (MSG_TRUNC | MSG_CTRUNC);
    if (count == LW__EXEC_ORDER_FDS && !is_cut && is_whole(order, (size_t)size))
        return LW_OK;
    for (size_t i = 0; i < count; i++)
        close(fds[i]);
    return LW_EINVAL;
}

/* ---- reports ------------------------------------------------------------------------------- */

int lw__exec_report_send(int control, struct lw__exec_report report) {
    ssize_t sent = send(control, &report, sizeof report, MSG_NOSIGNAL | MSG_DONTWAIT);
    return sent < 0 ? LW_ESYSTEM : LW_OK;
}

int lw__exec_report_receive(int control, struct lw__exec_report *report) {
    ssize_t size = recv(control, report, sizeof *report, MSG_DONTWAIT);
    if (size < 0 && (errno == EAGAIN || errno == EINTR))
        return LW_PENDING;
    return size == sizeof *report ? LW_OK : LW_ESYSTEM;
}
