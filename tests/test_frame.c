/* SPDX-License-Identifier: Apache-2.0 */
/* test_frame.c - frames by description and Comet's, each whole, and then the one ending that their
 * bytes call for. */
#include <ahead/ahead.h>

#include "support/bytes.h"
#include "support/clock.h"
#include "support/expect.h"
#include "support/failing.h"
#include "support/judge.h"
#include "support/reading.h"
#include "support/script.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- frames in memory ---- */

static void add_header(struct bytes *b, uint64_t length, uint64_t fields, const char *tag)
{
    bytes_add_number(b, length, 8, false);
    bytes_add_number(b, fields, 8, false);
    bytes_add(b, tag, 4);
}

static void add_frame(struct bytes *b, size_t body_len, uint64_t fields, const char *tag)
{
    add_header(b, body_len + 12, fields, tag);
    bytes_add_pattern(b, body_len);
}

/* Frames with bodies of these lengths; the last one is followed by -1. */
static struct bytes frames_of(const int *len)
{
    static const char tags[][5] = { "NONE", "LZ4_", "\xdaSTD", "SNAP" };
    struct bytes b = { 0 };

    for (unsigned i = 0; len[i] >= 0; i++)
        add_frame(&b, (size_t)len[i], 3, tags[i % 4]);
    return b;
}
#define FRAMES(...) frames_of((const int[]){ __VA_ARGS__, -1 })

/* Five frames in 131 bytes. */
static struct bytes small_frames(void)
{
    return FRAMES(3, 0, 17, 1, 10);
}

/* ---- reading them ---- */

static struct ahead_frame_reader *
reader_over(struct ahead_stream *s, const struct ahead_frame_format *fmt)
{
    struct ahead_frame_reader *r = NULL;

    expect_status(ahead_frame_reader_open(&r, s, fmt), AHEAD_OK);
    return r;
}

/* The next frame, with a header of so many bytes, is the one of `total` bytes at
 * `at`: where the one behind it begins. */
static size_t
expect_frame(struct ahead_frame_reader *r, const uint8_t *p, size_t at, size_t header, size_t total)
{
    struct ahead_frame f = { .header = NULL };

    expect_status(ahead_frame_next(r, &f), AHEAD_OK);
    expect_u64(f.offset, at);
    expect_true(f.header);
    expect_mem(f.header, p + at, header);
    expect_size(f.body_len, total - header);
    expect_true(f.body);
    expect_mem(f.body, p + at + header, total - header);
    return at + total;
}

static size_t expect_comet(struct ahead_frame_reader *r, const uint8_t *p, size_t at)
{
    return expect_frame(r, p, at, 20, 8 + (size_t)judge_number(p + at, 8, false));
}

/* Every further call says the same, and so does the error. */
static void expect_ended(struct ahead_frame_reader *r, enum ahead_status want, size_t whole)
{
    struct ahead_frame f = { .body_len = 77 };

    for (int i = 0; i < 3; i++) {
        const struct ahead_error *err;

        expect_status(ahead_frame_next(r, &f), want);
        expect_size(f.body_len, 77);
        err = ahead_frame_error(r);
        expect_status(err->status, want);
        expect_u64(err->offset, whole);
        expect_true(err->text[0]);
    }
}

/* Reads Comet's frames at `p` to their ending, which is as judged. */
static void expect_frames(struct ahead_stream *s, const struct ahead_frame_format *fmt,
                          const uint8_t *p, struct judged want)
{
    struct ahead_frame_reader *r = reader_over(s, fmt);
    size_t at = 0;

    for (uint64_t i = 0; i < want.elements; i++)
        at = expect_comet(r, p, at);
    expect_ended(r, want.status, want.whole);
    expect_status(ahead_frame_reader_close(r), closes_with(want.status));
}

/* fields < 0: any; max_frame 0: no limit. */
static void
expect_judged(const uint8_t *p, size_t n, int64_t fields, uint64_t max_frame, size_t buffer)
{
    struct ahead_frame_format fmt = ahead_frame_comet;
    struct judged want = judge_comet(p, n, AHEAD_EOF, fields, max_frame ? max_frame : UINT64_MAX);
    uint32_t expected = (uint32_t)fields;
    struct ahead_frame_reader *r;
    size_t at = 0;

    if (fields >= 0)
        fmt.check_ctx = &expected;
    if (max_frame)
        fmt.max_length = max_frame + 8;
    r = reader_over(over_memory(p, n, buffer), &fmt);
    for (uint64_t i = 0; i < want.elements; i++)
        at = expect_comet(r, p, at);
    expect_ended(r, want.status, want.whole);
    expect_u64(ahead_frame_error(r)->source_offset,
               want.status == AHEAD_EOF ? UINT64_MAX : want.whole);
    expect_status(ahead_frame_reader_close(r), closes_with(want.status));
}

/* ---- Comet's frames ---- */

static const uint8_t golden[] = { 0x0f, 0,    0, 0, 0, 0,   0,   0,   0x03, 0,   0,
                                  0,    0,    0, 0, 0, 'N', 'O', 'N', 'E',  'a', 'b',
                                  'c',  0x0c, 0, 0, 0, 0,   0,   0,   0,    0,   0,
                                  0,    0,    0, 0, 0, 0,   'N', 'O', 'N',  'E' };

Test(frame, two_frames_are_as_they_were_written)
{
    for (size_t buffer = 1; buffer <= 50; buffer++) {
        struct ahead_frame_reader *r =
            reader_over(over_memory(golden, sizeof golden, buffer), &ahead_frame_comet);
        struct ahead_frame f;

        expect_note("buffer of %zu bytes", buffer);
        expect_status(ahead_frame_next(r, &f), AHEAD_OK);
        expect_u64(f.offset, 0);
        expect_mem(f.header, golden, 20);
        expect_size(f.body_len, 3);
        expect_mem(f.body, "abc", 3);
        expect_status(ahead_frame_next(r, &f), AHEAD_OK);
        expect_u64(f.offset, 23);
        expect_mem(f.header, golden + 23, 20);
        expect_size(f.body_len, 0);
        expect_true(f.body);
        expect_ended(r, AHEAD_EOF, sizeof golden);
        expect_status(ahead_frame_reader_close(r), AHEAD_OK);
    }
}

Test(frame, no_frames_are_a_clean_end)
{
    expect_judged(golden, 0, -1, 0, 64);
}

/* F185: ends hit every residue of the buffer. */
Test(frame, bodies_of_every_size_up_to_three_buffers)
{
    static const size_t buffers[] = { 1, 2, 3, 5, 7, 8, 15, 16, 17, 19, 20, 21, 31, 64, 123 };

    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++) {
        struct bytes b = { 0 };

        expect_note("buffer of %zu bytes", buffers[i]);
        for (size_t len = 0; len <= 3 * buffers[i] + 1; len++)
            add_frame(&b, len, len, "LZ4_");
        expect_judged(b.p, b.len, -1, 0, buffers[i]);
        free(b.p);
    }
}

/* Above what the stream gathers, frames lie in memory of the reader's own. */
Test(frame, large_frames_come_whole_in_any_pieces)
{
    struct bytes b = FRAMES(5, 3 << 20, 0, (1 << 20) - 20, (1 << 20) - 19, 7 << 20, 100, 2 << 20);

    for (each_mode(m)) {
        struct script sc = { .data = b.p, .step = STEPS(RANDOM(b.len, 70000)) };

        expect_note("%s", m->name);
        script_set_mode(&sc, m);
        expect_frames(
            script_open(&sc, &(struct ahead_options){ .buffer_bytes = 200000, .flags = m->flags }),
            &ahead_frame_comet, b.p, judge_comet(b.p, b.len, AHEAD_EOF, -1, UINT64_MAX));
        expect_str(script_closing_verdict(&sc), "ok");
    }
    free(b.p);
}

Test(frame, a_frame_in_one_buffer_is_not_copied)
{
    struct bytes b = FRAMES(10, 100000, 20);
    struct ahead_stream *s = over_memory(b.p, b.len, 8 << 20);
    struct ahead_frame_reader *r = reader_over(s, &ahead_frame_comet);
    struct ahead_frame f;

    for (int i = 0; i < 3; i++) {
        expect_status(ahead_frame_next(r, &f), AHEAD_OK);
        expect_true(f.body == f.header + 20);
        expect_true(f.body + f.body_len == s->next);
    }
    expect_status(ahead_frame_reader_close(r), AHEAD_OK);
    free(b.p);
}

/* F183, F184, F187: each prefix, by buffers of each size. */
Test(frame, every_prefix_is_judged_right)
{
    struct bytes b = small_frames();

    expect_size(b.len, 131);
    for (size_t len = 0; len <= b.len; len++) {
        for (size_t buffer = 1; buffer <= 17; buffer++) {
            expect_note("%zu bytes, buffer of %zu", len, buffer);
            expect_judged(b.p, len, -1, 0, buffer);
        }
    }
    free(b.p);
}

Test(frame, every_flipped_bit_is_judged_right)
{
    struct bytes b = small_frames();

    for (size_t bit = 0; bit < 8 * b.len; bit++) {
        expect_note("bit %zu", bit);
        b.p[bit / 8] ^= (uint8_t)(1 << bit % 8);
        expect_judged(b.p, b.len, -1, 0, 1 + bit % 23);
        expect_judged(b.p, b.len, 3, 0, 4096);
        expect_judged(b.p, b.len, -1, 21, 19);
        b.p[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    free(b.p);
}

/* F184: where it stops, how much there is, which frame it is. */
Test(frame, a_cut_names_the_frame_and_where_the_last_whole_one_ends)
{
    struct bytes b = small_frames();
    static const struct {
        size_t len, whole;
        const char *text;
    } cuts[] = {
        { 1, 0, "frame 1, at byte 0: the input ends after 1 of 16 bytes" },
        { 15, 0, "frame 1, at byte 0: the input ends after 15 of 16 bytes" },
        { 16, 0, "frame 1, at byte 0: the input ends after 16 of 20 bytes" },
        { 19, 0, "frame 1, at byte 0: the input ends after 19 of 20 bytes" },
        { 22, 0, "frame 1, at byte 0: the input ends after 22 of 23 bytes" },
        { 24, 23, "frame 2, at byte 23: the input ends after 1 of 16 bytes" },
        { 79, 43, "frame 3, at byte 43: the input ends after 36 of 37 bytes" },
    };

    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        struct ahead_frame_reader *r =
            reader_over(over_memory(b.p, cuts[i].len, 8), &ahead_frame_comet);
        struct ahead_frame f;

        while (!ahead_frame_next(r, &f))
            ;
        expect_ended(r, AHEAD_TRUNCATED, cuts[i].whole);
        expect_str(ahead_frame_error(r)->text, cuts[i].text);
        expect_u64(ahead_frame_error(r)->source_offset, cuts[i].whole);
        expect_status(ahead_frame_reader_close(r), AHEAD_TRUNCATED);
    }
    free(b.p);
}

/* F181: what a header may not say, each with a text that says what it is. */
Test(frame, headers_that_no_frame_has)
{
    static const struct {
        uint64_t length, fields;
        const char *tag, *text;
    } bad[] = {
        { 0, 3, "NONE", "its length of 0 is below the least, 12" },
        { 11, 3, "NONE", "its length of 11 is below the least, 12" },
        { (uint64_t)-1, 3, "NONE", "its length of -1 is not from 12 to 2147483655" },
        { (uint64_t)-4, 3, "NONE", "its length of -4 is not from 12 to 2147483655" },
        { (uint64_t)INT64_MIN, 3, "NONE",
          "its length of -9223372036854775808 is not from 12 to 2147483655" },
        { INT64_MAX, 3, "NONE", "its length of 9223372036854775807 is not from 12 to 2147483655" },
        { 2147483656, 3, "NONE", "its length of 2147483656 is not from 12 to 2147483655" },
        { 12, (uint64_t)-1, "NONE", "its field count of -1 is not from 0 to 2147483647" },
        { 12, 2147483648, "NONE", "its field count of 2147483648 is not from 0 to 2147483647" },
        { 12, 2, "NONE", "it has 2 fields where 3 are expected" },
        { 12, 3, "LZ4F", "its tag 4c 5a 34 46 is none of NONE, LZ4_, ZSTD, SNAP" },
        { 12, 3, "LZ4\xdf", "its tag 4c 5a 34 df is none of NONE, LZ4_, ZSTD, SNAP" },
    };

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct ahead_frame_format fmt = ahead_frame_comet;
        uint32_t fields = 3;
        struct bytes b = { 0 };
        struct ahead_frame_reader *r;
        char text[128];

        fmt.check_ctx = &fields;
        add_frame(&b, 7, 3, "NONE");
        add_header(&b, bad[i].length, bad[i].fields, bad[i].tag);
        r = reader_over(over_memory(b.p, b.len, 64), &fmt);
        expect_size(expect_comet(r, b.p, 0), 27);
        expect_ended(r, AHEAD_CORRUPT, 27);
        snprintf(text, sizeof text, "frame 2, at byte 27: %s", bad[i].text);
        expect_str(ahead_frame_error(r)->text, text);
        expect_status(ahead_frame_reader_close(r), AHEAD_CORRUPT);

        /* The same by the rules, and each of them before what comes later: a
         * header whose tag is missing is judged by its first 16 bytes. */
        for (size_t cut = 0; cut <= 20; cut++) {
            expect_judged(b.p, b.len - cut, 3, 0, 5);
            expect_judged(b.p, b.len - cut, 3, 19, 5);
        }
        free(b.p);
    }
}

/* F182: the limit is of tag and body; it passes, one more does not. */
Test(frame, the_limit_itself_passes)
{
    static const uint32_t limits[] = { 4, 5, 100, 65535, 2 << 20 };

    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        struct bytes b = FRAMES((int)limits[i] - 4, 0, (int)limits[i] - 3);

        expect_note("limit %u", limits[i]);
        expect_judged(b.p, b.len, -1, limits[i], 4096);
        expect_judged(b.p, b.len - limits[i] + 3, -1, limits[i], 4096);
        expect_status(judge_comet(b.p, b.len, AHEAD_EOF, -1, limits[i]).status, AHEAD_LIMIT);
        free(b.p);
    }
}

/* F179: partitions one behind the other in a file; the first is cut short by
 * its own end, and the next one is read as ever. */
Test(frame, a_cut_frame_does_not_eat_the_next_input)
{
    struct bytes b = small_frames();
    FILE *file = tmpfile();
    size_t cut = b.len - 1;

    expect_true(file);
    expect_size(fwrite(b.p, 1, cut, file), cut);
    expect_size(fwrite(b.p, 1, b.len, file), b.len);
    fflush(file);
    for (int part = 0; part < 2; part++) {
        size_t len = part == 0 ? cut : b.len;
        struct ahead_source src;
        struct ahead_stream *s;

        expect_status(ahead_source_range(&src, fileno(file), part == 0 ? 0 : cut, len, 0),
                      AHEAD_OK);
        expect_status(ahead_open(&s, src, NULL), AHEAD_OK);
        expect_frames(s, &ahead_frame_comet, b.p, judge_comet(b.p, len, AHEAD_EOF, -1, UINT64_MAX));
    }
    fclose(file);
    free(b.p);
}

/* ---- the layer below ---- */

/* At every byte, in every way in which a fault can be found. */
Test(frame, a_fault_below_comes_after_the_frames_before_it, .timeout = 120 * TIME_SCALE)
{
    struct bytes b = small_frames();

    for (size_t cut = 0; cut <= b.len; cut++) {
        for (each_mode(m)) {
            struct judged want = judge_comet(b.p, cut, AHEAD_IO, -1, UINT64_MAX);
            struct script sc = { .data = b.p, .step = STEPS(PIECES(cut, 7), ERRNO(EXDEV)) };
            struct ahead_frame_reader *r;

            expect_note("%s, %zu bytes", m->name, cut);
            script_set_mode(&sc, m);
            r = reader_over(
                script_open(&sc, &(struct ahead_options){ .buffer_bytes = 16, .flags = m->flags }),
                &ahead_frame_comet);
            for (size_t i = 0, at = 0; i < want.elements; i++)
                at = expect_comet(r, b.p, at);
            expect_ended(r, AHEAD_IO, want.whole);
            expect_int(ahead_frame_error(r)->os_errno, EXDEV);
            expect_status(ahead_frame_reader_close(r), AHEAD_IO);
            expect_int(errno, EXDEV);
            expect_str(script_closing_verdict(&sc), "ok");
        }
    }
    free(b.p);
}

/* TRUNCATED of the layer below is not the reader's own: its place is told. */
Test(frame, a_fault_below_keeps_its_status_its_place_and_its_words)
{
    static const enum ahead_status faults[] = { AHEAD_TRUNCATED,   AHEAD_CORRUPT, AHEAD_LIMIT,
                                                AHEAD_UNSUPPORTED, AHEAD_IO,      AHEAD_NOMEM };
    static const struct {
        size_t cut;
        const char *where;
    } cuts[] = {
        { 0, "frame 1, at byte 0" },   { 5, "frame 1, at byte 0" },
        { 17, "frame 1, at byte 0" },  { 22, "frame 1, at byte 0" },
        { 23, "frame 2, at byte 23" }, { 131, "frame 6, at byte 131" },
    };
    struct bytes b = small_frames();

    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        for (size_t k = 0; k < sizeof faults / sizeof *faults; k++) {
            struct step steps[] = { PIECES(cuts[i].cut, 9),
                                    STATUS(faults[k], 4711, "the block is broken"), END };
            struct script sc = { .data = b.p, .step = cuts[i].cut ? steps : steps + 1 };
            struct ahead_frame_reader *r = reader_over(script_open(&sc, NULL), &ahead_frame_comet);
            struct ahead_frame f;
            char text[128];

            while (!ahead_frame_next(r, &f))
                ;
            expect_status(ahead_frame_next(r, &f), faults[k]);
            expect_u64(ahead_frame_error(r)->source_offset, 4711);
            snprintf(text, sizeof text, "%s: the block is broken", cuts[i].where);
            expect_str(ahead_frame_error(r)->text, text);
            expect_status(ahead_frame_reader_close(r), faults[k]);
            expect_str(script_closing_verdict(&sc), "ok");
        }
    }
    free(b.p);
}

/* A wait that runs out loses nothing, wherever in the frame it was. */
Test(frame, a_timeout_is_no_ending)
{
    struct bytes b = FRAMES(3, 2 << 20, 5);
    static const size_t stalls[] = { 0, 3, 16, 18, 21, 25, 40, 1 << 20, (1 << 20) + 5, 3 << 19 };

    for (size_t i = 0; i < sizeof stalls / sizeof *stalls; i++) {
        struct step steps[] = { BYTES(stalls[i]), STALL, BYTES(b.len - stalls[i]), END };
        struct script sc = { .data = b.p, .step = stalls[i] ? steps : steps + 1 };
        struct ahead_options opt = { .read_timeout_ms = 20 };
        struct ahead_frame_reader *r = reader_over(script_open(&sc, &opt), &ahead_frame_comet);
        size_t at = 0;
        int timeouts = 0;
        struct ahead_frame f;
        enum ahead_status st;

        expect_note("stall at %zu", stalls[i]);
        while ((st = ahead_frame_next(r, &f)) != AHEAD_EOF) {
            if (st == AHEAD_TIMEDOUT) {
                expect_status(ahead_frame_error(r)->status, AHEAD_TIMEDOUT);
                if (++timeouts == 2)
                    script_release(&sc);
                continue;
            }
            expect_status(st, AHEAD_OK);
            expect_u64(f.offset, at);
            expect_mem(f.body, b.p + at + 20, f.body_len);
            at += 20 + f.body_len;
        }
        expect_true(timeouts >= 2);
        expect_size(at, b.len);
        expect_status(ahead_frame_reader_close(r), AHEAD_OK);
        expect_str(script_closing_verdict(&sc), "ok");
    }
    free(b.p);
}

/* ---- memory ---- */

/* F180, F181: what a length says costs nothing before it has come. */
Test(frame, no_length_costs_memory)
{
    static const struct {
        uint64_t length;
        size_t more;
        uint64_t max;
        enum ahead_status want;
        size_t most; /* bytes in the largest allocation */
    } cases[] = {
        { 2000000000, 10, 0, AHEAD_TRUNCATED, 4 << 20 },
        { 2147483655, 10, 0, AHEAD_TRUNCATED, 4 << 20 },
        { 2147483655, 3 << 20, 0, AHEAD_TRUNCATED, 8 << 20 },
        { 2147483655, 3 << 20, 1000, AHEAD_LIMIT, 70000 },
        { 2147483656, 3 << 20, 1000, AHEAD_CORRUPT, 70000 },
        { INT64_MAX, 3 << 20, 0, AHEAD_CORRUPT, 70000 },
        { UINT64_MAX, 3 << 20, 0, AHEAD_CORRUPT, 70000 },
        { (3 << 20) + 12, 4 << 20, (3 << 20) + 12, AHEAD_CORRUPT, (3 << 20) + 20 },
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ahead_frame_format fmt = ahead_frame_comet;
        struct bytes b = { 0 };
        struct ahead_frame_reader *r;
        struct ahead_frame f;
        enum ahead_status st;

        expect_note("case %zu", i);
        fmt.max_length = cases[i].max;
        add_header(&b, cases[i].length, 3, "NONE");
        bytes_add_zeros(&b, cases[i].more);
        atomic_store(&largest, 0);
        r = reader_over(over_memory(b.p, b.len, 65536), &fmt);
        while (!(st = ahead_frame_next(r, &f)))
            ;
        expect_status(st, unless_too_large(cases[i].length + 8, cases[i].want));
        expect_true(atomic_load(&largest) <= cases[i].most);
        ahead_frame_reader_close(r);
        free(b.p);
    }
}

/* F227: from the second frame on next to nothing is allocated. */
Test(frame, many_frames_share_what_was_allocated_for_the_first)
{
    static const size_t lengths[] = { 100, 5000, 2 << 20 };

    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        unsigned n = i == 0 ? 10000 : i == 1 ? 1000 : 8;
        struct ahead_frame_reader *r;
        struct bytes b = { 0 };
        struct ahead_frame f;

        for (unsigned k = 0; k < n; k++)
            add_frame(&b, lengths[i] - 20, 3, "NONE");
        r = reader_over(over_memory(b.p, b.len, 1024), &ahead_frame_comet);
        expect_status(ahead_frame_next(r, &f), AHEAD_OK);
        fail_step(11); /* the eleventh allocation would fail, and the reader with it */
        for (unsigned k = 1; k < n; k++)
            expect_status(ahead_frame_next(r, &f), AHEAD_OK);
        expect_status(ahead_frame_next(r, &f), AHEAD_EOF);
        expect_true(!fail_step(0));
        expect_status(ahead_frame_reader_close(r), AHEAD_OK);
        free(b.p);
    }
}

Test(frame, unwinds_from_every_failing_step)
{
    struct bytes b = FRAMES(3, 5000, 3 << 20, 2);
    bool failed = true;
    int before = live;

    for (int step = 1; failed; step++) {
        struct script sc = { .data = b.p, .step = STEPS(PIECES(b.len, 100000)) };
        struct ahead_options opt = { .buffer_bytes = 3000, .flags = AHEAD_SYNC };
        struct ahead_stream *s = script_open(&sc, &opt);
        struct ahead_frame_reader *r;
        struct ahead_frame f;
        enum ahead_status st;

        expect_note("step %d", step);
        fail_step(step);
        st = ahead_frame_reader_open(&r, s, &ahead_frame_comet);
        while (!st)
            st = ahead_frame_next(r, &f);
        failed = fail_step(0);
        expect_status(st, failed ? AHEAD_NOMEM : AHEAD_EOF);
        if (r && failed)
            expect_status(ahead_frame_next(r, &f), AHEAD_NOMEM);
        expect_status(ahead_frame_reader_close(r), r && failed ? AHEAD_NOMEM : AHEAD_OK);
        expect_str(script_closing_verdict(&sc), "ok");
        expect_int(live, before);
    }
    free(b.p);
}

/* ---- other formats ---- */

static const struct ahead_frame_format plain = {
    .header_bytes = 4, .length_bytes = 4, .big_endian = true, .length_counts_from = 4
};

/* F182: a format that contradicts itself. */
Test(frame, formats_that_cannot_be_are_refused)
{
    static const struct ahead_frame_format bad[] = {
        { .header_bytes = 0, .length_bytes = 4 },
        { .header_bytes = 65537, .length_bytes = 4 },
        { .header_bytes = UINT32_MAX, .length_bytes = 4 },
        { .header_bytes = 4, .length_bytes = 0 },
        { .header_bytes = 16, .length_bytes = 9 },
        { .header_bytes = 16, .length_bytes = UINT32_MAX },
        { .header_bytes = 4, .length_bytes = 5 },
        { .header_bytes = 8, .length_bytes = 4, .length_offset = 5 },
        { .header_bytes = 8, .length_bytes = 4, .length_offset = UINT32_MAX },
        { .header_bytes = 8, .length_bytes = 4, .length_offset = UINT32_MAX - 3 },
        { .header_bytes = 8, .length_bytes = 4, .first_bytes = 9 },
        { .header_bytes = 8, .length_bytes = 4, .first_bytes = UINT32_MAX },
        { .header_bytes = 8, .length_bytes = 4, .first_bytes = 3 },
        { .header_bytes = 8, .length_bytes = 4, .length_offset = 2, .first_bytes = 5 },
        { .header_bytes = 8, .length_bytes = 4, .length_counts_from = 9 },
        { .header_bytes = 8, .length_bytes = 4, .min_length = 11, .max_length = 10 },
        { .header_bytes = 8, .length_bytes = 4, .max_length = 7 },
        { .header_bytes = 8, .length_bytes = 4, .length_counts_from = 4, .max_length = 3 },
        { .header_bytes = 8, .length_bytes = 2, .min_length = 65536 },
        { .header_bytes = 300, .length_bytes = 1 },
    };
    static const struct ahead_frame_format good[] = {
        { .header_bytes = 65536, .length_bytes = 8, .length_offset = 65528 },
        { .header_bytes = 1, .length_bytes = 1 },
        { .header_bytes = 8, .length_bytes = 8 },
        { .header_bytes = 8, .length_bytes = 4, .length_offset = 4 },
        { .header_bytes = 8, .length_bytes = 4, .length_offset = 1, .first_bytes = 5 },
        { .header_bytes = 8, .length_bytes = 4, .length_counts_from = 8 },
        { .header_bytes = 8, .length_bytes = 4, .min_length = 10, .max_length = 10 },
        { .header_bytes = 8, .length_bytes = 4, .max_length = 8 },
        { .header_bytes = 8, .length_bytes = 2, .min_length = 65535 },
        { .header_bytes = 255, .length_bytes = 1 },
    };

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct script sc = { .step = STEPS(BYTES(100)) };
        struct ahead_frame_reader *r = (struct ahead_frame_reader *)&sc;

        expect_note("bad format %zu", i);
        errno = 0;
        expect_status(ahead_frame_reader_open(&r, script_open(&sc, NULL), &bad[i]), AHEAD_INVALID);
        expect_int(errno, EINVAL);
        expect_true(!r);
        expect_int(script_asked(&sc), 0);
        expect_str(script_closing_verdict(&sc), "ok");
    }
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        expect_note("good format %zu", i);
        expect_status(ahead_frame_reader_close(reader_over(over_memory("", 0, 0), &good[i])),
                      AHEAD_OK);
    }
}

Test(frame, a_stream_is_closed_in_every_outcome)
{
    struct script one = { .step = STEPS(BYTES(100)) }, two = one;
    struct ahead_frame_reader *r = (struct ahead_frame_reader *)&one;
    struct ahead_frame f;

    expect_status(ahead_frame_reader_open(NULL, script_open(&one, NULL), &plain), AHEAD_INVALID);
    expect_str(script_closing_verdict(&one), "ok");
    expect_status(ahead_frame_reader_open(&r, script_open(&two, NULL), NULL), AHEAD_INVALID);
    expect_str(script_closing_verdict(&two), "ok");
    expect_true(!r);
    expect_status(ahead_frame_reader_open(&r, NULL, &plain), AHEAD_INVALID);
    expect_status(ahead_frame_next(NULL, &f), AHEAD_INVALID);
    expect_status(ahead_frame_error(NULL)->status, AHEAD_INVALID);
    expect_status(ahead_frame_reader_close(NULL), AHEAD_OK);
    r = reader_over(over_memory(golden, sizeof golden, 0), &ahead_frame_comet);
    expect_status(ahead_frame_next(r, NULL), AHEAD_INVALID);
    expect_size(expect_comet(r, golden, 0), 23);
    expect_status(ahead_frame_reader_close(r), AHEAD_OK);
}

/* Length fields of each width, place and order, counting from each place. */
Test(frame, lengths_are_where_the_format_says)
{
    for (uint32_t width = 1; width <= 8; width++) {
        for (uint32_t offset = 0; offset <= 12 - width; offset++) {
            for (uint32_t from = 0; from <= 12; from++) {
                struct ahead_frame_format fmt = { .header_bytes = 12,
                                                  .length_offset = offset,
                                                  .length_bytes = width,
                                                  .big_endian = (offset + from) % 2,
                                                  .first_bytes = from % 3 ? offset + width : 0,
                                                  .length_counts_from = from };
                struct ahead_frame_reader *r;
                struct bytes b = { 0 };
                size_t at = 0;

                for (size_t body = 0; body <= 240; body += 60) {
                    size_t header = b.len;

                    bytes_add_pattern(&b, 12 + body);
                    for (uint32_t i = 0; i < width; i++)
                        b.p[header + offset + i] = 0;
                    b.p[header + offset + (fmt.big_endian ? width - 1 : 0)] =
                        (uint8_t)(body + 12 - from);
                }
                expect_note("%u bytes at %u, from %u", width, offset, from);
                r = reader_over(over_memory(b.p, b.len, 50), &fmt);
                for (size_t body = 0; body <= 240; body += 60)
                    at = expect_frame(r, b.p, at, 12, 12 + body);
                expect_ended(r, AHEAD_EOF, b.len);
                expect_status(ahead_frame_reader_close(r), AHEAD_OK);
                free(b.p);
            }
        }
    }
}

/* Each byte of a length counts, in its place. */
Test(frame, a_length_of_several_bytes)
{
    static const uint32_t lengths[] = { 0x0100, 0x0201, 0x010203 };

    for (size_t i = 0; i < 3; i++) {
        for (int big = 0; big < 2; big++) {
            struct ahead_frame_format fmt = {
                .header_bytes = 3, .length_bytes = 3, .big_endian = big, .length_counts_from = 3
            };
            struct ahead_frame_reader *r;
            struct bytes b = { 0 };

            bytes_add_number(&b, lengths[i], 3, big);
            bytes_add_pattern(&b, lengths[i]);
            r = reader_over(over_memory(b.p, b.len, 0), &fmt);
            expect_size(expect_frame(r, b.p, 0, 3, 3 + lengths[i]), b.len);
            expect_ended(r, AHEAD_EOF, b.len);
            expect_status(ahead_frame_reader_close(r), AHEAD_OK);
            free(b.p);
        }
    }
}

/* F181: what adds up to more than there are addresses. */
Test(frame, a_length_that_no_memory_can_hold_is_over_the_limit)
{
    static const uint64_t lengths[] = { UINT64_MAX, UINT64_MAX - 7, UINT64_MAX - 8, INT64_MAX,
                                        (uint64_t)INT64_MAX - 3 };

    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        for (uint32_t from = 0; from <= 8; from += 8) {
            struct ahead_frame_format fmt = { .header_bytes = 8,
                                              .length_bytes = 8,
                                              .length_counts_from = from };
            uint64_t total_over = (uint64_t)PTRDIFF_MAX - from;
            struct ahead_frame_reader *r;
            struct bytes b = { 0 };

            bytes_add_number(&b, lengths[i], 8, false);
            bytes_add_pattern(&b, 100);
            r = reader_over(over_memory(b.p, b.len, 0), &fmt);
            expect_note("length %llu from %u", (unsigned long long)lengths[i], from);
            expect_ended(r, lengths[i] > total_over ? AHEAD_LIMIT : AHEAD_TRUNCATED, 0);
            ahead_frame_reader_close(r);
            free(b.p);
        }
    }
}

/* ---- check() ---- */

/* What it saw, and what it is to say. */
struct seen {
    unsigned calls;
    size_t have[4];
    size_t refuse_at; /* `have` */
    enum ahead_status status;
    const char *text;
};

static enum ahead_status
record_call(const uint8_t *header, size_t have, void *ctx, struct ahead_error *err)
{
    struct seen *seen = ctx;

    expect_true(header);
    expect_u64(err->source_offset, UINT64_MAX);
    expect_int(err->text[0], 0);
    seen->have[seen->calls++ % 4] = have;
    if (have != seen->refuse_at)
        return AHEAD_OK;
    if (seen->text)
        snprintf(err->text, sizeof err->text, "%s", seen->text);
    return seen->status;
}

static struct ahead_frame_format checked(struct seen *seen, uint32_t first, uint64_t max)
{
    struct ahead_frame_format fmt = plain;

    fmt.header_bytes = 6;
    fmt.length_counts_from = 6;
    fmt.first_bytes = first;
    fmt.max_length = max;
    fmt.check = record_call;
    fmt.check_ctx = seen;
    return fmt;
}

static const uint8_t one_checked[] = { 0, 0, 0, 2, 'x', 'y', 'a', 'b' };

Test(frame, check_is_called_at_first_and_at_the_whole_header)
{
    struct seen seen = { .refuse_at = 0 };
    struct ahead_frame_format fmt = checked(&seen, 4, 0);
    struct ahead_frame_reader *r = reader_over(over_memory(one_checked, 8, 3), &fmt);

    expect_size(expect_frame(r, one_checked, 0, 6, 8), 8);
    expect_int(seen.calls, 2);
    expect_size(seen.have[0], 4);
    expect_size(seen.have[1], 6);
    expect_ended(r, AHEAD_EOF, 8);
    expect_int(seen.calls, 2);
    expect_status(ahead_frame_reader_close(r), AHEAD_OK);

    /* Once if the two are one. */
    for (uint32_t first = 0; first <= 6; first += 6) {
        seen.calls = 0;
        fmt = checked(&seen, first, 0);
        r = reader_over(over_memory(one_checked, 8, 3), &fmt);
        expect_size(expect_frame(r, one_checked, 0, 6, 8), 8);
        expect_int(seen.calls, 1);
        expect_size(seen.have[0], 6);
        expect_status(ahead_frame_reader_close(r), AHEAD_OK);
    }
}

/* The order of the rules: least length, check of the first bytes, limit, check
 * of the whole header, body. */
Test(frame, rules_are_looked_at_in_their_order)
{
    static const struct {
        uint64_t min, max;
        size_t refuse_at, len;
        enum ahead_status want;
        unsigned calls;
    } cases[] = {
        { 3, 0, 4, 8, AHEAD_CORRUPT, 0 },     { 0, 1, 4, 8, AHEAD_UNSUPPORTED, 1 },
        { 0, 1, 6, 8, AHEAD_LIMIT, 1 },       { 0, 1, 6, 4, AHEAD_LIMIT, 1 },
        { 0, 2, 6, 6, AHEAD_UNSUPPORTED, 2 }, { 0, 2, 6, 5, AHEAD_TRUNCATED, 1 },
        { 0, 2, 0, 7, AHEAD_TRUNCATED, 2 },   { 0, 2, 4, 3, AHEAD_TRUNCATED, 0 },
        { 3, 0, 4, 3, AHEAD_TRUNCATED, 0 },
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct seen seen = { .refuse_at = cases[i].refuse_at, .status = AHEAD_UNSUPPORTED };
        struct ahead_frame_format fmt = checked(&seen, 4, cases[i].max);
        struct ahead_frame_reader *r;

        fmt.min_length = cases[i].min;
        r = reader_over(over_memory(one_checked, cases[i].len, 3), &fmt);
        expect_note("case %zu", i);
        expect_ended(r, cases[i].want, 0);
        expect_int(seen.calls, cases[i].calls);
        expect_status(ahead_frame_reader_close(r), cases[i].want);
    }
}

Test(frame, what_check_says_is_the_ending)
{
    static const char *const texts[] = { "the colour is wrong", NULL };

    for (size_t i = 0; i < 2; i++) {
        struct seen seen = { .refuse_at = 6, .status = AHEAD_CORRUPT, .text = texts[i] };
        struct ahead_frame_format fmt = checked(&seen, 4, 0);
        struct ahead_frame_reader *r = reader_over(over_memory(one_checked, 8, 3), &fmt);

        expect_ended(r, AHEAD_CORRUPT, 0);
        expect_str(ahead_frame_error(r)->text,
                   texts[i] ? "frame 1, at byte 0: the colour is wrong"
                            : "frame 1, at byte 0: the check failed with status CORRUPT");
        expect_u64(ahead_frame_error(r)->source_offset, 0);
        expect_status(ahead_frame_reader_close(r), AHEAD_CORRUPT);
    }
}

/* A format may have an end mark, and bytes behind it. */
Test(frame, check_may_see_the_end)
{
    struct seen seen = { .refuse_at = 4, .status = AHEAD_EOF, .text = "the end mark" };
    struct ahead_frame_format fmt = checked(&seen, 4, 0);
    struct ahead_frame_reader *r = reader_over(over_memory(one_checked, 8, 3), &fmt);

    expect_ended(r, AHEAD_EOF, 0);
    expect_status(ahead_frame_reader_close(r), AHEAD_OK);
}

/* TIMEDOUT and INVALID ask for another call, which would never end. */
Test(frame, what_check_says_may_be_no_ending)
{
    static const enum ahead_status none[] = { AHEAD_TIMEDOUT, AHEAD_INVALID };

    for (size_t i = 0; i < 2; i++) {
        struct seen seen = { .refuse_at = 4, .status = none[i] };
        struct ahead_frame_format fmt = checked(&seen, 4, 0);
        struct ahead_frame_reader *r = reader_over(over_memory(one_checked, 8, 3), &fmt);

        expect_ended(r, AHEAD_IO, 0);
        expect_true(strstr(ahead_frame_error(r)->text, ahead_status_name(none[i])));
        expect_status(ahead_frame_reader_close(r), AHEAD_IO);
    }
}
