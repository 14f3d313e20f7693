/* The functions that serve the routes (service.c). Each gets an exchange whose parameters and body
 * are complete, on the loop. */
#ifndef LW_SERVER_API_HANDLERS_H
#define LW_SERVER_API_HANDLERS_H

struct lw__exchange;

/* health.c */
void lw__serve_health(struct lw__exchange *x);
void lw__serve_ready(struct lw__exchange *x);
void lw__serve_metrics(struct lw__exchange *x);

/* submit.c */
void lw__serve_submit(struct lw__exchange *x);
void lw__serve_submit_many(struct lw__exchange *x);

/* look.c */
void lw__serve_get(struct lw__exchange *x);
void lw__serve_list(struct lw__exchange *x);
void lw__serve_explain(struct lw__exchange *x);
void lw__serve_queues(struct lw__exchange *x);
void lw__serve_kinds(struct lw__exchange *x);

/* flows.c */
void lw__serve_flows(struct lw__exchange *x);
void lw__serve_flow(struct lw__exchange *x);

/* cron.c */
void lw__serve_cron_next(struct lw__exchange *x);

/* steer.c */
void lw__serve_cancel(struct lw__exchange *x);
void lw__serve_run(struct lw__exchange *x);
void lw__serve_run_many(struct lw__exchange *x);
void lw__serve_forget(struct lw__exchange *x);
void lw__serve_pause(struct lw__exchange *x);
void lw__serve_resume(struct lw__exchange *x);
void lw__serve_drain(struct lw__exchange *x);

/* work.c */
void lw__serve_claim(struct lw__exchange *x);
void lw__serve_outcome(struct lw__exchange *x); /* finish, fail, retry, snooze */
void lw__serve_extend(struct lw__exchange *x);
void lw__serve_progress(struct lw__exchange *x);
void lw__serve_checkpoint(struct lw__exchange *x);
void lw__serve_settle(struct lw__exchange *x);

#endif
