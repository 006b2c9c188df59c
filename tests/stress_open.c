/* SPDX-License-Identifier: Apache-2.0 */
/* stress_open.c - short lives: opened, read a little or not at all, closed while the fill is at work. */
#include "support/clock.h"
#include "support/driver.h"
#include "support/expect.h"
#include "support/leaks.h"
#include "support/pattern.h"
#include "support/reading.h"
#include "support/script.h"

#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>

enum { THREADS = 4 };

/* What each thread does, so often or until the time is over. */
static void (*life)(uint64_t seed);
static atomic_uint lives;
static unsigned warm_lives;

static void *live_on(void *arg)
{
    uint64_t seed = *(uint64_t *)arg;

    for (unsigned n = 0; warm_lives ? n < warm_lives : time_left(); n++) {
        uint64_t start = now_ns();

        expect_note("AHEAD_STRESS_SEED=%" PRIu64, seed);
        life(seed++);
        expect_within_ms(start, 2000);
        atomic_fetch_add(&lives, 1);
    }
    return NULL;
}

static void run_threads(uint64_t first)
{
    uint64_t seeds[THREADS];
    pthread_t threads[THREADS];

    for (unsigned i = 0; i < THREADS; i++) {
        seeds[i] = first + i * 1000000000u;
        expect_int(pthread_create(&threads[i], NULL, live_on, &seeds[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

static void in_threads(const char *what, void (*round)(uint64_t seed))
{
    uint64_t first = driver_seed();
    struct leaks before;

    life = round;
    mallopt(M_ARENA_MAX, 1); /* else their number is what the mappings show */
    warm_lives = 50;
    run_threads(first);
    before = leaks_count();
    warm_lives = 0;
    run_threads(first);
    expect_no_leaks(before);
    printf("%s: %u rounds from seed %" PRIu64 "\n", what, atomic_load(&lives), first);
}

/* F108: nothing is read. */
static void open_and_close(uint64_t seed)
{
    const struct mode *m = &modes[random_below(&seed, modes_len)];
    struct script sc = { .step = STEPS(PIECES(500, 50)) };
    struct ahead_stream *s;

    script_set_mode(&sc, m);
    s = script_open(&sc, &(struct ahead_options){ .buffer_bytes = 64, .flags = m->flags });
    expect_status(ahead_close(s), AHEAD_OK);
    expect_str(script_closing_verdict(&sc), "ok");
}

Test(stress, streams_that_are_never_read_come_and_go, .timeout = 300 * TIME_SCALE)
{
    in_threads("never read", open_and_close);
}

/* F102: three buffers of 64 bytes are read. */
static void read_three_buffers(uint64_t seed)
{
    const struct mode *m = &modes[random_below(&seed, modes_len)];
    struct script sc = { .step = STEPS(RANDOM(1000, 100)), .seed = seed };
    struct ahead_stream *s;

    script_set_mode(&sc, m);
    s = script_open(&sc, &(struct ahead_options){ .buffer_bytes = 64, .flags = m->flags });
    expect_pattern(s, 0, 3 * 64);
    expect_status(ahead_close(s), AHEAD_OK);
    expect_str(script_closing_verdict(&sc), "ok");
}

Test(stress, streams_of_three_buffers_come_and_go, .timeout = 300 * TIME_SCALE)
{
    in_threads("three buffers", read_three_buffers);
}

/* F159: close at any moment of a fill, which goes on for a while after it was told to stop. */
static void close_during_a_fill(uint64_t seed)
{
    const struct mode *m = &modes[random_below(&seed, modes_len)];
    struct step steps[] = { RANDOM(3000, 40), STALL, TRICKLE(5000, 9, 30), END };
    struct script sc = { .step = steps,
                         .seed = seed,
                         .deaf = random_below(&seed, 2),
                         .has = (unsigned)random_below(&seed, 16),
                         .make_us = (unsigned)random_below(&seed, 60) };
    struct ahead_stream *s;

    if (sc.deaf || random_below(&seed, 2))
        steps[1] = (struct step)BYTES(0);
    script_set_mode(&sc, m);
    s = script_open(&sc, &(struct ahead_options){ .buffer_bytes = 1 + random_below(&seed, 900),
                                                  .flags = m->flags });
    if (random_below(&seed, 2))
        expect_pattern(s, 0, random_below(&seed, 3000));
    if (random_below(&seed, 2))
        sleep_us(random_below(&seed, 500));
    expect_status(ahead_close(s), AHEAD_OK);
    expect_str(script_closing_verdict(&sc), "ok");
}

Test(stress, close_races_a_fill, .timeout = 300 * TIME_SCALE)
{
    in_threads("closed during a fill", close_during_a_fill);
}
