/* SPDX-License-Identifier: Apache-2.0 */
/* failing.h - makes the n-th call for a resource fail, and counts what is held.
 *
 * For tests that are listed as failing in tests/meson.build: the linker sends
 * their calls, and those of the static library, through failing.c (--wrap).
 * Those of libc, of liblz4 and of Criterion are left alone.  So what libc
 * allocates to be freed by the caller (asprintf, getline) makes `live` too
 * small; strdup is wrapped for that reason.
 *
 *     bool failed = true;
 *     for (int step = 1; failed; step++) {
 *         fail_step(step);
 *         st = ahead_open(&s, source, NULL);
 *         failed = fail_step(0);
 *         ...
 *         expect_int(live, 0);
 *     }
 */
#ifndef TESTS_SUPPORT_FAILING_H
#define TESTS_SUPPORT_FAILING_H

#include <stdatomic.h>
#include <stdbool.h>

/* What can be acquired. */
enum failing_kind {
    FAILING_MEMORY, /* malloc, calloc, realloc, posix_memalign, aligned_alloc, strdup, strndup */
    FAILING_THREAD, /* pthread_create */
    FAILING_MUTEX,  /* pthread_mutex_init */
    FAILING_COND,   /* pthread_cond_init */
    FAILING_DESCRIPTOR, /* eventfd, pipe2, open */
    FAILING_STAT,       /* fstat: fails, holds nothing */
    FAILING_KINDS
};

/* From now on count the wrapped calls, and let the n-th fail as it would for
 * want of the resource; 0: none.  Returns whether the step that was set before
 * has been reached: false once n is above the number of calls. */
bool fail_step(int n);

/* Let every call of a kind fail, or no longer.  Not counted as steps. */
void fail_always(enum failing_kind kind, bool fails);

/* Asked before each wrapped call, and each close(), by the name of the function:
 * the errno with which it is to fail, or 0; takes the place of the two above.
 * NULL: nobody is asked.  Set while no other thread makes calls. */
extern int (*on_failing)(const char *call);

/* Acquired and not yet released, in all and of a kind: allocations, threads
 * neither joined nor detached, locks, descriptors (those that a wrapped call
 * gave). */
extern atomic_int live;
int live_of(enum failing_kind kind);

/* The bytes of the largest allocation that was asked for; a test may zero it. */
extern atomic_size_t largest;

/* The bytes of all allocations that are held, as the allocator counts them, and
 * the most that were held at a time; a test may set that to live_bytes. */
extern atomic_size_t live_bytes, most_bytes;

#endif
