/* What every public header needs: how symbols are exported, and two words about numbers.
 *
 * Options structs follow one rule: a field left 0 has its default; -1 means none or unlimited, and
 * is refused (LW_EINVAL) where there is no such thing; LW_ZERO means a real zero where 0 would be
 * the default. The times of a task itself (delay_ms, run_at_ms, start_by_ms, finish_by_ms) are none
 * unless they are given: there 0 is none, and -1 is refused, too. Each struct begins with
 * `struct_size`, which the LW_..._OPTIONS macros fill: by it the library knows the header that a
 * program was built against, and refuses one that it does not know.
 */
#ifndef LEGWORK_API_H
#define LEGWORK_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define LW_API __attribute__((visibility("default")))
#define LW_PRINTF(format_at, args_at) __attribute__((format(printf, format_at, args_at)))
#else
#define LW_API
#define LW_PRINTF(format_at, args_at)
#endif

#if defined(__cplusplus)
#define LW_BEGIN_DECLS extern "C" {
#define LW_END_DECLS }
#else
#define LW_BEGIN_DECLS
#define LW_END_DECLS
#endif

/* The address of an options struct, in C and in C++ alike, to be written into the call that wants
 * it. In C it lives to the end of the block, in C++ only to the end of the statement: a variable
 * that keeps it points to nothing by then, of which clang warns. Fields are written in the order of
 * their declaration: C++ wants it so. */
#if defined(__cplusplus)
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC system_header /* fields left out have their defaults: no warning about them */
#endif
#if defined(__clang__)
#define LW_LIFETIMEBOUND [[clang::lifetimebound]]
#else
#define LW_LIFETIMEBOUND
#endif
#define LW_OPTIONS_OF(type, ...) (::legwork_detail::hold<type>{type{__VA_ARGS__}}.ptr())
namespace legwork_detail {
template <typename T> struct hold {
    T value;
    const T *ptr() const LW_LIFETIMEBOUND {
        return &value;
    }
};
} // namespace legwork_detail
#else
#define LW_OPTIONS_OF(type, ...) (&(const type){__VA_ARGS__})
#endif

/* A real zero in an options field whose 0 means "default". */
#define LW_ZERO (-2)

/* The longest time that can be given anywhere, in milliseconds: nearly nine years. */
#define LW_TIMEOUT_MS_MAX (INT64_C(1) << 38)

#endif
