/* Whom to refuse at the door. The server listens on this machine alone, and anybody on it may ask;
 * but a browser on it asks for pages from everywhere. Two doors are shut to those:
 * - a page of another origin that wants to change something shows in Origin or Sec-Fetch-Site;
 * - a page whose name was made to point to this machine (DNS rebinding) shows in Host, which is
 *   then no local name. */
#include "server/api/api.h"
#include "server/refuse.h"

/* The host without the port. */
static struct lw__slice host_only(struct lw__slice host) {
    const char *end = lw__slice_end(host), *at = end;
    while (at > host.data && at[-1] >= '0' && at[-1] <= '9')
        at--;
    if (at > host.data && at[-1] == ':')
        end = at - 1;
    return lw__slice_between(host.data, end);
}

static bool begins_with(struct lw__slice text, const char *start) {
    return text.size >= strlen(start) && memcmp(text.data, start, strlen(start)) == 0;
}

static bool is_local_name(struct lw__slice host) {
    struct lw__slice name = host_only(host);
    if (name.size == 0 || lw__slice_is_caseless(name, "localhost") || lw__slice_is(name, "[::1]"))
        return true;
    if (!begins_with(name, "127."))
        return false;
    for (size_t i = 0; i < name.size; i++)
        if (name.data[i] != '.' && (name.data[i] < '0' || name.data[i] > '9'))
            return false;
    return true;
}

static bool is_own_origin(struct lw__slice origin, struct lw__slice host) {
    if (!begins_with(origin, "http://"))
        return false;
    struct lw__slice rest = lw__slice_between(origin.data + 7, lw__slice_end(origin));
    return rest.size > 0 && rest.size == host.size && memcmp(rest.data, host.data, host.size) == 0;
}

int lw__guard(const struct lw__http_request *request, bool changes, lw_error *err) {
    struct lw__slice value;
    if (!is_local_name(request->host))
        return lw__refuse(err, LW_EINVAL,
                          "Host %s is not a name of this machine: use localhost or 127.0.0.1",
                          lw__slice_show(request->host).text);
    if (!changes)
        return LW_OK;
    if (lw__http_find(request, "Sec-Fetch-Site", &value) && !lw__slice_is(value, "same-origin")
        && !lw__slice_is(value, "none"))
        return lw__refuse(err, LW_EINVAL, "a page of another site may not change anything here");
    if (lw__http_find(request, "Origin", &value) && !is_own_origin(value, request->host))
        return lw__refuse(err, LW_EINVAL, "a page of origin %s may not change anything here",
                          lw__slice_show(value).text);
    return LW_OK;
}
