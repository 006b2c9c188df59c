/* SPDX-License-Identifier: Apache-2.0 */
/* sink_fd.c - sinks over descriptors and paths. */
#include <ahead/sink.h>

#include "error.h"
#include "source/fd.h"
#include "source/wake.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* How often a write finds no room after poll() has promised some, before the
 * writer is left to wait a while. */
enum { MISSES = 16 };

/* How to write. */
enum way {
    WAY_FILE,   /* write(2): it never waits for a peer */
    WAY_SOCKET, /* send(2), without blocking and without a signal */
    WAY_NOWAIT, /* pwritev2(2), which does not block on a pipe */
    WAY_BITS,   /* write(2) of so little that it fits once poll() says so */
    WAY_DEVICE  /* write(2) */
};

struct fd_sink {
    struct ahead_fd d;      /* immutable until close */
    struct ahead_wake wake; /* immutable; rung by interrupt(); not for files */
    enum way way;           /* holder */
    uint64_t bytes;         /* holder: written so far */
};

/* ---- one write ---- */

static ssize_t write_its_way(struct fd_sink *f, const void *src, size_t len)
{
#ifdef RWF_NOWAIT
    if (f->way == WAY_NOWAIT) {
        struct iovec from = { .iov_base = (void *)src, .iov_len = len };
        ssize_t n = pwritev2(f->d.fd, &from, 1, -1, RWF_NOWAIT);

        if (n >= 0 || errno == EAGAIN || errno == EINTR || errno == EPIPE)
            return n;
    }
#endif
    if (f->way == WAY_NOWAIT) /* the system does not have it, or not for this pipe */
        f->way = WAY_BITS;
    if (f->way == WAY_SOCKET)
        return send(f->d.fd, src, len, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (f->way == WAY_BITS && len > PIPE_BUF)
        len = PIPE_BUF;
    return write(f->d.fd, src, len);
}

/* Takes back the signal that a write of ours has sent to this thread. */
static void take_back(int signal)
{
    static const struct timespec at_once;
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, signal);
    while (sigtimedwait(&set, NULL, &at_once) < 0 && errno == EINTR)
        ;
}

/* Writes without letting SIGPIPE or SIGXFSZ through, whatever the process does
 * with them.  They go to the writing thread, so they are blocked in it and
 * taken back, unless one was pending before: it is the process's.  A write
 * that got some bytes through may have sent one too. */
static ssize_t write_quietly(struct fd_sink *f, const void *src, size_t len)
{
    static const int ours[] = { SIGPIPE, SIGXFSZ };
    sigset_t set, before, pending;
    ssize_t n;
    int saved;

    sigemptyset(&set);
    for (unsigned i = 0; i < 2; i++)
        sigaddset(&set, ours[i]);
    sigemptyset(&pending);
    sigpending(&pending);
    pthread_sigmask(SIG_BLOCK, &set, &before);
    n = write_its_way(f, src, len);
    saved = errno;
    for (unsigned i = 0; i < 2; i++)
        if (n < (ssize_t)len && !sigismember(&pending, ours[i]))
            take_back(ours[i]);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = saved;
    return n;
}

static ssize_t failed(struct fd_sink *f, int os_errno, size_t len, struct ahead_error *err)
{
    char what[96];

    snprintf(what, sizeof what, "write of %zu bytes at offset %llu", len,
             (unsigned long long)f->bytes);
    ahead_error_set_errno(err, os_errno, f->bytes, what);
    errno = os_errno;
    return -1;
}

/* ---- files ---- */

static ssize_t file_write(void *ctx, const void *src, size_t len, struct ahead_error *err)
{
    struct fd_sink *f = ctx;
    ssize_t n;

    if (len > AHEAD_FD_CALL_BYTES)
        len = AHEAD_FD_CALL_BYTES;
    do
        n = write_quietly(f, src, len);
    while (n < 0 && errno == EINTR);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return -1; /* the writer waits a while */
    if (n < 0)
        return failed(f, errno, len, err);
    f->bytes += (uint64_t)n;
    return n;
}

static enum ahead_status file_close(void *ctx, struct ahead_error *err)
{
    struct fd_sink *f = ctx;
    enum ahead_status st = ahead_fd_close(&f->d, err);

    free(f);
    return st;
}

static const struct ahead_sink_ops file_ops = {
    .write = file_write,
    .close = file_close,
};

/* ---- everything else ---- */

/* What a poll() has to tell. */
enum news { NOTHING, ROOM, INTERRUPTED };

/* NOTHING comes after a signal.  A poll that fails says ROOM: the write has to
 * tell. */
static enum news wait_for_news(struct fd_sink *f)
{
    struct pollfd fds[] = {
        { .fd = f->d.fd, .events = POLLOUT },
        { .fd = f->wake.poll_fd, .events = POLLIN },
    };

    if (poll(fds, 2, -1) < 0)
        return errno == EINTR ? NOTHING : ROOM;
    if (fds[1].revents)
        return INTERRUPTED;
    return fds[0].revents ? ROOM : NOTHING;
}

static ssize_t pipe_write(void *ctx, const void *src, size_t len, struct ahead_error *err)
{
    struct fd_sink *f = ctx;
    unsigned misses = 0;

    if (len > AHEAD_FD_CALL_BYTES)
        len = AHEAD_FD_CALL_BYTES;
    while (misses < MISSES) {
        enum news news = wait_for_news(f);
        ssize_t n;

        if (news == NOTHING)
            continue;
        if (news == INTERRUPTED)
            return failed(f, ECANCELED, len, err);
        n = write_quietly(f, src, len);
        if (n >= 0) {
            f->bytes += (uint64_t)n;
            return n;
        }
        if (errno == EAGAIN || errno == EWOULDBLOCK)
            misses++;
        else if (errno != EINTR)
            return failed(f, errno, len, err);
    }
    errno = EAGAIN;
    return -1;
}

static void pipe_interrupt(void *ctx)
{
    struct fd_sink *f = ctx;

    ahead_wake_ring(&f->wake);
}

static enum ahead_status pipe_close(void *ctx, struct ahead_error *err)
{
    struct fd_sink *f = ctx;

    ahead_wake_destroy(&f->wake);
    return file_close(f, err);
}

static const struct ahead_sink_ops pipe_ops = {
    .write = pipe_write,
    .interrupt = pipe_interrupt,
    .close = pipe_close,
};

/* ---- constructors ---- */

static enum way way_of(int fd, mode_t mode)
{
    if (S_ISREG(mode) || S_ISBLK(mode))
        return WAY_FILE;
    if (S_ISSOCK(mode))
        return WAY_SOCKET;
    if (S_ISFIFO(mode))
        return WAY_NOWAIT;
    return isatty(fd) ? WAY_BITS : WAY_DEVICE;
}

/* A sink over what has been opened.  errno is set on failure. */
static enum ahead_status look(struct ahead_sink *out, struct ahead_fd *d)
{
    struct fd_sink *f;
    struct stat st;

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
    if (!S_ISREG(st.st_mode) && !S_ISBLK(st.st_mode) && !ahead_fd_is_open_for(d->fd, O_WRONLY))
        return AHEAD_IO;
    f = malloc(sizeof *f);
    if (!f)
        return AHEAD_NOMEM;
    *f = (struct fd_sink){ .d = *d, .way = way_of(d->fd, st.st_mode) };
    if (f->way != WAY_FILE && ahead_wake_init(&f->wake)) {
        free(f);
        return AHEAD_IO;
    }
    *out = (struct ahead_sink){ .ops = f->way == WAY_FILE ? &file_ops : &pipe_ops, .ctx = f };
    return AHEAD_OK;
}

static enum ahead_status refuse(struct ahead_sink *out, struct ahead_fd *d, enum ahead_status st)
{
    if (out)
        *out = (struct ahead_sink){ .ops = NULL };
    return ahead_fd_give_up(d, st);
}

enum ahead_status ahead_sink_fd(struct ahead_sink *out, int fd, unsigned flags)
{
    struct ahead_fd d = { .fd = fd, .owned = flags & AHEAD_FD_CLOSE };
    enum ahead_status st = AHEAD_INVALID;

    if (out && fd >= 0 && !(flags & ~(unsigned)AHEAD_FD_CLOSE))
        st = look(out, &d);
    return st ? refuse(out, &d, st) : AHEAD_OK;
}

enum ahead_status ahead_sink_path(struct ahead_sink *out, const char *path)
{
    struct ahead_fd d = { .fd = -1, .owned = true };
    enum ahead_status st = AHEAD_INVALID;

    if (out && path) {
        do
            d.fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0666);
        while (d.fd < 0 && errno == EINTR);
        st = d.fd >= 0 ? look(out, &d) : AHEAD_IO;
    }
    return st ? refuse(out, &d, st) : AHEAD_OK;
}
