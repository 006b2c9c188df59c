/* SPDX-License-Identifier: Apache-2.0 */
/* comet.c - shuffle blocks of DataFusion Comet: their headers, and their bodies. */
#include <ahead/frame.h>

#include "error.h"

#include <ahead/lz4.h>
#include <ahead/read.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    FIRST_BYTES = 16, /* length and field count */
    HEADER_BYTES = 20,
    COUNTS_FROM = 8,
    FIELDS_AT = 8,
    TAG_AT = 16,
    MIN_LENGTH = 12,
    /* The first piece of memory for a decoded body, unless it is in sight that
     * it takes more: what a frame of a few kilobytes decodes to. */
    BODY_BYTES = 64 * 1024,
    RATIO = 2 /* of a decoded body to a stored one, as a first guess */
};

#define MAX_LENGTH ((uint64_t)INT32_MAX + COUNTS_FROM)

/* ---- headers ---- */

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

/* ---- bodies ---- */

/* Memory from malloc(), the caller's before and afterwards. */
struct output {
    uint8_t *bytes;
    size_t cap, len, max;
};

static bool resize(struct output *o, size_t cap)
{
    /* Never to 0: what that does differs between systems. */
    uint8_t *bytes = realloc(o->bytes, cap ? cap : 1);

    if (!bytes)
        return false;
    o->bytes = bytes;
    o->cap = cap;
    return true;
}

/* The first memory, for a body of so many stored bytes. */
static bool begin_output(struct output *o, size_t stored)
{
    size_t cap = stored > SIZE_MAX / RATIO ? SIZE_MAX : stored * RATIO;

    if (cap < BODY_BYTES)
        cap = BODY_BYTES;
    return resize(o, cap < o->max ? cap : o->max);
}

static bool grow(struct output *o)
{
    return resize(o, o->cap > o->max / 2 ? o->max : 2 * o->cap);
}

static enum ahead_status no_memory(struct ahead_error *err)
{
    return ahead_error_set(err, AHEAD_NOMEM, AHEAD_NO_OFFSET, "no memory for a decoded body");
}

static enum ahead_status over_limit(struct ahead_error *err, size_t max)
{
    return ahead_error_set(err, AHEAD_LIMIT, AHEAD_NO_OFFSET,
                           "the body decodes to more than the limit of %zu bytes", max);
}

static enum ahead_status
copy_body(const struct ahead_frame *f, struct output *o, struct ahead_error *err)
{
    if (f->body_len > o->max)
        return over_limit(err, o->max);
    if (!resize(o, f->body_len))
        return no_memory(err);
    if (f->body_len > 0)
        memcpy(o->bytes, f->body, f->body_len);
    o->len = f->body_len;
    return AHEAD_OK;
}

/* The frame is whole, so that no fault in its body is mended by more bytes or
 * by a dictionary: all but want of memory is damage. */
static enum ahead_status body_failed(struct ahead_error *err)
{
    struct ahead_error below = *err;

    if (below.status == AHEAD_NOMEM)
        return AHEAD_NOMEM;
    return ahead_error_set(err, AHEAD_CORRUPT, AHEAD_NO_OFFSET, "in the body, byte %" PRIu64 ": %s",
                           below.source_offset, below.text);
}

/* Reads a decoder of the body to its end.  When all that is allowed is full, a
 * last byte tells whether the body is of that size, is damaged or goes on. */
static enum ahead_status
read_body(struct ahead_source src, struct output *o, struct ahead_error *err)
{
    for (;;) {
        bool full = o->len == o->max;
        uint8_t beyond;
        ssize_t n;

        if (!full && o->len == o->cap && !grow(o))
            return no_memory(err);
        n = src.ops->read(src.ctx, full ? &beyond : o->bytes + o->len, full ? 1 : o->cap - o->len,
                          err);
        if (n < 0)
            return body_failed(err);
        if (n == 0)
            return AHEAD_OK;
        if (full)
            return over_limit(err, o->max);
        o->len += (size_t)n;
    }
}

static enum ahead_status
decode_lz4(const struct ahead_frame *f, struct output *o, struct ahead_error *err)
{
    struct ahead_error ignored;
    struct ahead_source src;
    enum ahead_status st;

    if (!begin_output(o, f->body_len) || ahead_source_memory(&src, f->body, f->body_len) ||
        ahead_source_lz4_frame(&src, src, NULL))
        return no_memory(err);
    st = read_body(src, o, err);
    (void)src.ops->close(src.ctx, &ignored);
    return st;
}

static enum ahead_status
decode(const struct ahead_frame *f, struct output *o, struct ahead_error *err)
{
    enum codec codec = codec_of(f->header + TAG_AT);

    switch (codec) {
    case CODEC_NONE: return copy_body(f, o, err);
    case CODEC_LZ4: return decode_lz4(f, o, err);
    case CODEC_ZSTD:
    case CODEC_SNAPPY:
        return ahead_error_set(err, AHEAD_UNSUPPORTED, AHEAD_NO_OFFSET,
                               "a %s body cannot be decoded here", tags[codec]);
    case CODECS: break;
    }
    return ahead_error_set(err, AHEAD_INVALID, AHEAD_NO_OFFSET, "this is no frame of Comet's");
}

enum ahead_status ahead_frame_comet_decode(const struct ahead_frame *f, size_t max_bytes,
                                           uint8_t **out, size_t *len, struct ahead_error *err)
{
    struct output o = { .max = max_bytes ? max_bytes : SIZE_MAX };
    struct ahead_error unwanted;
    enum ahead_status st;

    if (!err)
        err = &unwanted;
    *err = (struct ahead_error){ .source_offset = AHEAD_NO_OFFSET };
    if (len)
        *len = 0;
    if (!f || !f->header || (!f->body && f->body_len) || !out || !len)
        return ahead_error_set(err, AHEAD_INVALID, AHEAD_NO_OFFSET,
                               "there is no frame, or no room");
    o.bytes = *out;
    st = decode(f, &o, err);
    *out = o.bytes;
    if (st) {
        err->offset = err->source_offset = f->offset;
        return st;
    }
    *err = (struct ahead_error){ .source_offset = AHEAD_NO_OFFSET }; /* a decoder may say EOF */
    *len = o.len;
    return AHEAD_OK;
}
