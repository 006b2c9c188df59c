/* SPDX-License-Identifier: Apache-2.0 */
/* syscalls.c - the other end of the linker's --wrap for what sources call. */
#include "support/syscalls.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

struct syscalls syscalls;
ssize_t (*on_pread)(int fd, void *dst, size_t len, uint64_t at);
ssize_t (*on_preadv2)(int fd, void *dst, size_t len, int flags);
int (*on_poll)(struct pollfd *fds, nfds_t n, int timeout_ms);

ssize_t __real_pread64(int fd, void *dst, size_t len, off_t at);
ssize_t __real_preadv64v2(int fd, const struct iovec *to, int n, off_t at, int flags);
ssize_t __real_read(int fd, void *dst, size_t len);
ssize_t __real_recv(int fd, void *dst, size_t len, int flags);
int __real_poll(struct pollfd *fds, nfds_t n, int timeout_ms);
off_t __real_lseek64(int fd, off_t offset, int whence);
int __real_posix_fadvise64(int fd, off_t at, off_t len, int advice);

static void raise_to(atomic_ullong *max, unsigned long long n)
{
    unsigned long long old = atomic_load(max);

    while (old < n && !atomic_compare_exchange_weak(max, &old, n))
        ;
}

ssize_t real_pread(int fd, void *dst, size_t len, uint64_t at)
{
    return __real_pread64(fd, dst, len, (off_t)at);
}

int real_poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
    return __real_poll(fds, n, timeout_ms);
}

ssize_t __wrap_pread64(int fd, void *dst, size_t len, off_t at)
{
    atomic_fetch_add(&syscalls.preads, 1);
    raise_to(&syscalls.pread_end, (unsigned long long)at + len);
    raise_to(&syscalls.longest, len);
    return on_pread ? on_pread(fd, dst, len, (uint64_t)at) : __real_pread64(fd, dst, len, at);
}

static void count_read(size_t len)
{
    atomic_fetch_add(&syscalls.reads, 1);
    raise_to(&syscalls.longest, len);
}

ssize_t __wrap_preadv64v2(int fd, const struct iovec *to, int n, off_t at, int flags)
{
    count_read(to->iov_len);
    return on_preadv2 ? on_preadv2(fd, to->iov_base, to->iov_len, flags)
                      : __real_preadv64v2(fd, to, n, at, flags);
}

ssize_t __wrap_read(int fd, void *dst, size_t len)
{
    count_read(len);
    return __real_read(fd, dst, len);
}

ssize_t __wrap_recv(int fd, void *dst, size_t len, int flags)
{
    count_read(len);
    return __real_recv(fd, dst, len, flags);
}

int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
    atomic_fetch_add(&syscalls.polls, 1);
    return on_poll ? on_poll(fds, n, timeout_ms) : __real_poll(fds, n, timeout_ms);
}

off_t __wrap_lseek64(int fd, off_t offset, int whence)
{
    atomic_fetch_add(&syscalls.others, 1);
    return __real_lseek64(fd, offset, whence);
}

int __wrap_posix_fadvise64(int fd, off_t at, off_t len, int advice)
{
    atomic_fetch_add(&syscalls.others, 1);
    atomic_fetch_add(&syscalls.advices[advice & 7], 1);
    return __real_posix_fadvise64(fd, at, len, advice);
}
