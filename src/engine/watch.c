/* Watches: event loops that wait for something to claim (legwork/lease.h).
 *
 * The store tells which queue has something new, under its mutex: here that is a bit per queue, a
 * bit for each word of these, and one write to a descriptor when the first of them is set. Whoever
 * reads takes the queues one by one, by number and round and round, so that none has to wait for
 * ever and finding one takes the same time however many there are; the descriptor is emptied when
 * there are none, under the same lock, so that nothing is missed. */
#include "engine/engine_internal.h"

#include "base/error.h"
#include "base/memory.h"

#include <errno.h>
#include <legwork/lease.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define BITS 64
#define WORDS (LW_QUEUES_MAX / BITS)
#define GROUPS (WORDS / BITS)

_Static_assert(GROUPS *BITS *BITS == LW_QUEUES_MAX, "two levels of bits tell all queues");

struct lw_claim_watch {
    lw_engine *engine;
    int fd;
    /* guarded by watches_mu */
    struct lw_claim_watch *next, **link;
    bool is_rung;
    uint32_t from;           /* the number from which on it looks */
    uint64_t groups[GROUPS]; /* words of `queues` that are not 0 */
    uint64_t queues[WORDS];  /* that have not been told */
};

static void ring_locked(lw_claim_watch *watch) {
    uint64_t one = 1;
    if (watch->is_rung)
        return;
    watch->is_rung = true;
    while (write(watch->fd, &one, sizeof one) < 0 && errno == EINTR) {
    }
}

static void empty_locked(lw_claim_watch *watch) {
    uint64_t count;
    watch->is_rung = false;
    while (read(watch->fd, &count, sizeof count) < 0 && errno == EINTR) {
    }
}

void lw__watch_note(void *user, uint16_t queue) {
    lw_engine *engine = user;
    lw__mutex_lock(&engine->watches_mu);
    for (lw_claim_watch *watch = engine->watches; watch; watch = watch->next) {
        watch->queues[queue / BITS] |= UINT64_C(1) << queue % BITS;
        watch->groups[queue / BITS / BITS] |= UINT64_C(1) << queue / BITS % BITS;
        ring_locked(watch);
    }
    lw__mutex_unlock(&engine->watches_mu);
}

/* The first bit from `from` on, up to the end of its word; -1: none. */
static int first_bit(const uint64_t *words, uint32_t from) {
    uint64_t word = words[from / BITS] & ~UINT64_C(0) << from % BITS;
    return word ? (int)(from / BITS * BITS) + __builtin_ctzll(word) : -1;
}

/* The first queue from a number on; -1: none. Looks at GROUPS + 1 words at most. */
static int find_from(const lw_claim_watch *watch, uint32_t from) {
    int queue = first_bit(watch->queues, from), word = -1;
    if (queue >= 0)
        return queue;
    for (uint32_t at = from / BITS + 1; word < 0 && at < WORDS; at = (at / BITS + 1) * BITS)
        word = first_bit(watch->groups, at);
    return word < 0 ? -1 : first_bit(watch->queues, (uint32_t)word * BITS);
}

/* -1: none. */
static int take_queue_locked(lw_claim_watch *watch) {
    int queue = find_from(watch, watch->from);
    if (queue < 0)
        queue = find_from(watch, 0);
    if (queue < 0)
        return -1;
    uint64_t *word = &watch->queues[queue / BITS];
    *word &= ~(UINT64_C(1) << queue % BITS);
    if (*word == 0)
        watch->groups[queue / BITS / BITS] &= ~(UINT64_C(1) << queue / BITS % BITS);
    watch->from = ((uint32_t)queue + 1) % LW_QUEUES_MAX;
    return queue;
}

static void enter_locked(lw_engine *engine, lw_claim_watch *watch) {
    watch->next = engine->watches;
    watch->link = &engine->watches;
    if (watch->next)
        watch->next->link = &watch->next;
    engine->watches = watch;
}

/* All that there are, because it does not know what they have. */
static void tell_all(lw_engine *engine) {
    struct lw__store_figures figures;
    lw__index_figures(engine->index, &figures);
    for (uint32_t i = 0; i < figures.queue_count; i++)
        lw__watch_note(engine, (uint16_t)i);
}

int lw_claim_watch_open(lw_engine *engine, lw_claim_watch **out, lw_error *err) {
    int rc = lw__lease_check(engine, err);
    if (rc < 0)
        return rc;
    if (!out)
        return lw__error_set(err, LW_EINVAL, 0, "there is nowhere to put the watch");
    *out = NULL;
    lw_claim_watch *watch = lw__alloc_zero(&engine->set.allocator, sizeof *watch);
    if (!watch)
        return lw__error_set(err, LW_ENOMEM, 0, "no memory for a watch");
    watch->engine = engine;
    watch->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (watch->fd < 0) {
        rc = lw__error_set(err, LW_ESYSTEM, errno, "the system gives no descriptor for a watch: %s",
                           strerror(errno));
        lw__free(&engine->set.allocator, watch, sizeof *watch);
        return rc;
    }
    lw__mutex_lock(&engine->watches_mu);
    enter_locked(engine, watch);
    lw__mutex_unlock(&engine->watches_mu);
    tell_all(engine);
    *out = watch;
    return LW_OK;
}

int lw_claim_watch_fd(const lw_claim_watch *watch) {
    return watch ? watch->fd : -1;
}

int lw_claim_watch_next(lw_claim_watch *watch, char *queue) {
    if (!watch || !queue)
        return LW_EINVAL;
    lw_engine *engine = watch->engine;
    int rc = lw__engine_check(engine);
    if (rc < 0)
        return rc;
    const struct lw__queue_info *info = NULL;
    int number;
    do {
        lw__mutex_lock(&engine->watches_mu);
        number = take_queue_locked(watch);
        if (number < 0)
            empty_locked(watch);
        lw__mutex_unlock(&engine->watches_mu);
        info = number < 0 ? NULL : lw__queue_of(engine, (uint16_t)number);
    } while (number >= 0 && !info); /* one that is just being made has nothing yet */
    if (!info)
        return 0;
    memcpy(queue, info->name, strlen(info->name) + 1);
    return 1;
}

void lw_claim_watch_close(lw_claim_watch *watch) {
    if (!watch)
        return;
    lw_engine *engine = watch->engine;
    if (lw__engine_is_alive(engine)) {
        lw__mutex_lock(&engine->watches_mu);
        *watch->link = watch->next;
        if (watch->next)
            watch->next->link = watch->link;
        lw__mutex_unlock(&engine->watches_mu);
    }
    close(watch->fd);
    lw__free(&engine->set.allocator, watch, sizeof *watch);
}
