/* SPDX-License-Identifier: Apache-2.0 */
/* stress_writer.c - writers in all shapes over sinks in all moods, cancelled and closed at any
 * moment: what arrives is the front of what was written, and the status says how much of it. */
#include <ahead/ahead.h>

#include "support/clock.h"
#include "support/driver.h"
#include "support/expect.h"
#include "support/fake_sink.h"
#include "support/leaks.h"
#include "support/pattern.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct canceller {
    struct ahead_writer *w;
    uint64_t after_us;
};

static void *cancel_later(void *arg)
{
    const struct canceller *c = arg;

    sleep_us(c->after_us);
    ahead_writer_cancel(c->w);
    return NULL;
}

/* Writes up to `len` bytes of the pattern by calls of all kinds. */
static enum ahead_status write_some(struct ahead_writer *w, uint64_t len, uint64_t *seed)
{
    static const size_t longest[] = { 1, 8, 100, 5000 };
    uint8_t bytes[5000];
    enum ahead_status st = AHEAD_OK;
    uint64_t pos;

    while (!st && (pos = ahead_writer_tell(w)) < len) {
        size_t n = 1 + (size_t)random_below(seed, longest[random_below(seed, 4)]);

        if (n > len - pos)
            n = (size_t)(len - pos);
        pattern_fill(bytes, pos, n);
        switch (random_below(seed, 16)) {
        case 0: st = ahead_writer_flush(w); break;
        case 1: st = ahead_write_u8(w, bytes[0]); break;
        case 2:
            if (n >= 8)
                st = ahead_write_u64_le(w, ahead_load_u64_le(bytes));
            break;
        default: st = ahead_write(w, bytes, n);
        }
        if (st == AHEAD_TIMEDOUT)
            st = AHEAD_OK; /* asked again, from where it got to */
    }
    return st;
}

static void draw(struct fake_sink *fs, struct ahead_options *opt, uint64_t len, uint64_t *seed)
{
    static const size_t bytes[] = { 1, 7, 64, 1000, 65536 };
    static const unsigned flags[] = { 0, 0, AHEAD_SYNC, AHEAD_EAGER };

    *fs = (struct fake_sink){
        .most = random_below(seed, 2) ? 1 + (size_t)random_below(seed, 3000) : 0,
        .random = random_below(seed, 2),
        .seed = *seed,
        .hiccups = random_below(seed, 8) == 0,
        .fails = random_below(seed, 4) == 0,
        .fail_at = random_below(seed, len + 1),
        .fail_errno = EIO,
        .dies = random_below(seed, 4) == 0,
        .stalls = random_below(seed, 8) == 0,
        .stall_at = random_below(seed, len + 1),
        .has_finish = random_below(seed, 2),
    };
    *opt = (struct ahead_options){
        .buffer_bytes = bytes[random_below(seed, 5)],
        .flags = flags[random_below(seed, 4)],
        .read_timeout_ms = random_below(seed, 4) == 0 ? 2 : 0,
        .close_timeout_ms = random_below(seed, 4) == 0 ? 1000 : 0,
    };
    /* With a time limit, and a thread from the start, the test's own thread is
     * never in the sink. */
    if (fs->dies) {
        opt->flags = AHEAD_EAGER;
        opt->read_timeout_ms = 2;
    }
}

/* Now and then a pool, with or without memory to speak of. */
static struct ahead_pool *draw_pool(uint64_t *seed)
{
    static const uint64_t budgets[] = { 0, 1, 4096, 12288, 65536 };
    struct ahead_pool_options opt = { .threads = 1 + (unsigned)random_below(seed, 2),
                                      .byte_budget = budgets[random_below(seed, 5)] };
    struct ahead_pool *p = NULL;

    if (random_below(seed, 3) == 0)
        expect_status(ahead_pool_open(&p, &opt), AHEAD_OK);
    return p;
}

/* One writer, from open to close. */
static void write_all(uint64_t seed)
{
    uint64_t len = random_below(&seed, 20000);
    struct ahead_options opt = { 0 };
    struct canceller c = { .after_us = random_below(&seed, 2000) };
    struct fake_sink fs;
    struct ahead_error err;
    enum ahead_status st;
    pthread_t thread;
    bool cancels;
    size_t got;

    draw(&fs, &opt, len, &seed);
    opt.pool = draw_pool(&seed);
    cancels = fs.stalls || random_below(&seed, 2);
    c.w = fake_open(&fs, &opt);
    if (cancels)
        expect_int(pthread_create(&thread, NULL, cancel_later, &c), 0);
    st = write_some(c.w, len, &seed);
    if (cancels)
        expect_int(pthread_join(thread, NULL), 0);
    if (ahead_writer_close_error(c.w, &err) == AHEAD_OK) {
        expect_status(st, AHEAD_OK);
        expect_u64(fs.len, len);
        expect_int(atomic_load(&fs.finishes), fs.has_finish);
    } else {
        expect_true(err.status == AHEAD_IO || (cancels && err.status == AHEAD_CANCELLED));
        expect_u64(err.offset, fs.len);
        expect_true(st == AHEAD_OK || st == err.status);
        expect_int(atomic_load(&fs.finishes), 0);
    }
    got = fs.len;
    expect_true(got <= len);
    expect_fake(&fs, got);
    expect_status(ahead_pool_close(opt.pool), AHEAD_OK);
}

static void rounds(void (*round)(uint64_t seed))
{
    uint64_t seed = driver_seed(), first = seed;
    struct leaks before;

    for (unsigned i = 0; i < 10; i++) /* until the runtime has what it keeps for threads */
        round(seed++);
    before = leaks_count();
    while (time_left()) {
        expect_note("AHEAD_STRESS_SEED=%" PRIu64, seed);
        round(seed++);
    }
    expect_no_leaks(before);
    printf("%" PRIu64 " rounds from seed %" PRIu64 "\n", seed - first, first);
}

Test(stress_writer, what_arrives_is_what_the_status_says, .timeout = 300 * TIME_SCALE)
{
    rounds(write_all);
}

/* A second thread that has just begun, or has not. */
static void open_and_close(uint64_t seed)
{
    struct ahead_options opt = { .buffer_bytes = 8,
                                 .flags = random_below(&seed, 2) ? AHEAD_EAGER : 0 };
    struct fake_sink fs = { .most = 0 };
    struct ahead_writer *w = fake_open(&fs, &opt);
    uint64_t words = random_below(&seed, 4);

    for (uint64_t i = 0; i < words; i++)
        expect_status(ahead_write_u64_le(w, pattern_word(i)), AHEAD_OK);
    expect_status(ahead_writer_close(w), AHEAD_OK);
    expect_fake(&fs, 8 * words);
}

Test(stress_writer, open_and_close_at_once, .timeout = 300 * TIME_SCALE)
{
    rounds(open_and_close);
}
