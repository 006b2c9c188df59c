/* SPDX-License-Identifier: Apache-2.0 */
/* lz4_block.h - the header of lz4-java's LZ4Block stream, for its reader and its writer.
 *
 *      0        8     9              13            17         21
 *      |LZ4Block|token|compressed len|original len |checksum  |payload... */
#ifndef AHEAD_LZ4_BLOCK_H
#define AHEAD_LZ4_BLOCK_H

#include <stddef.h>
#include <stdint.h>
#include <xxhash.h>

#define LZ4BLOCK_MAGIC "LZ4Block"

enum {
    LZ4BLOCK_HEADER_BYTES = 21,
    LZ4BLOCK_TOKEN_AT = 8,
    LZ4BLOCK_COMPRESSED_AT = 9,
    LZ4BLOCK_ORIGINAL_AT = 13,
    LZ4BLOCK_CHECKSUM_AT = 17,

    /* The token: a method and a level, which says how large a block can be. */
    LZ4BLOCK_RAW = 0x10,
    LZ4BLOCK_LZ4 = 0x20,
    LZ4BLOCK_LEAST_LEVEL_BITS = 10, /* level 0: 1 KiB at most */
    LZ4BLOCK_MOST_BYTES = 1 << (LZ4BLOCK_LEAST_LEVEL_BITS + 15)
};

/* Of the decoded bytes.  lz4-java keeps 28 bits of it. */
static inline uint32_t ahead_lz4_block_sum(const uint8_t *bytes, size_t len)
{
    return XXH32(bytes, len, 0x9747b28c) & 0x0fffffff;
}

#endif
