/* SPDX-License-Identifier: Apache-2.0 */
/* test_spill.c - a spill's records, each whole, and then the one ending that its bytes call for. */
#include <ahead/ahead.h>

#include "support/bytes.h"
#include "support/clock.h"
#include "support/expect.h"
#include "support/failing.h"
#include "support/judge.h"
#include "support/reading.h"
#include "support/script.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- spills in memory ---- */

/* A record whose bytes and prefix are the pattern's from where it stands. */
static void add_record(struct bytes *b, size_t len)
{
    bytes_add_number(b, len, 4, true);
    bytes_add_number(b, pattern_word(b->len), 8, true);
    bytes_add_pattern(b, len);
}

/* A count and records of these lengths; the last one is followed by -1. */
static struct bytes spill_of(const int *len)
{
    struct bytes b = { 0 };
    uint32_t n = 0;

    while (len[n] >= 0)
        n++;
    bytes_add_number(&b, n, 4, true);
    for (uint32_t i = 0; i < n; i++)
        add_record(&b, (size_t)len[i]);
    return b;
}
#define SPILL(...) spill_of((const int[]){ __VA_ARGS__, -1 })

/* Six records in 107 bytes. */
static struct bytes small_spill(void)
{
    return SPILL(3, 0, 17, 1, 0, 10);
}

/* ---- reading them ---- */

static struct ahead_spill_reader *
reader_over(struct ahead_stream *s, const struct ahead_spill_options *opt)
{
    struct ahead_spill_reader *r = NULL;

    expect_status(ahead_spill_reader_open(&r, s, opt), AHEAD_OK);
    return r;
}

/* The next record is the one at `at`: where the one behind it begins. */
static size_t expect_record(struct ahead_spill_reader *r, const uint8_t *p, size_t at)
{
    struct ahead_spill_record rec = { .data = NULL };
    uint64_t len = judge_number(p + at, 4, true);

    expect_status(ahead_spill_next(r, &rec), AHEAD_OK);
    expect_u64(rec.len, len);
    expect_u64((uint64_t)rec.key_prefix, judge_number(p + at + 4, 8, true));
    expect_true(rec.data);
    expect_mem(rec.data, p + at + 12, (size_t)len);
    return at + 12 + (size_t)len;
}

/* Every further call says the same, and so does the error. */
static void expect_ended(struct ahead_spill_reader *r, enum ahead_status want, size_t whole)
{
    struct ahead_spill_record rec = { .len = 77 };
    const struct ahead_error *err;

    for (int i = 0; i < 3; i++) {
        expect_status(ahead_spill_next(r, &rec), want);
        expect_int(rec.len, 77);
        err = ahead_spill_error(r);
        expect_status(err->status, want);
        expect_u64(err->offset, whole);
        expect_true(err->text[0]);
    }
}

/* Reads the spill at `p` to its ending, which is as judged. */
static void expect_spill(struct ahead_stream *s, const struct ahead_spill_options *opt,
                         const uint8_t *p, struct judged want)
{
    struct ahead_spill_reader *r = reader_over(s, opt);
    size_t at = 4;

    for (uint64_t i = 0; i < want.elements; i++)
        at = expect_record(r, p, at);
    expect_ended(r, want.status, want.whole);
    expect_status(ahead_spill_reader_close(r), closes_with(want.status));
}

static void expect_judged(const uint8_t *p, size_t n, struct ahead_spill_options opt, size_t buffer)
{
    uint32_t max = opt.max_record_bytes ? opt.max_record_bytes : INT32_MAX;

    expect_spill(over_memory(p, n, buffer), &opt, p, judge_spill(p, n, AHEAD_EOF, opt.compat, max));
}

/* ---- the records ---- */

static const uint8_t golden[] = { 0, 0,    0,    2,    0,    0,    0,    3,    1,   2, 3,
                                  4, 5,    6,    7,    8,    'a',  'b',  'c',  0,   0, 0,
                                  0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff };

Test(spill, two_records_are_as_they_were_written)
{
    for (size_t buffer = 1; buffer <= 40; buffer++) {
        struct ahead_spill_reader *r =
            reader_over(over_memory(golden, sizeof golden, buffer), NULL);
        struct ahead_spill_record rec;

        expect_note("buffer of %zu bytes", buffer);
        expect_int(ahead_spill_count(r), 2);
        expect_status(ahead_spill_next(r, &rec), AHEAD_OK);
        expect_true(rec.key_prefix == 0x0102030405060708);
        expect_int(rec.len, 3);
        expect_mem(rec.data, "abc", 3);
        expect_status(ahead_spill_next(r, &rec), AHEAD_OK);
        expect_true(rec.key_prefix == -1);
        expect_int(rec.len, 0);
        expect_true(rec.data);
        expect_ended(r, AHEAD_EOF, sizeof golden);
        expect_int(ahead_spill_count(r), 2);
        expect_status(ahead_spill_reader_close(r), AHEAD_OK);
    }
}

/* F185: ends hit every residue of the buffer. */
Test(spill, records_of_every_size_up_to_three_buffers)
{
    static const size_t buffers[] = { 1, 2, 3, 4, 5, 7, 8, 11, 12, 13, 16, 17, 31, 64, 123 };

    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++) {
        size_t buffer = buffers[i], most = 3 * buffer + 1;
        struct bytes b = { 0 };

        expect_note("buffer of %zu bytes", buffer);
        bytes_add_number(&b, most + 1, 4, true);
        for (size_t len = 0; len <= most; len++)
            add_record(&b, len);
        expect_judged(b.p, b.len, (struct ahead_spill_options){ 0 }, buffer);
        free(b.p);
    }
}

/* Above what the stream gathers, records lie in memory of the reader's own. */
Test(spill, large_records_come_whole_in_any_pieces)
{
    struct bytes b = SPILL(5, 3 << 20, 0, (1 << 20) - 12, (1 << 20) - 11, 7 << 20, 100, 2 << 20);

    for (each_mode(m)) {
        struct script sc = { .data = b.p, .step = STEPS(RANDOM(b.len, 70000)) };

        expect_note("%s", m->name);
        script_set_mode(&sc, m);
        expect_spill(
            script_open(&sc, &(struct ahead_options){ .buffer_bytes = 200000, .flags = m->flags }),
            NULL, b.p, judge_spill(b.p, b.len, AHEAD_EOF, false, INT32_MAX));
        expect_str(script_closing_verdict(&sc), "ok");
    }
    free(b.p);
}

/* A small one is waited for, a large one must have arrived. */
Test(spill, a_record_in_one_buffer_is_not_copied)
{
    struct bytes b = SPILL(10, 100000, 3 << 20, 20);

    for (unsigned flags = 0; flags <= AHEAD_EAGER; flags += AHEAD_EAGER) {
        struct script sc = { .data = b.p, .step = STEPS(PIECES(b.len, 100000)) };
        struct ahead_options opt = { .buffer_bytes = 8 << 20,
                                     .flags = flags ? AHEAD_EAGER : AHEAD_SYNC };
        struct ahead_stream *s = script_open(&sc, &opt);
        struct ahead_spill_reader *r = reader_over(s, NULL);
        struct ahead_spill_record rec;

        if (flags)
            expect_eventually(ahead_buffered(s) == b.len);
        for (int i = 0; i < 4; i++) {
            expect_status(ahead_spill_next(r, &rec), AHEAD_OK);
            if (i != 2 || flags)
                expect_true(rec.data + rec.len == s->next);
        }
        expect_status(ahead_spill_reader_close(r), AHEAD_OK);
    }
    free(b.p);
}

/* It has arrived, in both buffers together; but that is more than a stream shows. */
Test(spill, a_record_that_no_peek_can_show)
{
    enum { LEN = 66 << 20 };
    struct bytes b = { 0 };
    struct script sc = { .has = 0 };
    struct ahead_options opt = { .buffer_bytes = 40 << 20, .flags = AHEAD_EAGER };
    struct ahead_spill_reader *r;
    struct ahead_stream *s;

    bytes_add_number(&b, 1, 4, true);
    bytes_add_number(&b, LEN, 4, true);
    bytes_add_number(&b, 7, 8, true);
    bytes_add_zeros(&b, LEN);
    b.p[16] = b.p[b.len / 2] = b.p[b.len - 1] = 1;
    sc.data = b.p;
    sc.step = (const struct step[]){ PIECES(b.len, 1 << 20), END };
    s = script_open(&sc, &opt);
    r = reader_over(s, NULL);
    expect_eventually(ahead_buffered(s) == b.len);
    expect_size(expect_record(r, b.p, 4), b.len);
    expect_ended(r, AHEAD_EOF, b.len);
    expect_status(ahead_spill_reader_close(r), AHEAD_OK);
    free(b.p);
}

/* The second thread goes on meanwhile, up to both buffers full. */
Test(spill, a_record_stays_until_the_next_call)
{
    struct bytes b = SPILL(700, 700, 300, 700, 700, 700, 700);
    struct script sc = { .data = b.p, .step = STEPS(PIECES(b.len, 100)) };
    struct ahead_options opt = { .buffer_bytes = 1000, .flags = AHEAD_EAGER };
    struct ahead_stream *s = script_open(&sc, &opt);
    struct ahead_spill_reader *r = reader_over(s, NULL);
    size_t at = 4;

    for (int i = 0; i < 7; i++) {
        struct ahead_spill_record rec;
        uint8_t copy[700];
        uint64_t given;

        expect_status(ahead_spill_next(r, &rec), AHEAD_OK);
        memcpy(copy, rec.data, rec.len);
        do {
            given = atomic_load(&sc.given);
            sleep_us(2000);
        } while (given != atomic_load(&sc.given));
        expect_mem(rec.data, copy, rec.len);
        expect_mem(rec.data, b.p + at + 12, rec.len);
        at += 12 + rec.len;
    }
    expect_status(ahead_spill_reader_close(r), AHEAD_OK);
    expect_str(script_closing_verdict(&sc), "ok");
    free(b.p);
}

/* ---- the count ---- */

Test(spill, open_reads_nothing_and_count_reads_once)
{
    struct bytes b = small_spill();
    struct script sc = { .data = b.p, .step = STEPS(BYTES(b.len)) };
    struct ahead_spill_reader *r = reader_over(script_open(&sc, NULL), NULL);

    expect_int(script_asked(&sc), 0);
    expect_int(ahead_spill_count(r), 6);
    expect_int(ahead_spill_count(r), 6);
    expect_size(expect_record(r, b.p, 4), 4 + 15);
    expect_int(ahead_spill_count(r), 6);
    expect_status(ahead_spill_reader_close(r), AHEAD_OK);
    expect_str(script_closing_verdict(&sc), "ok");
    free(b.p);
}

Test(spill, a_count_that_cannot_be_had_is_0_and_next_says_why)
{
    struct script sc = { .step = STEPS(BYTES(3), ERRNO(EIO)) };
    struct ahead_spill_reader *r = reader_over(script_open(&sc, NULL), NULL);

    expect_int(ahead_spill_count(r), 0);
    expect_status(ahead_spill_error(r)->status, AHEAD_IO);
    expect_int(ahead_spill_count(r), 0);
    expect_ended(r, AHEAD_IO, 0);
    expect_int(ahead_spill_error(r)->os_errno, EIO);
    expect_status(ahead_spill_reader_close(r), AHEAD_IO);
    expect_int(errno, EIO);
    expect_int(ahead_spill_count(NULL), 0);
}

/* Nothing is allocated for it: see also no_length_costs_memory. */
Test(spill, counts_from_none_to_negative)
{
    static const uint32_t counts[] = { 0, 1, 2, INT32_MAX, 0x80000000, 0xffffffff };

    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        struct bytes b = { 0 };

        expect_note("count %u", counts[i]);
        bytes_add_number(&b, counts[i], 4, true);
        expect_judged(b.p, b.len, (struct ahead_spill_options){ 0 }, 64);
        add_record(&b, 9);
        for (int compat = 0; compat < 2; compat++)
            expect_judged(b.p, b.len, (struct ahead_spill_options){ .compat = compat }, 64);
        free(b.p);
    }
}

/* ---- cuts and damage ---- */

/* F183, F184, F186, F187: each prefix of a spill, by buffers of each size. */
Test(spill, every_prefix_is_judged_right)
{
    struct bytes b = small_spill();

    for (size_t len = 0; len <= b.len; len++) {
        for (size_t buffer = 1; buffer <= 17; buffer++) {
            expect_note("%zu bytes, buffer of %zu", len, buffer);
            expect_judged(b.p, len, (struct ahead_spill_options){ 0 }, buffer);
            expect_judged(b.p, len, (struct ahead_spill_options){ .compat = true }, buffer);
        }
    }
    free(b.p);
}

Test(spill, every_flipped_bit_is_judged_right)
{
    struct bytes b = small_spill();

    for (size_t bit = 0; bit < 8 * b.len; bit++) {
        static const struct ahead_spill_options opts[] = {
            { .max_record_bytes = 0 },
            { .compat = true },
            { .max_record_bytes = 20 },
        };

        b.p[bit / 8] ^= (uint8_t)(1 << bit % 8);
        for (size_t i = 0; i < sizeof opts / sizeof *opts; i++) {
            expect_note("bit %zu, options %zu", bit, i);
            expect_judged(b.p, b.len, opts[i], 1 + bit % 23);
            expect_judged(b.p, b.len, opts[i], 4096);
        }
        b.p[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    free(b.p);
}

/* F184, F186: where it stops, how much there is, which record it is. */
Test(spill, a_cut_names_the_record_and_where_the_last_whole_one_ends)
{
    struct bytes b = small_spill();
    const struct {
        size_t len, whole;
        const char *text;
    } cuts[] = {
        { 0, 0, "the count of records: the input ends after 0 of 4 bytes" },
        { 3, 0, "the count of records: the input ends after 3 of 4 bytes" },
        { 4, 4, "record 1 of 6, at byte 4: the input ends after 0 of 12 bytes" },
        { 15, 4, "record 1 of 6, at byte 4: the input ends after 11 of 12 bytes" },
        { 18, 4, "record 1 of 6, at byte 4: the input ends after 14 of 15 bytes" },
        { 19, 19, "record 2 of 6, at byte 19: the input ends after 0 of 12 bytes" },
        { 43, 31, "record 3 of 6, at byte 31: the input ends after 12 of 29 bytes" },
    };

    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        struct ahead_spill_reader *r = reader_over(over_memory(b.p, cuts[i].len, 8), NULL);
        struct ahead_spill_record rec;

        while (!ahead_spill_next(r, &rec))
            ;
        expect_ended(r, AHEAD_TRUNCATED, cuts[i].whole);
        expect_str(ahead_spill_error(r)->text, cuts[i].text);
        expect_u64(ahead_spill_error(r)->source_offset, UINT64_MAX);
        expect_status(ahead_spill_reader_close(r), AHEAD_TRUNCATED);
    }
    free(b.p);
}

/* F180: the same for a record that is read into memory of the reader's own. */
Test(spill, a_large_record_that_is_cut_says_how_much_there_is)
{
    struct bytes b = SPILL(7, 5 << 20);
    struct ahead_spill_reader *r = reader_over(over_memory(b.p, b.len - 1, 0), NULL);

    expect_size(expect_record(r, b.p, 4), 23);
    expect_ended(r, AHEAD_TRUNCATED, 23);
    expect_str(ahead_spill_error(r)->text,
               "record 2 of 2, at byte 23: the input ends after 5242891 of 5242892 bytes");
    expect_status(ahead_spill_reader_close(r), AHEAD_TRUNCATED);
    free(b.p);
}

/* F181. */
Test(spill, a_negative_length_is_corrupt_whatever_follows)
{
    static const int32_t lengths[] = { -1, -4, -7, -12, -16, INT32_MIN, INT32_MIN + 1 };

    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        for (size_t more = 0; more < 30; more++) {
            struct bytes b = { 0 };
            struct ahead_spill_reader *r;
            char text[96];

            bytes_add_number(&b, 3, 4, true);
            add_record(&b, 5);
            bytes_add_number(&b, (uint32_t)lengths[i], 4, true);
            bytes_add_number(&b, 1, 8, true);
            for (size_t k = 0; k < more; k++)
                bytes_add_number(&b, k, 1, true);
            r = reader_over(over_memory(b.p, b.len, 64), NULL);
            expect_size(expect_record(r, b.p, 4), 21);
            expect_ended(r, AHEAD_CORRUPT, 21);
            snprintf(text, sizeof text, "record 2 of 3, at byte 21: its length is negative: %d",
                     lengths[i]);
            expect_str(ahead_spill_error(r)->text, text);
            expect_u64(ahead_spill_error(r)->source_offset, UINT64_MAX);
            expect_status(ahead_spill_reader_close(r), AHEAD_CORRUPT);
            free(b.p);
        }
    }
}

/* F182: the limit passes, one more does not; and it is looked at before the
 * bytes are, which are not there (FORMATS: a forbidden length comes first). */
Test(spill, the_limit_itself_passes)
{
    static const uint32_t limits[] = { 1, 2, 100, 65535, 2 << 20 };

    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        struct ahead_spill_options opt = { .max_record_bytes = limits[i] };
        struct bytes b = SPILL(0, (int)limits[i], (int)limits[i] + 1);

        expect_note("limit %u", limits[i]);
        expect_judged(b.p, b.len, opt, 4096);
        expect_judged(b.p, b.len - limits[i], opt, 4096);
        expect_status(judge_spill(b.p, b.len, AHEAD_EOF, false, limits[i]).status, AHEAD_LIMIT);
        free(b.p);
    }
}

/* F186. */
Test(spill, what_follows_the_last_record_is_judged_unless_compat)
{
    struct bytes b = small_spill();
    struct ahead_spill_reader *r;

    bytes_add(&b, "x", 1);
    r = reader_over(over_memory(b.p, b.len, 32), NULL);
    for (size_t i = 0, at = 4; i < 6; i++)
        at = expect_record(r, b.p, at);
    expect_ended(r, AHEAD_CORRUPT, b.len - 1);
    expect_str(ahead_spill_error(r)->text, "behind the last of 6 records: 1 bytes or more follow "
                                           "where the end should be");
    expect_status(ahead_spill_reader_close(r), AHEAD_CORRUPT);
    expect_judged(b.p, b.len, (struct ahead_spill_options){ .compat = true }, 32);
    free(b.p);
}

/* ---- the layer below ---- */

/* F114, F186: at every byte, in every way in which a fault can be found. */
Test(spill, a_fault_below_comes_after_the_records_before_it, .timeout = 120 * TIME_SCALE)
{
    struct bytes b = small_spill();

    for (size_t cut = 0; cut <= b.len; cut++) {
        for (each_mode(m)) {
            struct judged want = judge_spill(b.p, cut, AHEAD_IO, false, INT32_MAX);
            struct script sc = { .data = b.p, .step = STEPS(PIECES(cut, 7), ERRNO(EXDEV)) };
            struct ahead_spill_reader *r;

            expect_note("%s, %zu bytes", m->name, cut);
            script_set_mode(&sc, m);
            r = reader_over(
                script_open(&sc, &(struct ahead_options){ .buffer_bytes = 16, .flags = m->flags }),
                NULL);
            for (size_t i = 0, at = 4; i < want.elements; i++)
                at = expect_record(r, b.p, at);
            expect_ended(r, AHEAD_IO, want.whole);
            expect_int(ahead_spill_error(r)->os_errno, EXDEV);
            expect_status(ahead_spill_reader_close(r), AHEAD_IO);
            expect_int(errno, EXDEV);
            expect_str(script_closing_verdict(&sc), "ok");
        }
    }
    free(b.p);
}

/* TRUNCATED of the layer below is not the reader's own: its place is told. */
Test(spill, a_fault_below_keeps_its_status_its_place_and_its_words)
{
    static const enum ahead_status faults[] = { AHEAD_TRUNCATED,   AHEAD_CORRUPT, AHEAD_LIMIT,
                                                AHEAD_UNSUPPORTED, AHEAD_IO,      AHEAD_NOMEM };
    static const struct {
        size_t cut;
        const char *where;
    } cuts[] = {
        { 0, "the count of records" },       { 2, "the count of records" },
        { 4, "record 1 of 6, at byte 4" },   { 17, "record 1 of 6, at byte 4" },
        { 35, "record 3 of 6, at byte 31" }, { 107, "behind the last of 6 records" },
    };
    struct bytes b = small_spill();

    expect_size(b.len, 107);
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        for (size_t k = 0; k < sizeof faults / sizeof *faults; k++) {
            struct step steps[] = { PIECES(cuts[i].cut, 9),
                                    STATUS(faults[k], 4711, "the block is broken"), END };
            struct script sc = { .data = b.p, .step = steps };
            struct ahead_spill_reader *r = reader_over(script_open(&sc, NULL), NULL);
            struct ahead_spill_record rec;
            char text[128];

            while (!ahead_spill_next(r, &rec))
                ;
            expect_status(ahead_spill_next(r, &rec), faults[k]);
            expect_u64(ahead_spill_error(r)->source_offset, 4711);
            snprintf(text, sizeof text, "%s: the block is broken", cuts[i].where);
            expect_str(ahead_spill_error(r)->text, text);
            expect_status(ahead_spill_reader_close(r), faults[k]);
            expect_str(script_closing_verdict(&sc), "ok");
        }
    }
    free(b.p);
}

/* Inside a record that is read into memory of the reader's own, too. */
Test(spill, a_fault_below_inside_a_large_record)
{
    struct bytes b = SPILL(7, 5 << 20);
    struct script sc = { .data = b.p,
                         .step = STEPS(BYTES(3 << 20), STATUS(AHEAD_TRUNCATED, 99, "cut block")) };
    struct ahead_spill_reader *r = reader_over(script_open(&sc, NULL), NULL);

    expect_size(expect_record(r, b.p, 4), 23);
    expect_ended(r, AHEAD_TRUNCATED, 23);
    expect_u64(ahead_spill_error(r)->source_offset, 99);
    expect_str(ahead_spill_error(r)->text, "record 2 of 2, at byte 23: cut block");
    expect_status(ahead_spill_reader_close(r), AHEAD_TRUNCATED);
    free(b.p);
}

Test(spill, compat_asks_for_nothing_behind_the_last_record)
{
    struct bytes b = small_spill();
    struct script sc = { .data = b.p,
                         .step = STEPS(BYTES(b.len), STATUS(AHEAD_TRUNCATED, 99, "no end mark")) };
    struct ahead_spill_options opt = { .compat = true };

    expect_spill(script_open(&sc, NULL), &opt, b.p,
                 judge_spill(b.p, b.len, AHEAD_TRUNCATED, true, INT32_MAX));
    expect_str(script_closing_verdict(&sc), "ok");
    free(b.p);
}

/* ---- time, threads, memory ---- */

/* A wait that runs out loses nothing, wherever in the spill it was. */
Test(spill, a_timeout_is_no_ending)
{
    struct bytes b = SPILL(3, 2 << 20, 5);
    static const size_t stalls[] = { 0, 3, 4, 9, 17, 25, 40, 1 << 20, (1 << 20) + 5, 3 << 19 };

    for (size_t i = 0; i < sizeof stalls / sizeof *stalls; i++) {
        struct step steps[] = { BYTES(stalls[i]), STALL, BYTES(b.len - stalls[i]), END };
        struct script sc = { .data = b.p, .step = stalls[i] ? steps : steps + 1 };
        struct ahead_options opt = { .read_timeout_ms = 20 };
        struct ahead_spill_reader *r = reader_over(script_open(&sc, &opt), NULL);
        struct ahead_spill_record rec;
        enum ahead_status st;
        size_t at = 4;
        int timeouts = 0;

        expect_note("stall at %zu", stalls[i]);
        while ((st = ahead_spill_next(r, &rec)) != AHEAD_EOF) {
            if (st == AHEAD_TIMEDOUT) {
                expect_status(ahead_spill_error(r)->status, AHEAD_TIMEDOUT);
                if (++timeouts == 2)
                    script_release(&sc);
                continue;
            }
            expect_status(st, AHEAD_OK);
            expect_mem(rec.data, b.p + at + 12, rec.len);
            at += 12 + rec.len;
        }
        expect_true(timeouts >= 2);
        expect_size(at, b.len);
        expect_status(ahead_spill_reader_close(r), AHEAD_OK);
        expect_str(script_closing_verdict(&sc), "ok");
    }
    free(b.p);
}

/* What has arrived when it goes on is the rest of the record, and enough behind
 * it to be taken for a whole one. */
Test(spill, a_large_record_goes_on_where_a_timeout_left_it)
{
    struct bytes b = SPILL(3 << 19, 4 << 20);
    struct script sc = { .data = b.p,
                         .step = STEPS(BYTES((1 << 20) + 5), STALL, BYTES(b.len - (1 << 20) - 5)) };
    struct ahead_options opt = { .read_timeout_ms = 20, .buffer_bytes = 8 << 20 };
    struct ahead_stream *s = script_open(&sc, &opt);
    struct ahead_spill_reader *r = reader_over(s, NULL);
    struct ahead_spill_record rec;
    size_t at;

    expect_status(ahead_spill_next(r, &rec), AHEAD_TIMEDOUT);
    script_release(&sc);
    expect_eventually(ahead_buffered(s) > 4 << 20);
    at = expect_record(r, b.p, 4);
    expect_size(expect_record(r, b.p, at), b.len);
    expect_ended(r, AHEAD_EOF, b.len);
    expect_status(ahead_spill_reader_close(r), AHEAD_OK);
    expect_str(script_closing_verdict(&sc), "ok");
    free(b.p);
}

static void *cancel_when_it_stalls(void *arg)
{
    struct ahead_stream *s = ((void **)arg)[0];
    struct script *sc = ((void **)arg)[1];

    expect_eventually(atomic_load(&sc->stalls) > 0);
    ahead_cancel(s);
    return NULL;
}

Test(spill, a_cancel_ends_a_wait_and_close_has_nothing_to_add)
{
    struct bytes b = small_spill();
    struct script sc = { .data = b.p, .step = STEPS(BYTES(50), STALL) };
    struct ahead_stream *s = script_open(&sc, NULL);
    struct ahead_spill_reader *r = reader_over(s, NULL);
    void *both[] = { s, &sc };
    struct ahead_spill_record rec;
    pthread_t thread;

    expect_int(pthread_create(&thread, NULL, cancel_when_it_stalls, both), 0);
    expect_size(expect_record(r, b.p, 4), 19);
    expect_size(expect_record(r, b.p, 19), 31);
    expect_status(ahead_spill_next(r, &rec), AHEAD_CANCELLED);
    pthread_join(thread, NULL);
    expect_ended(r, AHEAD_CANCELLED, 31);
    expect_status(ahead_spill_reader_close(r), AHEAD_OK);
    expect_str(script_closing_verdict(&sc), "ok");
    free(b.p);
}

/* F180, F181: what a length or a count says costs nothing before it has come. */
Test(spill, no_length_costs_memory)
{
    static const struct {
        uint32_t count, len;
        size_t more;
        uint32_t max;
        enum ahead_status want;
        size_t most; /* bytes in the largest allocation */
    } cases[] = {
        { 1, 2000000000, 10, 0, AHEAD_TRUNCATED, 4 << 20 },
        { 1, INT32_MAX, 10, 0, AHEAD_TRUNCATED, 4 << 20 },
        { 1, INT32_MAX, 3 << 20, 0, AHEAD_TRUNCATED, 8 << 20 },
        { INT32_MAX, 1, 0, 0, AHEAD_TRUNCATED, 4 << 20 },
        { 1, INT32_MAX, 3 << 20, 1000, AHEAD_LIMIT, 70000 },
        { 1, 0x80000000, 3 << 20, 0, AHEAD_CORRUPT, 70000 },
        { 1, 3 << 20, 4 << 20, 3 << 20, AHEAD_CORRUPT, (3 << 20) + 12 },
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ahead_spill_options opt = { .max_record_bytes = cases[i].max };
        struct bytes b = { 0 };
        struct ahead_spill_reader *r;
        struct ahead_spill_record rec;
        enum ahead_status st;

        expect_note("case %zu", i);
        bytes_add_number(&b, cases[i].count, 4, true);
        bytes_add_number(&b, cases[i].len, 4, true);
        bytes_add_number(&b, 7, 8, true);
        bytes_add_zeros(&b, cases[i].more);
        atomic_store(&largest, 0);
        r = reader_over(over_memory(b.p, b.len, 65536), &opt);
        while (!(st = ahead_spill_next(r, &rec)))
            ;
        expect_status(st, unless_too_large(cases[i].len + UINT64_C(12), cases[i].want));
        expect_true(atomic_load(&largest) <= cases[i].most);
        ahead_spill_reader_close(r);
        free(b.p);
    }
}

/* Memory is used again: from the second large record on, nothing is allocated. */
Test(spill, many_records_share_what_was_allocated_for_the_first)
{
    static const size_t lengths[] = { 100, 5000, 2 << 20 };

    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        struct ahead_spill_reader *r;
        struct ahead_spill_record rec;
        struct bytes b = { 0 };
        unsigned n = i < 2 ? 2000 : 8;

        bytes_add_number(&b, n, 4, true);
        for (unsigned k = 0; k < n; k++)
            add_record(&b, lengths[i]);
        r = reader_over(over_memory(b.p, b.len, 1024), NULL);
        expect_status(ahead_spill_next(r, &rec), AHEAD_OK);
        fail_step(11); /* the eleventh allocation would fail, and the reader with it */
        for (unsigned k = 1; k < n; k++)
            expect_status(ahead_spill_next(r, &rec), AHEAD_OK);
        expect_status(ahead_spill_next(r, &rec), AHEAD_EOF);
        expect_true(!fail_step(0));
        expect_status(ahead_spill_reader_close(r), AHEAD_OK);
        free(b.p);
    }
}

/* F220: whatever fails, the stream is closed once, and nothing is left. */
Test(spill, unwinds_from_every_failing_step)
{
    struct bytes b = SPILL(3, 5000, 3 << 20, 2);
    bool failed = true;
    int before = live;

    for (int step = 1; failed; step++) {
        struct script sc = { .data = b.p, .step = STEPS(PIECES(b.len, 100000)) };
        struct ahead_options opt = { .buffer_bytes = 3000, .flags = AHEAD_SYNC };
        struct ahead_stream *s = script_open(&sc, &opt);
        struct ahead_spill_reader *r;
        struct ahead_spill_record rec;
        enum ahead_status st;

        expect_note("step %d", step);
        fail_step(step);
        st = ahead_spill_reader_open(&r, s, NULL);
        while (!st)
            st = ahead_spill_next(r, &rec);
        failed = fail_step(0);
        expect_status(st, failed ? AHEAD_NOMEM : AHEAD_EOF);
        if (r && failed) {
            expect_status(ahead_spill_next(r, &rec), AHEAD_NOMEM);
            expect_true(strstr(ahead_spill_error(r)->text, "memory"));
        }
        expect_status(ahead_spill_reader_close(r), r && failed ? AHEAD_NOMEM : AHEAD_OK);
        expect_str(script_closing_verdict(&sc), "ok");
        expect_int(live, before);
    }
    free(b.p);
}

/* ---- calls that are wrong ---- */

Test(spill, a_stream_is_closed_in_every_outcome)
{
    struct script sc = { .step = STEPS(BYTES(100)) };
    struct ahead_spill_reader *r = (struct ahead_spill_reader *)&sc;
    struct ahead_spill_record rec;

    expect_status(ahead_spill_reader_open(NULL, script_open(&sc, NULL), NULL), AHEAD_INVALID);
    expect_int(errno, EINVAL);
    expect_str(script_closing_verdict(&sc), "ok");
    expect_status(ahead_spill_reader_open(&r, NULL, NULL), AHEAD_INVALID);
    expect_true(!r);
    expect_status(ahead_spill_next(NULL, &rec), AHEAD_INVALID);
    expect_status(ahead_spill_error(NULL)->status, AHEAD_INVALID);
    expect_status(ahead_spill_reader_close(NULL), AHEAD_OK);
    r = reader_over(over_memory(golden, sizeof golden, 0), NULL);
    expect_status(ahead_spill_next(r, NULL), AHEAD_INVALID);
    expect_size(expect_record(r, golden, 4), 19);
    expect_status(ahead_spill_reader_close(r), AHEAD_OK);
}

/* What the source's close says is not lost. */
Test(spill, close_says_what_closing_the_source_says)
{
    struct script sc = { .data = golden,
                         .step = STEPS(BYTES(sizeof golden)),
                         .close_status = AHEAD_IO,
                         .close_errno = EDQUOT };
    struct ahead_spill_reader *r = reader_over(script_open(&sc, NULL), NULL);

    expect_size(expect_record(r, golden, 4), 19);
    expect_size(expect_record(r, golden, 19), 31);
    expect_ended(r, AHEAD_EOF, 31);
    expect_status(ahead_spill_reader_close(r), AHEAD_IO);
}
