/* A resource of a flow, as people read it. */
#ifndef LW_CLI_FLOWS_H
#define LW_CLI_FLOWS_H

#include "cli/place.h"

void lw__print_flow(struct lw__json flow);

#endif
