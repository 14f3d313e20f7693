/* Fuzzes the JSON reader and writer: what is read can be taken apart and written anew, which reads
 * back, and writes the same again. */
#include "server/json.h"

#include <assert.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct lw__json_key keys[256];
static const struct lw__json_limits limits = {.depth_max = 30, .keys = keys, .keys_max = 256};
static char memory[2][64 << 10];

/* A string's meaning, in a block that has exactly the room that the header promises is enough. */
static char *unescape(struct lw__json string, size_t *size) {
    char *text = malloc(string.raw.size - 1);
    assert(lw__json_unescape(string, text, string.raw.size - 1, size) == LW_OK);
    struct lw__slice plain;
    if (lw__json_plain(string, &plain))
        assert(plain.size == *size && memcmp(plain.data, text, *size) == 0);
    assert(lw__json_is(string, text) == (strlen(text) == *size));
    return text;
}

static void copy_number(struct lw__json_writer *writer, struct lw__json value) {
    int64_t whole;
    uint64_t positive;
    double real;
    if (lw__json_int(value, &whole, NULL) == LW_OK)
        assert(whole < 0
               || (lw__json_uint(value, &positive, NULL) == LW_OK && positive == (uint64_t)whole)
               || value.raw.data[0] == '-');
    lw__json_double(value, &real, NULL);
    lw__json_put_raw(writer, value.raw);
}

static void copy(struct lw__json_writer *writer, struct lw__json value) {
    struct lw__json_walk walk = lw__json_enter(value);
    struct lw__json key, part;
    size_t size;
    bool is_true;
    char *text;
    switch (lw__json_type(value)) {
    case LW__JSON_STRING:
        text = unescape(value, &size);
        lw__json_put_string(writer, (struct lw__slice){text, size});
        free(text);
        return;
    case LW__JSON_NUMBER: copy_number(writer, value); return;
    case LW__JSON_NULL: lw__json_put_null(writer); return;
    case LW__JSON_BOOL:
        assert(lw__json_bool(value, &is_true, NULL) == LW_OK);
        lw__json_put_bool(writer, is_true);
        return;
    case LW__JSON_ARRAY: lw__json_array(writer); break;
    case LW__JSON_OBJECT: lw__json_object(writer); break;
    }
    while (lw__json_next(&walk, &key, &part)) {
        if (walk.is_object) {
            text = unescape(key, &size);
            if (strlen(text) < size) { /* a key with a zero cannot be written */
                free(text);
                continue;
            }
            lw__json_key(writer, text);
            free(text);
        }
        copy(writer, part);
    }
    lw__json_close(writer);
}

static struct lw__slice rewrite(struct lw__json value, char *into, size_t room) {
    struct lw__buffer out;
    struct lw__json_writer writer;
    lw__buffer_init_fixed(&out, into, room);
    lw__json_write(&writer, &out);
    copy(&writer, value);
    assert(out.status == LW_OK);
    return lw__buffer_slice(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct lw__json value;
    struct lw__json_error err = {.sentence = ""};
    struct lw__slice text = {(const char *)data, size};
    if (lw__json_read(text, &limits, &value, &err) < 0) {
        assert(err.offset <= size && err.sentence[0] != 0);
        struct lw__json nonsense = {text}, key, part;
        struct lw__json_walk walk = lw__json_enter(nonsense);
        for (size_t steps = 0; lw__json_next(&walk, &key, &part); steps++)
            assert(steps <= size);
        return 0;
    }
    struct lw__slice once = rewrite(value, memory[0], sizeof memory[0]);
    assert(lw__json_read(once, &limits, &value, &err) == LW_OK);
    struct lw__slice twice = rewrite(value, memory[1], sizeof memory[1]);
    assert(once.size == twice.size && memcmp(once.data, twice.data, once.size) == 0);
    return 0;
}
