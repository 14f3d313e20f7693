/* The test twin of memory: counts, fails on demand, and catches misuse.
 *
 * Each block has a head with its size, so that a free or resize with the wrong old_size, which
 * malloc would never notice, ends the program with a message. New bytes are filled with junk,
 * because fresh memory happens to be zero too often; freed ones too. */
#include <legwork/testing.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { JUNK_NEW = 0xa5, JUNK_FREED = 0x5a };

struct lw_test_memory {
    /* fixed after open */
    lw_allocator allocator;

    /* guarded by mu */
    pthread_mutex_t mu;
    uint64_t blocks;
    uint64_t bytes;
    uint64_t calls;   /* that allocated or grew, or tried to */
    uint64_t fail_at; /* the number of the call that fails, 0: none */
    bool has_failed;
};

/* What stands before each block; as large as the strictest alignment asks. */
struct head {
    _Alignas(max_align_t) size_t size;
};

static void lock(const lw_test_memory *memory) {
    /* Const in the API says that counts do not change; the mutex itself is never const. */
    pthread_mutex_lock((pthread_mutex_t *)&memory->mu);
}

static void unlock(const lw_test_memory *memory) {
    pthread_mutex_unlock((pthread_mutex_t *)&memory->mu);
}

static struct head *head_of(void *ptr, size_t old_size) {
    struct head *head = (struct head *)ptr - 1;
    if (head->size != old_size) {
        fprintf(stderr, "lw_test_memory: a block of %zu bytes was given back as one of %zu\n",
                head->size, old_size);
        abort();
    }
    return head;
}

/* Counts an allocation; returns false if it is the one that shall fail. */
static bool may_allocate(lw_test_memory *memory) {
    lock(memory);
    bool fails = ++memory->calls == memory->fail_at;
    if (fails)
        memory->has_failed = true;
    unlock(memory);
    return !fails;
}

static void count(lw_test_memory *memory, int blocks, size_t old_size, size_t new_size) {
    lock(memory);
    memory->blocks += (uint64_t)blocks;
    memory->bytes += (uint64_t)new_size - (uint64_t)old_size;
    unlock(memory);
}

static void *allocate(lw_test_memory *memory, size_t size) {
    if (size > SIZE_MAX - sizeof(struct head) || !may_allocate(memory))
        return NULL;
    struct head *head = malloc(sizeof *head + size);
    if (head == NULL)
        return NULL;
    head->size = size;
    count(memory, 1, 0, size);
    return memset(head + 1, JUNK_NEW, size);
}

static void *release(lw_test_memory *memory, void *ptr, size_t size) {
    struct head *head = head_of(ptr, size);
    memset(ptr, JUNK_FREED, size);
    head->size = 0;
    free(head);
    count(memory, -1, size, 0);
    return NULL;
}

static void *shrink(lw_test_memory *memory, void *ptr, size_t old_size, size_t new_size) {
    struct head *head = head_of(ptr, old_size);
    memset((char *)ptr + new_size, JUNK_FREED, old_size - new_size);
    head->size = new_size; /* in place: so it cannot fail */
    count(memory, 0, old_size, new_size);
    return ptr;
}

/* Moves the block always, so that a pointer kept to the old place is found out. */
static void *grow(lw_test_memory *memory, void *ptr, size_t old_size, size_t new_size) {
    (void)head_of(ptr, old_size);
    void *larger = allocate(memory, new_size);
    if (larger == NULL)
        return NULL;
    memcpy(larger, ptr, old_size);
    release(memory, ptr, old_size);
    return larger;
}

static void *resize(void *user, void *ptr, size_t old_size, size_t new_size) {
    lw_test_memory *memory = user;
    if (ptr == NULL)
        return new_size > 0 ? allocate(memory, new_size) : NULL;
    if (new_size == 0)
        return release(memory, ptr, old_size);
    if (new_size <= old_size)
        return shrink(memory, ptr, old_size, new_size);
    return grow(memory, ptr, old_size, new_size);
}

int lw_test_memory_open(lw_test_memory **memory) {
    if (memory == NULL)
        return LW_EINVAL;
    *memory = calloc(1, sizeof **memory);
    if (*memory == NULL)
        return LW_ENOMEM;
    (*memory)->allocator = (lw_allocator){.resize = resize, .user = *memory};
    pthread_mutex_init(&(*memory)->mu, NULL);
    return LW_OK;
}

const lw_allocator *lw_test_memory_allocator(lw_test_memory *memory) {
    return memory != NULL ? &memory->allocator : NULL;
}

void lw_test_memory_fail_at(lw_test_memory *memory, uint64_t nth) {
    if (memory == NULL)
        return;
    lock(memory);
    memory->fail_at = nth > 0 ? memory->calls + nth : 0;
    memory->has_failed = false;
    unlock(memory);
}

bool lw_test_memory_has_failed(const lw_test_memory *memory) {
    if (memory == NULL)
        return false;
    lock(memory);
    bool has_failed = memory->has_failed;
    unlock(memory);
    return has_failed;
}

void lw_test_memory_usage(const lw_test_memory *memory, uint64_t *blocks, uint64_t *bytes,
                          uint64_t *calls) {
    uint64_t ignored = 0;
    blocks = blocks != NULL ? blocks : &ignored;
    bytes = bytes != NULL ? bytes : &ignored;
    calls = calls != NULL ? calls : &ignored;
    *blocks = *bytes = *calls = 0;
    if (memory == NULL)
        return;
    lock(memory);
    *blocks = memory->blocks;
    *bytes = memory->bytes;
    *calls = memory->calls;
    unlock(memory);
}

void lw_test_memory_close(lw_test_memory *memory) {
    if (memory == NULL)
        return;
    pthread_mutex_destroy(&memory->mu);
    free(memory);
}
