/* What a zone may be called, and offsets as names. */
#include "calendar/zone.h"

#include "base/error.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- offsets ------------------------------------------------------------------------------- */

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* Reads "2", "02", "02:30" or "0230" behind a sign. */
static bool read_hours(const char *text, int32_t *offset_s) {
    int digits[4], count = 0;
    size_t length = strlen(text);
    for (size_t i = 0; i < length; i++) {
        bool is_colon = text[i] == ':' && i == 2 && length == 5;
        if (is_colon)
            continue;
        if (!is_digit(text[i]) || count == 4)
            return false;
        digits[count++] = text[i] - '0';
    }
    if (count == 0 || count == 3 || (count == 4 && digits[2] > 5))
        return false;
    int hours = count == 1 ? digits[0] : digits[0] * 10 + digits[1];
    int minutes = count == 4 ? digits[2] * 10 + digits[3] : 0;
    *offset_s = hours * 3600 + minutes * 60;
    return *offset_s <= LW_ZONE_OFFSET_S_MAX;
}

void lw__zone_offset_write(char text[LW__ZONE_OFFSET_SIZE], int32_t offset_s) {
    unsigned size = (unsigned)abs(offset_s) % 360000;
    int used = snprintf(text, LW__ZONE_OFFSET_SIZE, "%c%02u:%02u", offset_s < 0 ? '-' : '+',
                        size / 3600 % 100, size / 60 % 60);
    if (size % 60 != 0)
        snprintf(text + used, LW__ZONE_OFFSET_SIZE - (size_t)used, ":%02u", size % 60);
}

static void set_fixed(struct lw__zone_name *read, int32_t offset_s) {
    read->is_fixed = true;
    read->offset_s = offset_s;
    snprintf(read->text, sizeof read->text, "UTC");
    snprintf(read->abbreviation, sizeof read->abbreviation, "UTC");
    if (offset_s == 0)
        return;
    unsigned minutes = (unsigned)abs(offset_s) / 60;
    lw__zone_offset_write(read->text, offset_s);
    snprintf(read->abbreviation, sizeof read->abbreviation, minutes % 60 ? "%c%02u%02u" : "%c%02u",
             offset_s < 0 ? '-' : '+', minutes / 60 % 100, minutes % 60);
}

static int read_offset(struct lw__zone_name *read, const char *name, const char *at,
                       lw_error *err) {
    int32_t offset_s = 0;
    if (!read_hours(at + 1, &offset_s))
        return lw__error_set(err, LW_EINVAL, 0,
                             "zone \"%s\" is no offset from -18:00 to +18:00, written as +02:00, "
                             "+0230, +2 or UTC+02:00",
                             lw__text_quote(name).text);
    set_fixed(read, *at == '-' ? -offset_s : offset_s);
    return LW_OK;
}

/* ---- names --------------------------------------------------------------------------------- */

static bool is_name_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_' || c == '-'
           || c == '+' || c == '.';
}

/* Parts of letters between single slashes, none of which begins with a dot: such a name cannot lead
 * out of the folder, or to a hidden file. */
static bool is_file_name(const char *name) {
    bool is_begin = true; /* of a part */
    for (; *name; name++) {
        if (*name == '/' ? is_begin : !is_name_letter(*name) || (is_begin && *name == '.'))
            return false;
        is_begin = *name == '/';
    }
    return !is_begin;
}

static bool is_sign(char c) {
    return c == '+' || c == '-';
}

int lw__zone_name_read(struct lw__zone_name *read, const char *name, lw_error *err) {
    *read = (struct lw__zone_name){.is_fixed = false};
    if (strcmp(name, "UTC") == 0 || strcmp(name, "Etc/UTC") == 0) {
        set_fixed(read, 0);
        return LW_OK;
    }
    if (is_sign(*name))
        return read_offset(read, name, name, err);
    if (strncmp(name, "UTC", 3) == 0 && is_sign(name[3]))
        return read_offset(read, name, name + 3, err);
    if (strncmp(name, "GMT", 3) == 0 && is_sign(name[3]) && strcmp(name + 4, "0") != 0)
        return lw__error_set(err, LW_EINVAL, 0,
                             "zone \"%s\" could mean either direction: write UTC%s or %s if it is "
                             "that of ISO 8601, or Etc/%s if it is that of POSIX",
                             lw__text_quote(name).text, lw__text_quote(name + 3).text,
                             lw__text_quote(name + 3).text, lw__text_quote(name).text);
    size_t length = strnlen(name, LW_ZONE_NAME_MAX + 1);
    if (length > LW_ZONE_NAME_MAX || !is_file_name(name))
        return lw__error_set(err, LW_EINVAL, 0,
                             "zone \"%s\" is no name of a zone: 1 to %d letters, digits and _ - + "
                             "with single slashes in between, such as Europe/Berlin",
                             lw__text_quote(name).text, LW_ZONE_NAME_MAX);
    memcpy(read->text, name, length + 1);
    return LW_OK;
}
