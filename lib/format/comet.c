/* SPDX-License-Identifier: Apache-2.0 */
/* comet.c - shuffle blocks of DataFusion Comet: how their frames look. */
#include <ahead/frame.h>

#include "error.h"

#include <ahead/read.h>

#include <inttypes.h>
#include <string.h>

enum {
    FIRST_BYTES = 16, /* length and field count */
    HEADER_BYTES = 20,
    COUNTS_FROM = 8,
    FIELDS_AT = 8,
    TAG_AT = 16,
    MIN_LENGTH = 12
};

#define MAX_LENGTH ((uint64_t)INT32_MAX + COUNTS_FROM)

enum codec { CODEC_NONE, CODEC_LZ4, CODEC_ZSTD, CODEC_SNAPPY, CODECS };

static const char tags[CODECS][5] = { "NONE", "LZ4_", "ZSTD", "SNAP" };

/* CODECS: none of them.  The top bit is about the data, not about the codec. */
static enum codec codec_of(const uint8_t tag[4])
{
    const uint8_t plain[4] = { tag[0] & 0x7f, tag[1], tag[2], tag[3] };
    unsigned c = 0;

    while (c < CODECS && memcmp(plain, tags[c], sizeof plain) != 0)
        c++;
    return (enum codec)c;
}

static enum ahead_status
check_first(const uint8_t *header, const uint32_t *expected, struct ahead_error *err)
{
    uint64_t length = ahead_load_u64_le(header);
    uint64_t fields = ahead_load_u64_le(header + FIELDS_AT);

    if (length > MAX_LENGTH)
        return ahead_error_set(err, AHEAD_CORRUPT, AHEAD_NO_OFFSET,
                               "its length of %" PRId64 " is not from %d to %" PRIu64,
                               (int64_t)length, MIN_LENGTH, MAX_LENGTH);
    if (fields > INT32_MAX)
        return ahead_error_set(err, AHEAD_CORRUPT, AHEAD_NO_OFFSET,
                               "its field count of %" PRId64 " is not from 0 to %" PRId32,
                               (int64_t)fields, INT32_MAX);
    if (expected && fields != *expected)
        return ahead_error_set(err, AHEAD_CORRUPT, AHEAD_NO_OFFSET,
                               "it has %" PRIu64 " fields where %" PRIu32 " are expected", fields,
                               *expected);
    return AHEAD_OK;
}

static enum ahead_status
check(const uint8_t *header, size_t have, void *ctx, struct ahead_error *err)
{
    const uint8_t *tag = header + TAG_AT;

    if (have < HEADER_BYTES)
        return check_first(header, ctx, err);
    if (codec_of(tag) == CODECS)
        return ahead_error_set(err, AHEAD_CORRUPT, AHEAD_NO_OFFSET,
                               "its tag %02x %02x %02x %02x is none of NONE, LZ4_, ZSTD, SNAP",
                               tag[0], tag[1], tag[2], tag[3]);
    return AHEAD_OK;
}

const struct ahead_frame_format ahead_frame_comet = {
    .header_bytes = HEADER_BYTES,
    .length_offset = 0,
    .length_bytes = 8,
    .first_bytes = FIRST_BYTES,
    .length_counts_from = COUNTS_FROM,
    .min_length = MIN_LENGTH,
    .check = check,
};
