/* Checking a document, in one pass and without recursion.
 *
 * The names of an object's members are noted in the caller's memory, and looked through when the
 * object closes: sorted by hash and, where hashes are equal, by what they mean. So a hostile object
 * of n members costs n log n comparisons, whatever its names are. */
#include "server/json.h"
#include "server/json_string.h"
#include "server/utf8.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

struct level {
    size_t first_key; /* of an object */
    bool is_object;
};

struct reader {
    const char *text, *at, *end;
    const struct lw__json_limits *limits;
    size_t depth;
    size_t key_count; /* of all open objects */
    struct lw__json_error *err;
    struct level levels[LW__JSON_DEPTH_MAX];
};

/* ---- refusing ------------------------------------------------------------------------------- */

LW_PRINTF(3, 4)
static bool refuse(struct reader *reader, const char *at, const char *format, ...) {
    struct lw__json_error *err = reader->err;
    if (!err)
        return false;
    err->offset = (size_t)(at - reader->text);
    err->line = err->column = 1;
    for (const char *p = reader->text; p < at; p++) {
        err->column = *p == '\n' ? 1 : err->column + 1;
        err->line += *p == '\n';
    }
    int length = snprintf(err->sentence, sizeof err->sentence, "line %u, column %u: ", err->line,
                          err->column);
    va_list args;
    va_start(args, format);
    vsnprintf(err->sentence + length, sizeof err->sentence - (size_t)length, format, args);
    va_end(args);
    return false;
}

/* Something else stands where `wanted` should. */
static bool refuse_here(struct reader *reader, const char *wanted) {
    if (reader->at == reader->end)
        return refuse(reader, reader->at, "the text ends where %s should be", wanted);
    struct lw__slice seen = {reader->at, 1};
    return refuse(reader, reader->at, "here is \"%s\" where %s should be",
                  lw__slice_show(seen).text, wanted);
}

/* ---- scalars -------------------------------------------------------------------------------- */

static void skip_space(struct reader *reader) {
    while (reader->at < reader->end
           && (*reader->at == ' ' || *reader->at == '\n' || *reader->at == '\r'
               || *reader->at == '\t'))
        reader->at++;
}

static bool read_word(struct reader *reader, const char *word) {
    size_t length = strlen(word);
    if ((size_t)(reader->end - reader->at) < length || memcmp(reader->at, word, length) != 0)
        return refuse_here(reader, "a value");
    reader->at += length;
    return true;
}

static bool read_digits(struct reader *reader) {
    const char *first = reader->at;
    while (reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9')
        reader->at++;
    return reader->at > first || refuse_here(reader, "a digit");
}

static bool has(const struct reader *reader, char c) {
    return reader->at < reader->end && *reader->at == c;
}

static bool read_number(struct reader *reader) {
    if (has(reader, '-'))
        reader->at++;
    const char *first = reader->at;
    if (!read_digits(reader))
        return false;
    if (*first == '0' && reader->at > first + 1)
        return refuse(reader, first, "a number begins with a 0 too many");
    if (has(reader, '.')) {
        reader->at++;
        if (!read_digits(reader))
            return false;
    }
    if (has(reader, 'e') || has(reader, 'E')) {
        reader->at++;
        if (has(reader, '+') || has(reader, '-'))
            reader->at++;
        return read_digits(reader);
    }
    return true;
}

/* A \uXXXX; `escape` is at the backslash, reader->at behind the u. */
static bool read_unicode(struct reader *reader, const char *escape) {
    int first = lw__json_hex4(reader->at, reader->end);
    if (first < 0)
        return refuse(reader, escape, "\\u has no four hex digits after it");
    reader->at += 4;
    if (first < 0xd800 || first > 0xdfff)
        return true;
    int second = -1;
    if (reader->end - reader->at >= 6 && reader->at[0] == '\\' && reader->at[1] == 'u')
        second = lw__json_hex4(reader->at + 2, reader->end);
    if (first > 0xdbff || second < 0xdc00 || second > 0xdfff)
        return refuse(reader, escape, "\\u%04x is half a pair, and the other half is not there",
                      (unsigned)first);
    reader->at += 6;
    return true;
}

static bool read_escape(struct reader *reader) {
    const char *escape = reader->at++;
    if (reader->at == reader->end)
        return refuse_here(reader, "the end of a string");
    char code = *reader->at++;
    if (code == 'u')
        return read_unicode(reader, escape);
    if (code != 0 && strchr("\"\\/bfnrt", code))
        return true;
    return refuse(reader, escape, "\"%s\" is no escape",
                  lw__slice_show((struct lw__slice){escape, 2}).text);
}

static bool read_wide(struct reader *reader) {
    size_t length = lw__utf8_measure(reader->at, reader->end);
    if (length == 0)
        return refuse(reader, reader->at, "the byte 0x%02x is no part of UTF-8 here",
                      (unsigned char)*reader->at);
    reader->at += length;
    return true;
}

static bool read_string(struct reader *reader) {
    const char *quote = reader->at++;
    for (;;) {
        reader->at = lw__json_skip_plain(reader->at, reader->end);
        if (reader->at == reader->end || *reader->at == '"')
            break;
        unsigned char byte = (unsigned char)*reader->at;
        if (byte < 0x20)
            return refuse(reader, reader->at, "the control byte 0x%02x is in a string, escape it",
                          byte);
        if (byte == '\\') {
            if (!read_escape(reader))
                return false;
        } else if (!read_wide(reader)) {
            return false;
        }
    }
    if (reader->at == reader->end)
        return refuse(reader, quote, "a string begins here and does not end");
    reader->at++;
    return true;
}

/* ---- keys ----------------------------------------------------------------------------------- */

/* The text of a noted key, with its quotes. */
static struct lw__slice key_text(const struct reader *reader, const struct lw__json_key *key) {
    const char *quote = reader->text + key->at, *at = quote + 1;
    while (*at != '"')
        at += *at == '\\' ? 2 : 1;
    return lw__slice_between(quote, at + 1);
}

static int compare_keys(const struct reader *reader, const struct lw__json_key *a,
                        const struct lw__json_key *b) {
    if (a->hash != b->hash)
        return a->hash < b->hash ? -1 : 1;
    return lw__json_compare(key_text(reader, a), key_text(reader, b));
}

static void sift(const struct reader *reader, struct lw__json_key *keys, size_t root,
                 size_t count) {
    for (size_t child; (child = root * 2 + 1) < count; root = child) {
        if (child + 1 < count && compare_keys(reader, &keys[child], &keys[child + 1]) < 0)
            child++;
        if (compare_keys(reader, &keys[root], &keys[child]) >= 0)
            return;
        struct lw__json_key spare = keys[root];
        keys[root] = keys[child];
        keys[child] = spare;
    }
}

/* A heap sort: it needs no memory, and no input makes it slow. */
static void sort_keys(const struct reader *reader, struct lw__json_key *keys, size_t count) {
    for (size_t i = count / 2; i > 0; i--)
        sift(reader, keys, i - 1, count);
    for (size_t i = count; i > 1; i--) {
        struct lw__json_key last = keys[i - 1];
        keys[i - 1] = keys[0];
        keys[0] = last;
        sift(reader, keys, 0, i - 1);
    }
}

/* Refuses an object that has a name twice, and forgets its names. */
static bool check_keys(struct reader *reader, size_t first) {
    struct lw__json_key *keys = reader->limits->keys + first;
    size_t count = reader->key_count - first;
    if (count > 1)
        sort_keys(reader, keys, count);
    for (size_t i = 1; i < count; i++)
        if (compare_keys(reader, &keys[i - 1], &keys[i]) == 0) {
            uint32_t at = keys[i].at > keys[i - 1].at ? keys[i].at : keys[i - 1].at;
            struct lw__slice text = key_text(reader, &keys[i]);
            text = (struct lw__slice){text.data + 1, text.size - 2};
            return refuse(reader, reader->text + at, "the key \"%s\" is there twice",
                          lw__slice_show(text).text);
        }
    reader->key_count = first;
    return true;
}

/* A name and its colon. */
static bool read_key(struct reader *reader) {
    const struct lw__json_limits *limits = reader->limits;
    skip_space(reader);
    const char *quote = reader->at;
    if (!has(reader, '"'))
        return refuse_here(reader, "a key in quotes");
    if (reader->key_count == limits->keys_max)
        return refuse(reader, quote, "there are more than %zu keys", limits->keys_max);
    if (!read_string(reader))
        return false;
    limits->keys[reader->key_count++] = (struct lw__json_key){
        .at = (uint32_t)(quote - reader->text),
        .hash = lw__json_hash(lw__slice_between(quote, reader->at)),
    };
    skip_space(reader);
    if (!has(reader, ':'))
        return refuse_here(reader, "a colon");
    reader->at++;
    return true;
}

/* ---- values --------------------------------------------------------------------------------- */

static bool open_level(struct reader *reader) {
    if (reader->depth == reader->limits->depth_max)
        return refuse(reader, reader->at, "it is more than %zu levels deep",
                      reader->limits->depth_max);
    reader->levels[reader->depth++] =
        (struct level){.first_key = reader->key_count, .is_object = *reader->at == '{'};
    reader->at++;
    return true;
}

static bool close_level(struct reader *reader) {
    const struct level *level = &reader->levels[--reader->depth];
    reader->at++;
    return !level->is_object || check_keys(reader, level->first_key);
}

static bool read_scalar(struct reader *reader) {
    switch (reader->at < reader->end ? *reader->at : 0) {
    case '"': return read_string(reader);
    case 't': return read_word(reader, "true");
    case 'f': return read_word(reader, "false");
    case 'n': return read_word(reader, "null");
    case '-':
    case '0':
    case '1':
    case '2':
    case '3':
    case '4':
    case '5':
    case '6':
    case '7':
    case '8':
    case '9': return read_number(reader);
    default: return refuse_here(reader, "a value");
    }
}

/* Reads up to the end of a scalar or of an empty array or object: past all that opens before it. */
static bool read_first(struct reader *reader) {
    for (;;) {
        skip_space(reader);
        if (!has(reader, '{') && !has(reader, '['))
            return read_scalar(reader);
        if (!open_level(reader))
            return false;
        bool is_object = reader->levels[reader->depth - 1].is_object;
        skip_space(reader);
        if (has(reader, is_object ? '}' : ']'))
            return close_level(reader);
        if (is_object && !read_key(reader))
            return false;
    }
}

/* After a value: closes what ends here. *is_next tells that a comma followed, and what comes after
 * it is the next value. */
static bool read_rest(struct reader *reader, bool *is_next) {
    *is_next = false;
    while (reader->depth > 0 && !*is_next) {
        bool is_object = reader->levels[reader->depth - 1].is_object;
        skip_space(reader);
        if (has(reader, is_object ? '}' : ']')) {
            if (!close_level(reader))
                return false;
            continue;
        }
        if (!has(reader, ','))
            return refuse_here(reader, is_object ? "a comma or }" : "a comma or ]");
        reader->at++;
        *is_next = true;
        if (is_object && !read_key(reader))
            return false;
    }
    return true;
}

static bool read_value(struct reader *reader) {
    bool is_next = true;
    while (is_next)
        if (!read_first(reader) || !read_rest(reader, &is_next))
            return false;
    return true;
}

int lw__json_read(struct lw__slice text, const struct lw__json_limits *limits,
                  struct lw__json *value, struct lw__json_error *err) {
    struct reader reader;
    assert(limits->depth_max <= LW__JSON_DEPTH_MAX);
    reader.text = reader.at = text.data;
    reader.end = lw__slice_end(text);
    reader.limits = limits;
    reader.depth = reader.key_count = 0;
    reader.err = err;
    if (text.size > UINT32_MAX) {
        refuse(&reader, reader.at, "the text has 4 GiB or more");
        return LW_EINVAL;
    }
    skip_space(&reader);
    const char *begin = reader.at;
    if (!read_value(&reader))
        return LW_EINVAL;
    value->raw = lw__slice_between(begin, reader.at);
    skip_space(&reader);
    if (reader.at == reader.end)
        return LW_OK;
    refuse_here(&reader, "the end of the text");
    return LW_EINVAL;
}
