/* What goes between the server and the helper: packets of sockets that keep their borders. Both
 * ends are one program, so that nothing is converted; what does not have the form of an order is
 * refused all the same. */
#ifndef LW_EXEC_ORDER_H
#define LW_EXEC_ORDER_H

#include "exec/exec.h"

#include <stdint.h>

/* The variables that a command is told of its task by; see docs/guides/commands.md. */
extern const char *const lw__exec_variables[]; /* NULL ends them */

#define LW__EXEC_ORDER_SIZE \
    1024 /* bytes of all variables: names are short, and the longest key is 256 */

/* Descriptors that come with an order. */
enum lw__exec_order_fd {
    LW__EXEC_ORDER_IN,
    LW__EXEC_ORDER_OUT,
    LW__EXEC_ORDER_ERRORS,
    LW__EXEC_ORDER_CONTROL,
    LW__EXEC_ORDER_FDS
};

/* "Run this command." */
struct lw__exec_order {
    uint32_t command;
    uint32_t size;
    char variables[LW__EXEC_ORDER_SIZE]; /* NAME=value, each ended by a zero */
};

/* The order for a job; deadline_ms is wall time, 0: none. Returns LW_OK, or LW_EFULL. */
int lw__exec_order_write(struct lw__exec_order *order, const struct lw__exec_job *job,
                         int64_t deadline_ms);

/* The next variable after `previous` (NULL: the first); NULL: there is none. */
const char *lw__exec_order_next(const struct lw__exec_order *order, const char *previous);

/* Returns LW_OK, or LW_ESYSTEM with errno. */
int lw__exec_order_send(int socket, const struct lw__exec_order *order,
                        const int fds[LW__EXEC_ORDER_FDS]);

/* Returns LW_OK: the descriptors are the caller's, and closed on exec. LW_EINVAL: it was no order,
 * and is forgotten. LW_PENDING: there is none now. LW_ESYSTEM: there will be none. */
int lw__exec_order_receive(int socket, struct lw__exec_order *order, int fds[LW__EXEC_ORDER_FDS]);

/* "It has ended so." */
struct lw__exec_report {
    int32_t how; /* an enum lw__exec_how */
    int32_t code;
};

int lw__exec_report_send(int control, struct lw__exec_report report);
/* Returns LW_OK; LW_PENDING: there is none yet; LW_ESYSTEM: there will be none. */
int lw__exec_report_receive(int control, struct lw__exec_report *report);

/* On the control, the other way: which signal the group shall get. */
#define LW__EXEC_ASK_TERM 'T'
#define LW__EXEC_ASK_KILL 'K'

/* The helper: returns never. `options` with its commands is as it was at the fork. */
_Noreturn void lw__exec_helper_run(int orders, const struct lw__exec_options *options);

#endif
