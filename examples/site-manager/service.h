/* The service: what can be asked of sites, whoever asks. It knows nothing of HTTP.
 *
 * Statuses are the library's: LW_OK; LW_EXISTS: the domain is taken; LW_ENOTFOUND; LW_EINVAL: the
 * caller's mistake; any other negative one: not now, try again; all with a sentence. Threads: any.
 */
#ifndef SITE_MANAGER_SERVICE_H
#define SITE_MANAGER_SERVICE_H

#include "text.h"

#include <legwork/flow.h>

#define SERVICE_TITLE_MAX 200 /* bytes */
#define SERVICE_PAGE_MAX 100  /* sites of a page of the list */

struct service_options {
    const char *folder;     /* where everything is kept; made if it is not there */
    int workers;            /* steps that run at once. Default: 4 */
    int64_t task_limit;     /* steps that may wait. Default: 10,000 */
    int64_t first_retry_ms; /* Default: 1,000 */

    /* trouble.h; for the demo and the tests */
    int slow_ms, fail_percent, die_permille;
    uint64_t seed;
    bool is_unfenced; /* a delete does not wait for what still creates */
};

struct service;

int service_open(struct service **service, const struct service_options *options, lw_error *err);
void service_close(struct service *service);

/* Begins to create a site; the rest happens by itself. */
int service_create(struct service *service, const char *domain, const char *title, lw_error *err);

/* Begins to delete it, at any time, while it is being created too. */
int service_delete(struct service *service, const char *domain, lw_error *err);

/* How it is, as JSON. The list is of those with a number above `after`. */
int service_show(struct service *service, const char *domain, struct text *json, lw_error *err);
int service_list(struct service *service, uint64_t after, struct text *json, lw_error *err);

/* The picture of the flow, in the language of Graphviz. */
int service_draw(struct text *dot, lw_error *err);

#endif
