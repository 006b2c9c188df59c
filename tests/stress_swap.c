/* SPDX-License-Identifier: Apache-2.0 */
/* stress_swap.c - many swaps, with pauses on either side and on one processor: no wake-up is lost. */
#include "support/clock.h"
#include "support/driver.h"
#include "support/expect.h"
#include "support/pattern.h"
#include "support/reading.h"
#include "support/script.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>

/* Bytes one at a time, from an endless source; no single wait is long. */
static void read_on(struct ahead_stream *s, uint64_t *seed, unsigned pause_us)
{
    for (uint64_t pos = 0; time_left(); pos++) {
        uint64_t start = now_ns();
        uint8_t byte = 0;

        expect_status(ahead_read_u8(s, &byte), AHEAD_OK);
        expect_int(byte, pattern_byte(pos));
        expect_within_ms(start, 1000);
        if (pause_us && random_below(seed, 20) == 0)
            sleep_us(random_below(seed, pause_us));
    }
}

static void swap_on(const struct mode *m, size_t buffer_bytes, unsigned pause_us)
{
    uint64_t seed = driver_seed();
    struct step steps[] = { RANDOM((uint64_t)1 << 60, 3), END };
    struct script sc = { .step = steps, .seed = seed };
    struct ahead_stream *s;
    struct ahead_stats stats;

    expect_note("%s, buffer %zu, AHEAD_STRESS_SEED=%" PRIu64, m->name, buffer_bytes, seed);
    script_set_mode(&sc, m);
    s = script_open(&sc,
                    &(struct ahead_options){ .buffer_bytes = buffer_bytes, .flags = m->flags });
    read_on(s, &seed, pause_us);
    ahead_get_stats(s, &stats);
    printf("%s: %" PRIu64 " swaps, %" PRIu64 " waits of the reader, %" PRIu64 " of the fill\n",
           m->name, stats.swaps, stats.reader_waits, stats.fill_waits);
    expect_true(stats.swaps > 100);
    expect_status(ahead_close(s), AHEAD_OK);
    expect_str(script_closing_verdict(&sc), "ok");
}

static const struct mode *mode_named(const char *name)
{
    for (each_mode(m))
        if (strcmp(m->name, name) == 0)
            return m;
    expect_str(name, "a mode");
    return NULL;
}

/* F101, F103: buffers of one byte. */
Test(stress, swaps_of_one_byte, .timeout = 300 * TIME_SCALE)
{
    swap_on(mode_named("thread"), 1, 0);
}

Test(stress, swaps_of_one_byte_over_a_split_source, .timeout = 300 * TIME_SCALE)
{
    swap_on(mode_named("split, hollow pieces"), 1, 0);
}

Test(stress, swaps_of_few_bytes_over_a_split_source, .timeout = 300 * TIME_SCALE)
{
    swap_on(mode_named("split, settle fails early"), 7, 0);
}

/* F101: both threads on one processor. */
static void stay_on_one_processor(void)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(sched_getcpu(), &set);
    if (sched_setaffinity(0, sizeof set, &set))
        skip("cannot be pinned to one processor here");
}

Test(stress, swaps_of_one_byte_on_one_processor, .timeout = 300 * TIME_SCALE)
{
    stay_on_one_processor();
    swap_on(mode_named("eager"), 1, 0);
}

Test(stress, swaps_of_few_bytes_on_one_processor_over_a_split_source, .timeout = 300 * TIME_SCALE)
{
    stay_on_one_processor();
    swap_on(mode_named("split"), 7, 0);
}

/* F104: a reader that pauses, so that the fill is asleep, about to sleep, or just
 * awake when it comes back. */
Test(stress, swaps_with_pauses, .timeout = 300 * TIME_SCALE)
{
    swap_on(mode_named("thread"), 5, 500);
}

/* Pauses of the source: the reader is asleep, about to sleep, or just awake. */
Test(stress, swaps_with_a_source_that_pauses, .timeout = 300 * TIME_SCALE)
{
    uint64_t seed = driver_seed();

    while (time_left())
        for (each_mode(m)) {
            struct script sc = { .step = STEPS(TRICKLE(60, 3, 40), TRICKLE(90, 9, 300),
                                               TRICKLE(200, 2, 3)),
                                 .has = (unsigned)random_below(&seed, 16) };
            struct ahead_stream *s;

            expect_note("%s, AHEAD_STRESS_SEED=%" PRIu64, m->name, seed);
            script_set_mode(&sc, m);
            s = script_open(&sc,
                            &(struct ahead_options){ .buffer_bytes = 1 + random_below(&seed, 30),
                                                     .flags = m->flags });
            expect_pattern_by(s, 0, 350, 1 + (size_t)random_below(&seed, 20));
            expect_ending(s, AHEAD_EOF, 0, 350);
            expect_status(ahead_close(s), AHEAD_OK);
            expect_str(script_closing_verdict(&sc), "ok");
        }
}
