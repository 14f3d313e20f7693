/* The file of a zone: found, looked at, read. What a loader gives is treated alike. */
#include "calendar/zone.h"

#include "base/error.h"
#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

struct path {
    char text[LW__ZONE_FOLDER_MAX + 1 + LW_ZONE_NAME_MAX + 1];
};

static struct path path_of(const lw_zones *zones, const char *name) {
    struct path path;
    snprintf(path.text, sizeof path.text, "%s/%s", zones->folder, name);
    return path;
}

/* ---- stamps -------------------------------------------------------------------------------- */

struct lw__zone_stamp lw__zone_stamp(const lw_zones *zones, const char *name) {
    struct stat info;
    if (stat(path_of(zones, name).text, &info) < 0)
        return (struct lw__zone_stamp){.error = errno};
    return (struct lw__zone_stamp){.device = info.st_dev,
                                   .number = info.st_ino,
                                   .size = info.st_size,
                                   .changed = info.st_mtim};
}

bool lw__zone_stamp_is(const struct lw__zone_stamp *a, const struct lw__zone_stamp *b) {
    return a->error == b->error && a->device == b->device && a->number == b->number
           && a->size == b->size && a->changed.tv_sec == b->changed.tv_sec
           && a->changed.tv_nsec == b->changed.tv_nsec;
}

/* ---- sentences ----------------------------------------------------------------------------- */

static int refuse_unknown(const lw_zones *zones, const char *name, lw_error *err) {
    char nearest[LW_ZONE_NAME_MAX + 1];
    if (zones->load)
        return lw__error_set(err, LW_ENOTFOUND, 0, "zone \"%s\" is not there", name);
    if (access(zones->folder, F_OK) < 0)
        return lw__error_set(err, LW_ENOTFOUND, errno,
                             "zone \"%s\" cannot be found: there is no folder %s; install tzdata, "
                             "or use UTC or an offset such as +02:00",
                             name, zones->folder);
    if (err && lw__zone_nearest(zones, name, nearest))
        return lw__error_set(err, LW_ENOTFOUND, 0, "zone \"%s\" is not in %s: did you mean \"%s\"?",
                             name, zones->folder, nearest);
    return lw__error_set(err, LW_ENOTFOUND, 0,
                         "zone \"%s\" is not in %s: IANA names are wanted, such as Europe/Berlin",
                         name, zones->folder);
}

static int refuse_size(const char *name, lw_error *err) {
    return lw__error_set(err, LW_EFULL, 0, "the file of zone \"%s\" has more than %d bytes", name,
                         LW_ZONE_FILE_MAX);
}

static int refuse_system(const char *name, int native, lw_error *err) {
    return lw__error_set(err, LW_ESYSTEM, native,
                         "the file of zone \"%s\" cannot be read (errno %d): check who may read it",
                         name, native);
}

/* ---- bytes --------------------------------------------------------------------------------- */

/* Reads a regular file of up to `room` bytes. */
static int read_open_file(const lw_zones *zones, int fd, const char *name, void *into, size_t room,
                          size_t *size, lw_error *err) {
    struct stat info;
    if (fstat(fd, &info) < 0)
        return refuse_system(name, errno, err);
    if (!S_ISREG(info.st_mode))
        return refuse_unknown(zones, name, err);
    if (info.st_size > (off_t)room)
        return refuse_size(name, err);
    *size = 0;
    while (*size < room) {
        ssize_t got = read(fd, (char *)into + *size, room - *size);
        if (got == 0)
            break;
        if (got > 0)
            *size += (size_t)got;
        else if (errno != EINTR)
            return refuse_system(name, errno, err);
    }
    return LW_OK;
}

static int read_file(const lw_zones *zones, const char *name, void *into, size_t room, size_t *size,
                     lw_error *err) {
    /* without blocking: a FIFO in its place must not hold anybody up */
    int fd = open(path_of(zones, name).text, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        bool is_unknown = errno == ENOENT || errno == ENOTDIR;
        return is_unknown ? refuse_unknown(zones, name, err) : refuse_system(name, errno, err);
    }
    int rc = read_open_file(zones, fd, name, into, room, size, err);
    close(fd);
    return rc;
}

static int call_loader(const lw_zones *zones, const char *name, void *into, size_t room,
                       size_t *size, lw_error *err) {
    int rc = zones->load(zones->user, name, into, room, size);
    if (rc == LW_ENOTFOUND)
        return refuse_unknown(zones, name, err);
    if (rc == LW_EFULL || (rc >= 0 && *size > room))
        return refuse_size(name, err);
    if (rc < 0)
        return lw__error_set(err, rc, 0, "the loader of zones has no bytes for \"%s\": %s", name,
                             lw_status_text(rc));
    return LW_OK;
}

int lw__zone_load(const lw_zones *zones, const char *name, struct lw__tz **tz, lw_error *err) {
    lw_error why = {0};
    size_t size = 0;
    char *bytes = lw__alloc(zones->allocator, LW_ZONE_FILE_MAX);
    if (!bytes)
        return lw__error_set(err, LW_ENOMEM, 0, "no memory for the file of zone \"%s\"", name);
    int rc = zones->load ? call_loader(zones, name, bytes, LW_ZONE_FILE_MAX, &size, err)
                         : read_file(zones, name, bytes, LW_ZONE_FILE_MAX, &size, err);
    if (rc == LW_OK) {
        rc = lw__tzif_read(tz, zones->allocator, bytes, size, &why);
        if (rc == LW_ECORRUPT)
            lw__error_set(err, rc, 0, "the file of zone \"%s\" is damaged: %s", name, why.message);
        else if (rc < 0)
            lw__error_set(err, rc, 0, "the file of zone \"%s\" cannot be used: %s", name,
                          why.message);
    }
    lw__free(zones->allocator, bytes, LW_ZONE_FILE_MAX);
    return rc;
}
