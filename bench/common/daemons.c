#include "daemons.h"

#include "../peers/beanstalk_wire.h"
#include "measure.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define START_MS_MAX 30000
#define PAYLOAD_SIZE 100

static bool is_beanstalkd(void) {
    const char *name = getenv("BENCH_SERVER");
    return name && strcmp(name, "beanstalkd") == 0;
}

/* ---- sockets ------------------------------------------------------------------------------ */

static struct sockaddr_in address_of(int port) {
    return (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)port),
                                .sin_addr = {htonl(INADDR_LOOPBACK)}};
}

/* One that nobody has at this moment. */
static int find_port(void) {
    struct sockaddr_in address = address_of(0);
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, size) < 0
        || getsockname(fd, (struct sockaddr *)&address, &size) < 0)
        bench_die("there is no port: %s", strerror(errno));
    close(fd);
    return ntohs(address.sin_port);
}

static int try_connect(int port) {
    struct sockaddr_in address = address_of(port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        bench_die("there is no socket: %s", strerror(errno));
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    close(fd);
    return -1;
}

int bench_daemon_connect(const bench_daemon *daemon) {
    int fd = try_connect(daemon->port);
    if (fd < 0)
        bench_die("the server does not take a connection: %s", strerror(errno));
    return fd;
}

static int connect_for_load(void *daemon, lw_error *err) {
    (void)err;
    return bench_daemon_connect(daemon);
}

struct lw__load_options bench_daemon_load(const bench_daemon *daemon) {
    return (struct lw__load_options){.protocol = daemon->protocol,
                                     .connect = connect_for_load,
                                     .user = (void *)daemon,
                                     .url = daemon->host,
                                     .host = daemon->host,
                                     .queue = "bench",
                                     .connections = 1,
                                     .in_flight = 1,
                                     .batch = 1,
                                     .payload_size = PAYLOAD_SIZE};
}

/* ---- processes ---------------------------------------------------------------------------- */

static void become_beanstalkd(int port, bool is_durable, const char *folder) {
    char text[16];
    snprintf(text, sizeof text, "%d", port);
    if (is_durable)
        execlp("beanstalkd", "beanstalkd", "-l", "127.0.0.1", "-p", text, "-b", folder, "-f0",
               (char *)NULL);
    else
        execlp("beanstalkd", "beanstalkd", "-l", "127.0.0.1", "-p", text, (char *)NULL);
}

static void become_legwork(int out, bool is_durable, const char *folder) {
    char store[256];
    const char *command = getenv("BENCH_LEGWORK");
    snprintf(store, sizeof store, "sqlite:%s/tasks.db", folder);
    dup2(out, STDOUT_FILENO);
    execlp(command ? command : "legwork", "legwork", "serve", "--listen", "127.0.0.1:0", "--store",
           is_durable ? store : "memory:", "--log-level", "error", (char *)NULL);
}

static int read_port(int in) {
    char line[512];
    int port = 0;
    FILE *file = fdopen(in, "r");
    while (file && port == 0 && fgets(line, sizeof line, file))
        sscanf(line, "legwork serves http://127.0.0.1:%d", &port);
    if (port == 0)
        bench_die("legwork serve did not start");
    fclose(file);
    return port;
}

static void await_listening(int port) {
    const struct timespec pause = {.tv_nsec = 1000000};
    int fd = -1;
    for (int i = 0; fd < 0 && i < START_MS_MAX; i++) {
        fd = try_connect(port);
        nanosleep(&pause, NULL);
    }
    if (fd < 0)
        bench_die("the server does not listen");
    close(fd);
}

bench_daemon bench_daemon_start(bool is_durable, const char *folder) {
    int ends[2];
    bench_daemon daemon = {.port = is_beanstalkd() ? find_port() : 0,
                           .protocol = is_beanstalkd() ? &beanstalk_wire : &lw__load_http};
    if (mkdir(folder, 0700) < 0 || pipe2(ends, O_CLOEXEC) < 0)
        bench_die("cannot make the folder %s here: %s", folder, strerror(errno));
    daemon.pid = fork();
    if (daemon.pid < 0)
        bench_die("cannot fork");
    if (daemon.pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (is_beanstalkd())
            become_beanstalkd(daemon.port, is_durable, folder);
        else
            become_legwork(ends[1], is_durable, folder);
        _exit(127);
    }
    close(ends[1]);
    if (is_beanstalkd())
        close(ends[0]);
    else
        daemon.port = read_port(ends[0]);
    await_listening(daemon.port);
    snprintf(daemon.host, sizeof daemon.host, "127.0.0.1:%d", daemon.port);
    return daemon;
}

/* Killed: what it has not done is not missed. But it must have lived until now. */
void bench_daemon_stop(bench_daemon *daemon) {
    int status = 0;
    kill(daemon->pid, SIGKILL);
    if (waitpid(daemon->pid, &status, 0) != daemon->pid || !WIFSIGNALED(status)
        || WTERMSIG(status) != SIGKILL)
        bench_die("the server did not run to the end: status %d", status);
}

/* ---- what it costs ------------------------------------------------------------------------ */

static int64_t read_number(const char *path, const char *format) {
    char line[512];
    long long number = 0;
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, format, &number) == 1)
            break;
    if (file)
        fclose(file); /* else the thread has just ended */
    return number;
}

/* The sum of what stands in a file of each thread. */
static int64_t sum_threads(const bench_daemon *daemon, const char *name, const char *format) {
    char path[512];
    int64_t sum = 0;
    snprintf(path, sizeof path, "/proc/%d/task", (int)daemon->pid);
    DIR *folder = opendir(path);
    if (!folder)
        bench_die("cannot read %s", path);
    for (struct dirent *entry; (entry = readdir(folder));) {
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "/proc/%d/task/%s/%s", (int)daemon->pid, entry->d_name, name);
        sum += read_number(path, format);
    }
    closedir(folder);
    return sum;
}

int64_t bench_daemon_cpu_ns(const bench_daemon *daemon) {
    return sum_threads(daemon, "schedstat", "%lld");
}

int64_t bench_daemon_switches(const bench_daemon *daemon) {
    return sum_threads(daemon, "status", "voluntary_ctxt_switches: %lld")
           + sum_threads(daemon, "status", "nonvoluntary_ctxt_switches: %lld");
}
