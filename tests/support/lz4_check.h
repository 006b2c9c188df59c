/* SPDX-License-Identifier: Apache-2.0 */
/* lz4_check.h - judges what the encoders wrote by liblz4 itself, strictly: nothing of ours is
 * asked whether ours is right. */
#ifndef TESTS_SUPPORT_LZ4_CHECK_H
#define TESTS_SUPPORT_LZ4_CHECK_H

#include "support/expect.h"

#include <lz4.h>
#include <lz4frame.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* What an encoded stream holds. */
struct decoded {
    uint8_t *bytes; /* to be freed */
    size_t len, cap;
    unsigned blocks, raw; /* LZ4Block: data blocks, and how many of them are raw */
    unsigned token;       /* LZ4Block: the low half of every token */
    size_t longest;       /* LZ4Block: the longest block, decoded */
};

static inline uint8_t *decoded_room(struct decoded *d, size_t n)
{
    if (d->cap - d->len < n) {
        d->cap = 2 * (d->len + n);
        d->bytes = realloc(d->bytes, d->cap);
        expect_true(d->bytes);
    }
    return d->bytes + d->len;
}

static inline uint32_t check_u32(const uint8_t *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* One LZ4Block stream, which must be whole, with one end mark at its very end. */
static inline struct decoded check_lz4_block(const uint8_t *p, size_t len)
{
    struct decoded d = { .token = p[8] & 15u };

    for (;;) {
        uint32_t stored, original;
        uint8_t *dst;

        expect_true(len >= 21);
        expect_mem(p, "LZ4Block", 8);
        expect_true((p[8] & 0xf0) == 0x10 || (p[8] & 0xf0) == 0x20);
        expect_int(p[8] & 15, d.token);
        stored = check_u32(p + 9);
        original = check_u32(p + 13);
        if (original == 0) {
            expect_int(p[8] & 0xf0, 0x10);
            expect_int(stored, 0);
            expect_int(check_u32(p + 17), 0);
            expect_size(len, 21);
            return d;
        }
        expect_true(original <= 1u << (10 + d.token));
        expect_true(len - 21 >= stored);
        dst = decoded_room(&d, original);
        if ((p[8] & 0xf0) == 0x10) {
            expect_int(stored, original);
            memcpy(dst, p + 21, original);
            d.raw++;
        } else {
            expect_true(stored < original);
            expect_int(
                LZ4_decompress_safe((const char *)p + 21, (char *)dst, (int)stored, (int)original),
                original);
        }
        expect_int(check_u32(p + 17), XXH32(dst, original, 0x9747b28c) & 0x0fffffff);
        d.blocks++;
        d.longest = original > d.longest ? original : d.longest;
        d.len += original;
        p += 21 + stored;
        len -= 21 + stored;
    }
}

/* One LZ4 frame, which must be whole, with nothing behind it. */
static inline struct decoded check_lz4_frame(const uint8_t *p, size_t len, LZ4F_frameInfo_t *info)
{
    struct decoded d = { .bytes = NULL };
    LZ4F_dctx *ctx;
    size_t hint = 1, used = len;

    expect_true(!LZ4F_isError(LZ4F_createDecompressionContext(&ctx, LZ4F_VERSION)));
    hint = LZ4F_getFrameInfo(ctx, info, p, &used);
    expect_true(!LZ4F_isError(hint));
    p += used;
    len -= used;
    while (hint != 0) {
        size_t room = 100000;
        uint8_t *dst = decoded_room(&d, room);

        used = len;
        hint = LZ4F_decompress(ctx, dst, &room, p, &used, NULL);
        if (LZ4F_isError(hint))
            expect_fail_(EXPECT_HERE_("LZ4F_decompress()"), "says %s", LZ4F_getErrorName(hint));
        expect_true(hint == 0 || used > 0 || room > 0); /* else it is cut */
        p += used;
        len -= used;
        d.len += room;
    }
    expect_size(len, 0);
    LZ4F_freeDecompressionContext(ctx);
    return d;
}

#endif
