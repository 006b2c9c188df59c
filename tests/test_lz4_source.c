/* SPDX-License-Identifier: Apache-2.0 */
/* test_lz4_source.c - what both decoders do as sources: owners, seeks, skips, hints, faults of the
 * input. */
#include <ahead/lz4.h>

#include "support/decode_lz4.h"
#include "support/script.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <unistd.h>

/* A stream of three blocks of 100 bytes, and where they start. */
struct sample {
    decoder_open open;
    struct bytes in;
    size_t at[4]; /* of the blocks; of the end mark */
    uint8_t plain[300];
};

static struct sample block_sample(void)
{
    struct sample s = { .open = ahead_source_lz4_block };

    fill_words(s.plain, sizeof s.plain, 1);
    for (size_t i = 0; i < 3; i++) {
        s.at[i] = s.in.len;
        put_lz4_block(&s.in, 0, s.plain + 100 * i, 100);
    }
    s.at[3] = s.in.len;
    put_end_mark(&s.in, 0);
    return s;
}

static struct sample frame_sample(unsigned flags)
{
    struct sample s = { .open = ahead_source_lz4_frame };
    struct frame f = frame_begin(&s.in, flags, 4, 300, 0);

    fill_words(s.plain, sizeof s.plain, 2);
    for (size_t i = 0; i < 3; i++) {
        s.at[i] = s.in.len;
        frame_lz4(&f, s.plain + 100 * i, 100);
    }
    s.at[3] = s.in.len;
    frame_end(&f);
    return s;
}

enum { SAMPLES = 3 };

static struct sample sample(unsigned which)
{
    switch (which) {
    case 0: return block_sample();
    case 1: return frame_sample(FRAME_INDEPENDENT | FRAME_BLOCK_SUMS | FRAME_SUM | FRAME_SIZE);
    }
    return frame_sample(FRAME_SUM);
}

/* for (each_sample(s, i)) { ... free(s.in.data); } */
#define each_sample(s, i)                                                                          \
    struct {                                                                                       \
        unsigned i;                                                                                \
        struct sample s;                                                                           \
    } it = { 0, sample(0) };                                                                       \
    it.i < SAMPLES;                                                                                \
    free(it.s.in.data), ++it.i < SAMPLES ? (void)(it.s = sample(it.i)) : (void)0

static ssize_t read_some(struct ahead_source src, void *dst, size_t len, struct ahead_error *err)
{
    *err = (struct ahead_error){ .source_offset = UINT64_MAX };
    return src.ops->read(src.ctx, dst, len, err);
}

static void close_it(struct ahead_source src)
{
    struct ahead_error err;

    expect_status(src.ops->close(src.ctx, &err), AHEAD_OK);
}

/* ---- owners ---- */

Test(lz4_source, a_constructor_that_fails_has_closed_the_input)
{
    static const struct ahead_lz4_options no_dict = { .dict_len = 1 };
    static const decoder_open open[] = { ahead_source_lz4_block, ahead_source_lz4_frame };

    for (int i = 0; i < 2; i++) {
        struct feed f = { .len = 0 };
        struct ahead_source src = { .ctx = &f };

        errno = 0;
        expect_status(open[i](NULL, feed_source(&f), NULL), AHEAD_INVALID);
        expect_int(errno, EINVAL);
        expect_int(f.closed, 1);
        expect_status(open[i](&src, feed_source(&f), &no_dict), AHEAD_INVALID);
        expect_int(f.closed, 2);
        expect_true(!src.ops && !src.ctx);
        expect_status(open[i](&src, (struct ahead_source){ .ops = NULL }, NULL), AHEAD_INVALID);
        expect_int(f.reads, 0);
    }
}

static enum ahead_status close_badly(void *ctx, struct ahead_error *err)
{
    ++*(int *)ctx;
    err->os_errno = ENOSPC;
    return err->status = AHEAD_IO;
}

static ssize_t read_nothing(void *ctx, void *dst, size_t len, struct ahead_error *err)
{
    (void)ctx, (void)dst, (void)len, (void)err;
    return 0;
}

Test(lz4_source, close_returns_what_the_input_says)
{
    static const struct ahead_source_ops ops = { .read = read_nothing, .close = close_badly };
    struct ahead_error err = { .status = AHEAD_OK };
    struct ahead_source src;
    int closed = 0;

    expect_status(ahead_source_lz4_frame(&src, (struct ahead_source){ &ops, &closed }, NULL),
                  AHEAD_OK);
    expect_status(src.ops->close(src.ctx, &err), AHEAD_IO);
    expect_int(err.os_errno, ENOSPC);
    expect_int(closed, 1);
}

/* ---- faults of the input ---- */

/* An input that fails anywhere is IO there, behind the blocks before it, and
 * never TRUNCATED or an end. */
Test(lz4_source, a_failing_input_is_io_behind_the_blocks_before_it)
{
    for (each_sample(s, i)) {
        for (size_t len = 0; len <= it.s.in.len; len++) {
            size_t blocks = 0;

            while (blocks < 3 && it.s.at[blocks + 1] <= len)
                blocks++;
            for (each_way(how)) {
                struct feed f = {
                    .data = it.s.in.data, .len = len, .fault = EIO, .piece = len % 7
                };
                struct decoded d;

                expect_note("sample %u, %zu bytes, way %d", it.i, len, (int)(how - decode_ways));
                d = decode_all(open_over(it.s.open, &f, NULL), *how);
                expect_int(d.err.os_errno, EIO);
                expect_true(strstr(d.err.text, "Input/output error"));
                expect_decoded(&d, AHEAD_IO, it.s.plain, 100 * blocks, len);
                expect_int(f.closed, 1);
            }
        }
    }
}

Test(lz4_source, a_fault_of_the_input_keeps_its_words)
{
    static const struct ahead_error fault = { .status = AHEAD_TRUNCATED,
                                              .os_errno = 5,
                                              .source_offset = 77,
                                              .text = "cut by somebody else" };

    for (each_sample(s, i)) {
        struct feed f = { .data = it.s.in.data, .len = it.s.at[1] + 3, .error = &fault };
        struct decoded d = decode_all(open_over(it.s.open, &f, NULL),
                                      (struct decode){ .way = DECODE_READ, .window = 1000 });

        expect_str(d.err.text, fault.text);
        expect_int(d.err.os_errno, 5);
        expect_decoded(&d, AHEAD_TRUNCATED, it.s.plain, 100, 77);
    }
}

/* F177: which check, where, what was expected and what was found; or what it is
 * instead. */
Test(lz4_source, faults_are_told_with_their_check_and_values)
{
    static const struct {
        decoder_open open;
        const char *hex;
        uint64_t at;
        const char *text;
    } of[] = {
        { ahead_source_lz4_block, "04224d18 6440a7 00000000 055dcc02 000000000000", 0,
          "no LZ4Block magic at input byte 0: this is an LZ4 frame" },
        { ahead_source_lz4_block, "1f8b0800 00000000 00030300 00000000 00000000 00", 0,
          "no LZ4Block magic at input byte 0: this is gzip" },
        { ahead_source_lz4_block, "28b52ffd 00000000 00000000 00000000 00000000 00", 0,
          "no LZ4Block magic at input byte 0: this is zstd" },
        { ahead_source_lz4_block, "4c5a34426c6f636b 16 01000000 01000000 1156680d 41", 0,
          "LZ4Block checksum of the block at input byte 0: expected 0x0d685611, its 1 bytes give "
          "0x0d685610" },
        { ahead_source_lz4_block,
          "4c5a34426c6f636b 16 01000000 01000000 1056680d 41 4c5a34426c6f636b 36 00", 22,
          "LZ4Block header at input byte 22: the input ends after 10 of 21 bytes" },
        { ahead_source_lz4_block,
          "4c5a34426c6f636b 16 01000000 01000000 1056680d 41 4c5a34426c6f636b 36 00000000 00000000"
          "00000000",
          22, "LZ4Block method at input byte 22: expected 0x10 or 0x20, found 0x30" },
        { ahead_source_lz4_frame, "4c5a34426c6f636b 16 00000000 00000000 00000000", 0,
          "no LZ4 frame magic at input byte 0: this is an LZ4Block stream" },
        { ahead_source_lz4_frame, "1f8b0800 0000", 0,
          "no LZ4 frame magic at input byte 0: this is gzip" },
        { ahead_source_lz4_frame, "28b52ffd 0000", 0,
          "no LZ4 frame magic at input byte 0: this is zstd" },
        { ahead_source_lz4_frame, "04224d18 6440a8 00000000 055dcc02", 0,
          "header checksum of the LZ4 frame at input byte 0: expected 0xa8, its bytes give 0xa7" },
        { ahead_source_lz4_frame, "04224d18 6440a7 01000080 41 00000000 4e9a6510", 16,
          "content checksum at input byte 16: expected 0x10659a4e, the frame's 1 bytes give "
          "0x10659a4d" },
        { ahead_source_lz4_frame, "04224d18 7440bd 01000080 41 4e9a6510 00000000 4d9a6510", 7,
          "checksum of the LZ4 frame block at input byte 7: expected 0x10659a4e, its 1 stored "
          "bytes give 0x10659a4d" },
        { ahead_source_lz4_frame, "04224d18 6440a7 01000080 41", 12,
          "end mark of the LZ4 frame at input byte 0 missing: the input ends at byte 12" },
    };

    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++) {
        struct bytes in = { .data = NULL };
        struct feed f;
        struct decoded d;

        put_hex(&in, of[i].hex);
        f = (struct feed){ .data = in.data, .len = in.len };
        expect_note("%s", of[i].hex);
        d = decode_all(open_over(of[i].open, &f, NULL),
                       (struct decode){ .way = DECODE_READ, .window = 1000 });
        expect_str(d.err.text, of[i].text);
        expect_u64(d.err.source_offset, of[i].at);
        free(d.bytes);
        free(in.data);
    }
    expect_no_note();
}

/* EINTR at once, EAGAIN a while later, a short wait for ever. */
Test(lz4_source, an_input_that_says_again_is_asked_again)
{
    for (each_sample(s, i)) {
        struct script sc = { .data = it.s.in.data,
                             .step = STEPS(ERRNO_TIMES(EINTR, 50), BYTES(10),
                                           ERRNO_TIMES(EAGAIN, 3), PIECES(1000, 7), ERRNO(EINTR)) };
        struct script cut = sc;
        const struct step steps[] = { ERRNO_TIMES(EINTR, 50), BYTES(10),
                                      ERRNO_TIMES(EAGAIN, 3), PIECES(it.s.in.len - 10, 7),
                                      ERRNO(EINTR),           END };
        struct ahead_source src;
        struct decoded d;

        cut.step = steps;
        (void)sc;
        expect_status(it.s.open(&src, script_source(&cut), NULL), AHEAD_OK);
        d = decode_all(src, (struct decode){ .way = DECODE_READ, .window = 1000 });
        expect_decoded(&d, AHEAD_EOF, it.s.plain, 300, UINT64_MAX);
        expect_str(script_closing_verdict(&cut), "ok");
    }
}

Test(lz4_source, an_input_that_returns_too_much_is_io)
{
    for (each_sample(s, i)) {
        const struct step steps[] = { BYTES(it.s.at[1] + 2), OVER(1), END };
        struct script sc = { .data = it.s.in.data, .step = steps };
        struct ahead_source src;
        struct decoded d;

        expect_status(it.s.open(&src, script_source(&sc), NULL), AHEAD_OK);
        d = decode_all(src, (struct decode){ .way = DECODE_STEPS, .window = 1000 });
        expect_decoded(&d, AHEAD_IO, it.s.plain, 100, UINT64_MAX);
    }
}

/* A time that runs out in the input is no ending. */
Test(lz4_source, a_timeout_of_the_input_can_be_followed_by_bytes)
{
    static struct ahead_error timeout = { .status = AHEAD_TIMEDOUT, .text = "too late" };

    for (each_sample(s, i)) {
        struct feed f = { .data = it.s.in.data, .len = it.s.at[2] - 1, .error = &timeout };
        struct ahead_source src = open_over(it.s.open, &f, NULL);
        struct ahead_error err;
        uint8_t got[300];

        expect_int(read_some(src, got, 300, &err), 100);
        for (int n = 0; n < 3; n++) {
            expect_int(read_some(src, got, 300, &err), -1);
            expect_status(err.status, AHEAD_TIMEDOUT);
        }
        f.len = it.s.in.len;
        f.error = NULL;
        for (ssize_t n = 100, got_now; n < 300; n += got_now) {
            got_now = read_some(src, got + n, (size_t)(300 - n), &err);
            expect_true(got_now > 0);
        }
        expect_mem(got, it.s.plain, 300);
        expect_int(read_some(src, got, 1, &err), 0);
        close_it(src);
    }
}

/* ---- latency ---- */

/* F223: the last byte of a block has come, and the next read would block. */
Test(lz4_source, a_block_is_delivered_before_the_next_is_waited_for)
{
    for (each_sample(s, i)) {
        for (int steps = 0; steps < 2; steps++) {
            struct feed f = { .data = it.s.in.data, .len = it.s.at[2], .fault = EIO };
            struct ahead_source src = open_over(it.s.open, &f, NULL);
            struct ahead_job job = { .bound = 0 };
            struct ahead_error err;
            uint8_t got[1 << 17];
            size_t n = 0;

            while (n < 200) {
                size_t len = 0;

                if (steps && it.i < 2) {
                    expect_int(src.ops->split->claim(src.ctx, &job, 65536, 65536, &err),
                               AHEAD_CLAIM_PIECE);
                    expect_status(src.ops->split->make(src.ctx, &job, got + n, &len, &err),
                                  AHEAD_OK);
                } else {
                    len = (size_t)read_some(src, got + n, 65536, &err);
                }
                n += len;
            }
            free(job.in);
            expect_size(n, 200);
            expect_mem(got, it.s.plain, 200);
            expect_int(f.after_end, 0);
            close_it(src);
        }
    }
}

Test(lz4_source, ready_tells_of_whole_blocks_and_of_the_input)
{
    for (each_sample(s, i)) {
        struct feed f = { .data = it.s.in.data, .len = it.s.at[2] + 1, .stingy = true };
        struct ahead_source src = open_over(it.s.open, &f, NULL);
        struct ahead_error err;
        uint8_t got[50];

        expect_true(src.ops->split->may_block(src.ctx));
        expect_true(!src.ops->ready(src.ctx));
        for (unsigned n = 0; n < 4; n++) {
            expect_int(read_some(src, got, sizeof got, &err), 50);
            expect_mem(got, it.s.plain + 50 * n, 50);
            expect_int(src.ops->ready(src.ctx), n < 3); /* the rest of a block, or the next one */
        }
        f.stingy = false;
        expect_true(src.ops->ready(src.ctx));
        expect_true(!src.ops->split->may_block(src.ctx));
        f.stingy = true;
        expect_int(read_some(src, got, sizeof got, &err), -1);
        expect_true(src.ops->ready(src.ctx)); /* the ending */
        close_it(src);
    }
}

/* A pipe of which a block comes in two halves: it is worth reading only when
 * the second has come. */
Test(lz4_source, wait_ends_with_a_whole_block)
{
    for (each_sample(s, i)) {
        struct ahead_source src;
        struct ahead_error err;
        uint8_t got[1000];
        int fd[2];

        expect_int(pipe(fd), 0);
        expect_status(ahead_source_fd(&src, fd[0], AHEAD_FD_CLOSE), AHEAD_OK);
        expect_status(it.s.open(&src, src, NULL), AHEAD_OK);
        expect_true(!src.ops->split->wait(src.ctx, 20));
        expect_int(write(fd[1], it.s.in.data, it.s.at[1] - 1), it.s.at[1] - 1);
        expect_true(!src.ops->split->wait(src.ctx, 20));
        expect_true(!src.ops->ready(src.ctx));
        expect_int(write(fd[1], it.s.in.data + it.s.at[1] - 1, 1), 1);
        expect_true(src.ops->split->wait(src.ctx, 10000));
        expect_true(src.ops->ready(src.ctx));
        expect_int(read_some(src, got, sizeof got, &err), 100);
        close(fd[1]);
        expect_true(src.ops->split->wait(src.ctx, 10000));
        expect_int(read_some(src, got, sizeof got, &err), -1);
        expect_status(err.status, AHEAD_TRUNCATED);
        close_it(src);
    }
}

static void *interrupt(void *arg)
{
    struct ahead_source *src = arg;

    usleep(20000);
    src->ops->interrupt(src->ctx);
    return NULL;
}

Test(lz4_source, interrupt_gets_through_to_a_pipe, .timeout = 20 * TIME_SCALE)
{
    for (each_sample(s, i)) {
        struct ahead_source src;
        struct ahead_error err;
        uint8_t got[100];
        pthread_t thread;
        int fd[2];

        expect_int(pipe(fd), 0);
        expect_status(ahead_source_fd(&src, fd[0], AHEAD_FD_CLOSE), AHEAD_OK);
        expect_status(it.s.open(&src, src, NULL), AHEAD_OK);
        expect_int(pthread_create(&thread, NULL, interrupt, &src), 0);
        expect_true(read_some(src, got, sizeof got, &err) <= 0);
        expect_int(pthread_join(thread, NULL), 0);
        expect_true(read_some(src, got, sizeof got, &err) <= 0); /* and every later one */
        close_it(src);
        close(fd[1]);
    }
}

/* Of a pipe that says nothing: neither open, nor a first buffer or read with a
 * time limit, waits for what a decoder has to see of its input. */
Test(lz4_source, open_waits_for_no_byte, .timeout = 20 * TIME_SCALE)
{
    for (each_sample(s, i)) {
        static const struct ahead_options as[] = {
            { .flags = 0 },
            { .flags = AHEAD_EAGER },
            { .flags = 0, .read_timeout_ms = 20 },
            { .flags = AHEAD_EAGER, .read_timeout_ms = 20 },
        };

        for (size_t k = 0; k < sizeof as / sizeof *as; k++) {
            struct ahead_source src;
            struct ahead_stream *s;
            struct ahead_buffer buf;
            uint8_t byte;
            size_t got;
            int fd[2];

            expect_note("sample %u, options %zu", it.i, k);
            expect_int(pipe(fd), 0);
            expect_status(ahead_source_fd(&src, fd[0], AHEAD_FD_CLOSE), AHEAD_OK);
            expect_status(it.s.open(&src, src, NULL), AHEAD_OK);
            expect_status(ahead_open(&s, src, &as[k]), AHEAD_OK);
            if (as[k].read_timeout_ms) {
                expect_status(ahead_buffer_alloc(s, &buf), AHEAD_TIMEDOUT);
                expect_status(ahead_error(s)->status, AHEAD_TIMEDOUT);
                expect_status(ahead_read(s, &byte, 1, &got), AHEAD_TIMEDOUT);
            }
            expect_status(ahead_close(s), AHEAD_OK);
            close(fd[1]);
        }
    }
    expect_no_note();
}

/* Delivers the same elements for ever; none of them makes a byte. */
struct endless {
    struct bytes head, again; /* head: once, in front */
    size_t pos;
};

static ssize_t endless_read(void *ctx, void *dst, size_t len, struct ahead_error *err)
{
    struct endless *e = ctx;
    const struct bytes *from = e->pos < e->head.len ? &e->head : &e->again;
    size_t at = e->pos < e->head.len ? e->pos : (e->pos - e->head.len) % e->again.len;
    size_t n = from->len - at < len ? from->len - at : len;

    (void)err;
    memcpy(dst, from->data + at, n);
    e->pos += n;
    return (ssize_t)n;
}

static const struct ahead_source_ops endless_ops = { .read = endless_read };

/* A hundred of each, so that reading them takes fewer calls. */
static decoder_open make_endless(struct endless *e, int what)
{
    *e = (struct endless){ .pos = 0 };
    if (what == 3)
        frame_begin(&e->head, 0, 4, 0, 0);
    for (unsigned i = 0; i < 100; i++) {
        struct frame f;

        switch (what) {
        case 0: put_end_mark(&e->again, 6); break;
        case 1: put_skippable(&e->again, 5, 3); break;
        case 2:
            f = frame_begin(&e->again, FRAME_SUM, 4, 0, 0);
            frame_end(&f);
            break;
        case 3: put_le(&e->again, 0x80000000, 4); break; /* a raw block of no bytes */
        }
    }
    return what ? ahead_source_lz4_frame : ahead_source_lz4_block;
}

static void *cancel(void *arg)
{
    usleep(20000);
    ahead_cancel(arg);
    return NULL;
}

/* The input never waits, so that nothing but the decoder can end it. */
Test(lz4_source, an_input_of_nothing_can_be_stopped, .timeout = 20 * TIME_SCALE)
{
    static const unsigned flags[] = { 0, AHEAD_EAGER, AHEAD_SYNC };

    for (int what = 0; what < 4; what++)
        for (unsigned i = 0; i < 3; i++) {
            struct ahead_options opt = { .flags = flags[i] };
            struct endless e;
            decoder_open open = make_endless(&e, what);
            struct ahead_source src = { .ops = &endless_ops, .ctx = &e };
            struct ahead_stream *s;
            pthread_t thread;
            uint8_t byte;
            size_t got;

            expect_note("elements %d, flags %u", what, opt.flags);
            expect_status(open(&src, src, NULL), AHEAD_OK);
            expect_status(ahead_open(&s, src, &opt), AHEAD_OK);
            expect_int(pthread_create(&thread, NULL, cancel, s), 0);
            expect_status(ahead_read(s, &byte, 1, &got), AHEAD_CANCELLED);
            expect_int(pthread_join(thread, NULL), 0);
            expect_status(ahead_close(s), AHEAD_OK);
            free(e.head.data);
            free(e.again.data);
        }
    expect_no_note();
}

/* ---- seek and skip ---- */

Test(lz4_source, seek_goes_back_to_the_start)
{
    for (each_sample(s, i)) {
        struct feed f = { .data = it.s.in.data, .len = it.s.in.len, .seeks = true };
        struct ahead_source src = open_over(it.s.open, &f, NULL);
        struct ahead_error err;
        struct decoded d;
        uint8_t got[300];

        /* from the middle of a block, from the end, from a fault */
        expect_int(read_some(src, got, 130, &err), 100);
        expect_int(read_some(src, got, 30, &err), 30);
        expect_status(src.ops->seek(src.ctx, 1, &err), AHEAD_UNSUPPORTED);
        expect_int(read_some(src, got, 1, &err), 1);
        expect_int(got[0], it.s.plain[130]);
        for (unsigned n = 0; n < 3; n++) {
            expect_status(src.ops->seek(src.ctx, 0, &err), AHEAD_OK);
            f.data = it.s.in.data;
            d = decode_to_end(src, (struct decode){ .way = n % 2 ? DECODE_STEPS : DECODE_READ });
            expect_decoded(&d, AHEAD_EOF, it.s.plain, 300, UINT64_MAX);
            expect_status(src.ops->seek(src.ctx, 0, &err), AHEAD_OK);
            f.data = (const uint8_t *)"garbage, more than a header would be";
            f.len = 30;
            expect_int(read_some(src, got, 1, &err), -1);
            expect_status(err.status, AHEAD_CORRUPT);
            f.len = it.s.in.len;
        }
        close_it(src);
    }
}

Test(lz4_source, seek_needs_an_input_that_seeks)
{
    for (each_sample(s, i)) {
        struct feed f = { .data = it.s.in.data, .len = it.s.in.len };
        struct ahead_source src = open_over(it.s.open, &f, NULL);
        struct ahead_error err;
        uint8_t got[300];

        expect_int(read_some(src, got, 50, &err), 50);
        expect_status(src.ops->seek(src.ctx, 0, &err), AHEAD_UNSUPPORTED);
        expect_true(err.text[0]);
        expect_int(read_some(src, got + 50, 50, &err), 50);
        expect_mem(got, it.s.plain, 100);
        close_it(src);
    }
}

/* What a function of the caller's leaves out is filled in. */
static enum ahead_status
skip_ten(void *ctx, uint64_t n, uint64_t *skipped, struct ahead_error *err)
{
    struct feed *f = ctx;

    (void)n, (void)err;
    f->pos += 10;
    *skipped = 10;
    return AHEAD_LIMIT;
}

static enum ahead_status seek_nowhere(void *ctx, uint64_t offset, struct ahead_error *err)
{
    (void)ctx, (void)offset, (void)err;
    return AHEAD_IO;
}

Test(lz4_source, an_input_that_fails_without_a_word_is_described)
{
    struct bytes in = { .data = NULL };
    struct ahead_source_ops ops;
    struct ahead_source src;
    struct ahead_error err;
    struct feed f;
    uint8_t byte;

    put_skippable(&in, 0, 1000000);
    f = (struct feed){ .data = in.data, .len = in.len, .seeks = true, .skips = true };
    src = feed_source(&f);
    ops = *src.ops;
    ops.skip = skip_ten;
    ops.seek = seek_nowhere;
    src.ops = &ops;
    expect_status(ahead_source_lz4_frame(&src, src, NULL), AHEAD_OK);
    expect_int(read_some(src, &byte, 1, &err), -1);
    expect_status(err.status, AHEAD_LIMIT);
    expect_u64(err.source_offset, f.pos);
    expect_true(strstr(err.text, "LIMIT"));
    expect_status(src.ops->seek(src.ctx, 0, &err), AHEAD_IO);
    expect_status(err.status, AHEAD_IO);
    expect_true(strstr(err.text, "did not go back"));
    close_it(src);
    free(in.data);
}

Test(lz4_source, skip_passes_over_decoded_bytes)
{
    for (each_sample(s, i)) {
        for (size_t n = 0; n <= 301; n++) {
            struct feed f = { .data = it.s.in.data, .len = it.s.in.len };
            struct ahead_source src = open_over(it.s.open, &f, NULL);
            struct ahead_error err;
            uint64_t skipped = 99;
            struct decoded d;

            expect_note("%zu bytes", n);
            expect_status(src.ops->skip(src.ctx, n, &skipped, &err), AHEAD_OK);
            expect_u64(skipped, n < 300 ? n : 300);
            d = decode_all(src, (struct decode){ .way = n % 2 ? DECODE_READ : DECODE_STEPS });
            expect_decoded(&d, AHEAD_EOF, it.s.plain + skipped, 300 - (size_t)skipped, UINT64_MAX);
        }
    }
    expect_no_note();
}

Test(lz4_source, skip_sees_damage)
{
    for (each_sample(s, i)) {
        struct feed f = { .data = it.s.in.data, .len = it.s.in.len };
        struct ahead_source src;
        struct ahead_error err;
        uint64_t skipped;

        it.s.in.data[it.s.at[1] + 8] ^= 0x40; /* LZ4Block: the method; a frame: the data */
        src = open_over(it.s.open, &f, NULL);
        expect_status(src.ops->skip(src.ctx, 250, &skipped, &err),
                      it.i == 2 ? AHEAD_OK : AHEAD_CORRUPT);
        expect_u64(skipped, it.i == 2 ? 250 : 100);
        close_it(src);
    }
}

/* ---- claims ---- */

Test(lz4_source, a_block_above_the_room_is_left_where_it_is)
{
    for (each_sample(s, i)) {
        struct feed f = { .data = it.s.in.data, .len = it.s.in.len };
        struct ahead_source src = open_over(it.s.open, &f, NULL);
        struct ahead_job job = { .bound = 0 };
        struct ahead_error err;
        uint8_t got[300];

        if (it.i == 2) {
            expect_int(src.ops->split->claim(src.ctx, &job, 65536, 65536, &err), AHEAD_CLAIM_READ);
        } else {
            expect_int(src.ops->split->claim(src.ctx, &job, 10, 99, &err), AHEAD_CLAIM_NO_ROOM);
            expect_int(src.ops->split->claim(src.ctx, &job, 10, 99, &err), AHEAD_CLAIM_NO_ROOM);
        }
        expect_int(read_some(src, got, 40, &err), 40);
        expect_int(src.ops->split->claim(src.ctx, &job, 65536, 65536, &err), AHEAD_CLAIM_READ);
        expect_int(read_some(src, got + 40, 300, &err), 60);
        expect_mem(got, it.s.plain, 100);
        free(job.in);
        close_it(src);
    }
}

/* A file of linked and of independent frames in turn: each in its own way. */
Test(lz4_source, frames_are_split_or_not_one_by_one)
{
    struct bytes in = { .data = NULL };
    struct bytes plain = { .data = NULL };
    struct decoded d;
    struct feed f;

    for (unsigned i = 0; i < 6; i++) {
        struct frame frame = frame_begin(&in, (i % 2 ? FRAME_INDEPENDENT : 0) | FRAME_SUM, 4, 0, 0);
        uint8_t *p = grow(&plain, 3000);

        fill_words(p, 3000, i);
        frame_lz4(&frame, p, 2000);
        frame_lz4(&frame, p + 2000, 1000);
        frame_end(&frame);
    }
    f = (struct feed){ .data = in.data, .len = in.len };
    d = decode_all(open_over(ahead_source_lz4_frame, &f, NULL),
                   (struct decode){ .way = DECODE_THREADS, .window = 1 << 18 });
    expect_true(d.pieces >= 3 && d.reads >= 3);
    expect_decoded(&d, AHEAD_EOF, plain.data, plain.len, UINT64_MAX);
    free(in.data);
    free(plain.data);
}

Test(lz4_source, unit_is_the_largest_block)
{
    static const struct {
        decoder_open open;
        const char *hex;
        size_t unit, limit;
    } of[] = {
        { ahead_source_lz4_block, "4c5a34426c6f636b 15 000000000000000000000000", 32768, 0 },
        { ahead_source_lz4_block, "4c5a34426c6f636b 1f 000000000000000000000000", 4096, 4096 },
        { ahead_source_lz4_block, "4c5a34426c6f636b 1f 0000000000000000000000", 0, 0 },
        { ahead_source_lz4_block, "00", 0, 0 },
        { ahead_source_lz4_frame, "04224d18 64 60 85", 1 << 20, 0 },
        { ahead_source_lz4_frame, "502a4d18 03000000 000000 5f2a4d18 00000000 02214c18", 8 << 20,
          0 },
        { ahead_source_lz4_frame, "502a4d18 03000000 0000", 0, 0 },
        { ahead_source_lz4_frame, "04224d18 64 60 86", 0, 0 },
    };

    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++) {
        struct bytes in = { .data = NULL };
        struct feed f;
        struct ahead_source src;

        put_hex(&in, of[i].hex);
        f = (struct feed){ .data = in.data, .len = in.len, .piece = 3 };
        expect_note("%s", of[i].hex);
        src = open_over(of[i].open, &f,
                        &(struct ahead_lz4_options){ .max_block_bytes = of[i].limit });
        expect_size(src.ops->unit(src.ctx), of[i].unit);
        expect_size(src.ops->unit(src.ctx), of[i].unit);
        close_it(src);
        free(in.data);
    }
}

/* What unit() has read is there for read(). */
Test(lz4_source, unit_takes_nothing_away)
{
    for (each_sample(s, i)) {
        struct feed f = { .data = it.s.in.data, .len = it.s.in.len, .piece = 1 };
        struct ahead_source src = open_over(it.s.open, &f, NULL);
        struct decoded d;

        expect_size(src.ops->unit(src.ctx), it.i ? 65536 : 1024);
        d = decode_all(src, (struct decode){ .way = DECODE_STEPS, .window = 1 << 18 });
        expect_decoded(&d, AHEAD_EOF, it.s.plain, 300, UINT64_MAX);
    }
}

/* ---- inputs ---- */

/* Over memory nothing is copied, over a pipe everything comes in pieces. */
Test(lz4_source, memory_and_pipes_give_the_same)
{
    for (each_sample(s, i)) {
        for (each_way(how)) {
            struct ahead_source src;
            struct ahead_error err;
            struct decoded d;
            int fd[2];

            expect_status(ahead_source_memory(&src, it.s.in.data, it.s.in.len), AHEAD_OK);
            expect_status(it.s.open(&src, src, NULL), AHEAD_OK);
            expect_true(!src.ops->split->may_block(src.ctx));
            d = decode_to_end(src, *how);
            expect_decoded(&d, AHEAD_EOF, it.s.plain, 300, UINT64_MAX);
            expect_status(src.ops->seek(src.ctx, 0, &err), AHEAD_OK);
            d = decode_all(src, *how);
            expect_decoded(&d, AHEAD_EOF, it.s.plain, 300, UINT64_MAX);

            expect_int(pipe(fd), 0);
            expect_int(write(fd[1], it.s.in.data, it.s.in.len), it.s.in.len);
            close(fd[1]);
            expect_status(ahead_source_fd(&src, fd[0], AHEAD_FD_CLOSE), AHEAD_OK);
            expect_status(it.s.open(&src, src, NULL), AHEAD_OK);
            d = decode_all(src, *how);
            expect_decoded(&d, AHEAD_EOF, it.s.plain, 300, UINT64_MAX);
        }
    }
}

/* Every prefix again, from memory. */
Test(lz4_source, cut_memory_is_truncated_where_it_is_cut)
{
    for (each_sample(s, i)) {
        for (size_t len = 0; len <= it.s.in.len; len++) {
            struct reference want = refer(it.s.open, it.s.in.data, len, NULL);
            struct ahead_source src;
            struct decoded d;

            expect_status(ahead_source_memory(&src, it.s.in.data, len), AHEAD_OK);
            expect_status(it.s.open(&src, src, NULL), AHEAD_OK);
            d = decode_all(src, (struct decode){ .way = len % DECODE_WAYS, .window = 1000 });
            expect_decoded(&d, want.status, want.bytes, want.len, want.offset);
            free(want.bytes);
        }
    }
}

/* ---- options ---- */

Test(lz4_source, empty_ok_is_for_inputs_of_no_bytes)
{
    static const struct ahead_lz4_options empty_ok = { .empty_ok = true };

    for (each_sample(s, i)) {
        expect_all_ways(it.s.open, it.s.in.data, 0, &empty_ok);
        expect_all_ways(it.s.open, it.s.in.data, 0, NULL);
        expect_all_ways(it.s.open, it.s.in.data, 1, &empty_ok);
        expect_all_ways(it.s.open, it.s.in.data, it.s.at[1], &empty_ok);
        expect_all_ways(it.s.open, it.s.in.data, it.s.at[3], &empty_ok);
    }
}

Test(lz4_source, without_checksums_damage_shows_where_it_does_not_decode)
{
    static const struct ahead_lz4_options unchecked = { .no_checksums = true };

    for (each_sample(s, i))
        expect_every_flip(it.s.open, &it.s.in, &unchecked);
}

/* ---- bounds ---- */

static size_t allocated(void)
{
    struct mallinfo2 m = mallinfo2();

    return m.uordblks + m.hblkhd;
}

/* F173, F178: a length is no reason to take memory before it has been judged,
 * nor above the limit.  (A sanitizer's allocator says nothing here.) */
Test(lz4_source, memory_is_taken_for_lengths_that_are_allowed)
{
    static const struct {
        decoder_open open;
        const char *hex;
        size_t most;
    } of[] = {
        { ahead_source_lz4_block, "4c5a34426c6f636b 2f ffffff7f ffffff01 00000000 00", 1 << 20 },
        { ahead_source_lz4_block, "4c5a34426c6f636b 2f 00000002 00000002 00000000 00", 1 << 20 },
        { ahead_source_lz4_block, "4c5a34426c6f636b 2f 00001000 00001000 00000000 00", 2 << 20 },
        { ahead_source_lz4_frame, "04224d18 60 70 73 ffffff7f", 1 << 20 },
        { ahead_source_lz4_frame, "04224d18 60 40 82 00000100", 1 << 20 },
        { ahead_source_lz4_frame, "502a4d18 ffffffff 00", 1 << 20 },
        { ahead_source_lz4_frame, "02214c18 00008000 00", 1 << 20 },
        { ahead_source_lz4_frame, "04224d18 68 40 ffffffffffffff7f 00", 1 << 20 },
    };
    const struct ahead_lz4_options opt = { .max_block_bytes = 1 << 20 };

    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++) {
        struct bytes in = { .data = NULL };
        size_t before;
        struct ahead_source src;
        struct ahead_error err;
        uint8_t byte;
        struct feed f;

        put_hex(&in, of[i].hex);
        f = (struct feed){ .data = in.data, .len = in.len };
        before = allocated();
        expect_note("%s", of[i].hex);
        src = open_over(of[i].open, &f, &opt);
        expect_int(read_some(src, &byte, 1, &err), -1);
        expect_true(allocated() - before < of[i].most);
        close_it(src);
        free(in.data);
    }
}

/* F178: a reader that stops has had little more than its buffers made for it. */
Test(lz4_source, no_more_is_decoded_than_there_is_room_for)
{
    enum { BLOCK = 4096, BLOCKS = 2048, BUFFER = 65536, READ = 1000 };
    static uint8_t block[BLOCK];
    struct bytes of[2] = { { .data = NULL } };
    struct frame frame = frame_begin(&of[1], FRAME_INDEPENDENT, 4, 0, 0);

    for (unsigned i = 0; i < BLOCKS; i++) {
        put_raw_block(&of[0], 2, block, BLOCK);
        frame_raw(&frame, block, BLOCK);
    }
    frame_end(&frame);
    for (unsigned i = 0; i < 4; i++) {
        const struct ahead_options opt = { .buffer_bytes = BUFFER,
                                           .flags = i / 2 ? AHEAD_EAGER : 0 };
        struct feed f = { .data = of[i % 2].data, .len = of[i % 2].len };
        struct ahead_stats stats;
        struct ahead_stream *s;
        uint8_t got[READ];
        size_t n;

        expect_status(
            ahead_open(&s,
                       open_over(i % 2 ? ahead_source_lz4_frame : ahead_source_lz4_block, &f, NULL),
                       &opt),
            AHEAD_OK);
        for (unsigned k = 0; k < 200; k++) /* far enough for the second thread to have come */
            expect_status(ahead_read_full(s, got, READ, &n), AHEAD_OK);
        usleep(20000); /* one that would go on has the time to show it */
        ahead_get_stats(s, &stats);
        expect_u64(stats.bytes, 200 * READ);
        expect_status(ahead_close(s), AHEAD_OK);
        /* Two makers; the input in its two places; and each block's header. */
        expect_true(f.pos <= (200 * READ + 2 * BUFFER + 2 * BUFFER) * 101 / 100 + 3 * 69632);
    }
    free(of[0].data);
    free(of[1].data);
}

/* Repeats a few bytes, so many times. */
struct repeat {
    const uint8_t *bytes;
    size_t len;
    uint64_t left, at; /* bytes */
};

static ssize_t repeat_read(void *ctx, void *dst, size_t len, struct ahead_error *err)
{
    struct repeat *r = ctx;
    size_t n = len < r->left ? len : (size_t)r->left;

    (void)err;
    for (size_t i = 0; i < n; i++)
        ((uint8_t *)dst)[i] = r->bytes[r->at++ % r->len];
    r->left -= n;
    return (ssize_t)n;
}

struct on_small_stack {
    struct ahead_source src;
    uint8_t byte;
    ssize_t got;
    enum ahead_claim claimed;
    size_t grown;
};

static void *read_to_the_end(void *arg)
{
    struct on_small_stack *o = arg;
    struct ahead_job job = { .bound = 0 };
    struct ahead_error err;
    size_t before = allocated();

    o->got = o->src.ops->read(o->src.ctx, &o->byte, 1, &err);
    o->claimed = o->src.ops->split->claim(o->src.ctx, &job, 65536, 65536, &err);
    o->grown = allocated() - before;
    free(job.in);
    return NULL;
}

/* F167 */
Test(lz4_source, a_million_empty_members_on_a_small_stack, .timeout = 60 * TIME_SCALE)
{
    static const struct {
        decoder_open open;
        const char *hex;
    } of[] = {
        { ahead_source_lz4_block, "4c5a34426c6f636b 15 000000000000000000000000" },
        { ahead_source_lz4_frame, "04224d18 64 40 a7 00000000 055dcc02" },
        { ahead_source_lz4_frame, "04224d18 60 40 82 00000000" },
        { ahead_source_lz4_frame, "502a4d18 00000000" },
        { ahead_source_lz4_frame, "02214c18" },
    };
    static const struct ahead_source_ops ops = { .read = repeat_read };

    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++) {
        struct bytes in = { .data = NULL };
        struct on_small_stack o = { .got = -1 };
        struct repeat r;
        pthread_attr_t attr;
        pthread_t thread;

        put_hex(&in, of[i].hex);
        r = (struct repeat){ .bytes = in.data, .len = in.len, .left = 1000000u * in.len };
        expect_note("%s", of[i].hex);
        expect_status(of[i].open(&o.src, (struct ahead_source){ &ops, &r }, NULL), AHEAD_OK);
        expect_int(pthread_attr_init(&attr), 0);
        expect_int(pthread_attr_setstacksize(&attr, 65536), 0);
        expect_int(pthread_create(&thread, &attr, read_to_the_end, &o), 0);
        expect_int(pthread_join(thread, NULL), 0);
        expect_int(o.got, 0);
        expect_int(o.claimed, AHEAD_CLAIM_ENDING);
        expect_u64(r.at, 1000000u * in.len);
        expect_true(o.grown < 1 << 20);
        close_it(o.src);
        pthread_attr_destroy(&attr);
        free(in.data);
    }
}
