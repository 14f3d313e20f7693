/* What goes between the server and its helper. */
#include "test.h"

#include "exec/order.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct lw__exec_order order, got;
static int ends[2];

static void open_sockets(void) {
    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
}

static struct lw__exec_job job = {.command = 7,
                                  .id = 9007199254740991,
                                  .attempt = 3,
                                  .kind = "mail",
                                  .queue = "default",
                                  .key = "a=b c",
                                  .traceparent = {"00-abc", 6}};

TEST(an_order_has_its_variables) {
    static const char *const wanted[] = {"LEGWORK_TASK_ID=9007199254740991",
                                         "LEGWORK_ATTEMPT=3",
                                         "LEGWORK_KIND=mail",
                                         "LEGWORK_QUEUE=default",
                                         "LEGWORK_KEY=a=b c",
                                         "LEGWORK_DEADLINE=1700000000",
                                         "TRACEPARENT=00-abc"};
    const char *next = NULL;
    assert_status(lw__exec_order_write(&order, &job, 1700000000999), LW_OK);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        next = lw__exec_order_next(&order, next);
        assert_non_null(next);
        assert_string_equal(next, wanted[i]);
    }
    assert_null(lw__exec_order_next(&order, next));
}

TEST(what_a_task_does_not_have_is_not_there) {
    struct lw__exec_job plain = {.id = 1, .attempt = 1, .kind = "k", .queue = "q"};
    assert_status(lw__exec_order_write(&order, &plain, 0), LW_OK);
    for (const char *next = NULL; (next = lw__exec_order_next(&order, next));)
        CHECK(strncmp(next, "LEGWORK_KEY", 11) && strncmp(next, "LEGWORK_DEADLINE", 16)
              && strncmp(next, "TRACEPARENT", 11));
}

TEST(the_longest_task_fits_and_more_is_refused) {
    char name[LW_NAME_MAX + 1], key[LW_KEY_MAX + 1], trace[LW__EXEC_TRACE_SIZE], huge[2000];
    memset(name, 'n', sizeof name - 1);
    memset(key, 'k', sizeof key - 1);
    memset(trace, 't', sizeof trace);
    memset(huge, 'h', sizeof huge - 1);
    name[sizeof name - 1] = key[sizeof key - 1] = huge[sizeof huge - 1] = '\0';
    struct lw__exec_job longest = {.id = UINT64_MAX,
                                   .attempt = UINT32_MAX,
                                   .kind = name,
                                   .queue = name,
                                   .key = key,
                                   .traceparent = {trace, sizeof trace}};
    assert_status(lw__exec_order_write(&order, &longest, INT64_MAX), LW_OK);
    longest.key = huge;
    assert_status(lw__exec_order_write(&order, &longest, 0), LW_EFULL);
}

TEST(an_order_arrives_with_its_descriptors_closed_on_exec) {
    int fds[LW__EXEC_ORDER_FDS], theirs[LW__EXEC_ORDER_FDS];
    open_sockets();
    for (int i = 0; i < LW__EXEC_ORDER_FDS; i++)
        CHECK((theirs[i] = open("/dev/null", O_RDWR)) >= 0);
    lw__exec_order_write(&order, &job, 0);
    assert_status(lw__exec_order_receive(ends[1], &got, fds), LW_PENDING);
    assert_status(lw__exec_order_send(ends[0], &order, theirs), LW_OK);
    assert_status(lw__exec_order_receive(ends[1], &got, fds), LW_OK);
    assert_int_equal(got.command, 7);
    assert_int_equal(got.size, order.size);
    assert_memory_equal(got.variables, order.variables, order.size);
    for (int i = 0; i < LW__EXEC_ORDER_FDS; i++)
        assert_int_equal(fcntl(fds[i], F_GETFD), FD_CLOEXEC);
    close(ends[0]);
    assert_status(lw__exec_order_receive(ends[1], &got, fds), LW_ESYSTEM);
}

TEST(what_is_no_order_is_refused_and_leaves_no_descriptor) {
    int fds[LW__EXEC_ORDER_FDS];
    int before = dup(0);
    CHECK(before >= 0 && close(before) == 0); /* the lowest that is free */
    open_sockets();
    static const struct {
        uint32_t size;
        size_t sent;
        char last;
    } wrong[] = {{3, 8, 0}, {3, 7, 0}, {0, 4, 0}, {2, 11, 0}, {4, 12, 'x'}, {5, 12, 0}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct lw__exec_order bad = {.size = wrong[i].size};
        bad.variables[3] = wrong[i].last;
        CHECK(send(ends[0], &bad, wrong[i].sent, 0) == (ssize_t)wrong[i].sent);
        assert_status(lw__exec_order_receive(ends[1], &got, fds), LW_EINVAL);
    }
    int three[3] = {0, 1, 2}; /* one is missing */
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof three)];
    } rights = {.bytes = {0}};
    lw__exec_order_write(&order, &job, 0);
    struct iovec part = {&order, offsetof(struct lw__exec_order, variables) + order.size};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &rights,
                             .msg_controllen = sizeof rights.bytes};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    *head = (struct cmsghdr){
        .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof three)};
    memcpy(CMSG_DATA(head), three, sizeof three);
    CHECK(sendmsg(ends[0], &message, 0) > 0);
    assert_status(lw__exec_order_receive(ends[1], &got, fds), LW_EINVAL);
    close(ends[0]);
    close(ends[1]);
    assert_int_equal(dup(0), before);
}

TEST(a_report_arrives_or_will_never) {
    struct lw__exec_report report = {0};
    open_sockets();
    assert_status(lw__exec_report_receive(ends[0], &report), LW_PENDING);
    assert_status(lw__exec_report_send(ends[1], (struct lw__exec_report){LW__EXEC_EXITED, 9}),
                  LW_OK);
    close(ends[1]);
    assert_status(lw__exec_report_receive(ends[0], &report), LW_OK);
    assert_int_equal(report.how, LW__EXEC_EXITED);
    assert_int_equal(report.code, 9);
    assert_status(lw__exec_report_receive(ends[0], &report), LW_ESYSTEM);
    assert_status(lw__exec_report_send(ends[0], report), LW_ESYSTEM);
}
