/* errands.h: a scripted run of an engine on an SQLite store whose disk may fail (cut_vfs.h), and
 * the audit of the file against what the program was told.
 *
 * The script does what programs do: single tasks and batches, successors, retries, cancels, retries
 * by hand; it waits for each answer. What is refused it repeats under its key, until the power is
 * gone. Everything here asserts that it works.
 *
 *     struct errands *e = errands_open();
 *     cut_vfs_order(...);
 *     errands_run(e);
 *     cut_vfs_restore(...);
 *     errands_audit(e);
 *     errands_close(e);
 */
#ifndef LW_TESTS_SUPPORT_ERRANDS_H
#define LW_TESTS_SUPPORT_ERRANDS_H

#include <legwork/engine.h>
#include <sqlite3.h>

#define ERRANDS_DB "tasks.db"

struct errands;

/* Makes connections move the -wal file to the database every few pages, so that a short run does it
 * many times. Before anything is opened. */
void errands_checkpoint_often(void);

struct errands *errands_open(void); /* on a file that is not there yet */

/* Opens an engine, runs the script, closes the engine. True: it came to its end. */
bool errands_run(struct errands *errands);

/* Opens an engine again. All that was answered is there; nothing is half there; nothing is there
 * that was not asked for. Then runs all that is left, and looks again. */
void errands_audit(struct errands *errands);

void errands_close(struct errands *errands); /* removes the file, too */

/* The file and all that is beside it, from the disk (cut_vfs.h) as well. All must be closed. */
void remove_store(void);

/* The first number of a query; -1: there is none. */
int64_t ask_file(sqlite3 *db, const char *sql);
sqlite3 *open_file(void);

/* That SQLite finds nothing wrong with the file. */
void assert_file_is_whole(sqlite3 *db);

#endif
