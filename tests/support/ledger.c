#include "ledger.h"

#include "test.h"

#include <fcntl.h>
#include <legwork/task.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

_Static_assert(sizeof(struct ledger_record) == 64, "a power of two: none crosses a page");

uint64_t ledger_hash(uint64_t seed, uint64_t value) {
    uint64_t x = seed + value * 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

struct ledger_plan ledger_plan(uint64_t seed, uint64_t serial) {
    uint64_t dice = ledger_hash(seed, serial);
    unsigned retries = (unsigned)(dice % 100), end = (unsigned)(dice / 100 % 100);
    unsigned successors = (unsigned)(dice / 10000 % 100);
    return (struct ledger_plan){
        .retries = retries < 75   ? 0
                   : retries < 90 ? 1
                                  : 2,
        .end = end < 88   ? LW_OUTCOME_DONE
               : end < 94 ? LW_OUTCOME_FAIL
                          : LW_OUTCOME_ABORT,
        .successors = successors < 80   ? 0
                      : successors < 95 ? 1
                                        : 3,
    };
}

uint64_t ledger_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

int ledger_open(const char *path) {
    int ledger = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    CHECK(ledger >= 0);
    return ledger;
}

void ledger_append(int ledger, struct ledger_record record) {
    record.at_ns = ledger_now_ns();
    CHECK(write(ledger, &record, sizeof record) == (ssize_t)sizeof record);
}

const struct ledger_record *ledger_map(int ledger, size_t *count) {
    struct stat status;
    CHECK(fstat(ledger, &status) == 0 && status.st_size % (off_t)sizeof(struct ledger_record) == 0);
    *count = (size_t)status.st_size / sizeof(struct ledger_record);
    if (*count == 0)
        return NULL;
    void *records = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_SHARED, ledger, 0);
    CHECK(records != MAP_FAILED);
    return records;
}
