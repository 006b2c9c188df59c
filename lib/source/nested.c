/* SPDX-License-Identifier: Apache-2.0 */
/* nested.c - a source that reads from another stream. */
#include <ahead/source.h>
#include <ahead/stream.h>

#include "error.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>

struct nested {
    struct ahead_stream *inner; /* read by who holds the token; interrupt() cancels it */
    uint64_t start;             /* immutable: where it stood; the first byte that this source has */
    bool passed_on;             /* token: the outer stream has the fault of the inner one */
};

/* The inner stream's ending is the source's, with all that was said of it. */
static enum ahead_status pass_on(struct nested *n, enum ahead_status st, struct ahead_error *err)
{
    n->passed_on = true;
    *err = *ahead_error(n->inner);
    return st;
}

/* A time limit of the inner stream bounds the waits of its reader, who is the
 * outer stream and has a limit of its own, or none: so a wait that ran out
 * goes on.  As a fault, or as EAGAIN too often, it would be the end of a stream
 * that has lost nothing.  interrupt() ends it. */
static ssize_t nested_read(void *ctx, void *dst, size_t len, struct ahead_error *err)
{
    struct nested *n = ctx;
    enum ahead_status st;
    size_t got;

    if (len > SSIZE_MAX)
        len = SSIZE_MAX;
    do
        st = ahead_read(n->inner, dst, len, &got);
    while (st == AHEAD_TIMEDOUT);
    if (st && st != AHEAD_EOF) {
        pass_on(n, st, err);
        errno = err->os_errno;
        return -1;
    }
    return (ssize_t)got;
}

static enum ahead_status
nested_skip(void *ctx, uint64_t n_bytes, uint64_t *skipped, struct ahead_error *err)
{
    struct nested *n = ctx;
    enum ahead_status st;

    *skipped = 0;
    do {
        uint64_t part;

        st = ahead_skip(n->inner, n_bytes - *skipped, &part);
        *skipped += part;
    } while (st == AHEAD_TIMEDOUT);
    return st && st != AHEAD_EOF ? pass_on(n, st, err) : AHEAD_OK;
}

static enum ahead_status nested_seek(void *ctx, uint64_t offset, struct ahead_error *err)
{
    struct nested *n = ctx;
    enum ahead_status st;

    if (offset > UINT64_MAX - n->start)
        return ahead_error_set(err, AHEAD_INVALID, AHEAD_NO_OFFSET,
                               "no stream reaches to offset %llu", (unsigned long long)offset);
    do
        st = ahead_seek(n->inner, n->start + offset);
    while (st == AHEAD_TIMEDOUT);
    if (st)
        *err = *ahead_error(n->inner);
    else
        n->passed_on = false;
    return st;
}

static bool nested_ready(void *ctx)
{
    struct nested *n = ctx;

    return ahead_buffered(n->inner) > 0;
}

static void nested_interrupt(void *ctx)
{
    struct nested *n = ctx;

    ahead_cancel(n->inner);
}

/* Closing the inner stream returns the fault that it was read to.  If the outer
 * one has that, it is told by whoever reads up to it, and by nobody else. */
static enum ahead_status nested_close(void *ctx, struct ahead_error *err)
{
    struct nested *n = ctx;
    bool passed_on = n->passed_on;
    enum ahead_status st = ahead_close(n->inner);
    int os_errno = errno;

    free(n);
    if (!st || passed_on)
        return AHEAD_OK;
    if (st == AHEAD_IO)
        return ahead_error_set_errno(err, os_errno, AHEAD_NO_OFFSET, "close of the inner stream");
    return ahead_error_set(err, st, AHEAD_NO_OFFSET, "close of the inner stream: %s",
                           ahead_status_name(st));
}

static const struct ahead_source_ops nested_ops = {
    .read = nested_read,
    .skip = nested_skip,
    .seek = nested_seek,
    .ready = nested_ready,
    .interrupt = nested_interrupt,
    .close = nested_close,
};

enum ahead_status ahead_source_stream(struct ahead_source *out, struct ahead_stream *s)
{
    struct nested *n = out && s ? malloc(sizeof *n) : NULL;

    if (out)
        *out = (struct ahead_source){ .ops = NULL };
    if (!n) {
        (void)ahead_close(s);
        return ahead_fail_errno(out && s ? AHEAD_NOMEM : AHEAD_INVALID);
    }
    *n = (struct nested){ .inner = s, .start = ahead_tell(s) };
    *out = (struct ahead_source){ .ops = &nested_ops, .ctx = n };
    return AHEAD_OK;
}
