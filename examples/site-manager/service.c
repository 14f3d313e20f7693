#include "service.h"

#include "steps.h"

#include <ctype.h>
#include <legwork/legwork.h>
#include <legwork/testing.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FLOW "site"
#define LABEL_MAX 63 /* bytes between two dots of a domain */
#define STOP_MS 10000

struct service {
    lw_engine *engine;
    struct tools tools;
};

static int explain(lw_error *err, int status, const char *sentence) {
    *err = (lw_error){.status = status};
    snprintf(err->message, sizeof err->message, "%s", sentence);
    return status;
}

/* ---- open, close -------------------------------------------------------------------------- */

static int start_engine(struct service *service, const struct service_options *o, lw_error *err) {
    lw_step steps[LW_FLOW_STEPS_MAX];
    lw_retry_policy retry = {
        .min_ms = o->first_retry_ms ? o->first_retry_ms : 1000, .max_ms = 300000, .crashes = -1};
    lw_flow flow = steps_declare(steps, retry, &service->tools);
    int rc = lw_flow_register(service->engine, &flow, err);
    if (rc == LW_OK && o->is_unfenced)
        rc = lw_test_unfence(service->engine);
    return rc == LW_OK ? lw_start(service->engine, err) : rc;
}

static int open_parts(struct service *service, const struct service_options *o, lw_error *err) {
    char url[sizeof service->tools.disk.root + 32];
    int rc = disk_open(&service->tools.disk, o->folder, err);
    if (rc < 0)
        return rc;
    snprintf(url, sizeof url, "sqlite:%s/sites.db", service->tools.disk.root);
    rc = lw_open(&service->engine, url,
                 LW_ENGINE_OPTIONS(.name = "sites", .workers = o->workers ? o->workers : 4,
                                   .task_limit = o->task_limit ? o->task_limit : 10000,
                                   .overflow = LW_REFUSE),
                 err);
    if (rc == LW_OK)
        rc = repo_open(&service->tools.repo, url + strlen("sqlite:"), err);
    return rc == LW_OK ? start_engine(service, o, err) : rc;
}

int service_open(struct service **opened, const struct service_options *o, lw_error *err) {
    struct service *service = calloc(1, sizeof *service);
    *opened = NULL;
    if (!service)
        return explain(err, LW_ENOMEM, "out of memory");
    service->tools.trouble.slow_ms = o->slow_ms;
    service->tools.trouble.fail_percent = o->fail_percent;
    service->tools.trouble.die_permille = o->die_permille;
    service->tools.trouble.seed = o->seed;
    int rc = open_parts(service, o, err);
    if (rc == LW_OK)
        *opened = service;
    else
        service_close(service);
    return rc;
}

/* What is under way goes on when the service is opened again. */
void service_close(struct service *service) {
    if (!service)
        return;
    if (service->engine) {
        lw_stop(service->engine, LW_DROP, STOP_MS);
        if (lw_close(service->engine) == LW_PENDING)
            return; /* a step still runs, and uses all this */
    }
    repo_close(service->tools.repo);
    free(service);
}

/* ---- what comes from outside -------------------------------------------------------------- */

static bool is_label(const char *label, size_t size) {
    if (size == 0 || size > LABEL_MAX || label[0] == '-' || label[size - 1] == '-')
        return false;
    for (size_t i = 0; i < size; i++) {
        if (!islower((unsigned char)label[i]) && !isdigit((unsigned char)label[i])
            && label[i] != '-')
            return false;
    }
    return true;
}

/* It becomes the name of a folder, too. */
static bool is_domain(const char *domain) {
    int labels = 0;
    for (const char *at = domain;; labels++) {
        size_t size = strcspn(at, ".");
        if (!is_label(at, size))
            return false;
        if (!at[size])
            return labels > 0 && strlen(domain) <= LW_FLOW_ID_MAX;
        at += size + 1;
    }
}

/* It is written into pages: no markup. */
static bool is_title(const char *title) {
    for (const char *at = title; *at; at++) {
        if ((unsigned char)*at < ' ' || *at == 0x7f || strchr("<>&", *at))
            return false;
    }
    return *title && strlen(title) <= SERVICE_TITLE_MAX;
}

int service_create(struct service *service, const char *domain, const char *title, lw_error *err) {
    if (!is_domain(domain))
        return explain(err, LW_EINVAL,
                       "domain has to be a name like example.org: labels of a-z, 0-9 and -, "
                       "at most 200 bytes");
    if (!is_title(title))
        return explain(err, LW_EINVAL,
                       "title has to have 1 to 200 bytes, without control characters, <, > and &");
    return lw_flow_start(service->engine, FLOW, domain, LW_TEXT(title), err);
}

int service_delete(struct service *service, const char *domain, lw_error *err) {
    if (!is_domain(domain))
        return explain(err, LW_ENOTFOUND, "there is no such site");
    return lw_flow_move(service->engine, FLOW, domain, "deleting", err);
}

/* ---- how it is ---------------------------------------------------------------------------- */

static void add_step(struct text *json, const lw_flow_step *step) {
    text_add(json, "{\"name\":\"%s\",\"state\":\"%s\",\"attempts\":%u,\"error\":", step->name,
             lw_step_state_name(step->state), step->attempts);
    text_add_json(json, step->error);
    text_add(json, "}");
}

static void add_site(struct text *json, const lw_flow_status *status) {
    text_add(json, "{\"domain\":\"%s\",\"title\":", status->id);
    text_add_json(json, status->payload);
    text_add(json,
             ",\"state\":\"%s\",\"condition\":\"%s\",\"generation\":%llu,\"number\":%llu,"
             "\"since_ms\":%lld,\"unclean\":%s,\"steps\":[",
             status->state, lw_flow_condition_name(status->condition),
             (unsigned long long)status->generation, (unsigned long long)status->number,
             (long long)status->since_ms, status->is_unclean ? "true" : "false");
    for (unsigned i = 0; i < status->step_count; i++) {
        text_add(json, i ? "," : "");
        add_step(json, &status->steps[i]);
    }
    text_add(json, "]}");
}

int service_show(struct service *service, const char *domain, struct text *json, lw_error *err) {
    lw_flow_status status;
    int rc = is_domain(domain) ? lw_flow_get(service->engine, FLOW, domain, &status) : LW_ENOTFOUND;
    if (rc == LW_OK && status.condition == LW_FLOW_GONE)
        rc = LW_ENOTFOUND;
    if (rc < 0)
        return explain(err, rc, rc == LW_ENOTFOUND ? "there is no such site" : lw_status_text(rc));
    add_site(json, &status);
    return LW_OK;
}

struct listing {
    struct text *json;
    unsigned count;
    uint64_t last;
};

static bool list_site(void *user, const lw_flow_status *status) {
    struct listing *listing = user;
    text_add(listing->json, listing->count++ ? "," : "");
    add_site(listing->json, status);
    listing->last = status->number;
    return true;
}

int service_list(struct service *service, uint64_t after, struct text *json, lw_error *err) {
    struct listing listing = {.json = json};
    text_add(json, "{\"sites\":[");
    int rc = lw_flow_list(service->engine, FLOW, after, SERVICE_PAGE_MAX, list_site, &listing);
    if (rc < 0)
        return explain(err, rc, lw_status_text(rc));
    text_add(json, "]");
    if (listing.count == SERVICE_PAGE_MAX)
        text_add(json, ",\"next\":\"/sites?after=%llu\"", (unsigned long long)listing.last);
    text_add(json, "}");
    return LW_OK;
}

/* ---- the picture -------------------------------------------------------------------------- */

static int write_text(void *user, const char *bytes, size_t size) {
    text_add(user, "%.*s", (int)size, bytes);
    return LW_OK;
}

int service_draw(struct text *dot, lw_error *err) {
    lw_step steps[LW_FLOW_STEPS_MAX];
    lw_flow flow = steps_declare(steps, (lw_retry_policy){0}, NULL);
    return lw_flow_dot(&flow, write_text, dot, err);
}
