/* SPDX-License-Identifier: Apache-2.0 */
/* file.c - a FILE of stdio over a stream, which is all that its functions need. */
#include <ahead/file.h>

#include "error.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>

/* What stdio is told: a status as errno, and -1. */
static int fail(enum ahead_status st, int os_errno)
{
    if (st == AHEAD_IO)
        errno = os_errno ? os_errno : EIO;
    else
        ahead_fail_errno(st);
    return -1;
}

static ssize_t file_read(void *cookie, char *dst, size_t len)
{
    struct ahead_stream *s = cookie;
    enum ahead_status st;
    size_t got;

    if (len > SSIZE_MAX)
        len = SSIZE_MAX;
    st = ahead_read(s, dst, len, &got);
    if (st && st != AHEAD_EOF)
        return fail(st, ahead_error(s)->os_errno);
    return (ssize_t)got;
}

/* A place that cannot be reached is what a pipe says of every place: stdio, and
 * its callers, know how to do without. */
static int fail_seek(struct ahead_stream *s, enum ahead_status st)
{
    if (st == AHEAD_UNSUPPORTED)
        return fail(AHEAD_IO, ESPIPE);
    return fail(st, ahead_error(s)->os_errno);
}

/* From where `whence` counts. */
static enum ahead_status origin(struct ahead_stream *s, int whence, uint64_t *from)
{
    switch (whence) {
    case SEEK_SET: *from = 0; return AHEAD_OK;
    case SEEK_CUR: *from = ahead_tell(s); return AHEAD_OK;
    case SEEK_END: return ahead_size(s, from);
    }
    return AHEAD_INVALID;
}

/* stdio asks for where it is by SEEK_CUR and 0: that disturbs nothing, and
 * works everywhere. */
static int file_seek(void *cookie, off64_t *offset, int whence)
{
    struct ahead_stream *s = cookie;
    bool asks = whence == SEEK_CUR && *offset == 0;
    uint64_t from, to;
    enum ahead_status st = origin(s, whence, &from);

    if (st)
        return fail_seek(s, st);
    to = from + (uint64_t)*offset;
    if (*offset < 0 ? to > from : to < from || to > INT64_MAX)
        return fail(AHEAD_IO, *offset < 0 ? EINVAL : EOVERFLOW);
    st = asks ? AHEAD_OK : ahead_seek(s, to);
    if (st)
        return fail_seek(s, st);
    *offset = (off64_t)to;
    return 0;
}

/* The stream is gone when its status is known: what it had to say is taken
 * before. */
static int file_close(void *cookie)
{
    struct ahead_stream *s = cookie;
    int os_errno = ahead_error(s)->os_errno;
    enum ahead_status st;

    errno = 0;
    st = ahead_close(s);
    return st ? fail(st, os_errno ? os_errno : errno) : 0;
}

enum ahead_status ahead_stdio_open(FILE **out, struct ahead_stream *s)
{
    static const cookie_io_functions_t functions = {
        .read = file_read,
        .seek = file_seek,
        .close = file_close,
    };
    FILE *f = out && s ? fopencookie(s, "r", functions) : NULL;

    if (out)
        *out = f;
    if (!f) {
        (void)ahead_close(s);
        return ahead_fail_errno(out && s ? AHEAD_NOMEM : AHEAD_INVALID);
    }
    return AHEAD_OK;
}
