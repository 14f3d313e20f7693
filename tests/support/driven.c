#include "driven.h"

#include "stores.h"

#include <legwork/testing.h>
#include <stdio.h>

void open_driven(struct driven *d) {
    lw_error err = {0};
    int rc =
        lw_open(&d->engine, d->url, LW_ENGINE_OPTIONS(.workers = LW_ZERO, .clock = d->clock), &err);
    if (rc < 0)
        fprintf(stderr, "%s\n", err.message);
    assert_status(rc, LW_OK);
}

void on_each_store(void (*body)(struct driven *d)) {
    const char *urls[STORES_MAX];
    for (size_t i = 0, count = list_stores(urls); i < count; i++) {
        struct driven d = {.clock = open_clock(), .url = urls[i]};
        open_driven(&d);
        body(&d);
        close_engine(d.engine);
        lw_test_clock_close(d.clock);
    }
}
