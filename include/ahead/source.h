/* SPDX-License-Identifier: Apache-2.0 */
/* source.h - where bytes come from: files, pipes, memory, your own callback. */
#ifndef AHEAD_SOURCE_H
#define AHEAD_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include <ahead/status.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ahead_stream;
struct ahead_split_ops;

/* The functions of a source.  All but read() may be NULL.
 *
 * Only one of read(), skip(), seek() and close() runs at a time, but not
 * always on the same thread: they run on the reading thread or on the
 * stream's second thread.  interrupt() runs on any thread, beside them. */
struct ahead_source_ops {
    /* As read(2): store 1..len bytes at dst and return how many, 0 at the end,
     * -1 on failure with *err filled in; left zero, it means AHEAD_IO with
     * errno.  Short reads are fine, the fill calls again.  -1 with EINTR is
     * retried at once, with EAGAIN a bounded number of times with a back-off
     * (some two seconds in all), then it is AHEAD_IO.  After any other -1,
     * or 0, it is not called again, unless a seek succeeds.  A result above
     * len is AHEAD_IO, and none of it is delivered.  `err->source_offset` is
     * UINT64_MAX on entry; `err->offset` is filled in by the stream. */
    ssize_t (*read)(void *ctx, void *dst, size_t len, struct ahead_error *err);

    /* Pass over n bytes without delivering them.  *skipped says how many were
     * passed, also on failure; fewer with AHEAD_OK: the end came first.
     * NULL: the stream reads and drops them. */
    enum ahead_status (*skip)(void *ctx, uint64_t n, uint64_t *skipped, struct ahead_error *err);

    /* Go to `offset` bytes from the start of what this source delivers.  On
     * any status but AHEAD_OK nothing may have changed.  NULL: UNSUPPORTED. */
    enum ahead_status (*seek)(void *ctx, uint64_t offset, struct ahead_error *err);

    /* How many bytes are still to be read; UINT64_MAX: not known.  A hint. */
    uint64_t (*remaining)(void *ctx);

    /* Would read() return at once?  NULL: not known.  A hint: a wrong answer
     * costs a reader that waits a fraction of a millisecond. */
    bool (*ready)(void *ctx);

    /* Make a blocked read() return soon, and every later one, with whatever
     * result.  Any thread, also when no read() is running.  NULL: cancel and
     * close have to wait for read() to return by itself. */
    void (*interrupt)(void *ctx);

    /* Release ctx.  Called exactly once, after the last of all other calls.
     * NULL: nothing to release. */
    enum ahead_status (*close)(void *ctx, struct ahead_error *err);

    /* The size in bytes of the largest block, which a buffer must hold if the
     * source is to write into it directly.  May read, and block for, a first
     * header; called before the first read().  0, NULL: any size will do. */
    size_t (*unit)(void *ctx);

    /* Internal to the library's own sources.  Yours: NULL. */
    const struct ahead_split_ops *split;
};

/* A source: a table of functions and what they work on.  Passed by value.
 * Whoever takes one owns it from the call on, whatever the call returns, and
 * closes it exactly once. */
struct ahead_source {
    const struct ahead_source_ops *ops;
    void *ctx;
};

/* Flags of the sources over files. */
enum {
    AHEAD_FD_CLOSE = 1,       /* the source closes the descriptor */
    AHEAD_FD_SEQUENTIAL = 2,  /* tell the kernel that reading is sequential */
    AHEAD_FD_WILLNEED = 4,    /* ask the kernel to read ahead of the cursor */
    AHEAD_FD_DROP_BEHIND = 8, /* drop from the page cache what has been read */
    AHEAD_FD_DIRECT = 16,     /* bypass the page cache (O_DIRECT) */
    AHEAD_FD_LAZY = 32        /* a path is opened at the first read */
};

/* A source over a descriptor: a regular file, pipe, socket or terminal.
 *
 * A regular file is read by pread(2) from the descriptor's present offset,
 * which is never moved, so that the caller may go on using it.  Everything
 * else is read in order with poll(2), so that cancel and close get through; a
 * non-blocking descriptor is waited for, and its flags are left as they are.
 *
 * The descriptor is the source's if `flags` has AHEAD_FD_CLOSE (also if this
 * call fails: then it has been closed), else the caller's, who keeps it open
 * until the source is closed.  0 is a descriptor like any other.  Hints that
 * this kind of file does not have are AHEAD_UNSUPPORTED.
 *
 * Does not wait.  AHEAD_OK; AHEAD_INVALID: `out` is NULL, fd is negative, an
 * unknown flag; AHEAD_NOMEM; AHEAD_IO with errno set, EISDIR for a directory,
 * EBADF for what is not open for reading (of a file the first read says that).
 * On failure *out is all zero. */
AHEAD_API AHEAD_NODISCARD enum ahead_status
ahead_source_fd(struct ahead_source *out, int fd, unsigned flags);

/* A source over the file at `path`, opened now, close-on-exec.  Opening a FIFO
 * waits for its writer, as open(2) does.  Status as ahead_source_fd(); a file
 * that cannot be opened is AHEAD_IO with errno set. */
AHEAD_API AHEAD_NODISCARD enum ahead_status
ahead_source_path(struct ahead_source *out, const char *path);

/* The same with flags; AHEAD_FD_CLOSE is implied.  With AHEAD_FD_LAZY the path
 * is copied and opened at the first read, which then reports what fails. */
AHEAD_API AHEAD_NODISCARD enum ahead_status
ahead_source_path_flags(struct ahead_source *out, const char *path, unsigned flags);

/* A source over exactly `length` bytes of a regular file, from `offset`.  No
 * byte outside of it is requested (of its blocks, with AHEAD_FD_DIRECT).  A
 * file that ends earlier is TRUNCATED after the bytes that are there.  length
 * UINT64_MAX: up to the end of the file, wherever that is.  Owners and status
 * as ahead_source_fd(); a descriptor that cannot be sought is
 * AHEAD_UNSUPPORTED, offset + length above INT64_MAX (but for UINT64_MAX) is
 * AHEAD_INVALID. */
AHEAD_API AHEAD_NODISCARD enum ahead_status
ahead_source_range(struct ahead_source *out, int fd, uint64_t offset, uint64_t length,
                   unsigned flags);

/* A source over `len` bytes at `data`, which stay the caller's and must not
 * change or go away until the source is closed.  (NULL, 0) is an empty input.
 * A stream over it never starts a thread.  AHEAD_OK, AHEAD_INVALID,
 * AHEAD_NOMEM. */
AHEAD_API AHEAD_NODISCARD enum ahead_status
ahead_source_memory(struct ahead_source *out, const void *data, size_t len);

/* A source that reads from another stream, which it owns from the call on and
 * closes.  The inner stream's endings pass through as they are, offset and
 * text included.  AHEAD_OK, AHEAD_INVALID, AHEAD_NOMEM (the stream has been
 * closed then). */
AHEAD_API AHEAD_NODISCARD enum ahead_status
ahead_source_stream(struct ahead_source *out, struct ahead_stream *s);

#ifdef __cplusplus
}
#endif
#endif
