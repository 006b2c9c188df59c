/* SPDX-License-Identifier: Apache-2.0 */
/* test_lz4_block.c - LZ4Block streams, sound and damaged, in every way of reading. */
#include <ahead/lz4.h>

#include "support/decode_lz4.h"

#define MARK(level) "4c5a34426c6f636b" level "000000000000000000000000"
#define HELLO "4c5a34426c6f636b 16 0d000000 0d000000 c568f10b 48656c6c6f2c20576f726c6421"

static const struct {
    const char *hex, *plain;
    size_t len;
} golden[] = {
    { MARK("16"), "", 0 },
    { MARK("25"), "", 0 },
    { HELLO MARK("16"), "Hello, World!", 13 },
    { "4c5a34426c6f636b 16 01000000 01000000 1056680d 41" MARK("16"), "A", 1 },
    { "4c5a34426c6f636b 16 02000000 02000000 90785706 4142"
      "4c5a34426c6f636b 16 02000000 02000000 cac2b309 4344" MARK("16"),
      "ABCD", 4 },
    { "4c5a34426c6f636b 20 05000000 04000000 83d1e20a 4000010203" MARK("10"), "\0\1\2\3", 4 },
    { MARK("16") HELLO MARK("16")
          MARK("15") "4c5a34426c6f636b 16 01000000 01000000 1056680d 41" MARK("16"),
      "Hello, World!A", 14 },
};

/* These bytes, in each way, and by the reference as well. */
static void expect_sound(const struct bytes *in, const void *plain, size_t len)
{
    struct reference want = reference_lz4_block(in->data, in->len, NULL);

    expect_status(want.status, AHEAD_EOF);
    expect_size(want.len, len);
    if (len)
        expect_mem(want.bytes, plain, len);
    expect_all_ways(ahead_source_lz4_block, in->data, in->len, NULL);
    free(want.bytes);
}

Test(lz4_block, golden_vectors)
{
    for (size_t i = 0; i < sizeof golden / sizeof golden[0]; i++) {
        struct bytes in = { .data = NULL };

        put_hex(&in, golden[i].hex);
        expect_sound(&in, golden[i].plain, golden[i].len);
        free(in.data);
    }
}

Test(lz4_block, golden_vectors_of_a_hundred)
{
    static const char *const hex[] = {
        "4c5a34426c6f636b 25 0b000000 64000000 f1dea60c 1f4101004b504141414141" MARK("15"),
        "4c5a34426c6f636b 20 0b000000 40000000 75fc3202 1f41010027504141414141"
        "4c5a34426c6f636b 20 0b000000 24000000 74e4910a 1f4101000b504141414141" MARK("10")
    };
    char as[100];

    memset(as, 'A', sizeof as);
    for (size_t i = 0; i < 2; i++) {
        struct bytes in = { .data = NULL };

        put_hex(&in, hex[i]);
        expect_sound(&in, as, sizeof as);
        free(in.data);
    }
}

/* Three blocks of 64, 64 and 72 bytes: F170's 305 bytes when raw. */
static struct bytes three_blocks(uint8_t plain[200], bool lz4)
{
    static const size_t at[] = { 0, 64, 128, 192, 200 };
    struct bytes in = { .data = NULL };

    for (size_t i = 0; i < 200; i++)
        plain[i] =
            lz4 ? (uint8_t)(i / 20 + 1) : (uint8_t)i; /* no zeros: liblz4 gives them for offset 0 */
    for (size_t i = 0; i < 4; i++) {
        if (lz4)
            put_lz4_block(&in, 0, plain + at[i], at[i + 1] - at[i]);
        else
            put_raw_block(&in, 0, plain + at[i], at[i + 1] - at[i]);
    }
    put_end_mark(&in, 0);
    return in;
}

/* F169, F170: the reference is one judge, the sizes of the blocks another. */
Test(lz4_block, every_prefix_gives_its_blocks, .timeout = 120 * TIME_SCALE)
{
    uint8_t plain[200];
    struct bytes in = three_blocks(plain, false);

    expect_size(in.len, 305);
    for (size_t len = 1; len < in.len; len++) {
        struct reference want = reference_lz4_block(in.data, len, NULL);
        size_t blocks = len < 255 ? len / 85 : 3 + (len >= 284);

        expect_status(want.status, AHEAD_TRUNCATED);
        expect_size(want.len, blocks < 4 ? 64 * blocks : 200);
        free(want.bytes);
    }
    expect_every_prefix(ahead_source_lz4_block, &in, (struct ahead_lz4_options){ .compat = false });
    free(in.data);
    in = three_blocks(plain, true);
    expect_every_prefix(ahead_source_lz4_block, &in, (struct ahead_lz4_options){ .compat = false });
    free(in.data);
}

/* F171, F172, F175 */
Test(lz4_block, every_flipped_bit_is_judged, .timeout = 120 * TIME_SCALE)
{
    uint8_t plain[200];

    for (int lz4 = 0; lz4 < 2; lz4++) {
        struct bytes in = three_blocks(plain, lz4);

        expect_every_flip(ahead_source_lz4_block, &in, NULL);
        free(in.data);
    }
}

/* F171, F172, F175: a flip in a raw stream, but for the level, is CORRUPT at
 * its block, or at the end mark, and all that was before it is delivered. */
Test(lz4_block, every_flipped_bit_of_a_raw_stream_is_corrupt_at_its_block)
{
    uint8_t plain[200];
    struct bytes in = three_blocks(plain, false);

    for (size_t bit = 0; bit < 8 * in.len; bit++) {
        size_t block = bit / 8 < 255 ? bit / 8 / 85 : 3 + (bit / 8 >= 284);
        size_t at = block < 4 ? 85 * block : 284;
        size_t in_header = bit / 8 - at;
        struct feed f = { .data = in.data, .len = in.len };
        struct decoded d;

        in.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        expect_note("bit %zu of byte %zu", bit % 8, bit / 8);
        d = decode_all(open_over(ahead_source_lz4_block, &f, NULL),
                       (struct decode){ .way = DECODE_READ, .window = 1000 });
        if (in_header == 8 && bit % 8 < 4)
            expect_decoded(&d, AHEAD_EOF, plain, 200, UINT64_MAX);
        else
            expect_decoded(&d, AHEAD_CORRUPT, plain, block < 4 ? 64 * block : 200, at);
        in.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    free(in.data);
}

/* F174 */
Test(lz4_block, mutations_through_one_decoder, .timeout = 240 * TIME_SCALE)
{
    uint8_t plain[200];
    struct bytes in = three_blocks(plain, true);

    expect_mutations(ahead_source_lz4_block, &in, NULL, rounds_of(600000));
    /* Without checksums nothing but the decoder stands between the damage and
     * the reader. */
    expect_mutations(ahead_source_lz4_block, &in,
                     &(struct ahead_lz4_options){ .no_checksums = true }, rounds_of(400000));
    free(in.data);
}

/* Each rule of a header by itself, at the second block. */
Test(lz4_block, headers_that_break_a_rule)
{
    static const struct {
        const char *hex;
        enum ahead_status status;
        const char *text;
    } bad[] = {
        { "4c5a34426c6f636c 10 01000000 01000000 1056680d 41", AHEAD_CORRUPT, "magic" },
        { "4c5a34426c6f636b 30 01000000 01000000 1056680d 41", AHEAD_CORRUPT, "method" },
        { "4c5a34426c6f636b 00 01000000 01000000 1056680d 41", AHEAD_CORRUPT, "method" },
        { "4c5a34426c6f636b 20 ffffffff 01000000 1056680d 41", AHEAD_CORRUPT, "lengths" },
        { "4c5a34426c6f636b 20 01000000 ffffffff 1056680d 41", AHEAD_CORRUPT, "lengths" },
        { "4c5a34426c6f636b 10 01040000 01040000 1056680d 41", AHEAD_CORRUPT,
          "expected 0 to 1024" },
        { "4c5a34426c6f636b 20 00000000 01000000 1056680d 41", AHEAD_CORRUPT, "lengths" },
        { "4c5a34426c6f636b 20 01000000 00000000 1056680d 41", AHEAD_CORRUPT, "lengths" },
        { "4c5a34426c6f636b 10 02000000 01000000 1056680d 4141", AHEAD_CORRUPT, "raw bytes" },
        { "4c5a34426c6f636b 20 12000000 01000000 1056680d 41", AHEAD_CORRUPT, "17 at most" },
        { "4c5a34426c6f636b 20 ffffff7f 01000000 1056680d 41", AHEAD_CORRUPT, "17 at most" },
        { "4c5a34426c6f636b 10 00000000 00000000 01000000 41", AHEAD_CORRUPT, "end mark" },
        { "4c5a34426c6f636b 10 01000000 01000000 1056681d 41", AHEAD_CORRUPT,
          "expected 0x1d685610, its 1 bytes give 0x0d685610" },
        { "4c5a34426c6f636b 20 02000000 02000000 1056680d 1041", AHEAD_CORRUPT, "decodes to 1" },
        { "4c5a34426c6f636b 20 02000000 01000000 1056680d 2041", AHEAD_CORRUPT, "no LZ4 data" },
        { "4c5a34426c6f636b 11 01040000 01040000 00000000 41", AHEAD_LIMIT, "limit of 1024" },
        { "4c5a34426c6f636b 20 11000000 01000000 1056680d 41", AHEAD_TRUNCATED, "1 of 17" },
    };
    const struct ahead_lz4_options opt = { .max_block_bytes = 1024 };

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct bytes in = { .data = NULL };
        struct feed f = { .len = 0 };
        struct decoded d;

        put_raw_block(&in, 0, "good", 4);
        put_hex(&in, bad[i].hex);
        expect_note("%s", bad[i].hex);
        f.data = in.data;
        f.len = in.len;
        d = decode_all(open_over(ahead_source_lz4_block, &f, &opt),
                       (struct decode){ .way = DECODE_READ, .window = 100 });
        expect_true(strstr(d.err.text, bad[i].text));
        expect_true(strstr(d.err.text, "input byte 25"));
        expect_decoded(&d, bad[i].status, "good", 4, 25);
        expect_all_ways(ahead_source_lz4_block, in.data, in.len, &opt);
        free(in.data);
    }
}

Test(lz4_block, round_trips_of_random_block_sizes, .timeout = 240 * TIME_SCALE)
{
    uint64_t seed = 13;

    for (unsigned round = 0; round < rounds_of(300); round++) {
        struct bytes in = { .data = NULL }, plain = { .data = NULL };
        struct decode how = decode_ways[random_below(&seed, decode_ways_len)];
        struct feed f = { .piece = random_below(&seed, 2) ? 0 : 100000, .random = true };
        unsigned blocks = (unsigned)random_below(&seed, 40);
        struct decoded d;

        while (blocks--) {
            size_t n = 1 + (size_t)random_below(&seed, 1u << random_below(&seed, 18));
            uint8_t *p = grow(&plain, n);

            if (random_below(&seed, 3)) {
                fill_words(p, n, seed);
                put_lz4_block(&in, 8, p, n);
            } else {
                pattern_fill(p, seed, n);
                put_raw_block(&in, 8, p, n);
            }
            if (!random_below(&seed, 10))
                put_end_mark(&in, 8);
        }
        put_end_mark(&in, 8);
        if (how.window && how.window < 4096)
            how.window += 4096;
        how.seed = round;
        f.data = in.data;
        f.len = in.len;
        expect_note("round %u", round);
        d = decode_all(open_over(ahead_source_lz4_block, &f, NULL), how);
        expect_decoded(&d, AHEAD_EOF, plain.data, plain.len, UINT64_MAX);
        free(in.data);
        free(plain.data);
    }
}

/* F225: 1 MiB of blocks of 64 bytes. */
Test(lz4_block, the_input_is_read_in_large_requests)
{
    struct bytes in = { .data = NULL };
    uint8_t plain[64];

    pattern_fill(plain, 0, sizeof plain);
    while (in.len < 1 << 20)
        put_raw_block(&in, 0, plain, sizeof plain);
    put_end_mark(&in, 0);
    for (int way = 0; way < DECODE_WAYS; way++) {
        struct feed f = { .data = in.data, .len = in.len };
        struct decoded d = decode_all(open_over(ahead_source_lz4_block, &f, NULL),
                                      (struct decode){ .way = way, .window = 1 << 18 });

        expect_status(d.err.status, AHEAD_EOF);
        expect_true(f.reads <= 20);
        expect_true(f.least_asked >= 65536);
        free(d.bytes);
    }
    free(in.data);
}
