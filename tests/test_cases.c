/* SPDX-License-Identifier: Apache-2.0 */
/* test_cases.c - the files of tests/data, each as its manifest says.
 *
 * A row of MANIFEST.tsv: file, format, mode, status, bytes, sha256 of them,
 * offset of the fault in the file, options, what it is.  A row holds in both
 * modes unless there is one for compat with the same file and options. */
#include <ahead/lz4.h>
#include <ahead/stream.h>

#include "support/decode.h"
#include "support/expect.h"
#include "support/sha256.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct file {
    uint8_t *data;
    size_t len;
};

struct row {
    const char *file, *format, *mode, *status, *bytes, *sha256, *offset, *options, *note;
};

enum { MOST_ROWS = 600, PLENTY = 1 << 20 };

static struct file load(const char *name)
{
    char path[512];
    struct file f;
    FILE *in;

    snprintf(path, sizeof path, "%s/%s", TESTS_DATA, name);
    in = fopen(path, "rb");
    expect_note("%s", path);
    expect_true(in);
    fseek(in, 0, SEEK_END);
    f.len = (size_t)ftell(in);
    rewind(in);
    f.data = malloc(f.len + 1);
    expect_size(fread(f.data, 1, f.len, in), f.len);
    f.data[f.len] = '\0';
    fclose(in);
    expect_no_note();
    return f;
}

/* Cuts the text into rows; returns how many. */
static size_t parse(char *text, struct row rows[MOST_ROWS])
{
    size_t n = 0;
    char *line, *lines = text;

    strsep(&lines, "\n"); /* the header */
    while ((line = strsep(&lines, "\n")) && *line) {
        const char **field = &rows[n].file;

        expect_true(n < MOST_ROWS);
        for (unsigned i = 0; i < 9; i++) {
            *field = strsep(&line, "\t");
            expect_true(*field++);
        }
        n++;
    }
    return n;
}

static bool same_input(const struct row *a, const struct row *b)
{
    return !strcmp(a->file, b->file) && !strcmp(a->format, b->format) &&
           !strcmp(a->options, b->options);
}

static bool has_compat_row(const struct row *rows, size_t n, const struct row *row)
{
    for (size_t i = 0; i < n; i++)
        if (same_input(&rows[i], row) && !strcmp(rows[i].mode, "compat"))
            return true;
    return false;
}

/* The value of an option, into `value`; NULL: not there. */
static const char *option(const struct row *row, const char *key, char value[64])
{
    const char *at = row->options;
    size_t len = strlen(key);

    for (; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        if (!strncmp(at, key, len) && at[len] == '=') {
            size_t n = strcspn(at + len + 1, ",");

            snprintf(value, 64, "%.*s", (int)n, at + len + 1);
            return value;
        }
    }
    return NULL;
}

static size_t load_be(const uint8_t *p)
{
    uint64_t v = 0;

    for (unsigned i = 0; i < 8; i++)
        v = v << 8 | p[i];
    return (size_t)v;
}

/* A partition of a shuffle file is an input of its own, and may be empty. */
static void cut_partition(const struct row *row, struct feed *f, struct ahead_lz4_options *opt)
{
    char name[64], number[64];
    struct file index;
    size_t at, end, i;

    if (!option(row, "index", name))
        return;
    index = load(name);
    i = (size_t)atoi(option(row, "partition", number));
    at = load_be(index.data + 8 * i);
    end = load_be(index.data + 8 * i + 8);
    f->data += at;
    f->len = (end < f->len ? end : f->len) - at;
    opt->empty_ok = true;
    free(index.data);
}

static struct file set_options(const struct row *row, bool compat, struct ahead_lz4_options *opt)
{
    struct file dict = { .data = NULL };
    char value[64];

    *opt = (struct ahead_lz4_options){ .compat = compat };
    if (option(row, "max_block", value))
        opt->max_block_bytes = (size_t)atol(value);
    if (option(row, "dict_id", value))
        opt->dict_id = (uint32_t)atol(value);
    if (option(row, "dict", value)) {
        dict = load(value);
        opt->dict = dict.data;
        opt->dict_len = dict.len;
    }
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

static void try_row(const struct row *row, bool compat)
{
    struct file in = load(row->file);
    struct ahead_lz4_options opt;
    struct file dict = set_options(row, compat, &opt);
    struct decoded good = { .bytes = NULL };

    for (each_way(how)) {
        struct feed f = { .data = in.data,
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
        cut_partition(row, &f, &opt);
        if (how == decode_ways)
            try_streams(row, f, &opt, &good);
        expect_note("%s, %s, %s, way %d: %s", row->file, row->options, compat ? "compat" : "strict",
                    (int)(how - decode_ways), row->note);
        d = decode_all(open_as(row->format, &f, &opt), way);
        check(row, &d, &good);
        expect_int(f.closed, 1);
    }
    free(good.bytes);
    free(in.data);
    free(dict.data);
}

static void try_format(const char *format, size_t least)
{
    static struct row rows[MOST_ROWS];
    struct file manifest = load("MANIFEST.tsv");
    size_t n = parse((char *)manifest.data, rows), tried = 0;

    for (size_t i = 0; i < n; i++) {
        if (strcmp(rows[i].format, format) != 0)
            continue;
        tried++;
        if (!strcmp(rows[i].mode, "strict"))
            try_row(&rows[i], false);
        if (!strcmp(rows[i].mode, "compat") || !has_compat_row(rows, n, &rows[i]))
            try_row(&rows[i], true);
    }
    expect_true(tried >= least);
    free(manifest.data);
}

Test(cases, plain, .timeout = 60 * TIME_SCALE)
{
    try_format("plain", 10);
}

Test(cases, lz4_block, .timeout = 120 * TIME_SCALE)
{
    try_format("lz4-block", 132);
}

Test(cases, lz4_frame, .timeout = 120 * TIME_SCALE)
{
    try_format("lz4-frame", 138);
}
