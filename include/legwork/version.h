/* The version of these headers, and that of the library which a program runs with.
 *
 * This file is the one place that says it: the build, pkg-config, the CMake package, `legwork
 * version`, GET /healthz and the man pages have it from here.
 */
#ifndef LEGWORK_VERSION_H
#define LEGWORK_VERSION_H

#include <legwork/api.h>

LW_BEGIN_DECLS

/* Before 1.0 a minor version may change the API; later only a major one does. */
#define LW_VERSION_MAJOR 0
#define LW_VERSION_MINOR 3
#define LW_VERSION_PATCH 0

/* The version as one number that rises, for #if: 1002003 is 1.2.3. */
#define LW_VERSION_NUMBER (LW_VERSION_MAJOR * 1000000 + LW_VERSION_MINOR * 1000 + LW_VERSION_PATCH)

/* The version as a string: "0.3.0". */
#define LW_VERSION LW_VERSION_JOIN(LW_VERSION_MAJOR, LW_VERSION_MINOR, LW_VERSION_PATCH)

#define LW_VERSION_JOIN(major, minor, patch) LW_VERSION_TEXT(major, minor, patch)
#define LW_VERSION_TEXT(major, minor, patch) #major "." #minor "." #patch

/* The version of the library that the program runs with, such as "0.3.0"; LW_VERSION is the one
 * that it was compiled with. Never NULL. Owns: nobody, it lives as long as the program. Threads:
 * any. Since: 0.3 */
LW_API const char *lw_version(void);

LW_END_DECLS

#endif
