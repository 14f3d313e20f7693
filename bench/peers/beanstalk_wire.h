/* beanstalkd's protocol, for the load of src/cli/load.h: a put, a reserve and a delete are the life
 * of a job. It has no batches. */
#ifndef BENCH_BEANSTALK_WIRE_H
#define BENCH_BEANSTALK_WIRE_H

#include "cli/load.h"

extern const struct lw__load_protocol beanstalk_wire;

#endif
