/* SPDX-License-Identifier: Apache-2.0 */
/* lz4.h - LZ4 frames and LZ4Block streams, encoded on the way. */
#ifndef AHEAD_LZ4_H
#define AHEAD_LZ4_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ahead/sink.h>
#include <ahead/status.h>

#ifdef __cplusplus
extern "C" {
#endif

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
