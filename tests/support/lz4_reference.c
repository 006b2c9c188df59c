/* SPDX-License-Identifier: Apache-2.0 */
/* lz4_reference.c - LZ4Block streams and LZ4 frames, read the simple way. */
#include "support/lz4_reference.h"

#include <lz4.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { MIB = 1 << 20, HISTORY = 64 << 10 };

struct reader {
    const uint8_t *in;
    size_t len, at;
    struct ahead_lz4_options opt;
    struct reference r;
};

static uint32_t le32(const uint8_t *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static uint64_t le64(const uint8_t *p)
{
    return le32(p) | (uint64_t)le32(p + 4) << 32;
}

/* Ends the reading: false, so that a caller can return it. */
static bool end(struct reader *rd, enum ahead_status status, size_t offset)
{
    rd->r.status = status;
    rd->r.offset = status == AHEAD_EOF ? UINT64_MAX : offset;
    return false;
}

static bool have(const struct reader *rd, uint64_t n)
{
    return rd->len - rd->at >= n;
}

static uint8_t *room(struct reader *rd, size_t n)
{
    if (!rd->r.bytes || rd->r.cap - rd->r.len < n) {
        rd->r.cap = 2 * (rd->r.len + n) + 1;
        rd->r.bytes = realloc(rd->r.bytes, rd->r.cap);
        if (!rd->r.bytes)
            abort();
    }
    return rd->r.bytes + rd->r.len;
}

/* Decodes a block behind what there is; returns how many bytes, or -1.  No
 * byte of LZ4 data makes more than 255. */
static long decode(struct reader *rd, const uint8_t *p, size_t stored, bool raw, size_t cap,
                   const void *dict, size_t dict_len)
{
    size_t most = stored < cap / 256 ? 256 * stored : cap;
    uint8_t *dst = room(rd, raw ? stored : most);

    if (!raw)
        return LZ4_decompress_safe_usingDict((const char *)p, (char *)dst, (int)stored, (int)most,
                                             dict, (int)dict_len);
    if (stored)
        memcpy(dst, p, stored);
    return (long)stored;
}

/* ---- LZ4Block ---- */

static bool block_element(struct reader *rd, bool *closed)
{
    const uint8_t *p = rd->in + rd->at;
    size_t most = rd->opt.max_block_bytes ? rd->opt.max_block_bytes : 32 * MIB;
    int64_t stored, original;
    long n;

    if (!have(rd, 1)) {
        bool fine = *closed || rd->opt.compat || (!rd->at && rd->opt.empty_ok);

        return end(rd, fine ? AHEAD_EOF : AHEAD_TRUNCATED, rd->at);
    }
    if (!have(rd, 21))
        return end(rd, AHEAD_TRUNCATED, rd->at);
    stored = (int32_t)le32(p + 9);
    original = (int32_t)le32(p + 13);
    if (memcmp(p, "LZ4Block", 8) != 0 || (p[8] >> 4 != 1 && p[8] >> 4 != 2))
        return end(rd, AHEAD_CORRUPT, rd->at);
    if (stored < 0 || original < 0 || original > (int64_t)1 << (10 + (p[8] & 15)))
        return end(rd, AHEAD_CORRUPT, rd->at);
    if (!stored != !original || (p[8] >> 4 == 1 && stored != original))
        return end(rd, AHEAD_CORRUPT, rd->at);
    if (stored > original + original / 255 + 16 || (!original && le32(p + 17)))
        return end(rd, AHEAD_CORRUPT, rd->at);
    if (!(*closed = !original)) {
        if ((uint64_t)original > most)
            return end(rd, AHEAD_LIMIT, rd->at);
        if (!have(rd, 21 + (uint64_t)stored))
            return end(rd, AHEAD_TRUNCATED, rd->at);
        n = decode(rd, p + 21, (size_t)stored, p[8] >> 4 == 1, (size_t)original, NULL, 0);
        if (n != original)
            return end(rd, AHEAD_CORRUPT, rd->at);
        if (!rd->opt.no_checksums &&
            (XXH32(rd->r.bytes + rd->r.len, (size_t)n, 0x9747b28c) & 0x0fffffff) != le32(p + 17))
            return end(rd, AHEAD_CORRUPT, rd->at);
        rd->r.len += (size_t)n;
    }
    rd->at += 21 + (size_t)stored;
    return true;
}

struct reference
reference_lz4_block(const uint8_t *in, size_t len, const struct ahead_lz4_options *opt)
{
    struct reader rd = { .in = in, .len = len };
    bool closed = false;

    if (opt)
        rd.opt = *opt;
    while (block_element(&rd, &closed))
        ;
    return rd.r;
}

/* ---- LZ4 frames ---- */

static bool known_magic(uint32_t word)
{
    return word == 0x184d2204 || word == 0x184c2102 || word >> 4 == 0x184d2a5;
}

static bool skippable_frame(struct reader *rd)
{
    if (!have(rd, 8) || !have(rd, 8 + (uint64_t)le32(rd->in + rd->at + 4)))
        return end(rd, AHEAD_TRUNCATED, rd->at);
    rd->at += 8 + (size_t)le32(rd->in + rd->at + 4);
    return true;
}

static bool legacy_frame(struct reader *rd)
{
    if (rd->opt.max_block_bytes && rd->opt.max_block_bytes < 8 * MIB)
        return end(rd, AHEAD_LIMIT, rd->at);
    rd->at += 4;
    while (have(rd, 1)) {
        uint32_t stored;
        long n;

        if (!have(rd, 4))
            return end(rd, AHEAD_TRUNCATED, rd->at);
        stored = le32(rd->in + rd->at);
        if (known_magic(stored))
            return true;
        if (!stored || stored > 8421520)
            return end(rd, AHEAD_CORRUPT, rd->at);
        if (!have(rd, 4 + (uint64_t)stored))
            return end(rd, AHEAD_TRUNCATED, rd->at);
        n = decode(rd, rd->in + rd->at + 4, stored, false, 8 * MIB, NULL, 0);
        if (n < 0)
            return end(rd, AHEAD_CORRUPT, rd->at);
        rd->r.len += (size_t)n;
        rd->at += 4 + (size_t)stored;
    }
    return true;
}

/* The dictionary's end and what the frame has so far, in one piece; free it. */
static uint8_t *history_of(const struct reader *rd, size_t start, bool linked, size_t *len)
{
    size_t dict = rd->opt.dict_len < HISTORY ? rd->opt.dict_len : HISTORY;
    size_t back = linked ? rd->r.len - start : 0;
    uint8_t *all = malloc(dict + back + 1);

    if (!all)
        abort();
    if (dict)
        memcpy(all, (const uint8_t *)rd->opt.dict + rd->opt.dict_len - dict, dict);
    if (back)
        memcpy(all + dict, rd->r.bytes + start, back);
    *len = dict + back;
    return all;
}

/* One block of a frame whose data start at `start` of the output. */
static bool frame_block(struct reader *rd, unsigned flg, size_t most, size_t start, uint64_t size)
{
    const uint8_t *p = rd->in + rd->at;
    uint32_t word = le32(p), stored = word & 0x7fffffff;
    size_t sum = flg & 0x10 ? 4 : 0, back;
    uint8_t *history;
    long n;

    if (stored > most)
        return end(rd, AHEAD_CORRUPT, rd->at);
    if (!have(rd, 4 + stored + sum))
        return end(rd, AHEAD_TRUNCATED, rd->at);
    if (sum && !rd->opt.no_checksums && XXH32(p + 4, stored, 0) != le32(p + 4 + stored))
        return end(rd, AHEAD_CORRUPT, rd->at);
    history = history_of(rd, start, !(flg & 0x20), &back);
    n = decode(rd, p + 4, stored, word >> 31, most, history + (back > HISTORY ? back - HISTORY : 0),
               back > HISTORY ? HISTORY : back);
    free(history);
    if (n < 0 || (flg & 8 && rd->r.len - start + (size_t)n > size))
        return end(rd, AHEAD_CORRUPT, rd->at);
    rd->r.len += (size_t)n;
    rd->at += 4 + stored + sum;
    return true;
}

static bool lz4_frame(struct reader *rd)
{
    const uint8_t *p = rd->in + rd->at;
    size_t header, most, start = rd->r.len;
    uint64_t size = 0;
    unsigned flg;

    if (!have(rd, 6))
        return end(rd, AHEAD_TRUNCATED, rd->at);
    flg = p[4];
    if (flg >> 6 != 1 || flg & 2 || p[5] & 0x8f || p[5] >> 4 < 4)
        return end(rd, AHEAD_CORRUPT, rd->at);
    header = 7 + (flg & 8 ? 8 : 0) + (flg & 1 ? 4 : 0);
    if (!have(rd, header))
        return end(rd, AHEAD_TRUNCATED, rd->at);
    if ((XXH32(p + 4, header - 5, 0) >> 8 & 0xff) != p[header - 1])
        return end(rd, AHEAD_CORRUPT, rd->at);
    if (flg & 8)
        size = le64(p + 6);
    if (flg & 1 && (!rd->opt.dict || (rd->opt.dict_id && rd->opt.dict_id != le32(p + header - 5))))
        return end(rd, AHEAD_UNSUPPORTED, rd->at);
    most = (size_t)1 << (8 + 2 * (p[5] >> 4));
    if (rd->opt.max_block_bytes && most > rd->opt.max_block_bytes)
        return end(rd, AHEAD_LIMIT, rd->at);
    rd->at += header;
    for (;;) {
        if (!have(rd, 4))
            return end(rd, AHEAD_TRUNCATED, rd->at);
        if (!le32(rd->in + rd->at))
            break;
        if (!frame_block(rd, flg, most, start, size))
            return false;
    }
    if (flg & 8 && rd->r.len - start != size)
        return end(rd, AHEAD_CORRUPT, rd->at);
    rd->at += 4;
    if (!(flg & 4))
        return true;
    if (!have(rd, 4))
        return end(rd, AHEAD_TRUNCATED, rd->at);
    if (!rd->opt.no_checksums &&
        XXH32(room(rd, 0) - (rd->r.len - start), rd->r.len - start, 0) != le32(rd->in + rd->at))
        return end(rd, AHEAD_CORRUPT, rd->at);
    rd->at += 4;
    return true;
}

static bool any_frame(struct reader *rd)
{
    uint32_t magic;

    if (!have(rd, 1)) {
        bool fine = rd->at || rd->opt.compat || rd->opt.empty_ok;

        return end(rd, fine ? AHEAD_EOF : AHEAD_TRUNCATED, rd->at);
    }
    if (!have(rd, 4))
        return end(rd, AHEAD_TRUNCATED, rd->at);
    magic = le32(rd->in + rd->at);
    if (magic == 0x184d2204)
        return lz4_frame(rd);
    if (magic == 0x184c2102)
        return legacy_frame(rd);
    return known_magic(magic) ? skippable_frame(rd) : end(rd, AHEAD_CORRUPT, rd->at);
}

struct reference
reference_lz4_frame(const uint8_t *in, size_t len, const struct ahead_lz4_options *opt)
{
    struct reader rd = { .in = in, .len = len };

    if (opt)
        rd.opt = *opt;
    while (any_frame(&rd))
        ;
    return rd.r;
}
