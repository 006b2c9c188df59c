/* SPDX-License-Identifier: Apache-2.0 */
/* stress_pool.c - streams of several threads come and go on one pool, whose budget is too small. */
#include "support/clock.h"
#include "support/driver.h"
#include "support/expect.h"
#include "support/pattern.h"
#include "support/reading.h"
#include "support/script.h"

#include <inttypes.h>
#include <stdio.h>

enum { THREADS = 4, LEN = 30000 };

static struct ahead_pool *pool;
static atomic_uint lives;

/* Three times in four a stream of its own, else one that is read through another. */
static struct ahead_stream *open_random(struct script *sc, struct ahead_options opt, uint64_t *seed)
{
    struct ahead_stream *s = script_open(sc, &opt);
    struct ahead_source src;

    if (random_below(seed, 4) > 0)
        return s;
    expect_status(ahead_source_stream(&src, s), AHEAD_OK);
    expect_status(ahead_open(&s, src, &opt), AHEAD_OK);
    return s;
}

/* F203, F206: read to anywhere, perhaps sought back, then cancelled, closed or ended. */
static void live(uint64_t seed)
{
    const struct step steps[] = { RANDOM(LEN, 400), END };
    const struct mode *m = &modes[random_below(&seed, modes_len)];
    struct script sc = {
        .step = steps, .seed = seed, .has = HAS_SEEK, .make_us = random_below(&seed, 4) ? 0 : 30
    };
    struct ahead_options opt = { .buffer_bytes = 1 + random_below(&seed, 6000),
                                 .flags = m->flags,
                                 .read_timeout_ms = random_below(&seed, 2) ? 0 : 60000,
                                 .pool = pool };
    struct ahead_stream *s;
    uint64_t at;

    script_set_mode(&sc, m);
    s = open_random(&sc, opt, &seed);
    at = random_below(&seed, LEN);
    expect_pattern(s, 0, at);
    if (random_below(&seed, 3) == 0) {
        at = random_below(&seed, LEN);
        expect_status(ahead_seek(s, at), AHEAD_OK);
    }
    switch (random_below(&seed, 3)) {
    case 0: ahead_cancel(s); break;
    case 1:
        expect_pattern(s, at, LEN - at);
        expect_ending(s, AHEAD_EOF, 0, LEN);
        break;
    }
    expect_status(ahead_close(s), AHEAD_OK);
    expect_str(script_closing_verdict(&sc), "ok");
}

static void *live_on(void *arg)
{
    uint64_t seed = *(uint64_t *)arg;

    while (time_left()) {
        uint64_t start = now_ns();

        expect_note("AHEAD_STRESS_SEED=%" PRIu64, seed);
        live(seed++);
        expect_within_ms(start, 2000);
        atomic_fetch_add(&lives, 1);
    }
    return NULL;
}

static void run_on(unsigned threads, uint64_t budget)
{
    struct ahead_pool_options opt = { .threads = threads, .byte_budget = budget };
    struct ahead_pool_stats stats;
    uint64_t seeds[THREADS];
    pthread_t thread[THREADS];

    expect_status(ahead_pool_open(&pool, &opt), AHEAD_OK);
    for (unsigned i = 0; i < THREADS; i++) {
        seeds[i] = driver_seed() + i * 1000000000u;
        expect_int(pthread_create(&thread[i], NULL, live_on, &seeds[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    ahead_pool_get_stats(pool, &stats);
    expect_u64(stats.bytes, 0);
    expect_int(stats.users, 0);
    expect_true(stats.peak_bytes <= budget);
    expect_status(ahead_pool_close(pool), AHEAD_OK);
    printf("%u threads, budget of %" PRIu64 ": %u streams\n", threads, budget, atomic_load(&lives));
}

Test(stress, streams_come_and_go_on_a_pool_of_one, .timeout = 300 * TIME_SCALE)
{
    run_on(1, 40000);
}

Test(stress, streams_come_and_go_on_a_pool_of_three, .timeout = 300 * TIME_SCALE)
{
    run_on(3, 100000);
}
