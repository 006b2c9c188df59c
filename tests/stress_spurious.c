/* SPDX-License-Identifier: Apache-2.0 */
/* stress_spurious.c - every other wake-up is for no reason (F105): nobody takes it for data, for an
 * end, or for time that is over. */
#include "support/clock.h"
#include "support/driver.h"
#include "support/expect.h"
#include "support/pattern.h"
#include "support/reading.h"
#include "support/script.h"
#include "support/spurious.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>

static void rounds(const char *what, void (*round)(uint64_t seed))
{
    uint64_t seed = driver_seed(), first = seed;

    signal(SIGPIPE, SIG_IGN);
    while (time_left()) {
        expect_note("%s, AHEAD_STRESS_SEED=%" PRIu64, what, seed);
        round(seed++);
    }
    expect_true(atomic_load(&spurious_wakeups) > 0);
    printf("%s: %" PRIu64 " rounds from seed %" PRIu64 ", %lu wake-ups for nothing\n", what,
           seed - first, first, atomic_load(&spurious_wakeups));
}

Test(stress, random_calls_over_scripts_stand_spurious_wakeups, .timeout = 300 * TIME_SCALE)
{
    rounds("scripts", drive_script);
}

Test(stress, random_calls_over_own_sources_stand_spurious_wakeups, .timeout = 300 * TIME_SCALE)
{
    rounds("own sources", drive_own_source);
}

/* Waits that end by a time limit or by close, and by nothing else. */
static void wait_in_vain(uint64_t seed)
{
    const struct mode *m = &modes[random_below(&seed, modes_len)];
    struct script sc = { .step = STEPS(BYTES(10), STALL, BYTES(10)), .has = HAS_WAIT };
    struct ahead_stream *s;
    uint64_t start;
    uint8_t byte = 0;

    script_set_mode(&sc, m);
    s = script_open(&sc, &(struct ahead_options){
                             .buffer_bytes = 64, .flags = m->flags, .read_timeout_ms = 5 });
    while (ahead_read_u8(s, &byte) == AHEAD_TIMEDOUT)
        ;
    expect_int(byte, pattern_byte(0));
    expect_pattern(s, 1, 9);
    start = now_ns();
    expect_status(ahead_read_u8(s, &byte), AHEAD_TIMEDOUT);
    expect_true(ms_since(start) >= 4.9);
    script_release(&sc);
    while (ahead_read_u8(s, &byte) == AHEAD_TIMEDOUT)
        ;
    expect_int(byte, pattern_byte(10));
    expect_status(ahead_close(s), AHEAD_OK);
    expect_str(script_closing_verdict(&sc), "ok");
}

Test(stress, time_limits_stand_spurious_wakeups, .timeout = 300 * TIME_SCALE)
{
    rounds("time limits", wait_in_vain);
}
