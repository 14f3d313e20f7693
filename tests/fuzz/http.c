/* Fuzzes the HTTP parser: whatever the bytes are and however they are cut, it says the same. */
#include "transcript.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char memory[2][64 << 10];

/* The first byte says how large the pieces are. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0)
        return 0;
    struct lw__slice text = {(const char *)data + 1, size - 1};
    struct lw__buffer whole, pieces;
    lw__buffer_init_fixed(&whole, memory[0], sizeof memory[0]);
    lw__buffer_init_fixed(&pieces, memory[1], sizeof memory[1]);
    int status = transcribe(text, size, &transcript_limits, &whole);
    size_t step = 1 + data[0] % 61 + size / 256; /* the copies would make it quadratic */
    assert(transcribe(text, step, &transcript_limits, &pieces) == status);
    assert(whole.status == LW_OK && pieces.status == LW_OK && whole.size == pieces.size);
    assert(memcmp(whole.data, pieces.data, whole.size) == 0);
    return 0;
}
