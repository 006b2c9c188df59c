/* SPDX-License-Identifier: Apache-2.0 */
/* reading.h - what most tests of a stream expect of it: bytes, and an ending that stays. */
#ifndef TESTS_SUPPORT_READING_H
#define TESTS_SUPPORT_READING_H

#include <ahead/ahead.h>

#include "support/clock.h"
#include "support/expect.h"
#include "support/pattern.h"

#include <stddef.h>
#include <stdint.h>

/* Buffer sizes that a test of FAULTS loops over unless it names one. */
static const size_t sizes[] = { 1, 2, 3, 7, 64, 123, 321, 4096, 65536 };

#define each_size(b)                                                                               \
    const size_t *b = sizes;                                                                       \
    b < sizes + sizeof sizes / sizeof *sizes;                                                      \
    b++

/* The next n bytes are the pattern's from `pos` on, read `chunk` at a time. */
static inline void expect_pattern_by(struct ahead_stream *s, uint64_t pos, uint64_t n, size_t chunk)
{
    uint8_t bytes[8192];

    if (chunk > sizeof bytes)
        chunk = sizeof bytes;
    while (n > 0) {
        size_t len = n < chunk ? (size_t)n : chunk, got = 0;

        expect_status(ahead_read_full(s, bytes, len, &got), AHEAD_OK);
        expect_size(got, len);
        expect_size(pattern_match(bytes, pos, len), len);
        pos += len;
        n -= len;
    }
}

static inline void expect_pattern(struct ahead_stream *s, uint64_t pos, uint64_t n)
{
    expect_pattern_by(s, pos, n, 8192);
}

/* The same under a time limit.  On a busy machine it can run out in any wait: then the reader goes
 * on, and has lost nothing. */
static inline void expect_pattern_patiently(struct ahead_stream *s, uint64_t pos, uint64_t n)
{
    uint8_t bytes[8192];

    for (uint64_t start = now_ns(), end = pos + n; pos < end;) {
        size_t len = end - pos < sizeof bytes ? (size_t)(end - pos) : sizeof bytes, got = 0;
        enum ahead_status st = ahead_read_full(s, bytes, len, &got);

        expect_size(pattern_match(bytes, pos, got), got);
        if (st == AHEAD_TIMEDOUT)
            expect_true(!too_late(start));
        else
            expect_status(st, AHEAD_OK);
        pos += got;
    }
}

/* Until what comes next, a byte or an ending, is known. */
static inline void wait_patiently(struct ahead_stream *s)
{
    expect_eventually(ahead_need(s, 1) != AHEAD_TIMEDOUT);
}

/* The stream has ended so, `offset` bytes from its start, and every call says
 * so, again and again (F114, F117, F140). */
static inline void
expect_ending(struct ahead_stream *s, enum ahead_status want, int os_errno, uint64_t offset)
{
    const uint8_t *data;
    uint8_t bytes[8];
    uint16_t array[2];
    uint64_t skipped, wide;
    uint32_t narrow;
    char text[4];
    size_t got;

    for (int i = 0; i < 3; i++) {
        got = 1;
        expect_status(ahead_read(s, bytes, sizeof bytes, &got), want);
        expect_size(got, 0);
        got = 1;
        expect_status(ahead_read_full(s, bytes, sizeof bytes, &got), want);
        expect_size(got, 0);
        got = 1;
        expect_status(ahead_peek(s, 1, &data, &got), want);
        expect_size(got, 0);
        skipped = 1;
        expect_status(ahead_skip(s, 1, &skipped), want);
        expect_u64(skipped, 0);
        got = 1;
        expect_status(ahead_read_u16_be_array(s, array, 2, &got), want);
        expect_size(got, 0);
        expect_status(ahead_read_u8(s, bytes), want);
        expect_status(ahead_read_u32_le(s, &narrow), want);
        expect_status(ahead_read_varint_u64(s, &wide), want);
        expect_status(ahead_read_utf(s, text, sizeof text, &got), want);
        expect_status(ahead_read_until(s, '\n', 0, &data, &got), want);
        expect_status(ahead_need(s, 16), want);
        expect_status(ahead_finish(s), want == AHEAD_EOF ? AHEAD_OK : want);
        expect_size(ahead_buffered(s), 0);
        expect_u64(ahead_tell(s), offset);
        expect_true(s->next == s->end);
        if (want != AHEAD_EOF) {
            expect_status(ahead_error(s)->status, want);
            expect_int(ahead_error(s)->os_errno, os_errno);
            expect_u64(ahead_error(s)->offset, offset);
            expect_true(ahead_error(s)->text[0] != '\0');
        }
    }
}

/* What close returns once a read has reached such an ending. */
static inline enum ahead_status closes_with(enum ahead_status ending)
{
    return ending == AHEAD_EOF || ending == AHEAD_CANCELLED ? AHEAD_OK : ending;
}

/* The ending where something of n bytes does not come: in a process of 32 bits what
 * no memory could hold is over the limit before that. */
static inline enum ahead_status unless_too_large(uint64_t n, enum ahead_status ending)
{
    return n > PTRDIFF_MAX && ending == AHEAD_TRUNCATED ? AHEAD_LIMIT : ending;
}

#endif
