/* SPDX-License-Identifier: Apache-2.0 */
/* lz4_build.h - puts LZ4Block streams and LZ4 frames together field by field, right or wrong. */
#ifndef TESTS_SUPPORT_LZ4_BUILD_H
#define TESTS_SUPPORT_LZ4_BUILD_H

#include "support/expect.h"
#include "support/pattern.h"

#include <lz4.h>
#include <lz4hc.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* Bytes that grow.  Free .data. */
struct bytes {
    uint8_t *data;
    size_t len, cap;
};

/* n more bytes, not filled in. */
static inline uint8_t *grow(struct bytes *b, size_t n)
{
    if (b->cap - b->len < n || !b->data) {
        b->cap = 2 * (b->len + n) + 64;
        b->data = realloc(b->data, b->cap);
        expect_true(b->data);
    }
    b->len += n;
    return b->data + b->len - n;
}

static inline void put(struct bytes *b, const void *p, size_t n)
{
    uint8_t *to = grow(b, n);

    if (n)
        memcpy(to, p, n);
}

static inline void put_le(struct bytes *b, uint64_t v, unsigned n)
{
    for (uint8_t *p = grow(b, n); n--; v >>= 8)
        *p++ = (uint8_t)v;
}

/* Digits of hex numbers; all else is ignored. */
static inline void put_hex(struct bytes *b, const char *hex)
{
    int high = -1;

    for (; *hex; hex++) {
        const char *digits = "0123456789abcdef";
        const char *at = strchr(digits, *hex);

        if (!at)
            continue;
        if (high < 0) {
            high = (int)(at - digits);
        } else {
            *grow(b, 1) = (uint8_t)(high << 4 | (int)(at - digits));
            high = -1;
        }
    }
}

/* Text-like bytes: words out of a small stock, so that LZ4 finds matches. */
static inline void fill_words(uint8_t *dst, size_t len, uint64_t seed)
{
    size_t at = 0;

    while (at < len) {
        uint64_t word = pattern_word(random_below(&seed, 200));
        size_t n = 2 + (size_t)(word % 9);

        for (size_t i = 0; i < n && at < len; i++)
            dst[at++] = (uint8_t)('a' + (word >> 5 * i) % 26);
        if (at < len)
            dst[at++] = ' ';
    }
}

/* LZ4 data of src; level above 0: the slow encoder. */
static inline size_t lz4_block_of(uint8_t *dst, size_t cap, const void *src, size_t n, int level)
{
    int len = level ? LZ4_compress_HC(src, (char *)dst, (int)n, (int)cap, level)
                    : LZ4_compress_default(src, (char *)dst, (int)n, (int)cap);

    expect_true(len > 0 || !n);
    return (size_t)len;
}

/* ---- LZ4Block ---- */

enum { BLOCK_HEADER = 21 };

static inline uint32_t block_checksum(const void *p, size_t n)
{
    return XXH32(p, n, 0x9747b28c) & 0x0fffffff;
}

static inline void
put_block_header(struct bytes *b, uint8_t token, uint32_t stored, uint32_t original, uint32_t sum)
{
    put(b, "LZ4Block", 8);
    put_le(b, token, 1);
    put_le(b, stored, 4);
    put_le(b, original, 4);
    put_le(b, sum, 4);
}

static inline void put_raw_block(struct bytes *b, unsigned level, const void *p, size_t n)
{
    put_block_header(b, (uint8_t)(0x10 | level), (uint32_t)n, (uint32_t)n, block_checksum(p, n));
    put(b, p, n);
}

static inline void put_lz4_block(struct bytes *b, unsigned level, const void *p, size_t n)
{
    size_t at = b->len, cap = (size_t)LZ4_compressBound((int)n), len;

    put_block_header(b, (uint8_t)(0x20 | level), 0, (uint32_t)n, block_checksum(p, n));
    len = lz4_block_of(grow(b, cap), cap, p, n, 0);
    b->len -= cap - len;
    for (unsigned i = 0; i < 4; i++)
        b->data[at + 9 + i] = (uint8_t)(len >> 8 * i);
}

static inline void put_end_mark(struct bytes *b, unsigned level)
{
    put_block_header(b, (uint8_t)(0x10 | level), 0, 0, 0);
}

/* ---- LZ4 frames ---- */

enum {
    FRAME_DICT_ID = 1,
    FRAME_SUM = 4,
    FRAME_SIZE = 8,
    FRAME_BLOCK_SUMS = 16,
    FRAME_INDEPENDENT = 32
};

/* A frame that is being written. */
struct frame {
    struct bytes *to;
    unsigned flags;     /* FRAME_... */
    unsigned code;      /* 4 to 7: 64 KiB to 4 MiB */
    struct bytes plain; /* its data, behind the dictionary */
    size_t dict_len;
};

static inline struct frame
frame_begin(struct bytes *b, unsigned flags, unsigned code, uint64_t size, uint32_t dict_id)
{
    size_t at = b->len + 4;

    put_le(b, 0x184d2204, 4);
    put_le(b, 0x40 | flags, 1);
    put_le(b, code << 4, 1);
    if (flags & FRAME_SIZE)
        put_le(b, size, 8);
    if (flags & FRAME_DICT_ID)
        put_le(b, dict_id, 4);
    put_le(b, XXH32(b->data + at, b->len - at, 0) >> 8 & 0xff, 1);
    return (struct frame){ .to = b, .flags = flags, .code = code };
}

/* Only right after frame_begin(). */
static inline void frame_dict(struct frame *f, const void *dict, size_t len)
{
    put(&f->plain, dict, len);
    f->dict_len = len;
}

static inline void frame_stored(struct frame *f, uint32_t word, const void *stored, size_t n)
{
    put_le(f->to, word, 4);
    put(f->to, stored, n);
    if (f->flags & FRAME_BLOCK_SUMS)
        put_le(f->to, XXH32(stored, n, 0), 4);
}

static inline void frame_raw(struct frame *f, const void *p, size_t n)
{
    put(&f->plain, p, n);
    frame_stored(f, 0x80000000u | (uint32_t)n, p, n);
}

/* LZ4 data, with what the frame lets it reach back to. */
static inline void frame_lz4(struct frame *f, const void *p, size_t n)
{
    size_t cap = (size_t)LZ4_compressBound((int)n), back = f->plain.len;
    uint8_t *stored = malloc(cap);
    LZ4_stream_t *lz4 = LZ4_createStream();
    int len;

    if (f->flags & FRAME_INDEPENDENT)
        back = f->dict_len;
    LZ4_loadDict(lz4, (const char *)f->plain.data, (int)back);
    len = LZ4_compress_fast_continue(lz4, p, (char *)stored, (int)n, (int)cap, 1);
    expect_true(len > 0);
    put(&f->plain, p, n);
    frame_stored(f, (uint32_t)len, stored, (size_t)len);
    LZ4_freeStream(lz4);
    free(stored);
}

static inline void frame_end(struct frame *f)
{
    grow(&f->plain, 0); /* a place also for no bytes */
    put_le(f->to, 0, 4);
    if (f->flags & FRAME_SUM)
        put_le(f->to, XXH32(f->plain.data + f->dict_len, f->plain.len - f->dict_len, 0), 4);
    free(f->plain.data);
}

static inline void put_skippable(struct bytes *b, unsigned which, size_t n)
{
    put_le(b, 0x184d2a50 | which, 4);
    put_le(b, n, 4);
    pattern_fill(grow(b, n), 0, n);
}

#endif
