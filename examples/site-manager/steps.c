#include "steps.h"

#include <string.h>

/* The id of a flow is the domain of its site; what it was started with is the title. */
static const char *title_of(const lw_task *task) {
    return task->payload.size > 0 ? task->payload.data : "";
}

/* ---- creating ----------------------------------------------------------------------------- */

static lw_outcome save_metadata(lw_ctx *ctx, const lw_task *task) {
    struct tools *tools = lw_ctx_user(ctx);
    lw_error err;
    if (trouble_at(&tools->trouble, ctx, &err) < 0
        || repo_save_site(tools->repo, ctx, task->key, title_of(task), &err) < 0)
        return lw_retry(ctx, "%s", err.message);
    trouble_at(&tools->trouble, ctx, &err); /* it is done already: too late for this one */
    return lw_done(ctx);
}

static lw_outcome create_files(lw_ctx *ctx, const lw_task *task) {
    struct tools *tools = lw_ctx_user(ctx);
    lw_error err;
    if (trouble_at(&tools->trouble, ctx, &err) < 0
        || disk_make_folder(&tools->disk, task->key, &err) < 0)
        return lw_retry(ctx, "%s", err.message);
    for (size_t i = 0; i < disk_page_count; i++) {
        if (trouble_at(&tools->trouble, ctx, &err) < 0
            || disk_write_page(&tools->disk, task->key, &disk_pages[i], title_of(task), &err) < 0)
            return lw_retry(ctx, "%s", err.message);
    }
    return lw_done(ctx);
}

static lw_outcome create_db(lw_ctx *ctx, const lw_task *task) {
    struct tools *tools = lw_ctx_user(ctx);
    lw_error err;
    int rc = trouble_at(&tools->trouble, ctx, &err);
    if (rc == LW_OK)
        rc = disk_make_database(&tools->disk, task->key, &err);
    return rc == LW_EXISTS ? lw_flow_skip(ctx)
           : rc == LW_OK   ? lw_done(ctx)
                           : lw_retry(ctx, "%s", err.message);
}

static lw_outcome bootstrap(lw_ctx *ctx, const lw_task *task) {
    struct tools *tools = lw_ctx_user(ctx);
    lw_error err;
    if (trouble_at(&tools->trouble, ctx, &err) < 0
        || disk_fill_database(&tools->disk, task->key, title_of(task), &err) < 0)
        return lw_retry(ctx, "%s", err.message);
    return lw_done(ctx);
}

/* ---- deleting ----------------------------------------------------------------------------- */

/* When these run nothing that creates does any more: the fence has seen to that. So they take away
 * what they find, and are done. */

static lw_outcome remove_files(lw_ctx *ctx, const lw_task *task) {
    struct tools *tools = lw_ctx_user(ctx);
    lw_error err;
    if (trouble_at(&tools->trouble, ctx, &err) < 0
        || disk_remove_folder(&tools->disk, task->key, &err) < 0)
        return lw_retry(ctx, "%s", err.message);
    return lw_done(ctx);
}

static lw_outcome remove_db(lw_ctx *ctx, const lw_task *task) {
    struct tools *tools = lw_ctx_user(ctx);
    lw_error err;
    if (trouble_at(&tools->trouble, ctx, &err) < 0
        || disk_remove_database(&tools->disk, task->key, &err) < 0)
        return lw_retry(ctx, "%s", err.message);
    return lw_done(ctx);
}

static lw_outcome remove_metadata(lw_ctx *ctx, const lw_task *task) {
    struct tools *tools = lw_ctx_user(ctx);
    lw_error err;
    if (trouble_at(&tools->trouble, ctx, &err) < 0
        || repo_remove_site(tools->repo, ctx, task->key, &err) < 0)
        return lw_retry(ctx, "%s", err.message);
    trouble_at(&tools->trouble, ctx, &err); /* as in save_metadata */
    return lw_done(ctx);
}

/* ---- the flow ----------------------------------------------------------------------------- */

/* clang-format off */
static const lw_step steps_of_a_site[] = {
    {.name = "save-metadata",   .run = save_metadata,   .state = "creating",
     .sets = "metadata_ready"},
    {.name = "create-files",    .run = create_files,    .state = "creating",
     .needs = {"metadata_ready"}, .sets = "files_ready"},
    {.name = "create-db",       .run = create_db,       .state = "creating",
     .needs = {"metadata_ready"}, .sets = "db_ready"},
    {.name = "bootstrap",       .run = bootstrap,       .state = "creating",
     .needs = {"db_ready"}, .sets = "bootstrapped"},

    {.name = "remove-files",    .run = remove_files,    .state = "deleting",
     .sets = "files_gone"},
    {.name = "remove-db",       .run = remove_db,       .state = "deleting",
     .sets = "db_gone"},
    {.name = "remove-metadata", .run = remove_metadata, .state = "deleting",
     .needs = {"files_gone", "db_gone"}, .sets = "gone"},
};
/* clang-format on */

lw_flow steps_declare(lw_step *steps, lw_retry_policy retry, struct tools *tools) {
    size_t count = sizeof steps_of_a_site / sizeof *steps_of_a_site;
    memcpy(steps, steps_of_a_site, sizeof steps_of_a_site);
    for (size_t i = 0; i < count; i++)
        steps[i].retry = retry;
    return *LW_FLOW(.name = "site", .steps = steps, .step_count = count, .user = tools,
                    .states = {{"creating", .goal = "running"},
                               {"deleting", .goal = "deleted", .end = true}});
}
