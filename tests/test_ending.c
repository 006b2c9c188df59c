/* SPDX-License-Identifier: Apache-2.0 */
/* test_ending.c - every good byte comes before the status that ends a stream, and that stays. */
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

/* F112: the error at every offset from 0 to 700. */
Test(ending, all_bytes_before_an_error_are_delivered, .timeout = 120 * TIME_SCALE)
{
    for (each_mode(m))
        for (uint64_t at = 0; at <= 700; at += at < 40 ? 1 : 13) {
            struct script sc = { .step = STEPS(PIECES(at, 11), ERRNO(EIO)) };
            struct ahead_stream *s = open_mode(&sc, m, 8);

            expect_note("%s, error at %ju", m->name, (uintmax_t)at);
            expect_pattern(s, 0, at);
            expect_ending(s, AHEAD_IO, EIO, at);
            expect_status(ahead_close(s), AHEAD_IO);
            expect_str(script_closing_verdict(&sc), "ok");
        }
}

/* F112 as it was first seen: 8 and 3 bytes, then the error, into 8. */
Test(ending, eight_and_three_bytes_before_an_error_are_eleven)
{
    for (each_mode(m)) {
        struct script sc = { .step = STEPS(BYTES(8), BYTES(3), ERRNO(EIO)) };
        struct ahead_stream *s = open_mode(&sc, m, 8);
        uint8_t bytes[64];
        size_t got;

        expect_note("%s", m->name);
        expect_status(ahead_read_full(s, bytes, sizeof bytes, &got), AHEAD_IO);
        expect_size(got, 11);
        expect_size(pattern_match(bytes, 0, 11), 11);
        expect_ending(s, AHEAD_IO, EIO, 11);
        expect_status(ahead_close(s), AHEAD_IO);
    }
}

/* Every status of the input, with its place and words, at every way of reading. */
Test(ending, every_status_comes_with_its_place_and_words)
{
    static const enum ahead_status endings[] = {
        AHEAD_TRUNCATED, AHEAD_CORRUPT, AHEAD_LIMIT, AHEAD_IO, AHEAD_NOMEM, AHEAD_UNSUPPORTED
    };

    for (each_mode(m))
        for (size_t e = 0; e < sizeof endings / sizeof *endings; e++)
            for (each_size(b)) {
                struct script sc = {
                    .step = STEPS(RANDOM(900, 77), STATUS(endings[e], 1234567890123u, "so it is"))
                };
                struct ahead_stream *s = open_mode(&sc, m, *b);
                const struct ahead_error *err;

                expect_note("%s, %s, buffer %zu", m->name, ahead_status_name(endings[e]), *b);
                expect_pattern(s, 0, 900);
                expect_ending(s, endings[e], 0, 900);
                err = ahead_error(s);
                expect_u64(err->source_offset, 1234567890123u);
                expect_str(err->text, "so it is");
                expect_status(ahead_close(s), endings[e]);
                expect_str(script_closing_verdict(&sc), "ok");
            }
}

/* A source that says -1 and no more has failed with errno. */
Test(ending, an_error_left_to_errno_has_words_and_no_place)
{
    struct script sc = { .step = STEPS(BYTES(3), ERRNO(ENXIO)) };
    struct ahead_stream *s = script_open(&sc, NULL);

    expect_pattern(s, 0, 3);
    expect_ending(s, AHEAD_IO, ENXIO, 3);
    expect_u64(ahead_error(s)->source_offset, UINT64_MAX);
    expect_true(strstr(ahead_error(s)->text, strerror(ENXIO)) != NULL);
    expect_status(ahead_close(s), AHEAD_IO);
}

/* F116: a length that is a multiple of the buffer, and its neighbours. */
Test(ending, lengths_around_whole_buffers_end_cleanly)
{
    for (each_mode(m))
        for (each_size(b))
            for (uint64_t k = 0; k <= 4; k++)
                for (int off = -1; off <= 1; off++)
                    for (unsigned how = 0; how < 4; how++) {
                        uint64_t len = k * *b + (uint64_t)off;
                        struct script sc = { .step = STEPS(BYTES(len)) };
                        struct ahead_stream *s;
                        const uint8_t *data;
                        uint8_t byte = 0;
                        size_t got;
                        uint64_t pos = 0;
                        enum ahead_status st;

                        if (k == 0 && off < 0)
                            continue;
                        if (*b > 400 && (how == 2 || m->stagger_us))
                            continue; /* byte by byte is the same there, and slow */
                        expect_note("%s, buffer %zu, %ju bytes, way %u", m->name, *b,
                                    (uintmax_t)len, how);
                        s = open_mode(&sc, m, *b);
                        switch (how) {
                        case 0: expect_pattern_by(s, 0, len, 97); break;
                        case 1:
                            while (!(st = ahead_peek(s, 1, &data, &got))) {
                                expect_size(pattern_match(data, pos, got), got);
                                ahead_consume(s, got);
                                pos += got;
                            }
                            expect_status(st, AHEAD_EOF);
                            expect_u64(pos, len);
                            break;
                        case 2:
                            for (; pos < len; pos++) {
                                expect_status(ahead_read_u8(s, &byte), AHEAD_OK);
                                expect_int(byte, pattern_byte(pos));
                            }
                            break;
                        case 3:
                            expect_status(ahead_skip(s, len, &pos), AHEAD_OK);
                            expect_u64(pos, len);
                            break;
                        }
                        expect_ending(s, AHEAD_EOF, 0, len);
                        expect_status(ahead_close(s), AHEAD_OK);
                        expect_str(script_closing_verdict(&sc), "ok");
                    }
}

/* F114, F117: nothing is asked of a source that has ended, and no thread comes
 * to life for it. */
Test(ending, is_latched_and_asks_the_source_no_more)
{
    for (each_mode(m))
        for (int fault = 0; fault < 2; fault++) {
            struct script clean = { .step = STEPS(PIECES(50, 9)) };
            struct script faulty = { .step = STEPS(PIECES(50, 9), ERRNO(EIO)) };
            struct script *sc = fault ? &faulty : &clean;
            enum ahead_status ending = fault ? AHEAD_IO : AHEAD_EOF;
            struct ahead_stream *s = open_mode(sc, m, 16);
            struct ahead_stats before, after;
            unsigned asked;

            expect_note("%s, fault %d", m->name, fault);
            expect_pattern(s, 0, 50);
            expect_ending(s, ending, fault ? EIO : 0, 50);
            ahead_get_stats(s, &before);
            asked = script_asked(sc);
            for (int i = 0; i < 100; i++)
                expect_ending(s, ending, fault ? EIO : 0, 50);
            ahead_get_stats(s, &after);
            expect_int(script_asked(sc), asked);
            expect_u64(after.threads_started, before.threads_started);
            expect_u64(after.bytes, 50);
            expect_status(ahead_close(s), closes_with(ending));
            expect_str(script_closing_verdict(sc), "ok");
        }
}

/* F115: got and the status come from one call; finish and close say it again. */
Test(ending, read_full_says_how_many_came_before_the_fault)
{
    for (each_mode(m)) {
        struct script sc = { .step = STEPS(PIECES(60, 25), ERRNO(EIO)) };
        struct ahead_stream *s = open_mode(&sc, m, 32);
        uint8_t bytes[100];
        size_t got = 0;

        expect_note("%s", m->name);
        expect_status(ahead_read_full(s, bytes, sizeof bytes, &got), AHEAD_IO);
        expect_size(got, 60);
        expect_size(pattern_match(bytes, 0, 60), 60);
        expect_status(ahead_finish(s), AHEAD_IO);
        expect_status(ahead_close(s), AHEAD_IO);
        expect_str(script_closing_verdict(&sc), "ok");
    }
}

Test(ending, read_full_tells_a_cut_value_from_a_clean_end)
{
    for (each_mode(m))
        for (each_size(b)) {
            struct script sc = { .step = STEPS(RANDOM(60, 7)) };
            struct ahead_stream *s = open_mode(&sc, m, *b);
            uint8_t bytes[100];
            size_t got = 0;

            expect_note("%s, buffer %zu", m->name, *b);
            expect_status(ahead_read_full(s, bytes, sizeof bytes, &got), AHEAD_TRUNCATED);
            expect_size(got, 60);
            expect_size(pattern_match(bytes, 0, 60), 60);
            expect_status(ahead_read_full(s, bytes, sizeof bytes, &got), AHEAD_EOF);
            expect_size(got, 0);
            expect_ending(s, AHEAD_EOF, 0, 60);
            expect_status(ahead_close(s), AHEAD_OK);
        }
}

/* What a call says of its own value is no ending, and close does not repeat it. */
Test(ending, truncation_of_a_value_is_none)
{
    for (each_mode(m)) {
        struct script sc = { .step = STEPS(BYTES(5)) };
        struct ahead_stream *s = open_mode(&sc, m, 4);
        uint64_t wide;
        uint32_t v;

        expect_note("%s", m->name);
        expect_status(ahead_read_u64_be(s, &wide), AHEAD_TRUNCATED);
        expect_status(ahead_error(s)->status, AHEAD_TRUNCATED);
        expect_true(ahead_error(s)->text[0] != '\0');
        expect_status(ahead_read_u32_le(s, &v), AHEAD_OK);
        expect_u64(v, pattern_number(0, 4));
        expect_status(ahead_read_u32_le(s, &v), AHEAD_TRUNCATED);
        expect_status(ahead_close(s), AHEAD_OK);
    }
}

/* An end that was never read to is not judged. */
Test(ending, that_was_not_reached_is_not_what_close_returns)
{
    for (each_mode(m)) {
        struct script sc = { .step = STEPS(BYTES(5), ERRNO(EIO)) };
        struct ahead_stream *s = open_mode(&sc, m, 64);

        expect_note("%s", m->name);
        expect_pattern(s, 0, 5);
        expect_status(ahead_error(s)->status, AHEAD_OK);
        expect_status(ahead_close(s), AHEAD_OK);
        expect_str(script_closing_verdict(&sc), "ok");
    }
}

/* F118: the first error wins, in status, errno and words. */
Test(ending, the_first_error_is_not_replaced_by_that_of_close)
{
    for (each_mode(m)) {
        struct script sc = { .step = STEPS(BYTES(9), STATUS(AHEAD_CORRUPT, 4, "first")),
                             .close_status = AHEAD_IO,
                             .close_errno = EBADF };
        struct ahead_stream *s = open_mode(&sc, m, 64);

        expect_note("%s", m->name);
        expect_pattern(s, 0, 9);
        expect_ending(s, AHEAD_CORRUPT, 0, 9);
        expect_str(ahead_error(s)->text, "first");
        expect_status(ahead_close(s), AHEAD_CORRUPT);
        expect_str(script_closing_verdict(&sc), "ok");
    }
}

Test(ending, a_failing_close_is_returned_after_a_clean_end)
{
    for (each_mode(m))
        for (unsigned n = 0; n <= 9; n += 3) {
            struct script sc = { .step = STEPS(BYTES(6)),
                                 .close_status = AHEAD_IO,
                                 .close_errno = EBADF };
            struct ahead_stream *s = open_mode(&sc, m, 64);
            uint8_t bytes[9];

            expect_note("%s, %u read", m->name, n);
            (void)!ahead_read_full(s, bytes, n, NULL);
            expect_status(ahead_close(s), AHEAD_IO);
            expect_str(script_closing_verdict(&sc), "ok");
        }
}

/* F121, F128: bytes that a failing or a lying read stored are not delivered. */
Test(ending, bytes_of_a_failed_read_do_not_count)
{
    for (each_mode(m)) {
        struct script spoils = { .step = STEPS(BYTES(10), SPOIL(64, EIO)) };
        struct script lies = { .step = STEPS(BYTES(10), OVER(1)) };
        struct ahead_stream *s = open_mode(&spoils, m, 128);

        expect_note("%s", m->name);
        expect_pattern(s, 0, 10);
        expect_ending(s, AHEAD_IO, EIO, 10);
        expect_status(ahead_close(s), AHEAD_IO);
        s = open_mode(&lies, m, 128);
        expect_pattern(s, 0, 10);
        expect_ending(s, AHEAD_IO, ahead_error(s)->os_errno, 10);
        expect_status(ahead_close(s), AHEAD_IO);
        expect_str(script_closing_verdict(&lies), "ok");
    }
}

/* F120: an error ahead of the reader spoils nothing that lies before it. */
Test(ending, an_error_is_reported_by_the_read_that_needs_its_byte)
{
    for (each_mode(m)) {
        struct script sc = { .step = STEPS(PIECES(100, 10), ERRNO(EIO)) };
        struct ahead_stream *s = open_mode(&sc, m, 64);
        uint8_t byte;

        expect_note("%s", m->name);
        for (unsigned i = 0; i < 100; i++) {
            expect_status(ahead_read_u8(s, &byte), AHEAD_OK);
            expect_status(ahead_error(s)->status, AHEAD_OK);
        }
        expect_ending(s, AHEAD_IO, EIO, 100);
        expect_status(ahead_close(s), AHEAD_IO);
    }
}

/* F125: EINTR is retried, as often as it comes. */
Test(ending, eintr_is_none)
{
    for (each_mode(m)) {
        struct script sc = { .step = STEPS(BYTES(5), ERRNO_TIMES(EINTR, 1000), BYTES(5),
                                           ERRNO_TIMES(EINTR, 1), BYTES(5)) };
        struct ahead_stream *s = open_mode(&sc, m, 4);

        expect_note("%s", m->name);
        expect_pattern(s, 0, 15);
        expect_ending(s, AHEAD_EOF, 0, 15);
        expect_status(ahead_close(s), AHEAD_OK);
        expect_str(script_closing_verdict(&sc), "ok");
    }
}

/* A status that ends nothing would let its reader wait for what never comes. */
Test(ending, of_a_source_that_may_not_end_so_is_io)
{
    static const enum ahead_status none[] = { AHEAD_TIMEDOUT, AHEAD_INVALID, 77 };

    for (each_mode(m))
        for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
            struct script sc = { .step = STEPS(PIECES(50, 9), STATUS(none[i], 50, "odd")) };
            struct ahead_stream *s;

            expect_note("%s, %s", m->name, ahead_status_name(none[i]));
            s = open_mode(&sc, m, 16);
            expect_pattern(s, 0, 50);
            expect_ending(s, AHEAD_IO, 0, 50);
            expect_u64(ahead_error(s)->source_offset, 50);
            expect_status(ahead_close(s), AHEAD_IO);
            expect_str(script_closing_verdict(&sc), "ok");
        }
}

/* F127: "nothing now" is asked again, some times and not at full speed. */
Test(ending, eagain_is_retried_a_bounded_number_of_times, .timeout = 60 * TIME_SCALE)
{
    for (each_mode(m)) {
        struct script patient = { .step = STEPS(BYTES(5), ERRNO_TIMES(EAGAIN, 4), BYTES(5)) };
        struct ahead_stream *s = open_mode(&patient, m, 4);

        expect_note("%s", m->name);
        expect_pattern(s, 0, 10);
        expect_ending(s, AHEAD_EOF, 0, 10);
        expect_status(ahead_close(s), AHEAD_OK);
        expect_str(script_closing_verdict(&patient), "ok");
    }
    for (unsigned flags = 0; flags <= AHEAD_SYNC; flags += AHEAD_SYNC) {
        struct script never = { .step = STEPS(BYTES(5), ERRNO_TIMES(EAGAIN, 1000000)) };
        struct ahead_stream *s =
            script_open(&never, &(struct ahead_options){ .buffer_bytes = 4, .flags = flags });
        uint64_t start = now_ns();

        expect_pattern(s, 0, 5);
        expect_ending(s, AHEAD_IO, EAGAIN, 5);
        expect_true(script_count(&never, CALL_READ) <= 10000 * ms_since(start) / 1000 + 10);
        expect_status(ahead_close(s), AHEAD_IO);
        expect_str(script_closing_verdict(&never), "ok");
    }
}

/* F109, F127: 0 is the end and is not asked again; a piece of no bytes is not. */
Test(ending, a_piece_of_no_bytes_is_none)
{
    for (each_mode(m)) {
        struct script sc = { .step = STEPS(PIECES(300, 1)), .seed = 1 };
        struct ahead_stream *s;

        if (!m->split)
            continue;
        expect_note("%s", m->name);
        script_set_mode(&sc, m);
        sc.hollow = true;
        s = script_open(&sc, &(struct ahead_options){ .buffer_bytes = 16, .flags = m->flags });
        expect_pattern(s, 0, 300);
        expect_ending(s, AHEAD_EOF, 0, 300);
        expect_status(ahead_close(s), AHEAD_OK);
        expect_str(script_closing_verdict(&sc), "ok");
    }
}

/* finish waits for one byte at most, and takes none. */
Test(finish, tells_whether_anything_is_left)
{
    for (each_mode(m)) {
        struct script sc = { .step = STEPS(BYTES(10)) };
        struct ahead_stream *s = open_mode(&sc, m, 64);

        expect_note("%s", m->name);
        for (int i = 0; i < 2; i++) {
            expect_status(ahead_finish(s), AHEAD_CORRUPT);
            expect_status(ahead_error(s)->status, AHEAD_CORRUPT);
            expect_u64(ahead_tell(s), 0);
        }
        expect_pattern(s, 0, 4);
        expect_status(ahead_finish(s), AHEAD_CORRUPT);
        expect_true(strstr(ahead_error(s)->text, "6") != NULL);
        expect_pattern(s, 4, 6);
        expect_status(ahead_finish(s), AHEAD_OK);
        expect_ending(s, AHEAD_EOF, 0, 10);
        expect_status(ahead_close(s), AHEAD_OK);
    }
}

Test(finish, says_the_fault_that_follows)
{
    for (each_mode(m)) {
        struct script sc = { .step = STEPS(BYTES(10), STATUS(AHEAD_TRUNCATED, 12, "cut")) };
        struct ahead_stream *s = open_mode(&sc, m, 64);

        expect_note("%s", m->name);
        expect_pattern(s, 0, 10);
        expect_status(ahead_finish(s), AHEAD_TRUNCATED);
        expect_ending(s, AHEAD_TRUNCATED, 0, 10);
        expect_str(ahead_error(s)->text, "cut");
        expect_status(ahead_close(s), AHEAD_TRUNCATED);
    }
}

/* F113: through three streams, one on the other. */
Test(ending, passes_through_stacked_streams_as_it_is)
{
    static const enum ahead_status endings[] = { AHEAD_TRUNCATED, AHEAD_CORRUPT, AHEAD_LIMIT,
                                                 AHEAD_UNSUPPORTED };

    for (each_mode(m))
        for (size_t e = 0; e < sizeof endings / sizeof *endings; e++) {
            struct script sc = { .step = STEPS(RANDOM(500, 40), STATUS(endings[e], 77, "deep")) };
            struct ahead_stream *s = open_mode(&sc, m, 16);

            expect_note("%s, %s", m->name, ahead_status_name(endings[e]));
            for (int level = 0; level < 2; level++) {
                struct ahead_source src;

                expect_status(ahead_source_stream(&src, s), AHEAD_OK);
                expect_status(
                    ahead_open(&s, src,
                               &(struct ahead_options){ .buffer_bytes = 24, .flags = m->flags }),
                    AHEAD_OK);
            }
            expect_pattern(s, 0, 500);
            expect_ending(s, endings[e], 0, 500);
            expect_u64(ahead_error(s)->source_offset, 77);
            expect_str(ahead_error(s)->text, "deep");
            expect_status(ahead_close(s), endings[e]);
            expect_str(script_closing_verdict(&sc), "ok");
        }
}
