/* SPDX-License-Identifier: Apache-2.0 */
/* test_detect.c - formats told by their first bytes, and what is made of them. */
#include <ahead/ahead.h>

#include "support/decode_lz4.h"
#include "support/script.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

static const struct {
    const char *hex;
    enum ahead_format format;
    const char *refused; /* what the refusal names; NULL: read */
} known[] = {
    { "4c5a34426c6f636b", AHEAD_FORMAT_LZ4_BLOCK, NULL },
    { "04224d18", AHEAD_FORMAT_LZ4_FRAME, NULL },
    { "02214c18", AHEAD_FORMAT_LZ4_FRAME, NULL },
    { "502a4d18", AHEAD_FORMAT_LZ4_FRAME, NULL },
    { "5f2a4d18", AHEAD_FORMAT_LZ4_FRAME, NULL },
    { "572a4d18", AHEAD_FORMAT_LZ4_FRAME, NULL },
    { "28b52ffd", AHEAD_FORMAT_PLAIN, "zstd" },
    { "1f8b", AHEAD_FORMAT_PLAIN, "gzip" },
    { "ff060000734e61507059", AHEAD_FORMAT_PLAIN, "snappy" },
    { "fd377a585a00", AHEAD_FORMAT_PLAIN, "xz" },
    { "425a68", AHEAD_FORMAT_PLAIN, "bzip2" },
    { "4152524f5731", AHEAD_FORMAT_PLAIN, "Arrow" },
    { "", AHEAD_FORMAT_PLAIN, NULL },
    { "4c5a34426c6f63", AHEAD_FORMAT_PLAIN, NULL }, /* one byte short */
    { "04224d", AHEAD_FORMAT_PLAIN, NULL },
    { "1f", AHEAD_FORMAT_PLAIN, NULL },
    { "ff060000734e615070", AHEAD_FORMAT_PLAIN, NULL },
    { "4c5a34426c6f636c 00", AHEAD_FORMAT_PLAIN, NULL }, /* one bit off */
    { "04224d19 00", AHEAD_FORMAT_PLAIN, NULL },
    { "602a4d18 00", AHEAD_FORMAT_PLAIN, NULL },
    { "0000000a 00000003", AHEAD_FORMAT_PLAIN, NULL },
};

#define each_known(i)                                                                              \
    size_t i = 0;                                                                                  \
    i < sizeof known / sizeof known[0];                                                            \
    i++

static enum ahead_format detect(struct ahead_source *src, struct feed *f)
{
    enum ahead_format found = (enum ahead_format)99;

    expect_status(ahead_source_detect(src, feed_source(f), NULL, &found), AHEAD_OK);
    return found;
}

static struct decoded read_it(struct ahead_source src)
{
    return decode_all(src, (struct decode){ .way = DECODE_READ, .window = 7 });
}

/* The magic alone, and with bytes behind it, from reads of any size, from
 * inputs that seek and that do not. */
Test(detect, each_magic_is_told_as_soon_as_it_is_there)
{
    for (each_known(i)) {
        for (size_t piece = 0; piece <= 3; piece++) {
            for (int seeks = 0; seeks < 2; seeks++) {
                struct bytes in = { .data = NULL };
                struct ahead_source src;
                struct decoded d;
                struct feed f;

                put_hex(&in, known[i].hex);
                f = (struct feed){ .data = in.data, .len = in.len, .piece = piece, .seeks = seeks };
                expect_note("%s, pieces of %zu, seeks %d", known[i].hex, piece, seeks);
                expect_int(detect(&src, &f), known[i].format);
                d = read_it(src);
                if (known[i].refused) {
                    expect_true(strstr(d.err.text, known[i].refused));
                    expect_decoded(&d, AHEAD_UNSUPPORTED, "", 0, 0);
                } else if (known[i].format == AHEAD_FORMAT_PLAIN) {
                    expect_decoded(&d, AHEAD_EOF, in.data, in.len, UINT64_MAX);
                } else {
                    free(d.bytes);
                }
                expect_int(f.closed, 1);
                free(in.data);
            }
        }
    }
}

/* An input that has given a whole magic is not asked for more. */
Test(detect, no_more_is_waited_for_than_the_magic)
{
    for (each_known(i)) {
        struct bytes in = { .data = NULL };
        struct ahead_source src;
        struct ahead_error err;
        struct feed f;

        put_hex(&in, known[i].hex);
        f = (struct feed){ .data = in.data, .len = in.len, .fault = EIO };
        expect_note("%s", known[i].hex);
        detect(&src, &f);
        if (known[i].refused || known[i].format != AHEAD_FORMAT_PLAIN || in.len > 4)
            expect_int(f.after_end, strlen(known[i].hex) == 14 || strlen(known[i].hex) == 18);
        src.ops->close(src.ctx, &err);
        free(in.data);
    }
}

/* Plain bytes are delivered whole, and a source that can seek is given back. */
Test(detect, plain_input_is_given_back_where_it_can_seek)
{
    static const uint8_t text[] = "LZ4 is a nice format, and this is none of it";
    struct ahead_source memory, src;
    enum ahead_format found;
    struct decoded d;

    expect_status(ahead_source_memory(&memory, text, sizeof text), AHEAD_OK);
    expect_status(ahead_source_detect(&src, memory, NULL, &found), AHEAD_OK);
    expect_int(found, AHEAD_FORMAT_PLAIN);
    expect_true(src.ops == memory.ops && src.ctx == memory.ctx);
    d = decode_all(src, (struct decode){ .way = DECODE_STEPS, .window = 10 });
    expect_decoded(&d, AHEAD_EOF, text, sizeof text, UINT64_MAX);
}

Test(detect, plain_input_that_cannot_seek_is_whole)
{
    static uint8_t text[200000];
    int fd[2];
    struct ahead_source src;
    enum ahead_format found;
    struct decoded d;

    pattern_fill(text, 0, sizeof text);
    for (size_t len = 0; len < 60000; len += 9973) {
        struct feed f = { .data = text, .len = sizeof text, .piece = len };

        expect_int(detect(&src, &f), AHEAD_FORMAT_PLAIN);
        expect_true(src.ops->remaining(src.ctx) == UINT64_MAX);
        expect_true(src.ops->ready(src.ctx));
        d = read_it(src);
        expect_decoded(&d, AHEAD_EOF, text, sizeof text, UINT64_MAX);
    }
    expect_int(pipe(fd), 0);
    expect_int(write(fd[1], text, 1000), 1000);
    close(fd[1]);
    expect_status(ahead_source_fd(&src, fd[0], AHEAD_FD_CLOSE), AHEAD_OK);
    expect_status(ahead_source_detect(&src, src, NULL, &found), AHEAD_OK);
    expect_int(found, AHEAD_FORMAT_PLAIN);
    expect_true(src.ops->split->wait(src.ctx, 0));
    d = read_it(src);
    expect_decoded(&d, AHEAD_EOF, text, 1000, UINT64_MAX);
}

/* A fault comes at its place, also where the input could have been asked anew. */
Test(detect, a_fault_of_the_input_comes_at_its_place)
{
    for (size_t len = 0; len < 30; len++) {
        for (int seeks = 0; seeks < 2; seeks++) {
            struct feed f = { .data = (const uint8_t *)"LZ4Bloc or something that is none",
                              .len = len,
                              .fault = EIO,
                              .seeks = seeks };
            struct ahead_source src;
            struct decoded d;

            expect_int(detect(&src, &f), AHEAD_FORMAT_PLAIN);
            d = read_it(src);
            expect_int(d.err.os_errno, EIO);
            expect_decoded(&d, AHEAD_IO, f.data, len, UINT64_MAX);
            expect_int(f.closed, 1);
        }
    }
}

Test(detect, what_was_read_is_decoded_from_the_start)
{
    struct bytes in[2] = { { .data = NULL }, { .data = NULL } };
    uint8_t plain[1000];
    struct frame f;

    fill_words(plain, sizeof plain, 4);
    put_lz4_block(&in[0], 0, plain, sizeof plain);
    put_end_mark(&in[0], 0);
    f = frame_begin(&in[1], FRAME_SUM, 4, 0, 0);
    frame_lz4(&f, plain, sizeof plain);
    frame_end(&f);
    for (int i = 0; i < 2; i++) {
        for (size_t piece = 0; piece < 9; piece++) {
            struct feed feed = { .data = in[i].data, .len = in[i].len, .piece = piece };
            struct ahead_source src;
            struct decoded d;

            expect_int(detect(&src, &feed), i ? AHEAD_FORMAT_LZ4_FRAME : AHEAD_FORMAT_LZ4_BLOCK);
            d = read_it(src);
            expect_decoded(&d, AHEAD_EOF, plain, sizeof plain, UINT64_MAX);
        }
        free(in[i].data);
    }
}

Test(detect, options_reach_the_decoder)
{
    static const struct ahead_lz4_options compat = { .compat = true };
    struct bytes in = { .data = NULL };
    struct ahead_source src;
    struct decoded d;
    struct feed f;

    put_raw_block(&in, 0, "abc", 3);
    f = (struct feed){ .data = in.data, .len = in.len };
    expect_status(ahead_source_detect(&src, feed_source(&f), &compat, NULL), AHEAD_OK);
    d = read_it(src);
    expect_decoded(&d, AHEAD_EOF, "abc", 3, UINT64_MAX);
    free(in.data);
}

Test(detect, wrong_calls_close_the_input)
{
    struct feed f = { .len = 0 };
    struct ahead_source src;

    expect_status(ahead_source_detect(NULL, feed_source(&f), NULL, NULL), AHEAD_INVALID);
    expect_int(f.closed, 1);
    expect_status(ahead_source_detect(&src, feed_source(&f),
                                      &(struct ahead_lz4_options){ .dict_len = 4 }, NULL),
                  AHEAD_INVALID);
    expect_int(f.closed, 2);
    expect_true(!src.ops);
}

/* A time that runs out in the input is waited over. */
Test(detect, again_and_again_until_the_bytes_are_there)
{
    const struct step steps[] = { BYTES(3), ERRNO_TIMES(EAGAIN, 3), ERRNO_TIMES(EINTR, 9), BYTES(5),
                                  END };
    struct script sc = { .data = (const uint8_t *)"LZ4Block", .step = steps };
    struct ahead_source src;
    enum ahead_format found;
    struct ahead_error err;

    expect_status(ahead_source_detect(&src, script_source(&sc), NULL, &found), AHEAD_OK);
    expect_int(found, AHEAD_FORMAT_LZ4_BLOCK);
    src.ops->close(src.ctx, &err);
    expect_str(script_closing_verdict(&sc), "ok");
}

/* ---- plain bytes behind a detection: a pipe is waited for and stopped as if it were alone ---- */

/* A stream over a pipe of ten bytes so far; *peer is its other end. */
static struct ahead_stream *open_piped(int *peer, const struct ahead_options *opt)
{
    struct ahead_source src;
    struct ahead_stream *s;
    enum ahead_format found;
    int end[2];

    expect_int(pipe(end), 0);
    expect_int(write(end[1], "plain text", 10), 10);
    expect_status(ahead_source_fd(&src, end[0], AHEAD_FD_CLOSE), AHEAD_OK);
    expect_status(ahead_source_detect(&src, src, NULL, &found), AHEAD_OK);
    expect_int(found, AHEAD_FORMAT_PLAIN);
    expect_true(src.ops->ready(src.ctx));
    expect_u64(src.ops->remaining(src.ctx), UINT64_MAX);
    expect_status(ahead_open(&s, src, opt), AHEAD_OK);
    *peer = end[1];
    return s;
}

static void expect_text(struct ahead_stream *s, const char *want)
{
    char text[16] = "";

    expect_status(ahead_read_full(s, text, strlen(want), NULL), AHEAD_OK);
    expect_str(text, want);
}

Test(detect, plain_pipe_is_waited_for_up_to_a_limit)
{
    for (unsigned flags = 0; flags <= AHEAD_SYNC; flags += AHEAD_SYNC) {
        const struct ahead_options opt = { .read_timeout_ms = (uint32_t)(100 * time_scale()),
                                           .flags = flags };
        int peer;
        struct ahead_stream *s = open_piped(&peer, &opt);
        uint8_t byte;

        expect_text(s, "plain text");
        /* With AHEAD_SYNC only a pipe that is the stream's own keeps the limit. */
        if (!flags)
            expect_status(ahead_read_u8(s, &byte), AHEAD_TIMEDOUT);
        expect_int(write(peer, " and more", 9), 9);
        expect_text(s, " and more");
        close(peer);
        expect_status(ahead_read_u8(s, &byte), AHEAD_EOF);
        expect_status(ahead_close(s), AHEAD_OK);
    }
}

Test(detect, plain_pipe_is_left_by_a_cancel)
{
    const struct ahead_options opt = { .flags = AHEAD_EAGER };
    int peer;
    struct ahead_stream *s = open_piped(&peer, &opt);
    uint8_t byte;

    expect_text(s, "plain text");
    ahead_cancel(s);
    expect_status(ahead_read_u8(s, &byte), AHEAD_CANCELLED);
    expect_status(ahead_close(s), AHEAD_OK);
    close(peer);
}

/* What is known of the rest counts from the first byte that was looked at. */
Test(detect, plain_rest_is_what_was_looked_at_and_what_follows)
{
    struct script sc = { .step = STEPS(PIECES(100, 8)), .has = HAS_REMAINING };
    struct ahead_source src;
    struct ahead_stream *s;
    uint64_t size;

    expect_status(ahead_source_detect(&src, script_source(&sc), NULL, NULL), AHEAD_OK);
    expect_u64(src.ops->remaining(src.ctx), 100);
    expect_status(ahead_open(&s, src, NULL), AHEAD_OK);
    expect_status(ahead_size(s, &size), AHEAD_OK);
    expect_u64(size, 100);
    expect_status(ahead_close(s), AHEAD_OK);
    expect_str(script_closing_verdict(&sc), "ok");
}

Test(detect, plain_rest_of_an_input_that_has_ended_is_what_was_looked_at)
{
    static const uint8_t part_of_a_magic[] = { 0x04, 0x22, 0x4d };
    struct script sc = { .step = STEPS(BYTES(3)), .data = part_of_a_magic };
    struct ahead_source src;
    struct ahead_error err;

    expect_status(ahead_source_detect(&src, script_source(&sc), NULL, NULL), AHEAD_OK);
    expect_u64(src.ops->remaining(src.ctx), 3);
    expect_status(src.ops->close(src.ctx, &err), AHEAD_OK);
}
