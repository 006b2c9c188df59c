/* SPDX-License-Identifier: Apache-2.0 */
/* sink.h - where bytes go: files, pipes, memory, your own callback. */
#ifndef AHEAD_SINK_H
#define AHEAD_SINK_H

#include <stddef.h>
#include <sys/types.h>

#include <ahead/source.h>
#include <ahead/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The functions of a sink.  All but write() may be NULL.
 *
 * Only one of write(), flush(), finish() and close() runs at a time, but not
 * always on the same thread: they run on the writing thread or on the writer's
 * second thread.  interrupt() runs on any thread, beside all but close(). */
struct ahead_sink_ops {
    /* As write(2): take 1..len bytes from src (len > 0) and return how many,
     * -1 on failure with *err filled in; left zero, it means AHEAD_IO with
     * errno.  Short writes are fine, the rest is offered again.  -1 with EINTR
     * is retried at once; with EAGAIN, and a result of 0, a bounded number of
     * times with a back-off (some two seconds in all), then it is AHEAD_IO.
     * After any other -1 nothing but close() is called, so that there is no
     * hole in what arrives.  A result above len is AHEAD_IO.
     * `err->source_offset` is UINT64_MAX on entry; left so, it becomes the
     * number of bytes that this sink has taken. */
    ssize_t (*write)(void *ctx, const void *src, size_t len, struct ahead_error *err);

    /* Pass on everything that was taken.  Called for ahead_writer_flush().
     * NULL: nothing to do. */
    enum ahead_status (*flush)(void *ctx, struct ahead_error *err);

    /* Make a blocked write(), flush() or finish() return soon, and every later
     * one, with whatever result.  Any thread, also when none is running.
     * NULL: cancel has to wait for them to return by themselves. */
    void (*interrupt)(void *ctx);

    /* Release ctx.  Called exactly once, after the last of all other calls,
     * also after a failure.  NULL: nothing to release. */
    enum ahead_status (*close)(void *ctx, struct ahead_error *err);

    /* The output is whole: write what ends it, and pass everything on.  Called
     * once before close(), unless the output failed or was cancelled: so an
     * end mark never makes a cut output look whole.  NULL: flush() is called
     * instead, if something was written since the last one. */
    enum ahead_status (*finish)(void *ctx, struct ahead_error *err);
};

/* A sink: a table of functions and what they work on.  Passed by value.
 * Whoever takes one owns it from the call on, whatever the call returns, and
 * closes it exactly once. */
struct ahead_sink {
    const struct ahead_sink_ops *ops;
    void *ctx;
};

/* A sink over a descriptor: a regular file, pipe, socket or terminal, written
 * from where it stands.
 *
 * Everything but a file is waited for by poll(2), so that cancel gets through;
 * a non-blocking descriptor is waited for as well, and its flags are left as
 * they are.  A reader that has gone is AHEAD_IO with EPIPE: no SIGPIPE reaches
 * the process, nor SIGXFSZ for a file that grows too large, whatever it does
 * with those signals.
 *
 * The descriptor is the sink's if `flags` has AHEAD_FD_CLOSE (also if this call
 * fails: then it has been closed), else the caller's, who keeps it open until
 * the sink is closed.  There are no other flags.
 *
 * Does not wait.  AHEAD_OK; AHEAD_INVALID: `out` is NULL, fd is negative, an
 * unknown flag; AHEAD_NOMEM; AHEAD_IO with errno set, EISDIR for a directory,
 * EBADF for what is not open for writing (of a file the first write says that).
 * On failure *out is all zero. */
AHEAD_API AHEAD_NODISCARD enum ahead_status
ahead_sink_fd(struct ahead_sink *out, int fd, unsigned flags);

/* A sink over the file at `path`, which is made, with mode 0666 less the umask,
 * or cut to nothing, now; close-on-exec.  Opening a FIFO waits for its reader,
 * as open(2) does.  Status as ahead_sink_fd(); a file that cannot be opened is
 * AHEAD_IO with errno set. */
AHEAD_API AHEAD_NODISCARD enum ahead_status
ahead_sink_path(struct ahead_sink *out, const char *path);

/* A sink that collects in memory.  *data (NULL at first) and *len are kept up
 * to date while it is written to: look at them after a flush or the close.
 * Once the sink is closed, *data is the caller's to free().  A write that finds
 * no memory is AHEAD_NOMEM; what was taken before stays.  AHEAD_OK;
 * AHEAD_INVALID: an argument is NULL; AHEAD_NOMEM. */
AHEAD_API AHEAD_NODISCARD enum ahead_status
ahead_sink_memory(struct ahead_sink *out, uint8_t **data, size_t *len);

#ifdef __cplusplus
}
#endif
#endif
