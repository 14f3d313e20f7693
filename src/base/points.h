/* Named points at which a stress test lets a thread pause, to bring about the interleavings that
 * are rare. In the library itself they are nothing; the test build (LW_TEST_POINTS) calls a
 * function that the test provides. */
#ifndef LW_BASE_POINTS_H
#define LW_BASE_POINTS_H

#if defined(LW_TEST_POINTS)
void lw__test_point(const char *name);
#define LW__POINT(name) lw__test_point(name)
#else
#define LW__POINT(name) ((void)0)
#endif

#endif
