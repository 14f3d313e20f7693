/* Base64. */
#include "server/base64.h"

#include "server/refuse.h"

#include <stdint.h>

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* Four letters for one to three bytes. */
static void write_group(char *letters, const unsigned char *bytes, size_t count) {
    uint32_t bits = (uint32_t)bytes[0] << 16;
    bits |= count > 1 ? (uint32_t)bytes[1] << 8 : 0;
    bits |= count > 2 ? bytes[2] : 0;
    for (size_t i = 0; i < 4; i++)
        letters[i] = i <= count ? alphabet[bits >> (18 - 6 * i) & 63] : '=';
}

int lw__base64_write(struct lw__buffer *out, struct lw__slice bytes) {
    const unsigned char *at = (const unsigned char *)bytes.data;
    size_t groups = bytes.size / 3 + (bytes.size % 3 > 0);
    if (bytes.size == 0)
        return out->status;
    if (groups > SIZE_MAX / 4)
        return out->status = LW_EFULL;
    char *letters = lw__buffer_take(out, groups * 4);
    for (size_t i = 0; letters && i < bytes.size; i += 3, letters += 4)
        write_group(letters, at + i, bytes.size - i < 3 ? bytes.size - i : 3);
    return out->status;
}

static int value_of(char letter) {
    if (letter >= 'A' && letter <= 'Z')
        return letter - 'A';
    if (letter >= 'a' && letter <= 'z')
        return letter - 'a' + 26;
    if (letter >= '0' && letter <= '9')
        return letter - '0' + 52;
    return letter == '+' ? 62 : letter == '/' ? 63 : -1;
}

/* The bytes of one group, `count` of them; false if a letter is none, or bits are left over. */
static bool read_group(char *bytes, const char *letters, size_t count) {
    uint32_t bits = 0;
    for (size_t i = 0; i < 4; i++) {
        int value = i <= count ? value_of(letters[i]) : 0;
        if (value < 0)
            return false;
        bits = bits << 6 | (uint32_t)value;
    }
    for (size_t i = 0; i < count; i++)
        bytes[i] = (char)(bits >> (16 - 8 * i) & 255);
    return count == 3 || (bits & (count == 2 ? 0xffu : 0xffffu)) == 0;
}

int lw__base64_read(struct lw__buffer *out, struct lw__slice text, lw_error *err) {
    size_t start = out->size;
    if (text.size % 4 != 0)
        return lw__refuse(err, LW_EINVAL, "base64 has %zu letters, must have a multiple of four",
                          text.size);
    if (text.size == 0)
        return out->status;
    size_t pads = text.data[text.size - 1] != '=' ? 0 : text.data[text.size - 2] != '=' ? 1 : 2;
    char *bytes = lw__buffer_take(out, text.size / 4 * 3 - pads);
    for (size_t i = 0; bytes && i < text.size; i += 4, bytes += 3)
        if (!read_group(bytes, text.data + i, i + 4 == text.size ? 3 - pads : 3)) {
            lw__buffer_cut(out, start);
            return lw__refuse(err, LW_EINVAL, "base64 has \"%s\" at position %zu",
                              lw__slice_show((struct lw__slice){text.data + i, 4}).text, i + 1);
        }
    return out->status;
}
