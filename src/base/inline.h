/* LW__INLINE: a piece of a measured hot path, which is inlined whatever the compiler thinks of its
 * size, so that what the caller knows (an event, a state) costs nothing. Elsewhere `static`
 * does. */
#ifndef LW_BASE_INLINE_H
#define LW_BASE_INLINE_H

#define LW__INLINE static inline __attribute__((always_inline))

#endif
