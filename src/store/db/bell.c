#include "store/db/bell.h"

#include "base/clock.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

bool lw__bell_open(struct lw__bell *bell) {
    bell->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return bell->fd >= 0;
}

void lw__bell_close(struct lw__bell *bell) {
    if (bell->fd >= 0)
        close(bell->fd);
    bell->fd = -1;
}

void lw__bell_ring(struct lw__bell *bell) {
    uint64_t one = 1;
    (void)!write(bell->fd, &one, sizeof one); /* full: it rings already */
}

static void hush(struct lw__bell *bell) {
    uint64_t count;
    (void)!read(bell->fd, &count, sizeof count);
}

static const struct timespec *left_until(uint64_t deadline, struct timespec *left) {
    if (deadline == LW__NEVER)
        return NULL;
    uint64_t now = lw__now(lw__clock_system());
    uint64_t ns = deadline > now ? deadline - now : 0;
    left->tv_sec = (time_t)(ns / LW__NS_PER_S);
    left->tv_nsec = (long)(ns % LW__NS_PER_S);
    return left;
}

enum lw__bell_call lw__bell_wait(struct lw__bell *bell, int watched, uint64_t deadline) {
    struct timespec left;
    struct pollfd fds[2] = {{.fd = bell->fd, .events = POLLIN}, {.fd = watched, .events = POLLIN}};
    int count = ppoll(fds, 2, left_until(deadline, &left), NULL);
    if (count <= 0)
        return count < 0 ? LW__BELL_RUNG : LW__BELL_NOBODY; /* interrupted: who knows */
    if (fds[0].revents)
        hush(bell);
    return fds[1].revents ? LW__BELL_WATCHED : LW__BELL_RUNG;
}
