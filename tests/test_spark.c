/* SPDX-License-Identifier: Apache-2.0 */
/* test_spark.c - the cases of Spark's suite for such streams (SPARK-23366), each with its five
 * pairs of source piece and buffer size. */
#include "support/expect.h"
#include "support/pattern.h"
#include "support/reading.h"
#include "support/script.h"

#include <string.h>

enum { LENGTH = 256 * 1024 + 321 };

static const struct {
    size_t piece, buffer;
} pairs[] = { { 8 * 1024, 8 * 1024 },
              { 3 * 1024, 2 * 1024 },
              { 2 * 1024, 3 * 1024 },
              { 321, 123 },
              { 123, 321 } };

/* Runs in each mode and pair; steps of all their pieces and short ones beside. */
#define each_pair(m_, i_)                                                                          \
    for (each_mode(m_))                                                                            \
        for (size_t i_ = 0; i_ < sizeof pairs / sizeof *pairs; i_++)

static struct ahead_stream *open_pair(struct script *sc, const struct mode *m, size_t i)
{
    expect_note("%s, pieces of %zu, buffer of %zu", m->name, pairs[i].piece, pairs[i].buffer);
    script_set_mode(sc, m);
    sc->stagger_us /= 20; /* there are very many pieces */
    sc->has = HAS_SEEK;
    return script_open(
        sc, &(struct ahead_options){ .buffer_bytes = pairs[i].buffer, .flags = m->flags });
}

static void expect_closed(struct script *sc, struct ahead_stream *s)
{
    expect_status(ahead_close(s), AHEAD_OK);
    expect_str(script_closing_verdict(sc), "ok");
}

Test(spark, read_one_byte_at_a_time, .timeout = 120 * TIME_SCALE)
{
    each_pair(m, i)
    {
        struct script sc = { .step = STEPS(PIECES(LENGTH / 4, pairs[i].piece)) };
        struct ahead_stream *s = open_pair(&sc, m, i);
        uint8_t byte;

        for (uint64_t pos = 0; pos < LENGTH / 4; pos++)
            if (ahead_read_u8(s, &byte) || byte != pattern_byte(pos))
                expect_u64(pos, UINT64_MAX);
        expect_ending(s, AHEAD_EOF, 0, LENGTH / 4);
        expect_closed(&sc, s);
    }
}

Test(spark, read_many_bytes_at_a_time, .timeout = 120 * TIME_SCALE)
{
    each_pair(m, i)
    {
        struct script sc = { .step = STEPS(PIECES(LENGTH, pairs[i].piece)) };
        struct ahead_stream *s = open_pair(&sc, m, i);
        uint8_t bytes[8 * 1024];
        uint64_t pos = 0;
        size_t got;
        enum ahead_status st;

        while (!(st = ahead_read(s, bytes, sizeof bytes, &got))) {
            expect_true(got > 0);
            expect_size(pattern_match(bytes, pos, got), got);
            pos += got;
        }
        expect_status(st, AHEAD_EOF);
        expect_u64(pos, LENGTH);
        expect_closed(&sc, s);
    }
}

Test(spark, skipped, .timeout = 120 * TIME_SCALE)
{
    each_pair(m, i)
    {
        struct script sc = { .step = STEPS(PIECES(LENGTH, pairs[i].piece)) };
        struct ahead_stream *s = open_pair(&sc, m, i);
        uint64_t skipped;

        expect_status(ahead_skip(s, 1024, &skipped), AHEAD_OK);
        expect_u64(skipped, 1024);
        expect_pattern(s, 1024, LENGTH - 1024);
        expect_ending(s, AHEAD_EOF, 0, LENGTH);
        expect_closed(&sc, s);
    }
}

Test(spark, skipped_after_a_read, .timeout = 120 * TIME_SCALE)
{
    each_pair(m, i)
    {
        struct script sc = { .step = STEPS(PIECES(LENGTH, pairs[i].piece)) };
        struct ahead_stream *s = open_pair(&sc, m, i);
        uint64_t skipped;

        expect_pattern_by(s, 0, 1024, 1);
        expect_status(ahead_skip(s, 1024, &skipped), AHEAD_OK);
        expect_u64(skipped, 1024);
        expect_pattern(s, 2048, LENGTH - 2048);
        expect_ending(s, AHEAD_EOF, 0, LENGTH);
        expect_closed(&sc, s);
    }
}

/* Java's skip(-n) passes nothing; going back is a seek here. */
Test(spark, negative_skip_after_a_read, .timeout = 120 * TIME_SCALE)
{
    each_pair(m, i)
    {
        struct script sc = { .step = STEPS(PIECES(LENGTH, pairs[i].piece)) };
        struct ahead_stream *s = open_pair(&sc, m, i);
        uint64_t skipped = 9;

        expect_pattern_by(s, 0, 1024, 1);
        expect_status(ahead_skip(s, 0, &skipped), AHEAD_OK);
        expect_u64(skipped, 0);
        expect_pattern(s, 1024, 1024);
        expect_status(ahead_seek(s, ahead_tell(s) - 1024), AHEAD_OK);
        expect_pattern(s, 1024, 10000);
        expect_status(ahead_seek(s, 0), AHEAD_OK);
        expect_pattern(s, 0, LENGTH);
        expect_ending(s, AHEAD_EOF, 0, LENGTH);
        expect_closed(&sc, s);
    }
}

Test(spark, skipped_past_the_end, .timeout = 120 * TIME_SCALE)
{
    each_pair(m, i)
    {
        struct script sc = { .step = STEPS(PIECES(LENGTH, pairs[i].piece)) };
        struct ahead_stream *s = open_pair(&sc, m, i);
        uint64_t skipped;

        expect_status(ahead_skip(s, LENGTH + 1, &skipped), AHEAD_EOF);
        expect_u64(skipped, LENGTH);
        expect_ending(s, AHEAD_EOF, 0, LENGTH);
        expect_closed(&sc, s);
    }
}

Test(spark, read_past_the_end, .timeout = 120 * TIME_SCALE)
{
    each_pair(m, i)
    {
        struct script sc = { .step = STEPS(PIECES(LENGTH, pairs[i].piece)) };
        struct ahead_stream *s = open_pair(&sc, m, i);

        expect_pattern(s, 0, LENGTH);
        for (int again = 0; again < 10; again++)
            expect_ending(s, AHEAD_EOF, 0, LENGTH);
        expect_closed(&sc, s);
    }
}
