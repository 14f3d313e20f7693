/* park.pml with a draining stop that comes at any time: before, between and in the midst of the two
 * pushes of one submitter. All workers must leave, and everything that was accepted must have run. */
/* check: -DSAFETY */
#define SCENARIO
#define FIRST_TASKS 2
#define SECOND_TASKS 0
#define TIME_OUTS 0
#define CAN_HURRY 0
#define CAN_SPIN 1
#define IS_LATE 0
#define IS_STOPPED 1
#include "park.pml"
