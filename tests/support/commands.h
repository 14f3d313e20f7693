/* Commands that tests let others run, and their processes.
 *
 * A command says what it is by writing to a named pipe, and waits by reading from one: so a test
 * waits for the thing itself. */
#ifndef LW_TESTS_SUPPORT_COMMANDS_H
#define LW_TESTS_SUPPORT_COMMANDS_H

#include <stddef.h>
#include <sys/types.h>

/* Makes a named pipe in the present folder. */
void make_fifo(const char *path);

/* Reads as many lines with a number as are wanted, of one or several writers: `echo $$ > path`. */
void read_pids(const char *path, pid_t *pids, size_t count);

/* Opens a named pipe for writing, which lets somebody who reads from it go on, and closes it. */
void release(const char *path);

/* A process that is not ours: a descriptor by which its end can be waited for; -1 if it has ended
 * already, which one that is to be killed after a while may have. */
int watch_process(pid_t pid);

/* Waits for its end, and the test fails if that does not come. Closes the descriptor. */
void await_death(int watch);

#endif
