/* A server, or a store of one's own: whichever the URL names. */
#include "cli/source.h"

#include "cli/command.h"
#include "server/refuse.h"

#include <stdio.h>
#include <sys/stat.h>

/* New files are for this user alone, as those of `legwork serve`; there is no other thread yet. The
 * engine's one worker has its duties, and none of the tasks: all of them are leased. */
static int own(struct lw__source *source, lw_error *err) {
    const char *url = source->common->url;
    if (strncmp(url, "memory:", strlen("memory:")) == 0)
        return lw__refuse(err, LW_EINVAL, "memory: is of one process: ask its server instead");
    mode_t before = umask(077);
    int rc = lw_open(&source->engine, url, LW_ENGINE_OPTIONS(.workers = 1), err);
    umask(before);
    if (rc == LW_OK)
        rc = lw_start(source->engine, err);
    if (rc == LW_OK && source->common->is_verbose)
        fprintf(stderr, "legwork: owns the store %s\n", url);
    return rc;
}

bool lw__source_open(struct lw__source *source, int *code) {
    lw_error err = {0};
    bool is_store = lw__place_is_store(source->common->url);
    source->ops = is_store ? &lw__source_store : &lw__source_server;
    if (!is_store || own(source, &err) == LW_OK)
        return true;
    fprintf(stderr, "legwork: %s\n", err.message);
    *code = err.status == LW_EINVAL ? LW__EXIT_USAGE : LW__EXIT_FAILED;
    lw__source_close(source);
    return false;
}

void lw__source_close(struct lw__source *source) {
    if (source->engine)
        lw_stop(source->engine, LW_DROP, -1);
    lw_close(source->engine);
    source->engine = NULL;
}
