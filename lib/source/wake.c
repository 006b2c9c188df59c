/* SPDX-License-Identifier: Apache-2.0 */
/* wake.c - a descriptor that ends a poll(2), now and for ever after. */
#include "source/wake.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/eventfd.h>
#endif

int ahead_wake_init(struct ahead_wake *w)
{
    int fds[2];

#ifdef EFD_CLOEXEC
    w->poll_fd = w->ring_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (w->poll_fd >= 0)
        return 0;
#endif
    if (pipe2(fds, O_CLOEXEC | O_NONBLOCK))
        return -1;
    w->poll_fd = fds[0];
    w->ring_fd = fds[1];
    return 0;
}

void ahead_wake_ring(const struct ahead_wake *w)
{
    const uint64_t one = 1;
    int saved = errno;
    ssize_t n;

    /* Else it fails only if it is full, and then it has been rung. */
    do
        n = write(w->ring_fd, &one, sizeof one);
    while (n < 0 && errno == EINTR);
    errno = saved;
}

void ahead_wake_destroy(struct ahead_wake *w)
{
    close(w->poll_fd);
    if (w->ring_fd != w->poll_fd)
        close(w->ring_fd);
    w->poll_fd = w->ring_fd = -1;
}
