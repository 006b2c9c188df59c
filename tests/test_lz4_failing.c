/* SPDX-License-Identifier: Apache-2.0 */
/* test_lz4_failing.c - decoders that cannot get their memory. */
#include <ahead/lz4.h>

#include "support/decode_lz4.h"
#include "support/failing.h"

static struct bytes frames(void)
{
    struct bytes in = { .data = NULL };
    uint8_t plain[3000];

    fill_words(plain, sizeof plain, 4);
    for (unsigned flags = 0; flags <= FRAME_INDEPENDENT; flags += FRAME_INDEPENDENT) {
        struct frame f = frame_begin(&in, flags | FRAME_SUM, 4, 0, 0);

        frame_lz4(&f, plain, 2000);
        frame_lz4(&f, plain + 2000, 1000);
        frame_end(&f);
    }
    return in;
}

static struct bytes blocks(void)
{
    struct bytes in = { .data = NULL };
    uint8_t plain[1000];

    fill_words(plain, sizeof plain, 5);
    for (int i = 0; i < 3; i++)
        put_lz4_block(&in, 0, plain, sizeof plain);
    put_end_mark(&in, 0);
    return in;
}

/* Each allocation in turn: what was delivered is good, the ending stays, the
 * input is closed once, and nothing is left. */
static void fail_each_step(decoder_open open, const struct bytes *in, bool claims)
{
    struct reference want = refer(open, in->data, in->len, NULL);
    bool failed = true;

    for (int step = 1; failed; step++) {
        struct feed f = { .data = in->data, .len = in->len };
        struct ahead_job job = { .bound = 0 };
        struct ahead_error err = { .status = AHEAD_OK };
        struct ahead_source src;
        uint8_t got[8000];
        size_t n = 0;
        int before = live;
        enum ahead_status st;

        expect_note("step %d", step);
        fail_step(step);
        st = open(&src, feed_source(&f), NULL);
        if (!st && claims &&
            src.ops->split->claim(src.ctx, &job, 65536, 65536, &err) == AHEAD_CLAIM_ENDING)
            st = err.status;
        for (ssize_t now = 1; !st && !job.in && now > 0; n += now > 0 ? (size_t)now : 0) {
            now = src.ops->read(src.ctx, got + n, 700, &err);
            if (now < 0)
                st = err.status;
        }
        failed = fail_step(0);
        expect_status(st, failed ? AHEAD_NOMEM : AHEAD_OK);
        if (n)
            expect_mem(got, want.bytes, n);
        if (src.ops && failed) {
            expect_int(src.ops->read(src.ctx, got, 1, &err), -1);
            expect_status(err.status, AHEAD_NOMEM);
            expect_true(err.text[0]);
        }
        if (src.ops)
            src.ops->close(src.ctx, &err);
        free(job.in);
        expect_int(f.closed, 1);
        expect_int(live, before);
        expect_true(step < 100);
    }
    free(want.bytes);
}

Test(lz4_failing, each_allocation_of_a_frame_decoder)
{
    struct bytes in = frames();

    fail_each_step(ahead_source_lz4_frame, &in, false);
    free(in.data);
}

Test(lz4_failing, each_allocation_of_a_block_decoder)
{
    struct bytes in = blocks();

    fail_each_step(ahead_source_lz4_block, &in, false);
    fail_each_step(ahead_source_lz4_block, &in, true);
    free(in.data);
}

static enum ahead_status open_detect(struct ahead_source *out, struct ahead_source inner,
                                     const struct ahead_lz4_options *opt)
{
    return ahead_source_detect(out, inner, opt, NULL);
}

Test(lz4_failing, each_allocation_of_a_detection)
{
    struct bytes in = blocks();
    bool failed = true;

    for (int kind = 0; kind < 3; kind++, failed = true) {
        for (int step = 1; failed; step++) {
            struct feed f = { .data = kind ? (const uint8_t *)(kind == 1 ? "plain text" : "BZh9")
                                           : in.data,
                              .len = kind ? 4 : in.len };
            struct ahead_source src;
            struct ahead_error err;
            int before = live;
            enum ahead_status st;

            fail_step(step);
            st = open_detect(&src, feed_source(&f), NULL);
            failed = fail_step(0);
            expect_status(st, failed ? AHEAD_NOMEM : AHEAD_OK);
            if (!st)
                src.ops->close(src.ctx, &err);
            expect_int(f.closed, 1);
            expect_int(live, before);
            expect_true(step < 100);
        }
    }
    free(in.data);
}
