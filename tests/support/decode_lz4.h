/* SPDX-License-Identifier: Apache-2.0 */
/* decode_lz4.h - the LZ4 decoders beside the reference, in every way of reading. */
#ifndef TESTS_SUPPORT_DECODE_LZ4_H
#define TESTS_SUPPORT_DECODE_LZ4_H

#include "support/decode.h"
#include "support/expect.h"
#include "support/lz4_build.h"
#include "support/lz4_reference.h"

typedef enum ahead_status (*decoder_open)(struct ahead_source *out, struct ahead_source inner,
                                          const struct ahead_lz4_options *opt);

static inline struct reference
refer(decoder_open open, const uint8_t *data, size_t len, const struct ahead_lz4_options *opt)
{
    return open == ahead_source_lz4_block ? reference_lz4_block(data, len, opt)
                                          : reference_lz4_frame(data, len, opt);
}

static inline struct ahead_source
open_over(decoder_open open, struct feed *f, const struct ahead_lz4_options *opt)
{
    struct ahead_source src;

    expect_status(open(&src, feed_source(f), opt), AHEAD_OK);
    return src;
}

/* Read in one way, and expect what the reference says. */
static inline void
expect_as_reference(decoder_open open, const struct reference *want, const uint8_t *data,
                    size_t len, const struct ahead_lz4_options *opt, struct decode how,
                    size_t piece)
{
    struct feed f = {
        .data = data, .len = len, .piece = piece, .random = true, .skips = piece % 2
    };
    struct decoded d = decode_all(open_over(open, &f, opt), how);

    expect_decoded(&d, want->status, want->bytes, want->len, want->offset);
    expect_int(f.closed, 1);
    expect_true(f.after_end <= 1);
}

/* In all ways, from whole reads and from reads of 1 to 5 bytes. */
static inline void expect_all_ways(decoder_open open, const uint8_t *data, size_t len,
                                   const struct ahead_lz4_options *opt)
{
    struct reference want = refer(open, data, len, opt);

    for (each_way(how)) {
        expect_note("way %d, %zu bytes", (int)(how - decode_ways), len);
        expect_as_reference(open, &want, data, len, opt, *how, 0);
        expect_as_reference(open, &want, data, len, opt, *how, 5);
    }
    expect_no_note();
    free(want.bytes);
}

/* Each shorter input, in both modes. */
static inline void
expect_every_prefix(decoder_open open, const struct bytes *in, struct ahead_lz4_options opt)
{
    for (size_t len = 0; len < in->len; len++) {
        opt.compat = false;
        expect_all_ways(open, in->data, len, &opt);
        opt.compat = true;
        expect_all_ways(open, in->data, len, &opt);
    }
}

/* Each input with one bit flipped. */
static inline void
expect_every_flip(decoder_open open, const struct bytes *in, const struct ahead_lz4_options *opt)
{
    for (size_t bit = 0; bit < 8 * in->len; bit++) {
        struct reference want;

        in->data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        want = refer(open, in->data, in->len, opt);
        for (int way = 0; way < DECODE_WAYS; way++) {
            struct decode how = { .way = way, .window = bit % 3 ? 0 : 1 << 18, .seed = bit };

            expect_note("way %d, bit %zu of byte %zu", way, bit % 8, bit / 8);
            expect_as_reference(open, &want, in->data, in->len, opt, how, 0);
        }
        free(want.bytes);
        in->data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    expect_no_note();
}

/* Some bytes of a copy become others; `spread`: changes at most. */
static inline void
mutate(uint8_t *to, const uint8_t *from, size_t len, unsigned spread, uint64_t *seed)
{
    unsigned n = 1 + (unsigned)random_below(seed, spread);

    memcpy(to, from, len);
    while (n--) {
        uint64_t r = pattern_random(seed);

        to[r % len] =
            r >> 32 & 1 ? (uint8_t)(r >> 40) : to[r % len] ^ (uint8_t)(1u << (r >> 40) % 8);
    }
}

/* Changed inputs through one decoder, which goes back to the start for each:
 * what it keeps from the one before must not be seen. */
static inline void expect_mutations(decoder_open open, const struct bytes *in,
                                    const struct ahead_lz4_options *opt, unsigned rounds)
{
    struct bytes changed = { .data = NULL };
    struct feed f = { .len = in->len, .seeks = true };
    struct ahead_error err;
    struct ahead_source src;
    uint64_t seed = 7;

    f.data = grow(&changed, in->len);
    src = open_over(open, &f, opt);
    for (unsigned i = 0; i < rounds; i++) {
        struct reference want;
        struct decoded d;

        mutate(changed.data, in->data, in->len, 3, &seed);
        want = refer(open, changed.data, changed.len, opt);
        expect_note("round %u", i);
        expect_status(src.ops->seek(src.ctx, 0, &err), AHEAD_OK);
        d = decode_to_end(src, (struct decode){ .way = i % 16 ? DECODE_READ : DECODE_STEPS,
                                                .window = i % 16 == 1 ? 1 << 17 : 1000,
                                                .seed = i });
        expect_decoded(&d, want.status, want.bytes, want.len, want.offset);
        free(want.bytes);
    }
    expect_no_note();
    src.ops->close(src.ctx, &err);
    free(changed.data);
}

/* How many rounds of a long test: fewer where they cost more. */
static inline unsigned rounds_of(unsigned n)
{
    return TIME_SCALE > 1 ? n / 10 : n;
}

#endif
