/* cut_vfs.h: a disk for SQLite that loses power, runs full and fails when a test says so.
 *
 * It stands over SQLite's own VFS, which keeps the files as the system shows them. Beside that it
 * keeps each file as it is on the platter: what was synced, and the list of what was written,
 * truncated and removed since. When the power goes, every call fails; when all is closed, the files
 * are made into what a machine would find after such a night: what was synced, and none, all, or
 * anything in between of what was not, down to torn writes.
 *
 * A sync that fails loses what it was to sync, as Linux does it: the pages count as clean from then
 * on, reads still see them, and no later sync writes them unless they are written again.
 *
 * Nothing of this really syncs. One disk per process. Any thread, but for the restore. */
#ifndef LW_TESTS_SUPPORT_CUT_VFS_H
#define LW_TESTS_SUPPORT_CUT_VFS_H

#include <stdbool.h>
#include <stdint.h>

/* Becomes the default VFS of this process. */
void cut_vfs_install(void);

/* What is counted, and can go wrong. */
#define CUT_WRITE 1u
#define CUT_TRUNCATE 2u
#define CUT_SYNC 4u
#define CUT_DELETE 8u
#define CUT_ANY 15u

enum cut_fault {
    CUT_POWER, /* this call and all after it fail, reads as well */
    CUT_ERROR, /* SQLITE_IOERR_WRITE, _TRUNCATE, _FSYNC, _DELETE */
    CUT_FULL,  /* SQLITE_FULL after half of a write; truncating and removing work */
    CUT_KILL   /* not the disk but the process: SIGKILL, instead of the call */
};

/* From the nth call (1: the next one) of those in `calls` on, `count` of them fail. Up to four
 * orders stand at a time; a power cut needs only its place. */
struct cut_order {
    enum cut_fault fault;
    unsigned calls;
    uint64_t nth, count;
};

void cut_vfs_order(struct cut_order order);
void cut_vfs_end_orders(void); /* everything works again, but for the power */

uint64_t cut_vfs_calls(unsigned calls); /* since the install or the last restore */
uint64_t cut_vfs_failed(void);          /* of these, failed by order */
uint64_t cut_vfs_opened(void);          /* main databases that were opened */
bool cut_vfs_is_dark(void);             /* the power is gone */

/* What is left of that which was not synced. */
enum cut_left {
    CUT_LEFT_NOTHING,
    CUT_LEFT_ALL,
    CUT_LEFT_FIRST,  /* of each file the first so many, the last of them torn */
    CUT_LEFT_RANDOM, /* of each file any of them, some torn */
    CUT_LEFT_COUNT
};

/* The power is back: all files as they are found then. Everything must be closed. */
void cut_vfs_restore(enum cut_left left, uint64_t seed);

#endif
