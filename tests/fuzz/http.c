/* Fuzzes the HTTP parsers: whatever the bytes are and however they are cut, they say the same. */
#include "transcript.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char memory[2][64 << 10];

/* The first byte says how large the pieces are, and whether they are answers. */
static int say(struct lw__slice text, uint8_t first, size_t step, struct lw__buffer *out) {
    if (first < 128)
        return transcribe(text, step, &transcript_limits, out);
    return transcribe_answers(text, first & 64 ? LW__HTTP_HEAD : LW__HTTP_GET, step,
                              &transcript_limits, out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0)
        return 0;
    struct lw__slice text = {(const char *)data + 1, size - 1};
    struct lw__buffer whole, pieces;
    lw__buffer_init_fixed(&whole, memory[0], sizeof memory[0]);
    lw__buffer_init_fixed(&pieces, memory[1], sizeof memory[1]);
    int status = say(text, data[0], size, &whole);
    size_t step = 1 + data[0] % 61 + size / 256; /* the copies would make it quadratic */
    assert(say(text, data[0], step, &pieces) == status);
    assert(whole.status == LW_OK && pieces.status == LW_OK && whole.size == pieces.size);
    assert(memcmp(whole.data, pieces.data, whole.size) == 0);
    return 0;
}
