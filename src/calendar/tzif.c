/* Reading TZif files (RFC 9636): the eight-byte block of version 2 and later, and the rule at the
 * end. The bytes may be anything: every count and offset is checked before it is used. */
#include "calendar/tz.h"

#include "base/error.h"
#include "base/memory.h"

#include <stdio.h>
#include <string.h>

#define HEADER_SIZE 44
#define KIND_SIZE 6 /* offset, daylight saving, place of the abbreviation */
#define KIND_COUNT_MAX 256

/* What a header counts. */
struct counts {
    uint32_t utc, standard, leaps, changes, kinds, letters;
};

/* One file while it is read: what is left of it. */
struct reader {
    const unsigned char *at;
    size_t left;
};

static uint32_t read_32(const unsigned char *at) {
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static int64_t read_64(const unsigned char *at) {
    return (int64_t)((uint64_t)read_32(at) << 32 | read_32(at + 4));
}

/* Takes so many bytes; NULL: there are fewer. */
static const unsigned char *take(struct reader *reader, size_t size) {
    if (reader->left < size)
        return NULL;
    const unsigned char *at = reader->at;
    reader->at += size;
    reader->left -= size;
    return at;
}

static int refuse(lw_error *err, const char *why) {
    return lw__error_set(err, LW_ECORRUPT, 0, "%s", why);
}

/* ---- headers ------------------------------------------------------------------------------- */

static int read_header(struct reader *reader, struct counts *counts, lw_error *err) {
    const unsigned char *at = take(reader, HEADER_SIZE);
    if (!at || memcmp(at, "TZif", 4) != 0)
        return refuse(err, "it is no TZif file: its first bytes are not \"TZif\" and a header");
    if (at[4] < '2')
        return refuse(err, "it is a TZif file of version 1; version 2 or later is wanted");
    *counts = (struct counts){.utc = read_32(at + 20),
                              .standard = read_32(at + 24),
                              .leaps = read_32(at + 28),
                              .changes = read_32(at + 32),
                              .kinds = read_32(at + 36),
                              .letters = read_32(at + 40)};
    const uint32_t all[] = {counts->utc,     counts->standard, counts->leaps,
                            counts->changes, counts->kinds,    counts->letters};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i] > LW_ZONE_FILE_MAX)
            return refuse(err, "it counts more entries than a file may have bytes");
    return LW_OK;
}

/* The bytes of a block, whose times have `width`. No count is larger than LW_ZONE_FILE_MAX. */
static size_t block_size(const struct counts *c, size_t width) {
    return c->changes * (width + 1) + c->kinds * (size_t)KIND_SIZE + c->letters
           + c->leaps * (width + 4) + c->standard + c->utc;
}

static int check_counts(const struct counts *c, lw_error *err) {
    if (c->leaps > 0)
        return lw__error_set(err, LW_EINVAL, 0,
                             "it counts leap seconds, as the zones of \"right/\" do, and instants "
                             "here do not: use the zone of the same name without \"right/\"");
    if (c->kinds < 1 || c->kinds > KIND_COUNT_MAX || c->letters < 1)
        return refuse(err, "it must have 1 to 256 kinds of local time, and their abbreviations");
    return LW_OK;
}

/* ---- the block ----------------------------------------------------------------------------- */

static bool is_abbreviation_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '+'
           || c == '-';
}

/* Copies one that begins at `place` of the letters and ends with a zero among them. */
static bool read_abbreviation(struct lw__tz_kind *kind, const unsigned char *letters, size_t count,
                              size_t place) {
    for (size_t i = 0; place + i < count && i <= LW_ZONE_ABBREVIATION_MAX; i++) {
        kind->abbreviation[i] = (char)letters[place + i];
        if (kind->abbreviation[i] == 0)
            return true;
        if (!is_abbreviation_letter(kind->abbreviation[i]))
            return false;
    }
    return false;
}

static int read_kinds(struct lw__tz *tz, const struct counts *c, const unsigned char *kinds,
                      const unsigned char *letters, lw_error *err) {
    for (uint32_t i = 0; i < c->kinds; i++) {
        const unsigned char *at = kinds + (size_t)i * KIND_SIZE;
        tz->kinds[i].offset_s = (int32_t)read_32(at);
        tz->kinds[i].is_dst = at[4] != 0;
        if (tz->kinds[i].offset_s <= -LW__TZ_OFFSET_S_LIMIT
            || tz->kinds[i].offset_s >= LW__TZ_OFFSET_S_LIMIT || at[4] > 1)
            return refuse(err, "one of its offsets is 26 hours or more, or marked wrongly");
        if (!read_abbreviation(&tz->kinds[i], letters, c->letters, at[5]))
            return refuse(err, "one of its abbreviations is no text of up to 15 letters, digits, + "
                               "and -");
    }
    return LW_OK;
}

/* Reads the instants at which the kind changes. Those before all that is of interest only tell what
 * holds at first; those after it are left out. */
static int read_changes(struct lw__tz *tz, const struct counts *c, const unsigned char *times,
                        const unsigned char *indexes, lw_error *err) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < c->changes; i++) {
        int64_t at = read_64(times + 8 * (size_t)i);
        if (i > 0 && at <= read_64(times + 8 * (size_t)(i - 1)))
            return refuse(err, "its clock changes are not in order");
        if (indexes[i] >= c->kinds)
            return refuse(err, "it has a clock change to a kind of local time that is not there");
        if (at > LW__TZ_FIRST_S && at < LW__TZ_LAST_S)
            tz->changes[count++] = at;
        if (at < LW__TZ_LAST_S)
            tz->kind_from[count] = indexes[i];
    }
    tz->change_count = count;
    return LW_OK;
}

/* ---- the rule ------------------------------------------------------------------------------ */

/* What follows the block: a newline, the rule (or nothing), a newline. */
static int find_rule(struct reader *reader, const char **text, size_t *size, lw_error *err) {
    const char *end = reader->left > 1 ? memchr(reader->at + 1, '\n', reader->left - 1) : NULL;
    if (!end || *reader->at != '\n')
        return refuse(err, "it has no line with a rule at its end, or is cut off");
    *text = (const char *)reader->at + 1;
    *size = (size_t)(end - *text);
    return LW_OK;
}

static int read_rule(struct lw__tz *tz, struct reader *reader, lw_error *err) {
    const char *text = NULL;
    size_t size = 0;
    if (find_rule(reader, &text, &size, err) < 0)
        return LW_ECORRUPT;
    if (size == 0) /* the last change holds for ever */
        return LW_OK;
    if (lw__tz_rule_read(&tz->rule, text, size, err) < 0)
        return LW_ECORRUPT;
    tz->has_rule = tz->rule.has_dst;
    if (tz->has_rule) {
        tz->rule_from = tz->change_count > 0 ? tz->changes[tz->change_count - 1] : LW__TZ_FIRST_S;
    } else {
        tz->kinds[tz->kind_count - 1] = tz->rule.standard;
        tz->kind_from[tz->change_count] = (uint16_t)(tz->kind_count - 1);
    }
    return LW_OK;
}

/* ---- all of it ----------------------------------------------------------------------------- */

/* The first block has times of four bytes and is for older readers. */
static int skip_first_block(struct reader *reader, lw_error *err) {
    struct counts counts;
    int rc = read_header(reader, &counts, err);
    if (rc == LW_OK && !take(reader, block_size(&counts, 4)))
        return refuse(err, "it is cut off in its first block");
    return rc;
}

static int read_second_block(struct lw__tz *tz, const struct counts *c, const unsigned char *block,
                             lw_error *err) {
    const unsigned char *indexes = block + 8 * (size_t)c->changes;
    const unsigned char *kinds = indexes + c->changes;
    const unsigned char *letters = kinds + (size_t)c->kinds * KIND_SIZE;
    int rc = read_kinds(tz, c, kinds, letters, err);
    return rc < 0 ? rc : read_changes(tz, c, block, indexes, err);
}

int lw__tzif_read(struct lw__tz **tz, const lw_allocator *allocator, const void *bytes, size_t size,
                  lw_error *err) {
    struct reader reader = {bytes, size};
    struct counts counts;
    int rc = skip_first_block(&reader, err);
    if (rc == LW_OK)
        rc = read_header(&reader, &counts, err);
    if (rc == LW_OK)
        rc = check_counts(&counts, err);
    if (rc < 0)
        return rc;
    const unsigned char *block = take(&reader, block_size(&counts, 8));
    if (!block)
        return refuse(err, "it is cut off in its second block");
    struct lw__tz *made = lw__tz_alloc(allocator, counts.changes, counts.kinds + 1);
    if (!made)
        return lw__error_set(err, LW_ENOMEM, 0, "no memory for the data of a zone");
    rc = read_second_block(made, &counts, block, err);
    if (rc == LW_OK)
        rc = read_rule(made, &reader, err);
    if (rc < 0) {
        lw__tz_release(made, allocator);
        return rc;
    }
    lw__tz_settle(made);
    *tz = made;
    return LW_OK;
}
