/* A ledger outside of the engine: what a program under load was about to do, what it was told, and
 * what its handlers did, written down so that kill -9 takes nothing of it away.
 *
 * One file for all lives of the program, one record a write: whole, as no record crosses a page.
 * The order of the records is that in which things happened: a handler notes before it returns, a
 * producer notes before it submits and after it was answered. The audit walks through it and ends
 * the test at the first record that should not be there.
 */
#ifndef LW_TESTS_SUPPORT_LEDGER_H
#define LW_TESTS_SUPPORT_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ledger_event {
    LEDGER_ABOUT = 1, /* a producer is about to submit a serial; what: flags */
    LEDGER_ACKED,     /* it was told the id */
    LEDGER_THEN,      /* a handler names a successor: id and token are the handler's own */
    LEDGER_BEGUN,     /* a handler was called */
    LEDGER_RETURNED,  /* it is about to return; what: its lw_outcome */
    LEDGER_TOLD,      /* on_end was called; what: the lw_state */
    LEDGER_SEEN,      /* the task is in the list of an engine that has just been opened */
    LEDGER_LISTED     /* that was the last of the list */
};

enum ledger_flags {
    LEDGER_FLEETING = 1,  /* does not stay after its end */
    LEDGER_AFTER_RUN = 2, /* runs whatever became of what it waits for */
};

/* A serial names what somebody wants done, an id the task that it became. */
struct ledger_record {
    uint32_t event, life;
    uint64_t serial, id, token, at_ns;
    uint64_t not_before_ns; /* ABOUT */
    uint64_t other;         /* ABOUT: the id that it waits for. SEEN: the token in its result */
    uint32_t what;
    uint32_t batch; /* ABOUT: the serial of the first of its batch; 0: none */
};

/* What becomes of a serial: follows from the serial alone, so that the audit knows it, too. */
struct ledger_plan {
    unsigned retries; /* attempts that retry before one does not */
    int end;          /* the lw_outcome of the last one */
    unsigned successors;
};

struct ledger_plan ledger_plan(uint64_t seed, uint64_t serial);
uint64_t ledger_hash(uint64_t seed, uint64_t value);
uint64_t ledger_now_ns(void); /* the same in all lives */

int ledger_open(const char *path);
void ledger_append(int ledger, struct ledger_record record); /* any thread; sets the time */

/* All that is in it, to be unmapped by the end of the process. */
const struct ledger_record *ledger_map(int ledger, size_t *count);

struct ledger_figures {
    size_t acked, executed, repeated;
    size_t redone; /* repeated although the handler had returned: the kill came before its commit */
};

/* Checks everything. The life `last` is one in which nothing may have run. */
struct ledger_figures ledger_audit(int ledger, uint64_t seed, uint32_t last);

#endif
