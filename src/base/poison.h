/* Under AddressSanitizer memory that we keep for later is as forbidden as if it had been freed. */
#ifndef LW_BASE_POISON_H
#define LW_BASE_POISON_H

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define LW__HAS_ASAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define LW__HAS_ASAN 1
#endif
#if defined(LW__HAS_ASAN)
#include <sanitizer/asan_interface.h>
#define LW__POISON(ptr, size) __asan_poison_memory_region(ptr, size)
#define LW__UNPOISON(ptr, size) __asan_unpoison_memory_region(ptr, size)
#else
#define LW__POISON(ptr, size) ((void)(ptr), (void)(size))
#define LW__UNPOISON(ptr, size) ((void)(ptr), (void)(size))
#endif

#endif
