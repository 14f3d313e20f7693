/* sim_model_internal.h: what the two halves of the model share: sim_model.c, how tasks come, wait
 * and are claimed; sim_model_course.c, how attempts end, what operators do, and what time does. */
#ifndef LW_TESTS_SUPPORT_SIM_MODEL_INTERNAL_H
#define LW_TESTS_SUPPORT_SIM_MODEL_INTERNAL_H

#include "sim_model.h"

/* Saturates. */
uint64_t sim__after(uint64_t from, uint64_t wait);
void sim__enqueue(struct sim_model *m, struct sim_task *t);
void sim__schedule(struct sim_task *t, uint64_t due);
void sim__run_now(struct sim_model *m, struct sim_task *t);
/* One more error is kept of it. */
void sim__err(const struct sim_model *m, struct sim_task *t);
/* Whoever has it claimed accounts for it; else what follows is done, too. */
void sim__abort_waiting(struct sim_model *m, struct sim_task *t);
/* What follows from a terminal state. */
void sim__finish_end(struct sim_model *m, struct sim_task *t);
void sim__end_by(struct sim_model *m, struct sim_task *t, lw_state state);
/* Nothing holds it any more: it waits for its time, or can run. */
void sim__release(struct sim_model *m, struct sim_task *t);
/* For those of its dependencies that have not ended. True: it is doomed by one that has not
 * finished. */
bool sim__wait(struct sim_model *m, struct sim_task *t);
/* What does not end a task is written down: its state, its times. */
void sim__keep(struct sim_model *m, struct sim_task *t);
/* It is due at another time on the clock; what is written down stays. */
void sim__shift(struct sim_task *t, uint64_t due);
void sim__retain(struct sim_model *m, struct sim_task *t);
bool sim__has_room(const struct sim_model *m, const struct sim_spec *s, bool is_inside,
                   bool *is_reserved);

#endif
