/* SPDX-License-Identifier: Apache-2.0 */
/* test_read.c - typed reads by stream, by cursor and by array: the value, and what a tail leaves. */
#include "support/expect.h"
#include "support/pattern.h"
#include "support/reading.h"
#include "support/script.h"

#include <errno.h>
#include <float.h>
#include <string.h>

/* One kind of typed read, with its value as bits. */
struct kind {
    const char *name;
    size_t width;
    bool big;
    enum ahead_status (*by_stream)(struct ahead_stream *s, uint64_t *bits);
    enum ahead_status (*by_cursor)(struct ahead_cursor *c, uint64_t *bits);
    enum ahead_status (*by_array)(struct ahead_stream *s, void *dst, size_t n, size_t *got);
    uint64_t (*load)(const void *p);
};

/* *bits is written in every outcome, so that a value written on failure is seen. */
#define ADAPT(name, type, unsigned_type)                                                           \
    static enum ahead_status stream_##name(struct ahead_stream *s, uint64_t *bits)                 \
    {                                                                                              \
        unsigned_type u = (unsigned_type)*bits;                                                    \
        type v;                                                                                    \
        enum ahead_status st;                                                                      \
                                                                                                   \
        memcpy(&v, &u, sizeof v);                                                                  \
        st = ahead_read_##name(s, &v);                                                             \
        memcpy(&u, &v, sizeof u);                                                                  \
        *bits = u;                                                                                 \
        return st;                                                                                 \
    }                                                                                              \
    static enum ahead_status cursor_##name(struct ahead_cursor *c, uint64_t *bits)                 \
    {                                                                                              \
        unsigned_type u = (unsigned_type)*bits;                                                    \
        type v;                                                                                    \
        enum ahead_status st;                                                                      \
                                                                                                   \
        memcpy(&v, &u, sizeof v);                                                                  \
        st = ahead_cursor_read_##name(c, &v);                                                      \
        memcpy(&u, &v, sizeof u);                                                                  \
        *bits = u;                                                                                 \
        return st;                                                                                 \
    }                                                                                              \
    static uint64_t load_##name(const void *p)                                                     \
    {                                                                                              \
        unsigned_type u;                                                                           \
                                                                                                   \
        memcpy(&u, p, sizeof u);                                                                   \
        return u;                                                                                  \
    }

#define ADAPT_ARRAY(name, type, unsigned_type)                                                     \
    ADAPT(name, type, unsigned_type)                                                               \
    static enum ahead_status array_##name(struct ahead_stream *s, void *dst, size_t n,             \
                                          size_t *got)                                             \
    {                                                                                              \
        return ahead_read_##name##_array(s, dst, n, got);                                          \
    }

ADAPT(u8, uint8_t, uint8_t)
ADAPT(i8, int8_t, uint8_t)
ADAPT_ARRAY(u16_be, uint16_t, uint16_t)
ADAPT_ARRAY(u16_le, uint16_t, uint16_t)
ADAPT_ARRAY(i16_be, int16_t, uint16_t)
ADAPT_ARRAY(i16_le, int16_t, uint16_t)
ADAPT_ARRAY(u32_be, uint32_t, uint32_t)
ADAPT_ARRAY(u32_le, uint32_t, uint32_t)
ADAPT_ARRAY(i32_be, int32_t, uint32_t)
ADAPT_ARRAY(i32_le, int32_t, uint32_t)
ADAPT_ARRAY(u64_be, uint64_t, uint64_t)
ADAPT_ARRAY(u64_le, uint64_t, uint64_t)
ADAPT_ARRAY(i64_be, int64_t, uint64_t)
ADAPT_ARRAY(i64_le, int64_t, uint64_t)
ADAPT_ARRAY(f32_be, float, uint32_t)
ADAPT_ARRAY(f32_le, float, uint32_t)
ADAPT_ARRAY(f64_be, double, uint64_t)
ADAPT_ARRAY(f64_le, double, uint64_t)

#define KIND(name, width, big, array)                                                              \
    {                                                                                              \
#name, width, big, stream_##name, cursor_##name, array, load_##name                        \
    }
static const struct kind kinds[] = {
    KIND(u8, 1, true, NULL),
    KIND(i8, 1, true, NULL),
    KIND(u16_be, 2, true, array_u16_be),
    KIND(u16_le, 2, false, array_u16_le),
    KIND(i16_be, 2, true, array_i16_be),
    KIND(i16_le, 2, false, array_i16_le),
    KIND(u32_be, 4, true, array_u32_be),
    KIND(u32_le, 4, false, array_u32_le),
    KIND(i32_be, 4, true, array_i32_be),
    KIND(i32_le, 4, false, array_i32_le),
    KIND(u64_be, 8, true, array_u64_be),
    KIND(u64_le, 8, false, array_u64_le),
    KIND(i64_be, 8, true, array_i64_be),
    KIND(i64_le, 8, false, array_i64_le),
    KIND(f32_be, 4, true, array_f32_be),
    KIND(f32_le, 4, false, array_f32_le),
    KIND(f64_be, 8, true, array_f64_be),
    KIND(f64_le, 8, false, array_f64_le),
};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* What the pattern has at `pos`, put together here in the way that a format's
 * description does. */
static uint64_t value_at(const struct kind *k, uint64_t pos)
{
    uint64_t v = 0;

    for (size_t i = 0; i < k->width; i++) {
        size_t shift = 8 * (k->big ? k->width - 1 - i : i);

        v |= (uint64_t)pattern_byte(pos + i) << shift;
    }
    return v;
}

/* A read of this kind, by stream or through a cursor of its own. */
static enum ahead_status
read_kind(struct ahead_stream *s, const struct kind *k, bool cursor, uint64_t *bits)
{
    struct ahead_cursor c;
    enum ahead_status st;

    if (!cursor)
        return k->by_stream(s, bits);
    c = ahead_cursor_begin(s);
    st = k->by_cursor(&c, bits);
    ahead_cursor_end(&c);
    return st;
}

/* Read values of one kind from `pos` to the end of 1000 bytes, then what is left. */
static void expect_values(struct ahead_stream *s, const struct kind *k, bool cursor, uint64_t pos)
{
    uint64_t bits, before;

    for (; pos + k->width <= 1000; pos += k->width) {
        bits = ~value_at(k, pos);
        expect_status(read_kind(s, k, cursor, &bits), AHEAD_OK);
        expect_u64(bits, value_at(k, pos));
    }
    before = bits = 0x5a;
    expect_status(read_kind(s, k, cursor, &bits), pos == 1000 ? AHEAD_EOF : AHEAD_TRUNCATED);
    expect_u64(bits, before);
    expect_u64(ahead_tell(s), pos);
    expect_pattern(s, pos, 1000 - pos);
    expect_ending(s, AHEAD_EOF, 0, 1000);
}

/* F161, F236, F237: buffers of 1 to 33 bytes put the swap at every offset of
 * every kind of value. */
Test(read, every_kind_is_right_at_every_offset, .timeout = 60 * TIME_SCALE)
{
    for (size_t b = 1; b <= 33; b++)
        for (size_t k = 0; k < KINDS; k++)
            for (size_t start = 0; start < kinds[k].width; start++) {
                struct script sc = { .step = STEPS(BYTES(1000)) };
                struct ahead_stream *s = script_open(
                    &sc, &(struct ahead_options){ .buffer_bytes = b, .flags = AHEAD_SYNC });

                expect_note("buffer %zu, %s from %zu", b, kinds[k].name, start);
                expect_pattern(s, 0, start);
                expect_values(s, &kinds[k], (b + k + start) % 2, start);
                expect_status(ahead_close(s), AHEAD_OK);
                expect_str(script_closing_verdict(&sc), "ok");
            }
}

/* The same by cursor alone, kept for the whole stream as a tight loop does. */
Test(read, a_cursor_that_is_kept_is_right_at_every_offset, .timeout = 60 * TIME_SCALE)
{
    for (size_t b = 1; b <= 33; b++)
        for (size_t k = 0; k < KINDS; k++)
            for (size_t start = 0; start < kinds[k].width; start++) {
                struct script sc = { .step = STEPS(PIECES(1000, 5)) };
                struct ahead_stream *s = script_open(
                    &sc, &(struct ahead_options){ .buffer_bytes = b, .flags = AHEAD_SYNC });
                struct ahead_cursor c;
                uint64_t pos = start, bits = 0;

                expect_note("buffer %zu, %s from %zu", b, kinds[k].name, start);
                expect_pattern(s, 0, start);
                c = ahead_cursor_begin(s);
                for (; pos + kinds[k].width <= 1000; pos += kinds[k].width) {
                    expect_status(kinds[k].by_cursor(&c, &bits), AHEAD_OK);
                    expect_u64(bits, value_at(&kinds[k], pos));
                }
                ahead_cursor_end(&c);
                expect_u64(ahead_tell(s), pos);
                expect_pattern(s, pos, 1000 - pos);
                expect_ending(s, AHEAD_EOF, 0, 1000);
                expect_status(ahead_close(s), AHEAD_OK);
            }
}

/* The same with all kinds in turn, in every mode. */
Test(read, kinds_in_turn_are_right_in_every_mode, .timeout = 60 * TIME_SCALE)
{
    for (each_mode(m))
        for (size_t b = 1; b <= 33; b += b < 9 ? 1 : 4)
            for (size_t turn = 0; turn < KINDS; turn += 5) {
                struct script sc = { .step = STEPS(RANDOM(1000, 30)), .seed = b };
                struct ahead_stream *s;
                uint64_t pos = 0, bits = 0;

                expect_note("%s, buffer %zu, turn %zu", m->name, b, turn);
                script_set_mode(&sc, m);
                s = script_open(&sc,
                                &(struct ahead_options){ .buffer_bytes = b, .flags = m->flags });
                for (size_t k = turn; pos + 8 <= 1000; pos += kinds[k].width, k = (k + 1) % KINDS) {
                    expect_status(read_kind(s, &kinds[k], k % 3 == 0, &bits), AHEAD_OK);
                    expect_u64(bits, value_at(&kinds[k], pos));
                    expect_u64(ahead_tell(s), pos + kinds[k].width);
                }
                expect_pattern(s, pos, 1000 - pos);
                expect_ending(s, AHEAD_EOF, 0, 1000);
                expect_status(ahead_close(s), AHEAD_OK);
                expect_str(script_closing_verdict(&sc), "ok");
            }
}

/* Literal bytes as a source, behind `shift` others: every alignment in turn. */
struct literal {
    struct script sc;
    struct step steps[2];
    uint8_t bytes[64];
};

static struct ahead_stream *
open_literal(struct literal *l, size_t shift, const void *bytes, size_t len, unsigned times)
{
    struct ahead_stream *s;

    *l = (struct literal){ .steps = { BYTES(shift + times * len), END } };
    memset(l->bytes, 0xa5, shift);
    for (unsigned i = 0; i < times; i++)
        memcpy(l->bytes + shift + i * len, bytes, len);
    l->sc.step = l->steps;
    l->sc.data = l->bytes;
    s = script_open(&l->sc, NULL);
    expect_status(ahead_skip(s, shift, NULL), AHEAD_OK);
    return s;
}

/* The same bytes are read by stream, by cursor and as an array of one. */
#define EXPECT_LITERAL(name, type, bytes, want)                                                    \
    do {                                                                                           \
        for (size_t shift = 0; shift < 8; shift++) {                                               \
            struct literal l;                                                                      \
            struct ahead_stream *s = open_literal(&l, shift, bytes, sizeof(bytes) - 1, 3);         \
            struct ahead_cursor c;                                                                 \
            type v;                                                                                \
                                                                                                   \
            expect_note("%s behind %zu bytes", #name, shift);                                      \
            expect_status(ahead_read_##name(s, &v), AHEAD_OK);                                     \
            expect_true(v == (type)(want));                                                        \
            c = ahead_cursor_begin(s);                                                             \
            expect_status(ahead_cursor_read_##name(&c, &v), AHEAD_OK);                             \
            expect_true(v == (type)(want));                                                        \
            ahead_cursor_end(&c);                                                                  \
            expect_status(ahead_read_##name##_array(s, &v, 1, NULL), AHEAD_OK);                    \
            expect_true(v == (type)(want));                                                        \
            expect_status(ahead_close(s), AHEAD_OK);                                               \
        }                                                                                          \
    } while (0)

/* F236, F237: the top bit, and nothing but the top bit. */
Test(read, literal_integers_are_what_their_bytes_say)
{
    EXPECT_LITERAL(u16_be, uint16_t, "\x01\x02", 0x0102);
    EXPECT_LITERAL(u16_le, uint16_t, "\x01\x02", 0x0201);
    EXPECT_LITERAL(u16_be, uint16_t, "\xff\xff", 65535);
    EXPECT_LITERAL(i16_be, int16_t, "\xff\xfe", -2);
    EXPECT_LITERAL(i16_le, int16_t, "\xfe\xff", -2);
    EXPECT_LITERAL(i16_be, int16_t, "\x80\x00", INT16_MIN);
    EXPECT_LITERAL(i16_le, int16_t, "\xff\x7f", INT16_MAX);
    EXPECT_LITERAL(u32_be, uint32_t, "\x01\x02\x03\x04", 0x01020304);
    EXPECT_LITERAL(u32_le, uint32_t, "\x01\x02\x03\x04", 0x04030201);
    EXPECT_LITERAL(u32_be, uint32_t, "\xff\xff\xff\xff", UINT32_MAX);
    EXPECT_LITERAL(u32_be, uint32_t, "\x80\x00\x00\x00", 0x80000000u);
    EXPECT_LITERAL(i32_be, int32_t, "\xff\xff\xff\xff", -1);
    EXPECT_LITERAL(i32_be, int32_t, "\x80\x00\x00\x00", INT32_MIN);
    EXPECT_LITERAL(i32_be, int32_t, "\x7f\xff\xff\xff", INT32_MAX);
    EXPECT_LITERAL(i32_le, int32_t, "\x00\x00\x00\x80", INT32_MIN);
    EXPECT_LITERAL(i32_le, int32_t, "\xff\xff\xff\x7f", INT32_MAX);
    EXPECT_LITERAL(i32_be, int32_t, "\x00\x00\x00\x00", 0);
    EXPECT_LITERAL(u64_be, uint64_t, "\x01\x02\x03\x04\x05\x06\x07\x08", 0x0102030405060708u);
    EXPECT_LITERAL(u64_le, uint64_t, "\x01\x02\x03\x04\x05\x06\x07\x08", 0x0807060504030201u);
    EXPECT_LITERAL(u64_be, uint64_t, "\x00\x00\x00\x00\x80\x00\x00\x00", 0x80000000u);
    EXPECT_LITERAL(u64_be, uint64_t, "\xff\xff\xff\xff\xff\xff\xff\xff", UINT64_MAX);
    EXPECT_LITERAL(i64_be, int64_t, "\xff\xff\xff\xff\xff\xff\xff\xff", -1);
    EXPECT_LITERAL(i64_be, int64_t, "\x80\x00\x00\x00\x00\x00\x00\x00", INT64_MIN);
    EXPECT_LITERAL(i64_be, int64_t, "\x7f\xff\xff\xff\xff\xff\xff\xff", INT64_MAX);
    EXPECT_LITERAL(i64_le, int64_t, "\x00\x00\x00\x00\x00\x00\x00\x80", INT64_MIN);
}

Test(read, literal_floats_are_what_their_bytes_say)
{
    EXPECT_LITERAL(f32_be, float, "\x3f\x80\x00\x00", 1.0f);
    EXPECT_LITERAL(f32_le, float, "\x00\x00\x20\xc0", -2.5f);
    EXPECT_LITERAL(f32_be, float, "\x00\x00\x00\x01", FLT_TRUE_MIN);
    EXPECT_LITERAL(f32_be, float, "\x7f\x7f\xff\xff", FLT_MAX);
    EXPECT_LITERAL(f64_be, double, "\x40\x09\x21\xfb\x54\x44\x2d\x18", 3.141592653589793);
    EXPECT_LITERAL(f64_le, double, "\x00\x00\x00\x00\x00\x00\xf0\xbf", -1.0);
    EXPECT_LITERAL(f64_be, double, "\x7f\xef\xff\xff\xff\xff\xff\xff", DBL_MAX);
}

/* A NaN with a payload comes through bit by bit. */
Test(read, a_nan_keeps_its_payload)
{
    struct literal l;
    struct ahead_stream *s = open_literal(&l, 0, "\x7f\xf4\x00\x00\x00\x00\xab\xcd", 8, 1);
    double v;
    uint64_t bits;

    expect_status(ahead_read_f64_be(s, &v), AHEAD_OK);
    memcpy(&bits, &v, sizeof bits);
    expect_u64(bits, 0x7ff400000000abcdu);
    expect_status(ahead_close(s), AHEAD_OK);
}

Test(read, bytes_and_truth_values)
{
    static const uint8_t raw[] = { 0x00, 0x01, 0x7f, 0x80, 0xff };
    static const int as_signed[] = { 0, 1, 127, -128, -1 };
    struct literal l;
    struct ahead_stream *s = open_literal(&l, 3, raw, sizeof raw, 6);

    for (int i = 0; i < 5; i++) {
        uint8_t v = 1;

        expect_status(ahead_read_u8(s, &v), AHEAD_OK);
        expect_int(v, raw[i]);
    }
    for (int i = 0; i < 5; i++) {
        int8_t v = 0;

        expect_status(ahead_read_i8(s, &v), AHEAD_OK);
        expect_int(v, as_signed[i]);
    }
    for (int i = 0; i < 5; i++) {
        bool v = false;

        expect_status(ahead_read_bool(s, &v), AHEAD_OK);
        expect_int(v, i > 0);
    }
    struct ahead_cursor c = ahead_cursor_begin(s);
    for (int i = 0; i < 5; i++) {
        uint8_t v = 1;

        expect_status(ahead_cursor_read_u8(&c, &v), AHEAD_OK);
        expect_int(v, raw[i]);
    }
    for (int i = 0; i < 5; i++) {
        int8_t v = 0;

        expect_status(ahead_cursor_read_i8(&c, &v), AHEAD_OK);
        expect_int(v, as_signed[i]);
    }
    for (int i = 0; i < 5; i++) {
        bool v = false;

        expect_status(ahead_cursor_read_bool(&c, &v), AHEAD_OK);
        expect_int(v, i > 0);
    }
    ahead_cursor_end(&c);
    expect_ending(s, AHEAD_EOF, 0, 33);
    expect_status(ahead_close(s), AHEAD_OK);
}

/* F187: value and status are separate; what is too short stays, and narrower
 * reads get it. */
Test(read, a_tail_too_short_for_the_value_stays_unread)
{
    for (each_mode(m))
        for (size_t k = 0; k < KINDS; k++)
            for (size_t left = 0; left < kinds[k].width; left++)
                for (int fault = 0; fault < 2; fault++) {
                    struct script clean = { .step = STEPS(PIECES(20 + left, 3)) };
                    struct script faulty = { .step = STEPS(PIECES(20 + left, 3), ERRNO(ENXIO)) };
                    struct script *sc = fault ? &faulty : &clean;
                    enum ahead_status ending = fault ? AHEAD_IO : AHEAD_EOF;
                    struct ahead_stream *s;
                    uint64_t bits = 0xa5;

                    expect_note("%s, %s, %zu left, fault %d", m->name, kinds[k].name, left, fault);
                    script_set_mode(sc, m);
                    s = script_open(
                        sc, &(struct ahead_options){ .buffer_bytes = 1 + left, .flags = m->flags });
                    expect_pattern(s, 0, 20);
                    for (int i = 0; i < 3; i++) {
                        expect_status(read_kind(s, &kinds[k], i == 1, &bits),
                                      fault       ? AHEAD_IO
                                      : left == 0 ? AHEAD_EOF
                                                  : AHEAD_TRUNCATED);
                        expect_u64(bits, 0xa5);
                        expect_u64(ahead_tell(s), 20);
                    }
                    expect_pattern(s, 20, left);
                    expect_ending(s, ending, fault ? ENXIO : 0, 20 + left);
                    expect_status(ahead_close(s), closes_with(ending));
                    expect_str(script_closing_verdict(sc), "ok");
                }
}

/* Whole elements come, a cut one stays. */
Test(read, an_array_is_whole_elements_at_every_offset, .timeout = 60 * TIME_SCALE)
{
    for (size_t b = 1; b <= 20; b++)
        for (size_t k = 0; k < KINDS; k++)
            for (size_t start = 0; kinds[k].by_array && start < 8; start++) {
                struct script sc = { .step = STEPS(PIECES(150, 13)) };
                struct ahead_stream *s = script_open(
                    &sc, &(struct ahead_options){ .buffer_bytes = b, .flags = AHEAD_SYNC });
                const size_t width = kinds[k].width;
                uint64_t pos = start;
                uint8_t dst[17 * 8 + 8];

                expect_note("buffer %zu, %s from %zu", b, kinds[k].name, start);
                expect_pattern(s, 0, start);
                for (size_t n = 0; pos < 150; n = (n + 1) % 18) {
                    size_t whole = (150 - pos) / width, got = 99;
                    uint8_t *to = dst + n % 8; /* at any alignment */
                    enum ahead_status st;

                    memset(dst, 0xa5, sizeof dst);
                    st = kinds[k].by_array(s, to, n, &got);
                    expect_status(st, n <= whole ? AHEAD_OK : AHEAD_TRUNCATED);
                    expect_size(got, n < whole ? n : whole);
                    for (size_t i = 0; i < got; i++)
                        expect_u64(kinds[k].load(to + i * width),
                                   value_at(&kinds[k], pos + i * width));
                    expect_int(to[got * width], 0xa5);
                    pos += got * width;
                    expect_u64(ahead_tell(s), pos);
                    if (st)
                        break;
                }
                expect_pattern(s, pos, 150 - pos);
                expect_ending(s, AHEAD_EOF, 0, 150);
                expect_status(ahead_close(s), AHEAD_OK);
            }
}

Test(read, an_array_before_a_fault_gives_what_is_whole)
{
    for (each_mode(m))
        for (size_t b = 1; b <= 40; b += 3) {
            struct script sc = { .step = STEPS(RANDOM(43, 11), ERRNO(EIO)), .seed = b };
            struct ahead_stream *s;
            int32_t dst[20];
            size_t got = 0;

            expect_note("%s, buffer %zu", m->name, b);
            script_set_mode(&sc, m);
            s = script_open(&sc, &(struct ahead_options){ .buffer_bytes = b, .flags = m->flags });
            expect_status(ahead_read_i32_be_array(s, dst, 20, &got), AHEAD_IO);
            expect_size(got, 10);
            for (size_t i = 0; i < got; i++)
                expect_u64((uint32_t)dst[i], value_at(&kinds[6], 4 * i));
            expect_u64(ahead_tell(s), 40);
            expect_status(ahead_read_i32_be_array(s, dst, 20, &got), AHEAD_IO);
            expect_size(got, 0);
            expect_pattern(s, 40, 3);
            expect_ending(s, AHEAD_IO, EIO, 43);
            expect_status(ahead_close(s), AHEAD_IO);
            expect_str(script_closing_verdict(&sc), "ok");
        }
}

Test(read, a_long_array_is_exact_in_every_mode)
{
    enum { N = 100000 };
    static uint32_t dst[N];

    for (each_mode(m)) {
        struct script sc = { .step = STEPS(RANDOM(4 * N, 9000)) };
        struct ahead_stream *s;
        size_t got = 0;

        expect_note("%s", m->name);
        script_set_mode(&sc, m);
        s = script_open(&sc, &(struct ahead_options){ .buffer_bytes = 4099, .flags = m->flags });
        expect_status(ahead_read_u32_le_array(s, dst, N, &got), AHEAD_OK);
        expect_size(got, N);
        for (size_t i = 0; i < N; i++)
            if (dst[i] != value_at(&kinds[7], 4 * i))
                expect_u64(dst[i], value_at(&kinds[7], 4 * i));
        expect_status(ahead_read_u32_le_array(s, dst, 1, NULL), AHEAD_EOF);
        expect_status(ahead_close(s), AHEAD_OK);
        expect_str(script_closing_verdict(&sc), "ok");
    }
}

Test(read, a_wrong_array_call_changes_nothing)
{
    struct script sc = { .step = STEPS(BYTES(16)) };
    struct ahead_stream *s = script_open(&sc, NULL);
    uint32_t v[4];
    size_t got;

    expect_status(ahead_read_array(NULL, v, 1, 4, true, &got), AHEAD_INVALID);
    expect_status(ahead_read_array(s, NULL, 1, 4, true, &got), AHEAD_INVALID);
    for (size_t width = 0; width <= 17; width++)
        if (width != 2 && width != 4 && width != 8)
            expect_status(ahead_read_array(s, v, 1, width, true, &got), AHEAD_INVALID);
    expect_status(ahead_read_array(s, v, 0, 4, true, &got), AHEAD_OK);
    expect_size(got, 0);
    expect_u64(ahead_tell(s), 0);
    expect_pattern(s, 0, 16);
    expect_status(ahead_close(s), AHEAD_OK);
}

/* need() is the one slow path; what it brings together lies at s->next. */
Test(read, need_brings_up_to_16_bytes_together)
{
    for (each_mode(m))
        for (size_t b = 1; b <= 33; b += 4)
            for (size_t n = 0; n <= 16; n++) {
                struct script sc = { .step = STEPS(RANDOM(200, 7)), .seed = n };
                struct ahead_stream *s;
                uint64_t pos = 0;

                expect_note("%s, buffer %zu, need %zu", m->name, b, n);
                script_set_mode(&sc, m);
                s = script_open(&sc,
                                &(struct ahead_options){ .buffer_bytes = b, .flags = m->flags });
                while (pos + n <= 200 && pos < 200) {
                    expect_status(ahead_need(s, n), AHEAD_OK);
                    expect_true((size_t)(s->end - s->next) >= n);
                    expect_size(pattern_match(s->next, pos, n), n);
                    expect_u64(ahead_tell(s), pos);
                    expect_pattern(s, pos, 1);
                    pos++;
                }
                if (pos < 200) {
                    expect_status(ahead_need(s, n), AHEAD_TRUNCATED);
                    expect_u64(ahead_tell(s), pos);
                }
                expect_pattern(s, pos, 200 - pos);
                expect_status(ahead_close(s), AHEAD_OK);
                expect_str(script_closing_verdict(&sc), "ok");
            }
}

Test(read, need_of_more_than_16_bytes_is_wrong)
{
    struct script sc = { .step = STEPS(BYTES(40)) };
    struct ahead_stream *s = script_open(&sc, NULL);

    expect_status(ahead_need(s, 17), AHEAD_INVALID);
    expect_status(ahead_need(s, SIZE_MAX), AHEAD_INVALID);
    expect_status(ahead_need(NULL, 1), AHEAD_INVALID);
    expect_pattern(s, 0, 40);
    expect_status(ahead_close(s), AHEAD_OK);
}
