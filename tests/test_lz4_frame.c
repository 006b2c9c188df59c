/* SPDX-License-Identifier: Apache-2.0 */
/* test_lz4_frame.c - LZ4 frames, sound and damaged, in every way of reading. */
#include <ahead/lz4.h>

#include "support/decode_lz4.h"

#include <lz4frame.h>

static const struct ahead_lz4_options none;

static void
expect_golden(const char *hex, const void *plain, size_t len, const struct ahead_lz4_options *opt)
{
    struct bytes in = { .data = NULL };

    put_hex(&in, hex);
    for (each_way(how)) {
        struct feed f = { .data = in.data, .len = in.len };
        struct decoded d = decode_all(open_over(ahead_source_lz4_frame, &f, opt), *how);

        expect_note("%s", hex);
        expect_decoded(&d, AHEAD_EOF, plain, len, UINT64_MAX);
    }
    expect_all_ways(ahead_source_lz4_frame, in.data, in.len, opt);
    free(in.data);
}

#define MAGIC "04224d18"
#define HELLO "48656c6c6f2c20576f726c6421"

Test(lz4_frame, golden_vectors)
{
    char as[100];

    memset(as, 'A', sizeof as);
    expect_golden(MAGIC "64 40 a7 00000000 055dcc02", "", 0, NULL);
    expect_golden(MAGIC "64 50 08 00000000 055dcc02", "", 0, NULL);
    expect_golden(MAGIC "64 60 85 00000000 055dcc02", "", 0, NULL);
    expect_golden(MAGIC "64 70 b9 00000000 055dcc02", "", 0, NULL);
    expect_golden(MAGIC "64 40 a7 0d000080" HELLO "00000000 50de0740", "Hello, World!", 13, NULL);
    expect_golden(MAGIC "60 40 82 0d000080" HELLO "00000000", "Hello, World!", 13, NULL);
    expect_golden(MAGIC "74 40 bd 0d000080" HELLO "50de0740 00000000 50de0740", "Hello, World!", 13,
                  NULL);
    expect_golden(MAGIC "7c 40 0d00000000000000 39 0d000080" HELLO "50de0740 00000000 50de0740",
                  "Hello, World!", 13, NULL);
    expect_golden(MAGIC "5c 40 0d00000000000000 71 0d000080" HELLO "50de0740 00000000 50de0740",
                  "Hello, World!", 13, NULL);
    expect_golden(MAGIC "61 40 cdab3412 5a 0d000080" HELLO "00000000", "Hello, World!", 13,
                  &(struct ahead_lz4_options){ .dict = "x", .dict_len = 1, .dict_id = 0x1234abcd });
    expect_golden(MAGIC "64 40 a7 0b000000 1f4101004b504141414141 00000000 3795e7a2", as, 100,
                  NULL);
    expect_golden(MAGIC "68 40 6400000000000000 23 0b000000 1f4101004b504141414141 00000000", as,
                  100, NULL);
    expect_golden(MAGIC "68 40 0000000000000000 05 00000000", "", 0, NULL);
    expect_golden("502a4d18 04000000 deadbeef", "", 0, NULL);
    expect_golden("02214c18 0b000000 1f4101004b504141414141", as, 100, NULL);
    expect_golden("02214c18", "", 0, NULL);
}

/* Words that the blocks of a frame have in common. */
static const char words[] = "a block and another block and one more block, linked or on its own; ";

static struct bytes frame_with_all_checks(void)
{
    struct bytes in = { .data = NULL };
    uint8_t text[120];
    struct frame f;

    fill_words(text, sizeof text, 3);
    f = frame_begin(&in, FRAME_INDEPENDENT | FRAME_BLOCK_SUMS | FRAME_SUM | FRAME_SIZE, 4, 120, 0);
    frame_raw(&f, text, 20);
    frame_lz4(&f, text + 20, 60);
    frame_lz4(&f, text + 80, 40);
    frame_end(&f);
    return in;
}

static struct bytes linked_frame_and_more(void)
{
    struct bytes in = { .data = NULL };
    struct frame f = frame_begin(&in, FRAME_SIZE, 4, 3 * sizeof words, 0);

    frame_lz4(&f, words, sizeof words);
    frame_raw(&f, "", 0);
    frame_lz4(&f, words, sizeof words);
    frame_lz4(&f, words, sizeof words);
    frame_end(&f);
    put_skippable(&in, 5, 3);
    f = frame_begin(&in, FRAME_INDEPENDENT | FRAME_SUM, 4, 0, 0);
    frame_end(&f);
    f = frame_begin(&in, FRAME_SUM, 5, 0, 0);
    frame_raw(&f, words, 9);
    frame_lz4(&f, words, 30);
    frame_end(&f);
    return in;
}

static void put_legacy_block(struct bytes *b, const void *p, size_t n)
{
    size_t cap = (size_t)LZ4_compressBound((int)n);
    uint8_t *stored = malloc(cap);
    size_t len = lz4_block_of(stored, cap, p, n, 0);

    put_le(b, len, 4);
    put(b, stored, len);
    free(stored);
}

static struct bytes legacy_frames_and_more(void)
{
    struct bytes in = { .data = NULL };
    struct frame f;

    put_le(&in, 0x184c2102, 4);
    put_legacy_block(&in, words, 40);
    put_legacy_block(&in, words, 60);
    put_skippable(&in, 15, 0);
    put_le(&in, 0x184c2102, 4);
    put_le(&in, 0x184c2102, 4);
    put_legacy_block(&in, words, 20);
    f = frame_begin(&in, FRAME_INDEPENDENT, 7, 0, 0);
    frame_lz4(&f, words, 50);
    frame_end(&f);
    put_le(&in, 0x184c2102, 4);
    put_legacy_block(&in, words, 1);
    return in;
}

static const struct ahead_lz4_options with_dict = { .dict = words,
                                                    .dict_len = sizeof words,
                                                    .dict_id = 77 };

static struct bytes frames_with_a_dictionary(void)
{
    struct bytes in = { .data = NULL };

    for (unsigned independent = 0; independent <= FRAME_INDEPENDENT;
         independent += FRAME_INDEPENDENT) {
        struct frame f = frame_begin(&in, independent | FRAME_DICT_ID | FRAME_SUM, 4, 0, 77);

        frame_dict(&f, words, sizeof words);
        frame_lz4(&f, words, sizeof words);
        frame_lz4(&f, words, sizeof words);
        frame_end(&f);
    }
    return in;
}

static const struct {
    struct bytes (*make)(void);
    const struct ahead_lz4_options *opt;
} streams[] = {
    { frame_with_all_checks, &none },
    { linked_frame_and_more, &none },
    { legacy_frames_and_more, &none },
    { frames_with_a_dictionary, &with_dict },
};

#define each_stream                                                                                \
    size_t s = 0;                                                                                  \
    s < sizeof streams / sizeof streams[0];                                                        \
    s++

Test(lz4_frame, what_the_other_tests_damage_is_sound)
{
    for (each_stream) {
        struct bytes in = streams[s].make();
        struct reference want = reference_lz4_frame(in.data, in.len, streams[s].opt);

        expect_status(want.status, AHEAD_EOF);
        expect_true(want.len > 100);
        expect_all_ways(ahead_source_lz4_frame, in.data, in.len, streams[s].opt);
        free(want.bytes);
        free(in.data);
    }
}

/* F169 */
Test(lz4_frame, every_prefix_gives_its_blocks, .timeout = 240 * TIME_SCALE)
{
    for (each_stream) {
        struct bytes in = streams[s].make();

        expect_every_prefix(ahead_source_lz4_frame, &in, *streams[s].opt);
        free(in.data);
    }
}

/* F171, F172, F175 */
Test(lz4_frame, every_flipped_bit_is_judged, .timeout = 240 * TIME_SCALE)
{
    for (each_stream) {
        struct bytes in = streams[s].make();

        expect_every_flip(ahead_source_lz4_frame, &in, streams[s].opt);
        free(in.data);
    }
}

/* F174 */
Test(lz4_frame, mutations_through_one_decoder, .timeout = 240 * TIME_SCALE)
{
    for (each_stream) {
        struct bytes in = streams[s].make();

        expect_mutations(ahead_source_lz4_frame, &in, streams[s].opt, rounds_of(100000));
        free(in.data);
    }
}

/* ---- round trips through liblz4's own frame encoder ---- */

struct shape {
    LZ4F_preferences_t prefs;
    size_t len, flush; /* flush: bytes between two flushes; 0: none */
};

static struct shape random_shape(uint64_t *seed)
{
    static const size_t lens[] = { 0, 1, 100, 65535, 65536, 65537, 200000, 700000 };
    struct shape s = { .len = lens[random_below(seed, 8)] };
    LZ4F_frameInfo_t *info = &s.prefs.frameInfo;

    info->blockSizeID = LZ4F_max64KB + (int)random_below(seed, 4);
    info->blockMode = random_below(seed, 2) ? LZ4F_blockLinked : LZ4F_blockIndependent;
    info->contentChecksumFlag = (LZ4F_contentChecksum_t)random_below(seed, 2);
    info->blockChecksumFlag = (LZ4F_blockChecksum_t)random_below(seed, 2);
    info->contentSize = random_below(seed, 2) ? s.len : 0;
    s.prefs.compressionLevel = random_below(seed, 4) ? 0 : 3;
    if (random_below(seed, 2))
        s.flush = 1 + (size_t)random_below(seed, 100000);
    return s;
}

/* Compressible and random stretches, one behind the other. */
static void fill_mixed(uint8_t *dst, size_t len, uint64_t seed)
{
    for (size_t at = 0, n; at < len; at += n) {
        n = 1 + (size_t)random_below(&seed, 90000);
        if (n > len - at)
            n = len - at;
        if (random_below(&seed, 3))
            fill_words(dst + at, n, seed);
        else
            pattern_fill(dst + at, seed << 32, n);
    }
}

static void put_frame(struct bytes *to, const struct shape *s, const uint8_t *plain)
{
    size_t cap =
        LZ4F_compressBound(s->len + 1, &s->prefs) * 2 + 4096 + 16 * (s->len / (s->flush + 1));
    uint8_t *p = malloc(cap);
    size_t n, step;
    LZ4F_cctx *ctx;

    expect_true(!LZ4F_isError(LZ4F_createCompressionContext(&ctx, LZ4F_VERSION)));
    n = LZ4F_compressBegin(ctx, p, cap, &s->prefs);
    for (size_t at = 0; at < s->len; at += step) {
        size_t out;

        step = s->flush && s->flush < s->len - at ? s->flush : s->len - at;
        out = LZ4F_compressUpdate(ctx, p + n, cap - n, plain + at, step, NULL);
        expect_true(!LZ4F_isError(out));
        n += out;
        if (s->flush) {
            out = LZ4F_flush(ctx, p + n, cap - n, NULL);
            expect_true(!LZ4F_isError(out));
            n += out;
        }
    }
    step = LZ4F_compressEnd(ctx, p + n, cap - n, NULL);
    expect_true(!LZ4F_isError(step));
    put(to, p, n + step);
    LZ4F_freeCompressionContext(ctx);
    free(p);
}

/* F165, F168 */
Test(lz4_frame, round_trips_through_the_encoder, .timeout = 240 * TIME_SCALE)
{
    uint64_t seed = 11;

    for (unsigned round = 0; round < rounds_of(300); round++) {
        struct bytes in = { .data = NULL }, plain = { .data = NULL };
        struct decode how = decode_ways[random_below(&seed, decode_ways_len)];
        struct feed f = { .piece = random_below(&seed, 2) ? 0 : 100000, .random = true };
        struct decoded d;

        for (unsigned frames = 1 + (unsigned)random_below(&seed, 3); frames--;) {
            struct shape s = random_shape(&seed);
            uint8_t *at = grow(&plain, s.len);

            fill_mixed(at, s.len, seed);
            put_frame(&in, &s, at);
        }
        if (how.window && how.window < 4096)
            how.window = 4096 + how.window;
        how.seed = round;
        f.data = in.data;
        f.len = in.len;
        expect_note("round %u", round);
        d = decode_all(open_over(ahead_source_lz4_frame, &f, NULL), how);
        expect_decoded(&d, AHEAD_EOF, plain.data, plain.len, UINT64_MAX);
        free(in.data);
        free(plain.data);
    }
}

/* F168: windows of 1 byte to 4 MiB. */
Test(lz4_frame, windows_of_any_size, .timeout = 120 * TIME_SCALE)
{
    static const size_t windows[] = {
        1, 2, 3, 7, 64, 123, 321, 4096, 65535, 65536, 65537, 1 << 22
    };
    static uint8_t plain[300000];

    fill_mixed(plain, sizeof plain, 5);
    for (int linked = 0; linked < 2; linked++) {
        struct bytes in = { .data = NULL };
        struct shape s = { .len = sizeof plain,
                           .prefs.frameInfo = {
                               .blockSizeID = LZ4F_max64KB,
                               .blockMode = linked ? LZ4F_blockLinked : LZ4F_blockIndependent,
                               .contentChecksumFlag = LZ4F_contentChecksumEnabled } };

        put_frame(&in, &s, plain);
        for (size_t i = 0; i < sizeof windows / sizeof windows[0]; i++) {
            for (int way = 0; way < DECODE_WAYS; way++) {
                struct feed f = { .data = in.data, .len = in.len };
                struct decode how = { .way = way, .window = windows[i] };
                struct decoded d = decode_all(open_over(ahead_source_lz4_frame, &f, NULL), how);

                expect_note("window %zu, way %d, linked %d", windows[i], way, linked);
                expect_decoded(&d, AHEAD_EOF, plain, sizeof plain, UINT64_MAX);
            }
        }
        free(in.data);
    }
}

/* The history is what counts, not how it was read: short linked blocks whose
 * matches reach back 64 KiB, over raw ones, into windows of every kind. */
Test(lz4_frame, linked_blocks_reach_back_over_short_reads, .timeout = 120 * TIME_SCALE)
{
    struct bytes in = { .data = NULL }, plain = { .data = NULL };
    struct frame f = frame_begin(&in, FRAME_SUM, 4, 0, 0);
    uint64_t seed = 9;

    pattern_fill(grow(&plain, 65536), 0, 65536);
    frame_raw(&f, plain.data, 65536);
    while (plain.len < 1000000) {
        size_t n = 1 + (size_t)random_below(&seed, plain.len < 400000 ? 3000 : 60000);
        size_t back = 65535 - (size_t)random_below(&seed, 100);
        uint8_t *p = grow(&plain, n);

        for (size_t i = 0; i < n; i++)
            p[i] = (p - back)[i];
        if (random_below(&seed, 5))
            frame_lz4(&f, p, n);
        else
            frame_raw(&f, p, n);
    }
    frame_end(&f);
    for (each_way(how)) {
        struct feed feed = { .data = in.data, .len = in.len };
        struct decoded d;

        if (how->window == 1)
            continue;
        d = decode_all(open_over(ahead_source_lz4_frame, &feed, NULL), *how);
        expect_decoded(&d, AHEAD_EOF, plain.data, plain.len, UINT64_MAX);
    }
    free(in.data);
    free(plain.data);
}

/* In one read a block of nearly 64 KiB, then one whose match begins in front of
 * what this read has given. */
Test(lz4_frame, a_match_reaches_back_over_the_start_of_a_read)
{
    for (size_t first = 65400; first <= 65536; first += 17) {
        struct bytes in = { .data = NULL }, plain = { .data = NULL };
        struct frame f = frame_begin(&in, FRAME_SUM, 4, 0, 0);
        struct feed feed = { .piece = 0 };
        static uint8_t got[1 << 20];
        struct ahead_source src;
        struct ahead_error err;

        pattern_fill(grow(&plain, 65536), 0, 65536);
        for (size_t n = first; n == first || n == 1000; n = n == first ? 1000 : 0) {
            uint8_t *p = grow(&plain, n);

            for (size_t i = 0; i < n; i++)
                p[i] = (p - 65535)[i];
        }
        frame_raw(&f, plain.data, 65536);
        frame_lz4(&f, plain.data + 65536, first);
        frame_lz4(&f, plain.data + 65536 + first, 1000);
        frame_end(&f);
        feed.data = in.data;
        feed.len = in.len;
        src = open_over(ahead_source_lz4_frame, &feed, NULL);
        expect_int(src.ops->read(src.ctx, got, 65536, &err), 65536);
        expect_int(src.ops->read(src.ctx, got + 65536, sizeof got - 65536, &err), first + 1000);
        expect_mem(got, plain.data, plain.len);
        expect_int(src.ops->read(src.ctx, got, 1, &err), 0);
        src.ops->close(src.ctx, &err);
        free(in.data);
        free(plain.data);
    }
}

/* Only the last 64 KiB of a dictionary count, for independent blocks before
 * each, for linked ones before the first. */
Test(lz4_frame, the_end_of_a_long_dictionary_counts)
{
    struct bytes dict = { .data = NULL };
    struct ahead_lz4_options opt = { .dict_len = 200000 };

    pattern_fill(grow(&dict, 200000), 0, 200000);
    opt.dict = dict.data;
    for (unsigned flags = 0; flags <= FRAME_INDEPENDENT; flags += FRAME_INDEPENDENT) {
        struct bytes in = { .data = NULL };
        struct frame f = frame_begin(&in, flags | FRAME_SUM, 4, 0, 0);

        frame_dict(&f, dict.data + 200000 - 65536, 65536);
        frame_lz4(&f, dict.data + 150000, 50000);
        frame_lz4(&f, dict.data + 150000, 40000);
        frame_end(&f);
        expect_true(in.len < 2000);
        expect_all_ways(ahead_source_lz4_frame, in.data, in.len, &opt);
        opt.dict = dict.data + 1; /* another one */
        expect_all_ways(ahead_source_lz4_frame, in.data, in.len, &opt);
        opt.dict = dict.data;
        free(in.data);
    }
    free(dict.data);
}

/* F166 */
Test(lz4_frame, skippable_frames_anywhere)
{
    static const size_t lens[] = { 0, 1, 70000 };
    struct bytes in = { .data = NULL };
    struct frame f;

    for (size_t i = 0; i < 3; i++) {
        put_skippable(&in, (unsigned)i, lens[i]);
        f = frame_begin(&in, FRAME_SUM, 4, 0, 0);
        frame_lz4(&f, words, sizeof words);
        frame_end(&f);
        put_skippable(&in, 15, lens[i]);
    }
    expect_all_ways(ahead_source_lz4_frame, in.data, in.len, NULL);
    expect_all_ways(ahead_source_lz4_frame, in.data, in.len - 1, NULL);
    expect_all_ways(ahead_source_lz4_frame, in.data, in.len - 69999, NULL);
    expect_all_ways(ahead_source_lz4_frame, in.data, in.len - 70001, NULL);
    free(in.data);
}

/* A claim whose size says 4 GiB costs no memory, and a source that can skip is
 * asked to. */
Test(lz4_frame, a_long_skippable_frame_is_skipped_by_the_source)
{
    struct bytes in = { .data = NULL };
    struct frame f;

    put_skippable(&in, 0, 1000000);
    f = frame_begin(&in, 0, 4, 0, 0);
    frame_raw(&f, words, sizeof words);
    frame_end(&f);
    for (int skips = 0; skips < 2; skips++) {
        struct feed feed = { .data = in.data, .len = in.len, .skips = skips };
        struct decoded d = decode_all(open_over(ahead_source_lz4_frame, &feed, NULL),
                                      (struct decode){ .way = DECODE_READ, .window = 100 });

        expect_decoded(&d, AHEAD_EOF, words, sizeof words, UINT64_MAX);
        expect_true(skips ? feed.skipped > 800000 : !feed.skipped);
    }
    free(in.data);
}

/* F176: what was kept of an aborted frame must not be seen in the next one. */
Test(lz4_frame, a_frame_after_an_aborted_one, .timeout = 120 * TIME_SCALE)
{
    for (unsigned round = 0; round < 50; round++) {
        struct bytes in = streams[round % 2].make();
        struct reference want = reference_lz4_frame(in.data, in.len, NULL);
        struct feed f = { .data = in.data, .seeks = true };
        struct ahead_source src = open_over(ahead_source_lz4_frame, &f, NULL);
        struct ahead_error err;

        for (size_t len = 1; len < 200 && len < in.len; len++) {
            struct decode how = { .way = len % 2 ? DECODE_READ : DECODE_STEPS, .seed = round };
            struct reference part = reference_lz4_frame(in.data, len, NULL);
            struct decoded d;

            f.len = len;
            d = decode_to_end(src, how);
            expect_decoded(&d, part.status, part.bytes, part.len, part.offset);
            free(part.bytes);
            f.len = in.len;
            expect_status(src.ops->seek(src.ctx, 0, &err), AHEAD_OK);
            d = decode_to_end(src, how);
            expect_decoded(&d, AHEAD_EOF, want.bytes, want.len, UINT64_MAX);
            expect_status(src.ops->seek(src.ctx, 0, &err), AHEAD_OK);
        }
        expect_status(src.ops->close(src.ctx, &err), AHEAD_OK);
        free(want.bytes);
        free(in.data);
    }
}

/* A flush in the middle, known content size: blocks are short, and none is
 * taken for too much before it is. */
Test(lz4_frame, content_size_with_short_blocks)
{
    for (int wrong = -1; wrong <= 1; wrong++) {
        struct bytes in = { .data = NULL }, text = { .data = NULL };
        struct frame f;

        fill_words(grow(&text, 300000), 300000, 8);
        f = frame_begin(&in, FRAME_INDEPENDENT | FRAME_SIZE | FRAME_SUM, 4,
                        (uint64_t)(300000 + wrong), 0);
        for (size_t at = 0; at < 300000; at += 20000)
            frame_lz4(&f, text.data + at, 20000);
        frame_end(&f);
        expect_all_ways(ahead_source_lz4_frame, in.data, in.len, NULL);
        free(in.data);
        free(text.data);
    }
}
