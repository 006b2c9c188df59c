/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_lz4.h - a decoder beside the reference, output against a page that may not be touched.
 *
 * The input is the file as it is, so that the cases are seeds; how it is read
 * (strict or compat, by read() or by steps, pieces and windows, once or twice
 * over) comes from a hash of it.  Limits are 16 MiB, and 64 KiB for every fourth
 * input. */
#ifndef TESTS_FUZZ_FUZZ_LZ4_H
#define TESTS_FUZZ_FUZZ_LZ4_H

#include "source/split.h"
#include "support/lz4_reference.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <xxhash.h>

enum { PAGE = 4096, PLACE_BYTES = 32 << 20, JOBS = 4 };

typedef enum ahead_status (*fuzz_open)(struct ahead_source *out, struct ahead_source inner,
                                       const struct ahead_lz4_options *opt);
typedef struct reference (*fuzz_refer)(const uint8_t *in, size_t len,
                                       const struct ahead_lz4_options *opt);

/* The end of a mapping whose next page may not be touched. */
static uint8_t *place_end(unsigned which)
{
    static uint8_t *end[JOBS];

    if (!end[which]) {
        uint8_t *p = mmap(NULL, PLACE_BYTES + PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        if (p == MAP_FAILED || mprotect(p, PLACE_BYTES, PROT_READ | PROT_WRITE))
            abort();
        end[which] = p + PLACE_BYTES;
    }
    return end[which];
}

struct fuzz_input {
    const uint8_t *data;
    size_t len, at, piece;
};

static ssize_t fuzz_read(void *ctx, void *dst, size_t len, struct ahead_error *err)
{
    struct fuzz_input *in = ctx;
    size_t n = in->len - in->at;

    (void)err;
    if (n > len)
        n = len;
    if (in->piece && n > in->piece)
        n = in->piece;
    if (n)
        memcpy(dst, in->data + in->at, n);
    in->at += n;
    return (ssize_t)n;
}

static enum ahead_status fuzz_seek(void *ctx, uint64_t offset, struct ahead_error *err)
{
    struct fuzz_input *in = ctx;

    (void)err;
    in->at = (size_t)offset; /* a decoder goes to 0 only */
    return AHEAD_OK;
}

/* What has been delivered so far, against what has to be. */
struct fuzz_run {
    struct ahead_source src;
    const struct reference *want;
    size_t len;
    size_t window;
    struct ahead_error end;
};

static void deliver(struct fuzz_run *r, const uint8_t *bytes, size_t n)
{
    if (n > r->want->len - r->len || (n && memcmp(bytes, r->want->bytes + r->len, n) != 0)) {
        fprintf(stderr, "%zu bytes at %zu are not those of the reference\n", n, r->len);
        abort();
    }
    r->len += n;
}

static bool read_one(struct fuzz_run *r)
{
    uint8_t *dst = place_end(0) - r->window;
    ssize_t n;

    r->end = (struct ahead_error){ .source_offset = UINT64_MAX };
    n = r->src.ops->read(r->src.ctx, dst, r->window, &r->end);
    if (n > 0)
        deliver(r, dst, (size_t)n);
    if (n == 0)
        r->end.status = AHEAD_EOF;
    return n > 0;
}

struct fuzz_piece {
    struct ahead_job job;
    struct ahead_error err;
    enum ahead_status made;
    size_t len;
};

/* Claim some pieces, make the last first, settle them in order. */
static bool step_some(struct fuzz_run *r)
{
    const struct ahead_split_ops *split = r->src.ops->split;
    static struct fuzz_piece p[JOBS];
    struct ahead_error end = { .source_offset = UINT64_MAX };
    enum ahead_claim claim = AHEAD_CLAIM_PIECE;
    unsigned n = 0;
    bool go_on = true;

    for (; n < JOBS; n++) {
        claim = split->claim(r->src.ctx, &p[n].job, r->window, PLACE_BYTES, &end);
        if (claim != AHEAD_CLAIM_PIECE)
            break;
    }
    for (unsigned i = n; i-- > 0;) {
        p[i].err = (struct ahead_error){ .source_offset = UINT64_MAX };
        p[i].made =
            split->make(r->src.ctx, &p[i].job, place_end(i) - p[i].job.bound, &p[i].len, &p[i].err);
    }
    for (unsigned i = 0; i < n && go_on; i++) {
        uint8_t *dst = place_end(i) - p[i].job.bound;
        struct ahead_error err = { .source_offset = UINT64_MAX };
        enum ahead_status st =
            split->settle(r->src.ctx, &p[i].job.note, dst, &p[i].len, p[i].made, &err);

        deliver(r, dst, p[i].len);
        if (st || p[i].made) {
            r->end = st ? err : p[i].err;
            go_on = false;
        }
    }
    if (go_on && claim == AHEAD_CLAIM_ENDING) {
        r->end = end;
        go_on = false;
    }
    if (go_on && claim != AHEAD_CLAIM_PIECE)
        go_on = read_one(r);
    for (unsigned i = 0; i < JOBS; i++) {
        free(p[i].job.in);
        p[i].job.in = NULL;
        p[i].job.in_cap = 0;
    }
    return go_on;
}

static void check_end(const struct fuzz_run *r)
{
    uint64_t offset = r->end.status == AHEAD_EOF ? UINT64_MAX : r->end.source_offset;

    if (r->end.status == r->want->status && r->len == r->want->len && offset == r->want->offset)
        return;
    fprintf(stderr, "%s at %ju after %zu bytes, expected %s at %ju after %zu: %s\n",
            ahead_status_name(r->end.status), (uintmax_t)offset, r->len,
            ahead_status_name(r->want->status), (uintmax_t)r->want->offset, r->want->len,
            r->end.text);
    abort();
}

/* 1 to 16 MiB, small ones as often as large ones. */
static size_t window_of(uint32_t hash)
{
    return 1 + (hash >> 8) % ((size_t)1 << (hash >> 3) % 25);
}

/* Reads it to its end. */
static void read_through(struct fuzz_run *r, bool by_steps)
{
    r->len = 0;
    if (by_steps)
        while (step_some(r))
            ;
    else
        while (read_one(r))
            ;
    check_end(r);
}

static int fuzz_one(fuzz_open open, fuzz_refer refer, const uint8_t *data, size_t len,
                    const uint8_t *dict, size_t dict_len)
{
    uint32_t hash = XXH32(data, len, 1), other = XXH32(data, len, 2);
    struct ahead_lz4_options opt = {
        .compat = hash & 1,
        .no_checksums = hash & 2,
        .max_block_bytes = other & 3 ? 16 << 20 : 64 << 10,
        .dict = other & 4 ? dict : NULL,
        .dict_len = other & 4 ? dict_len : 0,
        .dict_id = other & 32 ? 1 : 0,
    };
    static const struct ahead_source_ops ops = { .read = fuzz_read, .seek = fuzz_seek };
    struct fuzz_input in = { .data = data,
                             .len = len,
                             .piece = other & 8 ? 1 + (other >> 8) % 70000 : 0 };
    struct reference want = refer(data, len, &opt);
    struct fuzz_run r = { .want = &want, .window = window_of(hash) };
    struct ahead_error err;

    if (open(&r.src, (struct ahead_source){ &ops, &in }, &opt))
        abort();
    if (other & 16) /* which takes nothing away */
        (void)r.src.ops->unit(r.src.ctx);
    read_through(&r, !(hash & 4));
    if (other & 64) {
        if (r.src.ops->seek(r.src.ctx, 0, &err))
            abort();
        read_through(&r, hash & 4);
    }
    r.src.ops->close(r.src.ctx, &err);
    free(want.bytes);
    return 0;
}

#endif
