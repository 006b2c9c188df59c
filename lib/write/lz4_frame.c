/* SPDX-License-Identifier: Apache-2.0 */
/* lz4_frame.c - a sink that writes one LZ4 frame, by liblz4's frame encoder. */
#include <ahead/lz4.h>

#include "error.h"
#include "write/outlet.h"

#include <lz4frame.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_BYTES = 4 << 20,    /* the largest block */
    PIECE_BYTES = 256 * 1024 /* given to the encoder at once; it saves 64 KiB behind each */
};

struct lz4_frame {
    struct ahead_outlet out; /* see outlet.h */

    /* immutable */
    LZ4F_preferences_t prefs;
    size_t piece_bytes;

    /* holder */
    LZ4F_cctx *codec;
    uint8_t *encoded; /* as much as a piece can become */
    size_t encoded_cap;
    uint64_t taken; /* bytes, not yet encoded */
    bool begun;     /* the header is written */
};

/* ---- what the encoder gives ---- */

/* Passes on what a step of the encoder has put into `encoded`, n bytes or an
 * error. */
static enum ahead_status pass_on(struct lz4_frame *f, size_t n, struct ahead_error *err)
{
    if (!LZ4F_isError(n))
        return ahead_outlet_write(&f->out, f->encoded, n, err);
    /* All other errors are those of a caller who gives too little room. */
    ahead_error_set(err, AHEAD_NOMEM, AHEAD_NO_OFFSET, "the LZ4 encoder failed: %s",
                    LZ4F_getErrorName(n));
    return ahead_outlet_fail(&f->out, err);
}

static enum ahead_status begin(struct lz4_frame *f, struct ahead_error *err)
{
    if (f->begun)
        return AHEAD_OK;
    f->begun = true;
    return pass_on(f, LZ4F_compressBegin(f->codec, f->encoded, f->encoded_cap, &f->prefs), err);
}

static enum ahead_status
put_piece(struct lz4_frame *f, const uint8_t *src, size_t len, struct ahead_error *err)
{
    return pass_on(f, LZ4F_compressUpdate(f->codec, f->encoded, f->encoded_cap, src, len, NULL),
                   err);
}

/* Whether the size that the header has is kept, with `more` bytes to come. */
static enum ahead_status
check_size(struct lz4_frame *f, uint64_t more, bool last, struct ahead_error *err)
{
    unsigned long long size = f->prefs.frameInfo.contentSize;

    if (size == 0 || (more <= size - f->taken && !(last && f->taken < size)))
        return AHEAD_OK;
    ahead_error_set(err, AHEAD_CORRUPT, AHEAD_NO_OFFSET,
                    "%s bytes are written than the %llu that were announced",
                    last ? "fewer" : "more", size);
    return ahead_outlet_fail(&f->out, err);
}

/* ---- the sink ---- */

static ssize_t frame_write(void *ctx, const void *src, size_t len, struct ahead_error *err)
{
    struct lz4_frame *f = ctx;
    size_t done = 0;

    if (ahead_outlet_has_failed(&f->out, err) || check_size(f, len, false, err) || begin(f, err))
        return -1;
    while (done < len) {
        size_t n = len - done < f->piece_bytes ? len - done : f->piece_bytes;

        if (put_piece(f, (const uint8_t *)src + done, n, err))
            break;
        done += n;
        f->taken += n;
    }
    return done > 0 ? (ssize_t)done : -1;
}

static enum ahead_status frame_flush(void *ctx, struct ahead_error *err)
{
    struct lz4_frame *f = ctx;
    enum ahead_status st = begin(f, err);

    if (!st)
        st = pass_on(f, LZ4F_flush(f->codec, f->encoded, f->encoded_cap, NULL), err);
    return st ? st : ahead_outlet_flush(&f->out, err);
}

static enum ahead_status frame_finish(void *ctx, struct ahead_error *err)
{
    struct lz4_frame *f = ctx;
    enum ahead_status st = check_size(f, 0, true, err);

    if (!st)
        st = begin(f, err);
    if (!st)
        st = pass_on(f, LZ4F_compressEnd(f->codec, f->encoded, f->encoded_cap, NULL), err);
    return st ? st : ahead_outlet_finish(&f->out, err);
}

static void frame_interrupt(void *ctx)
{
    struct lz4_frame *f = ctx;

    ahead_outlet_interrupt(&f->out);
}

static void destroy(struct lz4_frame *f)
{
    LZ4F_freeCompressionContext(f->codec);
    free(f->encoded);
    free(f);
}

static enum ahead_status frame_close(void *ctx, struct ahead_error *err)
{
    struct lz4_frame *f = ctx;
    enum ahead_status st = ahead_outlet_close(&f->out, err);

    destroy(f);
    return st;
}

static const struct ahead_sink_ops frame_ops = {
    .write = frame_write,
    .flush = frame_flush,
    .interrupt = frame_interrupt,
    .close = frame_close,
    .finish = frame_finish,
};

/* ---- the constructor ---- */

/* The smallest of the four sizes that a frame can have which holds the block. */
static LZ4F_blockSizeID_t size_id_of(size_t block_bytes, size_t *size)
{
    unsigned id = LZ4F_max64KB;

    for (*size = 64 * 1024; *size < block_bytes; *size *= 4)
        id++;
    return (LZ4F_blockSizeID_t)id;
}

static struct lz4_frame *create(const struct ahead_lz4_encode_options *opt)
{
    struct lz4_frame *f = calloc(1, sizeof *f);
    size_t size;

    if (!f)
        return NULL;
    f->prefs = (LZ4F_preferences_t){
        .frameInfo = {
            .blockSizeID = size_id_of(opt->block_bytes, &size),
            .blockMode = opt->independent_blocks ? LZ4F_blockIndependent : LZ4F_blockLinked,
            .contentChecksumFlag = opt->no_content_checksum ? LZ4F_noContentChecksum
                                                            : LZ4F_contentChecksumEnabled,
            .blockChecksumFlag = opt->block_checksums ? LZ4F_blockChecksumEnabled
                                                      : LZ4F_noBlockChecksum,
            .contentSize = opt->content_size,
        },
        .compressionLevel = opt->level,
    };
    f->piece_bytes = size > PIECE_BYTES ? size : PIECE_BYTES;
    f->encoded_cap = LZ4F_compressBound(f->piece_bytes, &f->prefs);
    f->encoded = malloc(f->encoded_cap);
    if (f->encoded && !LZ4F_isError(LZ4F_createCompressionContext(&f->codec, LZ4F_VERSION)))
        return f;
    destroy(f);
    return NULL;
}

enum ahead_status ahead_sink_lz4_frame(struct ahead_sink *out, struct ahead_sink inner,
                                       const struct ahead_lz4_encode_options *opt)
{
    static const struct ahead_lz4_encode_options defaults;
    struct lz4_frame *f;

    if (!opt)
        opt = &defaults;
    if (!out || !inner.ops || !inner.ops->write || opt->block_bytes > MOST_BYTES)
        return ahead_sink_refuse(out, inner, AHEAD_INVALID);
    f = create(opt);
    if (!f)
        return ahead_sink_refuse(out, inner, AHEAD_NOMEM);
    ahead_outlet_init(&f->out, inner);
    *out = (struct ahead_sink){ .ops = &frame_ops, .ctx = f };
    return AHEAD_OK;
}
