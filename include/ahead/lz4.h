/* SPDX-License-Identifier: Apache-2.0 */
/* lz4.h - LZ4 frames and LZ4Block streams, decoded and encoded on the way. */
#ifndef AHEAD_LZ4_H
#define AHEAD_LZ4_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ahead/sink.h>
#include <ahead/source.h>
#include <ahead/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How a decoder is to read.  All zero is complete, and what NULL means. */
struct ahead_lz4_options {
    /* Accept the ends that Apache Spark's reader accepts: an input of 0 bytes,
     * and an LZ4Block stream without its end mark.  Nothing else changes. */
    bool compat;
    bool empty_ok; /* an input of 0 bytes is AHEAD_EOF: an empty partition */
    /* Do not compute block and content checksums.  Damage then shows only
     * where a block does not decode. */
    bool no_checksums;
    /* The largest block, decoded, that is accepted: of LZ4Block each block's
     * length, of an LZ4 frame the block maximum in its header; a legacy frame
     * counts as 8 MiB.  Above it AHEAD_LIMIT, before any memory is taken.
     * 0: what the format allows (32 MiB, 4 MiB, 8 MiB). */
    size_t max_block_bytes;
    /* Bytes that stand in front of the data of LZ4 frames; the last 64 KiB of
     * them count.  Borrowed until the source is closed. */
    const void *dict;
    size_t dict_len;
    uint32_t dict_id; /* the only one that a frame may ask for; 0: any */
};

/* Formats that can be told from their first bytes. */
enum ahead_format { AHEAD_FORMAT_PLAIN, AHEAD_FORMAT_LZ4_FRAME, AHEAD_FORMAT_LZ4_BLOCK };

/* A source that decodes LZ4 frames, as the lz4 command line writes them:
 * linked and independent blocks, checksums, content size, dictionaries, frames
 * one behind the other, skippable and legacy frames.
 *
 * `inner` belongs to the library from the call on, whatever is returned: on
 * failure it has been closed and *out is all zero.  `opt` is copied, the
 * dictionary is borrowed.
 *
 * No byte of a block is delivered before the whole block has arrived and has
 * been verified; all that was verified is delivered before a fault is.  A
 * content checksum, a content size that is not reached and a missing end can
 * only be judged behind the data.  Endings: AHEAD_EOF; AHEAD_TRUNCATED: the
 * input stops inside a frame; AHEAD_CORRUPT; AHEAD_LIMIT; AHEAD_UNSUPPORTED:
 * another dictionary is needed; and those of `inner`, as they are.
 * `source_offset` is the start of the frame, block or field at fault.
 *
 * Memory: a block in encoded form and 64 KiB, a block decoded where it cannot
 * go to its place, 128 KiB for linked blocks.  A seek goes to 0 only, and where
 * `inner` can.  A skip decodes and verifies what it passes over.
 *
 * Does not read yet.  AHEAD_OK; AHEAD_INVALID: `out` or the functions of
 * `inner` are NULL, or `dict` is and dict_len is not 0; AHEAD_NOMEM.  On
 * failure errno is set. */
AHEAD_API AHEAD_NODISCARD enum ahead_status
ahead_source_lz4_frame(struct ahead_source *out, struct ahead_source inner,
                       const struct ahead_lz4_options *opt);

/* The same for the LZ4Block stream of lz4-java, which Apache Spark writes for
 * shuffles and spills: blocks on their own, each with a 28-bit XXH32, behind
 * them an end mark; one such stream behind the other.  Dictionaries are not
 * looked at. */
AHEAD_API AHEAD_NODISCARD enum ahead_status
ahead_source_lz4_block(struct ahead_source *out, struct ahead_source inner,
                       const struct ahead_lz4_options *opt);

/* Read the first bytes of `inner`, up to 10 of them, and make the source that
 * they call for; *found says which.  `found` may be NULL.
 *
 * Anything but LZ4 is AHEAD_FORMAT_PLAIN, delivered as it is: `inner` itself
 * where it can seek back.  But gzip, zstd, snappy, xz, bzip2 and Arrow files
 * are refused: this call returns AHEAD_OK with AHEAD_FORMAT_PLAIN, and the
 * first read ends with AHEAD_UNSUPPORTED, at source offset 0, in a text that
 * names the format.  A fault of `inner` comes at its place in the reading.
 *
 * May block for the first bytes.  Owners and status as above. */
AHEAD_API AHEAD_NODISCARD enum ahead_status
ahead_source_detect(struct ahead_source *out, struct ahead_source inner,
                    const struct ahead_lz4_options *opt, enum ahead_format *found);

/* ---- encoders: sinks around another sink ---- */

/* How an encoder is to write.  All zero is complete, and what NULL means.  What
 * a format does not have is not looked at. */
struct ahead_lz4_encode_options {
    /* 0: the fast one of the library; below: faster still, and larger; 3 to 12:
     * high compression, slower and smaller.  Read back equally fast. */
    int level;
    /* The most bytes in a block.  LZ4 frame: 64 KiB, 256 KiB, 1 MiB or 4 MiB,
     * other numbers count as the next of these; 0: 64 KiB.  LZ4Block: 64 bytes
     * to 32 MiB; 0: 32 KiB, as Apache Spark. */
    size_t block_bytes;
    bool independent_blocks;  /* frame: no block refers to one before it */
    bool block_checksums;     /* frame: one for each block as it is stored */
    bool no_content_checksum; /* frame: none for the whole */
    uint64_t content_size;    /* frame: bytes that will be written, for its header; 0: not said */
};

/* A sink that encodes what it takes as one LZ4 frame.
 *
 * `inner` belongs to the library from the call on, whatever is returned: on
 * failure it has been closed and *out is all zero.  `opt` is copied.
 *
 * Behind a writer it encodes on the writer's second thread.  A block that does
 * not get smaller is stored as it is.  flush() ends the block that is being
 * collected, so that everything reaches `inner`; finish() ends the frame.  An
 * output that failed, or was cancelled, has no end mark, so that no reader
 * takes it for whole.
 *
 * Fails as `inner` does, with the `source_offset` of that: the number of bytes
 * that `inner` took, while `offset` is of bytes that were not encoded yet.  Of
 * the latter some may have been collected in a block that was lost.  Besides:
 * AHEAD_NOMEM; AHEAD_CORRUPT: more bytes than content_size are written, or
 * fewer when it is finished.
 *
 * Memory: two blocks, or what liblz4 needs for the level (up to 512 KiB).
 * Writes nothing yet.  AHEAD_OK; AHEAD_INVALID: `out` or inner.ops->write is
 * NULL, block_bytes is above 4 MiB; AHEAD_NOMEM.  On failure errno is set. */
AHEAD_API AHEAD_NODISCARD enum ahead_status
ahead_sink_lz4_frame(struct ahead_sink *out, struct ahead_sink inner,
                     const struct ahead_lz4_encode_options *opt);

/* The same for the LZ4Block stream of lz4-java, as Apache Spark writes it:
 * blocks on their own, each with a 28-bit XXH32, and an end mark.  Also
 * AHEAD_INVALID: block_bytes is below 64 or above 32 MiB. */
AHEAD_API AHEAD_NODISCARD enum ahead_status
ahead_sink_lz4_block(struct ahead_sink *out, struct ahead_sink inner,
                     const struct ahead_lz4_encode_options *opt);

#ifdef __cplusplus
}
#endif
#endif
