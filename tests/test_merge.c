/* SPDX-License-Identifier: Apache-2.0 */
/* test_merge.c - sorted spills become one, and what is wrong with one of them is told of that one. */
#include <ahead/ahead.h>

#include "support/bytes.h"
#include "support/clock.h"
#include "support/expect.h"
#include "support/failing.h"
#include "support/script.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 300 }; /* inputs */

/* ---- spills in memory ---- */

/* A record, and where it is from.  The bytes say that as well. */
struct item {
    int64_t prefix;
    uint32_t rank; /* what the comparison looks at: the first byte */
    uint32_t input, number;
};

enum { ITEM_BYTES = 9 };

static void put_item(struct bytes *b, const struct item *it)
{
    bytes_add_number(b, ITEM_BYTES, 4, true);
    bytes_add_number(b, (uint64_t)it->prefix, 8, true);
    bytes_add_number(b, it->rank, 1, true);
    bytes_add_number(b, it->input, 4, true);
    bytes_add_number(b, it->number, 4, true);
}

/* All inputs of a merge, and what must come of them. */
struct inputs {
    unsigned n;
    struct bytes spill[MOST];
    struct item *all;
    size_t len;
};

static bool ranked; /* whether the first byte decides among equal prefixes */

static int by_order(const void *a, const void *b)
{
    const struct item *x = a, *y = b;

    if (x->prefix != y->prefix)
        return x->prefix < y->prefix ? -1 : 1;
    if (ranked && x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    if (x->input != y->input)
        return x->input < y->input ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

static int
by_rank(const struct ahead_spill_record *a, const struct ahead_spill_record *b, void *ctx)
{
    expect_true(ctx == &ranked);
    expect_true(a->key_prefix == b->key_prefix);
    return a->data[0] - b->data[0];
}

/* n inputs of up to `most` records with `keys` different prefixes, around zero.  The records of
 * each are sorted, the whole is what sorting all of them gives. */
static struct inputs make_inputs(unsigned n, unsigned most, unsigned keys, uint64_t seed)
{
    struct inputs in = { .n = n, .all = malloc((size_t)n * most * sizeof *in.all + 1) };

    for (unsigned i = 0; i < n; i++) {
        unsigned count = (unsigned)random_below(&seed, most + 1);
        struct item *mine = in.all + in.len;

        for (unsigned k = 0; k < count; k++)
            mine[k] = (struct item){ .prefix = (int64_t)random_below(&seed, keys) - keys / 2,
                                     .rank = (uint32_t)random_below(&seed, 4),
                                     .input = i };
        qsort(mine, count, sizeof *mine, by_order);
        bytes_add_number(&in.spill[i], count, 4, true);
        for (unsigned k = 0; k < count; k++) {
            mine[k].number = k;
            put_item(&in.spill[i], &mine[k]);
        }
        in.len += count;
    }
    qsort(in.all, in.len, sizeof *in.all, by_order);
    return in;
}

static void free_inputs(struct inputs *in)
{
    for (unsigned i = 0; i < in->n; i++)
        free(in->spill[i].p);
    free(in->all);
}

/* ---- merging them ---- */

static struct ahead_spill_reader *reader_over(struct ahead_stream *s)
{
    struct ahead_spill_reader *r = NULL;

    expect_status(ahead_spill_reader_open(&r, s, NULL), AHEAD_OK);
    return r;
}

static struct ahead_spill_merge *merge_of(struct ahead_spill_reader *const *readers, size_t n)
{
    struct ahead_spill_merge *m = NULL;

    expect_status(
        ahead_spill_merge_open(&m, readers, n, ranked ? by_rank : NULL, ranked ? &ranked : NULL),
        AHEAD_OK);
    return m;
}

static struct ahead_spill_merge *merge_inputs(const struct inputs *in, size_t buffer_bytes)
{
    struct ahead_spill_reader *readers[MOST];

    for (unsigned i = 0; i < in->n; i++)
        readers[i] = reader_over(over_memory(in->spill[i].p, in->spill[i].len, buffer_bytes));
    return merge_of(readers, in->n);
}

static void expect_item(struct ahead_spill_merge *m, const struct item *want)
{
    struct ahead_spill_record rec;
    struct bytes b = { 0 };
    size_t from;

    expect_status(ahead_spill_merge_next(m, &rec, &from), AHEAD_OK);
    put_item(&b, want);
    expect_size(from, want->input);
    expect_true(rec.key_prefix == want->prefix);
    expect_size(rec.len, ITEM_BYTES);
    expect_mem(rec.data, b.p + 12, ITEM_BYTES);
    free(b.p);
}

/* It ends so, again and again, and tells of this input. */
static void expect_end(struct ahead_spill_merge *m, enum ahead_status want, size_t input)
{
    struct ahead_spill_record rec = { .len = 77 };
    size_t from;

    for (int i = 0; i < 3; i++) {
        from = 12345;
        expect_status(ahead_spill_merge_next(m, &rec, &from), want);
        expect_int(rec.len, 77);
        expect_status(ahead_spill_merge_error(m)->status, want);
        if (want != AHEAD_EOF) {
            char text[32];

            snprintf(text, sizeof text, "input %zu: ", input);
            expect_size(from, input);
            expect_true(strncmp(ahead_spill_merge_error(m)->text, text, strlen(text)) == 0);
        } else {
            expect_size(from, 12345);
        }
    }
}

static void expect_merged(const struct inputs *in, size_t buffer_bytes)
{
    struct ahead_spill_merge *m = merge_inputs(in, buffer_bytes);

    for (size_t i = 0; i < in->len; i++)
        expect_item(m, &in->all[i]);
    expect_end(m, AHEAD_EOF, 0);
    expect_status(ahead_spill_merge_close(m), AHEAD_OK);
}

/* ---- order ---- */

Test(merge, is_what_sorting_all_records_gives, .timeout = 100 * TIME_SCALE)
{
    static const unsigned keys[] = { 1, 3, 1000 };

    for (unsigned n = 0; n <= MOST; n += n < 20 ? 1 : n / 3)
        for (size_t k = 0; k < 3; k++)
            for (ranked = false;; ranked = true) {
                struct inputs in = make_inputs(n, 12, keys[k], n * 7 + k);

                expect_note("%u inputs, %u keys, ranked %d", n, keys[k], ranked);
                expect_merged(&in, n % 3 ? 64 : 7);
                free_inputs(&in);
                if (ranked)
                    break;
            }
}

Test(merge, of_three_hundred_inputs_on_a_pool)
{
    struct inputs in = make_inputs(MOST, 100, 5000, 300);
    struct ahead_spill_reader *readers[MOST];
    static struct script sc[MOST];
    static struct step steps[MOST][2];
    struct ahead_spill_merge *m;
    struct ahead_options opt = { .buffer_bytes = 200 };

    expect_status(
        ahead_pool_open(&opt.pool,
                        &(struct ahead_pool_options){ .threads = 2, .byte_budget = 4 << 20 }),
        AHEAD_OK);
    for (unsigned i = 0; i < MOST; i++) {
        steps[i][0] = (struct step)RANDOM(in.spill[i].len, 90);
        steps[i][1] = (struct step)END;
        sc[i] =
            (struct script){ .step = steps[i], .data = in.spill[i].p, .seed = i, .split = i % 2 };
        readers[i] = reader_over(script_open(&sc[i], &opt));
    }
    m = merge_of(readers, MOST);
    for (size_t i = 0; i < in.len; i++)
        expect_item(m, &in.all[i]);
    expect_end(m, AHEAD_EOF, 0);
    expect_status(ahead_spill_merge_close(m), AHEAD_OK);
    for (unsigned i = 0; i < MOST; i++)
        expect_str(script_closing_verdict(&sc[i]), "ok");
    expect_status(ahead_pool_close(opt.pool), AHEAD_OK);
    free_inputs(&in);
}

Test(merge, prefixes_have_a_sign)
{
    static const int64_t prefixes[] = { INT64_MIN, -1, 0, 1, INT64_MAX };
    struct inputs in = { .n = 5, .all = malloc(5 * sizeof *in.all), .len = 5 };

    for (uint32_t i = 0; i < 5; i++) { /* the last input has the first record */
        in.all[i] = (struct item){ .prefix = prefixes[i], .input = 4 - i };
        bytes_add_number(&in.spill[4 - i], 1, 4, true);
        put_item(&in.spill[4 - i], &in.all[i]);
    }
    expect_merged(&in, 64);
    free_inputs(&in);
}

/* Also when the comparison needs a copy of what was handed out. */
Test(merge, records_are_handed_out_where_they_lie)
{
    struct inputs in;
    struct ahead_spill_reader *readers[4];
    struct ahead_stream *s[4];
    struct ahead_spill_record rec;
    struct ahead_spill_merge *m;
    size_t from;

    ranked = true;
    in = make_inputs(4, 10, 100, 4);
    for (unsigned i = 0; i < 4; i++) {
        s[i] = over_memory(in.spill[i].p, in.spill[i].len, 1000);
        readers[i] = reader_over(s[i]);
    }
    m = merge_of(readers, 4);
    for (size_t i = 0; i < in.len; i++) {
        expect_status(ahead_spill_merge_next(m, &rec, &from), AHEAD_OK);
        expect_true(rec.data + rec.len == s[from]->next);
    }
    expect_status(ahead_spill_merge_close(m), AHEAD_OK);
    free_inputs(&in);
}

/* ---- inputs that fail ---- */

/* Gives the first `good` records of input `bad` and all that come before the last of them: how
 * many. */
static size_t
expect_up_to(struct ahead_spill_merge *m, const struct inputs *in, unsigned bad, uint32_t good)
{
    size_t i = 0;

    while (good > 0) {
        expect_item(m, &in->all[i]);
        good -= in->all[i++].input == bad;
    }
    return i;
}

static uint32_t count_of(const struct bytes *spill)
{
    return (uint32_t)((spill->len - 4) / (12 + ITEM_BYTES));
}

/* Every prefix of every input. */
Test(merge, a_cut_input_ends_it_at_its_place, .timeout = 100 * TIME_SCALE)
{
    struct inputs in = make_inputs(5, 4, 6, 17);

    for (unsigned bad = 0; bad < in.n; bad++) {
        struct bytes whole = in.spill[bad];

        for (size_t cut = 0; cut < whole.len; cut++) {
            struct ahead_spill_merge *m;
            uint32_t good = 0;

            in.spill[bad].len = cut;
            if (cut >= 4)
                good = count_of(&in.spill[bad]);
            expect_note("input %u cut at %zu, %u records", bad, cut, good);
            m = merge_inputs(&in, 16);
            expect_up_to(m, &in, bad, good);
            expect_end(m, AHEAD_TRUNCATED, bad);
            expect_u64(ahead_spill_merge_error(m)->offset,
                       cut < 4 ? 0 : 4 + good * (uint64_t)(12 + ITEM_BYTES));
            expect_status(ahead_spill_merge_close(m), AHEAD_TRUNCATED);
        }
        in.spill[bad] = whole;
    }
    free_inputs(&in);
}

/* The layer below fails between any two bytes: its status, its errno, its place. */
Test(merge, a_source_that_fails_ends_it_at_its_place, .timeout = 100 * TIME_SCALE)
{
    struct inputs in = make_inputs(3, 5, 6, 18);

    for (unsigned bad = 0; bad < in.n; bad++)
        for (size_t at = 0; at <= in.spill[bad].len; at++)
            for (unsigned flags = 0; flags <= AHEAD_SYNC; flags++) {
                struct step io[] = { PIECES(at, 5), ERRNO(EIO), END };
                struct step corrupt[] = { PIECES(at, 5), STATUS(AHEAD_CORRUPT, 777, "a bit fell"),
                                          END };
                struct script sc = { .step = at % 2 ? io : corrupt, .data = in.spill[bad].p };
                struct ahead_options opt = { .buffer_bytes = 40, .flags = flags };
                struct ahead_spill_reader *readers[3];
                struct ahead_spill_merge *m;
                const struct ahead_error *err;
                uint32_t good = at < 4 ? 0 : (uint32_t)((at - 4) / (12 + ITEM_BYTES));

                if (at == 0)
                    sc.step++;
                expect_note("input %u fails at %zu, flags %u", bad, at, flags);
                for (unsigned i = 0; i < 3; i++)
                    readers[i] =
                        reader_over(i == bad ? script_open(&sc, &opt)
                                             : over_memory(in.spill[i].p, in.spill[i].len, 40));
                m = merge_of(readers, 3);
                expect_up_to(m, &in, bad, good);
                expect_end(m, at % 2 ? AHEAD_IO : AHEAD_CORRUPT, bad);
                err = ahead_spill_merge_error(m);
                expect_int(err->os_errno, at % 2 ? EIO : 0);
                expect_u64(err->source_offset, at % 2 ? UINT64_MAX : 777);
                expect_status(ahead_spill_merge_close(m), at % 2 ? AHEAD_IO : AHEAD_CORRUPT);
                expect_str(script_closing_verdict(&sc), "ok");
            }
    free_inputs(&in);
}

/* Strict: what follows the last record is a fault of that input, though all its records came. */
Test(merge, bytes_behind_the_last_record_are_a_fault)
{
    struct inputs in = make_inputs(4, 6, 20, 19);

    for (unsigned bad = 0; bad < in.n; bad++) {
        struct ahead_spill_merge *m;
        uint32_t count = count_of(&in.spill[bad]);

        bytes_add_zeros(&in.spill[bad], 1);
        m = merge_inputs(&in, 16);
        expect_up_to(m, &in, bad, count);
        expect_end(m, AHEAD_CORRUPT, bad);
        expect_status(ahead_spill_merge_close(m), AHEAD_CORRUPT);
        in.spill[bad].len--;
    }
    free_inputs(&in);
}

/* Two neighbours of every input change places. */
static void expect_unsorted(bool by_comparison)
{
    struct inputs in = make_inputs(3, 8, 1000, 20);
    const size_t size = 12 + ITEM_BYTES;

    for (unsigned bad = 0; bad < in.n; bad++)
        for (uint32_t k = 0; k + 1 < count_of(&in.spill[bad]); k++) {
            uint8_t *at = in.spill[bad].p + 4 + k * size, saved[2 * (12 + ITEM_BYTES)];
            struct ahead_spill_merge *m;
            struct ahead_spill_record rec;
            enum ahead_status st;
            uint32_t given = 0;
            size_t from;

            memcpy(saved, at, sizeof saved);
            if (by_comparison) { /* the same prefix, the greater rank first */
                memcpy(at + size + 4, at + 4, 8);
                at[12] = 9;
                at[size + 12] = 8;
            } else {
                memcpy(at, saved + size, size);
                memcpy(at + size, saved, size);
            }
            expect_note("input %u, record %u", bad, k);
            m = merge_inputs(&in, 30);
            while (!(st = ahead_spill_merge_next(m, &rec, &from)))
                given += from == bad;
            expect_status(st, AHEAD_CORRUPT);
            expect_int(given, k + 1);
            expect_end(m, AHEAD_CORRUPT, bad);
            expect_true(strstr(ahead_spill_merge_error(m)->text, "not sorted") != NULL);
            expect_u64(ahead_spill_merge_error(m)->offset, 4 + (k + 1) * size);
            expect_status(ahead_spill_merge_close(m), AHEAD_CORRUPT);
            memcpy(at, saved, sizeof saved);
        }
    free_inputs(&in);
}

Test(merge, an_input_that_is_not_sorted_is_told)
{
    expect_unsorted(false);
    ranked = true;
    expect_unsorted(false);
    expect_unsorted(true);
}

/* Time runs out at any place, and nothing is lost. */
Test(merge, a_time_limit_loses_nothing, .timeout = 100 * TIME_SCALE)
{
    struct inputs in = make_inputs(3, 3, 5, 21);
    struct ahead_options opt = { .buffer_bytes = 40, .read_timeout_ms = 1 };

    for (size_t at = 0; at < in.spill[1].len; at += 3) {
        struct step steps[] = { BYTES(at), STALL, BYTES(in.spill[1].len - at), END };
        struct script sc = { .step = steps, .data = in.spill[1].p };
        struct ahead_spill_reader *readers[3];
        struct ahead_spill_record rec;
        struct ahead_spill_merge *m;
        size_t done = 0, from = 0;
        unsigned timeouts = 0;
        enum ahead_status st;

        for (unsigned i = 0; i < 3; i++)
            readers[i] = reader_over(i == 1 ? script_open(&sc, &opt)
                                            : over_memory(in.spill[i].p, in.spill[i].len, 40));
        m = merge_of(readers, 3);
        while ((st = ahead_spill_merge_next(m, &rec, &from)) != AHEAD_EOF) {
            if (st == AHEAD_TIMEDOUT) {
                expect_size(from, 1);
                if (sc.stalls > 0 && timeouts++ == 2)
                    script_release(&sc);
                continue;
            }
            expect_status(st, AHEAD_OK);
            expect_size(from, in.all[done].input);
            expect_true(rec.key_prefix == in.all[done].prefix);
            done++;
        }
        expect_size(done, in.len);
        expect_true(timeouts > 2);
        expect_status(ahead_spill_merge_close(m), AHEAD_OK);
        expect_str(script_closing_verdict(&sc), "ok");
    }
    free_inputs(&in);
}

Test(merge, a_cancelled_input_ends_it)
{
    struct inputs in = make_inputs(2, 50, 100, 22);
    struct ahead_stream *s = over_memory(in.spill[1].p, in.spill[1].len, 40);
    struct ahead_spill_reader *readers[] = {
        reader_over(over_memory(in.spill[0].p, in.spill[0].len, 40)), reader_over(s)
    };
    struct ahead_spill_merge *m = merge_of(readers, 2);
    struct ahead_spill_record rec;
    enum ahead_status st;

    expect_item(m, &in.all[0]);
    ahead_cancel(s);
    while (!(st = ahead_spill_merge_next(m, &rec, NULL)))
        ;
    expect_end(m, AHEAD_CANCELLED, 1);
    expect_status(ahead_spill_merge_close(m), AHEAD_OK);
    free_inputs(&in);
}

/* ---- the calls ---- */

/* The readers are closed, whatever comes of it. */
Test(merge, wrong_calls_are_refused)
{
    struct script sc[4] = { { .has = 0 }, { .has = 0 }, { .has = 0 }, { .has = 0 } };
    struct ahead_spill_reader *readers[4];
    struct ahead_spill_record rec;
    struct ahead_spill_merge *m = (struct ahead_spill_merge *)sc;

    for (unsigned i = 0; i < 4; i++)
        readers[i] = reader_over(script_open(&sc[i], NULL));
    errno = 0;
    expect_status(ahead_spill_merge_open(NULL, readers, 2, NULL, NULL), AHEAD_INVALID);
    expect_int(errno, EINVAL);
    readers[1] = NULL;
    readers[0] = readers[2];
    readers[2] = readers[3];
    expect_status(ahead_spill_merge_open(&m, readers, 3, NULL, NULL), AHEAD_INVALID);
    expect_true(!m);
    for (unsigned i = 0; i < 4; i++)
        expect_str(script_closing_verdict(&sc[i]), "ok");
    expect_status(ahead_spill_merge_open(&m, NULL, 1, NULL, NULL), AHEAD_INVALID);
    expect_status(ahead_spill_merge_next(NULL, &rec, NULL), AHEAD_INVALID);
    expect_status(ahead_spill_merge_error(NULL)->status, AHEAD_INVALID);
    expect_status(ahead_spill_merge_close(NULL), AHEAD_OK);
    expect_status(ahead_spill_merge_open(&m, NULL, 0, NULL, NULL), AHEAD_OK);
    expect_status(ahead_spill_merge_next(m, NULL, NULL), AHEAD_INVALID);
    expect_status(ahead_spill_merge_next(m, &rec, NULL), AHEAD_EOF);
    expect_status(ahead_spill_merge_close(m), AHEAD_OK);
}

Test(merge, close_in_the_middle_closes_all)
{
    struct inputs in = make_inputs(3, 40, 50, 23);
    struct script sc[3];
    struct step steps[3][2];
    struct ahead_spill_reader *readers[3];
    struct ahead_spill_merge *m;

    for (unsigned i = 0; i < 3; i++) {
        steps[i][0] = (struct step)PIECES(in.spill[i].len, 17);
        steps[i][1] = (struct step)END;
        sc[i] = (struct script){ .step = steps[i],
                                 .data = in.spill[i].p,
                                 .close_status = i ? AHEAD_IO : AHEAD_OK,
                                 .close_errno = i ? EIO : 0 };
        readers[i] =
            reader_over(script_open(&sc[i], &(struct ahead_options){ .buffer_bytes = 64 }));
    }
    m = merge_of(readers, 3);
    for (unsigned i = 0; i < 10; i++)
        expect_item(m, &in.all[i]);
    expect_status(ahead_spill_merge_close(m), AHEAD_IO);
    for (unsigned i = 0; i < 3; i++)
        expect_str(script_closing_verdict(&sc[i]), "ok");
    free_inputs(&in);
}

Test(merge, unwinds_from_every_failing_step)
{
    struct inputs in;
    bool failed = true;

    ranked = true;
    in = make_inputs(3, 3, 5, 24);
    for (int step = 1; failed; step++) {
        int before = live;
        struct ahead_spill_reader *readers[3];
        struct ahead_spill_merge *m = NULL;
        struct ahead_spill_record rec;
        enum ahead_status st;

        for (unsigned i = 0; i < 3; i++)
            readers[i] = reader_over(over_memory(in.spill[i].p, in.spill[i].len, 40));
        fail_step(step);
        st = ahead_spill_merge_open(&m, readers, 3, by_rank, &ranked);
        while (!st)
            st = ahead_spill_merge_next(m, &rec, NULL);
        failed = fail_step(0);
        expect_note("step %d", step);
        expect_status(st, failed ? AHEAD_NOMEM : AHEAD_EOF);
        expect_status(ahead_spill_merge_close(m), failed && m ? AHEAD_NOMEM : AHEAD_OK);
        expect_int(live, before);
    }
    free_inputs(&in);
}
