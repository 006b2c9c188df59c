/* SPDX-License-Identifier: Apache-2.0 */
/* leaks.h - what a process holds, counted before and after.
 *
 *     struct leaks before = leaks_count();
 *     ... open, read, close ...
 *     expect_no_leaks(before);
 *
 * Criterion's workers come with threads and descriptors of their own: only the
 * difference says anything. */
#ifndef TESTS_SUPPORT_LEAKS_H
#define TESTS_SUPPORT_LEAKS_H

#include "support/expect.h"

struct leaks {
    unsigned threads;     /* entries of /proc/self/task */
    unsigned descriptors; /* entries of /proc/self/fd, that of the count itself excepted */
    unsigned mappings;    /* lines of /proc/self/maps */
};

/* glibc keeps stacks and arenas of threads that have ended, so a few mappings
 * may come and stay: a test that is after mappings runs its body once before it
 * counts, and then more than LEAKS_MAPPINGS times. */
enum { LEAKS_MAPPINGS = 16 };

/* What there is now.  Reads /proc; the first call starts and joins a thread,
 * so that what the runtime keeps for its first thread is there already. */
struct leaks leaks_count(void);

/* Fails the test if there are more threads than before, not as many
 * descriptors, or more than LEAKS_MAPPINGS mappings above it (not looked at
 * under a sanitizer or valgrind, which map as they like).  A thread that was
 * joined may be on its way out of the kernel for a moment: waits for that, up
 * to a second times time_scale(). */
#define expect_no_leaks(before) expect_no_leaks_(EXPECT_HERE_(#before), before)
void expect_no_leaks_(struct expect_here at, struct leaks before);

#endif
