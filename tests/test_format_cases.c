/* SPDX-License-Identifier: Apache-2.0 */
/* test_format_cases.c - spills, Comet's shuffle files and indexed partitions of tests/data, each as
 * its manifest says. */
#include <ahead/ahead.h>
#include <ahead/lz4.h>

#include "support/expect.h"
#include "support/manifest.h"
#include "support/reading.h"
#include "support/sha256.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What a read came to. */
struct outcome {
    struct bytes got;
    uint64_t elements;
    struct ahead_error err;
};

/* The file, or its partition.  Not AHEAD_OK: the index is wrong. */
static enum ahead_status
open_source(const struct row *row, struct ahead_source *src, struct ahead_error *err)
{
    int fd = open(data_path(row->file), O_RDONLY | O_CLOEXEC);
    struct ahead_index *x;
    struct ahead_source index;
    uint64_t offset, length;
    enum ahead_status st;
    struct stat file;

    expect_true(fd >= 0);
    if (!row_option(row, "index")) {
        expect_status(ahead_source_fd(src, fd, AHEAD_FD_CLOSE), AHEAD_OK);
        return AHEAD_OK;
    }
    expect_int(fstat(fd, &file), 0);
    expect_status(ahead_source_path(&index, data_path(row_option(row, "index"))), AHEAD_OK);
    st = ahead_index_open(&x, index, (uint64_t)file.st_size, err);
    if (st) {
        close(fd);
        return st;
    }
    expect_status(ahead_index_range(x, (size_t)row_number(row, "partition", 0), &offset, &length),
                  AHEAD_OK);
    ahead_index_close(x);
    expect_status(ahead_source_range(src, fd, offset, length, AHEAD_FD_CLOSE), AHEAD_OK);
    return AHEAD_OK;
}

static void add_be(struct bytes *b, uint64_t v, unsigned width)
{
    bytes_add_number(b, v, width, true);
}

static void
read_spill(const struct row *row, bool compat, struct ahead_stream *s, struct outcome *o)
{
    struct ahead_spill_options opt = {
        .max_record_bytes = (uint32_t)row_number(row, "max_record", 0),
        .compat = compat,
    };
    struct ahead_spill_reader *r;
    struct ahead_spill_record rec;

    expect_status(ahead_spill_reader_open(&r, s, &opt), AHEAD_OK);
    while (!ahead_spill_next(r, &rec)) {
        add_be(&o->got, rec.len, 4);
        add_be(&o->got, (uint64_t)rec.key_prefix, 8);
        bytes_add(&o->got, rec.data, rec.len);
        o->elements++;
    }
    o->err = *ahead_spill_error(r);
    expect_status(ahead_spill_reader_close(r), closes_with(o->err.status));
}

/* The body as it is, or decoded.  false: it cannot be, and *err says why. */
static bool add_body(const struct row *row, const struct ahead_frame *f, struct outcome *o)
{
    uint8_t *body = NULL;
    size_t len;

    if (!row_option(row, "decode")) {
        bytes_add(&o->got, f->body, f->body_len);
        return true;
    }
    if (!ahead_frame_comet_decode(f, 0, &body, &len, &o->err))
        bytes_add(&o->got, body, len);
    free(body);
    return !o->err.status;
}

static void read_comet(const struct row *row, struct ahead_stream *s, struct outcome *o)
{
    struct ahead_frame_format fmt = ahead_frame_comet;
    uint32_t fields = (uint32_t)row_number(row, "fields", 0);
    struct ahead_frame_reader *r;
    struct ahead_frame f;
    bool good = true;

    if (row_option(row, "fields"))
        fmt.check_ctx = &fields;
    if (row_option(row, "max_frame"))
        fmt.max_length = row_number(row, "max_frame", 0) + 8;
    expect_status(ahead_frame_reader_open(&r, s, &fmt), AHEAD_OK);
    while (good && !ahead_frame_next(r, &f)) {
        good = add_body(row, &f, o);
        o->elements += good;
    }
    if (good)
        o->err = *ahead_frame_error(r);
    expect_status(ahead_frame_reader_close(r), good ? closes_with(o->err.status) : AHEAD_OK);
}

static void read_bytes(struct ahead_stream *s, struct outcome *o)
{
    size_t n;

    while (!ahead_read(s, bytes_reserve(&o->got, 4096), 4096, &n))
        o->got.len += n;
    o->err = *ahead_error(s);
    expect_status(ahead_close(s), closes_with(o->err.status));
}

static struct outcome read_row(const struct row *row, bool compat, const struct ahead_options *opt)
{
    bool spill = !strcmp(row->format, "spill"), comet = !strcmp(row->format, "comet");
    struct ahead_lz4_options lz4 = { .compat = compat, .empty_ok = row_option(row, "index") };
    struct outcome o = { .err = { .status = AHEAD_OK } };
    struct ahead_source src;
    struct ahead_stream *s;

    if (open_source(row, &src, &o.err))
        return o;
    if (!comet && !row_option(row, "inner"))
        expect_status(ahead_source_lz4_block(&src, src, &lz4), AHEAD_OK);
    expect_status(ahead_open(&s, src, opt), AHEAD_OK);
    if (spill)
        read_spill(row, compat, s, &o);
    else if (comet)
        read_comet(row, s, &o);
    else
        read_bytes(s, &o);
    return o;
}

/* No place is told where the manifest has none: of a spill's own faults. */
static void expect_place(const struct row *row, const struct outcome *o)
{
    if (strcmp(row->offset, "-") != 0)
        expect_u64(o->err.source_offset, strtoull(row->offset, NULL, 10));
    else if (!strcmp(row->format, "spill"))
        expect_u64(o->err.source_offset, UINT64_MAX);
}

/* Two files have lengths of nearly 2 GiB, of which little comes. */
static const char *wanted_status(const struct row *row)
{
    bool large = strstr(row->file, "s-len-max.") || strstr(row->file, "c-len-top.");

    if (!large || strcmp(row->status, "TRUNCATED") != 0)
        return row->status;
    return ahead_status_name(unless_too_large(INT32_MAX + UINT64_C(12), AHEAD_TRUNCATED));
}

static void expect_outcome(const struct row *row, const struct outcome *o)
{
    const char *count = strstr(row->note, "records=");
    char hex[65];

    expect_str(ahead_status_name(o->err.status), wanted_status(row));
    expect_true(o->err.text[0]);
    expect_u64(o->got.len, strtoull(row->bytes, NULL, 10));
    sha256_hex(hex, o->got.p ? o->got.p : (const uint8_t *)"", o->got.len);
    expect_str(hex, row->sha256);
    expect_place(row, o);
    if (!count)
        count = strstr(row->note, "frames=");
    if (count)
        expect_u64(o->elements, strtoull(strchr(count, '=') + 1, NULL, 10));
}

static void try_row(const struct row *row, bool compat)
{
    static const struct ahead_options ways[] = {
        { .buffer_bytes = 0 },
        { .buffer_bytes = 4096, .flags = AHEAD_EAGER },
        { .buffer_bytes = 1000, .flags = AHEAD_SYNC },
        { .buffer_bytes = 17, .flags = AHEAD_SYNC },
    };

    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        struct outcome o;

        expect_note("%s, %s, %s, buffer of %zu: %s", row->file, row->options,
                    compat ? "compat" : "strict", ways[i].buffer_bytes, row->note);
        o = read_row(row, compat, &ways[i]);
        expect_outcome(row, &o);
        free(o.got.p);
    }
}

Test(format_cases, spill, .timeout = 120 * TIME_SCALE)
{
    manifest_try("spill", ROWS_WHOLE, 56, try_row);
}

Test(format_cases, comet, .timeout = 120 * TIME_SCALE)
{
    manifest_try("comet", ROWS_WHOLE, 76, try_row);
}

Test(format_cases, partitions_by_their_index, .timeout = 60 * TIME_SCALE)
{
    manifest_try("lz4-block", ROWS_INDEXED, 11, try_row);
    manifest_try("comet", ROWS_INDEXED, 2, try_row);
}
