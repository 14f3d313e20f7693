/* sim.h: a whole engine in one thread on a test clock, driven by a seed.
 *
 * The simulation plays everybody: submitters, operators, workers whose handlers are scripts (how
 * long, what outcome, whether they heed their context), the scheduler, and bad luck: failures,
 * timeouts, deaths of workers, clocks that are set, stops. It does each step to the engine and to a
 * plain model (sim_model.h) and compares all that can be seen of both. When the luck has ended,
 * everything has to come to its end within a bound. */
#ifndef LW_TESTS_SUPPORT_SIM_H
#define LW_TESTS_SUPPORT_SIM_H

#include <stdbool.h>
#include <stdint.h>

/* Runs a seed on the store with this URL, whose file (if it has one) is in the present folder, and
 * is closed and opened again in the middle of things. Returns a hash of its trace: the same for the
 * same seed. What is wrong is printed, with the command that shows it again, and ends the process.
 * is_shown: prints every step. */
uint64_t sim_run(const char *url, uint64_t seed, bool is_shown);

#endif
