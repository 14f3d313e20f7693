/* The JSON reader beside jansson, which knows nothing of it: what one refuses the other refuses,
 * and what both read means the same. On random documents, on the same with a byte changed, and on
 * every file of the fuzzers' corpus. */
#include "test.h"

#include "server/json.h"

#include <dirent.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#define TEXT_MAX (64 << 10)

static struct lw__json_key keys[4096];
static const struct lw__json_limits limits = {
    .depth_max = LW__JSON_DEPTH_MAX, .keys = keys, .keys_max = 4096};

/* ---- comparing ------------------------------------------------------------------------------ */

static bool is_same(struct lw__json value, const json_t *other);

static bool is_same_string(struct lw__json value, const char *text, size_t size) {
    char *mine = malloc(value.raw.size);
    size_t mine_size;
    assert_status(lw__json_unescape(value, mine, value.raw.size, &mine_size), LW_OK);
    bool same = mine_size == size && memcmp(mine, text, size) == 0;
    free(mine);
    return same;
}

static bool is_same_number(struct lw__json value, const json_t *other) {
    int64_t whole;
    double real = 0;
    bool is_whole = lw__json_int(value, &whole, NULL) == LW_OK;
    if (json_is_integer(other))
        return is_whole && whole == json_integer_value(other);
    return value.raw.size > LW__JSON_NUMBER_MAX /* jansson converts longer ones, too */
           || (lw__json_double(value, &real, NULL) == LW_OK && real == json_real_value(other));
}

static bool is_same_array(struct lw__json value, const json_t *other) {
    struct lw__json_walk walk = lw__json_enter(value);
    struct lw__json key, part;
    size_t count = 0;
    for (; lw__json_next(&walk, &key, &part); count++)
        if (!is_same(part, json_array_get(other, count)))
            return false;
    return count == json_array_size(other);
}

static bool is_same_object(struct lw__json value, const json_t *other) {
    struct lw__json_walk walk = lw__json_enter(value);
    struct lw__json key, part;
    size_t count = 0;
    for (; lw__json_next(&walk, &key, &part); count++) {
        char *name = malloc(key.raw.size);
        assert_status(lw__json_unescape(key, name, key.raw.size, NULL), LW_OK);
        const json_t *member = json_object_get(other, name);
        struct lw__json found;
        bool same = member && is_same(part, member) && lw__json_find(value, name, &found)
                    && found.raw.data == part.raw.data;
        free(name);
        if (!same)
            return false;
    }
    return count == json_object_size(other);
}

static bool is_same(struct lw__json value, const json_t *other) {
    switch (lw__json_type(value)) {
    case LW__JSON_NULL: return json_is_null(other);
    case LW__JSON_BOOL: return lw__slice_is(value.raw, json_is_true(other) ? "true" : "false");
    case LW__JSON_NUMBER: return json_is_number(other) && is_same_number(value, other);
    case LW__JSON_STRING:
        return json_is_string(other)
               && is_same_string(value, json_string_value(other), json_string_length(other));
    case LW__JSON_ARRAY: return json_is_array(other) && is_same_array(value, other);
    default: return json_is_object(other) && is_same_object(value, other);
    }
}

/* Where the two differ on purpose: numbers stay text here until they are asked for, so that none is
 * too large; and a key may have a zero. */
static bool is_jansson_alone(const json_error_t *err) {
    enum json_error_code code = json_error_code(err);
    return code == json_error_numeric_overflow || code == json_error_null_byte_in_key;
}

enum verdict { BOTH_READ, BOTH_REFUSE, JANSSON_ALONE };

static enum verdict compare(struct lw__slice text) {
    json_error_t other_err;
    struct lw__json_error err = {.sentence = ""};
    struct lw__json value;
    char *block = malloc(text.size + (text.size == 0)); /* ends where it ends */
    memcpy(block, text.data, text.size);
    int status = lw__json_read((struct lw__slice){block, text.size}, &limits, &value, &err);
    json_t *other =
        json_loadb(text.data, text.size, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL,
                   &other_err);
    bool alone = !other && is_jansson_alone(&other_err);
    if (other && memchr(text.data, 0, text.size)) { /* to jansson a zero is the end of the text */
        json_decref(other);
        other = NULL;
    }
    if (!alone && (other != NULL) != (status == LW_OK)) {
        fprintf(stderr, "jansson: %s\nlegwork: %s\n%.*s\n", other ? "fine" : other_err.text,
                status < 0 ? err.sentence : "fine", (int)text.size, text.data);
        abort();
    }
    if (other && !is_same(value, other)) {
        fprintf(stderr, "does not mean the same: %.*s\n", (int)text.size, text.data);
        abort();
    }
    json_decref(other);
    free(block);
    return alone ? JANSSON_ALONE : status == LW_OK ? BOTH_READ : BOTH_REFUSE;
}

/* ---- random documents ----------------------------------------------------------------------- */

struct maker {
    uint64_t state;
    struct lw__buffer out;
    char memory[TEXT_MAX];
};

static unsigned draw(struct maker *maker, unsigned below) {
    maker->state = maker->state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(maker->state >> 33) % below;
}

static void put_one_of(struct maker *maker, const char *const *choices, unsigned count) {
    lw__buffer_put_text(&maker->out, choices[draw(maker, count)]);
}

#define PUT_ONE_OF(maker, ...)                              \
    put_one_of((maker), (const char *const[]){__VA_ARGS__}, \
               sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *))

static void put_space(struct maker *maker) {
    PUT_ONE_OF(maker, "", "", "", "", " ", "\n", "\t ", "\r\n");
}

static void put_string(struct maker *maker) {
    lw__buffer_put_byte(&maker->out, '"');
    for (unsigned i = draw(maker, 8); i > 0; i--)
        PUT_ONE_OF(maker, "a", "b", "c", "0", " ", "\\n", "\\\"", "\\\\", "\\/", "\\u0041",
                   "\\u00e4", "\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\\ud83d\\ude00",
                   "\\u0000", "\x7f", "\\b\\f\\r\\t");
    lw__buffer_put_byte(&maker->out, '"');
}

static void put_number(struct maker *maker) {
    PUT_ONE_OF(maker, "", "-");
    PUT_ONE_OF(maker, "0", "7", "12", "9007199254740993", "9223372036854775807",
               "123456789012345678901234567890");
    PUT_ONE_OF(maker, "", "", ".0", ".125", ".1000000000000000055511151231257827");
    PUT_ONE_OF(maker, "", "", "e0", "E+2", "e-30", "e300", "e400");
}

static void put_value(struct maker *maker, unsigned depth);

static void put_parts(struct maker *maker, unsigned depth, bool is_object) {
    lw__buffer_put_byte(&maker->out, is_object ? '{' : '[');
    put_space(maker);
    for (unsigned count = draw(maker, 5), i = 0; i < count; i++) {
        lw__buffer_put_text(&maker->out, i > 0 ? "," : "");
        put_space(maker);
        if (is_object) {
            put_string(maker);
            put_space(maker);
            lw__buffer_put_byte(&maker->out, ':');
            put_space(maker);
        }
        put_value(maker, depth - 1);
        put_space(maker);
    }
    lw__buffer_put_byte(&maker->out, is_object ? '}' : ']');
}

static void put_value(struct maker *maker, unsigned depth) {
    switch (draw(maker, depth > 0 ? 6 : 3)) {
    case 0: PUT_ONE_OF(maker, "null", "true", "false"); break;
    case 1: put_number(maker); break;
    case 2: put_string(maker); break;
    case 3: put_parts(maker, depth, false); break;
    default: put_parts(maker, depth, true);
    }
}

static void change_a_byte(struct maker *maker) {
    static const char bytes[] = "\"\\{}[],:0e-.u \n\x01\x80\xc3\xed\xff tnf";
    size_t at = draw(maker, (unsigned)maker->out.size);
    char byte = bytes[draw(maker, sizeof bytes)];
    switch (draw(maker, 3)) {
    case 0: maker->out.data[at] = byte; break;
    case 1: memmove(maker->out.data + at, maker->out.data + at + 1, --maker->out.size - at); break;
    default: maker->out.size = at;
    }
}

TEST(random_documents_are_read_alike) {
    static struct maker maker = {.state = 6};
    unsigned counts[3] = {0};
    for (long round = test_scale(20000, 1000000); round > 0; round--) {
        lw__buffer_init_fixed(&maker.out, maker.memory, sizeof maker.memory);
        put_space(&maker);
        put_value(&maker, 1 + draw(&maker, 6));
        put_space(&maker);
        if (maker.out.status < 0)
            continue;
        counts[compare(lw__buffer_slice(&maker.out))]++;
        for (unsigned i = draw(&maker, 3); i > 0 && maker.out.size > 0; i--) {
            change_a_byte(&maker);
            counts[compare(lw__buffer_slice(&maker.out))]++;
        }
    }
    CHECK(counts[BOTH_READ] > 5000 && counts[BOTH_REFUSE] > 5000); /* both are tried */
}

/* ---- files ---------------------------------------------------------------------------------- */

static void compare_file(const char *folder, const char *name) {
    static char text[TEXT_MAX];
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t size = fread(text, 1, sizeof text, file);
    fclose(file);
    compare((struct lw__slice){text, size});
}

TEST(every_file_of_the_corpus_is_read_alike) {
    int count = 0;
    DIR *folder = opendir(CORPUS "/json");
    assert_non_null(folder);
    for (const struct dirent *entry; (entry = readdir(folder));)
        if (entry->d_name[0] != '.') {
            compare_file(CORPUS "/json", entry->d_name);
            count++;
        }
    closedir(folder);
    CHECK(count >= 20);
}
