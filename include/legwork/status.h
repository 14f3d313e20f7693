/* The status that every call returns, and the sentence that goes with it.
 *
 * A status is < 0 for a failure, 0 for success and > 0 for success with a remark, so that
 * `if (rc < 0)` is right everywhere. What exactly was wrong, with the value seen and the value
 * wanted, is written to an lw_error that the caller owns and may leave out.
 */
#ifndef LEGWORK_STATUS_H
#define LEGWORK_STATUS_H

#include <legwork/api.h>

LW_BEGIN_DECLS

/* name, number, text. Numbers are part of the ABI: they are never reused. */
#define LW_STATUS_MAP(X)                                                                   \
    X(LW_EXISTS, 2, "its key is taken: the id is that of the task that has it")            \
    X(LW_PENDING, 1, "on its way: asked for, not ended yet")                               \
    X(LW_OK, 0, "done")                                                                    \
    X(LW_EINVAL, -1, "an argument or option is not acceptable")                            \
    X(LW_ENOMEM, -2, "out of memory")                                                      \
    X(LW_ESYSTEM, -3, "the operating system refused; the native code says why")            \
    X(LW_EFULL, -4, "full: try again later, or shed load")                                 \
    X(LW_ESTOPPING, -5, "stopping: no new tasks are accepted")                             \
    X(LW_ETIMEDOUT, -6, "the time given for it ran out")                                   \
    X(LW_ECANCELED, -7, "cancelled before it was done")                                    \
    X(LW_ESTUCK, -8, "every worker is stuck in a task that ignores its deadline")          \
    X(LW_EFORKED, -9, "this handle belongs to the parent process; open one after fork")    \
    X(LW_ENOTFOUND, -10, "there is no such thing, or it has ended already")                \
    X(LW_EDEADLOCK, -11, "a task cannot wait for the pool that runs it")                   \
    X(LW_ELEASE, -12, "this attempt is not the task's present one any more")               \
    X(LW_ECHANGED, -13, "it has changed since it was looked at")                           \
    X(LW_EUNSURE, -14, "it is not known whether it was accepted: repeat it under its key") \
    X(LW_ECORRUPT, -15, "the store is damaged")                                            \
    X(LW_EBUSY, -16, "another process owns it, or holds it for too long")

typedef enum lw_status {
#define LW_STATUS_ENUM(name, number, text) name = number,
    LW_STATUS_MAP(LW_STATUS_ENUM)
#undef LW_STATUS_ENUM
} lw_status;

/* The longest message of an lw_error, with its ending zero. Longer ones are cut. */
#define LW_ERROR_MESSAGE_MAX 256

/* What went wrong, in detail. The caller owns it, usually on the stack; every call that takes one
 * also takes NULL. It is written on failure only. */
typedef struct lw_error {
    int status;                         /* the same as the call returned */
    int native;                         /* errno of the system call that failed, or the result
                                         * code of the database; 0: neither */
    char message[LW_ERROR_MESSAGE_MAX]; /* a sentence */
} lw_error;

/* The name of a status, such as "LW_EFULL"; "LW_UNKNOWN" for a number that is none. Never NULL.
 * Threads: any. Since: 0.1 */
LW_API const char *lw_status_name(int status);

/* What a status means, in a few words. Never NULL. Threads: any. Since: 0.1 */
LW_API const char *lw_status_text(int status);

LW_END_DECLS

#endif
