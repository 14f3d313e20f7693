/* Fuzzes queries, percent-decoding, paths and base64. */
#include "server/query.h"
#include "server/base64.h"
#include "server/routes.h"
#include "server/utf8.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What base64 is read is the only way to write it. */
static void read_base64(struct lw__slice text, char *memory, size_t room) {
    struct lw__buffer bytes, again;
    lw__buffer_init_fixed(&bytes, memory, room);
    if (lw__base64_read(&bytes, text, NULL) < 0)
        return;
    char *second = malloc(text.size + 1);
    lw__buffer_init_fixed(&again, second, text.size + 1);
    assert(lw__base64_write(&again, lw__buffer_slice(&bytes)) == LW_OK);
    assert(again.size == text.size
           && (text.size == 0 || memcmp(second, text.data, text.size) == 0));
    free(second);
}

/* A target as a request has it: a path, and a query behind the ?. */
static void find_route(struct lw__slice target) {
    const char *mark = target.size > 0 ? memchr(target.data, '?', target.size) : NULL;
    const char *end = lw__slice_end(target);
    struct lw__slice path = lw__slice_between(target.data, mark ? mark : end);
    struct lw__slice rest = lw__slice_between(mark ? mark + 1 : end, end);
    char *part = malloc(path.size + 1), *values = malloc(rest.size + 1);
    struct lw__route_match match;
    struct lw__route_query query;
    for (int method = 0; method < LW__HTTP_METHODS; method++) {
        int status =
            lw__route_find((enum lw__http_method)method, path, part, path.size + 1, &match, NULL);
        assert(status == LW_OK || status == LW_ENOTFOUND || status == LW_EINVAL);
        if (status == LW_OK) {
            assert(!match.part || (match.part[0] != 0 && strlen(match.part) <= path.size));
            status = lw__route_read_query(match.route, rest, values, rest.size + 1, &query, NULL);
            assert(status == LW_OK || status == LW_EINVAL);
        }
    }
    free(part);
    free(values);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct lw__query_field fields[] = {{"kind", NULL}, {"key", NULL}, {"a", NULL}, {"", NULL}};
    struct lw__slice text = {(const char *)data, size};
    char *memory = malloc(size + 1);
    lw_error err = {0};
    int status = lw__query_read(text, fields, 4, memory, size + 1, &err);
    assert(status == LW_OK || (status == LW_EINVAL && err.message[0] != 0));
    for (size_t i = 0; status == LW_OK && i < 4; i++)
        if (fields[i].value) {
            struct lw__slice value = lw__slice_of(fields[i].value);
            assert(lw__utf8_check(value) && value.data >= memory);
            assert(value.data + value.size <= memory + size);
        }
    assert(lw__percent_decode(text, false, memory, size + 1, "it", &err) != LW_EFULL);
    read_base64(text, memory, size + 1);
    find_route(text);
    free(memory);
    return 0;
}
