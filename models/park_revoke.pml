/* park.pml with a monitor that revokes the attention of a hurrying worker when its slow task is long
 * over and the worker has slept, and with two tasks that come after that. */
/* check: -DSAFETY */
#define SCENARIO
#define FIRST_TASKS 3
#define SECOND_TASKS 0
#define TIME_OUTS 0
#define CAN_HURRY 1
#define CAN_SPIN 1
#define IS_LATE 1
#define IS_STOPPED 0
#include "park.pml"
