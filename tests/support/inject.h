/* SPDX-License-Identifier: Apache-2.0 */
/* inject.h - one fault at one call: every function that the library calls and that can fail, and
 * every way in which it plausibly does.
 *
 * A *point* is a call of such a function, counted from inject_arm() on; a *way*
 * is what happens there: an error, once or from then on, or a short count.  A
 * program that uses this is linked with failing.c, which also counts what is
 * held, and with inject.c (see tests/meson.build for what is wrapped).
 *
 *     do {
 *         inject_arm(point, way);
 *         ... a life ...
 *         fault = inject_disarm();
 *         ... expect what `fault` allows ...
 *     } while (fault.what != INJECT_NO_POINT);
 */
#ifndef TESTS_SUPPORT_INJECT_H
#define TESTS_SUPPORT_INJECT_H

#include <stdbool.h>
#include <stdint.h>

enum inject_kind {
    INJECT_MEMORY,     /* malloc() and kin, contexts of liblz4 and xxHash, a FILE */
    INJECT_LOCK,       /* locks, conditions, and attributes of them and of threads */
    INJECT_THREAD,     /* pthread_create() */
    INJECT_DESCRIPTOR, /* open(), eventfd(), pipe2() */
    INJECT_CALL,       /* every other system call, and close() */
    INJECT_KINDS
};

enum { INJECT_SHORT = -1 }; /* no error: the call does half of what it was asked for */

struct inject_fault {
    enum {
        INJECT_NO_POINT, /* there were not so many calls */
        INJECT_NO_WAY,   /* the call has not so many ways; it was made */
        INJECT_DONE
    } what;
    const char *call;
    enum inject_kind kind;
    int error;    /* an errno, or INJECT_SHORT */
    bool lasting; /* it failed so from then on, and so did the others of its kind */
    bool hidden;  /* nobody may notice */
    int64_t at;   /* where in the file a pread() was to read; -1: it was none */
};

/* From now on count, and do it to the point (from 1) in this way (from 0).
 * Waits that only let time pass take none.  While nobody else makes calls. */
void inject_arm(unsigned point, unsigned way);

/* No longer, and what was done. */
struct inject_fault inject_disarm(void);

/* Bytes that read(), recv() and preadv2() have given since inject_arm(). */
uint64_t inject_given(void);

#endif
