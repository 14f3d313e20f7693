#include "cut_vfs.h"

#include "test.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILES_MAX = 64, ORDERS_MAX = 4, SECTOR = 512, NAME_SIZE = 512 };

/* Something that was done to a file and is not synced. */
struct change {
    enum { WRITTEN, TRUNCATED, REMOVED } type;
    bool is_lost; /* a sync of it has failed */
    size_t at, size;
    struct change *next;
    unsigned char bytes[];
};

struct image {
    unsigned char *bytes;
    size_t size;
    bool exists;
};

struct platter {
    char name[NAME_SIZE];
    struct image synced;
    struct change *first, **last;
};

static struct {
    pthread_mutex_t mu;
    sqlite3_vfs *below;
    struct platter *files[FILES_MAX];
    int file_count;
    struct cut_order orders[ORDERS_MAX];
    uint64_t seen[ORDERS_MAX]; /* calls since the order */
    int order_count;
    uint64_t calls[4], failed, opened;
    bool is_dark;
} disk = {.mu = PTHREAD_MUTEX_INITIALIZER};

struct file {
    sqlite3_file base;       /* first */
    struct platter *platter; /* NULL: a temporary file, which nobody misses */
    sqlite3_file *below;
};

static void lock_disk(void) {
    pthread_mutex_lock(&disk.mu);
}

static void unlock_disk(void) {
    pthread_mutex_unlock(&disk.mu);
}

/* ---- images ------------------------------------------------------------------------------- */

static void resize_image(struct image *image, size_t size) {
    if (size > image->size) {
        image->bytes = realloc(image->bytes, size);
        CHECK(image->bytes);
        memset(image->bytes + image->size, 0, size - image->size);
    }
    image->size = size;
}

static void apply(struct image *image, const struct change *change, size_t begin, size_t end) {
    switch (change->type) {
    case WRITTEN:
        image->exists = true;
        if (change->at + end > image->size)
            resize_image(image, change->at + end);
        if (begin < end) /* else it may have no bytes at all */
            memcpy(image->bytes + change->at + begin, change->bytes + begin, end - begin);
        break;
    case TRUNCATED: resize_image(image, change->size); break;
    case REMOVED:
        resize_image(image, 0);
        image->exists = false;
        break;
    }
}

static size_t extent(const struct change *change) {
    return change->type == WRITTEN ? change->size : 0;
}

static void forget_changes(struct platter *platter) {
    struct change *next;
    for (struct change *change = platter->first; change; change = next) {
        next = change->next;
        free(change);
    }
    platter->first = NULL;
    platter->last = &platter->first;
}

static void note(struct platter *platter, int type, size_t at, const void *bytes, size_t size) {
    size_t room = type == WRITTEN ? size : 0;
    struct change *change = malloc(sizeof *change + room);
    CHECK(change);
    *change = (struct change){.type = type, .at = at, .size = size};
    if (room > 0)
        memcpy(change->bytes, bytes, room);
    *platter->last = change;
    platter->last = &change->next;
}

/* ---- files -------------------------------------------------------------------------------- */

static void read_whole(const char *name, struct image *image) {
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    struct stat status;
    if (fd < 0)
        return;
    CHECK(fstat(fd, &status) == 0);
    resize_image(image, (size_t)status.st_size);
    CHECK(read(fd, image->bytes, image->size) == (ssize_t)image->size);
    image->exists = true;
    close(fd);
}

/* What nobody has told the disk of was there before it, and is synced. */
static struct platter *find_platter(const char *name) {
    for (int i = 0; i < disk.file_count; i++) {
        if (strcmp(disk.files[i]->name, name) == 0)
            return disk.files[i];
    }
    struct platter *platter = calloc(1, sizeof *platter);
    CHECK(platter && disk.file_count < FILES_MAX && strlen(name) < sizeof platter->name);
    snprintf(platter->name, sizeof platter->name, "%s", name);
    platter->last = &platter->first;
    read_whole(name, &platter->synced);
    disk.files[disk.file_count++] = platter;
    return platter;
}

/* ---- orders ------------------------------------------------------------------------------- */

static int index_of(unsigned call) {
    return __builtin_ctz(call);
}

static bool applies(const struct cut_order *order, unsigned call) {
    return order->calls & call && (order->fault != CUT_FULL || call == CUT_WRITE);
}

/* Counts a call. -1: it is to be done; otherwise the fault that it meets. */
static int meet_locked(unsigned call) {
    int fault = -1;
    disk.calls[index_of(call)]++;
    for (int i = 0; i < disk.order_count; i++) {
        const struct cut_order *order = &disk.orders[i];
        if (!(order->calls & call))
            continue;
        uint64_t nth = ++disk.seen[i];
        if (nth < order->nth || nth - order->nth >= order->count || !applies(order, call))
            continue;
        fault = (int)order->fault;
        if (order->fault == CUT_KILL)
            raise(SIGKILL);
        disk.is_dark |= order->fault == CUT_POWER;
    }
    if (disk.is_dark)
        fault = CUT_POWER;
    disk.failed += fault >= 0;
    return fault;
}

void cut_vfs_order(struct cut_order order) {
    lock_disk();
    CHECK(disk.order_count < ORDERS_MAX);
    disk.seen[disk.order_count] = 0;
    disk.orders[disk.order_count++] = order;
    unlock_disk();
}

void cut_vfs_end_orders(void) {
    lock_disk();
    disk.order_count = 0;
    unlock_disk();
}

uint64_t cut_vfs_calls(unsigned calls) {
    uint64_t sum = 0;
    lock_disk();
    for (int i = 0; i < 4; i++)
        sum += calls & 1u << i ? disk.calls[i] : 0;
    unlock_disk();
    return sum;
}

static uint64_t look(const uint64_t *count) {
    lock_disk();
    uint64_t seen = *count;
    unlock_disk();
    return seen;
}

uint64_t cut_vfs_failed(void) {
    return look(&disk.failed);
}

uint64_t cut_vfs_opened(void) {
    return look(&disk.opened);
}

bool cut_vfs_is_dark(void) {
    lock_disk();
    bool is_dark = disk.is_dark;
    unlock_disk();
    return is_dark;
}

/* ---- what SQLite does with a file ---------------------------------------------------------- */

static sqlite3_file *below(sqlite3_file *file) {
    return ((struct file *)file)->below;
}

static int on_close(sqlite3_file *file) {
    int code = below(file)->pMethods ? below(file)->pMethods->xClose(below(file)) : SQLITE_OK;
    free(below(file));
    return code;
}

static int on_read(sqlite3_file *file, void *bytes, int size, sqlite3_int64 at) {
    if (cut_vfs_is_dark())
        return SQLITE_IOERR_READ;
    return below(file)->pMethods->xRead(below(file), bytes, size, at);
}

/* Writes `size` bytes, and remembers that they are not synced. */
static int write_locked(struct file *file, const void *bytes, int size, sqlite3_int64 at) {
    int code = file->below->pMethods->xWrite(file->below, bytes, size, at);
    if (code == SQLITE_OK && file->platter)
        note(file->platter, WRITTEN, (size_t)at, bytes, (size_t)size);
    return code;
}

static int on_write(sqlite3_file *base, const void *bytes, int size, sqlite3_int64 at) {
    struct file *file = (struct file *)base;
    int code;
    lock_disk();
    switch (meet_locked(CUT_WRITE)) {
    case -1: code = write_locked(file, bytes, size, at); break;
    case CUT_FULL:
        write_locked(file, bytes, size / 2, at);
        code = SQLITE_FULL;
        break;
    case CUT_POWER: /* it was under way */
        if (file->platter)
            note(file->platter, WRITTEN, (size_t)at, bytes, (size_t)size);
        code = SQLITE_IOERR_WRITE;
        break;
    default: code = SQLITE_IOERR_WRITE; break;
    }
    unlock_disk();
    return code;
}

static int on_truncate(sqlite3_file *base, sqlite3_int64 size) {
    struct file *file = (struct file *)base;
    int code = SQLITE_IOERR_TRUNCATE;
    lock_disk();
    if (meet_locked(CUT_TRUNCATE) < 0) {
        code = file->below->pMethods->xTruncate(file->below, size);
        if (code == SQLITE_OK && file->platter)
            note(file->platter, TRUNCATED, 0, NULL, (size_t)size);
    }
    unlock_disk();
    return code;
}

/* The changes of a file up to its last removal are durable. */
static void sync_removal(struct platter *platter) {
    struct change **end = NULL;
    for (struct change **link = &platter->first; *link; link = &(*link)->next) {
        if ((*link)->type == REMOVED)
            end = &(*link)->next;
    }
    while (end && platter->first) {
        struct change *change = platter->first;
        bool is_last = &change->next == end;
        apply(&platter->synced, change, 0, extent(change));
        platter->first = change->next;
        free(change);
        if (is_last)
            break;
    }
    if (!platter->first)
        platter->last = &platter->first;
}

/* With the first sync of a new file SQLite syncs the folder, too, unless it is the database. */
static void sync_folder(const struct platter *platter) {
    size_t size = strlen(platter->name);
    bool is_log = size > 4 && strcmp(platter->name + size - 4, "-wal") == 0;
    bool is_journal = size > 8 && strcmp(platter->name + size - 8, "-journal") == 0;
    for (int i = 0; (is_log || is_journal) && i < disk.file_count; i++)
        sync_removal(disk.files[i]);
}

static void sync_platter(struct platter *platter) {
    if (!platter->synced.exists)
        sync_folder(platter);
    for (struct change *change = platter->first; change; change = change->next) {
        if (!change->is_lost)
            apply(&platter->synced, change, 0, extent(change));
    }
    forget_changes(platter);
    platter->synced.exists = true;
}

static void lose_changes(struct platter *platter) {
    for (struct change *change = platter->first; change; change = change->next)
        change->is_lost |= change->type == WRITTEN;
}

static int on_sync(sqlite3_file *base, int flags) {
    struct platter *platter = ((struct file *)base)->platter;
    (void)flags;
    lock_disk();
    int fault = meet_locked(CUT_SYNC);
    if (platter && fault < 0)
        sync_platter(platter);
    else if (platter && fault == CUT_ERROR)
        lose_changes(platter);
    unlock_disk();
    return fault < 0 ? SQLITE_OK : SQLITE_IOERR_FSYNC;
}

static int on_size(sqlite3_file *file, sqlite3_int64 *size) {
    if (cut_vfs_is_dark())
        return SQLITE_IOERR_FSTAT;
    return below(file)->pMethods->xFileSize(below(file), size);
}

static int on_lock(sqlite3_file *file, int level) {
    return below(file)->pMethods->xLock(below(file), level);
}

static int on_unlock(sqlite3_file *file, int level) {
    return below(file)->pMethods->xUnlock(below(file), level);
}

static int on_check_lock(sqlite3_file *file, int *is_reserved) {
    return below(file)->pMethods->xCheckReservedLock(below(file), is_reserved);
}

static int on_control(sqlite3_file *file, int op, void *arg) {
    return below(file)->pMethods->xFileControl(below(file), op, arg);
}

static int on_sector_size(sqlite3_file *file) {
    return below(file)->pMethods->xSectorSize(below(file));
}

static int on_characteristics(sqlite3_file *file) {
    return below(file)->pMethods->xDeviceCharacteristics(below(file));
}

static int on_shm_map(sqlite3_file *file, int page, int size, int extends, void volatile **memory) {
    if (cut_vfs_is_dark())
        return SQLITE_IOERR_SHMMAP;
    return below(file)->pMethods->xShmMap(below(file), page, size, extends, memory);
}

static int on_shm_lock(sqlite3_file *file, int offset, int n, int flags) {
    return below(file)->pMethods->xShmLock(below(file), offset, n, flags);
}

static void on_shm_barrier(sqlite3_file *file) {
    below(file)->pMethods->xShmBarrier(below(file));
}

static int on_shm_unmap(sqlite3_file *file, int must_delete) {
    return below(file)->pMethods->xShmUnmap(below(file), must_delete);
}

static const sqlite3_io_methods methods = {
    .iVersion = 2,
    .xClose = on_close,
    .xRead = on_read,
    .xWrite = on_write,
    .xTruncate = on_truncate,
    .xSync = on_sync,
    .xFileSize = on_size,
    .xLock = on_lock,
    .xUnlock = on_unlock,
    .xCheckReservedLock = on_check_lock,
    .xFileControl = on_control,
    .xSectorSize = on_sector_size,
    .xDeviceCharacteristics = on_characteristics,
    .xShmMap = on_shm_map,
    .xShmLock = on_shm_lock,
    .xShmBarrier = on_shm_barrier,
    .xShmUnmap = on_shm_unmap,
};

/* ---- and with names ----------------------------------------------------------------------- */

static int on_open(sqlite3_vfs *vfs, sqlite3_filename name, sqlite3_file *base, int flags,
                   int *flags_out) {
    struct file *file = (struct file *)base;
    (void)vfs;
    file->base.pMethods = NULL;
    if (cut_vfs_is_dark())
        return SQLITE_IOERR;
    file->below = calloc(1, (size_t)disk.below->szOsFile);
    CHECK(file->below);
    lock_disk();
    bool is_kept = name && !(flags & SQLITE_OPEN_DELETEONCLOSE);
    file->platter = is_kept ? find_platter(name) : NULL;
    disk.opened += (flags & SQLITE_OPEN_MAIN_DB) != 0;
    unlock_disk();
    int code = disk.below->xOpen(disk.below, name, file->below, flags, flags_out);
    if (code == SQLITE_OK)
        file->base.pMethods = &methods;
    else
        free(file->below);
    return code;
}

static int on_delete(sqlite3_vfs *vfs, const char *name, int must_sync) {
    int code = SQLITE_IOERR_DELETE;
    (void)vfs;
    lock_disk();
    if (meet_locked(CUT_DELETE) < 0) {
        struct platter *platter = find_platter(name);
        code = disk.below->xDelete(disk.below, name, 0);
        if (code == SQLITE_OK)
            note(platter, REMOVED, 0, NULL, 0);
        if (code == SQLITE_OK && must_sync) {
            apply(&platter->synced, &(const struct change){.type = REMOVED}, 0, 0);
            forget_changes(platter);
        }
    }
    unlock_disk();
    return code;
}

static int on_access(sqlite3_vfs *vfs, const char *name, int flags, int *answer) {
    (void)vfs;
    if (cut_vfs_is_dark())
        return SQLITE_IOERR_ACCESS;
    return disk.below->xAccess(disk.below, name, flags, answer);
}

void cut_vfs_install(void) {
    static sqlite3_vfs vfs;
    CHECK(sqlite3_initialize() == SQLITE_OK && !disk.below);
    disk.below = sqlite3_vfs_find(NULL);
    vfs = *disk.below;
    vfs.szOsFile = (int)sizeof(struct file);
    vfs.pNext = NULL;
    vfs.zName = "cut";
    vfs.xOpen = on_open;
    vfs.xDelete = on_delete;
    vfs.xAccess = on_access;
    CHECK(sqlite3_vfs_register(&vfs, 1) == SQLITE_OK);
}

/* ---- the power is back -------------------------------------------------------------------- */

static uint64_t next_random(uint64_t *state) {
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* Some of its sectors, from its beginning or up to its end. */
static void apply_torn(struct image *image, const struct change *change, uint64_t *random) {
    size_t sectors = (extent(change) + SECTOR - 1) / SECTOR;
    if (sectors == 0)
        return;
    size_t cut = (size_t)(next_random(random) % sectors) * SECTOR;
    if (next_random(random) % 2)
        apply(image, change, 0, cut);
    else
        apply(image, change, cut, extent(change));
}

static void leave_first(struct platter *platter, uint64_t *random) {
    uint64_t count = 0;
    for (const struct change *change = platter->first; change; change = change->next)
        count++;
    uint64_t kept = count ? next_random(random) % (count + 1) : 0;
    for (const struct change *change = platter->first; change; change = change->next, kept--) {
        if (kept == 0) {
            apply_torn(&platter->synced, change, random);
            return;
        }
        apply(&platter->synced, change, 0, extent(change));
    }
}

static void leave_random(struct platter *platter, uint64_t *random) {
    for (const struct change *change = platter->first; change; change = change->next) {
        switch (next_random(random) % 4) {
        case 0: break;
        case 1: apply_torn(&platter->synced, change, random); break;
        default: apply(&platter->synced, change, 0, extent(change)); break;
        }
    }
}

static void leave_all(struct platter *platter) {
    for (const struct change *change = platter->first; change; change = change->next)
        apply(&platter->synced, change, 0, extent(change));
}

static void write_back(const struct platter *platter) {
    const struct image *image = &platter->synced;
    unlink(platter->name);
    if (!image->exists)
        return;
    int fd = open(platter->name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    CHECK(fd >= 0);
    CHECK(image->size == 0 || write(fd, image->bytes, image->size) == (ssize_t)image->size);
    close(fd);
}

static void restore_file(struct platter *platter, enum cut_left left, uint64_t *random) {
    switch (left) {
    case CUT_LEFT_ALL: leave_all(platter); break;
    case CUT_LEFT_FIRST: leave_first(platter, random); break;
    case CUT_LEFT_RANDOM: leave_random(platter, random); break;
    case CUT_LEFT_NOTHING:
    case CUT_LEFT_COUNT: break;
    }
    forget_changes(platter);
    write_back(platter);
    free(platter->synced.bytes);
    free(platter);
}

void cut_vfs_restore(enum cut_left left, uint64_t seed) {
    uint64_t random = seed;
    for (int i = 0; i < disk.file_count; i++)
        restore_file(disk.files[i], left, &random);
    disk.file_count = 0;
    disk.order_count = 0;
    disk.is_dark = false;
    memset(disk.calls, 0, sizeof disk.calls);
    disk.failed = disk.opened = 0;
}
