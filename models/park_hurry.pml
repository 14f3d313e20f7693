/* park.pml with a worker that may hurry, a monitor that revokes its attention while, or late after, it
 * sits in a slow task, and a sleep that times out. */
/* check: -DSAFETY */
#define SCENARIO
#define FIRST_TASKS 1
#define SECOND_TASKS 1
#define TIME_OUTS 1
#define CAN_HURRY 1
#define CAN_SPIN 1
#define IS_LATE 0
#define IS_STOPPED 0
#include "park.pml"
