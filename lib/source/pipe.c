/* SPDX-License-Identifier: Apache-2.0 */
/* pipe.c - a source over a pipe, socket, terminal or device, read in order.
 *
 * Each read waits in poll(2) for the descriptor or for interrupt(), and then
 * takes what is there without blocking, if the descriptor has a way to say so:
 * somebody else may have been quicker.  The first poll also waits for the
 * first writer of a FIFO, where a read would find an end. */
#include <ahead/source.h>

#include "error.h"
#include "source/fd.h"
#include "source/split.h"
#include "source/wake.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* How often a read finds nothing after poll() has promised something, before
 * the stream is left to wait a while. */
enum { MISSES = 16 };

/* A writer that keeps a pipe filled needs this long to run again after a read
 * has emptied it. */
enum { LINGER_NS = 60000 };

/* How to read without blocking. */
enum way {
    WAY_UNKNOWN, /* the descriptor has not been looked at */
    WAY_SOCKET,  /* recv(2) */
    WAY_NOWAIT,  /* preadv2(2) */
    WAY_PLAIN    /* not at all: read(2) */
};

struct pipe {
    struct ahead_fd d;      /* token */
    struct ahead_wake wake; /* immutable; rung by interrupt() */
    enum way way;           /* token */
    bool drained;           /* token: the last read took all there was */
    uint64_t bytes;         /* token: read so far */
};

/* What a poll() has to tell.  NO_NEWS: it had no memory to look with. */
enum news { NOTHING, INPUT, INTERRUPTED, NO_NEWS };

static void watch(const struct pipe *p, struct pollfd fds[2])
{
    fds[0] = (struct pollfd){ .fd = p->d.fd, .events = POLLIN };
    fds[1] = (struct pollfd){ .fd = p->wake.poll_fd, .events = POLLIN };
}

/* What a poll that returned n means.  One that cannot be had says INPUT: the
 * read has to tell. */
static enum news tell_news(const struct pollfd fds[2], int n)
{
    if (n < 0 && errno == EINTR)
        return NOTHING;
    if (n < 0)
        return errno == EAGAIN || errno == ENOMEM ? NO_NEWS : INPUT;
    if (fds[1].revents)
        return INTERRUPTED;
    return fds[0].revents ? INPUT : NOTHING;
}

/* Waits up to timeout_ms, -1 for ever.  NOTHING comes earlier after a signal. */
static enum news wait_for_news(struct pipe *p, int timeout_ms)
{
    struct pollfd fds[2];

    watch(p, fds);
    return tell_news(fds, poll(fds, 2, timeout_ms));
}

static enum way way_of(int fd)
{
    struct stat st;

    if (fstat(fd, &st))
        return WAY_PLAIN;
    if (S_ISSOCK(st.st_mode))
        return WAY_SOCKET;
    return S_ISFIFO(st.st_mode) ? WAY_NOWAIT : WAY_PLAIN;
}

/* preadv2() where the system has it and this descriptor takes it; else from now
 * on read(2). */
static ssize_t read_nowait(struct pipe *p, void *dst, size_t len)
{
#ifdef RWF_NOWAIT
    struct iovec to = { .iov_base = dst, .iov_len = len };
    ssize_t n = preadv2(p->d.fd, &to, 1, -1, RWF_NOWAIT);

    if (n >= 0 || errno == EAGAIN || errno == EINTR)
        return n;
#endif
    p->way = WAY_PLAIN;
    return read(p->d.fd, dst, len);
}

static ssize_t read_some(struct pipe *p, void *dst, size_t len)
{
    if (p->way == WAY_UNKNOWN)
        p->way = way_of(p->d.fd);
    if (p->way == WAY_SOCKET)
        return recv(p->d.fd, dst, len, MSG_DONTWAIT);
    if (p->way == WAY_NOWAIT)
        return read_nowait(p, dst, len);
    return read(p->d.fd, dst, len);
}

static ssize_t pipe_read(void *ctx, void *dst, size_t len, struct ahead_error *err)
{
    struct pipe *p = ctx;
    unsigned misses = 0;

    if (ahead_fd_open_lazy(&p->d, err))
        return -1;
    if (len > AHEAD_FD_CALL_BYTES)
        len = AHEAD_FD_CALL_BYTES;
    while (misses < MISSES) {
        enum news news = wait_for_news(p, -1);
        ssize_t n = -1;

        if (news == NOTHING)
            continue;
        if (news == INTERRUPTED)
            return ahead_fd_read_failed(err, ECANCELED, len, p->bytes);
        if (news == INPUT)
            n = read_some(p, dst, len);
        if (n >= 0) {
            p->drained = (size_t)n < len;
            p->bytes += (uint64_t)n;
            return n;
        }
        if (news == NO_NEWS || errno == EAGAIN || errno == EWOULDBLOCK)
            misses++;
        else if (errno != EINTR)
            return ahead_fd_read_failed(err, errno, len, p->bytes);
    }
    errno = EAGAIN;
    return -1;
}

static bool pipe_ready(void *ctx)
{
    struct pipe *p = ctx;

    return !p->drained && p->d.fd >= 0 && wait_for_news(p, 0) != NOTHING;
}

static bool pipe_linger(void *ctx)
{
    static const struct timespec t = { .tv_nsec = LINGER_NS };
    struct pollfd fds[2];

    watch(ctx, fds);
    return tell_news(fds, ppoll(fds, 2, &t, NULL)) != NOTHING;
}

static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* What is left until the deadline, rounded up: 0 only when it has passed. */
static int left_ms(uint64_t deadline_ns)
{
    uint64_t now = now_ns();
    uint64_t ms = now < deadline_ns ? (deadline_ns - now + 999999) / 1000000 : 0;

    return ms < INT_MAX ? (int)ms : INT_MAX;
}

static bool pipe_wait(void *ctx, uint32_t timeout_ms)
{
    struct pipe *p = ctx;
    struct ahead_error ignored;
    uint64_t deadline_ns = now_ns() + (uint64_t)timeout_ms * 1000000;

    if (ahead_fd_open_lazy(&p->d, &ignored))
        return true; /* read() tries again, and says why */
    for (;;) {
        int left = left_ms(deadline_ns);

        if (wait_for_news(p, left) != NOTHING)
            return true;
        if (!left)
            return false;
    }
}

static bool pipe_may_block(void *ctx)
{
    (void)ctx;
    return true;
}

static void pipe_interrupt(void *ctx)
{
    struct pipe *p = ctx;

    ahead_wake_ring(&p->wake);
}

static enum ahead_status pipe_close(void *ctx, struct ahead_error *err)
{
    struct pipe *p = ctx;
    enum ahead_status st = ahead_fd_close(&p->d, err);

    ahead_wake_destroy(&p->wake);
    free(p);
    return st;
}

static const struct ahead_split_ops pipe_split = {
    .may_block = pipe_may_block,
    .wait = pipe_wait,
    .linger = pipe_linger,
};

static const struct ahead_source_ops pipe_ops = {
    .read = pipe_read,
    .ready = pipe_ready,
    .interrupt = pipe_interrupt,
    .close = pipe_close,
    .split = &pipe_split,
};

enum ahead_status ahead_pipe_open(struct ahead_source *out, struct ahead_fd *d)
{
    struct pipe *p = malloc(sizeof *p);

    if (!p)
        return AHEAD_NOMEM;
    *p = (struct pipe){ .d = *d };
    if (ahead_wake_init(&p->wake)) {
        free(p);
        return AHEAD_IO;
    }
    *out = (struct ahead_source){ .ops = &pipe_ops, .ctx = p };
    return AHEAD_OK;
}
