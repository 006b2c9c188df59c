/* SPDX-License-Identifier: Apache-2.0 */
/* lz4_block.c - a sink that writes the LZ4Block stream of lz4-java: blocks on
 * their own, each with its checksum, and an end mark. */
#include <ahead/lz4.h>
#include <ahead/writer.h>

#include "error.h"
#include "lz4_block.h"
#include "write/outlet.h"

#include <lz4.h>
#include <lz4hc.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST_BYTES = 64, DEFAULT_BYTES = 32 * 1024 }; /* of a block */

struct lz4_block {
    struct ahead_outlet out; /* see outlet.h */

    /* immutable */
    int level;
    size_t block_bytes;
    uint8_t size_level; /* what a token says of block_bytes */

    /* holder */
    size_t have;      /* bytes collected in `block`, less than block_bytes */
    uint8_t *block;   /* block_bytes */
    uint8_t *encoded; /* a header and the largest payload */
    void *state;      /* liblz4's, for the level */
};

/* ---- one block ---- */

static void put_header(const struct lz4_block *b, unsigned method, size_t compressed,
                       size_t original, uint32_t checksum)
{
    uint8_t *p = b->encoded;

    memcpy(p, LZ4BLOCK_MAGIC, LZ4BLOCK_TOKEN_AT);
    p[LZ4BLOCK_TOKEN_AT] = (uint8_t)(method | b->size_level);
    ahead_store_u32_le(p + LZ4BLOCK_COMPRESSED_AT, (uint32_t)compressed);
    ahead_store_u32_le(p + LZ4BLOCK_ORIGINAL_AT, (uint32_t)original);
    ahead_store_u32_le(p + LZ4BLOCK_CHECKSUM_AT, checksum);
}

/* The length of the LZ4 form of src at dst, which has room for any. */
static size_t compress(const struct lz4_block *b, uint8_t *dst, const uint8_t *src, size_t len)
{
    int bound = LZ4_compressBound((int)len);
    int n;

    if (b->level < LZ4HC_CLEVEL_MIN)
        n = LZ4_compress_fast_extState(b->state, (const char *)src, (char *)dst, (int)len, bound,
                                       b->level < 0 ? 1 - b->level : 1);
    else
        n = LZ4_compress_HC_extStateHC(b->state, (const char *)src, (char *)dst, (int)len, bound,
                                       b->level);
    return (size_t)n;
}

/* Encodes a block of len > 0 bytes, raw if that is not longer, and writes it. */
static enum ahead_status
put_block(struct lz4_block *b, const uint8_t *src, size_t len, struct ahead_error *err)
{
    uint32_t checksum = ahead_lz4_block_sum(src, len);
    size_t n = compress(b, b->encoded + LZ4BLOCK_HEADER_BYTES, src, len);

    if (n == 0 || n >= len) {
        n = len;
        memcpy(b->encoded + LZ4BLOCK_HEADER_BYTES, src, len);
        put_header(b, LZ4BLOCK_RAW, len, len, checksum);
    } else {
        put_header(b, LZ4BLOCK_LZ4, n, len, checksum);
    }
    return ahead_outlet_write(&b->out, b->encoded, LZ4BLOCK_HEADER_BYTES + n, err);
}

/* Ends the block that is being collected, if there is a byte in it. */
static enum ahead_status end_block(struct lz4_block *b, struct ahead_error *err)
{
    size_t len = b->have;

    b->have = 0;
    return len > 0 ? put_block(b, b->block, len, err) : AHEAD_OK;
}

/* ---- the sink ---- */

/* Takes a whole block, or what the collected one lacks: how many bytes.  0: a
 * block that they would have made full was lost. */
static size_t take(struct lz4_block *b, const uint8_t *src, size_t len, struct ahead_error *err)
{
    size_t n = b->block_bytes - b->have;

    if (n > len)
        n = len;
    if (n == b->block_bytes)
        return put_block(b, src, n, err) ? 0 : n;
    memcpy(b->block + b->have, src, n);
    b->have += n;
    if (b->have == b->block_bytes && end_block(b, err))
        return 0;
    return n;
}

static ssize_t block_write(void *ctx, const void *src, size_t len, struct ahead_error *err)
{
    struct lz4_block *b = ctx;
    size_t done = 0, n = 1;

    if (ahead_outlet_has_failed(&b->out, err))
        return -1;
    for (; done < len && n > 0; done += n)
        n = take(b, (const uint8_t *)src + done, len - done, err);
    return done > 0 ? (ssize_t)done : -1;
}

static enum ahead_status block_flush(void *ctx, struct ahead_error *err)
{
    struct lz4_block *b = ctx;
    enum ahead_status st = end_block(b, err);

    return st ? st : ahead_outlet_flush(&b->out, err);
}

static enum ahead_status block_finish(void *ctx, struct ahead_error *err)
{
    struct lz4_block *b = ctx;
    enum ahead_status st = end_block(b, err);

    if (!st) {
        put_header(b, LZ4BLOCK_RAW, 0, 0, 0);
        st = ahead_outlet_write(&b->out, b->encoded, LZ4BLOCK_HEADER_BYTES, err);
    }
    return st ? st : ahead_outlet_finish(&b->out, err);
}

static void block_interrupt(void *ctx)
{
    struct lz4_block *b = ctx;

    ahead_outlet_interrupt(&b->out);
}

static void destroy(struct lz4_block *b)
{
    free(b->block);
    free(b->encoded);
    free(b->state);
    free(b);
}

static enum ahead_status block_close(void *ctx, struct ahead_error *err)
{
    struct lz4_block *b = ctx;
    enum ahead_status st = ahead_outlet_close(&b->out, err);

    destroy(b);
    return st;
}

static const struct ahead_sink_ops block_ops = {
    .write = block_write,
    .flush = block_flush,
    .interrupt = block_interrupt,
    .close = block_close,
    .finish = block_finish,
};

/* ---- the constructor ---- */

/* Level n is for blocks of up to 1 << (10 + n) bytes. */
static uint8_t size_level_of(size_t block_bytes)
{
    uint8_t level = 0;

    while ((size_t)1 << (LZ4BLOCK_LEAST_LEVEL_BITS + level) < block_bytes)
        level++;
    return level;
}

static struct lz4_block *create(const struct ahead_lz4_encode_options *opt, size_t block_bytes)
{
    struct lz4_block *b = calloc(1, sizeof *b);

    if (!b)
        return NULL;
    b->level = opt->level;
    b->block_bytes = block_bytes;
    b->size_level = size_level_of(block_bytes);
    b->block = malloc(block_bytes);
    b->encoded = malloc(LZ4BLOCK_HEADER_BYTES + (size_t)LZ4_compressBound((int)block_bytes));
    b->state =
        malloc((size_t)(opt->level < LZ4HC_CLEVEL_MIN ? LZ4_sizeofState() : LZ4_sizeofStateHC()));
    if (b->block && b->encoded && b->state)
        return b;
    destroy(b);
    return NULL;
}

enum ahead_status ahead_sink_lz4_block(struct ahead_sink *out, struct ahead_sink inner,
                                       const struct ahead_lz4_encode_options *opt)
{
    static const struct ahead_lz4_encode_options defaults;
    struct lz4_block *b;
    size_t block_bytes;

    if (!opt)
        opt = &defaults;
    block_bytes = opt->block_bytes ? opt->block_bytes : DEFAULT_BYTES;
    if (!out || !inner.ops || !inner.ops->write || block_bytes < LEAST_BYTES ||
        block_bytes > LZ4BLOCK_MOST_BYTES)
        return ahead_sink_refuse(out, inner, AHEAD_INVALID);
    b = create(opt, block_bytes);
    if (!b)
        return ahead_sink_refuse(out, inner, AHEAD_NOMEM);
    ahead_outlet_init(&b->out, inner);
    *out = (struct ahead_sink){ .ops = &block_ops, .ctx = b };
    return AHEAD_OK;
}
