/* JSON as slices: read without allocating, and written into a buffer.
 *
 * Reading. lw__json_read checks a whole document, once, and gives back its value: a slice of the
 * text. From then on values are taken apart by slices again; what a value is made of is looked at
 * when it is asked for, and a value that nobody takes apart (a payload) passes byte for byte.
 *
 * Strict means RFC 8259 and nothing else, in UTF-8 that is well formed, escapes of surrogates in
 * pairs only, no BOM; and no two members of an object with the same name, however it is spelled,
 * because two programs that read them would not agree.
 *
 * Threads: none of this has state; the memory for keys is for one reader at a time. */
#ifndef LW_SERVER_JSON_H
#define LW_SERVER_JSON_H

#include "server/buffer.h"
#include "server/slice.h"

#include <legwork/status.h>
#include <stdint.h>

/* ---- reading -------------------------------------------------------------------------------- */

#define LW__JSON_DEPTH_MAX 128  /* the most that limits.depth_max can allow */
#define LW__JSON_NUMBER_MAX 256 /* bytes of a number that can be converted */

/* A name of a member, noted to find it again. */
struct lw__json_key {
    uint32_t at;   /* its place in the text */
    uint32_t hash; /* of what it means */
};

struct lw__json_limits {
    size_t depth_max;          /* arrays and objects in each other. At most LW__JSON_DEPTH_MAX */
    struct lw__json_key *keys; /* the caller's, used while a document is read */
    size_t keys_max;           /* members of all objects that are open at one place of the text */
};

/* Where and why a document is refused. */
struct lw__json_error {
    size_t offset;         /* in bytes, from 0 */
    unsigned line, column; /* from 1; columns in bytes */
    char sentence[200];    /* "line 2, column 5: ..." */
};

enum lw__json_type {
    LW__JSON_NULL,
    LW__JSON_BOOL,
    LW__JSON_NUMBER,
    LW__JSON_STRING,
    LW__JSON_ARRAY,
    LW__JSON_OBJECT
};

/* One value: its text, without spaces around it. */
struct lw__json {
    struct lw__slice raw;
};

/* Checks a document of less than 4 GiB. Returns LW_OK: *value is its value, in the text, and lives
 * as long; or LW_EINVAL, with *err (which may be NULL). */
int lw__json_read(struct lw__slice text, const struct lw__json_limits *limits,
                  struct lw__json *value, struct lw__json_error *err);

/* All that follows takes values that came from lw__json_read, or from a part of such a value; of
 * other bytes it makes nonsense, but reads none outside of the slice. */

enum lw__json_type lw__json_type(struct lw__json value);
const char *lw__json_type_name(enum lw__json_type type); /* "an object", for sentences */

/* The parts of an array or object, one by one:
 *
 *     struct lw__json_walk walk = lw__json_enter(value);
 *     while (lw__json_next(&walk, &key, &part))
 *
 * Of an array the key has size 0. A value that is neither has no parts. */
struct lw__json_walk {
    const char *at, *end;
    bool is_object;
};

struct lw__json_walk lw__json_enter(struct lw__json value);
bool lw__json_next(struct lw__json_walk *walk, struct lw__json *key, struct lw__json *part);

/* The member of that name; false if there is none, or the value is no object. */
bool lw__json_find(struct lw__json object, const char *name, struct lw__json *part);

/* Whether a string, a key for example, means this text. */
bool lw__json_is(struct lw__json string, const char *text);

/* What a string means, written into the caller's memory and ended with a zero; it never needs more
 * than raw.size - 1 bytes with that. *size (may be NULL) is without the zero; the text itself may
 * have zeros. Returns LW_OK; LW_EINVAL: no string; LW_EFULL: no room. */
int lw__json_unescape(struct lw__json string, char *into, size_t room, size_t *size);

/* If a string has no escapes, what it means is a part of the text; otherwise false. */
bool lw__json_plain(struct lw__json string, struct lw__slice *text);

/* Numbers are text until they are asked for. A whole number is one without . and e, in range;
 * others are refused rather than rounded. A double is the nearest one; what is too large for any is
 * refused. Return LW_OK, or LW_EINVAL with a sentence that begins with the value. */
int lw__json_int(struct lw__json value, int64_t *number, lw_error *err);
int lw__json_uint(struct lw__json value, uint64_t *number, lw_error *err);
int lw__json_double(struct lw__json value, double *number, lw_error *err);
int lw__json_bool(struct lw__json value, bool *is_true, lw_error *err);

/* ---- writing -------------------------------------------------------------------------------- */

#define LW__JSON_WRITE_DEPTH_MAX 32

/* Writes one document, without spaces; the commas and colons come by themselves. Asserts that keys
 * stand in objects and nowhere else, and that what is opened is closed. Whether all of it fitted,
 * the buffer knows. */
struct lw__json_writer {
    struct lw__buffer *out;
    uint32_t in_object; /* one bit a level, the innermost lowest */
    uint32_t has_parts; /* likewise: a comma is due */
    unsigned depth;
    bool has_key; /* a value is due */
};

void lw__json_write(struct lw__json_writer *writer, struct lw__buffer *out);

void lw__json_object(struct lw__json_writer *writer);
void lw__json_array(struct lw__json_writer *writer);
void lw__json_close(struct lw__json_writer *writer); /* the innermost of either */
void lw__json_key(struct lw__json_writer *writer, const char *name);

void lw__json_put_null(struct lw__json_writer *writer);
void lw__json_put_bool(struct lw__json_writer *writer, bool is_true);
void lw__json_put_int(struct lw__json_writer *writer, int64_t number);
void lw__json_put_uint(struct lw__json_writer *writer, uint64_t number);
/* The shortest text that reads back as the same; null for what JSON has no number for. */
void lw__json_put_double(struct lw__json_writer *writer, double number);
/* Escapes what must be; bytes that are no UTF-8 become U+FFFD, one each. */
void lw__json_put_string(struct lw__json_writer *writer, struct lw__slice text);
void lw__json_put_text(struct lw__json_writer *writer, const char *text); /* NULL: null */
/* A value that is JSON already, byte for byte. */
void lw__json_put_raw(struct lw__json_writer *writer, struct lw__slice raw);
/* A string of base64, for bytes that are no text. */
void lw__json_put_base64(struct lw__json_writer *writer, struct lw__slice bytes);

#endif
