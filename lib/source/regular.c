/* SPDX-License-Identifier: Apache-2.0 */
/* regular.c - a source over a regular file or block device, read by position.
 *
 * A file is split up to the size that it had when it was opened: claim only
 * counts, and any thread may pread(2) a range.  Behind that size the file may
 * have grown, or its size may say nothing (procfs): there read() goes on until
 * it finds the end.  A file that was cut shows in a piece that comes short, and
 * settle ends the stream at the first of those.
 *
 * The descriptor's own offset is never moved, and the size is asked for once. */
#include <ahead/source.h>

#include "error.h"
#include "source/fd.h"
#include "source/split.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#ifdef __linux__
#include <linux/fs.h>
#endif

enum {
    DIRECT_BYTES = 4096, /* places, lengths and offsets for O_DIRECT are multiples of it */
    BOUNCE_BYTES = AHEAD_PIECE_BYTES + 2 * DIRECT_BYTES, /* a piece at any offset, aligned */
    WINDOW_BYTES = 8 * 1024 * 1024,                      /* how far AHEAD_FD_WILLNEED looks */
    BEHIND_BYTES = 4 * 1024 * 1024,                      /* what AHEAD_FD_DROP_BEHIND leaves */
    NAP_MS = 10,                                         /* between two tries after EAGAIN */
    NAPS = 200
};

/* Offsets are the file's.  What is "token" belongs to who holds the source's
 * token; makers look only at what does not change once a claim was given out. */
struct regular {
    struct ahead_fd d;           /* token until the file is open, then immutable */
    int direct_fd;               /* the same file, opened with O_DIRECT; -1: none */
    unsigned flags;              /* immutable */
    struct ahead_fd_range range; /* immutable */
    uint64_t known;              /* token: up to here the file was when it was opened */
    uint64_t pos;                /* token: the next byte to be claimed or read */
    uint64_t asked;              /* token: the kernel was asked to read up to here */
    uint64_t dropped;            /* token: what is in front was taken from the page cache */
    uint8_t *bounce;             /* token: for read() with O_DIRECT */
    size_t bounce_cap;           /* token */
    atomic_bool interrupted;     /* latch; looked at where a call came back without bytes */
};

/* The words of a note. */
enum { AT, LEN };

static uint64_t at_most(uint64_t n, uint64_t max)
{
    return n < max ? n : max;
}

/* The size of a file that is open, or will be. */
static uint64_t size_of(int fd, const struct stat *st)
{
#ifdef BLKGETSIZE64
    uint64_t size;

    if (S_ISBLK(st->st_mode) && fd >= 0 && !ioctl(fd, BLKGETSIZE64, &size))
        return size;
#else
    (void)fd;
#endif
    return st->st_size > 0 ? (uint64_t)st->st_size : 0;
}

static void know(struct regular *f, const struct stat *st)
{
    f->known = at_most(size_of(f->d.fd, st), f->range.end);
}

/* A second descriptor of the same file, so that flags which the caller's own
 * one shares with others are left alone. */
static int open_direct(int fd)
{
#ifdef O_DIRECT
    char path[32];

    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return ahead_fd_open(path, O_DIRECT);
#else
    (void)fd;
    errno = EINVAL;
    return -1;
#endif
}

/* What is to be done once with a file that has just been opened.  AHEAD_IO
 * leaves errno. */
static enum ahead_status begin(struct regular *f, const struct stat *st)
{
    know(f, st);
    if (f->flags & AHEAD_FD_SEQUENTIAL) /* a hint: refused or not, reading goes on */
        posix_fadvise(f->d.fd, (off_t)f->range.start, 0, POSIX_FADV_SEQUENTIAL);
    if (!(f->flags & AHEAD_FD_DIRECT))
        return AHEAD_OK;
    f->direct_fd = open_direct(f->d.fd);
    if (f->direct_fd >= 0)
        return AHEAD_OK;
    switch (errno) {
    case EINVAL: /* the file system has none */
    case EOPNOTSUPP:
    case ENOENT: /* no /proc */ return AHEAD_UNSUPPORTED;
    }
    return AHEAD_IO;
}

/* Opens a lazy path, unless that has been done. */
static enum ahead_status begin_lazy(struct regular *f, struct ahead_error *err)
{
    struct stat st;
    enum ahead_status status;

    if (f->d.fd >= 0)
        return AHEAD_OK;
    status = ahead_fd_open_lazy(&f->d, err);
    if (status)
        return status;
    if (fstat(f->d.fd, &st))
        status = ahead_error_set_errno(err, errno, 0, "fstat");
    else if (S_ISDIR(st.st_mode))
        status = ahead_error_set_errno(err, EISDIR, 0, "open");
    else if (!S_ISREG(st.st_mode) && !S_ISBLK(st.st_mode))
        status = ahead_error_set(err, AHEAD_UNSUPPORTED, 0,
                                 "a pipe or device took the file's place before it was opened");
    else if ((status = begin(f, &st)) == AHEAD_IO)
        ahead_error_set_errno(err, errno, 0, "open with O_DIRECT");
    else if (status)
        ahead_error_set(err, status, 0, "the file cannot be read with O_DIRECT");
    if (status) {
        close(f->d.fd);
        f->d.fd = -1;
    }
    return status;
}

/* Whether a call that failed is to be made again.  A regular file says EINTR
 * or EAGAIN on few file systems, so this is no place for a descriptor to wait
 * on: a nap, and two seconds in all. */
static bool again(struct regular *f, unsigned *naps)
{
    if (errno != EINTR && errno != EAGAIN)
        return false;
    if (atomic_load(&f->interrupted)) {
        errno = ECANCELED;
        return false;
    }
    if (errno == EINTR)
        return true;
    if (*naps == NAPS)
        return false;
    ++*naps;
    poll(NULL, 0, NAP_MS);
    errno = EAGAIN;
    return true;
}

static ssize_t read_at(struct regular *f, int fd, void *dst, size_t len, uint64_t at)
{
    unsigned naps = 0;
    ssize_t n;

    do
        n = pread(fd, dst, len, (off_t)at);
    while (n < 0 && again(f, &naps));
    return n;
}

/* Where bytes stay on their way from a file opened with O_DIRECT to a place
 * that is not aligned for it: a job's block, or the source's own. */
struct bounce {
    uint8_t **mem;
    size_t *cap;
};

static uint8_t *aligned_bounce(struct bounce b)
{
    if (*b.cap < BOUNCE_BYTES) {
        void *mem = realloc(*b.mem, BOUNCE_BYTES);

        if (!mem)
            return NULL;
        *b.mem = mem;
        *b.cap = BOUNCE_BYTES;
    }
    return *b.mem + (DIRECT_BYTES - (uintptr_t)*b.mem % DIRECT_BYTES) % DIRECT_BYTES;
}

/* Reads the aligned blocks around [at, at + len), and copies. */
static ssize_t read_bounced(struct regular *f, struct bounce b, void *dst, size_t len, uint64_t at)
{
    size_t skip = at % DIRECT_BYTES;
    size_t want = at_most(len, BOUNCE_BYTES - 2 * DIRECT_BYTES);
    size_t blocks = (skip + want + DIRECT_BYTES - 1) / DIRECT_BYTES * DIRECT_BYTES;
    uint8_t *mem = aligned_bounce(b);
    ssize_t n;

    if (!mem)
        return read_at(f, f->d.fd, dst, len, at);
    n = read_at(f, f->direct_fd, mem, blocks, at - skip);
    if (n < 0)
        return n;
    if ((size_t)n <= skip) /* the end, or a read cut short: the page cache knows */
        return read_at(f, f->d.fd, dst, len, at);
    want = at_most((size_t)n - skip, want);
    memcpy(dst, mem + skip, want);
    return (ssize_t)want;
}

static ssize_t read_direct(struct regular *f, struct bounce b, void *dst, size_t len, uint64_t at)
{
    ssize_t n;

    if ((uintptr_t)dst % DIRECT_BYTES || at % DIRECT_BYTES || len < DIRECT_BYTES)
        n = read_bounced(f, b, dst, len, at);
    else
        n = read_at(f, f->direct_fd, dst, len - len % DIRECT_BYTES, at);
    if (n < 0 && errno == EINVAL) /* a device with larger blocks than these */
        n = read_at(f, f->d.fd, dst, len, at);
    return n;
}

/* One read of some of [at, at + len), by the way that the flags ask for. */
static ssize_t fetch(struct regular *f, struct bounce b, void *dst, size_t len, uint64_t at)
{
    len = at_most(len, AHEAD_FD_CALL_BYTES);
    if (f->direct_fd >= 0)
        return read_direct(f, b, dst, len, at);
    return read_at(f, f->d.fd, dst, len, at);
}

/* Keeps the kernel between half a window and a whole one ahead of the cursor,
 * with one call for each half. */
static void look_ahead(struct regular *f)
{
    uint64_t from = f->asked > f->pos ? f->asked : f->pos;
    uint64_t to = at_most(f->known, f->pos + WINDOW_BYTES);

    if (!(f->flags & AHEAD_FD_WILLNEED) || from >= to || from - f->pos > WINDOW_BYTES / 2)
        return;
    posix_fadvise(f->d.fd, (off_t)from, (off_t)(to - from), POSIX_FADV_WILLNEED);
    f->asked = to;
}

/* Takes what lies between `dropped` and `to` from the page cache.  The kernel
 * drops whole folios only, which can be larger than a piece: so it goes over
 * some ground again. */
static void drop_to(struct regular *f, uint64_t to)
{
    uint64_t from = f->dropped - at_most(f->dropped, BEHIND_BYTES);

    if (!(f->flags & AHEAD_FD_DROP_BEHIND) || f->d.fd < 0 || to <= f->dropped)
        return;
    posix_fadvise(f->d.fd, (off_t)from, (off_t)(to - from), POSIX_FADV_DONTNEED);
    f->dropped = to;
}

/* Leaves alone what is near the cursor: it may have been claimed just now. */
static void drop_behind(struct regular *f)
{
    if (f->pos > f->dropped && f->pos - f->dropped >= 2 * BEHIND_BYTES)
        drop_to(f, f->pos - BEHIND_BYTES);
}

static enum ahead_status truncated(const struct regular *f, uint64_t at, struct ahead_error *err)
{
    return ahead_error_set(err, AHEAD_TRUNCATED, at - f->range.start,
                           "the range is of %llu bytes, but the file ends after %llu of them",
                           (unsigned long long)(f->range.end - f->range.start),
                           (unsigned long long)(at - f->range.start));
}

/* The file ends at `at`: is that where it should? */
static enum ahead_status end_at(const struct regular *f, uint64_t at, struct ahead_error *err)
{
    if (f->range.exact && at < f->range.end)
        return truncated(f, at, err);
    return ahead_error_set(err, AHEAD_EOF, AHEAD_NO_OFFSET, "end of input");
}

static enum ahead_claim
regular_claim(void *ctx, struct ahead_job *job, size_t want, size_t room, struct ahead_error *err)
{
    struct regular *f = ctx;

    (void)room;
    if (begin_lazy(f, err))
        return AHEAD_CLAIM_ENDING;
    if (f->pos >= f->range.end) {
        (void)end_at(f, f->pos, err);
        return AHEAD_CLAIM_ENDING;
    }
    if (f->pos >= f->known)
        return AHEAD_CLAIM_READ;
    look_ahead(f);
    job->bound = at_most(f->known - f->pos, want);
    job->note.word[AT] = f->pos;
    job->note.word[LEN] = job->bound;
    f->pos += job->bound;
    drop_behind(f);
    return AHEAD_CLAIM_PIECE;
}

static enum ahead_status
regular_make(void *ctx, struct ahead_job *job, uint8_t *dst, size_t *len, struct ahead_error *err)
{
    struct regular *f = ctx;
    struct bounce b = { &job->block, &job->block_cap };
    uint64_t at = job->note.word[AT];
    size_t want = (size_t)job->note.word[LEN];
    ssize_t n = 1;

    for (*len = 0; *len < want && n > 0; *len += n > 0 ? (size_t)n : 0)
        n = fetch(f, b, dst + *len, want - *len, at + *len);
    if (n < 0)
        ahead_fd_read_failed(err, errno, want - *len, at + *len - f->range.start);
    return n < 0 ? AHEAD_IO : AHEAD_OK;
}

/* A piece that came short without a failure: the file was cut. */
static enum ahead_status
regular_settle(void *ctx, const struct ahead_note *note, const uint8_t *bytes, size_t *len,
               enum ahead_status made, struct ahead_error *err)
{
    const struct regular *f = ctx;

    (void)bytes;
    if (made || *len == note->word[LEN])
        return AHEAD_OK;
    return end_at(f, note->word[AT] + *len, err);
}

static ssize_t regular_read(void *ctx, void *dst, size_t len, struct ahead_error *err)
{
    struct regular *f = ctx;
    struct bounce b = { &f->bounce, &f->bounce_cap };
    uint64_t at;
    ssize_t n;

    if (begin_lazy(f, err))
        return -1;
    look_ahead(f);
    at = f->pos;
    len = at_most(len, f->range.end - at);
    n = len ? fetch(f, b, dst, len, at) : 0;
    if (n < 0)
        return ahead_fd_read_failed(err, errno, len, at - f->range.start);
    if (n == 0)
        return end_at(f, at, err) == AHEAD_EOF ? 0 : -1;
    f->pos += (uint64_t)n;
    drop_behind(f);
    return n;
}

/* Goes on to `to` if the byte in front of it is there, and so are all others. */
static bool leap(struct regular *f, uint64_t to)
{
    char byte;

    if (to <= f->pos || read_at(f, f->d.fd, &byte, 1, to - 1) != 1)
        return false;
    f->pos = to;
    return true;
}

/* A leap to the target, or to the end if the file is shorter.  What is still
 * missing then is read: a size that says nothing (procfs) is no obstacle. */
static enum ahead_status
regular_skip(void *ctx, uint64_t n, uint64_t *skipped, struct ahead_error *err)
{
    struct regular *f = ctx;
    uint8_t dropped[4096];
    uint64_t from = f->pos, to;
    struct stat st;
    ssize_t got = 1;

    *skipped = 0;
    if (begin_lazy(f, err))
        return err->status;
    to = from + at_most(n, f->range.end - from);
    if ((to > f->known || !leap(f, to)) && !fstat(f->d.fd, &st))
        leap(f, at_most(size_of(f->d.fd, &st), to));
    while (f->pos < to && got > 0)
        got = regular_read(f, dropped, at_most(sizeof dropped, to - f->pos), err);
    *skipped = f->pos - from;
    return got < 0 ? err->status : AHEAD_OK;
}

static enum ahead_status regular_seek(void *ctx, uint64_t offset, struct ahead_error *err)
{
    struct regular *f = ctx;

    if (offset > INT64_MAX)
        return ahead_error_set(err, AHEAD_INVALID, AHEAD_NO_OFFSET,
                               "seek to %llu, which no file can reach", (unsigned long long)offset);
    drop_to(f, f->pos);
    f->pos = f->range.start + at_most(offset, f->range.end - f->range.start);
    f->asked = 0;
    f->dropped = f->pos;
    return AHEAD_OK;
}

static uint64_t regular_remaining(void *ctx)
{
    const struct regular *f = ctx;

    if (f->pos < f->known)
        return f->known - f->pos;
    /* A size of 0 says nothing: it may be a file of procfs. */
    return f->known || f->pos == f->range.end ? 0 : UINT64_MAX;
}

static bool regular_ready(void *ctx)
{
    (void)ctx;
    return true;
}

static bool regular_may_block(void *ctx)
{
    (void)ctx;
    return false;
}

static bool regular_wait(void *ctx, uint32_t timeout_ms)
{
    (void)ctx;
    (void)timeout_ms;
    return true;
}

static void regular_interrupt(void *ctx)
{
    struct regular *f = ctx;

    atomic_store(&f->interrupted, true);
}

static enum ahead_status regular_close(void *ctx, struct ahead_error *err)
{
    struct regular *f = ctx;
    enum ahead_status st;

    drop_to(f, f->pos);
    st = ahead_fd_close(&f->d, err);
    if (f->direct_fd >= 0)
        close(f->direct_fd);
    free(f->bounce);
    free(f);
    return st;
}

static const struct ahead_split_ops regular_split = {
    .claim = regular_claim,
    .make = regular_make,
    .settle = regular_settle,
    .may_block = regular_may_block,
    .wait = regular_wait,
};

static const struct ahead_source_ops regular_ops = {
    .read = regular_read,
    .skip = regular_skip,
    .seek = regular_seek,
    .remaining = regular_remaining,
    .ready = regular_ready,
    .interrupt = regular_interrupt,
    .close = regular_close,
    .split = &regular_split,
};

enum ahead_status
ahead_regular_open(struct ahead_source *out, struct ahead_fd *d, const struct stat *st,
                   struct ahead_fd_range range, unsigned flags)
{
    struct regular *f = malloc(sizeof *f);
    enum ahead_status status = AHEAD_OK;

    if (!f)
        return AHEAD_NOMEM;
    *f = (struct regular){ .d = *d,
                           .direct_fd = -1,
                           .flags = flags,
                           .range = range,
                           .pos = range.start,
                           .dropped = range.start };
    if (d->fd >= 0)
        status = begin(f, st);
    else
        know(f, st); /* a hint until it is opened */
    if (status) {
        free(f);
        return status;
    }
    *out = (struct ahead_source){ .ops = &regular_ops, .ctx = f };
    return AHEAD_OK;
}
