/* Finds the store that a URL names, in the table of stores that this library has. */
#include "store/stores.h"

#include "base/error.h"
#include "base/names.h"
#include "base/text.h"

#include <legwork/engine.h>
#include <stdio.h>
#include <string.h>

#define SCHEME_MAX 32
#define LIST_MAX 128
#define SHOWN_MAX 64 /* of a URL in a sentence */

static const char *why_absent(const char *scheme) {
    const struct lw__absent_store *absent = lw__absent_stores;
    while (absent->scheme && strcmp(absent->scheme, scheme) != 0)
        absent++;
    return absent->why;
}

/* "memory:" or "sqlite:" */
static void list_known(char *text, size_t size, const char *const *known, size_t count) {
    size_t used = 0;
    for (size_t i = 0; i < count && used < size; i++)
        used +=
            (size_t)snprintf(text + used, size - used, "%s\"%s:\"", i > 0 ? " or " : "", known[i]);
}

static int refuse_scheme(const char *url, size_t scheme_size, lw_error *err) {
    const char *known[LW__STORES_MAX];
    size_t count = 0;
    char scheme[SCHEME_MAX], list[LIST_MAX] = "";
    if (lw__shown_check("the URL", url, SHOWN_MAX, err) < 0)
        return LW_EINVAL;
    int shown =
        (int)(strnlen(url, SHOWN_MAX + 1) > SHOWN_MAX ? lw__text_cut(url, SHOWN_MAX) : SHOWN_MAX);
    for (; lw__stores[count] != NULL; count++)
        known[count] = lw__stores[count]->scheme;
    size_t size = scheme_size < sizeof scheme ? scheme_size : sizeof scheme - 1;
    memcpy(scheme, url, size);
    scheme[size] = 0;
    const char *why = why_absent(scheme), *nearest = lw__name_nearest(scheme, known, count);
    if (why)
        return lw__error_set(err, LW_EINVAL, 0, "no store for \"%.*s\": %s", shown, url, why);
    if (nearest)
        return lw__error_set(err, LW_EINVAL, 0,
                             "no store is called \"%.*s\"; did you mean \"%s:\"?", shown, url,
                             nearest);
    list_known(list, sizeof list, known, count);
    return lw__error_set(err, LW_EINVAL, 0, "no store is called \"%.*s\"; a URL begins with %s",
                         shown, url, list);
}

/* NULL: there is none. */
static const struct lw__store_ops *find_store(const char *url, size_t scheme_size) {
    for (size_t i = 0; url[scheme_size] == ':' && lw__stores[i] != NULL; i++) {
        const char *scheme = lw__stores[i]->scheme;
        if (strlen(scheme) == scheme_size && memcmp(scheme, url, scheme_size) == 0)
            return lw__stores[i];
    }
    return NULL;
}

int lw__store_open(struct lw__store **store, const char *url,
                   const struct lw__store_options *options, lw_error *err) {
    size_t scheme_size = strcspn(url, ":");
    const struct lw__store_ops *ops = find_store(url, scheme_size);
    return ops ? ops->open(store, url + scheme_size + 1, options, err)
               : refuse_scheme(url, scheme_size, err);
}

bool lw_store_has_fault(const char *url, lw_error *fault) {
    const struct lw__store_ops *ops = url ? find_store(url, strcspn(url, ":")) : NULL;
    return ops && ops->has_fault && ops->has_fault(fault);
}
