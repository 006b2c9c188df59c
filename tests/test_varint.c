/* SPDX-License-Identifier: Apache-2.0 */
/* test_varint.c - numbers of variable length and Java's strings: every edge, and what stays unread. */
#include "support/expect.h"
#include "support/pattern.h"
#include "support/reading.h"
#include "support/script.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A stream over these bytes, in pieces of one, then the end or EIO. */
struct bytes {
    struct script sc;
    struct step steps[3];
};

static struct ahead_stream *
open_bytes(struct bytes *b, const void *data, size_t len, bool fault, size_t buffer_bytes)
{
    *b = (struct bytes){ .steps = { PIECES(len, 1), ERRNO(EIO), END } };
    if (!fault)
        b->steps[1] = (struct step)END;
    b->sc.step = b->steps;
    b->sc.data = data;
    return script_open(
        &b->sc, &(struct ahead_options){ .buffer_bytes = buffer_bytes, .flags = AHEAD_SYNC });
}

/* What a tag stands for: which of the eight reads of variable length. */
struct number {
    const char *bytes;
    size_t len;
    uint64_t value;
};
#define NUMBER(text, value)                                                                        \
    {                                                                                              \
        text, sizeof(text) - 1, value                                                              \
    }

static const struct number numbers_64[] = {
    NUMBER("\x00", 0), NUMBER("\x01", 1), NUMBER("\x7f", 127), NUMBER("\x80\x01", 128),
    NUMBER("\xff\x01", 255), NUMBER("\xac\x02", 300), NUMBER("\xff\x7f", 16383),
    NUMBER("\x80\x80\x01", 16384), NUMBER("\xff\xff\x7f", 2097151),
    NUMBER("\x80\x80\x80\x01", 2097152), NUMBER("\xff\xff\xff\x7f", 268435455),
    NUMBER("\x80\x80\x80\x80\x01", 268435456), NUMBER("\xff\xff\xff\xff\x07", INT32_MAX),
    NUMBER("\xff\xff\xff\xff\x0f", UINT32_MAX), NUMBER("\x80\x80\x80\x80\x10", 4294967296u),
    NUMBER("\xff\xff\xff\xff\x7f", 34359738367u), NUMBER("\x80\x80\x80\x80\x80\x01", 34359738368u),
    NUMBER("\xff\xff\xff\xff\xff\x7f", 4398046511103u),
    NUMBER("\xff\xff\xff\xff\xff\xff\x7f", 562949953421311u),
    NUMBER("\xff\xff\xff\xff\xff\xff\xff\x7f", 72057594037927935u),
    NUMBER("\xff\xff\xff\xff\xff\xff\xff\xff\x7f", INT64_MAX),
    NUMBER("\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", 9223372036854775808u),
    NUMBER("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", UINT64_MAX),
    /* Longer than need be, and still within the limit: no fault. */
    NUMBER("\x80\x00", 0), NUMBER("\x81\x80\x80\x00", 1),
    NUMBER("\xff\x80\x80\x80\x80\x80\x80\x80\x80\x00", 127)
};

static const struct number numbers_32[] = { NUMBER("\x00", 0),
                                            NUMBER("\x7f", 127),
                                            NUMBER("\x80\x01", 128),
                                            NUMBER("\xff\x7f", 16383),
                                            NUMBER("\x80\x80\x01", 16384),
                                            NUMBER("\xff\xff\xff\x7f", 268435455),
                                            NUMBER("\x80\x80\x80\x80\x01", 268435456),
                                            NUMBER("\xff\xff\xff\xff\x07", INT32_MAX),
                                            NUMBER("\xff\xff\xff\xff\x0f", UINT32_MAX),
                                            NUMBER("\x80\x80\x80\x80\x00", 0) };

/* More bytes or more bits than there may be. */
static const struct number bad_64[] = { NUMBER("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 0),
                                        NUMBER("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 0),
                                        NUMBER("\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00", 0),
                                        NUMBER("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
                                               0) };
static const struct number bad_32[] = { NUMBER("\xff\xff\xff\xff\x10", 0),
                                        NUMBER("\xff\xff\xff\xff\x1f", 0),
                                        NUMBER("\xff\xff\xff\xff\x7f", 0),
                                        NUMBER("\x80\x80\x80\x80\x80\x00", 0),
                                        NUMBER("\xff\xff\xff\xff\xff\x01", 0) };
#define COUNT(table) (sizeof table / sizeof *table)

static enum ahead_status
read_number(struct ahead_stream *s, unsigned bits, bool cursor, uint64_t *v)
{
    struct ahead_cursor c;
    enum ahead_status st;
    uint32_t narrow = (uint32_t)*v;

    if (bits == 64 && !cursor)
        return ahead_read_varint_u64(s, v);
    if (bits == 32 && !cursor) {
        st = ahead_read_varint_u32(s, &narrow);
        *v = narrow;
        return st;
    }
    c = ahead_cursor_begin(s);
    if (bits == 64) {
        st = ahead_cursor_read_varint_u64(&c, v);
    } else {
        st = ahead_cursor_read_varint_u32(&c, &narrow);
        *v = narrow;
    }
    ahead_cursor_end(&c);
    return st;
}

/* Each one alone, with a byte behind it, at every buffer size around its length. */
static void expect_numbers(const struct number *table, size_t n, unsigned bits)
{
    for (size_t i = 0; i < n; i++)
        for (size_t buffer = 1; buffer <= 17; buffer++)
            for (int cursor = 0; cursor < 2; cursor++) {
                uint8_t data[16];
                uint64_t v = 0;
                uint8_t behind = 0;
                struct bytes b;
                struct ahead_stream *s;

                expect_note("%u bits, number %zu, buffer %zu, cursor %d", bits, i, buffer, cursor);
                memcpy(data, table[i].bytes, table[i].len);
                data[table[i].len] = 0xab;
                s = open_bytes(&b, data, table[i].len + 1, false, buffer);
                expect_status(read_number(s, bits, cursor, &v), AHEAD_OK);
                expect_u64(v, table[i].value);
                expect_u64(ahead_tell(s), table[i].len);
                expect_status(ahead_read_u8(s, &behind), AHEAD_OK);
                expect_int(behind, 0xab);
                expect_ending(s, AHEAD_EOF, 0, table[i].len + 1);
                expect_status(ahead_close(s), AHEAD_OK);
            }
}

Test(varint, every_boundary_is_right)
{
    expect_numbers(numbers_64, COUNT(numbers_64), 64);
    expect_numbers(numbers_32, COUNT(numbers_32), 32);
}

/* Corruption of a value is no ending: the bytes stay, and can be read as others. */
static void expect_corrupt(const struct number *table, size_t n, unsigned bits)
{
    for (size_t i = 0; i < n; i++)
        for (size_t buffer = 1; buffer <= 17; buffer += 4)
            for (int cursor = 0; cursor < 2; cursor++) {
                uint8_t raw[16];
                uint64_t v = 0x5a5a5a5a;
                struct bytes b;
                struct ahead_stream *s =
                    open_bytes(&b, table[i].bytes, table[i].len, false, buffer);

                expect_note("%u bits, number %zu, buffer %zu, cursor %d", bits, i, buffer, cursor);
                for (int again = 0; again < 2; again++) {
                    expect_status(read_number(s, bits, cursor, &v), AHEAD_CORRUPT);
                    expect_status(ahead_error(s)->status, AHEAD_CORRUPT);
                    expect_true(ahead_error(s)->text[0] != '\0');
                    expect_u64(v, 0x5a5a5a5a);
                    expect_u64(ahead_tell(s), 0);
                }
                expect_status(ahead_read_full(s, raw, table[i].len, NULL), AHEAD_OK);
                expect_mem(raw, table[i].bytes, table[i].len);
                expect_ending(s, AHEAD_EOF, 0, table[i].len);
                expect_status(ahead_close(s), AHEAD_OK);
            }
}

Test(varint, too_many_bytes_or_bits_are_corrupt)
{
    expect_corrupt(bad_64, COUNT(bad_64), 64);
    expect_corrupt(bad_32, COUNT(bad_32), 32);
}

/* F187: cut after each byte, by an end or by a fault. */
Test(varint, a_cut_number_stays_unread)
{
    static const char whole[] = "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01";

    for (unsigned bits = 32; bits <= 64; bits += 32)
        for (size_t len = 0; len < (bits == 64 ? 10u : 5u); len++)
            for (int fault = 0; fault < 2; fault++)
                for (int cursor = 0; cursor < 2; cursor++) {
                    enum ahead_status ending = fault ? AHEAD_IO : AHEAD_EOF;
                    struct bytes b;
                    struct ahead_stream *s = open_bytes(&b, whole, len, fault, 3);
                    uint8_t raw[10];
                    uint64_t v = 7;

                    expect_note("%u bits, %zu bytes, fault %d", bits, len, fault);
                    expect_status(read_number(s, bits, cursor, &v), fault ? AHEAD_IO
                                                                    : len ? AHEAD_TRUNCATED
                                                                          : AHEAD_EOF);
                    expect_u64(v, 7);
                    expect_u64(ahead_tell(s), 0);
                    if (len > 0)
                        expect_status(ahead_read_full(s, raw, len, NULL), AHEAD_OK);
                    expect_ending(s, ending, fault ? EIO : 0, len);
                    expect_status(ahead_close(s), closes_with(ending));
                }
}

Test(varint, other_widths_are_wrong)
{
    struct bytes b;
    struct ahead_stream *s = open_bytes(&b, "\x81\x01", 2, false, 8);
    uint64_t v;

    expect_status(ahead_read_varint(s, 31, &v), AHEAD_INVALID);
    expect_status(ahead_read_varint(s, 0, &v), AHEAD_INVALID);
    expect_status(ahead_read_varint(s, 128, &v), AHEAD_INVALID);
    expect_status(ahead_read_varint(NULL, 64, &v), AHEAD_INVALID);
    expect_status(ahead_read_varint(s, 64, NULL), AHEAD_INVALID);
    expect_status(ahead_read_varint(s, 64, &v), AHEAD_OK);
    expect_u64(v, 129);
    expect_status(ahead_close(s), AHEAD_OK);
}

Test(varint, zigzag_turns_every_pattern_into_its_number)
{
    static const struct {
        const char *bytes;
        size_t len;
        int64_t value;
    } cases[] = { NUMBER("\x00", 0),
                  NUMBER("\x01", -1),
                  NUMBER("\x02", 1),
                  NUMBER("\x03", -2),
                  NUMBER("\x7f", -64),
                  NUMBER("\x80\x01", 64),
                  NUMBER("\xfe\xff\xff\xff\x0f", INT32_MAX),
                  NUMBER("\xff\xff\xff\xff\x0f", INT32_MIN),
                  NUMBER("\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", INT64_MAX),
                  NUMBER("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", INT64_MIN) };

    for (size_t i = 0; i < COUNT(cases); i++)
        for (int cursor = 0; cursor < 2; cursor++) {
            struct bytes b;
            struct ahead_stream *s = open_bytes(&b, cases[i].bytes, cases[i].len, false, 4);
            bool narrow = cases[i].len <= 5;
            int64_t wide = 99;
            int32_t v = 99;
            enum ahead_status st, st32;

            expect_note("case %zu", i);
            if (cursor) {
                struct ahead_cursor c = ahead_cursor_begin(s);

                st32 = ahead_cursor_read_zigzag_i32(&c, &v);
                if (!narrow)
                    st = ahead_cursor_read_zigzag_i64(&c, &wide);
                ahead_cursor_end(&c);
            } else {
                st32 = ahead_read_zigzag_i32(s, &v);
                if (!narrow)
                    st = ahead_read_zigzag_i64(s, &wide);
            }
            expect_status(st32, narrow ? AHEAD_OK : AHEAD_CORRUPT);
            expect_int(v, narrow ? cases[i].value : 99);
            if (!narrow) {
                expect_status(st, AHEAD_OK);
                expect_int(wide, cases[i].value);
            }
            expect_ending(s, AHEAD_EOF, 0, cases[i].len);
            expect_status(ahead_close(s), AHEAD_OK);
            expect_int(ahead_zigzag(0), 0);
            s = open_bytes(&b, cases[i].bytes, cases[i].len, false, 4);
            expect_status(ahead_read_zigzag_i64(s, &wide), AHEAD_OK);
            expect_int(wide, cases[i].value);
            expect_status(ahead_close(s), AHEAD_OK);
        }
}

/* Numbers of all lengths in a row, in every mode. */
Test(varint, a_row_of_numbers_is_exact_in_every_mode)
{
    enum { N = 600 };
    static uint8_t data[10 * N];
    static uint64_t want[N];
    size_t len = 0;

    for (size_t i = 0; i < N; i++) {
        uint64_t rest = want[i] = pattern_word(i) >> i % 64;

        for (; rest >= 0x80; rest >>= 7)
            data[len++] = (uint8_t)(rest | 0x80);
        data[len++] = (uint8_t)rest;
    }
    for (each_mode(m))
        for (size_t buffer = 1; buffer <= 40; buffer += buffer < 13 ? 1 : 9) {
            struct script sc = { .step = STEPS(RANDOM(len, 60)), .data = data, .seed = buffer };
            struct ahead_stream *s;

            expect_note("%s, buffer %zu", m->name, buffer);
            script_set_mode(&sc, m);
            s = script_open(&sc,
                            &(struct ahead_options){ .buffer_bytes = buffer, .flags = m->flags });
            for (size_t i = 0; i < N; i++) {
                uint64_t v;

                expect_status(read_number(s, 64, i % 7 == 0, &v), AHEAD_OK);
                expect_u64(v, want[i]);
            }
            expect_ending(s, AHEAD_EOF, 0, len);
            expect_status(ahead_close(s), AHEAD_OK);
            expect_str(script_closing_verdict(&sc), "ok");
        }
}

/* Java's strings. */

static enum ahead_status
read_utf(struct ahead_stream *s, bool cursor, char *dst, size_t cap, size_t *len)
{
    struct ahead_cursor c;
    enum ahead_status st;

    if (!cursor)
        return ahead_read_utf(s, dst, cap, len);
    c = ahead_cursor_begin(s);
    st = ahead_cursor_read_utf(&c, dst, cap, len);
    ahead_cursor_end(&c);
    return st;
}

Test(utf, a_string_is_its_bytes_without_a_nul)
{
    static const struct {
        const char *bytes;
        size_t len;
    } cases[] = { { "\0\0", 2 },
                  { "\0\1A", 3 },
                  { "\0\5hello", 7 },
                  { "\0\2\xc0\x80", 4 },                 /* U+0000 */
                  { "\0\2\xc2\x80", 4 },                 /* the first of two bytes */
                  { "\0\2\xdf\xbf", 4 },                 /* the last */
                  { "\0\3\xe0\xa0\x80", 5 },             /* the first of three */
                  { "\0\3\xef\xbf\xbf", 5 },             /* the last */
                  { "\0\6\xed\xa0\xbd\xed\xb8\x80", 8 }, /* a surrogate pair, as Java stores it */
                  { "\0\7x\xc3\xa9y\xe2\x82\xac", 9 } };

    for (size_t i = 0; i < COUNT(cases); i++)
        for (size_t buffer = 1; buffer <= 12; buffer++)
            for (int cursor = 0; cursor < 2; cursor++) {
                struct bytes b;
                struct ahead_stream *s =
                    open_bytes(&b, cases[i].bytes, cases[i].len, false, buffer);
                char dst[16];
                size_t len = 99;

                expect_note("case %zu, buffer %zu", i, buffer);
                memset(dst, '#', sizeof dst);
                expect_status(read_utf(s, cursor, dst, sizeof dst, &len), AHEAD_OK);
                expect_size(len, cases[i].len - 2);
                expect_mem(dst, cases[i].bytes + 2, len);
                expect_int(dst[len], '#');
                expect_ending(s, AHEAD_EOF, 0, cases[i].len);
                expect_status(ahead_close(s), AHEAD_OK);
            }
}

Test(utf, what_java_would_not_have_written_is_corrupt)
{
    static const struct {
        const char *bytes;
        size_t len;
    } cases[] = { { "\0\1\x80", 3 }, /* begins in mid-character */
                  { "\0\1\xbf", 3 },
                  { "\0\1\xc3", 3 }, /* ends in mid-character */
                  { "\0\2\xe2\x82", 4 },
                  { "\0\1\xe2", 3 },
                  { "\0\2\xc3\x41", 4 }, /* goes on with no continuation */
                  { "\0\3\xe2\x41\x80", 5 },
                  { "\0\3\xe2\x82\x41", 5 },
                  { "\0\3\xe2\x82\xc0", 5 },
                  { "\0\4\xf0\x9f\x98\x80", 6 }, /* four bytes: UTF-8, not Java's */
                  { "\0\1\xff", 3 },
                  { "\0\1\xf8", 3 } };

    for (size_t i = 0; i < COUNT(cases); i++)
        for (size_t buffer = 1; buffer <= 8; buffer++) {
            struct bytes b;
            struct ahead_stream *s = open_bytes(&b, cases[i].bytes, cases[i].len, false, buffer);
            char dst[16];
            uint8_t raw[8];
            size_t len;

            expect_note("case %zu, buffer %zu", i, buffer);
            for (int again = 0; again < 2; again++) {
                expect_status(ahead_read_utf(s, dst, sizeof dst, &len), AHEAD_CORRUPT);
                expect_true(ahead_error(s)->text[0] != '\0');
                expect_u64(ahead_tell(s), 0);
            }
            expect_status(ahead_read_full(s, raw, cases[i].len, NULL), AHEAD_OK);
            expect_mem(raw, cases[i].bytes, cases[i].len);
            expect_ending(s, AHEAD_EOF, 0, cases[i].len);
            expect_status(ahead_close(s), AHEAD_OK);
        }
}

Test(utf, a_string_above_cap_says_how_long_it_is)
{
    struct bytes b;
    struct ahead_stream *s = open_bytes(&b, "\0\5hello\0\1!", 10, false, 4);
    char dst[8] = "";
    size_t len = 0;

    for (size_t cap = 0; cap < 5; cap++) {
        expect_status(ahead_read_utf(s, dst, cap, &len), AHEAD_LIMIT);
        expect_size(len, 5);
        expect_u64(ahead_tell(s), 0);
    }
    expect_status(ahead_read_utf(s, dst, 5, &len), AHEAD_OK);
    expect_size(len, 5);
    expect_mem(dst, "hello", 5);
    expect_status(ahead_read_utf(s, dst, 1, &len), AHEAD_OK);
    expect_mem(dst, "!", 1);
    expect_status(ahead_close(s), AHEAD_OK);
}

/* Cut in the length and in the characters, by an end and by a fault. */
Test(utf, a_cut_string_stays_unread)
{
    static const char whole[] = "\0\5hello";

    for (size_t cut = 0; cut < 7; cut++)
        for (int fault = 0; fault < 2; fault++)
            for (size_t buffer = 1; buffer <= 8; buffer++) {
                enum ahead_status ending = fault ? AHEAD_IO : AHEAD_EOF;
                struct bytes b;
                struct ahead_stream *s = open_bytes(&b, whole, cut, fault, buffer);
                char dst[8];
                uint8_t raw[8];
                size_t len;

                expect_note("cut at %zu, fault %d, buffer %zu", cut, fault, buffer);
                expect_status(ahead_read_utf(s, dst, sizeof dst, &len), fault ? AHEAD_IO
                                                                        : cut ? AHEAD_TRUNCATED
                                                                              : AHEAD_EOF);
                expect_u64(ahead_tell(s), 0);
                if (cut > 0)
                    expect_status(ahead_read_full(s, raw, cut, NULL), AHEAD_OK);
                expect_ending(s, ending, fault ? EIO : 0, cut);
                expect_status(ahead_close(s), closes_with(ending));
            }
}

/* The longest there is, through small buffers, in every mode. */
Test(utf, the_longest_string_comes_whole)
{
    enum { LONGEST = 65535 };
    static uint8_t data[2 + LONGEST];
    static char dst[LONGEST];

    data[0] = data[1] = 0xff;
    for (size_t i = 0; i < LONGEST; i++)
        data[2 + i] = 1 + pattern_byte(i) % 127;
    for (each_mode(m))
        for (size_t buffer = 64; buffer <= 65536; buffer *= 32) {
            struct script sc = { .step = STEPS(RANDOM(sizeof data, 5000)), .data = data };
            struct ahead_stream *s;
            size_t len = 0;

            expect_note("%s, buffer %zu", m->name, buffer);
            script_set_mode(&sc, m);
            s = script_open(&sc,
                            &(struct ahead_options){ .buffer_bytes = buffer, .flags = m->flags });
            expect_status(ahead_read_utf(s, dst, LONGEST - 1, &len), AHEAD_LIMIT);
            expect_size(len, LONGEST);
            expect_status(ahead_read_utf(s, dst, LONGEST, &len), AHEAD_OK);
            expect_size(len, LONGEST);
            expect_mem(dst, data + 2, LONGEST);
            expect_ending(s, AHEAD_EOF, 0, sizeof data);
            expect_status(ahead_close(s), AHEAD_OK);
            expect_str(script_closing_verdict(&sc), "ok");
        }
}

Test(utf, a_wrong_call_changes_nothing)
{
    struct bytes b;
    struct ahead_stream *s = open_bytes(&b, "\0\1A", 3, false, 8);
    char dst[4];
    size_t len;

    expect_status(ahead_read_utf(NULL, dst, 4, &len), AHEAD_INVALID);
    expect_status(ahead_read_utf(s, NULL, 4, &len), AHEAD_INVALID);
    expect_status(ahead_read_utf(s, dst, 4, NULL), AHEAD_INVALID);
    expect_status(ahead_read_utf(s, dst, 4, &len), AHEAD_OK);
    expect_size(len, 1);
    expect_status(ahead_close(s), AHEAD_OK);
}
