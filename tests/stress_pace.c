/* SPDX-License-Identifier: Apache-2.0 */
/* stress_pace.c - random calls over random sources, while the reader goes on alone, and no more
 * alone, when nobody expects it. */
#include "stream/pace.h"
#include "support/clock.h"
#include "support/driver.h"
#include "support/expect.h"
#include "support/leaks.h"

#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>

static atomic_uint draws;
static atomic_uint decisions[2];

/* Chance, of one in n.  Called under a stream's lock, by any thread. */
static bool one_in(unsigned n)
{
    unsigned x = atomic_fetch_add(&draws, 1) * 2654435761u;

    x = (x ^ x >> 15) * 2246822519u;
    return (x ^ x >> 13) % n == 0;
}

/* In the place of those in pace.c, by --wrap. */
bool __wrap_ahead_pace_applies(size_t buffer_bytes);
bool __wrap_ahead_pace_wants_thread(struct ahead_pace *p, uint64_t now_ns, uint64_t offset,
                                    uint64_t left);
bool __wrap_ahead_pace_is_due(const struct ahead_pace *p, uint64_t offset, bool solo);
bool __wrap_ahead_pace_is_better_alone(struct ahead_pace *p, uint64_t now_ns, uint64_t offset,
                                       uint64_t wait_ns, bool solo);

bool __wrap_ahead_pace_applies(size_t buffer_bytes)
{
    return buffer_bytes > 0;
}

bool __wrap_ahead_pace_wants_thread(struct ahead_pace *p, uint64_t now_ns, uint64_t offset,
                                    uint64_t left)
{
    (void)left;
    (void)p;
    (void)now_ns;
    (void)offset;
    return !one_in(3);
}

bool __wrap_ahead_pace_is_due(const struct ahead_pace *p, uint64_t offset, bool solo)
{
    (void)p;
    (void)offset;
    (void)solo;
    return one_in(2);
}

bool __wrap_ahead_pace_is_better_alone(struct ahead_pace *p, uint64_t now_ns, uint64_t offset,
                                       uint64_t wait_ns, bool solo)
{
    bool better = one_in(2);

    (void)p;
    (void)now_ns;
    (void)offset;
    (void)wait_ns;
    if (better != solo)
        atomic_fetch_add(&decisions[better], 1);
    return better;
}

Test(stress, alone_or_together_what_is_read_is_the_same, .timeout = 300 * TIME_SCALE)
{
    uint64_t seed = driver_seed(), first = seed;
    struct leaks before;

    signal(SIGPIPE, SIG_IGN);
    drive_script(seed);
    before = leaks_count();
    while (time_left()) {
        expect_note("AHEAD_STRESS_SEED=%" PRIu64, seed);
        drive_script(seed++);
    }
    expect_no_leaks(before);
    printf("%" PRIu64 " rounds from seed %" PRIu64 ", alone %u times, together again %u\n",
           seed - first, first, decisions[true], decisions[false]);
    expect_true(decisions[true] > 0 && decisions[false] > 0);
}
