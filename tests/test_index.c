/* SPDX-License-Identifier: Apache-2.0 */
/* test_index.c - which bytes of a shuffle file belong to which partition, or why that cannot be
 * told. */
#include <ahead/ahead.h>

#include "support/expect.h"
#include "support/failing.h"
#include "support/judge.h"
#include "support/script.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OFFSETS = 6, BYTES_LEN = 8 * OFFSETS };

/* Partitions of 10, 0, 20, 0 and 1 bytes. */
static const uint64_t offsets[OFFSETS] = { 0, 10, 10, 30, 30, 31 };

static void store(uint8_t *p, uint64_t v)
{
    for (unsigned i = 0; i < 8; i++)
        p[i] = (uint8_t)(v >> 8 * (7 - i));
}

static void store_offsets(uint8_t *p)
{
    for (unsigned i = 0; i < OFFSETS; i++)
        store(p + 8 * i, offsets[i]);
}

static enum ahead_status open_bytes(struct ahead_index **x, const void *p, size_t len,
                                    uint64_t data_bytes, struct ahead_error *err)
{
    struct ahead_source src;

    expect_status(ahead_source_memory(&src, p, len), AHEAD_OK);
    return ahead_index_open(x, src, data_bytes, err);
}

/* Opens, and expects what the rules say. */
static void expect_judged(const uint8_t *p, size_t len, uint64_t data_bytes)
{
    enum ahead_status want = judge_index(p, len, data_bytes);
    struct ahead_index *x = (struct ahead_index *)&want;
    struct ahead_error err = { .status = AHEAD_IO };

    errno = 0;
    expect_status(open_bytes(&x, p, len, data_bytes, &err), want);
    expect_true((x != NULL) == (want == AHEAD_OK));
    if (want) {
        expect_int(errno, EBADMSG);
        expect_status(err.status, want);
        expect_true(err.text[0]);
        expect_true(err.source_offset <= len);
    } else {
        expect_size(ahead_index_partitions(x), len / 8 - 1);
    }
    for (size_t i = 0; !want && i < len / 8 - 1; i++) {
        uint64_t offset, length;

        expect_status(ahead_index_range(x, i, &offset, &length), AHEAD_OK);
        expect_u64(offset, judge_number(p + 8 * i, 8, true));
        expect_u64(offset + length, judge_number(p + 8 * i + 8, 8, true));
    }
    ahead_index_close(x);
}

Test(index, partitions_are_the_bytes_between_offsets)
{
    uint8_t p[BYTES_LEN];
    struct ahead_index *x;
    uint64_t offset = 77, length = 77;

    store_offsets(p);
    expect_status(open_bytes(&x, p, sizeof p, 31, NULL), AHEAD_OK);
    expect_size(ahead_index_partitions(x), 5);
    expect_status(ahead_index_range(x, 2, &offset, &length), AHEAD_OK);
    expect_u64(offset, 10);
    expect_u64(length, 20);
    expect_status(ahead_index_range(x, 3, &offset, &length), AHEAD_OK);
    expect_u64(offset, 30);
    expect_u64(length, 0);
    expect_status(ahead_index_range(x, 5, &offset, &length), AHEAD_INVALID);
    expect_status(ahead_index_range(x, SIZE_MAX, &offset, &length), AHEAD_INVALID);
    expect_u64(offset, 30);
    expect_u64(length, 0);
    expect_status(ahead_index_range(x, 0, NULL, &length), AHEAD_INVALID);
    expect_status(ahead_index_range(x, 0, &offset, NULL), AHEAD_INVALID);
    expect_status(ahead_index_range(NULL, 0, &offset, &length), AHEAD_INVALID);
    expect_size(ahead_index_partitions(NULL), 0);
    ahead_index_close(x);
    ahead_index_close(NULL);
}

Test(index, every_prefix_is_judged_right)
{
    uint8_t p[BYTES_LEN];

    store_offsets(p);
    for (size_t len = 0; len <= sizeof p; len++) {
        for (uint64_t data = 0; data < 33; data++) {
            expect_note("%zu bytes of an index, of a file of %llu", len, (unsigned long long)data);
            expect_judged(p, len, data);
        }
    }
}

Test(index, every_flipped_bit_is_judged_right)
{
    uint8_t p[BYTES_LEN];

    store_offsets(p);
    for (size_t bit = 0; bit < 8 * sizeof p; bit++) {
        expect_note("bit %zu", bit);
        p[bit / 8] ^= (uint8_t)(1 << bit % 8);
        expect_judged(p, sizeof p, 31);
        expect_judged(p, 16, 10);
        p[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
}

Test(index, what_is_wrong_is_said_with_its_place)
{
    static const struct {
        size_t at;
        uint64_t v;
        size_t len;
        uint64_t data;
        uint64_t where;
        const char *text;
    } cases[] = {
        { 0, 0, 0, 0, 0, "an index of 0 bytes: fewer than two offsets" },
        { 0, 0, 8, 0, 8, "an index of 8 bytes: fewer than two offsets" },
        { 0, 0, 47, 31, 40, "an index of 47 bytes: no multiple of 8" },
        { 0, 3, 48, 31, 0, "the first offset is 3, not 0" },
        { 0, UINT64_MAX, 48, 31, 0, "the first offset is -1, not 0" },
        { 3, 9, 48, 31, 24, "offset 3 of the index, 9, is below the one before it, 10" },
        { 5, (uint64_t)-5, 48, 31, 40,
          "offset 5 of the index, -5, is below the one before it, 30" },
        { 5, 31, 48, 32, 40, "the index ends at byte 31 of a file of 32" },
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t p[BYTES_LEN];
        struct ahead_index *x;
        struct ahead_error err;

        store_offsets(p);
        store(p + 8 * cases[i].at, cases[i].v);
        expect_status(open_bytes(&x, p, cases[i].len, cases[i].data, &err), AHEAD_CORRUPT);
        expect_str(err.text, cases[i].text);
        expect_u64(err.source_offset, cases[i].where);
        expect_u64(err.offset, cases[i].where);
    }
}

Test(index, many_partitions)
{
    enum { PARTITIONS = 100000 };
    size_t len = 8 * (PARTITIONS + 1);
    uint8_t *p = malloc(len);

    expect_true(p);
    for (size_t i = 0; i <= PARTITIONS; i++)
        store(p + 8 * i, i * i);
    fail_step(30); /* memory doubles: so many allocations are far too many */
    expect_judged(p, len, (uint64_t)PARTITIONS * PARTITIONS);
    expect_true(!fail_step(0));
    free(p);
}

/* A data file that was taken for its index is not read to its end. */
Test(index, what_is_no_index_is_seen_as_it_arrives)
{
    struct script sc = { .step = STEPS(BYTES(100u << 20)) };
    struct ahead_index *x;
    struct ahead_error err;

    expect_status(ahead_index_open(&x, script_source(&sc), 31, &err), AHEAD_CORRUPT);
    expect_u64(err.source_offset, 0);
    expect_true(script_asked(&sc) < 10);
    expect_str(script_closing_verdict(&sc), "ok");
}

static void spoil_errno(struct script *sc, enum script_call call)
{
    (void)sc;
    if (call == CALL_CLOSE)
        errno = EBADF;
}

Test(index, short_reads_and_faults_of_the_source)
{
    uint8_t p[BYTES_LEN];

    store_offsets(p);
    for (size_t cut = 1; cut <= sizeof p; cut++) {
        struct script whole = { .data = p, .step = STEPS(PIECES(sizeof p, 7)) };
        struct script cut_off = { .data = p,
                                  .step = STEPS(PIECES(cut, 7), ERRNO(EXDEV)),
                                  .on_call = spoil_errno };
        struct ahead_index *x;
        struct ahead_error err;

        expect_status(ahead_index_open(&x, script_source(&whole), 31, &err), AHEAD_OK);
        expect_size(ahead_index_partitions(x), 5);
        ahead_index_close(x);
        expect_str(script_closing_verdict(&whole), "ok");

        errno = 0;
        expect_status(ahead_index_open(&x, script_source(&cut_off), 31, &err), AHEAD_IO);
        expect_true(!x);
        expect_int(errno, EXDEV);
        expect_int(err.os_errno, EXDEV);
        expect_u64(err.offset, cut);
        expect_str(script_closing_verdict(&cut_off), "ok");
    }
}

Test(index, the_source_is_closed_in_every_outcome)
{
    struct script sc = { .step = STEPS(BYTES(48)) };
    struct ahead_index *x = (struct ahead_index *)&sc;
    struct ahead_error err;

    expect_status(ahead_index_open(NULL, script_source(&sc), 31, &err), AHEAD_INVALID);
    expect_int(errno, EINVAL);
    expect_status(err.status, AHEAD_INVALID);
    expect_int(script_asked(&sc), 0);
    expect_str(script_closing_verdict(&sc), "ok");
    expect_status(ahead_index_open(&x, (struct ahead_source){ .ops = NULL }, 31, NULL),
                  AHEAD_INVALID);
    expect_true(!x);
}

Test(index, unwinds_from_every_failing_step)
{
    enum { LEN = 8 * 4000 };
    uint8_t *p = calloc(1, LEN);
    bool failed = true;
    int before = live;

    for (int step = 1; failed; step++) {
        struct script sc = { .data = p, .step = STEPS(BYTES(LEN)) };
        struct ahead_index *x;
        struct ahead_error err;
        enum ahead_status st;

        expect_note("step %d", step);
        fail_step(step);
        st = ahead_index_open(&x, script_source(&sc), 0, &err);
        failed = fail_step(0);
        expect_status(st, failed ? AHEAD_NOMEM : AHEAD_OK);
        if (failed)
            expect_int(errno, ENOMEM);
        ahead_index_close(x);
        expect_str(script_closing_verdict(&sc), "ok");
        expect_int(live, before);
    }
    free(p);
}

/* A partition is an input of its own: empty ones are a clean end, one that the
 * file is too short for is TRUNCATED behind its good bytes, others read as ever. */
Test(index, a_partition_opens_as_a_range)
{
    static const char data[] = "aaaaaaaaaabbbbbbbbbbbbbbbbbbbbc";
    uint8_t p[BYTES_LEN];

    store_offsets(p);
    for (size_t cut = 0; cut <= 31; cut++) {
        FILE *file = tmpfile();
        struct ahead_index *x;

        expect_true(file);
        expect_size(fwrite(data, 1, cut, file), cut);
        fflush(file);
        expect_status(open_bytes(&x, p, sizeof p, cut, NULL), AHEAD_OK);
        for (size_t i = 0; i < 5; i++) {
            uint64_t offset, length, here;
            struct ahead_source src;
            struct ahead_stream *s;
            char got[32];
            size_t n;

            expect_status(ahead_index_range(x, i, &offset, &length), AHEAD_OK);
            expect_status(ahead_source_range(&src, fileno(file), offset, length, 0), AHEAD_OK);
            expect_status(ahead_open(&s, src, NULL), AHEAD_OK);
            here = offset >= cut ? 0 : cut - offset < length ? cut - offset : length;
            expect_status(ahead_read_full(s, got, (size_t)length + 1, &n),
                          length ? AHEAD_TRUNCATED : AHEAD_EOF);
            expect_size(n, here);
            expect_mem(got, data + offset, (size_t)here);
            expect_status(ahead_close(s), here < length ? AHEAD_TRUNCATED : AHEAD_OK);
        }
        ahead_index_close(x);
        fclose(file);
    }
}
