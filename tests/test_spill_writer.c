/* SPDX-License-Identifier: Apache-2.0 */
/* test_spill_writer.c - spills are written as Spark writes them. */
#include <ahead/ahead.h>

#include "support/clock.h"
#include "support/expect.h"
#include "support/failing.h"
#include "support/fake_sink.h"
#include "support/lz4_check.h"
#include "support/pattern.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define OK(call) expect_status(call, AHEAD_OK)

static const uint8_t two_records[] = {
    0, 0, 0, 2,                                                        /* count */
    0, 0, 0, 3, 1,   2,   3,   4,   5,   6,   7,   8,   'a', 'b', 'c', /* "abc" */
    0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255,                /* nothing */
};

static void put_two(struct ahead_writer *w)
{
    struct ahead_spill_writer *sw;

    OK(ahead_spill_writer_open(&sw, w, 2));
    OK(ahead_spill_put(sw, 0x0102030405060708, "abc", 3));
    OK(ahead_spill_put(sw, -1, NULL, 0));
    OK(ahead_spill_writer_close(sw));
}

Test(spill_writer, writes_the_golden_vector)
{
    for (size_t bytes = 1; bytes < 40; bytes++) {
        struct ahead_options opt = { .buffer_bytes = bytes };
        struct ahead_sink sink;
        struct ahead_writer *w;
        uint8_t *data;
        size_t len;

        OK(ahead_sink_memory(&sink, &data, &len));
        OK(ahead_writer_open(&w, sink, &opt));
        put_two(w);
        expect_size(len, sizeof two_records);
        expect_mem(data, two_records, len);
        free(data);
    }
}

Test(spill_writer, writes_the_golden_vector_as_lz4_block)
{
    static const uint8_t head[] = { 'L', 'Z', '4', 'B', 'l', 'o', 'c',  'k',  0x15, 31,  0,
                                    0,   0,   31,  0,   0,   0,   0x1f, 0x35, 0xac, 0x06 };
    static const uint8_t end[] = { 'L', 'Z', '4', 'B', 'l', 'o', 'c', 'k', 0x15 };
    struct ahead_sink sink;
    struct ahead_writer *w;
    uint8_t *data;
    size_t len;

    OK(ahead_sink_memory(&sink, &data, &len));
    OK(ahead_sink_lz4_block(&sink, sink, NULL));
    OK(ahead_writer_open(&w, sink, NULL));
    put_two(w);
    expect_size(len, 21 + 31 + 21);
    expect_mem(data, head, sizeof head);
    expect_mem(data + 21, two_records, sizeof two_records);
    expect_mem(data + 52, end, sizeof end);
    free(data);
}

/* Longer than both buffers together, and than a block. */
Test(spill_writer, records_may_have_any_length)
{
    static const uint32_t lengths[] = { 0, 1, 1000, 1001, 65536, 1000000, 3 };
    enum { RECORDS = sizeof lengths / sizeof *lengths };
    struct ahead_options opt = { .buffer_bytes = 1000 };
    struct ahead_spill_writer *sw;
    struct ahead_sink sink;
    struct ahead_writer *w;
    struct decoded d;
    uint8_t *data, *record = malloc(1000000);
    const uint8_t *p;
    size_t len;

    OK(ahead_sink_memory(&sink, &data, &len));
    OK(ahead_sink_lz4_block(&sink, sink, NULL));
    OK(ahead_writer_open(&w, sink, &opt));
    OK(ahead_spill_writer_open(&sw, w, RECORDS));
    for (unsigned i = 0; i < RECORDS; i++) {
        pattern_fill(record, i, lengths[i]);
        OK(ahead_spill_put(sw, (int64_t)i - 3, record, lengths[i]));
    }
    OK(ahead_spill_writer_close(sw));
    d = check_lz4_block(data, len);
    p = d.bytes + 4;
    expect_int(ahead_load_u32_be(d.bytes), RECORDS);
    for (unsigned i = 0; i < RECORDS; i++) {
        expect_int(ahead_load_u32_be(p), lengths[i]);
        expect_int((int64_t)ahead_load_u64_be(p + 4), (int64_t)i - 3);
        expect_size(pattern_match(p + 12, i, lengths[i]), lengths[i]);
        p += 12 + lengths[i];
    }
    expect_true(p == d.bytes + d.len);
    free(d.bytes);
    free(data);
    free(record);
}

Test(spill_writer, count_that_was_announced_is_kept)
{
    struct ahead_spill_writer *sw;
    struct ahead_sink sink;
    struct ahead_writer *w;
    uint8_t *data;
    size_t len;

    OK(ahead_sink_memory(&sink, &data, &len));
    OK(ahead_writer_open(&w, sink, NULL));
    OK(ahead_spill_writer_open(&sw, w, 1));
    expect_status(ahead_spill_writer_error(sw)->status, AHEAD_OK);
    expect_status(ahead_spill_put(sw, 0, NULL, 1), AHEAD_INVALID);
    expect_status(ahead_spill_put(sw, 0, "", (uint32_t)INT32_MAX + 1), AHEAD_INVALID);
    OK(ahead_spill_put(sw, 7, "x", 1));
    expect_status(ahead_spill_put(sw, 8, "y", 1), AHEAD_INVALID);
    expect_true(strstr(ahead_spill_writer_error(sw)->text, "all 1 records"));
    OK(ahead_spill_writer_close(sw)); /* nothing of the second was written */
    expect_size(len, 4 + 13);
    free(data);

    OK(ahead_sink_memory(&sink, &data, &len));
    OK(ahead_writer_open(&w, sink, NULL));
    OK(ahead_spill_writer_open(&sw, w, 2));
    OK(ahead_spill_put(sw, 7, "x", 1));
    expect_status(ahead_spill_writer_close(sw), AHEAD_TRUNCATED);
    expect_size(len, 4 + 13); /* what was put is there */
    free(data);
}

Test(spill_writer, failure_of_the_output_stays)
{
    for (uint64_t at = 0; at < 40; at++) {
        struct ahead_options opt = { .buffer_bytes = 5 };
        struct fake_sink fs = { .fails = true, .fail_at = at, .fail_errno = ENOSPC };
        struct ahead_writer *w = fake_open(&fs, &opt);
        struct ahead_spill_writer *sw;
        enum ahead_status st = ahead_spill_writer_open(&sw, w, 100);

        expect_note("fails at %u", (unsigned)at);
        for (unsigned i = 0; i < 100 && !st; i++)
            st = ahead_spill_put(sw, 0, "abcdefgh", 8);
        expect_status(st, AHEAD_IO);
        expect_status(ahead_spill_put(sw, 0, "", 0), AHEAD_IO);
        expect_int(ahead_spill_writer_error(sw)->os_errno, ENOSPC);
        expect_u64(ahead_spill_writer_error(sw)->offset, at);
        expect_status(ahead_spill_writer_close(sw), AHEAD_IO);
        expect_size(fs.len, at);
        fs.len = 0; /* not the pattern */
        expect_fake(&fs, 0);
    }
}

/* A limit that runs out inside a record is the end of it; one that runs out in
 * front of it is not. */
Test(spill_writer, time_limit_cuts_no_record_in_two)
{
    struct ahead_options opt = { .buffer_bytes = 16, .read_timeout_ms = 10 };
    struct fake_sink fs = { .stalls = true, .has_finish = true };
    struct ahead_writer *w = fake_open(&fs, &opt);
    struct ahead_spill_writer *sw;

    OK(ahead_spill_writer_open(&sw, w, 9));
    OK(ahead_spill_put(sw, 0, "", 0));     /* 16 bytes: one buffer */
    OK(ahead_spill_put(sw, 0, "abcd", 4)); /* the other */
    expect_status(ahead_spill_put(sw, 0, "abcd", 4), AHEAD_TIMEDOUT);
    fake_release(&fs);
    expect_eventually(ahead_spill_put(sw, 0, "abcd", 4) == AHEAD_OK);
    expect_status(ahead_spill_writer_close(sw), AHEAD_TRUNCATED);
    expect_size(fs.len, 4 + 12 + 16 + 16);
    fs.len = 0;
    expect_fake(&fs, 0);

    fs = (struct fake_sink){ .stalls = true, .has_finish = true };
    w = fake_open(&fs, &opt);
    OK(ahead_spill_writer_open(&sw, w, 9));
    expect_status(ahead_spill_put(sw, 0, "abcdefghijklmnopqrstuvwxyz", 26), AHEAD_TIMEDOUT);
    expect_status(ahead_spill_put(sw, 0, "", 0), AHEAD_TIMEDOUT);
    fake_release(&fs);
    expect_status(ahead_spill_writer_close(sw), AHEAD_TIMEDOUT);
    expect_int(atomic_load(&fs.finishes), 0); /* it does not look whole */
    fs.len = 0;
    expect_fake(&fs, 0);
}

Test(spill_writer, owns_its_writer_whatever_happens)
{
    struct fake_sink fs[3] = { { .most = 0 } };
    struct ahead_spill_writer *sw = (struct ahead_spill_writer *)fs;

    expect_status(ahead_spill_writer_open(&sw, fake_open(&fs[0], NULL), (uint32_t)INT32_MAX + 1),
                  AHEAD_INVALID);
    expect_true(!sw);
    expect_int(errno, EINVAL);
    expect_status(ahead_spill_writer_open(NULL, fake_open(&fs[1], NULL), 1), AHEAD_INVALID);
    expect_status(ahead_spill_writer_open(&sw, NULL, 1), AHEAD_INVALID);
    for (unsigned i = 0; i < 2; i++)
        expect_fake(&fs[i], 0);
    OK(ahead_spill_writer_close(NULL));
    expect_status(ahead_spill_put(NULL, 0, "", 0), AHEAD_INVALID);
    expect_status(ahead_spill_writer_error(NULL)->status, AHEAD_INVALID);
}

Test(spill_writer, unwinds_from_every_failing_step)
{
    bool failed = true;

    for (int step = 1; failed; step++) {
        struct fake_sink fs = { .bytes = malloc(100), .cap = 100, .has_finish = true };
        struct ahead_writer *w = fake_open(&fs, NULL);
        struct ahead_spill_writer *sw;
        enum ahead_status st;

        fail_step(step);
        st = ahead_spill_writer_open(&sw, w, 0);
        failed = fail_step(0);
        if (st) /* without memory for a whole buffer it has a small one */
            expect_status(failed ? st : AHEAD_OK, AHEAD_NOMEM);
        else
            OK(ahead_spill_writer_close(sw));
        expect_size(fs.len, st ? 0 : 4);
        expect_int(fs.finishes, !st); /* what is given up must not look whole */
        free(fs.bytes);
        fs.bytes = NULL;
        fs.len = 0;
        expect_fake(&fs, 0);
        expect_int(live, 0);
    }
}

Test(spill_writer, open_over_a_writer_that_has_failed_says_why)
{
    struct fake_sink fs = { .fails = true, .fail_errno = ENOSPC };
    struct ahead_writer *w = fake_open(&fs, NULL);
    struct ahead_spill_writer *sw;

    OK(ahead_write_u8(w, 1));
    expect_status(ahead_writer_flush(w), AHEAD_IO);
    errno = 0;
    expect_status(ahead_spill_writer_open(&sw, w, 1), AHEAD_IO);
    expect_int(errno, ENOSPC);
    expect_true(!sw);
    expect_fake(&fs, 0);
}
