/* SPDX-License-Identifier: Apache-2.0 */
/* schedule.h - threads that take turns, in an order that a seed says.
 *
 * In programs whose calls go through schedule.c (--wrap; see tests/meson.build)
 * each thread that a schedule starts is a fiber of one thread of the system.
 * It runs until it comes to a *pause point*: before a lock or a signal, after an
 * unlock, in a wait or a sleep, at the start and the end of a thread.  Then a
 * random walk chooses who goes on.  The same seed makes the same choices, so a
 * schedule that went wrong can be run again, under a debugger too.
 *
 * Time passes only as the walk likes: a wait or a sleep with a limit is over
 * when it is chosen to be, and the clock is set to its limit then.  A wait
 * without one ends by a signal; in some schedules also for no reason.  The start
 * of a thread fails in some.
 *
 * What nobody can go on with is found at once, and so are an unlock by somebody
 * else, a wait without the lock, a lock that is destroyed in use and a thread
 * that is left behind.  Races on memory are not: that is TSan's. */
#ifndef TESTS_SUPPORT_SCHEDULE_H
#define TESTS_SUPPORT_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

/* Run body(arg) and every thread that it starts, directly or not.  "ok" once all
 * have ended, else what went wrong; then also who waits for what is printed, and
 * the threads that were not through never go on.  A crash prints the seed. */
const char *schedule_run(uint64_t seed, void (*body)(void *arg), void *arg);

/* Run it in every way in which at most so many times a thread that could go on is
 * left for another one; time passes only when nobody can go on otherwise.  The
 * body has to do the same each time.  "ok", or what went wrong in the first
 * schedule that did; *schedules is its number, or how many there are.  The number
 * takes the place of the seed in schedule_run(), for a debugger to stop there. */
const char *
schedule_search(unsigned preemptions, void (*body)(void *arg), void *arg, uint64_t *schedules);

/* Nothing is printed: for a test in which it has to go wrong. */
extern bool schedule_is_quiet;

/* A pause point of a test's own.  Outside of a schedule: nothing. */
void schedule_pause(void);

/* Of the last schedule. */
struct schedule_figures {
    uint64_t steps;    /* pause points */
    uint64_t switches; /* after which another thread went on */
    uint64_t trace;    /* a hash of the choices: the same seed, the same trace */
    unsigned threads;  /* that were started */
};

extern struct schedule_figures schedule_figures;

#endif
