/* The service manager. */
#include "server/net/manager.h"

#include <event2/util.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define FDS_MAX 64

static long number_of(const char *name) {
    const char *text = getenv(name);
    return text ? strtol(text, NULL, 10) : 0;
}

int lw__manager_take_fds(void) {
    long count = number_of("LISTEN_FDS");
    bool is_ours = number_of("LISTEN_PID") == (long)getpid();
    unsetenv("LISTEN_FDS");
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDNAMES");
    return is_ours && count > 0 && count <= FDS_MAX ? (int)count : 0;
}

void lw__manager_tell(const char *state) {
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (!path || (path[0] != '/' && path[0] != '@') || strlen(path) >= sizeof address.sun_path)
        return;
    memcpy(address.sun_path, path, strlen(path));
    if (path[0] == '@')
        address.sun_path[0] = '\0'; /* the abstract name space */
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&address, size);
    close(fd);
}

/* With the time: the manager passes over what is older than its signal, so a coarse clock will not
 * do. */
void lw__manager_tell_reloading(void) {
    struct evutil_monotonic_timer *clock = evutil_monotonic_timer_new();
    struct timeval now = {0};
    char state[64];
    if (clock && evutil_configure_monotonic_time(clock, EV_MONOT_PRECISE) == 0)
        evutil_gettime_monotonic(clock, &now);
    evutil_monotonic_timer_free(clock);
    snprintf(state, sizeof state, "RELOADING=1\nMONOTONIC_USEC=%lld",
             (long long)now.tv_sec * 1000000 + now.tv_usec);
    lw__manager_tell(state);
}
