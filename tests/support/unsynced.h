/* unsynced.h: for tests that make many small transactions and cut no power: what takes their time
 * is waiting for the disk. */
#ifndef LW_TESTS_SUPPORT_UNSYNCED_H
#define LW_TESTS_SUPPORT_UNSYNCED_H

/* From now on nothing that SQLite writes in this process is synced. Before the first open; again is
 * fine; without SQLite it does nothing. */
void stop_syncing(void);

#endif
