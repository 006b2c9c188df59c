/* SPDX-License-Identifier: Apache-2.0 */
/* output.c - where bytes go: a file, or standard output. */
#include "output.h"

#include "report.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Above 2 GiB, write(2) comes back short. */
#define MAX_CALL_BYTES ((size_t)1 << 30)

static bool failed(const struct output *out, const char *what)
{
    report_errno(out->path ? out->path : "standard output", AHEAD_IO, out->bytes, what);
    return false;
}

bool output_is(const struct output *out, const struct stat *st)
{
    struct stat ours;

    if (out->fd >= 0 || !out->path ? fstat(out->fd >= 0 ? out->fd : STDOUT_FILENO, &ours)
                                   : stat(out->path, &ours))
        return false;
    return (S_ISREG(ours.st_mode) || S_ISBLK(ours.st_mode)) && ours.st_dev == st->st_dev &&
           ours.st_ino == st->st_ino;
}

bool output_open(struct output *out)
{
    if (!out->path) {
        out->fd = STDOUT_FILENO;
        return true;
    }
    do
        out->fd = open(out->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0666);
    while (out->fd < 0 && errno == EINTR);
    return out->fd >= 0 || failed(out, "open");
}

bool output_write(struct output *out, const void *data, size_t len)
{
    const char *p = data;

    while (len > 0) {
        ssize_t n = write(out->fd, p, len < MAX_CALL_BYTES ? len : MAX_CALL_BYTES);

        if (n >= 0) {
            p += n;
            len -= (size_t)n;
            out->bytes += (uint64_t)n;
        } else if (errno == EAGAIN) { /* whoever shares it made it non-blocking */
            poll(&(struct pollfd){ .fd = out->fd, .events = POLLOUT }, 1, -1);
        } else if (errno == EPIPE) {
            end_broken_pipe();
        } else if (errno != EINTR) {
            return failed(out, "write");
        }
    }
    return true;
}

bool output_flush(struct output *out)
{
    size_t len = out->held;

    out->held = 0;
    return output_write(out, out->room, len);
}

bool output_put(struct output *out, const void *data, size_t len)
{
    if (len > sizeof out->room - out->held && !output_flush(out))
        return false;
    if (len > sizeof out->room)
        return output_write(out, data, len);
    memcpy(out->room + out->held, data, len);
    out->held += len;
    return true;
}

bool output_printed(void)
{
    int why = errno; /* of the latest write, if that failed */

    if (!ferror(stdout))
        return true;
    if (why == EPIPE)
        end_broken_pipe();
    return false;
}

bool output_close(struct output *out)
{
    int fd = out->fd;

    out->fd = -1;
    /* After EINTR the descriptor is closed, too. */
    return fd < 0 || !close(fd) || errno == EINTR || failed(out, "close");
}
