/* beanstalkd, which makes each put and each delete durable before it answers (-f0).
 *
 * Its daemon is started here, in the folder that the others are measured in, and spoken to through
 * a Unix socket, the fastest way there is. A task is a put, a reserve and a delete. */
#include "../common/durable.h"
#include "../common/program.h"

#include <errno.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    LINE_SIZE = 256,
    BATCH = 1000,        /* puts on their way at once while S5 fills it */
    START_MS_MAX = 60000 /* reading a log of a million jobs takes a while */
};

#define LOG_FOLDER "binlog"
#define SOCKET "socket"
#define PUT_HEAD "put 1000 0 3600 100\r\n"
#define PUT_SIZE (sizeof PUT_HEAD - 1 + PAYLOAD_SIZE + 2)

/* ---- the daemon --------------------------------------------------------------------------- */

/* `sync` is -f0, or -F where nothing is timed that would be synced. */
static pid_t start_daemon(const char *sync) {
    pid_t pid = fork();
    if (pid < 0)
        bench_die("cannot fork");
    if (pid > 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* whatever becomes of this program, it does not stay */
    execlp("beanstalkd", "beanstalkd", "-b", LOG_FOLDER, sync, "-l", "unix:" SOCKET, (char *)NULL);
    _exit(127);
}

static pid_t start_first_daemon(const char *sync) {
    if (mkdir(LOG_FOLDER, 0700) != 0)
        bench_die("cannot create the folder %s here: is this one empty?", LOG_FOLDER);
    return start_daemon(sync);
}

static void stop_daemon(pid_t pid) {
    int status;
    kill(pid, SIGTERM);
    if (waitpid(pid, &status, 0) != pid || !WIFSIGNALED(status) || WTERMSIG(status) != SIGTERM)
        bench_die("beanstalkd did not run to the end: status %d", status);
    unlink(SOCKET);
}

/* ---- a client ----------------------------------------------------------------------------- */

typedef struct client {
    int fd;
    FILE *replies;
} client;

/* Waits until the daemon is there. */
static client client_open(void) {
    const struct timespec pause = {.tv_nsec = 1000000};
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = SOCKET};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    for (int i = 0; connect(fd, (struct sockaddr *)&address, sizeof address) != 0; i++) {
        if (i == START_MS_MAX)
            bench_die("cannot connect to beanstalkd: %s", strerror(errno));
        nanosleep(&pause, NULL);
    }
    FILE *replies = fdopen(fd, "r");
    if (!replies)
        bench_die("out of memory");
    return (client){fd, replies};
}

static void client_close(client *c) {
    fclose(c->replies);
}

static void client_send(client *c, const void *bytes, size_t size) {
    for (size_t sent = 0; sent < size;) {
        ssize_t count = write(c->fd, (const char *)bytes + sent, size - sent);
        if (count <= 0)
            bench_die("beanstalkd does not listen: %s", strerror(errno));
        sent += (size_t)count;
    }
}

/* Reads a line, which has to begin with `wanted`; returns the number behind that, 0 if none is. */
static unsigned long long client_expect(client *c, const char *wanted) {
    char line[LINE_SIZE];
    if (!fgets(line, sizeof line, c->replies))
        bench_die("beanstalkd gave no reply");
    if (strncmp(line, wanted, strlen(wanted)) != 0)
        bench_die("beanstalkd replied %s instead of %s", line, wanted);
    return strtoull(line + strlen(wanted), NULL, 10);
}

static void write_put(char *bytes) {
    memcpy(bytes, PUT_HEAD, sizeof PUT_HEAD - 1);
    memset(bytes + sizeof PUT_HEAD - 1, 'x', PAYLOAD_SIZE);
    memcpy(bytes + PUT_SIZE - 2, "\r\n", 2);
}

static void put_job(client *c) {
    char bytes[PUT_SIZE];
    write_put(bytes);
    client_send(c, bytes, sizeof bytes);
    client_expect(c, "INSERTED ");
}

static unsigned long long reserve_job(client *c) {
    char payload[PAYLOAD_SIZE + 2];
    client_send(c, "reserve\r\n", 9);
    unsigned long long id = client_expect(c, "RESERVED ");
    if (fread(payload, sizeof payload, 1, c->replies) != 1)
        bench_die("beanstalkd ended within a job");
    return id;
}

static void delete_job(client *c, unsigned long long id) {
    char line[LINE_SIZE];
    int size = snprintf(line, sizeof line, "delete %llu\r\n", id);
    client_send(c, line, (size_t)size);
    client_expect(c, "DELETED");
}

static void expect_ready(client *c, long long wanted_count) {
    long long ready_count = -1;
    char line[LINE_SIZE];
    client_send(c, "stats\r\n", 7);
    client_expect(c, "OK ");
    while (fgets(line, sizeof line, c->replies) && strcmp(line, "\r\n") != 0)
        sscanf(line, "current-jobs-ready: %lld", &ready_count);
    if (ready_count != wanted_count)
        bench_die("%lld jobs are there instead of %lld", ready_count, wanted_count);
}

/* ---- S1, S2: whole lives, one after another on each connection ---------------------------- */

static void live_once(void *user, int number) {
    client *c = (client *)user + number;
    put_job(c);
    delete_job(c, reserve_job(c)); /* its own, or another's */
}

static void report_lives(const char *name, int connections) {
    client clients[CALLERS];
    pid_t pid = start_first_daemon("-f0");
    for (int i = 0; i < connections; i++)
        clients[i] = client_open();
    call_for(CALLING_WARM_UP_NS, connections, live_once, clients);
    int64_t begin_ns = bench_now_ns();
    int64_t count = call_for(CALLING_NS, connections, live_once, clients);
    double elapsed_ns = (double)(bench_now_ns() - begin_ns);
    expect_ready(&clients[0], 0);
    for (int i = 0; i < connections; i++)
        client_close(&clients[i]);
    stop_daemon(pid);
    bench_report(name, "task", elapsed_ns / (double)count / NS_PER_US, "µs");
}

static void run_many_callers(const char *name, long tasks) {
    (void)tasks;
    report_lives(name, CALLERS);
}

static void run_one_by_one(const char *name, long tasks) {
    (void)tasks;
    report_lives(name, 1);
}

/* ---- S4: from the put to the reply of a reserve that waits -------------------------------- */

typedef struct duo {
    client producer, worker;
    int64_t start_ns;
    int64_t is_over;
    sem_t is_deleted;
} duo;

/* Ends with the job after the last sample, which run_after_idleness puts; looks before it tells, as
 * it is only told in between. */
static void *work(void *arg) {
    duo *d = arg;
    int64_t is_over;
    do {
        unsigned long long id = reserve_job(&d->worker);
        bench_store(&d->start_ns, bench_now_ns());
        delete_job(&d->worker, id);
        is_over = bench_load(&d->is_over);
        sem_post(&d->is_deleted);
    } while (!is_over);
    return NULL;
}

static int64_t start_once(void *user) {
    duo *d = user;
    int64_t begin_ns = bench_now_ns();
    put_job(&d->producer);
    while (sem_wait(&d->is_deleted) != 0)
        continue;
    return bench_load(&d->start_ns) - begin_ns;
}

static void run_after_idleness(const char *name, long tasks) {
    pthread_t worker;
    pid_t pid = start_first_daemon("-f0");
    duo d = {.producer = client_open(), .worker = client_open()};
    sem_init(&d.is_deleted, 0, 0);
    if (pthread_create(&worker, NULL, work, &d) != 0)
        bench_die("cannot start the worker");
    report_starts(name, start_once, &d, tasks);
    bench_store(&d.is_over, 1);
    start_once(&d);
    pthread_join(worker, NULL);
    sem_destroy(&d.is_deleted);
    client_close(&d.producer);
    client_close(&d.worker);
    stop_daemon(pid);
}

/* ---- S5: a million waiting jobs ----------------------------------------------------------- */

static void fill(client *c, long count) {
    static char bytes[BATCH * PUT_SIZE];
    for (size_t i = 0; i < BATCH; i++)
        write_put(bytes + i * PUT_SIZE);
    for (long put_count = 0; put_count < count; put_count += BATCH) {
        client_send(c, bytes, sizeof bytes);
        for (int i = 0; i < BATCH; i++)
            client_expect(c, "INSERTED ");
    }
}

/* It listens before it has read its log, and replies afterwards. */
static void report_open(const char *name, long count) {
    int64_t begin_ns = bench_now_ns();
    pid_t pid = start_daemon("-F");
    client c = client_open();
    expect_ready(&c, count);
    bench_report(name, "open", (double)(bench_now_ns() - begin_ns) / NS_PER_MS, "ms");
    client_close(&c);
    stop_daemon(pid);
}

static void run_waiting(const char *name, long tasks) {
    long count = (tasks > 0 ? tasks : (long)WAITING) / BATCH * BATCH;
    pid_t pid = start_first_daemon("-F");
    client c = client_open();
    fill(&c, count);
    expect_ready(&c, count);
    double memory_bytes = (double)bench_resident_bytes_of(pid);
    client_close(&c);
    stop_daemon(pid);
    bench_report(name, "memory", memory_bytes / (double)count, "bytes");
    bench_report(name, "file", (double)folder_bytes(LOG_FOLDER) / (double)count, "bytes");
    report_open(name, count);
}

static const bench_workload workloads[] = {
    {"S1", run_many_callers},
    {"S2", run_one_by_one},
    {"S4", run_after_idleness},
    {"S5", run_waiting},
};

int main(int argc, char **argv) {
    return bench_main(argc, argv, "beanstalkd", workloads, sizeof workloads / sizeof workloads[0]);
}
