/* SPDX-License-Identifier: Apache-2.0 */
/* test_writer.c - what is written arrives, in order, or somebody is told.
 *
 * The F-numbers are those of the table of faults. */
#include <ahead/ahead.h>

#include "support/clock.h"
#include "support/expect.h"
#include "support/failing.h"
#include "support/fake_sink.h"
#include "support/leaks.h"
#include "support/pattern.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const unsigned flags[] = { 0, AHEAD_SYNC, AHEAD_EAGER };
enum { FLAGS = sizeof flags / sizeof *flags };

static struct ahead_writer_stats stats(struct ahead_writer *w)
{
    struct ahead_writer_stats s;

    ahead_writer_get_stats(w, &s);
    return s;
}

/* Write bytes [*pos, *pos + len) of the pattern, in one call. */
static enum ahead_status write_pattern(struct ahead_writer *w, uint64_t *pos, size_t len)
{
    uint8_t *p = malloc(len + 1);
    enum ahead_status st;

    expect_true(p);
    pattern_fill(p, *pos, len);
    st = ahead_write(w, p, len);
    free(p);
    if (!st)
        *pos += len;
    return st;
}

/* ---- bytes ---- */

/* One value of each kind, and the bytes that they are: literal, so that they are
 * right on machines of either kind. */
static const uint8_t one_of_each[] = {
    0xfe, 0xff, 1,    0,                            /* u8, i8, bool, bool */
    0x12, 0x34, 0x34, 0x12, 0xff, 0xfe, 0xfe, 0xff, /* u16, i16 */
    0x12, 0x34, 0x56, 0x78, 0x78, 0x56, 0x34, 0x12, /* u32 */
    0x80, 0,    0,    0,    0,    0,    0,    0x80, /* i32 */
    1,    2,    3,    4,    5,    6,    7,    8,    8,    7,    6,
    5,    4,    3,    2,    1,                      /* u64 */
    0x7f, 255,  255,  255,  255,  255,  255,  254,  /* i64 be */
    0xfe, 255,  255,  255,  255,  255,  255,  255,  /* i64 le */
    0xc0, 0x20, 0,    0,    0,    0,    0x20, 0xc0, /* f32 */
    0x3f, 0xf8, 0,    0,    0,    0,    0,    0,    0,    0,    0,
    0,    0,    0,    0xf8, 0x3f,                                     /* f64 */
    0,    0x7f, 0x80, 1,    0xac, 2,    0xff, 0xff, 0xff, 0xff, 0x0f, /* varint_u32 */
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1,          /* varint_u64 */
    0,    1,    2,    3,    0xff, 0xff, 0xff, 0xff, 0x0f,             /* zigzag_i32 */
    0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1,          /* zigzag_i64 */
    0,    4,    'a',  0xc0, 0x80, 'b',  0,    0,                      /* utf */
    0,    1,    0xff, 0xfe, 1,    0,    0xfe, 0xff, /* u16_be_array, u16_le_array */
    0x80, 0,    0,    1,    1,    0,    0,    0x80, /* i32_be, i32_le arrays of 1 */
    1,    2,    3,    4,    5,    6,    7,    8,    9,    10,   11,
    12,   13,   14,   15,   16, /* u64_be_array of 2 */
};

#define OK(call) expect_status(call, AHEAD_OK)

static void write_one_of_each(struct ahead_writer *w)
{
    OK(ahead_write_u8(w, 0xfe));
    OK(ahead_write_i8(w, -1));
    OK(ahead_write_bool(w, true));
    OK(ahead_write_bool(w, false));
    OK(ahead_write_u16_be(w, 0x1234));
    OK(ahead_write_u16_le(w, 0x1234));
    OK(ahead_write_i16_be(w, -2));
    OK(ahead_write_i16_le(w, -2));
    OK(ahead_write_u32_be(w, 0x12345678));
    OK(ahead_write_u32_le(w, 0x12345678));
    OK(ahead_write_i32_be(w, INT32_MIN));
    OK(ahead_write_i32_le(w, INT32_MIN));
    OK(ahead_write_u64_be(w, 0x0102030405060708));
    OK(ahead_write_u64_le(w, 0x0102030405060708));
    OK(ahead_write_i64_be(w, INT64_MAX - 1));
    OK(ahead_write_i64_le(w, -2));
    OK(ahead_write_f32_be(w, -2.5f));
    OK(ahead_write_f32_le(w, -2.5f));
    OK(ahead_write_f64_be(w, 1.5));
    OK(ahead_write_f64_le(w, 1.5));
    OK(ahead_write_varint_u32(w, 0));
    OK(ahead_write_varint_u32(w, 127));
    OK(ahead_write_varint_u32(w, 128));
    OK(ahead_write_varint_u32(w, 300));
    OK(ahead_write_varint_u32(w, UINT32_MAX));
    OK(ahead_write_varint_u64(w, UINT64_MAX));
    OK(ahead_write_zigzag_i32(w, 0));
    OK(ahead_write_zigzag_i32(w, -1));
    OK(ahead_write_zigzag_i32(w, 1));
    OK(ahead_write_zigzag_i32(w, -2));
    OK(ahead_write_zigzag_i32(w, INT32_MIN));
    OK(ahead_write_zigzag_i64(w, INT64_MAX));
    OK(ahead_write_utf(w,
                       "a\xc0\x80"
                       "b",
                       4));
    OK(ahead_write_utf(w, NULL, 0));
    OK(ahead_write_u16_be_array(w, (const uint16_t[]){ 1, 0xfffe }, 2));
    OK(ahead_write_u16_le_array(w, (const uint16_t[]){ 1, 0xfffe }, 2));
    OK(ahead_write_i32_be_array(w, (const int32_t[]){ INT32_MIN + 1 }, 1));
    OK(ahead_write_i32_le_array(w, (const int32_t[]){ INT32_MIN + 1 }, 1));
    OK(ahead_write_u64_be_array(w, (const uint64_t[]){ 0x0102030405060708, 0x090a0b0c0d0e0f10 },
                                2));
}

/* Buffers of 1 to 40 bytes put the swap at every offset inside a value. */
Test(writer, values_are_the_bytes_that_they_should_be)
{
    for (unsigned f = 0; f < FLAGS; f++) {
        for (size_t bytes = 1; bytes <= 40; bytes++) {
            struct ahead_options opt = { .buffer_bytes = bytes, .flags = flags[f] };
            struct ahead_sink sink;
            struct ahead_writer *w;
            uint8_t *data = NULL;
            size_t len = 0;

            expect_note("buffers of %zu, flags %u", bytes, flags[f]);
            OK(ahead_sink_memory(&sink, &data, &len));
            OK(ahead_writer_open(&w, sink, &opt));
            for (unsigned i = 0; i < 3; i++) {
                write_one_of_each(w);
                expect_u64(ahead_writer_tell(w), (i + 1) * sizeof one_of_each);
            }
            OK(ahead_writer_close(w));
            expect_size(len, 3 * sizeof one_of_each);
            for (unsigned i = 0; i < 3; i++)
                expect_mem(data + i * sizeof one_of_each, one_of_each, sizeof one_of_each);
            free(data);
        }
    }
}

/* What is written is what the reading side reads. */
Test(writer, every_kind_of_array_reads_back)
{
    static const size_t lengths[] = { 0, 1, 7, 100, 5000 };
    uint64_t seed = 1, *v = malloc(5000 * sizeof *v), *back = malloc(5000 * sizeof *v);

    for (size_t i = 0; i < 5000; i++)
        v[i] = pattern_random(&seed);
    for (size_t bytes = 1; bytes <= 4096; bytes = bytes * 3 + 1) {
        for (unsigned i = 0; i < sizeof lengths / sizeof *lengths; i++) {
            for (size_t width = 2; width <= 8; width *= 2) {
                for (unsigned big = 0; big < 2; big++) {
                    struct ahead_options opt = { .buffer_bytes = bytes };
                    struct ahead_source src;
                    struct ahead_sink sink;
                    struct ahead_writer *w;
                    struct ahead_stream *s;
                    uint8_t *data = NULL;
                    size_t len = 0, n = lengths[i], got = 0;

                    OK(ahead_sink_memory(&sink, &data, &len));
                    OK(ahead_writer_open(&w, sink, &opt));
                    OK(ahead_write_u8(w, 0)); /* never aligned */
                    OK(ahead_write_array(w, v, n, width, big));
                    OK(ahead_writer_close(w));
                    expect_size(len, 1 + n * width);
                    OK(ahead_source_memory(&src, data + 1, len - 1));
                    OK(ahead_open(&s, src, NULL));
                    if (n > 0)
                        OK(ahead_read_array(s, back, n, width, big, &got));
                    expect_size(got, n);
                    expect_mem(back, v, n * width);
                    ahead_close(s);
                    free(data);
                }
            }
        }
    }
    free(v);
    free(back);
}

Test(writer, bytes_arrive_in_order_whatever_the_sizes)
{
    static const size_t most[] = { 1, 3, 100, 0 };

    for (unsigned f = 0; f < FLAGS; f++) {
        for (unsigned m = 0; m < sizeof most / sizeof *most; m++) {
            for (size_t bytes = 1; bytes <= 5000; bytes = bytes * 4 + 1) {
                struct ahead_options opt = { .buffer_bytes = bytes, .flags = flags[f] };
                struct fake_sink fs = { .most = most[m] };
                struct ahead_writer *w = fake_open(&fs, &opt);
                uint64_t pos = 0, seed = bytes;

                for (unsigned i = 0; i < 60; i++) {
                    OK(write_pattern(w, &pos, (size_t)random_below(&seed, 200)));
                    if (random_below(&seed, 8) == 0) {
                        OK(ahead_writer_flush(w));
                        expect_size(fs.flushed, pos);
                    }
                }
                OK(ahead_writer_close(w));
                expect_size(fs.flushed, pos);
                expect_fake(&fs, pos);
            }
        }
    }
}

/* F233 */
Test(writer, nothing_can_be_written_from_nowhere)
{
    struct fake_sink fs = { .most = 0 };
    struct ahead_writer *w = fake_open(&fs, NULL);

    OK(ahead_write(w, NULL, 0));
    OK(ahead_write_i32_be_array(w, NULL, 0));
    expect_status(ahead_write(w, NULL, 1), AHEAD_INVALID);
    expect_status(ahead_write_i32_be_array(w, NULL, 1), AHEAD_INVALID);
    expect_status(ahead_write_array(w, "abc", 1, 3, true), AHEAD_INVALID);
    OK(ahead_writer_close(w));
    expect_int(atomic_load(&fs.writes), 0);
    expect_int(atomic_load(&fs.flushes), 0);
    expect_fake(&fs, 0);
}

Test(writer, calls_without_a_writer_are_refused)
{
    struct fake_sink fs = { .most = 0 };
    struct ahead_writer *w = fake_open(&fs, NULL);
    struct ahead_writer_stats stats = { .bytes = 1 };

    expect_status(ahead_make_room(NULL), AHEAD_INVALID);
    expect_status(ahead_writer_flush(NULL), AHEAD_INVALID);
    expect_status(ahead_write_utf(NULL, "", 0), AHEAD_INVALID);
    expect_status(ahead_writer_error(NULL)->status, AHEAD_INVALID);
    expect_u64(ahead_writer_tell(NULL), 0);
    ahead_writer_get_stats(NULL, &stats);
    expect_u64(stats.bytes, 0);
    ahead_writer_get_stats(w, NULL);
    ahead_writer_cancel(NULL);
    OK(ahead_writer_close(NULL));
    OK(ahead_writer_close(w));
    expect_fake(&fs, 0);
}

Test(writer, strings_are_checked_before_a_byte_is_written)
{
    static char longest[65536];
    struct fake_sink fs = { .most = 0 };
    struct ahead_writer *w = fake_open(&fs, NULL);

    memset(longest, 'x', sizeof longest);
    expect_status(ahead_write_utf(w, longest, 65536), AHEAD_INVALID);
    expect_status(ahead_writer_error(w)->status, AHEAD_INVALID);
    expect_true(strstr(ahead_writer_error(w)->text, "65536"));
    expect_status(ahead_write_utf(w, "ab\xff", 3), AHEAD_INVALID);
    expect_true(strstr(ahead_writer_error(w)->text, "byte 2"));
    expect_status(ahead_write_utf(w, "\xe0\x80", 2), AHEAD_INVALID);
    expect_u64(ahead_writer_tell(w), 0);
    OK(ahead_write_utf(w, longest, 65535));
    expect_u64(ahead_writer_tell(w), 65537);
    OK(ahead_writer_close(w));
    expect_size(fs.len, 65537);
    fs.len = 0; /* not the pattern */
    expect_fake(&fs, 0);
}

/* ---- threads ---- */

Test(writer, small_output_starts_no_thread)
{
    struct ahead_options opt = { .buffer_bytes = 100 };
    struct fake_sink fs = { .most = 0 };
    struct ahead_writer *w = fake_open(&fs, &opt);
    uint64_t pos = 0;

    OK(write_pattern(w, &pos, 100));
    expect_int(atomic_load(&fs.writes), 0);
    expect_u64(stats(w).threads_started, 0);
    OK(ahead_writer_flush(w));
    expect_int(atomic_load(&fs.writes), 1);
    expect_int(atomic_load(&fs.flushes), 1);
    OK(write_pattern(w, &pos, 100));
    expect_u64(stats(w).threads_started, 0);
    OK(ahead_writer_close(w));
    expect_fake(&fs, 200);
}

Test(writer, second_buffer_starts_the_thread)
{
    struct ahead_options opt = { .buffer_bytes = 100 };
    struct fake_sink fs = { .most = 0 };
    struct ahead_writer *w = fake_open(&fs, &opt);
    uint64_t pos = 0;

    OK(write_pattern(w, &pos, 101));
    expect_u64(stats(w).threads_started, 1);
    expect_eventually(atomic_load(&fs.taken) == 100);
    OK(ahead_writer_close(w));
    expect_fake(&fs, 101);
}

/* The producer goes on while the sink is busy with the other buffer. */
Test(writer, writes_behind_a_sink_that_is_stuck)
{
    struct ahead_options opt = { .buffer_bytes = 100 };
    struct fake_sink fs = { .stalls = true };
    struct ahead_writer *w = fake_open(&fs, &opt);
    uint64_t pos = 0;

    OK(write_pattern(w, &pos, 200));
    expect_eventually(atomic_load(&fs.stalled) == 1);
    expect_u64(stats(w).producer_waits, 0);
    fake_release(&fs);
    OK(ahead_writer_close(w));
    expect_fake(&fs, 200);
}

/* F211 */
Test(writer, does_without_a_thread_that_cannot_be_started)
{
    for (unsigned f = 0; f < FLAGS; f++) {
        struct ahead_options opt = { .buffer_bytes = 100,
                                     .flags = flags[f],
                                     .close_timeout_ms = 1000 };
        struct fake_sink fs = { .most = 0 };
        struct ahead_writer *w;
        uint64_t pos = 0;

        fail_always(FAILING_THREAD, true);
        w = fake_open(&fs, &opt);
        for (unsigned i = 0; i < 10; i++)
            OK(write_pattern(w, &pos, 99));
        OK(ahead_writer_flush(w));
        expect_size(fs.flushed, 990);
        expect_u64(stats(w).threads_started, 0);
        OK(ahead_writer_close(w));
        fail_always(FAILING_THREAD, false);
        expect_fake(&fs, 990);
    }
}

/* A flush that finds the thread asleep is done by the caller. */
Test(writer, flush_wakes_nobody_who_need_not_work)
{
    struct ahead_options opt = { .buffer_bytes = 100 };
    struct fake_sink fs = { .most = 0 };
    struct ahead_writer *w = fake_open(&fs, &opt);
    struct ahead_writer_stats before;
    uint64_t pos = 0;

    OK(write_pattern(w, &pos, 101));
    expect_eventually(atomic_load(&fs.taken) == 100 && stats(w).thread_waits > 0);
    before = stats(w);
    for (unsigned i = 0; i < 10; i++) {
        OK(write_pattern(w, &pos, 10));
        OK(ahead_writer_flush(w));
        expect_size(fs.flushed, pos);
    }
    /* The thread may still have been on its way to sleep at the first one. */
    expect_u64(stats(w).wakeups - before.wakeups, 0);
    OK(ahead_writer_close(w));
    expect_fake(&fs, pos);
}

/* ---- F194: short writes ---- */

Test(writer, f194_short_writes_lose_nothing, .timeout = 60 * TIME_SCALE)
{
    for (unsigned f = 0; f < FLAGS; f++) {
        struct ahead_options opt = { .buffer_bytes = 64, .flags = flags[f] };
        struct fake_sink fs = { .most = 40, .random = true, .hiccups = true };
        struct ahead_writer *w = fake_open(&fs, &opt);
        uint64_t pos = 0;

        while (pos < 3000)
            OK(write_pattern(w, &pos, 30));
        OK(ahead_writer_close(w));
        expect_fake(&fs, 3000);
    }
}

/* Some two seconds, then it is a failure. */
Test(writer, f194_sink_that_takes_nothing_fails_in_the_end, .timeout = 60 * TIME_SCALE)
{
    struct ahead_options opt = { .buffer_bytes = 64 };
    struct fake_sink fs = { .zeros = true };
    struct ahead_writer *w = fake_open(&fs, &opt);
    struct ahead_error err;
    uint64_t pos = 0, start = now_ns();

    OK(write_pattern(w, &pos, 10));
    expect_status(ahead_writer_close_error(w, &err), AHEAD_IO);
    expect_true(ms_since(start) > 1000);
    expect_within_ms(start, 5000);
    expect_true(atomic_load(&fs.writes) < 200);
    expect_true(strstr(err.text, "took nothing"));
    expect_u64(err.offset, 0);
    expect_fake(&fs, 0);
}

Test(writer, sink_that_takes_too_much_fails)
{
    struct fake_sink fs = { .over = 1 };
    struct ahead_writer *w = fake_open(&fs, NULL);
    uint64_t pos = 0;

    OK(write_pattern(w, &pos, 10));
    expect_status(ahead_writer_flush(w), AHEAD_IO);
    expect_status(ahead_writer_close(w), AHEAD_IO);
    expect_fake(&fs, 10);
}

/* ---- F195, F196: failures ---- */

Test(writer, f195_failure_is_told_with_the_offset_of_the_first_lost_byte)
{
    for (unsigned f = 0; f < FLAGS; f++) {
        for (uint64_t at = 0; at < 500; at += 37) {
            struct ahead_options opt = { .buffer_bytes = 64, .flags = flags[f] };
            struct fake_sink fs = { .fails = true, .fail_at = at, .fail_errno = ENOSPC };
            struct ahead_writer *w = fake_open(&fs, &opt);
            struct ahead_error err;
            enum ahead_status st = AHEAD_OK;
            uint64_t pos = 0;

            expect_note("fails at %llu, flags %u", (unsigned long long)at, flags[f]);
            while (!st && pos < 500)
                st = write_pattern(w, &pos, 10);
            if (st)
                expect_status(st, AHEAD_IO);
            expect_status(ahead_writer_flush(w), AHEAD_IO);
            expect_int(ahead_writer_error(w)->os_errno, ENOSPC);
            expect_u64(ahead_writer_error(w)->offset, at);
            expect_true(strstr(ahead_writer_error(w)->text, strerror(ENOSPC)));
            expect_status(ahead_make_room(w), w->next < w->end ? AHEAD_OK : AHEAD_IO);
            expect_status(ahead_writer_close_error(w, &err), AHEAD_IO);
            expect_int(err.os_errno, ENOSPC);
            expect_u64(err.offset, at);
            expect_fake(&fs, at); /* F196: and not a byte behind it */
        }
    }
}

/* Nobody asks before the close. */
Test(writer, f195_close_alone_is_enough)
{
    struct fake_sink fs = { .fails = true, .fail_at = 3, .fail_errno = EDQUOT };
    struct ahead_writer *w = fake_open(&fs, NULL);
    uint64_t pos = 0;

    OK(write_pattern(w, &pos, 10));
    expect_status(ahead_writer_close(w), AHEAD_IO);
    expect_fake(&fs, 3);
}

Test(writer, f195_failure_of_flush_finish_and_close_is_told)
{
    for (unsigned which = 0; which < 3; which++) {
        struct fake_sink fs = { .has_finish = which == 1 };
        struct ahead_writer *w;
        struct ahead_error err;
        uint64_t pos = 0;

        fs.flush_status = which == 0 ? AHEAD_NOMEM : AHEAD_OK;
        fs.finish_status = which == 1 ? AHEAD_LIMIT : AHEAD_OK;
        fs.close_status = which == 2 ? AHEAD_CORRUPT : AHEAD_OK;
        w = fake_open(&fs, NULL);
        OK(write_pattern(w, &pos, 10));
        expect_status(ahead_writer_close_error(w, &err), which == 0   ? AHEAD_NOMEM
                                                         : which == 1 ? AHEAD_LIMIT
                                                                      : AHEAD_CORRUPT);
        expect_u64(err.offset, 10);
        expect_true(err.text[0]);
        expect_fake(&fs, 10);
    }
}

Test(writer, failure_keeps_what_the_sink_said)
{
    struct fake_sink fs = { .fails = true,
                            .fail_at = 5,
                            .fail_status = AHEAD_LIMIT,
                            .fail_where = 77,
                            .fail_text = "too much of a good thing" };
    struct ahead_writer *w = fake_open(&fs, NULL);
    struct ahead_error err;
    uint64_t pos = 0;

    OK(write_pattern(w, &pos, 10));
    expect_status(ahead_writer_close_error(w, &err), AHEAD_LIMIT);
    expect_u64(err.offset, 5);
    expect_u64(err.source_offset, 77);
    expect_str(err.text, "too much of a good thing");
    expect_fake(&fs, 5);
}

/* A status that is no failure would let callers wait for what never comes. */
Test(writer, sink_cannot_fail_with_what_is_no_failure)
{
    static const enum ahead_status odd[] = { AHEAD_EOF, AHEAD_TIMEDOUT, AHEAD_INVALID };

    for (unsigned i = 0; i < 3; i++) {
        struct fake_sink fs = { .fails = true, .fail_status = odd[i] };
        struct ahead_writer *w = fake_open(&fs, NULL);
        struct ahead_error err;
        uint64_t pos = 0;

        OK(write_pattern(w, &pos, 10));
        expect_status(ahead_writer_close_error(w, &err), AHEAD_IO);
        expect_true(strstr(err.text, ahead_status_name(odd[i])));
        expect_fake(&fs, 0);
    }
}

/* A cancel, or a close that fails too, does not hide why. */
Test(writer, first_failure_is_the_one_that_is_told)
{
    struct fake_sink fs = { .fails = true, .fail_errno = ENOSPC, .close_status = AHEAD_NOMEM };
    struct ahead_writer *w = fake_open(&fs, NULL);
    struct ahead_error err;
    uint64_t pos = 0;

    OK(write_pattern(w, &pos, 10));
    expect_status(ahead_writer_flush(w), AHEAD_IO);
    ahead_writer_cancel(w);
    expect_status(ahead_writer_flush(w), AHEAD_IO);
    expect_status(ahead_writer_close_error(w, &err), AHEAD_IO);
    expect_int(err.os_errno, ENOSPC);
    expect_fake(&fs, 0);

    /* And the other way round. */
    fs = (struct fake_sink){ .fails = true, .fail_errno = ENOSPC, .close_status = AHEAD_NOMEM };
    w = fake_open(&fs, NULL);
    pos = 0;
    OK(write_pattern(w, &pos, 10));
    ahead_writer_cancel(w);
    expect_status(ahead_writer_flush(w), AHEAD_CANCELLED);
    expect_status(ahead_writer_close(w), AHEAD_CANCELLED);
    expect_fake(&fs, 0);
}

/* ---- F197: flush and close ---- */

Test(writer, f197_ok_means_that_the_sink_had_everything, .timeout = 60 * TIME_SCALE)
{
    for (unsigned run = 0; run < 200; run++) {
        struct ahead_options opt = { .buffer_bytes = 50, .flags = run % 2 ? AHEAD_EAGER : 0 };
        struct fake_sink fs = { .write_us = 5000 };
        struct ahead_writer *w = fake_open(&fs, &opt);
        uint64_t pos = 0;

        OK(write_pattern(w, &pos, 60));
        if (run % 4 < 2) {
            OK(ahead_writer_flush(w));
            expect_size(fs.flushed, 60);
        }
        OK(ahead_writer_close(w));
        expect_size(fs.flushed, 60);
        expect_fake(&fs, 60);
    }
}

Test(writer, f197_close_gives_a_stuck_sink_up_in_time)
{
    for (unsigned deaf = 0; deaf < 2; deaf++) {
        struct ahead_options opt = { .buffer_bytes = 50, .close_timeout_ms = 50 };
        /* Slow to close, so that the close of the writer has returned before. */
        struct fake_sink fs = { .stalls = true, .stall_at = 20, .deaf = deaf, .close_us = 50000 };
        struct ahead_writer *w = fake_open(&fs, &opt);
        struct ahead_error err;
        uint64_t pos = 0, start;

        OK(write_pattern(w, &pos, 40));
        start = now_ns();
        expect_status(ahead_writer_close_error(w, &err), AHEAD_TIMEDOUT);
        expect_true(ms_since(start) >= 50);
        expect_within_ms(start, 150);
        expect_status(err.status, AHEAD_TIMEDOUT);
        expect_u64(err.offset, 20);
        expect_true(strstr(err.text, "20 bytes"));
        fake_release(&fs);
        expect_eventually(fake_closed(&fs));
        expect_true(atomic_load(&fs.interrupts) == 1);
        /* A deaf sink takes what it was asked to, and is not asked again. */
        expect_fake(&fs, deaf ? 40 : 20);
    }
}

Test(writer, close_that_takes_long_is_bounded_too)
{
    struct ahead_options opt = { .close_timeout_ms = 20 };
    struct fake_sink fs = { .close_us = 300000 };
    struct ahead_writer *w = fake_open(&fs, &opt);
    uint64_t pos = 0, start = now_ns();

    OK(write_pattern(w, &pos, 40));
    expect_status(ahead_writer_close(w), AHEAD_TIMEDOUT);
    expect_within_ms(start, 80);
    expect_eventually(fake_closed(&fs));
    expect_fake(&fs, 40);
}

Test(writer, wait_for_room_is_bounded_and_can_be_repeated)
{
    struct ahead_options opt = { .buffer_bytes = 8, .read_timeout_ms = 20 };
    struct fake_sink fs = { .stalls = true };
    struct ahead_writer *w = fake_open(&fs, &opt);
    uint64_t pos = 0, start;

    OK(write_pattern(w, &pos, 16));
    for (unsigned i = 0; i < 3; i++) {
        start = now_ns();
        expect_status(ahead_write_u8(w, pattern_byte(16)), AHEAD_TIMEDOUT);
        expect_true(ms_since(start) >= 20);
        expect_within_ms(start, 100);
        expect_status(ahead_writer_error(w)->status, AHEAD_TIMEDOUT);
        expect_u64(ahead_writer_tell(w), 16);
    }
    expect_status(ahead_writer_flush(w), AHEAD_TIMEDOUT);
    fake_release(&fs);
    expect_eventually(ahead_write_u8(w, pattern_byte(16)) == AHEAD_OK);
    expect_eventually(ahead_writer_flush(w) == AHEAD_OK);
    expect_size(fs.flushed, 17);
    OK(ahead_writer_close(w));
    expect_fake(&fs, 17);
}

/* ---- cancel ---- */

/* Cancels once the sink stalls: what it took by then is certain. */
struct cancel {
    struct ahead_writer *w;
    struct fake_sink *fs;
    uint64_t start_ns;
};

static void *cancel_stalled(void *arg)
{
    struct cancel *c = arg;

    expect_eventually(atomic_load(&c->fs->stalled) > 0);
    sleep_us(2000); /* so that the producer sleeps, too */
    c->start_ns = now_ns();
    ahead_writer_cancel(c->w);
    return NULL;
}

static void with_cancel(struct ahead_writer *w, struct fake_sink *fs,
                        void (*body)(struct ahead_writer *, uint64_t *), uint64_t *pos)
{
    struct cancel c = { .w = w, .fs = fs };
    pthread_t t;

    expect_int(pthread_create(&t, NULL, cancel_stalled, &c), 0);
    body(w, pos);
    expect_int(pthread_join(t, NULL), 0);
    expect_within_ms(c.start_ns, 100);
}

static void write_until_cancelled(struct ahead_writer *w, uint64_t *pos)
{
    enum ahead_status st;

    while (!(st = write_pattern(w, pos, 10)))
        expect_true(*pos < 100000);
    expect_status(st, AHEAD_CANCELLED);
}

static void flush_until_cancelled(struct ahead_writer *w, uint64_t *pos)
{
    OK(write_pattern(w, pos, 10));
    expect_status(ahead_writer_flush(w), AHEAD_CANCELLED);
}

/* The producer waits for room, for a flush, or is in the sink itself. */
Test(writer, cancel_wakes_whoever_sleeps)
{
    for (unsigned f = 0; f < FLAGS; f++) {
        for (unsigned flush = 0; flush < 2; flush++) {
            struct ahead_options opt = { .buffer_bytes = 64, .flags = flags[f] };
            struct fake_sink fs = { .stalls = true, .stall_at = 5 };
            struct ahead_writer *w = fake_open(&fs, &opt);
            struct ahead_error err;
            uint64_t pos = 0;

            with_cancel(w, &fs, flush ? flush_until_cancelled : write_until_cancelled, &pos);
            expect_status(ahead_writer_error(w)->status, AHEAD_CANCELLED);
            expect_status(ahead_writer_flush(w), AHEAD_CANCELLED);
            expect_status(ahead_writer_close_error(w, &err), AHEAD_CANCELLED);
            expect_u64(err.offset, 5);
            expect_fake(&fs, 5);
        }
    }
}

static void close_until_cancelled(struct ahead_writer *w, uint64_t *pos)
{
    OK(write_pattern(w, pos, 10));
    expect_status(ahead_writer_flush(w), AHEAD_CANCELLED);
}

/* A cancel from the sink itself, which an owner may want when a peer is lost. */
static void cancel_self(struct fake_sink *fs)
{
    ahead_writer_cancel(fs->user);
}

Test(writer, cancel_from_within_the_sink)
{
    for (unsigned f = 0; f < FLAGS; f++) {
        struct ahead_options opt = { .buffer_bytes = 64, .flags = flags[f] };
        struct fake_sink fs = { .on_call = cancel_self };
        struct ahead_writer *w = fake_open(&fs, &opt);
        uint64_t pos = 0;

        fs.user = w;
        close_until_cancelled(w, &pos);
        fs.on_call = NULL;
        expect_status(ahead_writer_close(w), AHEAD_CANCELLED);
        expect_int(atomic_load(&fs.interrupts), 1);
        expect_fake(&fs, 0);
    }
}

Test(writer, cancel_that_comes_too_late_is_none)
{
    for (unsigned finish = 0; finish < 2; finish++) {
        struct fake_sink fs = { .has_finish = finish };
        struct ahead_writer *w = fake_open(&fs, NULL);
        uint64_t pos = 0;

        OK(write_pattern(w, &pos, 10));
        OK(ahead_writer_flush(w));
        ahead_writer_cancel(w);
        ahead_writer_cancel(w);
        /* A format with an end mark is not whole without it. */
        expect_status(ahead_writer_close(w), finish ? AHEAD_CANCELLED : AHEAD_OK);
        expect_int(atomic_load(&fs.finishes), 0);
        expect_fake(&fs, 10);
    }
}

/* Whoever was refused is not told at the end that all was well. */
Test(writer, cancel_that_a_call_was_told_of_is_told_by_close)
{
    struct fake_sink fs = { .most = 0 };
    struct ahead_writer *w = fake_open(&fs, NULL);
    uint64_t pos = 0;

    OK(write_pattern(w, &pos, 10));
    OK(ahead_writer_flush(w));
    ahead_writer_cancel(w);
    expect_status(write_pattern(w, &pos, 10), AHEAD_CANCELLED);
    expect_status(ahead_writer_close(w), AHEAD_CANCELLED);
    expect_fake(&fs, 10);
}

Test(writer, cancel_drops_what_is_unwritten)
{
    struct fake_sink fs = { .most = 0 };
    struct ahead_writer *w = fake_open(&fs, NULL);
    uint64_t pos = 0;

    OK(write_pattern(w, &pos, 10));
    ahead_writer_cancel(w);
    expect_status(ahead_writer_close(w), AHEAD_CANCELLED);
    expect_int(atomic_load(&fs.writes), 0);
    expect_fake(&fs, 0);
}

/* ---- what callers do wrong, and what threads do to us ---- */

/* F189 for the writer: the second thread ends inside the sink. */
Test(writer, thread_that_dies_is_a_failure)
{
    for (unsigned late = 0; late < 2; late++) {
        struct ahead_options opt = { .buffer_bytes = 64 };
        struct fake_sink fs = { .fails = true, .dies = true, .fail_at = 64 * late };
        struct ahead_writer *w = fake_open(&fs, &opt);
        struct ahead_error err;
        enum ahead_status st = AHEAD_OK;
        uint64_t pos = 0;

        while (!st && pos < 10000)
            st = write_pattern(w, &pos, 10);
        expect_status(st, AHEAD_IO);
        expect_status(ahead_writer_flush(w), AHEAD_IO);
        expect_status(ahead_writer_close_error(w, &err), AHEAD_IO);
        expect_true(strstr(err.text, "ended"));
        expect_u64(err.offset, 64 * late);
        expect_fake(&fs, 64 * late);
    }
}

/* The same when nobody waits for it any more. */
Test(writer, thread_that_dies_after_a_timed_out_close_cleans_up)
{
    struct ahead_options opt = { .buffer_bytes = 64, .close_timeout_ms = 20 };
    struct fake_sink fs = { .stalls = true, .deaf = true, .fails = true, .dies = true };
    struct ahead_writer *w = fake_open(&fs, &opt);
    uint64_t pos = 0;

    OK(write_pattern(w, &pos, 10));
    expect_status(ahead_writer_close(w), AHEAD_TIMEDOUT);
    fake_release(&fs);
    expect_eventually(fake_closed(&fs));
    expect_fake(&fs, 0);
    expect_eventually(live == 0);
}

static void call_self(struct fake_sink *fs)
{
    struct ahead_writer *w = fs->user;
    struct ahead_error err;

    fs->on_call = NULL;
    expect_status(ahead_writer_flush(w), AHEAD_INVALID);
    expect_status(ahead_writer_close_error(w, &err), AHEAD_INVALID);
    expect_true(strstr(err.text, "inside"));
}

Test(writer, its_own_sink_cannot_call_it)
{
    for (unsigned f = 0; f < FLAGS; f++) {
        struct ahead_options opt = { .buffer_bytes = 64, .flags = flags[f] };
        struct fake_sink fs = { .on_call = call_self };
        struct ahead_writer *w = fake_open(&fs, &opt);
        uint64_t pos = 0;

        fs.user = w;
        OK(write_pattern(w, &pos, 200));
        OK(ahead_writer_close(w));
        expect_true(!fs.on_call);
        expect_fake(&fs, 200);
    }
}

/* F210 */
Test(writer, belongs_to_the_process_that_opened_it)
{
    struct ahead_options opt = { .buffer_bytes = 64 };
    struct fake_sink fs = { .most = 0 };
    struct ahead_writer *w = fake_open(&fs, &opt);
    uint64_t pos = 0;
    int status;
    pid_t pid;

    OK(write_pattern(w, &pos, 100));
    pid = fork();
    if (pid == 0) {
        alarm(5);
        if (ahead_writer_flush(w) != AHEAD_INVALID ||
            ahead_write_utf(w, "\xff", 1) != AHEAD_INVALID)
            _exit(1);
        ahead_writer_cancel(w);
        _exit(ahead_writer_close(w) == AHEAD_INVALID ? 42 : 2);
    }
    expect_true(pid > 0);
    expect_int(waitpid(pid, &status, 0), pid);
    expect_true(WIFEXITED(status));
    expect_int(WEXITSTATUS(status), 42);
    OK(ahead_writer_close(w));
    expect_fake(&fs, 100);
}

/* F231 */
Test(writer, open_refuses_what_makes_no_sense)
{
    struct ahead_options many = { .buffer_bytes = ((size_t)1 << 30) + 1 };
    struct ahead_options flag = { .flags = 64 };
    struct fake_sink fs[3] = { { .most = 0 } };
    struct ahead_writer *w = (struct ahead_writer *)&many;

    expect_status(ahead_writer_open(&w, fake_sink(&fs[0]), &many), AHEAD_INVALID);
    expect_true(!w);
    expect_int(errno, EINVAL);
    expect_status(ahead_writer_open(&w, fake_sink(&fs[1]), &flag), AHEAD_INVALID);
    expect_status(ahead_writer_open(NULL, fake_sink(&fs[2]), NULL), AHEAD_INVALID);
    expect_status(ahead_writer_open(&w, (struct ahead_sink){ .ops = NULL }, NULL), AHEAD_INVALID);
    for (unsigned i = 0; i < 3; i++)
        expect_fake(&fs[i], 0);
    OK(ahead_writer_close(NULL));
    ahead_writer_cancel(NULL);
    expect_status(ahead_writer_flush(NULL), AHEAD_INVALID);
    expect_status(ahead_writer_error(NULL)->status, AHEAD_INVALID);
    expect_u64(ahead_writer_tell(NULL), 0);
}

/* F216 */
Test(writer, unwinds_from_every_failing_step)
{
    bool failed = true;

    for (int step = 1; failed; step++) {
        struct ahead_options opt = { .buffer_bytes = 64 };
        struct fake_sink fs = { .bytes = malloc(1000), .cap = 1000 }; /* its own do not fail */
        struct ahead_writer *w;
        struct ahead_sink sink = fake_sink(&fs);
        enum ahead_status st;
        uint64_t taken = 0;

        expect_note("step %d", step);
        fail_step(step);
        st = ahead_writer_open(&w, sink, &opt);
        if (!st) {
            for (unsigned i = 0; i < 20 && !st; i++)
                st = ahead_write_u64_le(w, pattern_word(i));
            taken = ahead_writer_tell(w);
            if (st)
                expect_status(ahead_writer_close(w), AHEAD_NOMEM);
            else
                st = ahead_writer_close(w);
            if (st)
                taken = fs.len;
        }
        failed = fail_step(0);
        if (st)
            expect_status(st, AHEAD_NOMEM);
        free(fs.bytes); /* the count has those */
        fs.bytes = NULL;
        fs.len = 0;
        expect_true(st || taken == 160);
        expect_fake(&fs, 0);
        expect_int(live, 0);
    }
}

/* F207: on the second thread; the close comes on it too, with a time limit. */
static void look_at_signals(struct fake_sink *fs)
{
    sigset_t mask;

    (void)fs;
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    expect_true(sigismember(&mask, SIGUSR1) && sigismember(&mask, SIGTERM));
    expect_true(!sigismember(&mask, SIGPROF) && !sigismember(&mask, SIGSEGV));
}

Test(writer, its_thread_takes_no_signal_of_the_process)
{
    struct ahead_options opt = { .close_timeout_ms = 60000 };
    struct fake_sink fs = { .on_call = look_at_signals };
    struct ahead_writer *w = fake_open(&fs, &opt);
    uint64_t pos = 0;

    OK(write_pattern(w, &pos, 100));
    OK(ahead_writer_close(w));
    expect_fake(&fs, 100);
}

/* F208 */
Test(writer, leaves_signals_alone)
{
    struct ahead_options opt = { .buffer_bytes = 64 };
    struct fake_sink fs = { .most = 0 };
    struct ahead_writer *w;
    sigset_t before, after;
    uint64_t pos = 0;

    pthread_sigmask(SIG_SETMASK, NULL, &before);
    w = fake_open(&fs, &opt);
    OK(write_pattern(w, &pos, 1000));
    OK(ahead_writer_close(w));
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    for (int s = 1; s < 32; s++)
        expect_int(sigismember(&before, s), sigismember(&after, s));
    expect_fake(&fs, 1000);
}

Test(writer, leaves_nothing_behind)
{
    struct leaks before;

    for (unsigned i = 0; i < 50; i++) {
        struct ahead_options opt = { .buffer_bytes = 64 };
        struct fake_sink fs = { .most = 0 };
        struct ahead_writer *w;
        uint64_t pos = 0;

        if (i == 1)
            before = leaks_count();
        w = fake_open(&fs, &opt);
        OK(write_pattern(w, &pos, 1000));
        OK(ahead_writer_close(w));
        expect_fake(&fs, 1000);
    }
    expect_no_leaks(before);
}
