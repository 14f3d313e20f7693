/* A mutex with names for clang's thread safety analysis; under gcc the attributes are empty.
 * For slow paths only: nothing on the way of a task takes one. */
#ifndef LW_BASE_MUTEX_H
#define LW_BASE_MUTEX_H

#include <pthread.h>

#if defined(__clang__)
#define LW__CAPABILITY __attribute__((capability("mutex")))
#define LW__REQUIRES(mu) __attribute__((requires_capability(mu)))
#define LW__ACQUIRE(mu) __attribute__((acquire_capability(mu)))
#define LW__RELEASE(mu) __attribute__((release_capability(mu)))
#define LW__UNCHECKED __attribute__((no_thread_safety_analysis))
#else
#define LW__CAPABILITY
#define LW__REQUIRES(mu)
#define LW__ACQUIRE(mu)
#define LW__RELEASE(mu)
#define LW__UNCHECKED
#endif

struct LW__CAPABILITY lw__mutex {
    pthread_mutex_t native;
};

/* Default mutexes need no memory on Linux: this cannot fail. */
static inline void lw__mutex_init(struct lw__mutex *mu) {
    pthread_mutex_init(&mu->native, NULL);
}

static inline void lw__mutex_free(struct lw__mutex *mu) {
    pthread_mutex_destroy(&mu->native);
}

static inline void lw__mutex_lock(struct lw__mutex *mu) LW__ACQUIRE(mu) LW__UNCHECKED {
    pthread_mutex_lock(&mu->native);
}

static inline void lw__mutex_unlock(struct lw__mutex *mu) LW__RELEASE(mu) LW__UNCHECKED {
    pthread_mutex_unlock(&mu->native);
}

#endif
