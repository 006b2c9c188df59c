/* SPDX-License-Identifier: Apache-2.0 */
/* lz4_block.c - the LZ4Block stream of lz4-java: blocks on their own, each with its checksum. */
#include <ahead/lz4.h>
#include <ahead/read.h>

#include "error.h"
#include "lz4_block.h"
#include "source/decoder.h"
#include "source/magic.h"

#include <inttypes.h>
#include <lz4.h>
#include <stdlib.h>
#include <string.h>

struct lz4_block {
    struct ahead_decoder d; /* first: they have one address */
    bool closed;            /* token: an end mark was the last element */
};

struct header {
    unsigned method;
    int32_t compressed, original;
    uint32_t most; /* the largest block of this level */
    uint32_t checksum;
};

static struct header parse(const uint8_t *p)
{
    return (struct header){
        .method = p[LZ4BLOCK_TOKEN_AT] & 0xf0,
        .most = UINT32_C(1) << (LZ4BLOCK_LEAST_LEVEL_BITS + (p[LZ4BLOCK_TOKEN_AT] & 0x0f)),
        .compressed = (int32_t)ahead_load_u32_le(p + LZ4BLOCK_COMPRESSED_AT),
        .original = (int32_t)ahead_load_u32_le(p + LZ4BLOCK_ORIGINAL_AT),
        .checksum = ahead_load_u32_le(p + LZ4BLOCK_CHECKSUM_AT),
    };
}

static bool is_end_mark(const struct header *h)
{
    return !h->original;
}

static enum ahead_status not_the_magic(const uint8_t *p, uint64_t offset, struct ahead_error *err)
{
    const char *name = ahead_magic_name(p, LZ4BLOCK_HEADER_BYTES);

    if (name)
        return ahead_error_set(err, AHEAD_CORRUPT, offset,
                               "no LZ4Block magic at input byte %" PRIu64 ": this is %s", offset,
                               name);
    return ahead_error_set(err, AHEAD_CORRUPT, offset,
                           "no LZ4Block magic at input byte %" PRIu64
                           ": expected 4c5a34426c6f636b, found %08" PRIx32 "%08" PRIx32,
                           offset, ahead_load_u32_be(p), ahead_load_u32_be(p + 4));
}

/* The rules that a header has to keep whatever the payload is. */
static enum ahead_status
check(const uint8_t *p, const struct header *h, uint64_t offset, struct ahead_error *err)
{
    if (memcmp(p, LZ4BLOCK_MAGIC, LZ4BLOCK_TOKEN_AT) != 0)
        return not_the_magic(p, offset, err);
    if (h->method != LZ4BLOCK_RAW && h->method != LZ4BLOCK_LZ4)
        return ahead_error_set(err, AHEAD_CORRUPT, offset,
                               "LZ4Block method at input byte %" PRIu64
                               ": expected 0x10 or 0x20, found 0x%02x",
                               offset, h->method);
    if (h->compressed < 0 || h->original < 0 || (uint32_t)h->original > h->most)
        return ahead_error_set(err, AHEAD_CORRUPT, offset,
                               "LZ4Block lengths at input byte %" PRIu64 ": %" PRId32
                               " bytes for %" PRId32 ", expected 0 to %" PRIu32,
                               offset, h->compressed, h->original, h->most);
    if (!h->compressed != !h->original ||
        (h->method == LZ4BLOCK_RAW && h->compressed != h->original))
        return ahead_error_set(
            err, AHEAD_CORRUPT, offset,
            "LZ4Block lengths at input byte %" PRIu64 ": %" PRId32 " %s bytes cannot be %" PRId32,
            offset, h->compressed, h->method == LZ4BLOCK_RAW ? "raw" : "LZ4", h->original);
    if (h->compressed > LZ4_COMPRESSBOUND(h->original))
        return ahead_error_set(err, AHEAD_CORRUPT, offset,
                               "LZ4Block compressed length at input byte %" PRIu64 ": %" PRId32
                               " for %" PRId32 " bytes, expected %d at most",
                               offset, h->compressed, h->original, LZ4_COMPRESSBOUND(h->original));
    if (is_end_mark(h) && h->checksum)
        return ahead_error_set(err, AHEAD_CORRUPT, offset,
                               "LZ4Block end mark at input byte %" PRIu64
                               ": expected checksum 0, found 0x%08" PRIx32,
                               offset, h->checksum);
    return AHEAD_OK;
}

static enum ahead_element block_look(const struct ahead_decoder *d, size_t at,
                                     struct ahead_found *found, struct ahead_error *err)
{
    const uint8_t *p = ahead_input_bytes(&d->in) + at;
    size_t have = ahead_input_len(&d->in) - at;
    uint64_t offset = d->in.offset + at;
    struct header h;

    found->len = LZ4BLOCK_HEADER_BYTES;
    if (have < LZ4BLOCK_HEADER_BYTES)
        return AHEAD_ELEMENT_CUT;
    h = parse(p);
    if (check(p, &h, offset, err))
        return AHEAD_ELEMENT_FAULT;
    if (is_end_mark(&h))
        return at ? AHEAD_ELEMENT_BLOCK : AHEAD_ELEMENT_PASS;
    if ((uint32_t)h.original > d->opt.max_block_bytes) {
        ahead_error_set(err, AHEAD_LIMIT, offset,
                        "LZ4Block block at input byte %" PRIu64 ": %" PRId32
                        " bytes are above the limit of %zu",
                        offset, h.original, d->opt.max_block_bytes);
        return AHEAD_ELEMENT_FAULT;
    }
    found->len += (uint32_t)h.compressed;
    found->bound = (uint32_t)h.original;
    return have < found->len ? AHEAD_ELEMENT_CUT : AHEAD_ELEMENT_BLOCK;
}

static void block_take(struct ahead_decoder *d, size_t at, const struct ahead_found *found,
                       struct ahead_note *note)
{
    struct lz4_block *b = (struct lz4_block *)d;

    (void)at;
    (void)note;
    b->closed = !found->bound;
}

static enum ahead_status
block_pass(struct ahead_decoder *d, const struct ahead_found *found, struct ahead_error *err)
{
    struct lz4_block *b = (struct lz4_block *)d;

    (void)found;
    (void)err;
    b->closed = true;
    return AHEAD_OK;
}

static enum ahead_status block_judge_end(const struct ahead_decoder *d, struct ahead_error *err)
{
    const struct lz4_block *b = (const struct lz4_block *)d;
    size_t have = ahead_input_len(&d->in);
    uint64_t offset = d->in.offset;

    if (have >= LZ4BLOCK_HEADER_BYTES) {
        struct header h = parse(ahead_input_bytes(&d->in));

        return ahead_error_set(err, AHEAD_TRUNCATED, offset,
                               "LZ4Block block at input byte %" PRIu64
                               ": the input ends after %zu of %" PRId32 " payload bytes",
                               offset, have - LZ4BLOCK_HEADER_BYTES, h.compressed);
    }
    if (have)
        return ahead_error_set(err, AHEAD_TRUNCATED, offset,
                               "LZ4Block header at input byte %" PRIu64
                               ": the input ends after %zu of %d bytes",
                               offset, have, LZ4BLOCK_HEADER_BYTES);
    if (b->closed || d->opt.compat || (!offset && d->opt.empty_ok))
        return ahead_error_set(err, AHEAD_EOF, offset, "the end");
    return ahead_error_set(err, AHEAD_TRUNCATED, offset,
                           "LZ4Block end mark missing: the input ends at byte %" PRIu64, offset);
}

static size_t block_unit(const struct ahead_decoder *d)
{
    struct ahead_error err;
    struct header h;

    if (ahead_input_len(&d->in) < LZ4BLOCK_HEADER_BYTES)
        return 0;
    h = parse(ahead_input_bytes(&d->in));
    if (check(ahead_input_bytes(&d->in), &h, 0, &err))
        return 0;
    return h.most < d->opt.max_block_bytes ? h.most : d->opt.max_block_bytes;
}

/* ---- make ---- */

static enum ahead_status decode(const struct header *h, const uint8_t *payload, uint8_t *dst,
                                uint64_t offset, struct ahead_error *err)
{
    int n;

    if (h->method == LZ4BLOCK_RAW) {
        memcpy(dst, payload, (size_t)h->original);
        return AHEAD_OK;
    }
    n = LZ4_decompress_safe((const char *)payload, (char *)dst, h->compressed, h->original);
    if (n == h->original)
        return AHEAD_OK;
    if (n < 0)
        return ahead_error_set(err, AHEAD_CORRUPT, offset,
                               "LZ4Block block at input byte %" PRIu64 ": its %" PRId32
                               " bytes are no LZ4 data of %" PRId32 " bytes",
                               offset, h->compressed, h->original);
    return ahead_error_set(err, AHEAD_CORRUPT, offset,
                           "LZ4Block block at input byte %" PRIu64 ": expected %" PRId32
                           " bytes, decodes to %d",
                           offset, h->original, n);
}

static enum ahead_status
verify(const struct header *h, const uint8_t *bytes, uint64_t offset, struct ahead_error *err)
{
    uint32_t sum = ahead_lz4_block_sum(bytes, (size_t)h->original);

    if (sum == h->checksum)
        return AHEAD_OK;
    return ahead_error_set(err, AHEAD_CORRUPT, offset,
                           "LZ4Block checksum of the block at input byte %" PRIu64
                           ": expected 0x%08" PRIx32 ", its %" PRId32 " bytes give 0x%08" PRIx32,
                           offset, h->checksum, h->original, sum);
}

static enum ahead_status
block_make(struct ahead_decoder *d, const struct ahead_note *note, struct ahead_blocks blocks,
           uint8_t *dst, size_t *len, struct ahead_error *err)
{
    enum ahead_status st = AHEAD_OK;
    size_t at = 0;

    (void)note;
    *len = 0;
    while (!st && at < blocks.len) {
        struct header h = parse(blocks.bytes + at);
        uint64_t offset = blocks.offset + at;

        if (!is_end_mark(&h)) {
            st = decode(&h, blocks.bytes + at + LZ4BLOCK_HEADER_BYTES, dst + *len, offset, err);
            if (!st && !d->opt.no_checksums)
                st = verify(&h, dst + *len, offset, err);
            if (!st)
                *len += (size_t)h.original;
        }
        at += LZ4BLOCK_HEADER_BYTES + (size_t)h.compressed;
    }
    return st;
}

static void block_reset(struct ahead_decoder *d)
{
    struct lz4_block *b = (struct lz4_block *)d;

    b->closed = false;
}

static const struct ahead_decoder_format lz4_block_format = {
    .max_block_bytes = LZ4BLOCK_MOST_BYTES,
    .look = block_look,
    .take = block_take,
    .pass = block_pass,
    .judge_end = block_judge_end,
    .unit = block_unit,
    .make = block_make,
    .reset = block_reset,
};

enum ahead_status ahead_lz4_block_init(struct ahead_source *out, struct ahead_input *in,
                                       const struct ahead_lz4_options *opt)
{
    struct lz4_block *b = malloc(sizeof *b);
    struct ahead_error err;

    if (!b) {
        ahead_input_close(in, &err);
        return ahead_fail_errno(AHEAD_NOMEM);
    }
    b->closed = false;
    ahead_decoder_init(&b->d, &lz4_block_format, in, opt, out);
    return AHEAD_OK;
}

enum ahead_status ahead_source_lz4_block(struct ahead_source *out, struct ahead_source inner,
                                         const struct ahead_lz4_options *opt)
{
    return ahead_decoder_open(out, inner, opt, ahead_lz4_block_init);
}
