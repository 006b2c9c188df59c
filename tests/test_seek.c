/* SPDX-License-Identifier: Apache-2.0 */
/* test_seek.c - where the reader stands, and how it gets elsewhere: tell, skip and seek. */
#include "support/clock.h"
#include "support/expect.h"
#include "support/pattern.h"
#include "support/reading.h"
#include "support/script.h"

#include <errno.h>
#include <string.h>

static struct ahead_stream *open_mode(struct script *sc, const struct mode *m, size_t buffer_bytes)
{
    script_set_mode(sc, m);
    return script_open(sc,
                       &(struct ahead_options){ .buffer_bytes = buffer_bytes, .flags = m->flags });
}

/* F148: at each step tell is what was consumed, and costs nothing. */
Test(tell, is_what_was_consumed)
{
    for (each_mode(m))
        for (size_t b = 1; b <= 64; b *= 2) {
            struct script sc = { .step = STEPS(PIECES(300, 21)) };
            struct ahead_stream *s = open_mode(&sc, m, b);
            const uint8_t *data;
            uint8_t bytes[16];
            uint64_t wide;
            size_t len;

            expect_note("%s, buffer %zu", m->name, b);
            expect_u64(ahead_tell(s), 0);
            expect_status(ahead_peek(s, 10, &data, &len), AHEAD_OK);
            expect_u64(ahead_tell(s), 0);
            ahead_consume(s, 3);
            expect_u64(ahead_tell(s), 3);
            expect_status(ahead_read(s, bytes, 5, &len), AHEAD_OK);
            expect_u64(ahead_tell(s), 3 + len);
            expect_pattern(s, 3 + len, 7 - len);
            expect_status(ahead_skip(s, 100, NULL), AHEAD_OK);
            expect_u64(ahead_tell(s), 110);
            expect_status(ahead_skip(s, 186, NULL), AHEAD_OK);
            expect_status(ahead_read_u64_be(s, &wide), AHEAD_TRUNCATED);
            for (int i = 0; i < 1000; i++)
                expect_u64(ahead_tell(s), 296);
            expect_pattern(s, 296, 4);
            expect_u64(ahead_tell(s), 300);
            expect_status(ahead_close(s), AHEAD_OK);
            expect_str(script_closing_verdict(&sc), "ok");
        }
    expect_u64(ahead_tell(NULL), 0);
}

Test(tell, asks_nothing_of_the_source)
{
    struct script sc = { .step = STEPS(BYTES(10)) };
    struct ahead_stream *s = script_open(&sc, NULL);

    for (int i = 0; i < 1000; i++)
        expect_u64(ahead_tell(s), 0);
    expect_int(script_asked(&sc), 0);
    expect_status(ahead_close(s), AHEAD_OK);
}

/* Skipping. */

/* F155: every n that could be off by one, from every place. */
Test(skip, passes_what_there_is_and_not_a_byte_more)
{
    enum { LENGTH = 200 };

    for (each_mode(m))
        for (size_t b = 1; b <= 64; b *= 4)
            for (unsigned has = 0; has <= HAS_SKIP; has += HAS_SKIP)
                for (uint64_t start = 0; start <= LENGTH; start += 50) {
                    const uint64_t rest = LENGTH - start;
                    const uint64_t ns[] = { 0,         1,         b - 1,    b,
                                            b + 1,     2 * b - 1, 2 * b,    2 * b + 1,
                                            rest,      rest + 1,  rest - 1, (uint64_t)1 << 62,
                                            UINT64_MAX };

                    for (size_t i = 0; i < sizeof ns / sizeof *ns; i++) {
                        struct script sc = { .step = STEPS(RANDOM(LENGTH, 33)), .has = has };
                        struct ahead_stream *s = open_mode(&sc, m, b);
                        uint64_t n = ns[i], skipped = 99, want = n < rest ? n : rest;

                        expect_note("%s, buffer %zu, skip() %u, from %ju, by %ju", m->name, b, has,
                                    (uintmax_t)start, (uintmax_t)n);
                        expect_pattern(s, 0, start);
                        expect_status(ahead_skip(s, n, &skipped), n <= rest ? AHEAD_OK : AHEAD_EOF);
                        expect_u64(skipped, want);
                        expect_u64(ahead_tell(s), start + want);
                        expect_pattern(s, start + want, rest - want);
                        expect_ending(s, AHEAD_EOF, 0, LENGTH);
                        expect_status(ahead_close(s), AHEAD_OK);
                        expect_str(script_closing_verdict(&sc), "ok");
                    }
                }
}

Test(skip, comes_to_the_fault_that_follows)
{
    for (each_mode(m))
        for (unsigned has = 0; has <= HAS_SKIP; has += HAS_SKIP) {
            struct script sc = { .step = STEPS(PIECES(100, 9), STATUS(AHEAD_CORRUPT, 55, "bad")),
                                 .has = has };
            struct ahead_stream *s = open_mode(&sc, m, 16);
            uint64_t skipped = 0;

            expect_note("%s, skip() %u", m->name, has);
            expect_pattern(s, 0, 5);
            expect_status(ahead_skip(s, 1000, &skipped), AHEAD_CORRUPT);
            expect_u64(skipped, 95);
            expect_ending(s, AHEAD_CORRUPT, 0, 100);
            expect_u64(ahead_error(s)->source_offset, 55);
            expect_status(ahead_close(s), AHEAD_CORRUPT);
            expect_str(script_closing_verdict(&sc), "ok");
        }
}

/* What skip() of a source may not end with, ends the stream as IO all the same:
 * TIMEDOUT would come back for ever, and nobody would know. */
Test(skip, that_fails_with_what_ends_nothing_ends_with_io)
{
    static const enum ahead_status none[] = { AHEAD_TIMEDOUT, AHEAD_INVALID, 77 };

    for (each_mode(m))
        for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
            struct script sc = { .step = STEPS(PIECES(100, 9), STATUS(none[i], 55, "odd")),
                                 .has = HAS_SKIP };
            struct ahead_stream *s = open_mode(&sc, m, 16);
            uint64_t skipped = 0;

            expect_note("%s, %s", m->name, ahead_status_name(none[i]));
            expect_status(ahead_skip(s, 1000, &skipped), AHEAD_IO);
            expect_u64(skipped, 100);
            expect_ending(s, AHEAD_IO, 0, 100);
            expect_status(ahead_close(s), AHEAD_IO);
            expect_str(script_closing_verdict(&sc), "ok");
        }
}

/* What the source can pass over by itself is not read. */
Test(skip, asks_a_source_that_can)
{
    struct script sc = { .step = STEPS(BYTES(1 << 30)), .has = HAS_SKIP };
    struct ahead_stream *s =
        script_open(&sc, &(struct ahead_options){ .buffer_bytes = 4096, .flags = AHEAD_SYNC });

    expect_pattern(s, 0, 10);
    expect_status(ahead_skip(s, 1 << 29, NULL), AHEAD_OK);
    expect_true(script_count(&sc, CALL_SKIP) >= 1);
    expect_true(atomic_load(&sc.given) <= 3 * 4096);
    expect_pattern(s, 10 + (1 << 29), 100);
    expect_status(ahead_close(s), AHEAD_OK);
    expect_str(script_closing_verdict(&sc), "ok");
}

/* What a skip passes over was not read for nothing: each byte of the source is
 * in one count or the other. */
Test(skip, over_bytes_at_hand_throws_nothing_away)
{
    for (each_mode(m)) {
        struct script sc = { .step = STEPS(PIECES(20000, 100)), .has = HAS_SKIP };
        struct ahead_stream *s = open_mode(&sc, m, 1000);
        struct ahead_stats stats;

        expect_note("%s", m->name);
        expect_pattern(s, 0, 10);
        if (m->flags & AHEAD_EAGER)
            expect_eventually(ahead_buffered(s) >= 1000);
        expect_status(ahead_skip(s, 15000, NULL), AHEAD_OK);
        expect_true(script_count(&sc, CALL_SKIP) >= 1);
        ahead_get_stats(s, &stats);
        expect_u64(stats.bytes, 15010);
        expect_u64(stats.discarded_bytes, 0);
        expect_pattern(s, 15010, 4990);
        expect_ending(s, AHEAD_EOF, 0, 20000);
        expect_status(ahead_close(s), AHEAD_OK);
        expect_str(script_closing_verdict(&sc), "ok");
    }
}

/* F153: inside what is at hand nobody is asked, whatever the fill is doing. */
Test(skip, inside_what_is_at_hand_waits_for_nobody)
{
    for (each_mode(m)) {
        struct script sc = { .step = STEPS(BYTES(64), STALL, BYTES(64)), .has = HAS_SEEK };
        struct ahead_stream *s;
        uint64_t start;

        if (m->flags & AHEAD_SYNC)
            continue;
        expect_note("%s", m->name);
        s = open_mode(&sc, m, 64);
        expect_pattern(s, 0, 1);
        if (m->flags & AHEAD_EAGER)
            expect_eventually(sc.stalls == 1);
        start = now_ns();
        expect_status(ahead_skip(s, 20, NULL), AHEAD_OK);
        expect_pattern(s, 21, 4);
        expect_status(ahead_seek(s, 3), AHEAD_OK);
        expect_pattern(s, 3, 4);
        expect_status(ahead_seek(s, 60), AHEAD_OK);
        expect_within_ms(start, 10);
        expect_int(script_count(&sc, CALL_SEEK), 0);
        script_release(&sc);
        expect_pattern(s, 60, 68);
        expect_ending(s, AHEAD_EOF, 0, 128);
        expect_status(ahead_close(s), AHEAD_OK);
        expect_str(script_closing_verdict(&sc), "ok");
    }
}

/* Seeking. */

/* F150, F152: anywhere, from anywhere, with a fill that is under way. */
Test(seek, to_any_place_reads_what_is_there, .timeout = 60 * TIME_SCALE)
{
    enum { LENGTH = 20000 };

    for (each_mode(m))
        for (each_size(b)) {
            struct script sc = { .step = STEPS(PIECES(LENGTH, 700)), .has = HAS_SEEK };
            struct ahead_stream *s = open_mode(&sc, m, *b);
            uint64_t seed = *b;

            expect_note("%s, buffer %zu", m->name, *b);
            for (int i = 0; i < 100; i++) {
                uint64_t to = random_below(&seed, LENGTH + 50),
                         rest = to < LENGTH ? LENGTH - to : 0;
                uint64_t n = 1 + random_below(&seed, 40);

                expect_status(ahead_seek(s, to), AHEAD_OK);
                expect_u64(ahead_tell(s), to);
                expect_pattern(s, to, n < rest ? n : rest);
                if (n > rest)
                    expect_ending(s, AHEAD_EOF, 0, to > LENGTH ? to : LENGTH);
            }
            expect_status(ahead_seek(s, LENGTH - 100), AHEAD_OK);
            expect_pattern(s, LENGTH - 100, 100);
            expect_ending(s, AHEAD_EOF, 0, LENGTH);
            expect_status(ahead_close(s), AHEAD_OK);
            expect_str(script_closing_verdict(&sc), "ok");
        }
}

/* F151: back and forth inside the buffer the reader is in. */
Test(seek, inside_the_buffer_asks_nothing_of_the_source)
{
    for (each_mode(m)) {
        struct script sc = { .step = STEPS(BYTES(1000)), .has = HAS_SEEK };
        struct ahead_stream *s = open_mode(&sc, m, 2000);
        struct ahead_stats stats;

        expect_note("%s", m->name);
        expect_pattern(s, 0, 1000);
        expect_ending(s, AHEAD_EOF, 0, 1000);
        for (uint64_t to = 0; to <= 1000; to += 50) {
            expect_status(ahead_seek(s, 1000 - to), AHEAD_OK);
            expect_pattern(s, 1000 - to, to < 20 ? to : 20);
        }
        expect_int(script_count(&sc, CALL_SEEK), 0);
        ahead_get_stats(s, &stats);
        expect_u64(stats.discarded_bytes, 0);
        expect_status(ahead_close(s), AHEAD_OK);
        expect_str(script_closing_verdict(&sc), "ok");
    }
}

/* F151: and forward into the other one, when it is finished. */
Test(seek, forward_into_the_other_buffer_asks_nothing_of_the_source)
{
    for (each_mode(m)) {
        struct script sc = { .step = STEPS(PIECES(5000, 100)), .has = HAS_SEEK };
        struct ahead_stream *s;
        struct ahead_stats stats;

        if (!(m->flags & AHEAD_EAGER))
            continue;
        expect_note("%s", m->name);
        s = open_mode(&sc, m, 1000);
        expect_eventually(ahead_buffered(s) >= 1900);
        expect_pattern(s, 0, 10);
        for (uint64_t to = 1800; to > 1100; to -= 100) {
            expect_status(ahead_seek(s, to), AHEAD_OK);
            expect_u64(ahead_tell(s), to);
            expect_pattern(s, to, 50);
        }
        expect_int(script_count(&sc, CALL_SEEK), 0);
        ahead_get_stats(s, &stats);
        expect_u64(stats.discarded_bytes, 0);
        expect_status(ahead_seek(s, 1150), AHEAD_OK);
        expect_pattern(s, 1150, 3850);
        expect_ending(s, AHEAD_EOF, 0, 5000);
        expect_status(ahead_close(s), AHEAD_OK);
        expect_str(script_closing_verdict(&sc), "ok");
    }
}

/* F132: around every power of two that a counter could end at. */
Test(seek, beyond_4_gib_every_count_is_exact)
{
    static const uint64_t marks[] = { INT32_MAX, (uint64_t)INT32_MAX + 1, UINT32_MAX,
                                      (uint64_t)UINT32_MAX + 1, (uint64_t)UINT32_MAX + 2 };
    const uint64_t length = (uint64_t)5 << 30;

    for (each_mode(m)) {
        struct script sc = { .step = STEPS(PIECES(length, 4096), ERRNO(EIO)),
                             .has = HAS_SEEK | HAS_SKIP };
        struct ahead_stream *s = open_mode(&sc, m, 10000);
        uint64_t skipped;

        expect_note("%s", m->name);
        for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
            expect_status(ahead_seek(s, marks[i] - 20), AHEAD_OK);
            expect_pattern(s, marks[i] - 20, 40);
            expect_u64(ahead_tell(s), marks[i] + 20);
            expect_pattern(s, marks[i] + 20, 30000);
        }
        expect_status(ahead_seek(s, 100), AHEAD_OK);
        expect_status(ahead_skip(s, UINT32_MAX, &skipped), AHEAD_OK);
        expect_u64(skipped, UINT32_MAX);
        expect_u64(ahead_tell(s), 100 + (uint64_t)UINT32_MAX);
        expect_pattern(s, 100 + (uint64_t)UINT32_MAX, 100);
        expect_status(ahead_seek(s, length - 5000), AHEAD_OK);
        expect_pattern(s, length - 5000, 5000);
        expect_ending(s, AHEAD_IO, EIO, length);
        expect_status(ahead_close(s), AHEAD_IO);
        expect_str(script_closing_verdict(&sc), "ok");
    }
}

/* F120, F117: a seek that succeeds clears the ending; one back to bytes below
 * an error reads them, and meets the error again. */
Test(seek, clears_an_ending_but_a_cancel)
{
    for (each_mode(m)) {
        struct script sc = { .step = STEPS(PIECES(100, 8), ERRNO(EIO)), .has = HAS_SEEK };
        struct ahead_stream *s = open_mode(&sc, m, 32);

        expect_note("%s", m->name);
        for (uint64_t to = 0; to <= 100; to += 20) {
            expect_pattern(s, ahead_tell(s), 100 - ahead_tell(s));
            expect_ending(s, AHEAD_IO, EIO, 100);
            expect_status(ahead_seek(s, to), AHEAD_OK);
            expect_u64(ahead_tell(s), to);
        }
        expect_status(ahead_seek(s, 50), AHEAD_OK);
        expect_pattern(s, 50, 10);
        expect_status(ahead_close(s), AHEAD_OK);
        expect_str(script_closing_verdict(&sc), "ok");
    }
}

Test(seek, past_a_fault_that_is_gone_reads_on)
{
    for (each_mode(m)) {
        struct script sc = { .step = STEPS(PIECES(100, 8), ERRNO_ONCE(EIO), PIECES(100, 8)),
                             .has = HAS_SEEK };
        struct ahead_stream *s = open_mode(&sc, m, 32);

        expect_note("%s", m->name);
        expect_pattern(s, 0, 100);
        expect_ending(s, AHEAD_IO, EIO, 100);
        expect_status(ahead_seek(s, 10), AHEAD_OK);
        expect_pattern(s, 10, 190);
        expect_ending(s, AHEAD_EOF, 0, 200);
        expect_status(ahead_close(s), AHEAD_OK);
        expect_str(script_closing_verdict(&sc), "ok");
    }
}

/* The place of the fault is no byte at hand: the source is asked again. */
Test(seek, to_where_a_fault_was_met_tries_again)
{
    for (each_mode(m)) {
        struct script sc = { .step = STEPS(PIECES(100, 8), ERRNO_ONCE(EIO), PIECES(100, 8)),
                             .has = HAS_SEEK };
        struct ahead_stream *s = open_mode(&sc, m, 32);

        expect_note("%s", m->name);
        expect_pattern(s, 0, 100);
        expect_ending(s, AHEAD_IO, EIO, 100);
        expect_status(ahead_seek(s, 100), AHEAD_OK);
        expect_status(ahead_error(s)->status, AHEAD_OK);
        expect_pattern(s, 100, 100);
        expect_ending(s, AHEAD_EOF, 0, 200);
        expect_status(ahead_close(s), AHEAD_OK);
        expect_str(script_closing_verdict(&sc), "ok");
    }
}

Test(seek, does_not_outlive_a_cancel)
{
    for (each_mode(m)) {
        struct script sc = { .step = STEPS(BYTES(100)), .has = HAS_SEEK };
        struct ahead_stream *s = open_mode(&sc, m, 32);
        uint8_t bytes[100];
        size_t got;

        expect_note("%s", m->name);
        expect_pattern(s, 0, 5);
        ahead_cancel(s);
        expect_status(ahead_read_full(s, bytes, 100, &got), AHEAD_CANCELLED);
        expect_size(pattern_match(bytes, 5, got), got);
        expect_status(ahead_seek(s, 90), AHEAD_CANCELLED);
        expect_ending(s, AHEAD_CANCELLED, 0, 5 + got);
        expect_status(ahead_close(s), AHEAD_OK);
        expect_str(script_closing_verdict(&sc), "ok");
    }
}

/* F154: refused, it changes nothing. */
Test(seek, that_is_refused_changes_nothing)
{
    static const enum ahead_status refusals[] = { AHEAD_UNSUPPORTED, AHEAD_INVALID, AHEAD_IO };

    for (each_mode(m))
        for (size_t r = 0; r < 4; r++)
            for (size_t b = 1; b <= 128; b *= 4) {
                struct script sc = { .step = STEPS(PIECES(900, 31)),
                                     .has = r < 3 ? HAS_SEEK : 0,
                                     .refuse_seek = r < 3 ? refusals[r] : AHEAD_OK };
                enum ahead_status want = r < 3 ? refusals[r] : AHEAD_UNSUPPORTED;
                struct ahead_stream *s = open_mode(&sc, m, b);

                expect_note("%s, refusal %zu, buffer %zu", m->name, r, b);
                for (uint64_t pos = 0; pos < 900; pos += 100) {
                    size_t at_hand = ahead_buffered(s);

                    expect_status(ahead_seek(s, 5000), want);
                    expect_status(ahead_error(s)->status, want);
                    expect_true(ahead_error(s)->text[0] != '\0');
                    if (want == AHEAD_IO)
                        expect_int(ahead_error(s)->os_errno, EIO);
                    expect_u64(ahead_tell(s), pos);
                    expect_true(ahead_buffered(s) >= at_hand);
                    expect_pattern(s, pos, 100);
                }
                expect_ending(s, AHEAD_EOF, 0, 900);
                expect_status(ahead_seek(s, 5000), want);
                expect_ending(s, AHEAD_EOF, 0, 900);
                expect_status(ahead_close(s), AHEAD_OK);
                expect_str(script_closing_verdict(&sc), "ok");
            }
}

/* F156: nothing wraps. */
Test(seek, far_away_is_refused_or_the_end)
{
    static const uint64_t far[] = { INT64_MAX, (uint64_t)INT64_MAX + 1, UINT64_MAX - 1, UINT64_MAX,
                                    101 };

    for (each_mode(m))
        for (size_t i = 0; i < sizeof far / sizeof *far; i++) {
            struct script sc = { .step = STEPS(PIECES(100, 8)), .has = HAS_SEEK };
            struct ahead_stream *s = open_mode(&sc, m, 32);
            enum ahead_status st;

            expect_note("%s, to %ju", m->name, (uintmax_t)far[i]);
            expect_pattern(s, 0, 50);
            st = ahead_seek(s, far[i]);
            if (far[i] > INT64_MAX) {
                expect_status(st, AHEAD_INVALID);
                expect_u64(ahead_tell(s), 50);
                expect_pattern(s, 50, 50);
                expect_ending(s, AHEAD_EOF, 0, 100);
            } else {
                expect_status(st, AHEAD_OK);
                expect_ending(s, AHEAD_EOF, 0, far[i]);
                expect_status(ahead_seek(s, 99), AHEAD_OK);
                expect_pattern(s, 99, 1);
            }
            expect_status(ahead_close(s), AHEAD_OK);
            expect_str(script_closing_verdict(&sc), "ok");
        }
}

/* F120, F152: bytes of a fill that a seek overtook are counted as thrown away, and
 * none of them is delivered. */
Test(seek, throws_away_what_was_read_for_nothing)
{
    for (each_mode(m)) {
        struct script sc = { .step = STEPS(PIECES(10000, 100)), .has = HAS_SEEK };
        struct ahead_stream *s = open_mode(&sc, m, 1000);
        struct ahead_stats stats;

        expect_note("%s", m->name);
        expect_pattern(s, 0, 10);
        expect_status(ahead_seek(s, 9000), AHEAD_OK);
        expect_pattern(s, 9000, 1000);
        expect_ending(s, AHEAD_EOF, 0, 10000);
        ahead_get_stats(s, &stats);
        expect_u64(stats.bytes, 1010);
        expect_true(stats.discarded_bytes > 0);
        if (!m->split) /* else pieces may have been settled that the ending kept back */
            expect_u64(stats.discarded_bytes, atomic_load(&sc.given) - 1010);
        expect_true(stats.discarded_bytes <= atomic_load(&sc.given) - 1010);
        expect_status(ahead_close(s), AHEAD_OK);
        expect_str(script_closing_verdict(&sc), "ok");
    }
}

/* A seek waits for pieces that are being made, and they do not land in the
 * memory that new ones get. */
Test(seek, among_makes_that_take_long_is_exact)
{
    for (each_mode(m)) {
        struct script sc = { .step = STEPS(PIECES(50000, 500)), .has = HAS_SEEK };
        struct ahead_stream *s;
        uint64_t seed = 7;

        if (!m->split)
            continue;
        expect_note("%s", m->name);
        script_set_mode(&sc, m);
        sc.make_us = 30;
        s = script_open(&sc, &(struct ahead_options){ .buffer_bytes = 2000, .flags = m->flags });
        for (int i = 0; i < 200; i++) {
            uint64_t to = random_below(&seed, 49000);

            expect_status(ahead_seek(s, to), AHEAD_OK);
            expect_pattern(s, to, 1 + random_below(&seed, 900));
        }
        expect_status(ahead_close(s), AHEAD_OK);
        expect_str(script_closing_verdict(&sc), "ok");
    }
}

/* AHEAD_EAGER holds behind a seek and a skip, too, also when the thread has
 * left because the stream had ended. */
Test(seek, of_an_eager_stream_is_followed_by_reading_ahead)
{
    for (each_mode(m)) {
        struct script sc = { .step = STEPS(PIECES(5000, 100)), .has = HAS_SEEK | HAS_SKIP };
        struct ahead_stream *s;

        if (!(m->flags & AHEAD_EAGER))
            continue;
        expect_note("%s", m->name);
        s = open_mode(&sc, m, 1000);
        for (int round = 0; round < 3; round++) {
            expect_status(ahead_seek(s, 4500), AHEAD_OK);
            expect_eventually(ahead_buffered(s) >= 500);
            expect_pattern(s, 4500, 500);
            expect_ending(s, AHEAD_EOF, 0, 5000);
            sleep_us(1000); /* so that it has left, as a rule */
            expect_status(ahead_seek(s, 0), AHEAD_OK);
            expect_eventually(ahead_buffered(s) >= 1000);
            expect_status(ahead_skip(s, 3500, NULL), AHEAD_OK);
            expect_eventually(ahead_buffered(s) >= 1000);
            expect_pattern(s, 3500, 100);
        }
        expect_status(ahead_close(s), AHEAD_OK);
        expect_str(script_closing_verdict(&sc), "ok");
    }
}

/* Before the first byte was asked for. */
Test(seek, works_on_a_fresh_stream)
{
    for (each_mode(m)) {
        struct script sc = { .step = STEPS(PIECES(500, 100)), .has = HAS_SEEK };
        struct ahead_stream *s = open_mode(&sc, m, 64);

        expect_note("%s", m->name);
        expect_status(ahead_seek(s, 0), AHEAD_OK);
        expect_status(ahead_seek(s, 450), AHEAD_OK);
        expect_status(ahead_skip(s, 25, NULL), AHEAD_OK);
        expect_pattern(s, 475, 25);
        expect_ending(s, AHEAD_EOF, 0, 500);
        expect_status(ahead_close(s), AHEAD_OK);
        expect_str(script_closing_verdict(&sc), "ok");
    }
}

/* A peek that reached across buffers does not hinder it, nor is it hindered. */
Test(seek, and_peek_take_turns)
{
    for (each_mode(m)) {
        struct script sc = { .step = STEPS(PIECES(3000, 40)), .has = HAS_SEEK };
        struct ahead_stream *s = open_mode(&sc, m, 50);
        uint64_t seed = 3;

        expect_note("%s", m->name);
        for (int i = 0; i < 200; i++) {
            uint64_t to = random_below(&seed, 2600);
            size_t want = 1 + random_below(&seed, 300), len;
            const uint8_t *data;

            if (i % 3)
                expect_status(ahead_seek(s, to), AHEAD_OK);
            to = ahead_tell(s);
            expect_status(ahead_peek(s, want, &data, &len), AHEAD_OK);
            expect_size(pattern_match(data, to, len), len);
            if (i % 2)
                ahead_consume(s, want);
            if (ahead_tell(s) > 2600)
                expect_status(ahead_seek(s, 0), AHEAD_OK);
        }
        expect_status(ahead_close(s), AHEAD_OK);
        expect_str(script_closing_verdict(&sc), "ok");
    }
}

Test(seek, a_wrong_call_changes_nothing)
{
    uint64_t skipped = 5;

    expect_status(ahead_seek(NULL, 0), AHEAD_INVALID);
    expect_status(ahead_skip(NULL, 1, &skipped), AHEAD_INVALID);
}
