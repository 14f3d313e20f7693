#include "base/fork.h"

#include "base/error.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

_Atomic uint32_t *lw__fork_word_open(lw_error *err) {
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    void *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) {
        lw__error_set(err, LW_ENOMEM, errno, "no memory for a page of %zu bytes", size);
        return NULL;
    }
    if (madvise(page, size, MADV_WIPEONFORK) != 0) {
        lw__error_set(err, LW_ESYSTEM, errno,
                      "this kernel cannot wipe a page at fork (Linux 4.14 can)");
        munmap(page, size);
        return NULL;
    }
    _Atomic uint32_t *word = page;
    atomic_store(word, 1);
    return word;
}

void lw__fork_word_close(_Atomic uint32_t *word) {
    if (word)
        munmap((void *)word, (size_t)sysconf(_SC_PAGESIZE));
}
