/* SPDX-License-Identifier: Apache-2.0 */
/* stress_reader.c - random calls over random sources, against a reader of the whole in memory.
 *
 * AHEAD_STRESS_SECONDS is the time of each test; a failure names its seed, and
 * AHEAD_STRESS_SEED begins with it. */
#include "support/clock.h"
#include "support/driver.h"
#include "support/expect.h"
#include "support/leaks.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>

static void rounds(const char *what, void (*round)(uint64_t seed))
{
    uint64_t seed = driver_seed(), first = seed;
    struct leaks before;

    signal(SIGPIPE, SIG_IGN); /* the feeders of pipes outlive their readers */
    round(seed);              /* what is set up once is not a leak */
    before = leaks_count();
    while (time_left()) {
        expect_note("%s, AHEAD_STRESS_SEED=%" PRIu64, what, seed);
        round(seed++);
    }
    expect_no_leaks(before);
    printf("%s: %" PRIu64 " rounds from seed %" PRIu64 "\n", what, seed - first, first);
}

Test(stress, random_calls_over_scripts_are_exact, .timeout = 300 * TIME_SCALE)
{
    rounds("scripts", drive_script);
}

Test(stress, random_calls_over_the_library_s_own_sources_are_exact, .timeout = 300 * TIME_SCALE)
{
    rounds("own sources", drive_own_source);
}
