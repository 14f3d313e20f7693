/* errands_internal.h: what the script (errands.c) and its audit (errands_audit.c) share. */
#ifndef LW_TESTS_SUPPORT_ERRANDS_INTERNAL_H
#define LW_TESTS_SUPPORT_ERRANDS_INTERNAL_H

#include "errands.h"

#include <stdatomic.h>

enum { LAPS = 3, BATCH = 3, ERRANDS_MAX = 60, KEY_SIZE = 32 };

struct errand {
    const char *kind;
    char key[KEY_SIZE];
    lw_id id;       /* 0: it was never accepted */
    bool is_single; /* not of a batch */
    /* what the program asked for, and was told */
    bool is_cancelled, is_retried, is_forgetting, is_forgotten;
    _Atomic uint32_t told; /* lw_state, by on_end */
    _Atomic long page;     /* where its handler was when that was last saved */
};

struct errands {
    struct errand all[ERRANDS_MAX];
    _Atomic int count;
    int plain_asked, plain_accepted; /* tasks without a key */
    lw_engine *engine;
    uint64_t id_floor, token_floor; /* of the life before */
    uint64_t last_id;
    _Atomic uint64_t last_token;
};

/* Compares the file with what was answered. */
void errands_audit_file(const struct errands *e);

#endif
