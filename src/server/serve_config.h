/* The settings of `legwork serve`. A setting is a field here and a row in serve_config.c. */
#ifndef LW_SERVER_SERVE_CONFIG_H
#define LW_SERVER_SERVE_CONFIG_H

#include "server/config.h"

#include <stdint.h>

struct lw__serve_config {
    const char *config; /* the file */

    /* [server] */
    const char *listen, *socket; /* empty: not */
    const char *store;           /* empty: a file under the user's state folder */
    int log_level;               /* 0: debug; an lw_log_level is one more */
    int64_t stop_timeout_ms;

    /* [work] */
    struct lw__config_list exec; /* KIND=COMMAND */
    int64_t exec_workers;        /* of each kind */
    int64_t exec_output_max;
    int64_t exec_timeout_ms; /* 0: none */
    int64_t exec_grace_ms;
    int64_t exec_attempts; /* 0: for ever */
    int64_t lease_ms;

    /* [limits] */
    int64_t connections_max;
    int64_t line_max, header_max, head_max, headers_max, body_max;
    int64_t json_depth_max, json_keys_max;
    int64_t batch_max, claim_max, list_max;
    int64_t tasks_max, payloads_max, queues_max, kinds_max, buffers_max;

    /* [timeouts] */
    int64_t head_timeout_ms, body_timeout_ms, write_timeout_ms, idle_timeout_ms;
    int64_t wait_max_ms;
};

extern const struct lw__config_table lw__serve_table;

/* Variables that are none of its settings, and are known all the same; NULL ends them. */
extern const char *const lw__serve_others[];

#endif
