/* SPDX-License-Identifier: Apache-2.0 */
/* clock.h - time, and waiting for a state instead of for a time. */
#ifndef TESTS_SUPPORT_CLOCK_H
#define TESTS_SUPPORT_CLOCK_H

#include "support/expect.h"

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

static inline uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline double ms_since(uint64_t start_ns)
{
    return (double)(now_ns() - start_ns) / 1e6;
}

static inline void sleep_us(uint64_t us)
{
    struct timespec t = { .tv_sec = (time_t)(us / 1000000),
                          .tv_nsec = (long)(us % 1000000) * 1000 };

    while (nanosleep(&t, &t) != 0)
        ;
}

/* Whether it is time to give up on a state that should be reached at once. */
static inline bool too_late(uint64_t start_ns)
{
    return ms_since(start_ns) > 10000 * time_scale();
}

/* Wait until `fact` holds: a test that fails says so after ten seconds.  It is asked no more once
 * it has held, so it may be a call that has an effect then. */
#define expect_eventually(fact)                                                                    \
    do {                                                                                           \
        uint64_t start_ = now_ns();                                                                \
        bool fact_;                                                                                \
                                                                                                   \
        while (!(fact_ = (fact)) && !too_late(start_))                                             \
            sleep_us(100);                                                                         \
        if (!fact_)                                                                                \
            expect_fail_(EXPECT_HERE_(#fact), "is not so");                                        \
    } while (0)

/* How long something may take on an idle machine, in ms; three times that on
 * one that others use, and more under a sanitizer. */
#define expect_within_ms(start_ns, ms) expect_true(ms_since(start_ns) <= (ms)*3 * time_scale())

#endif
