/* The memory store: the index, and nothing behind it. */
#include "store/memory/memory.h"

#include "base/error.h"
#include "base/names.h"
#include "store/index.h"

static int open_memory(struct lw__store **store, const char *rest,
                       const struct lw__store_options *options, lw_error *err) {
    if (lw__shown_check("the rest of the URL", rest, LW_KEY_MAX, err) < 0)
        return LW_EINVAL;
    if (*rest)
        return lw__error_set(err, LW_EINVAL, 0,
                             "the store URL is \"memory:%s\", must be just \"memory:\"", rest);
    if (options->role != LW_ROLE_OWNER)
        return lw__error_set(err, LW_EINVAL, 0,
                             "tasks in memory have no clients and readers: nobody else can see "
                             "them; use \"sqlite:PATH\"");
    struct lw__index *index;
    int rc = lw__index_open(&index, &lw__memory_ops, options, err);
    if (rc == LW_OK)
        *store = &index->store;
    return rc;
}

const struct lw__store_ops lw__memory_ops = {
    .scheme = "memory",
    .open = open_memory,
    .close = lw__index_close,
    .kind = lw__index_kind,
    .queue = lw__index_queue,
    .set_kind = lw__index_set_kind,
    .set_queue = lw__index_set_queue,
    .pause = lw__index_pause,
    .put = lw__index_put,
    .put_plain = lw__index_put_plain,
    .claim = lw__index_claim,
    .begin = lw__index_begin,
    .finish = lw__index_finish,
    .unclaim = lw__index_unclaim,
    .account = lw__index_account,
    .lease = lw__index_lease,
    .extend = lw__index_extend,
    .publish_leased = lw__index_publish_by_id,
    .settle = lw__index_settle,
    .publish = lw__index_publish,
    .change = lw__index_change,
    .scope_open = lw__index_scope_open,
    .scope_change = lw__index_scope_change,
    .scope_find = lw__index_scope_find,
    .scope_next = lw__index_scope_next,
    .sweep = lw__index_sweep,
    .next_told = lw__index_next_told,
    .told = lw__index_told,
    .await = lw__index_await,
    .unawait = lw__index_unawait,
    .restrain = lw__index_restrain,
    .bring_forward = lw__index_bring_forward,
    .is_quiet = lw__index_is_quiet,
};
