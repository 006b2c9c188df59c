/* SPDX-License-Identifier: Apache-2.0 */
/* stress_cancel.c - cancel from other threads, at any moment: the reader gets a prefix of the bytes,
 * then CANCELLED or an ending that was there first, and nothing hangs. */
#include "support/clock.h"
#include "support/driver.h"
#include "support/expect.h"
#include "support/leaks.h"
#include "support/pattern.h"
#include "support/reading.h"
#include "support/script.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

/* Cancels after a while. */
struct canceller {
    pthread_t thread;
    struct ahead_stream *s;
    uint64_t us;
};

static void *cancel_main(void *arg)
{
    struct canceller *c = arg;

    if (c->us)
        sleep_us(c->us);
    ahead_cancel(c->s);
    return NULL;
}

static void cancel_after(struct canceller *c, struct ahead_stream *s, uint64_t us)
{
    *c = (struct canceller){ .s = s, .us = us };
    expect_int(pthread_create(&c->thread, NULL, cancel_main, c), 0);
}

/* Reads until the stream ends, in a way that `how` chooses: how it ended. */
static enum ahead_status read_to_the_end(struct ahead_stream *s, uint64_t how, uint64_t *pos)
{
    uint8_t bytes[500];
    const uint8_t *data;
    size_t got;
    uint64_t skipped;
    enum ahead_status st;

    for (*pos = 0;; *pos += got) {
        got = 0;
        switch (how) {
        case 0: st = ahead_read(s, bytes, sizeof bytes, &got); break;
        case 1: st = ahead_read_full(s, bytes, sizeof bytes, &got); break;
        case 2:
            st = ahead_read_u8(s, bytes);
            got = !st;
            break;
        case 3:
            st = ahead_peek(s, 100, &data, &got);
            expect_size(pattern_match(data, *pos, got), got);
            ahead_consume(s, got);
            break;
        default:
            st = ahead_skip(s, 77, &skipped);
            got = (size_t)skipped;
            break;
        }
        if (how < 3)
            expect_size(pattern_match(bytes, *pos, got), got);
        if (st && st != AHEAD_TRUNCATED) {
            *pos += got;
            return st;
        }
    }
}

/* F139, F141: wherever the reader is, and the fill. */
static void cancel_a_script(uint64_t seed)
{
    const struct mode *m = &modes[random_below(&seed, modes_len)];
    uint64_t n = random_below(&seed, 20000), pos, start;
    bool silent = random_below(&seed, 2), fault = random_below(&seed, 2);
    struct step steps[] = { RANDOM(n, 300), STALL, ERRNO(EIO), END };
    struct script sc = { .step = steps, .seed = seed, .has = (unsigned)random_below(&seed, 16) };
    struct canceller canceller[2];
    struct ahead_stream *s;
    enum ahead_status st;

    if (!silent)
        steps[1] = (struct step)BYTES(0);
    if (!fault)
        steps[2] = (struct step)END;
    script_set_mode(&sc, m);
    s = script_open(&sc, &(struct ahead_options){ .buffer_bytes = 1 + random_below(&seed, 2000),
                                                  .flags = m->flags });
    cancel_after(&canceller[0], s, random_below(&seed, 2) ? random_below(&seed, 1000) : 0);
    cancel_after(&canceller[1], s, random_below(&seed, 1000));
    st = read_to_the_end(s, random_below(&seed, 5), &pos);
    start = now_ns();
    if (silent)
        expect_status(st, AHEAD_CANCELLED);
    else
        expect_true(st == AHEAD_CANCELLED || st == (fault ? AHEAD_IO : AHEAD_EOF));
    if (st != AHEAD_CANCELLED)
        expect_u64(pos, n);
    pthread_join(canceller[0].thread, NULL);
    pthread_join(canceller[1].thread, NULL);
    expect_ending(s, st, st == AHEAD_IO ? EIO : 0, pos);
    expect_status(ahead_close(s), closes_with(st));
    expect_within_ms(start, 500);
    expect_str(script_closing_verdict(&sc), "ok");
}

/* F138: a pipe that is silent, and one that is not. */
static void cancel_a_pipe(uint64_t seed)
{
    struct ahead_source src;
    struct ahead_stream *s;
    struct canceller canceller;
    uint8_t bytes[4000];
    size_t n = (size_t)random_below(&seed, sizeof bytes);
    uint64_t pos;
    int end[2];

    expect_int(pipe(end), 0);
    pattern_fill(bytes, 0, n);
    expect_int(write(end[1], bytes, n), (intmax_t)n);
    expect_status(ahead_source_fd(&src, end[0], AHEAD_FD_CLOSE), AHEAD_OK);
    expect_status(ahead_open(&s, src,
                             &(struct ahead_options){ .buffer_bytes = 1 + random_below(&seed, 3000),
                                                      .flags = (unsigned)random_below(&seed, 3) }),
                  AHEAD_OK);
    cancel_after(&canceller, s, random_below(&seed, 2) ? random_below(&seed, 600) : 0);
    expect_status(read_to_the_end(s, random_below(&seed, 5), &pos), AHEAD_CANCELLED);
    expect_true(pos <= n);
    pthread_join(canceller.thread, NULL);
    expect_status(ahead_close(s), AHEAD_OK);
    close(end[1]);
}

/* F119, F234: among seeks, which a cancel outlives. */
static void cancel_among_seeks(uint64_t seed)
{
    const struct mode *m = &modes[random_below(&seed, modes_len)];
    struct script sc = { .step = STEPS(RANDOM(20000, 200)), .has = HAS_SEEK };
    struct canceller canceller;
    struct ahead_stream *s;
    enum ahead_status st = AHEAD_OK;
    uint64_t to = 0;
    uint8_t bytes[300];
    size_t got;

    script_set_mode(&sc, m);
    s = script_open(&sc, &(struct ahead_options){ .buffer_bytes = 1 + random_below(&seed, 600),
                                                  .flags = m->flags });
    cancel_after(&canceller, s, random_below(&seed, 1000));
    while (!st || st == AHEAD_EOF) {
        to = random_below(&seed, 19000);
        st = ahead_seek(s, to);
        if (!st) {
            st = ahead_read_full(s, bytes, sizeof bytes, &got);
            expect_size(pattern_match(bytes, to, got), got);
        }
    }
    expect_status(st, AHEAD_CANCELLED);
    pthread_join(canceller.thread, NULL);
    while (!ahead_read(s, bytes, sizeof bytes, &got))
        ; /* a cancelled seek changed nothing: bytes may be at hand */
    expect_ending(s, AHEAD_CANCELLED, 0, ahead_tell(s));
    expect_status(ahead_close(s), AHEAD_OK);
    expect_str(script_closing_verdict(&sc), "ok");
}

static void rounds(const char *what, void (*round)(uint64_t seed))
{
    uint64_t seed = driver_seed(), first = seed;
    struct leaks before;

    round(seed);
    before = leaks_count();
    while (time_left()) {
        expect_note("%s, AHEAD_STRESS_SEED=%" PRIu64, what, seed);
        round(seed++);
    }
    expect_no_leaks(before);
    printf("%s: %" PRIu64 " rounds from seed %" PRIu64 "\n", what, seed - first, first);
}

Test(stress, cancel_races_a_reader_of_a_script, .timeout = 300 * TIME_SCALE)
{
    rounds("scripts", cancel_a_script);
}

Test(stress, cancel_races_a_reader_of_a_pipe, .timeout = 300 * TIME_SCALE)
{
    rounds("pipes", cancel_a_pipe);
}

Test(stress, cancel_races_seeks, .timeout = 300 * TIME_SCALE)
{
    rounds("seeks", cancel_among_seeks);
}
