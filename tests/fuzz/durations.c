/* Fuzzes durations and sizes: what is read, written and read again is the same. */
#include "server/nearest.h"
#include "server/units.h"

#include <assert.h>
#include <legwork/api.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct lw__slice text = {(const char *)data, size};
    struct lw__units_text written;
    int64_t value, again;
    lw_error err = {0};
    if (lw__duration_read(text, &value, &err) == LW_OK) {
        assert(value >= 0 && value <= LW_TIMEOUT_MS_MAX);
        written = lw__duration_write(value);
        assert(lw__duration_read(lw__slice_of(written.text), &again, NULL) == LW_OK);
        assert(again == value);
    } else {
        assert(err.message[0] != 0);
    }
    if (lw__size_read(text, &value, &err) == LW_OK) {
        assert(value >= 0 && value <= INT64_C(1) << 53);
        written = lw__size_write(value);
        assert(lw__size_read(lw__slice_of(written.text), &again, NULL) == LW_OK);
        assert(again == value);
    }
    struct lw__nearest nearest;
    lw__nearest_init(&nearest, text);
    lw__nearest_offer(&nearest, "listen");
    return 0;
}
