#include "store/sqlite/running.h"

#include "base/error.h"
#include "base/memory.h"
#include "store/sqlite/file.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define SUFFIX "-running"
#define PLACES_MAX 65536 /* read of a file that somebody else may have written */

static int fail(lw_error *err, const char *path, const char *what) {
    return lw__error_set(err, LW_ESYSTEM, errno, "cannot %s %s" SUFFIX ": %s", what, path,
                         strerror(errno));
}

/* A store to a mapped page for which a full disk has no room would be a SIGBUS: all places are
 * written before they are mapped. (Where every write goes to another block, as on btrfs, that holds
 * until the kernel has written the page back.) */
static int make_room(int fd, size_t size, const char *path, lw_error *err) {
    static const char empty[4096];
    for (size_t at = 0; at < size;) {
        size_t rest = size - at < sizeof empty ? size - at : sizeof empty;
        ssize_t written = pwrite(fd, empty, rest, (off_t)at);
        if (written < 0 && errno != EINTR)
            return fail(err, path, "make room for");
        at += written > 0 ? (size_t)written : 0;
    }
    return ftruncate(fd, (off_t)size) == 0 ? LW_OK : fail(err, path, "resize");
}

static int map(struct lw__running *running, int fd, size_t size, const char *path, lw_error *err) {
    int rc = make_room(fd, size, path, err);
    if (rc < 0)
        return rc;
    void *places = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (places == MAP_FAILED)
        return fail(err, path, "map");
    running->places = places;
    running->size = size;
    return LW_OK;
}

/* What the owner before this one was running when it died. */
static int collect(struct lw__running *running, int fd, const char *path, lw_error *err) {
    struct stat status;
    if (fstat(fd, &status) != 0)
        return fail(err, path, "look at");
    size_t places = (size_t)status.st_size / sizeof(uint64_t);
    if (places == 0)
        return LW_OK;
    if (places > PLACES_MAX)
        places = PLACES_MAX;
    running->crashed = lw__alloc(running->allocator, places * sizeof(uint64_t));
    if (!running->crashed)
        return lw__error_set(err, LW_ENOMEM, 0, "no memory to read %s" SUFFIX, path);
    running->crashed_capacity = (uint32_t)places;
    ssize_t size = pread(fd, running->crashed, places * sizeof(uint64_t), 0);
    if (size < 0)
        return fail(err, path, "read");
    for (size_t i = 0; i < (size_t)size / sizeof(uint64_t); i++) {
        if (running->crashed[i] != 0)
            running->crashed[running->crashed_count++] = running->crashed[i];
    }
    return LW_OK;
}

int lw__running_read(struct lw__running *running, const char *path, const lw_allocator *allocator,
                     lw_error *err) {
    int fd, rc = lw__sqlite_beside_open(path, SUFFIX, &fd, err);
    *running = (struct lw__running){.allocator = allocator};
    if (rc < 0)
        return rc;
    rc = collect(running, fd, path, err);
    close(fd);
    if (rc < 0)
        lw__running_close(running);
    return rc;
}

/* A new file: an owner that lost its lock may still have the old one mapped, and would write into
 * the places of this one, or find them cut off. */
int lw__running_open(struct lw__running *running, const char *path, uint32_t places,
                     lw_error *err) {
    lw__sqlite_beside_remove(path, SUFFIX);
    int fd, rc = lw__sqlite_beside_open(path, SUFFIX, &fd, err);
    if (rc < 0)
        return rc;
    rc = map(running, fd, (places > 0 ? places : 1) * sizeof(uint64_t), path, err);
    close(fd);
    return rc;
}

bool lw__running_has(const char *path, uint64_t id) {
    uint64_t places[64];
    bool is_there = false;
    ssize_t size = 1;
    int fd = lw__sqlite_beside_look(path, SUFFIX);
    while (fd >= 0 && !is_there && (size = read(fd, places, sizeof places)) > 0) {
        for (size_t i = 0; i < (size_t)size / sizeof *places; i++)
            is_there = is_there || places[i] == id;
    }
    if (fd >= 0)
        close(fd);
    return is_there;
}

void lw__running_close(struct lw__running *running) {
    if (running->places)
        munmap((void *)running->places, running->size);
    if (running->crashed)
        lw__free(running->allocator, running->crashed,
                 running->crashed_capacity * sizeof *running->crashed);
    *running = (struct lw__running){0};
}
