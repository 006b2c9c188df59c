/* SPDX-License-Identifier: Apache-2.0 */
/* stream.h - a stream that reads ahead of its reader.
 *
 * A stream has two buffers.  The reader walks through one without taking a
 * lock, a second thread fills the other, and they are swapped under a lock.
 *
 *     struct ahead_stream *s;
 *     int32_t v;
 *     int64_t sum = 0;
 *     enum ahead_status st = ahead_open_path(&s, "numbers", NULL);
 *
 *     if (st)
 *         return st;
 *     while (!(st = ahead_read_i32_be(s, &v)))
 *         sum += v;
 *     if (st != AHEAD_EOF)
 *         fprintf(stderr, "%s\n", ahead_error(s)->text);
 *     ahead_close(s);
 *
 * Threads: one stream is read by one thread at a time.  Different streams are
 * independent.  ahead_cancel() may be called from any thread.
 *
 * In a child of fork() the second thread does not exist: the bytes at hand can
 * be read there, a call that needs more is AHEAD_INVALID, and ahead_close()
 * closes the source and frees memory, without waiting. */
#ifndef AHEAD_STREAM_H
#define AHEAD_STREAM_H

#include <stdbool.h>
#include <stddef.h>

#include <ahead/source.h>
#include <ahead/status.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ahead_pool;

/* The part of a stream that the inlines of read.h touch.  Only the reading
 * thread looks at it, so nothing is atomic and nothing is locked.
 *
 *        bytes        next           end
 *          |...read....|##unread######|--slack--|
 *
 * next == end in every state but "bytes are at hand": fresh, drained, ended,
 * failed.  So one comparison is the whole fast path.  Neither is ever NULL,
 * and AHEAD_SLACK bytes behind `end` belong to the same memory. */
struct ahead_stream {
    const uint8_t *next; /* reader: first unread byte */
    const uint8_t *end;  /* reader: one past the last byte at hand */
};

enum {
    AHEAD_SLACK = 16 /* bytes of memory behind every `end` */
};

/* Flags of a stream. */
enum {
    AHEAD_EAGER = 1, /* start the second thread and fill from open on */
    AHEAD_SYNC = 2   /* no second thread: the reader fills, all else is the same */
};

/* How a stream is to be.  All zero is complete, and what NULL means. */
struct ahead_options {
    /* One of the two buffers, 1 byte to 1 GiB.  0: chosen from the machine,
     * from what the source has left and from its largest block. */
    size_t buffer_bytes;
    unsigned flags;            /* AHEAD_EAGER, AHEAD_SYNC */
    struct ahead_pool *pool;   /* NULL: a thread of its own, when it is needed */
    uint32_t read_timeout_ms;  /* bounds each wait of the reader; 0: no limit */
    uint32_t close_timeout_ms; /* bounds the wait of close; 0: no limit */
    const char *name;          /* of the second thread: 15 bytes count; copied; NULL: "ahead" */
};

/* Open a stream over `src`.
 *
 * `src` belongs to the library from the call on, whatever is returned: on
 * failure it has been closed and *out is NULL.  On success *out is the stream;
 * close it with ahead_close().  `opt` is copied; NULL means defaults.
 *
 * Does not wait for a byte, and starts no thread unless AHEAD_EAGER is set.
 * The source's functions run on the reading thread or the second thread.
 * A second thread that cannot be started is done without.
 * AHEAD_OK; AHEAD_NOMEM; AHEAD_INVALID: `out` or `src.ops->read` is NULL, a
 * flag is unknown, buffer_bytes is above 1 GiB, the pool is that of a parent
 * process.  On failure errno is set. */
AHEAD_API AHEAD_NODISCARD enum ahead_status
ahead_open(struct ahead_stream **out, struct ahead_source src, const struct ahead_options *opt);

/* ahead_source_path() and ahead_open() in one.  AHEAD_IO with errno set if the
 * file cannot be opened; AHEAD_INVALID also if `path` is NULL.  *out is NULL on
 * failure. */
AHEAD_API AHEAD_NODISCARD enum ahead_status
ahead_open_path(struct ahead_stream **out, const char *path, const struct ahead_options *opt);

/* Stop the second thread, close the source once, free everything.
 *
 * Wakes a read of the source that blocks, by its interrupt(), and waits until
 * it has returned; with close_timeout_ms set not longer than that: then
 * AHEAD_TIMEDOUT, and the second thread closes the source and frees the stream
 * when it comes back.  The stream must not be used afterwards, whatever is
 * returned; ahead_cancel() may not begin after close has.  Returns the fault
 * that a read has reached, else what closing the source returned (AHEAD_IO with
 * errno set): an end that was never read to is not judged.  NULL is fine:
 * AHEAD_OK.  Called inside a function of the stream's own source:
 * AHEAD_INVALID, and nothing happens. */
AHEAD_API enum ahead_status ahead_close(struct ahead_stream *s);

/* End the stream, for good.  Any thread, any number of times, also while the
 * reader is inside a call.  Never waits for the source.  A reader that sleeps
 * wakes up; bytes at hand are still delivered, then every call says
 * AHEAD_CANCELLED.  An ending that a call has returned already stays as it is.
 * NULL is fine. */
AHEAD_API void ahead_cancel(struct ahead_stream *s);

/* As read(2): store 1..len bytes at dst, *got says how many; may be short.
 * Waits only when nothing is at hand, until the source has delivered
 * something.  len 0 reads nothing, waits for nothing, and returns AHEAD_OK, or
 * the ending if one has been reached.  `got` may be NULL.  AHEAD_OK has
 * *got > 0 (if len > 0); any other status has *got == 0: an ending,
 * AHEAD_TIMEDOUT, AHEAD_INVALID. */
AHEAD_API AHEAD_NODISCARD enum ahead_status
ahead_read(struct ahead_stream *s, void *dst, size_t len, size_t *got);

/* Store exactly len bytes at dst.  AHEAD_OK only if all are there.  Otherwise
 * *got bytes were stored, and are consumed: AHEAD_EOF if there was not one
 * byte, AHEAD_TRUNCATED if a clean end came in between, else the fault that
 * follows them, or AHEAD_TIMEDOUT.  `got` may be NULL. */
AHEAD_API AHEAD_NODISCARD enum ahead_status
ahead_read_full(struct ahead_stream *s, void *dst, size_t len, size_t *got);

/* Show what comes next without consuming it: *data points to *len bytes, all
 * that lie in one piece of memory, at least `want` of them with AHEAD_OK.
 *
 * They stay valid and unchanged until the next call on this stream that
 * consumes, seeks, peeks or closes; the library owns them.  want 0 shows what
 * is at hand and never waits.  Above the buffer size the bytes are gathered in
 * memory that grows, up to 64 MiB: beyond, AHEAD_LIMIT.  Past the end: the
 * rest, with AHEAD_TRUNCATED, or with the fault that follows; AHEAD_EOF if
 * nothing is left.  AHEAD_TIMEDOUT, AHEAD_NOMEM, AHEAD_LIMIT show what is at
 * hand. */
AHEAD_API AHEAD_NODISCARD enum ahead_status
ahead_peek(struct ahead_stream *s, size_t want, const uint8_t **data, size_t *len);

/* Consume n bytes that ahead_peek() has shown.  More than are at hand is cut
 * to that; with the build option `checks` it stops the program. */
AHEAD_API void ahead_consume(struct ahead_stream *s, size_t n);

/* Pass over n bytes.  Bytes at hand first; then the source is asked to skip,
 * or what it delivers is dropped (a decoder still checks it).  *skipped says
 * how many were passed, in every outcome; may be NULL.  AHEAD_OK only if all;
 * AHEAD_EOF: the end came first; else the fault, or AHEAD_TIMEDOUT. */
AHEAD_API AHEAD_NODISCARD enum ahead_status
ahead_skip(struct ahead_stream *s, uint64_t n, uint64_t *skipped);

/* Go to `offset` bytes from the start of what the source delivers.  Inside the
 * bytes at hand nothing is asked of the source and nothing is lost.  Elsewhere
 * waits for pieces that are being made, then asks the source.
 *
 * AHEAD_OK clears an ending (but not a cancel): where a fault was met the source
 * is asked again.  Past the end it is AHEAD_OK too if the source takes it, and
 * the next read says AHEAD_EOF.  Refused (AHEAD_UNSUPPORTED, AHEAD_INVALID,
 * AHEAD_IO of the seek itself) it changes nothing: position and bytes at hand
 * stay.  AHEAD_CANCELLED; AHEAD_TIMEDOUT: nothing changed. */
AHEAD_API AHEAD_NODISCARD enum ahead_status ahead_seek(struct ahead_stream *s, uint64_t offset);

/* The position of the next unread byte, from the start of what the source
 * delivers.  Arithmetic only.  0 for NULL. */
AHEAD_API uint64_t ahead_tell(const struct ahead_stream *s);

/* How many bytes the stream has in all, read ones included, if its source says
 * how many remain: memory does, and a file as it was when it was opened; a
 * decoder or a pipe does not.  The position stays.  Waits for pieces that are
 * being made.  AHEAD_OK; AHEAD_UNSUPPORTED: not known, also behind a fault;
 * AHEAD_CANCELLED; AHEAD_TIMEDOUT; AHEAD_INVALID: an argument is NULL; past the
 * end, where the source is asked at its start, how it refuses to go there, as
 * of ahead_seek().  *size is written with AHEAD_OK only. */
AHEAD_API AHEAD_NODISCARD enum ahead_status ahead_size(struct ahead_stream *s, uint64_t *size);

/* How many bytes can be read without waiting.  Never blocks, never asks the
 * source.  0 after an ending, and for NULL. */
AHEAD_API size_t ahead_buffered(struct ahead_stream *s);

/* Check that this is the end: AHEAD_OK only if nothing is left and the source
 * has verified its end.  Waits for one byte at most and consumes nothing.
 * AHEAD_CORRUPT with bytes left (no ending; reading can go on; the text of
 * ahead_error() says how many are at hand); else the fault that follows. */
AHEAD_API AHEAD_NODISCARD enum ahead_status ahead_finish(struct ahead_stream *s);

#if defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow" /* a struct of this name: `struct` is always said */
#endif

/* What the last call on this stream that did not return AHEAD_OK or AHEAD_EOF
 * had to say; once an ending has been reached, that ending.  Status AHEAD_OK
 * if there was none.  Valid until the next call; never NULL (for a NULL
 * stream: AHEAD_INVALID). */
AHEAD_API const struct ahead_error *ahead_error(const struct ahead_stream *s);

#if defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

/* A buffer that can change hands.  `data` points into an allocation of the
 * library; `len` bytes are there, `cap` is what fits in from `data` on. */
struct ahead_buffer {
    uint8_t *data;
    size_t len, cap;
};

/* Allocate an empty buffer of the size that this stream uses (which may have
 * to be chosen now, and may ask the source for its largest block).  The
 * caller's, to be freed with ahead_buffer_free() or given to
 * ahead_swap_buffer().  Choosing waits, up to read_timeout_ms, for a read that is
 * under way, and for the first header of a decoder's input, if nothing was read
 * yet.  AHEAD_OK, AHEAD_NOMEM, AHEAD_INVALID, AHEAD_CANCELLED,
 * AHEAD_TIMEDOUT; *b is zero on failure. */
AHEAD_API AHEAD_NODISCARD enum ahead_status
ahead_buffer_alloc(struct ahead_stream *s, struct ahead_buffer *b);

/* Give the stream the buffer *b and get, without a copy, the one that holds
 * the unread bytes: b->data is the first of them, b->len > 0 their number,
 * b->cap what lies behind b->data.  They are consumed.  What it gave is the
 * caller's, to be written at will.
 *
 * Waits for bytes if there are none, as ahead_read() does, and for pieces that
 * are being made in that buffer; but where the source writes into it at this
 * moment and could block, and for bytes that a peek has gathered, it copies
 * what is at hand into the buffer given, and that is what comes back.
 * AHEAD_OK; on any other status *b is unchanged and still the caller's: an
 * ending, AHEAD_TIMEDOUT, AHEAD_NOMEM, AHEAD_INVALID (*b is empty; memory that
 * is not from the library must not be given). */
AHEAD_API AHEAD_NODISCARD enum ahead_status
ahead_swap_buffer(struct ahead_stream *s, struct ahead_buffer *b);

/* Free a buffer; *b is zero afterwards.  NULL and an all-zero one are fine. */
AHEAD_API void ahead_buffer_free(struct ahead_buffer *b);

/* What a stream has done so far. */
struct ahead_stats {
    uint64_t bytes;         /* delivered to the reader */
    uint64_t source_reads;  /* reads, and pieces claimed, of the source */
    uint64_t fills;         /* buffers filled, or closed short */
    uint64_t swaps;         /* buffers used up and given back */
    uint64_t early_returns; /* times the reader got bytes of a buffer still being filled */
    uint64_t reader_waits;  /* times the reader slept */
    uint64_t reader_wait_ns;
    uint64_t fill_waits; /* times the second thread slept */
    uint64_t fill_wait_ns;
    uint64_t sync_fills;      /* reads that the reader did alone: before the second thread
                               came, or because it waits less so */
    uint64_t discarded_bytes; /* read and thrown away, by a seek */
    uint64_t threads_started;
    uint64_t helped_pieces; /* pieces that the reader made beside the second thread */
    uint64_t wakeups;       /* signals sent to a side that slept */
    uint64_t buffers;       /* that have memory now: 0, 1 or 2 */
    uint64_t buffer_bytes;  /* of these together */
};

/* Copy the figures.  Reading thread.  Never blocks. */
AHEAD_API void ahead_get_stats(struct ahead_stream *s, struct ahead_stats *out);

/* Bring at least n (<= 16) unread bytes together at s->next, swapping as often
 * as it takes: the one slow path under every typed read.  Waits.  On any
 * status but AHEAD_OK nothing was consumed: AHEAD_EOF: nothing is left;
 * AHEAD_TRUNCATED: some bytes, not enough, then a clean end; else the fault
 * that follows, or AHEAD_TIMEDOUT. */
AHEAD_API AHEAD_NODISCARD enum ahead_status ahead_need(struct ahead_stream *s, size_t n);

#ifdef __cplusplus
}
#endif
#endif
