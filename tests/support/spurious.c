/* SPDX-License-Identifier: Apache-2.0 */
/* spurious.c - the other end of the linker's --wrap: every other wait on a condition is a wake-up
 * for no reason. */
#include "support/spurious.h"

#include "support/pattern.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <time.h>

atomic_ulong spurious_wakeups;

int __real_pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m);
int __real_pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m,
                                  const struct timespec *until);
int __real_pthread_cond_clockwait(pthread_cond_t *c, pthread_mutex_t *m, clockid_t clock,
                                  const struct timespec *until);

/* Lets others at the lock, as a wait does, and comes back at once. */
static bool wakes_for_nothing(pthread_mutex_t *m)
{
    static _Thread_local uint64_t seed;

    if (random_below(&seed, 2))
        return false;
    atomic_fetch_add_explicit(&spurious_wakeups, 1, memory_order_relaxed);
    pthread_mutex_unlock(m);
    sched_yield();
    pthread_mutex_lock(m);
    return true;
}

int __wrap_pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m)
{
    return wakes_for_nothing(m) ? 0 : __real_pthread_cond_wait(c, m);
}

int __wrap_pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m,
                                  const struct timespec *until)
{
    return wakes_for_nothing(m) ? 0 : __real_pthread_cond_timedwait(c, m, until);
}

int __wrap_pthread_cond_clockwait(pthread_cond_t *c, pthread_mutex_t *m, clockid_t clock,
                                  const struct timespec *until)
{
    return wakes_for_nothing(m) ? 0 : __real_pthread_cond_clockwait(c, m, clock, until);
}
