/* SPDX-License-Identifier: Apache-2.0 */
/* fd.h - what the two kinds of source over a descriptor have in common.
 *
 * fd.c looks at a descriptor once and makes it one of two: a *regular* file
 * (or block device), read by position and split; or a *pipe*, which is all
 * else, read in order. */
#ifndef AHEAD_SOURCE_FD_H
#define AHEAD_SOURCE_FD_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include <ahead/source.h>

_Static_assert(sizeof(off_t) == 8, "files beyond 2 GiB need 64-bit offsets");

/* No system call is asked for more: above 2 GiB some come back short, and some
 * fail. */
enum { AHEAD_FD_CALL_BYTES = 1 << 30 };

/* A descriptor, who closes it, and where it comes from if it is still to be
 * opened. */
struct ahead_fd {
    int fd;     /* -1: not opened yet */
    bool owned; /* the source closes it */
    char *path; /* AHEAD_FD_LAZY: opened at the first read; else NULL */
};

/* open(2) for reading, close-on-exec, with `flags` besides; again on EINTR. */
int ahead_fd_open(const char *path, int flags);

/* Whether it is open for `mode`, O_RDONLY or O_WRONLY; else errno is set.  One end
 * of a pipe is never ready for what only the other one can do: poll(2) would wait
 * for ever for the EBADF that is due. */
bool ahead_fd_is_open_for(int fd, int mode);

/* Open what d->path names.  A FIFO does not wait for its writer here, the
 * first poll(2) does.  AHEAD_OK at once if it is open. */
enum ahead_status ahead_fd_open_lazy(struct ahead_fd *d, struct ahead_error *err);

/* Close the descriptor if it is owned, by one call whatever that returns, and
 * free the path.  `err` is filled in on failure. */
enum ahead_status ahead_fd_close(struct ahead_fd *d, struct ahead_error *err);

/* A constructor gives up: close it likewise, set errno, return the status. */
enum ahead_status ahead_fd_give_up(struct ahead_fd *d, enum ahead_status st);

/* Fill in AHEAD_IO for a read of len bytes that failed with os_errno; `at`
 * counts from the source's first byte.  Returns -1 and leaves errno at
 * os_errno, as a read() does. */
ssize_t ahead_fd_read_failed(struct ahead_error *err, int os_errno, size_t len, uint64_t at);

/* Where a source over a regular file begins, and where it has to end: offsets
 * in the file.  A source up to wherever the file ends has end INT64_MAX. */
struct ahead_fd_range {
    uint64_t start, end;
    bool exact; /* the file has to go on up to `end` */
};

/* Sources over a regular file and over anything else.  `st` tells what is
 * known of it now.  On success *d is the source's, on failure it is as it
 * was; errno is set. */
enum ahead_status
ahead_regular_open(struct ahead_source *out, struct ahead_fd *d, const struct stat *st,
                   struct ahead_fd_range range, unsigned flags);
enum ahead_status ahead_pipe_open(struct ahead_source *out, struct ahead_fd *d);

#endif
