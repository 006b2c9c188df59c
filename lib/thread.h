/* SPDX-License-Identifier: Apache-2.0 */
/* thread.h - how the library's threads are started, and how they sleep. */
#ifndef AHEAD_THREAD_H
#define AHEAD_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* Start a thread with a small stack, a name of up to 15 characters, and every
 * signal blocked but those that it causes itself and the one by which
 * profilers sample.  The caller's mask is as it was.  0, or an errno. */
int ahead_thread_start(pthread_t *thread, const char *name, void *(*run)(void *), void *arg);

/* A lock whose holders let go of it within a microsecond: where the system has
 * such a kind, whoever finds it taken tries again for a moment before sleeping.
 * 0, or an errno. */
int ahead_thread_short_lock_init(pthread_mutex_t *lock);

/* A condition whose timed waits run by *clock: the monotonic one, where there
 * is one for conditions.  0, or an errno. */
int ahead_thread_cond_init(pthread_cond_t *cond, clockid_t *clock);

uint64_t ahead_thread_now_ns(clockid_t clock);

/* Sleep on `cond` until `until_ns` by its clock (0: for ever).  May wake for
 * nothing: called in a loop over the predicate. */
void ahead_thread_sleep(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t until_ns);

/* Sleep before something that said "again" is asked once more: 0.1 ms, then
 * twice as long each time up to 20 ms.  *naps counts them, from 0.  false, at
 * once, after some two seconds in all. */
bool ahead_thread_nap(unsigned *naps);

#endif
