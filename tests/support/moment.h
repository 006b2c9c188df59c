/* SPDX-License-Identifier: Apache-2.0 */
/* moment.h - has another thread do something in the middle of a call, at each moment that there is.
 *
 * Between two sections under a lock, a thread may be overtaken by anybody.  For
 * tests with a link argument --wrap=pthread_mutex_unlock:
 *
 *     bool reached = true;
 *     for (unsigned n = 1; reached; n++) {
 *         moment_set(n, cancel, s);
 *         st = ahead_seek(s, 5);
 *         reached = moment_set(0, NULL, NULL);
 *         ...
 *     }
 */
#ifndef TESTS_SUPPORT_MOMENT_H
#define TESTS_SUPPORT_MOMENT_H

#include <stdbool.h>

/* Behind the n-th unlock of this thread from now on, what(arg) runs on another
 * thread from its beginning to its end; n is 0: never.  Returns whether what
 * was set before has run. */
bool moment_set(unsigned n, void (*what)(void *arg), void *arg);

#endif
