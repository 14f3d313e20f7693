/* The steps of a site's flow: what is done to create and to delete one. Each may be killed
 * anywhere, and run again. */
#ifndef SITE_MANAGER_STEPS_H
#define SITE_MANAGER_STEPS_H

#include "disk.h"
#include "repo.h"
#include "trouble.h"

#include <legwork/flow.h>

/* What they work with: the flow's user. */
struct tools {
    struct repo *repo;
    struct disk disk;
    struct trouble trouble;
};

/* The declaration, with `retry` for each step; `name` it and give it to lw_flow_register or
 * lw_flow_dot. *steps has room for LW_FLOW_STEPS_MAX and lives as long as the flow is used. */
lw_flow steps_declare(lw_step *steps, lw_retry_policy retry, struct tools *tools);

#endif
