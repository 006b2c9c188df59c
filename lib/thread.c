/* SPDX-License-Identifier: Apache-2.0 */
/* thread.c - how the library's threads are started, and how they sleep. */
#include "thread.h"

#include <signal.h>
#include <stddef.h>

/* The thread runs functions of a source or sink, which may be the caller's
 * own: enough for them, little for a thousand streams. */
#define STACK_BYTES (256 * 1024)

#define FIRST_NAP_NS 100000
#define LAST_NAP_NS 20000000
#define NAPS 108

static int create_with_signals_blocked(pthread_t *thread, const pthread_attr_t *attr,
                                       void *(*run)(void *), void *arg)
{
    static const int open[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGPROF };
    sigset_t blocked, before;
    int rc;

    sigfillset(&blocked);
    for (size_t i = 0; i < sizeof open / sizeof *open; i++)
        sigdelset(&blocked, open[i]);
    rc = pthread_sigmask(SIG_SETMASK, &blocked, &before);
    if (rc)
        return rc;
    rc = pthread_create(thread, attr, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

int ahead_thread_start(pthread_t *thread, const char *name, void *(*run)(void *), void *arg)
{
    pthread_attr_t attr;
    int rc = pthread_attr_init(&attr);

    if (rc)
        return rc;
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    rc = create_with_signals_blocked(thread, &attr, run, arg);
    pthread_attr_destroy(&attr);
#if defined(__GLIBC__) && defined(_GNU_SOURCE)
    if (!rc)
        pthread_setname_np(*thread, name);
#else
    (void)name;
#endif
    return rc;
}

int ahead_thread_short_lock_init(pthread_mutex_t *lock)
{
    pthread_mutexattr_t attr;
    int rc = pthread_mutexattr_init(&attr);

    if (rc)
        return rc;
#if defined(__GLIBC__) && defined(_GNU_SOURCE)
    pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ADAPTIVE_NP);
#endif
    rc = pthread_mutex_init(lock, &attr);
    pthread_mutexattr_destroy(&attr);
    return rc;
}

int ahead_thread_cond_init(pthread_cond_t *cond, clockid_t *clock)
{
    pthread_condattr_t attr;
    int rc = pthread_condattr_init(&attr);

    if (rc)
        return rc;
    /* A clock that can be set back would make a timed wait a long one. */
    *clock = pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) ? CLOCK_REALTIME : CLOCK_MONOTONIC;
    rc = pthread_cond_init(cond, &attr);
    pthread_condattr_destroy(&attr);
    return rc;
}

uint64_t ahead_thread_now_ns(clockid_t clock)
{
    struct timespec ts;

    clock_gettime(clock, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

void ahead_thread_sleep(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t until_ns)
{
    struct timespec ts = {
        .tv_sec = (time_t)(until_ns / 1000000000u),
        .tv_nsec = (long)(until_ns % 1000000000u),
    };

    if (until_ns)
        pthread_cond_timedwait(cond, lock, &ts);
    else
        pthread_cond_wait(cond, lock);
}

bool ahead_thread_nap(unsigned *naps)
{
    long ns = FIRST_NAP_NS;
    struct timespec ts;

    if (++*naps > NAPS)
        return false;
    for (unsigned i = 1; i < *naps && ns < LAST_NAP_NS; i++)
        ns *= 2;
    ts.tv_sec = 0;
    ts.tv_nsec = ns < LAST_NAP_NS ? ns : LAST_NAP_NS;
    nanosleep(&ts, NULL);
    return true;
}
