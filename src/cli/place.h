/* Where the tasks are: behind a server, or in a store that is opened directly. Both answer with the
 * same JSON (docs/openapi.json), so that commands know one form only.
 *
 * Of a store, looking opens it as a reader and submitting as a client (legwork/engine.h); it is
 * never owned here, and steering needs the server. */
#ifndef LW_CLI_PLACE_H
#define LW_CLI_PLACE_H

#include "cli/arguments.h"
#include "cli/client.h"
#include "server/json.h"

#include <legwork/flow.h>

#define LW__PLACE_KEYS_MAX 2048 /* members of objects in each other */
#define LW__TARGET_MAX 8192

enum lw__need { LW__TO_LOOK, LW__TO_SUBMIT, LW__TO_STEER };

struct lw__place {
    struct lw__client client;
    lw_engine *engine; /* NULL: it is a server */
    bool is_absent;    /* why the last call failed: nobody is there */
    struct lw__buffer body;
    struct lw__json json; /* the last answer */
    void (*tick)(void *user);
    void *user;
    struct lw__json_key keys[LW__PLACE_KEYS_MAX];
};

bool lw__place_is_store(const char *url); /* else it is a server */

/* Opens what common->url names; with -v it says on standard error what that is. NULL if that fails:
 * *code is the exit code, and the reason has been printed. */
struct lw__place *lw__place_open(const struct lw__common *common, enum lw__need need,
                                 const char *command, int *code);
void lw__place_close(struct lw__place *place); /* NULL is fine */

/* All of these fill place->json, which lives until the next call, and return LW_OK; or a status
 * with a sentence: LW_ENOTFOUND, LW_EINVAL, LW_EFULL, LW_ESYSTEM ... */
int lw__place_list(struct lw__place *place, const lw_filter *filter, lw_error *err);
int lw__place_get(struct lw__place *place, lw_id id, int64_t wait_ms, lw_error *err);
int lw__place_explain(struct lw__place *place, lw_id id, lw_error *err);
int lw__place_submit(struct lw__place *place, const lw_task *task, lw_error *err);
int lw__place_flows(struct lw__place *place, const lw_flow_filter *filter, lw_error *err);
int lw__place_flow(struct lw__place *place, const char *flow, const char *id, lw_error *err);

/* Of a server only: a POST, without a body and with one. *code (may be NULL) is the answer's;
 * without a body the JSON is null. The server is given wait_ms beyond the usual time. */
int lw__place_post(struct lw__place *place, const char *target, int *code, lw_error *err);
int lw__place_post_body(struct lw__place *place, const char *target, struct lw__slice body,
                        int64_t wait_ms, int *code, lw_error *err);

/* Prints the sentence, and gives the exit code for it. */
int lw__place_complain(const struct lw__place *place, const lw_error *err);

/* Prints the last answer as it came, and a line's end. */
void lw__place_print(const struct lw__place *place);

/* A target: what stands in it percent-encoded. */
struct lw__target {
    char text[LW__TARGET_MAX];
    struct lw__buffer out;
    bool has_query;
};
void lw__target_begin(struct lw__target *target, const char *path);
void lw__target_part(struct lw__target *target, const char *part);
void lw__target_query(struct lw__target *target, const char *name, const char *value); /* or NULL */
const char *lw__target_end(struct lw__target *target); /* NULL: too long */

/* ---- reading answers ------------------------------------------------------------------------ */

/* A number; 0 if there is none. */
int64_t lw__fact_number(struct lw__json object, const char *name);
/* A text, cut to the room; "" if there is none. Returns `into`. */
const char *lw__fact_text(struct lw__json object, const char *name, char *into, size_t room);
bool lw__fact_flag(struct lw__json object, const char *name);
/* Bytes that are there as `name` (JSON, as it is) or as name_base64 (decoded): appended. False if
 * there are none. */
bool lw__fact_bytes(struct lw__json object, const char *name, struct lw__buffer *out);
/* The state by its name; 0 if it is none. */
lw_state lw__fact_state(struct lw__json task);

#endif
