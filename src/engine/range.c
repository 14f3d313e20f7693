/* Refusing numbers with a sentence. 0, -1 and LW_ZERO are judged before their meaning goes in. */
#include "engine/range.h"

#include "base/error.h"

static bool is_fine(const struct lw__range *r) {
    return r->value == 0 || (r->value >= r->min && r->value <= r->max)
           || (r->value == LW_ZERO && r->may_be_zero) || (r->value == -1 && r->may_be_none);
}

int lw__ranges_check(const struct lw__range *ranges, size_t count, lw_error *err) {
    for (const struct lw__range *r = ranges; r < ranges + count; r++)
        if (!is_fine(r))
            return lw__error_set(err, LW_EINVAL, 0, "%s is %lld, must be %lld to %lld%s%s", r->name,
                                 (long long)r->value, (long long)r->min, (long long)r->max,
                                 r->may_be_none ? ", -1 for none" : "",
                                 r->may_be_zero ? ", LW_ZERO for a real zero" : "");
    return LW_OK;
}
