/* SPDX-License-Identifier: Apache-2.0 */
/* test_peek.c - looking at what comes next, and consuming it: by peek, and up to a delimiter. */
#include "support/clock.h"
#include "support/expect.h"
#include "support/pattern.h"
#include "support/reading.h"
#include "support/script.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

static struct ahead_stream *open_mode(struct script *sc, const struct mode *m, size_t buffer_bytes)
{
    script_set_mode(sc, m);
    return script_open(sc,
                       &(struct ahead_options){ .buffer_bytes = buffer_bytes, .flags = m->flags });
}

/* F161: 1 to 32 bytes at every offset, whatever the buffer. */
Test(peek, every_width_is_right_at_every_offset, .timeout = 60 * TIME_SCALE)
{
    for (size_t b = 1; b <= 33; b++)
        for (size_t want = 1; want <= 32; want++) {
            struct script sc = { .step = STEPS(PIECES(300, 11)) };
            struct ahead_stream *s =
                script_open(&sc, &(struct ahead_options){ .buffer_bytes = b, .flags = AHEAD_SYNC });

            expect_note("buffer %zu, peek of %zu", b, want);
            for (uint64_t pos = 0; pos < 300; pos++) {
                const uint8_t *data;
                size_t len = 0, left = 300 - pos;
                enum ahead_status st = ahead_peek(s, want, &data, &len);

                expect_status(st, left >= want ? AHEAD_OK : AHEAD_TRUNCATED);
                expect_true(left >= want ? len >= want : len == left);
                expect_true(len <= left);
                expect_size(pattern_match(data, pos, len), len);
                expect_u64(ahead_tell(s), pos);
                ahead_consume(s, 1);
            }
            expect_ending(s, AHEAD_EOF, 0, 300);
            expect_status(ahead_close(s), AHEAD_OK);
        }
}

/* peek and consume of all sizes in turn: the most common way to parse. */
Test(peek, what_is_consumed_is_what_was_shown_in_every_mode, .timeout = 60 * TIME_SCALE)
{
    for (each_mode(m))
        for (each_size(b)) {
            struct script sc = { .step = STEPS(RANDOM(20000, 900)), .seed = *b };
            struct ahead_stream *s = open_mode(&sc, m, *b);
            uint64_t pos = 0, seed = *b;
            const uint8_t *data;
            size_t len;
            enum ahead_status st;

            expect_note("%s, buffer %zu", m->name, *b);
            while (!(st = ahead_peek(s, 1 + random_below(&seed, 90), &data, &len)) ||
                   st == AHEAD_TRUNCATED) {
                size_t n = 1 + random_below(&seed, len);

                expect_size(pattern_match(data, pos, len), len);
                if (n > 300)
                    n = 300;
                ahead_consume(s, n);
                pos += n;
                expect_u64(ahead_tell(s), pos);
            }
            expect_u64(pos, 20000);
            expect_ending(s, AHEAD_EOF, 0, 20000);
            expect_status(ahead_close(s), AHEAD_OK);
            expect_str(script_closing_verdict(&sc), "ok");
        }
}

/* F163: a peek above the buffer size swallows nothing and waits for nobody. */
Test(peek, above_the_buffer_size_is_gathered)
{
    for (each_mode(m))
        for (size_t b = 1; b <= 64; b *= 4)
            for (size_t start = 0; start < 20; start += 3) {
                struct script sc = { .step = STEPS(RANDOM(3000, 50)) };
                struct ahead_stream *s = open_mode(&sc, m, b);
                const uint8_t *data;
                size_t len;
                uint32_t v;

                expect_note("%s, buffer %zu, from %zu", m->name, b, start);
                expect_pattern(s, 0, start);
                for (size_t want = b; want <= 16 * b; want *= 2) {
                    expect_status(ahead_peek(s, want, &data, &len), AHEAD_OK);
                    expect_true(len >= want);
                    expect_size(pattern_match(data, start, len), len);
                    expect_u64(ahead_tell(s), start);
                }
                /* All that was gathered comes out again, by any call. */
                expect_status(ahead_read_u32_le(s, &v), AHEAD_OK);
                expect_u64(v, pattern_number(start, 4));
                expect_pattern(s, start + 4, 7);
                expect_status(ahead_peek(s, 100, &data, &len), AHEAD_OK);
                expect_size(pattern_match(data, start + 11, len), len);
                ahead_consume(s, 100);
                expect_pattern(s, start + 111, 3000 - start - 111);
                expect_ending(s, AHEAD_EOF, 0, 3000);
                expect_status(ahead_close(s), AHEAD_OK);
                expect_str(script_closing_verdict(&sc), "ok");
            }
}

Test(peek, past_the_end_shows_the_rest)
{
    for (each_mode(m))
        for (size_t b = 1; b <= 4096; b *= 4)
            for (int fault = 0; fault < 2; fault++) {
                struct script clean = { .step = STEPS(PIECES(200, 30)) };
                struct script faulty = { .step = STEPS(PIECES(200, 30), ERRNO(EPROTO)) };
                struct script *sc = fault ? &faulty : &clean;
                struct ahead_stream *s = open_mode(sc, m, b);
                enum ahead_status ending = fault ? AHEAD_IO : AHEAD_EOF;
                const uint8_t *data;
                size_t len;

                expect_note("%s, buffer %zu, fault %d", m->name, b, fault);
                expect_pattern(s, 0, 150);
                for (size_t want = 51; want <= 1000000; want *= 27) {
                    expect_status(ahead_peek(s, want, &data, &len),
                                  fault ? AHEAD_IO : AHEAD_TRUNCATED);
                    expect_size(len, 50);
                    expect_size(pattern_match(data, 150, 50), 50);
                    expect_u64(ahead_tell(s), 150);
                }
                expect_status(ahead_peek(s, 50, &data, &len), AHEAD_OK);
                expect_size(len, 50);
                expect_pattern(s, 150, 50);
                expect_ending(s, ending, fault ? EPROTO : 0, 200);
                expect_status(ahead_close(s), closes_with(ending));
                expect_str(script_closing_verdict(sc), "ok");
            }
}

/* F232: 0 bytes are shown at once, in every state. */
Test(peek, of_0_shows_what_is_at_hand_and_asks_for_nothing)
{
    struct script sc = { .step = STEPS(BYTES(10), STALL, BYTES(5)) };
    struct ahead_stream *s = script_open(&sc, &(struct ahead_options){ .buffer_bytes = 64 });
    const uint8_t *data;
    size_t len = 99;

    expect_status(ahead_peek(s, 0, &data, &len), AHEAD_OK);
    expect_size(len, 0);
    expect_int(script_asked(&sc), 0);
    expect_pattern(s, 0, 4);
    expect_status(ahead_peek(s, 0, &data, &len), AHEAD_OK);
    expect_size(len, 6);
    expect_size(pattern_match(data, 4, 6), 6);
    expect_pattern(s, 4, 6);
    expect_status(ahead_peek(s, 0, &data, &len), AHEAD_OK);
    expect_size(len, 0);
    expect_status(ahead_close(s), AHEAD_OK);
    expect_str(script_closing_verdict(&sc), "ok");
}

/* F163: LIMIT at once, and nothing is lost by it. */
Test(peek, above_64_mib_is_a_limit_and_no_ending)
{
    for (each_mode(m)) {
        struct script sc = { .step = STEPS(PIECES(500, 100)) };
        struct ahead_stream *s = open_mode(&sc, m, 64);
        const uint8_t *data;
        size_t len, shown;

        expect_note("%s", m->name);
        expect_pattern(s, 0, 10);
        for (int i = 0; i < 2; i++) {
            expect_status(ahead_peek(s, 0, &data, &shown), AHEAD_OK);
            expect_status(ahead_peek(s, 64 * 1024 * 1024 + 1, &data, &len), AHEAD_LIMIT);
            expect_true(len >= shown);
            expect_size(pattern_match(data, 10, len), len);
            expect_status(ahead_error(s)->status, AHEAD_LIMIT);
            expect_true(ahead_error(s)->text[0] != '\0');
            expect_status(ahead_peek(s, SIZE_MAX, &data, &len), AHEAD_LIMIT);
            expect_u64(ahead_tell(s), 10);
        }
        expect_pattern(s, 10, 490);
        expect_ending(s, AHEAD_EOF, 0, 500);
        expect_status(ahead_close(s), AHEAD_OK);
    }
}

Test(peek, of_64_mib_is_not_above_the_limit, .timeout = 60 * TIME_SCALE)
{
    enum { MOST = 64 * 1024 * 1024 };
    struct script sc = { .step = STEPS(BYTES(MOST + 100)) };
    struct ahead_stream *s = script_open(&sc, &(struct ahead_options){ .buffer_bytes = 1 << 20 });
    const uint8_t *data;
    size_t len;

    expect_pattern(s, 0, 33);
    expect_status(ahead_peek(s, MOST, &data, &len), AHEAD_OK);
    expect_true(len >= MOST);
    expect_size(pattern_match(data, 33, MOST), MOST);
    ahead_consume(s, MOST);
    expect_pattern(s, 33 + MOST, 67);
    expect_ending(s, AHEAD_EOF, 0, MOST + 100);
    expect_status(ahead_close(s), AHEAD_OK);
}

/* F162: the fill may run as it likes: what was shown stays. */
Test(peek, what_was_shown_stays_while_the_fill_goes_on)
{
    for (each_mode(m)) {
        struct script sc = { .step = STEPS(PIECES(4000, 16)) };
        struct ahead_stream *s = open_mode(&sc, m, 256);
        struct ahead_stats before, after;
        const uint8_t *data;
        size_t len;

        expect_note("%s", m->name);
        expect_pattern(s, 0, 700);
        expect_status(ahead_peek(s, 40, &data, &len), AHEAD_OK);
        /* Calls that neither consume, seek nor peek; and time for the fill. */
        do {
            ahead_get_stats(s, &before);
            ahead_buffered(s);
            ahead_tell(s);
            sleep_us(10000);
            ahead_get_stats(s, &after);
        } while (after.source_reads != before.source_reads);
        expect_size(pattern_match(data, 700, len), len);
        expect_pattern(s, 700, 3300);
        expect_status(ahead_close(s), AHEAD_OK);
        expect_str(script_closing_verdict(&sc), "ok");
    }
}

/* F158: what is gathered for a large peek moves nothing that a fill holds. */
Test(peek, grows_while_the_fill_is_inside_the_source)
{
    for (each_mode(m)) {
        struct script sc = { .step = STEPS(BYTES(64), STALL, BYTES(64), STALL, BYTES(2000)) };
        struct ahead_stream *s;
        const uint8_t *data;
        size_t len;

        if (m->flags & AHEAD_SYNC)
            continue; /* nobody is beside the reader */
        expect_note("%s", m->name);
        s = open_mode(&sc, m, 64);
        expect_pattern(s, 0, 10);
        if (m->flags & AHEAD_EAGER)
            expect_eventually(sc.stalls == 1);
        expect_status(ahead_peek(s, 54, &data, &len), AHEAD_OK);
        expect_size(pattern_match(data, 10, len), len);
        script_release(&sc);
        script_release(&sc);
        expect_status(ahead_peek(s, 16 * 64, &data, &len), AHEAD_OK);
        expect_true(len >= 16 * 64);
        expect_size(pattern_match(data, 10, len), len);
        expect_pattern(s, 10, 2118);
        expect_ending(s, AHEAD_EOF, 0, 2128);
        expect_status(ahead_close(s), AHEAD_OK);
        expect_str(script_closing_verdict(&sc), "ok");
    }
}

/* F230: consume never passes the bytes at hand. */
#ifdef AHEAD_CHECKS
Test(peek, consuming_more_than_was_shown_stops_the_program, .signal = SIGABRT)
{
    struct script sc = { .step = STEPS(BYTES(10)) };
    struct ahead_stream *s = script_open(&sc, NULL);

    expect_pattern(s, 0, 4);
    ahead_consume(s, 7);
}
#else
Test(peek, consuming_more_than_was_shown_is_cut)
{
    struct script sc = { .step = STEPS(BYTES(10), STALL, BYTES(10)) };
    struct ahead_stream *s = script_open(&sc, &(struct ahead_options){ .buffer_bytes = 16 });

    ahead_consume(s, 5); /* nothing is at hand yet */
    expect_u64(ahead_tell(s), 0);
    expect_pattern(s, 0, 4);
    ahead_consume(s, SIZE_MAX);
    expect_u64(ahead_tell(s), 10);
    ahead_consume(s, 1);
    expect_u64(ahead_tell(s), 10);
    script_release(&sc);
    expect_pattern(s, 10, 10);
    expect_ending(s, AHEAD_EOF, 0, 20);
    ahead_consume(s, 1);
    expect_ending(s, AHEAD_EOF, 0, 20);
    expect_status(ahead_close(s), AHEAD_OK);
    ahead_consume(NULL, 1);
}
#endif

Test(peek, a_wrong_call_changes_nothing)
{
    struct script sc = { .step = STEPS(BYTES(10)) };
    struct ahead_stream *s = script_open(&sc, NULL);
    const uint8_t *data;
    size_t len;

    expect_status(ahead_peek(NULL, 1, &data, &len), AHEAD_INVALID);
    expect_status(ahead_peek(s, 1, NULL, &len), AHEAD_INVALID);
    expect_status(ahead_peek(s, 1, &data, NULL), AHEAD_INVALID);
    expect_status(ahead_error(s)->status, AHEAD_INVALID);
    expect_pattern(s, 0, 10);
    expect_status(ahead_close(s), AHEAD_OK);
}

/* Up to a delimiter. */

/* Lines of 0, 1, 2, ... 39 letters: 'a' + position % 26, then '\n'. */
enum { LINES = 40, LINES_BYTES = LINES * (LINES + 1) / 2 };

static void make_lines(uint8_t *data)
{
    size_t pos = 0;

    for (size_t line = 0; line < LINES; line++) {
        for (size_t i = 0; i < line; i++, pos++)
            data[pos] = (uint8_t)('a' + pos % 26);
        data[pos++] = '\n';
    }
}

Test(until, every_line_comes_whole_with_its_delimiter)
{
    static uint8_t lines[LINES_BYTES];

    make_lines(lines);
    for (each_mode(m))
        for (size_t b = 1; b <= 100; b += b < 20 ? 1 : 13) {
            struct script sc = { .step = STEPS(RANDOM(LINES_BYTES, 17)), .data = lines };
            struct ahead_stream *s = open_mode(&sc, m, b);
            const uint8_t *data;
            size_t len, pos = 0;

            expect_note("%s, buffer %zu", m->name, b);
            for (size_t line = 0; line < LINES; line++) {
                expect_status(ahead_read_until(s, '\n', line % 2 ? 0 : 64, &data, &len), AHEAD_OK);
                expect_size(len, line + 1);
                expect_mem(data, lines + pos, len);
                pos += len;
                expect_u64(ahead_tell(s), pos);
            }
            expect_ending(s, AHEAD_EOF, 0, LINES_BYTES);
            expect_status(ahead_close(s), AHEAD_OK);
            expect_str(script_closing_verdict(&sc), "ok");
        }
}

/* The limit counts the delimiter; above it nothing moves. */
Test(until, a_line_above_max_is_a_limit)
{
    static const uint8_t text[] = "abcdefgh\nij";

    for (size_t b = 1; b <= 12; b++)
        for (size_t max = 1; max <= 12; max++) {
            struct script sc = { .step = STEPS(PIECES(11, 2)), .data = text };
            struct ahead_stream *s =
                script_open(&sc, &(struct ahead_options){ .buffer_bytes = b, .flags = AHEAD_SYNC });
            const uint8_t *data;
            size_t len;

            expect_note("buffer %zu, max %zu", b, max);
            if (max < 9) {
                expect_status(ahead_read_until(s, '\n', max, &data, &len), AHEAD_LIMIT);
                expect_status(ahead_error(s)->status, AHEAD_LIMIT);
                expect_u64(ahead_tell(s), 0);
            }
            expect_status(ahead_read_until(s, '\n', max < 9 ? 9 : max, &data, &len), AHEAD_OK);
            expect_size(len, 9);
            expect_mem(data, text, 9);
            expect_status(ahead_close(s), AHEAD_OK);
        }
}

/* A rest of exactly max bytes is a limit, too; of one less it is the cut line. */
Test(until, a_rest_as_long_as_max_is_a_limit)
{
    for (each_mode(m))
        for (size_t b = 1; b <= 16; b++) {
            struct script sc = { .step = STEPS(PIECES(8, 3)), .data = (const uint8_t *)"abcdefgh" };
            struct ahead_stream *s;
            const uint8_t *data;
            size_t len;

            expect_note("%s, buffer %zu", m->name, b);
            s = open_mode(&sc, m, b);
            for (int ended = 0; ended < 2; ended++) {
                expect_status(ahead_read_until(s, '\n', 8, &data, &len), AHEAD_LIMIT);
                expect_size(len, 0);
                expect_u64(ahead_tell(s), 0);
                expect_status(ahead_peek(s, 9, &data, &len), AHEAD_TRUNCATED); /* meets the end */
            }
            expect_status(ahead_read_until(s, '\n', 9, &data, &len), AHEAD_TRUNCATED);
            expect_size(len, 8);
            expect_mem(data, "abcdefgh", 8);
            expect_ending(s, AHEAD_EOF, 0, 8);
            expect_status(ahead_close(s), AHEAD_OK);
        }
}

Test(until, the_rest_without_a_delimiter_is_truncated)
{
    static const uint8_t text[] = "one\ntwo";

    for (each_mode(m))
        for (size_t b = 1; b <= 9; b++) {
            struct script sc = { .step = STEPS(PIECES(7, 2)), .data = text };
            struct ahead_stream *s = open_mode(&sc, m, b);
            const uint8_t *data;
            size_t len;

            expect_note("%s, buffer %zu", m->name, b);
            expect_status(ahead_read_until(s, '\n', 0, &data, &len), AHEAD_OK);
            expect_status(ahead_read_until(s, '\n', 0, &data, &len), AHEAD_TRUNCATED);
            expect_size(len, 3);
            expect_mem(data, "two", 3);
            expect_u64(ahead_tell(s), 7);
            expect_ending(s, AHEAD_EOF, 0, 7);
            expect_status(ahead_close(s), AHEAD_OK);
        }
}

Test(until, before_a_fault_the_bytes_stay_unread)
{
    static const uint8_t text[] = "one\ntwo";

    for (each_mode(m))
        for (size_t b = 1; b <= 9; b++) {
            struct script sc = { .step = STEPS(PIECES(7, 2), ERRNO(EIO)), .data = text };
            struct ahead_stream *s = open_mode(&sc, m, b);
            const uint8_t *data;
            uint8_t raw[3];
            size_t len;

            expect_note("%s, buffer %zu", m->name, b);
            expect_status(ahead_read_until(s, '\n', 0, &data, &len), AHEAD_OK);
            expect_status(ahead_read_until(s, '\n', 0, &data, &len), AHEAD_IO);
            expect_u64(ahead_tell(s), 4);
            expect_status(ahead_read_full(s, raw, 3, NULL), AHEAD_OK);
            expect_mem(raw, "two", 3);
            expect_ending(s, AHEAD_IO, EIO, 7);
            expect_status(ahead_close(s), AHEAD_IO);
        }
}

Test(until, any_byte_can_be_the_delimiter)
{
    static const uint8_t bytes[] = { 5, 0, 255, 7, 255, 0 };
    struct script sc = { .step = STEPS(BYTES(6)), .data = bytes };
    struct ahead_stream *s = script_open(&sc, NULL);
    const uint8_t *data;
    size_t len;

    expect_status(ahead_read_until(s, 0, 0, &data, &len), AHEAD_OK);
    expect_size(len, 2);
    expect_status(ahead_read_until(s, 255, 0, &data, &len), AHEAD_OK);
    expect_size(len, 1);
    expect_status(ahead_read_until(s, 0, 0, &data, &len), AHEAD_OK);
    expect_size(len, 3);
    expect_mem(data, bytes + 3, 3);
    expect_status(ahead_close(s), AHEAD_OK);
}

Test(until, a_wrong_call_changes_nothing)
{
    struct script sc = { .step = STEPS(BYTES(10)) };
    struct ahead_stream *s = script_open(&sc, NULL);
    const uint8_t *data;
    size_t len;

    expect_status(ahead_read_until(NULL, 0, 0, &data, &len), AHEAD_INVALID);
    expect_status(ahead_read_until(s, 0, 0, NULL, &len), AHEAD_INVALID);
    expect_status(ahead_read_until(s, 0, 0, &data, NULL), AHEAD_INVALID);
    expect_pattern(s, 0, 10);
    expect_status(ahead_close(s), AHEAD_OK);
}
