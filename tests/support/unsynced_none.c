#include "unsynced.h"

void stop_syncing(void) {}
