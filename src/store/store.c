/* Finds the store that a URL names, in the table of stores that this library has. */
#include "store/stores.h"

#include "base/error.h"
#include "base/names.h"

#include <string.h>

#define SCHEME_MAX 32

static int refuse_scheme(const char *url, size_t scheme_size, lw_error *err) {
    const char *known[LW__STORES_MAX];
    size_t count = 0;
    char scheme[SCHEME_MAX];
    for (; lw__stores[count] != NULL; count++)
        known[count] = lw__stores[count]->scheme;
    size_t size = scheme_size < sizeof scheme ? scheme_size : sizeof scheme - 1;
    memcpy(scheme, url, size);
    scheme[size] = 0;
    const char *nearest = lw__name_nearest(scheme, known, count);
    return lw__error_set(err, LW_EINVAL, 0, "no store is called \"%.64s\"; did you mean \"%s:\"?",
                         url, nearest ? nearest : known[0]);
}

int lw__store_open(struct lw__store **store, const char *url,
                   const struct lw__store_options *options, lw_error *err) {
    const char *colon = strchr(url, ':');
    size_t scheme_size = colon ? (size_t)(colon - url) : strlen(url);
    for (size_t i = 0; colon && lw__stores[i] != NULL; i++) {
        const char *scheme = lw__stores[i]->scheme;
        if (strlen(scheme) == scheme_size && memcmp(scheme, url, scheme_size) == 0)
            return lw__stores[i]->open(store, colon + 1, options, err);
    }
    return refuse_scheme(url, scheme_size, err);
}
