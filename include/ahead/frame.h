/* SPDX-License-Identifier: Apache-2.0 */
/* frame.h - frames that say how long they are: by description, and the shuffle
 * blocks of DataFusion Comet ready-made.
 *
 *     uint32_t fields = 4;
 *     struct ahead_frame_format fmt = ahead_frame_comet;
 *     struct ahead_frame_reader *r;
 *     struct ahead_frame f;
 *
 *     fmt.check_ctx = &fields;
 *     fmt.max_length = (64 << 20) + 8;
 *     if ((st = ahead_frame_reader_open(&r, s, &fmt)))
 *         return st;
 *     while (!(st = ahead_frame_next(r, &f)))
 *         use(f.header + 16, f.body, f.body_len);
 *     if (st != AHEAD_EOF)
 *         fprintf(stderr, "%s\n", ahead_frame_error(r)->text);
 *     ahead_frame_reader_close(r);
 *
 * Threads: one reader is used by one thread at a time.  ahead_cancel() of its
 * stream may be called from any thread until the reader is closed. */
#ifndef AHEAD_FRAME_H
#define AHEAD_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ahead/status.h>
#include <ahead/stream.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { AHEAD_FRAME_MAX_HEADER_BYTES = 65536 };

/* How frames look.  One frame behind the other, nothing in between:
 *
 *     0        length_offset     length_counts_from      header_bytes
 *     |-- ... --|== length ==|-- ... --|------- ... --------|--- body ---|
 *                                      `-- so many bytes, the field says -'
 *
 * The length is unsigned: a negative one is a large one. */
struct ahead_frame_format {
    uint32_t header_bytes;       /* 1 to 65536 */
    uint32_t length_offset;      /* of the length field, in the header */
    uint32_t length_bytes;       /* 1 to 8 */
    bool big_endian;             /* the length field is */
    uint32_t first_bytes;        /* judged as soon as so many are there; 0: header_bytes */
    uint32_t length_counts_from; /* 0 to header_bytes */
    /* Of the length field: below min_length AHEAD_CORRUPT (also if the length
     * does not reach the header's end), above max_length AHEAD_LIMIT.
     * max_length 0: no limit. */
    uint64_t min_length, max_length;
    /* Judge a header: called with have == first_bytes, before max_length is
     * looked at; and, if that is less, with have == header_bytes, after it.
     * (Once more for the same frame if AHEAD_TIMEDOUT came in between.)  Any
     * status but AHEAD_OK is the ending, also AHEAD_EOF: an end mark; but
     * AHEAD_TIMEDOUT and AHEAD_INVALID are none, and become AHEAD_IO.
     * err->text, if there is one, goes into that of ahead_frame_error().  On
     * the reading thread.  NULL: all is well. */
    enum ahead_status (*check)(const uint8_t *header, size_t have, void *ctx,
                               struct ahead_error *err);
    void *check_ctx; /* borrowed until the reader is closed */
};

/* A shuffle block of DataFusion Comet: header of 20 bytes, of which 16 are
 * judged first: length (64 bits, counting from byte 8), field count (64 bits),
 * both little-endian; then the tag NONE, LZ4_, ZSTD or SNAP.  The top bit of
 * its first byte may be set: offsets in the body are stored as lengths then.
 * Header and tag are handed out as stored.
 *
 * Copy it to change it: max_length is the largest body + 12; check_ctx is NULL
 * or points to a uint32_t, the field count that every frame must have. */
AHEAD_API extern const struct ahead_frame_format ahead_frame_comet;

/* A frame.  `header` and `body` are the reader's, and never NULL. */
struct ahead_frame {
    const uint8_t *header; /* header_bytes of it */
    const uint8_t *body;
    size_t body_len;
    uint64_t offset; /* of its first byte, in the stream */
};

struct ahead_frame_reader;

/* Open a reader over `s`, which stands in front of a frame.
 *
 * `s` belongs to the library from the call on, whatever is returned: on failure
 * it has been closed and *out is NULL.  `fmt` is copied.  Reads nothing.
 * AHEAD_OK; AHEAD_NOMEM; AHEAD_INVALID: an argument is NULL, or the format
 * contradicts itself: a size out of its range, a length field or first_bytes
 * that reaches beyond the header, a length field that is not in first_bytes,
 * lengths of which none is allowed.  On failure errno is set. */
AHEAD_API AHEAD_NODISCARD enum ahead_status
ahead_frame_reader_open(struct ahead_frame_reader **out, struct ahead_stream *s,
                        const struct ahead_frame_format *fmt);

/* Read the next frame.  Its bytes stay valid and unchanged until the next call
 * on this reader; they lie in the stream's buffer if they are in one piece
 * there, else in memory that grows as they arrive and is used again.
 *
 * Waits as ahead_read() does.  *f is written with AHEAD_OK only.  AHEAD_EOF:
 * the end, and it is where a frame would begin.  Else, and for good, after
 * every whole frame in front of it:
 *
 *   AHEAD_TRUNCATED  a clean end inside a frame
 *   AHEAD_CORRUPT    a length below the least; whatever check() says
 *   AHEAD_LIMIT      a length above max_length, or above what memory can hold;
 *                    nothing was allocated
 *   AHEAD_NOMEM
 *   and each fault of the stream, as it is
 *
 * AHEAD_TIMEDOUT loses nothing: call again.  AHEAD_INVALID: an argument is
 * NULL, or the stream refused the call. */
AHEAD_API AHEAD_NODISCARD enum ahead_status
ahead_frame_next(struct ahead_frame_reader *r, struct ahead_frame *f);

/* Close the stream and free everything.  Waits as ahead_close() does.  Returns
 * the fault that was met, else what closing the stream returned.  NULL is fine:
 * AHEAD_OK. */
AHEAD_API enum ahead_status ahead_frame_reader_close(struct ahead_frame_reader *r);

/* What the last call that did not return AHEAD_OK or AHEAD_EOF had to say, with
 * the number of the frame, from 1; once the end was reached, that.  `offset` is
 * where in the stream the last whole frame ends.  `source_offset` is the same
 * if the frames themselves are at fault, else that of the layer below.  Valid
 * until the next call; never NULL (for a NULL reader: AHEAD_INVALID). */
AHEAD_API const struct ahead_error *ahead_frame_error(const struct ahead_frame_reader *r);

/* Decode the body of a Comet frame into *out, which is NULL or from malloc():
 * it is grown by realloc(), and stays the caller's to free() in every outcome.
 * *len says how many bytes were decoded; 0 on failure.
 *
 * Neither waits nor needs the reader.  AHEAD_OK; AHEAD_LIMIT: more than
 * max_bytes, which is the most that *out is grown to (0: no limit);
 * AHEAD_CORRUPT: the body is damaged, or ends in the wrong place;
 * AHEAD_UNSUPPORTED: ZSTD and SNAP; AHEAD_NOMEM; AHEAD_INVALID: an argument
 * is NULL (`err` may be), or a tag that is none.  *err says what; its
 * source_offset is f->offset. */
AHEAD_API AHEAD_NODISCARD enum ahead_status
ahead_frame_comet_decode(const struct ahead_frame *f, size_t max_bytes, uint8_t **out, size_t *len,
                         struct ahead_error *err);

#ifdef __cplusplus
}
#endif
#endif
