/* SPDX-License-Identifier: Apache-2.0 */
/* fd.c - sources over descriptors and paths: what kind of file is it, and who
 * closes it. */
#include <ahead/source.h>

#include "error.h"
#include "source/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    HINTS = AHEAD_FD_SEQUENTIAL | AHEAD_FD_WILLNEED | AHEAD_FD_DROP_BEHIND | AHEAD_FD_DIRECT,
    FLAGS = AHEAD_FD_CLOSE | HINTS
};

int ahead_fd_open(const char *path, int flags)
{
    int fd;

    do
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | flags);
    while (fd < 0 && errno == EINTR);
    return fd;
}

enum ahead_status ahead_fd_open_lazy(struct ahead_fd *d, struct ahead_error *err)
{
    char what[128];

    if (d->fd >= 0)
        return AHEAD_OK;
    d->fd = ahead_fd_open(d->path, O_NONBLOCK);
    if (d->fd >= 0)
        return AHEAD_OK;
    snprintf(what, sizeof what, "open of %.100s", d->path);
    return ahead_error_set_errno(err, errno, 0, what);
}

enum ahead_status ahead_fd_close(struct ahead_fd *d, struct ahead_error *err)
{
    int fd = d->owned ? d->fd : -1;

    d->fd = -1;
    free(d->path);
    d->path = NULL;
    /* After EINTR the descriptor is gone, or another thread's by now. */
    if (fd < 0 || !close(fd) || errno == EINTR)
        return AHEAD_OK;
    return ahead_error_set_errno(err, errno, AHEAD_NO_OFFSET, "close");
}

bool ahead_fd_is_open_for(int fd, int mode)
{
    int flags = fcntl(fd, F_GETFL);

    if (flags >= 0 && (flags & O_ACCMODE) != O_RDWR && (flags & O_ACCMODE) != mode) {
        errno = EBADF;
        return false;
    }
    return flags >= 0;
}

ssize_t ahead_fd_read_failed(struct ahead_error *err, int os_errno, size_t len, uint64_t at)
{
    char what[96];

    snprintf(what, sizeof what, "read of %zu bytes at offset %llu", len, (unsigned long long)at);
    ahead_error_set_errno(err, os_errno, at, what);
    errno = os_errno;
    return -1;
}

enum ahead_status ahead_fd_give_up(struct ahead_fd *d, enum ahead_status st)
{
    struct ahead_error ignored;
    int saved;

    (void)ahead_fail_errno(st);
    saved = errno;
    (void)ahead_fd_close(d, &ignored);
    errno = saved;
    return st;
}

static enum ahead_status refuse(struct ahead_source *out, struct ahead_fd *d, enum ahead_status st)
{
    if (out)
        *out = (struct ahead_source){ .ops = NULL };
    return ahead_fd_give_up(d, st);
}

/* Where the descriptor stands; -1: it cannot be sought.  A `fresh` one stands at
 * 0, but files that have no content of their own, of size 0, may be pipes in
 * truth (trace_pipe). */
static off_t position(const struct ahead_fd *d, const struct stat *st, bool fresh)
{
    if (!S_ISREG(st->st_mode) && !S_ISBLK(st->st_mode))
        return -1;
    return fresh && st->st_size > 0 ? 0 : lseek(d->fd, 0, SEEK_CUR);
}

/* A source over what has been opened.  `range` NULL: from where the descriptor
 * stands, to the end. */
static enum ahead_status look(struct ahead_source *out, struct ahead_fd *d, bool fresh,
                              const struct ahead_fd_range *range, unsigned flags)
{
    struct ahead_fd_range rest = { .end = INT64_MAX };
    struct stat st;
    off_t at;

    if (fstat(d->fd, &st)) {
        /* Not a descriptor: its number may be somebody else's by now. */
        if (errno == EBADF)
            d->owned = false;
        return AHEAD_IO;
    }
    if (S_ISDIR(st.st_mode)) {
        errno = EISDIR;
        return AHEAD_IO;
    }
    at = position(d, &st, fresh);
    if (at < 0 && !ahead_fd_is_open_for(d->fd, O_RDONLY))
        return AHEAD_IO;
    if (at < 0)
        return range || flags & HINTS ? AHEAD_UNSUPPORTED : ahead_pipe_open(out, d);
    rest.start = (uint64_t)at;
    return ahead_regular_open(out, d, &st, range ? *range : rest, flags);
}

enum ahead_status ahead_source_fd(struct ahead_source *out, int fd, unsigned flags)
{
    struct ahead_fd d = { .fd = fd, .owned = flags & AHEAD_FD_CLOSE };
    enum ahead_status st = AHEAD_INVALID;

    if (out && fd >= 0 && !(flags & ~(unsigned)FLAGS))
        st = look(out, &d, false, NULL, flags);
    return st ? refuse(out, &d, st) : AHEAD_OK;
}

enum ahead_status ahead_source_range(struct ahead_source *out, int fd, uint64_t offset,
                                     uint64_t length, unsigned flags)
{
    struct ahead_fd d = { .fd = fd, .owned = flags & AHEAD_FD_CLOSE };
    struct ahead_fd_range range = { .start = offset, .end = INT64_MAX };
    enum ahead_status st = AHEAD_INVALID;

    if (length != UINT64_MAX) {
        range.exact = true;
        range.end = offset + length;
    }
    if (out && fd >= 0 && !(flags & ~(unsigned)FLAGS) && offset <= INT64_MAX &&
        (!range.exact || length <= INT64_MAX - offset))
        st = look(out, &d, false, &range, flags);
    return st ? refuse(out, &d, st) : AHEAD_OK;
}

/* A source over a path that is not opened yet.  stat(2) says what it will be;
 * what is not there yet, or out of reach, will be a regular file.  One that
 * could not look at all says nothing about the path. */
static enum ahead_status promise(struct ahead_source *out, struct ahead_fd *d, unsigned flags)
{
    struct ahead_fd_range whole = { .end = INT64_MAX };
    struct stat st;

    if (stat(d->path, &st)) {
        if (errno == EIO || errno == ENOMEM)
            return AHEAD_IO;
        st = (struct stat){ .st_mode = S_IFREG };
    }
    if (S_ISREG(st.st_mode) || S_ISBLK(st.st_mode) || S_ISDIR(st.st_mode))
        return ahead_regular_open(out, d, &st, whole, flags);
    return flags & HINTS ? AHEAD_UNSUPPORTED : ahead_pipe_open(out, d);
}

enum ahead_status
ahead_source_path_flags(struct ahead_source *out, const char *path, unsigned flags)
{
    struct ahead_fd d = { .fd = -1, .owned = true };
    enum ahead_status st;

    if (!out || !path || flags & ~(unsigned)(FLAGS | AHEAD_FD_LAZY)) {
        st = AHEAD_INVALID;
    } else if (flags & AHEAD_FD_LAZY) {
        d.path = strdup(path);
        st = d.path ? promise(out, &d, flags) : AHEAD_NOMEM;
    } else {
        d.fd = ahead_fd_open(path, 0);
        st = d.fd >= 0 ? look(out, &d, true, NULL, flags) : AHEAD_IO;
    }
    return st ? refuse(out, &d, st) : AHEAD_OK;
}

enum ahead_status ahead_source_path(struct ahead_source *out, const char *path)
{
    return ahead_source_path_flags(out, path, 0);
}
