/* SPDX-License-Identifier: Apache-2.0 */
/* test_cases.c - plain bytes, LZ4 frames and LZ4Block streams of tests/data, each decoded in every
 * way as its manifest says; partitions of a file are in test_format_cases.c. */
#include <ahead/lz4.h>
#include <ahead/stream.h>

#include "support/decode.h"
#include "support/expect.h"
#include "support/manifest.h"
#include "support/sha256.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PLENTY = 1 << 20 };

static struct bytes set_options(const struct row *row, bool compat, struct ahead_lz4_options *opt)
{
    const char *name = row_option(row, "dict");
    struct bytes dict = { .p = NULL };

    if (name)
        dict = data_load(name);
    *opt = (struct ahead_lz4_options){
        .compat = compat,
        .max_block_bytes = (size_t)row_number(row, "max_block", 0),
        .dict = dict.p,
        .dict_len = dict.len,
        .dict_id = (uint32_t)row_number(row, "dict_id", 0),
    };
    return dict;
}

static struct ahead_source
open_as(const char *format, struct feed *f, const struct ahead_lz4_options *opt)
{
    struct ahead_source src = feed_source(f);

    if (!strcmp(format, "lz4-block"))
        expect_status(ahead_source_lz4_block(&src, src, opt), AHEAD_OK);
    else if (!strcmp(format, "lz4-frame"))
        expect_status(ahead_source_lz4_frame(&src, src, opt), AHEAD_OK);
    else
        expect_str(format, "plain");
    return src;
}

/* `good`: the bytes of an earlier way, whose sum has been looked at. */
static void check(const struct row *row, struct decoded *d, struct decoded *good)
{
    char hex[65];

    expect_str(ahead_status_name(d->err.status), row->status);
    expect_size(d->len, (size_t)atol(row->bytes));
    if (strcmp(row->offset, "-") != 0)
        expect_u64(d->err.source_offset, (uint64_t)atoll(row->offset));
    if (good->bytes) {
        expect_mem(d->bytes, good->bytes, d->len);
        free(d->bytes);
        return;
    }
    sha256_hex(hex, d->bytes, d->len);
    expect_str(hex, row->sha256);
    *good = *d;
}

/* The same through a stream: with its thread, from the start or not, and
 * without, with buffers that hold a block and that do not. */
static struct decoded by_stream(struct ahead_source src, size_t buffer_bytes, unsigned flags)
{
    const struct ahead_options opt = { .buffer_bytes = buffer_bytes, .flags = flags };
    struct decoded d = { .bytes = NULL };
    enum ahead_status st;
    struct ahead_stream *s;
    size_t got;

    expect_status(ahead_open(&s, src, &opt), AHEAD_OK);
    do {
        if (d.cap - d.len < 100000) {
            d.cap = 2 * d.len + 200000;
            d.bytes = realloc(d.bytes, d.cap);
            expect_true(d.bytes);
        }
        st = ahead_read(s, d.bytes + d.len, 100000, &got);
        d.len += got;
    } while (!st);
    d.err = *ahead_error(s);
    expect_status(d.err.status, st);
    expect_u64(d.err.offset, d.len);
    expect_status(ahead_close(s), st == AHEAD_EOF ? AHEAD_OK : st);
    return d;
}

static void try_streams(const struct row *row, struct feed f, const struct ahead_lz4_options *opt,
                        struct decoded *good)
{
    static const struct {
        size_t buffer_bytes;
        unsigned flags;
    } as[] = { { 0, 0 }, { 0, AHEAD_EAGER }, { 40000, AHEAD_SYNC }, { 1000, 0 }, { 100000, 0 } };

    for (size_t i = 0; i < sizeof as / sizeof as[0]; i++) {
        struct feed feed = f;
        struct decoded d;

        expect_note("%s, %s, %s, stream %zu: %s", row->file, row->options,
                    opt->compat ? "compat" : "strict", i, row->note);
        d = by_stream(open_as(row->format, &feed, opt), as[i].buffer_bytes, as[i].flags);
        check(row, &d, good);
        expect_int(feed.closed, 1);
    }
}

/* F164: from reads of one byte, and of 1 to 5. */
static void try_crumbs(const struct row *row, struct feed f, const struct ahead_lz4_options *opt,
                       struct decoded *good)
{
    for (size_t piece = 1; piece <= 5; piece += 4) {
        struct feed feed = f;
        struct decoded d;

        feed.piece = piece;
        expect_note("%s, %s, %s, reads of up to %zu", row->file, row->options,
                    opt->compat ? "compat" : "strict", piece);
        d = decode_all(open_as(row->format, &feed, opt),
                       (struct decode){ .way = DECODE_READ, .window = 1 << 18 });
        check(row, &d, good);
        expect_int(feed.closed, 1);
    }
}

static void try_row(const struct row *row, bool compat)
{
    struct bytes in = data_load(row->file);
    struct ahead_lz4_options opt;
    struct bytes dict = set_options(row, compat, &opt);
    struct decoded good = { .bytes = NULL };

    for (each_way(how)) {
        struct feed f = { .data = in.p,
                          .len = in.len,
                          .piece = 70000,
                          .random = true,
                          .seeks = true,
                          .skips = how->way == DECODE_STEPS };
        struct decode way = *how;
        struct decoded d;

        if (!strcmp(row->format, "plain"))
            way = (struct decode){ .way = DECODE_READ, .window = 1000 };
        if (way.window && way.window < 4096 && atol(row->bytes) > PLENTY)
            continue; /* takes long, and shows nothing that the smaller files do not */
        if (how == decode_ways) {
            try_streams(row, f, &opt, &good);
            try_crumbs(row, f, &opt, &good);
        }
        expect_note("%s, %s, %s, way %d: %s", row->file, row->options, compat ? "compat" : "strict",
                    (int)(how - decode_ways), row->note);
        d = decode_all(open_as(row->format, &f, &opt), way);
        check(row, &d, &good);
        expect_int(f.closed, 1);
    }
    free(good.bytes);
    free(in.p);
    free(dict.p);
}

Test(cases, plain, .timeout = 60 * TIME_SCALE)
{
    manifest_try("plain", ROWS_WHOLE, 10, try_row);
}

Test(cases, lz4_block, .timeout = 120 * TIME_SCALE)
{
    manifest_try("lz4-block", ROWS_WHOLE, 128, try_row);
}

Test(cases, lz4_frame, .timeout = 120 * TIME_SCALE)
{
    manifest_try("lz4-frame", ROWS_WHOLE, 138, try_row);
}
