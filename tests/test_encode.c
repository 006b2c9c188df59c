/* SPDX-License-Identifier: Apache-2.0 */
/* test_encode.c - what the encoders write is what the formats say, and is read back. */
#include <ahead/ahead.h>

#include "support/clock.h"
#include "support/expect.h"
#include "support/failing.h"
#include "support/fake_sink.h"
#include "support/lz4_check.h"
#include "support/pattern.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define OK(call) expect_status(call, AHEAD_OK)

enum format { FRAME, BLOCK };

static const char *const format_name[] = { "frame", "block" };

static enum ahead_status make(enum format format, struct ahead_sink *out, struct ahead_sink inner,
                              const struct ahead_lz4_encode_options *opt)
{
    return format == FRAME ? ahead_sink_lz4_frame(out, inner, opt)
                           : ahead_sink_lz4_block(out, inner, opt);
}

/* What an encoder wrote. */
struct encoded {
    uint8_t *bytes;
    size_t len;
};

/* A writer in front of an encoder into memory. */
static struct ahead_writer *
open_encoder(enum format format, struct encoded *e, const struct ahead_lz4_encode_options *opt,
             size_t buffer_bytes)
{
    struct ahead_options wopt = { .buffer_bytes = buffer_bytes };
    struct ahead_sink sink;
    struct ahead_writer *w;

    OK(ahead_sink_memory(&sink, &e->bytes, &e->len));
    OK(make(format, &sink, sink, opt));
    OK(ahead_writer_open(&w, sink, &wopt));
    return w;
}

static struct encoded
encode(enum format format, const void *src, size_t len, const struct ahead_lz4_encode_options *opt)
{
    struct encoded e;
    struct ahead_writer *w = open_encoder(format, &e, opt, 0);

    OK(ahead_write(w, src, len));
    OK(ahead_writer_close(w));
    return e;
}

/* "0d00 00.." without its spaces. */
static size_t from_hex(uint8_t *dst, const char *hex)
{
    size_t n = 0;

    for (; *hex; hex++) {
        unsigned byte;

        if (*hex == ' ')
            continue;
        expect_int(sscanf(hex, "%2x", &byte), 1);
        dst[n++] = (uint8_t)byte;
        hex++;
    }
    return n;
}

static void expect_hex(struct encoded e, const char *hex)
{
    uint8_t want[4096];
    size_t len = from_hex(want, hex);

    expect_mem(e.bytes, want, e.len < len ? e.len : len);
    expect_size(e.len, len);
    free(e.bytes);
}

/* ---- golden vectors ---- */

static char a100[100], zeros128[128], ramp1000[1000];

static void fill_inputs(void)
{
    memset(a100, 'A', sizeof a100);
    for (int i = 0; i < 1000; i++)
        ramp1000[i] = (char)(i % 251);
}

#define MARK "4c5a34426c6f636b"
#define END " 00000000 00000000 00000000"

Test(encode, block_writes_the_golden_vectors)
{
    static const struct {
        const char *data;
        size_t len, block_bytes;
        const char *hex;
    } cases[] = {
        { "", 0, 65536, MARK "16" END },
        { "", 0, 0, MARK "15" END },
        { "", 0, 64, MARK "10" END },
        { "", 0, 32 << 20, MARK "1f" END },
        { "Hello, World!", 13, 65536,
          MARK "16 0d000000 0d000000 c568f10b 48656c6c6f2c20576f726c6421" MARK "16" END },
        { "A", 1, 65536, MARK "16 01000000 01000000 1056680d 41" MARK "16" END },
        { a100, 100, 32768,
          MARK "25 0b000000 64000000 f1dea60c 1f4101004b504141414141" MARK "15" END },
        { a100, 100, 64,
          MARK "20 0b000000 40000000 75fc3202 1f41010027504141414141" MARK
               "20 0b000000 24000000 74e4910a 1f4101000b504141414141" MARK "10" END },
        { zeros128, 128, 64,
          MARK "20 0b000000 40000000 0499fa03 1f00010027500000000000" MARK
               "20 0b000000 40000000 0499fa03 1f00010027500000000000" MARK "10" END },
    };

    fill_inputs();
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ahead_lz4_encode_options opt = { .block_bytes = cases[i].block_bytes };

        expect_note("case %u", i);
        expect_hex(encode(BLOCK, cases[i].data, cases[i].len, &opt), cases[i].hex);
    }
}

Test(encode, block_of_a_ramp_has_the_golden_checksums)
{
    static const uint32_t checksums[] = {
        0x0dca2bf8, 0x08d01862, 0x05c3cce8, 0x0ce0eaa5, 0x03fe3d96, 0x0488d5d9,
        0x0a1319bb, 0x07f043e7, 0x0aba6e8d, 0x0312d336, 0x01a971b7, 0x0e436ecd,
        0x0bbb764c, 0x0ea01a46, 0x01233318, 0x04e5df4a,
    };
    struct ahead_lz4_encode_options opt = { .block_bytes = 64 };
    struct encoded e;

    fill_inputs();
    e = encode(BLOCK, ramp1000, 1000, &opt);
    expect_size(e.len, 1357);
    for (unsigned i = 0; i < 16; i++) {
        const uint8_t *p = e.bytes + i * (21 + 64);

        expect_int(p[8], 0x10);
        expect_int(check_u32(p + 13), i < 15 ? 64 : 40);
        expect_int(check_u32(p + 17), checksums[i]);
        expect_mem(p + 21, ramp1000 + i * 64, i < 15 ? 64 : 40);
    }
    free(e.bytes);
}

/* A flush ends the block; one with nothing collected writes nothing. */
Test(encode, block_flush_ends_the_block)
{
    struct ahead_lz4_encode_options opt = { .block_bytes = 65536 };
    struct encoded e;
    struct ahead_writer *w = open_encoder(BLOCK, &e, &opt, 0);

    OK(ahead_write(w, "AB", 2));
    OK(ahead_writer_flush(w));
    expect_size(e.len, 23);
    OK(ahead_writer_flush(w));
    OK(ahead_write(w, "CD", 2));
    OK(ahead_writer_flush(w));
    OK(ahead_writer_flush(w));
    OK(ahead_writer_close(w));
    expect_hex(e, MARK "16 02000000 02000000 90785706 4142" MARK
                       "16 02000000 02000000 cac2b309 4344" MARK "16" END);
}

Test(encode, block_level_says_how_large_a_block_may_be)
{
    static const struct {
        size_t block_bytes;
        unsigned level;
    } cases[] = {
        { 64, 0 },   { 1023, 0 },  { 1024, 0 },  { 1025, 1 },  { 2048, 1 },      { 2049, 2 },
        { 4096, 2 }, { 32768, 5 }, { 65536, 6 }, { 65537, 7 }, { 33554432, 15 },
    };

    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ahead_lz4_encode_options opt = { .block_bytes = cases[i].block_bytes };
        struct encoded e = encode(BLOCK, "", 0, &opt);

        expect_int(e.bytes[8], 0x10 | cases[i].level);
        free(e.bytes);
    }
}

Test(encode, frame_writes_the_golden_vectors)
{
    static const struct ahead_lz4_encode_options
        plain = { .independent_blocks = true },
        hello_bare = { .independent_blocks = true, .no_content_checksum = true },
        hello_both = { .independent_blocks = true, .block_checksums = true },
        hello_size = { .independent_blocks = true, .block_checksums = true, .content_size = 13 },
        hello_linked = { .block_checksums = true, .content_size = 13 },
        a100_size = { .independent_blocks = true,
                      .no_content_checksum = true,
                      .content_size = 100 },
        k256 = { .independent_blocks = true, .block_bytes = 65537 },
        m1 = { .independent_blocks = true, .block_bytes = 1 << 20 },
        m4 = { .independent_blocks = true, .block_bytes = 4 << 20 };
    static const struct {
        const char *data;
        size_t len;
        const struct ahead_lz4_encode_options *opt;
        const char *hex;
    } cases[] = {
        { "", 0, &plain, "04224d18 64 40 a7 00000000 055dcc02" },
        { "", 0, &k256, "04224d18 64 50 08 00000000 055dcc02" },
        { "", 0, &m1, "04224d18 64 60 85 00000000 055dcc02" },
        { "", 0, &m4, "04224d18 64 70 b9 00000000 055dcc02" },
        { "Hello, World!", 13, &plain,
          "04224d18 64 40 a7 0d000080 48656c6c6f2c20576f726c6421 00000000 50de0740" },
        { "Hello, World!", 13, &hello_bare,
          "04224d18 60 40 82 0d000080 48656c6c6f2c20576f726c6421 00000000" },
        { "Hello, World!", 13, &hello_both,
          "04224d18 74 40 bd 0d000080 48656c6c6f2c20576f726c6421 50de0740 00000000 50de0740" },
        { "Hello, World!", 13, &hello_size,
          "04224d18 7c 40 0d00000000000000 39 0d000080 48656c6c6f2c20576f726c6421 50de0740"
          "00000000 50de0740" },
        { "Hello, World!", 13, &hello_linked,
          "04224d18 5c 40 0d00000000000000 71 0d000080 48656c6c6f2c20576f726c6421 50de0740"
          "00000000 50de0740" },
        { a100, 100, &plain,
          "04224d18 64 40 a7 0b000000 1f4101004b504141414141 00000000 3795e7a2" },
        { a100, 100, &a100_size,
          "04224d18 68 40 6400000000000000 23 0b000000 1f4101004b504141414141 00000000" },
    };

    fill_inputs();
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        expect_note("case %u", i);
        expect_hex(encode(FRAME, cases[i].data, cases[i].len, cases[i].opt), cases[i].hex);
    }
}

/* ---- there and back ---- */

enum data { NOISE, ZEROS, WORDS, MIXED, DATA_KINDS };

static void fill_data(uint8_t *dst, size_t len, enum data kind)
{
    static const char *const words[] = { "partition ", "of ",     "the ", "shuffle ",
                                         "spill ",     "record ", "\n",   "0123456789 " };
    uint64_t seed = 7;

    pattern_fill(dst, 0, len);
    if (kind == ZEROS)
        memset(dst, 0, len);
    for (size_t at = 0; kind >= WORDS && at < len;) {
        const char *word = words[random_below(&seed, 8)];
        size_t n = strlen(word);

        if (n > len - at)
            n = len - at;
        memcpy(dst + at, word, n);
        at += n;
        /* Mixed: runs that do not compress between those that do. */
        if (kind == MIXED && random_below(&seed, 1000) == 0)
            at += (size_t)random_below(&seed, 100000);
    }
}

static void expect_decodes(enum format format, struct encoded e, const uint8_t *data, size_t len)
{
    LZ4F_frameInfo_t info;
    struct decoded d =
        format == FRAME ? check_lz4_frame(e.bytes, e.len, &info) : check_lz4_block(e.bytes, e.len);

    expect_size(d.len, len);
    expect_mem(d.bytes, data, len);
    free(d.bytes);
    free(e.bytes);
}

static const struct ahead_lz4_encode_options shapes[] = {
    { .block_bytes = 0 },
    { .block_bytes = 65536, .independent_blocks = true, .block_checksums = true },
    { .block_bytes = 100000, .no_content_checksum = true },
    { .block_bytes = 1 << 20, .independent_blocks = true },
    { .block_bytes = 4 << 20 },
    { .block_bytes = 777, .block_checksums = true },
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

Test(encode, everything_is_read_back_by_liblz4, .timeout = 120 * TIME_SCALE)
{
    static const int levels[] = { 0, -5, 1, 3, 9 };
    enum { LEN = 700001 };
    uint8_t *data = malloc(LEN);

    for (enum data kind = NOISE; kind < DATA_KINDS; kind++) {
        fill_data(data, LEN, kind);
        for (enum format format = FRAME; format <= BLOCK; format++) {
            for (unsigned s = 0; s < SHAPES; s++) {
                for (unsigned l = 0; l < sizeof levels / sizeof *levels; l++) {
                    struct ahead_lz4_encode_options opt = shapes[s];

                    opt.level = levels[l];
                    expect_note("%s, data %d, shape %u, level %d", format_name[format], kind, s,
                                levels[l]);
                    expect_decodes(format, encode(format, data, LEN, &opt), data, LEN);
                }
            }
        }
    }
    free(data);
}

/* Sizes, flushes and buffers that fall at every place of a block. */
Test(encode, pieces_and_flushes_change_nothing, .timeout = 120 * TIME_SCALE)
{
    enum { LEN = 300000 };
    static const size_t buffers[] = { 1000, 32768, 65536, 100001 };
    uint8_t *data = malloc(LEN);

    fill_data(data, LEN, MIXED);
    for (enum format format = FRAME; format <= BLOCK; format++) {
        for (unsigned s = 0; s < SHAPES; s++) {
            for (unsigned b = 0; b < sizeof buffers / sizeof *buffers; b++) {
                struct encoded e;
                struct ahead_writer *w = open_encoder(format, &e, &shapes[s], buffers[b]);
                uint64_t seed = s + 1;

                for (size_t at = 0, n; at < LEN; at += n) {
                    n = 1 + (size_t)random_below(&seed, random_below(&seed, 4) ? 100 : 50000);
                    if (n > LEN - at)
                        n = LEN - at;
                    OK(ahead_write(w, data + at, n));
                    if (random_below(&seed, 100) == 0)
                        OK(ahead_writer_flush(w));
                }
                OK(ahead_writer_close(w));
                expect_decodes(format, e, data, LEN);
            }
        }
    }
    free(data);
}

/* Exactly k blocks are k blocks, and none is empty. */
Test(encode, blocks_are_as_long_as_they_should_be)
{
    enum { BYTES = 32768 };
    uint8_t *data = malloc(3 * BYTES + 1);

    fill_data(data, 3 * BYTES + 1, WORDS);
    for (size_t len = 3 * BYTES - 1; len <= 3 * BYTES + 1; len++) {
        struct encoded e = encode(BLOCK, data, len, NULL);
        struct decoded d = check_lz4_block(e.bytes, e.len);

        expect_int(d.blocks, len > 3 * BYTES ? 4 : 3);
        expect_int(d.raw, len > 3 * BYTES ? 1 : 0); /* a block of one byte does not get smaller */
        expect_size(d.longest, BYTES);
        free(d.bytes);
        free(e.bytes);
    }
    free(data);
}

Test(encode, what_does_not_get_smaller_is_stored_as_it_is)
{
    enum { LEN = 200000 };
    uint8_t *data = malloc(LEN);
    struct encoded e;
    struct decoded d;

    fill_data(data, LEN, NOISE);
    e = encode(BLOCK, data, LEN, NULL);
    d = check_lz4_block(e.bytes, e.len);
    expect_int(d.raw, d.blocks);
    expect_size(e.len, LEN + (d.blocks + 1) * 21);
    free(d.bytes);
    free(e.bytes);
    e = encode(FRAME, data, LEN, NULL);
    expect_size(e.len, 7 + LEN + 4 * 4 + 4 + 4);
    expect_int(check_u32(e.bytes + 7), 0x80010000);
    free(e.bytes);
    free(data);
}

/* Linked blocks find what an earlier one had, a higher level finds more. */
Test(encode, options_do_what_they_say)
{
    enum { LEN = 1 << 20 };
    uint8_t *data = malloc(LEN);
    struct ahead_lz4_encode_options linked = { .level = 0 }, alone = { .independent_blocks = true },
                                    high = { .level = 9 }, fast = { .level = -20 },
                                    sized = { .content_size = LEN,
                                              .block_bytes = 1 << 20,
                                              .block_checksums = true };
    LZ4F_frameInfo_t info;
    struct encoded e[4];
    struct decoded d;

    fill_data(data, LEN, WORDS);
    for (enum format format = FRAME; format <= BLOCK; format++) {
        e[0] = encode(format, data, LEN, &linked);
        e[1] = encode(format, data, LEN, &alone);
        e[2] = encode(format, data, LEN, &high);
        e[3] = encode(format, data, LEN, &fast);
        if (format == FRAME)
            expect_true(e[0].len < e[1].len);
        expect_true(e[2].len < e[0].len);
        expect_true(e[3].len > e[0].len);
        for (unsigned i = 0; i < 4; i++)
            free(e[i].bytes);
    }
    e[0] = encode(FRAME, data, LEN, &sized);
    d = check_lz4_frame(e[0].bytes, e[0].len, &info);
    expect_int(info.blockSizeID, LZ4F_max1MB);
    expect_int(info.blockMode, LZ4F_blockLinked);
    expect_int(info.blockChecksumFlag, LZ4F_blockChecksumEnabled);
    expect_int(info.contentChecksumFlag, LZ4F_contentChecksumEnabled);
    expect_u64(info.contentSize, LEN);
    free(d.bytes);
    free(e[0].bytes);
    free(data);
}

/* One behind the other: a frame inside an LZ4Block stream. */
Test(encode, encoders_can_be_stacked)
{
    enum { LEN = 200000 };
    uint8_t *data = malloc(LEN);
    struct encoded e;
    struct ahead_sink sink;
    struct ahead_writer *w;
    struct decoded d, inner;
    LZ4F_frameInfo_t info;

    fill_data(data, LEN, MIXED);
    OK(ahead_sink_memory(&sink, &e.bytes, &e.len));
    OK(ahead_sink_lz4_block(&sink, sink, NULL));
    OK(ahead_sink_lz4_frame(&sink, sink, NULL));
    OK(ahead_writer_open(&w, sink, NULL));
    OK(ahead_write(w, data, LEN));
    OK(ahead_writer_close(w));
    d = check_lz4_block(e.bytes, e.len);
    inner = check_lz4_frame(d.bytes, d.len, &info);
    expect_size(inner.len, LEN);
    expect_mem(inner.bytes, data, LEN);
    free(inner.bytes);
    free(d.bytes);
    free(e.bytes);
    free(data);
}

/* By the command line tool, which shares nothing with us but liblz4. */
Test(encode, frames_are_read_back_by_the_lz4_tool)
{
    enum { LEN = 3000000 };
    uint8_t *data = malloc(LEN), *back = malloc(LEN + 1);
    char path[] = "/tmp/ahead-test-XXXXXX", command[100];

    if (system("lz4 --version >/dev/null 2>&1") != 0)
        skip("the tool lz4 is not installed");
    close(mkstemp(path));
    fill_data(data, LEN, MIXED);
    for (unsigned s = 0; s < SHAPES; s++) {
        struct ahead_lz4_encode_options opt = shapes[s];
        struct ahead_sink sink;
        struct ahead_writer *w;
        FILE *tool;

        opt.content_size = s % 2 ? LEN : 0;
        OK(ahead_sink_path(&sink, path));
        OK(ahead_sink_lz4_frame(&sink, sink, &opt));
        OK(ahead_writer_open(&w, sink, NULL));
        OK(ahead_write(w, data, LEN));
        OK(ahead_writer_close(w));
        snprintf(command, sizeof command, "lz4 -dc %s", path);
        tool = popen(command, "r");
        expect_true(tool);
        expect_size(fread(back, 1, LEN + 1, tool), LEN);
        expect_int(pclose(tool), 0);
        expect_mem(back, data, LEN);
    }
    unlink(path);
    free(data);
    free(back);
}

/* By lz4-java, whose format it is: a jar that AHEAD_LZ4_JAVA names, or where
 * Debian's liblz4-java puts it. */
Test(encode, blocks_are_read_back_by_lz4_java, .timeout = 120 * TIME_SCALE)
{
    static const char program[] =
        "public class Cat {\n"
        "    public static void main(String[] args) throws Exception {\n"
        "        var file = new java.io.FileInputStream(args[0]);\n"
        "        var in = new net.jpountz.lz4.LZ4BlockInputStream(file);\n"
        "        in.transferTo(System.out);\n"
        "        System.out.flush();\n"
        "        if (file.read() != -1) System.exit(3);\n"
        "    }\n"
        "}\n";
    enum { LEN = 3000000 };
    const char *jar = getenv("AHEAD_LZ4_JAVA");
    char folder[] = "/tmp/ahead-test-XXXXXX", path[64], java[64], command[512];
    uint8_t *data = malloc(LEN), *back = malloc(LEN + 1);
    FILE *f;

    if (!jar)
        jar = "/usr/share/java/lz4-java.jar";
    if (access(jar, R_OK) != 0 || system("java -version >/dev/null 2>&1") != 0)
        skip("lz4-java is not installed");
    expect_true(mkdtemp(folder));
    snprintf(java, sizeof java, "%s/Cat.java", folder);
    snprintf(path, sizeof path, "%s/blocks", folder);
    snprintf(command, sizeof command, "java -cp '%s' %s %s", jar, java, path);
    f = fopen(java, "w");
    expect_true(f && fputs(program, f) >= 0 && fclose(f) == 0);
    fill_data(data, LEN, MIXED);
    for (int level = 0; level <= 9; level += 9) {
        struct ahead_lz4_encode_options opt = { .level = level };
        struct ahead_sink sink;
        struct ahead_writer *w;

        OK(ahead_sink_path(&sink, path));
        OK(ahead_sink_lz4_block(&sink, sink, &opt));
        OK(ahead_writer_open(&w, sink, NULL));
        OK(ahead_write(w, data, LEN));
        OK(ahead_writer_close(w));
        f = popen(command, "r");
        expect_true(f);
        expect_size(fread(back, 1, LEN + 1, f), LEN);
        expect_int(pclose(f), 0);
        expect_mem(back, data, LEN);
    }
    unlink(java);
    unlink(path);
    rmdir(folder);
    free(data);
    free(back);
}

/* ---- failures ---- */

/* Wherever the inner sink fails: what it took is the front of the good output,
 * and the failure says how long that is. */
Test(encode, failure_of_the_inner_sink_leaves_the_front_of_the_output, .timeout = 60 * TIME_SCALE)
{
    enum { LEN = 3000 };
    struct ahead_lz4_encode_options opt = { .block_bytes = 1000 };
    uint8_t data[LEN];

    fill_data(data, LEN, NOISE);
    for (enum format format = FRAME; format <= BLOCK; format++) {
        struct encoded good = encode(format, data, LEN, &opt);

        for (size_t at = 0; at < good.len; at += 13) {
            struct fake_sink fs = { .fails = true, .fail_at = at, .fail_errno = ENOSPC };
            /* Less than a block in a call of the encoder, or several. */
            struct ahead_options wopt = { .buffer_bytes = at % 2 ? 100 : LEN };
            struct ahead_sink sink;
            struct ahead_writer *w;
            struct ahead_error err;

            expect_note("%s, fails at %zu", format_name[format], at);
            OK(make(format, &sink, fake_sink(&fs), &opt));
            OK(ahead_writer_open(&w, sink, &wopt));
            for (unsigned i = 0; i < LEN; i += 50)
                if (ahead_write(w, data + i, 50))
                    break;
            expect_status(ahead_writer_close_error(w, &err), AHEAD_IO);
            expect_int(err.os_errno, ENOSPC);
            expect_u64(err.source_offset, at);
            expect_true(err.offset <= LEN);
            expect_size(fs.len, at);
            expect_mem(fs.bytes, good.bytes, at);
            fs.len = 0; /* not the pattern */
            expect_fake(&fs, 0);
        }
        free(good.bytes);
    }
}

/* What was cancelled has no end, and does not look whole. */
Test(encode, cancelled_output_has_no_end)
{
    for (enum format format = FRAME; format <= BLOCK; format++) {
        struct fake_sink fs = { .has_finish = true };
        struct ahead_sink sink;
        struct ahead_writer *w;
        size_t flushed;

        OK(make(format, &sink, fake_sink(&fs), NULL));
        OK(ahead_writer_open(&w, sink, NULL));
        OK(ahead_write(w, "Hello", 5));
        OK(ahead_writer_flush(w));
        flushed = fs.len;
        expect_true(flushed > 5);
        ahead_writer_cancel(w);
        expect_status(ahead_writer_close(w), AHEAD_CANCELLED);
        expect_size(fs.len, flushed);
        expect_int(atomic_load(&fs.finishes), 0);
        expect_int(atomic_load(&fs.interrupts), 1);
        fs.len = 0;
        expect_fake(&fs, 0);
    }
}

static void *cancel_soon(void *arg)
{
    sleep_us(20000);
    ahead_writer_cancel(arg);
    return NULL;
}

/* Stuck in the very last bytes, when close has begun long ago. */
Test(encode, close_that_is_stuck_in_the_end_mark_ends_in_time)
{
    for (enum format format = FRAME; format <= BLOCK; format++) {
        struct ahead_options wopt = { .close_timeout_ms = 50 };
        struct fake_sink fs = { .stalls = true,
                                .stall_at = format == FRAME ? 16 : 26,
                                .close_us = 50000 };
        struct ahead_sink sink;
        struct ahead_writer *w;
        uint64_t start;

        OK(make(format, &sink, fake_sink(&fs), NULL));
        OK(ahead_writer_open(&w, sink, &wopt));
        OK(ahead_write(w, "Hello", 5));
        start = now_ns();
        expect_status(ahead_writer_close(w), AHEAD_TIMEDOUT);
        expect_within_ms(start, 150);
        fake_release(&fs);
        expect_eventually(fake_closed(&fs));
        expect_size(fs.len, fs.stall_at);
        fs.len = 0;
        expect_fake(&fs, 0);
    }
}

/* The flush blocks on the caller's thread, inside the encoder. */
Test(encode, cancel_gets_through_the_encoder)
{
    for (enum format format = FRAME; format <= BLOCK; format++) {
        struct fake_sink fs = { .stalls = true, .stall_at = 3 };
        struct ahead_sink sink;
        struct ahead_writer *w;
        pthread_t t;

        OK(make(format, &sink, fake_sink(&fs), NULL));
        OK(ahead_writer_open(&w, sink, NULL));
        OK(ahead_write(w, "Hello", 5));
        expect_int(pthread_create(&t, NULL, cancel_soon, w), 0);
        expect_status(ahead_writer_flush(w), AHEAD_CANCELLED);
        expect_int(pthread_join(t, NULL), 0);
        expect_status(ahead_writer_close(w), AHEAD_CANCELLED);
        expect_size(fs.len, 3);
        fs.len = 0;
        expect_fake(&fs, 0);
    }
}

Test(encode, content_size_must_be_kept)
{
    for (size_t len = 99; len <= 101; len++) {
        struct ahead_lz4_encode_options opt = { .content_size = 100 };
        struct encoded e;
        struct ahead_writer *w = open_encoder(FRAME, &e, &opt, 64);
        struct ahead_error err;
        enum ahead_status st = AHEAD_OK;

        for (size_t i = 0; i < len && !st; i++)
            st = ahead_write_u8(w, 'x');
        st = ahead_writer_close_error(w, &err);
        expect_status(st, len == 100 ? AHEAD_OK : AHEAD_CORRUPT);
        if (len != 100)
            expect_true(strstr(err.text, len < 100 ? "fewer" : "more"));
        free(e.bytes);
    }
}

Test(encode, constructors_refuse_what_makes_no_sense)
{
    struct ahead_lz4_encode_options small = { .block_bytes = 63 },
                                    large = { .block_bytes = (32 << 20) + 1 },
                                    frame_large = { .block_bytes = (4 << 20) + 1 };
    struct fake_sink fs[4] = { { .most = 0 } };
    struct ahead_sink sink = { .ctx = fs };

    expect_status(ahead_sink_lz4_block(&sink, fake_sink(&fs[0]), &small), AHEAD_INVALID);
    expect_true(!sink.ops && !sink.ctx);
    expect_int(errno, EINVAL);
    expect_status(ahead_sink_lz4_block(&sink, fake_sink(&fs[1]), &large), AHEAD_INVALID);
    expect_status(ahead_sink_lz4_frame(&sink, fake_sink(&fs[2]), &frame_large), AHEAD_INVALID);
    expect_status(ahead_sink_lz4_frame(NULL, fake_sink(&fs[3]), NULL), AHEAD_INVALID);
    expect_status(ahead_sink_lz4_block(&sink, (struct ahead_sink){ .ops = NULL }, NULL),
                  AHEAD_INVALID);
    for (unsigned i = 0; i < 4; i++)
        expect_fake(&fs[i], 0);
}

Test(encode, constructors_unwind_from_every_failing_step)
{
    for (enum format format = FRAME; format <= BLOCK; format++) {
        bool failed = true;

        for (int step = 1; failed; step++) {
            struct fake_sink fs = { .most = 0 };
            struct ahead_sink inner = fake_sink(&fs), sink;
            struct ahead_error err;
            enum ahead_status st;

            fail_step(step);
            st = make(format, &sink, inner, NULL);
            failed = fail_step(0);
            expect_status(st, failed ? AHEAD_NOMEM : AHEAD_OK);
            if (st)
                expect_true(!sink.ops);
            else
                OK(sink.ops->close(sink.ctx, &err));
            expect_fake(&fs, 0);
            expect_int(live, 0);
        }
    }
}
