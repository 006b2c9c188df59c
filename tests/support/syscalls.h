/* SPDX-License-Identifier: Apache-2.0 */
/* syscalls.h - what a source asks of the kernel: counted, and answered by the test if it likes.
 *
 * For tests that are listed as such in tests/meson.build: the linker sends
 * their calls, and those of the static library, through syscalls.c (--wrap).
 * A hook answers in the kernel's stead, on the calling thread; NULL: the kernel
 * does.  Hooks are set while no other thread makes calls. */
#ifndef TESTS_SUPPORT_SYSCALLS_H
#define TESTS_SUPPORT_SYSCALLS_H

#include <poll.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct syscalls {
    atomic_uint preads, reads, polls, others; /* others: lseek, fstat, posix_fadvise */
    atomic_uint advices[8];                   /* posix_fadvise by POSIX_FADV_ */
    atomic_ullong pread_end;                  /* the furthest byte that was asked for */
    atomic_ullong longest;                    /* the most bytes that one call asked for */
};

/* All zero at the start of a test; a test may zero it again. */
extern struct syscalls syscalls;

extern ssize_t (*on_pread)(int fd, void *dst, size_t len, uint64_t at);
extern ssize_t (*on_preadv2)(int fd, void *dst, size_t len, int flags); /* of one vector */
extern int (*on_poll)(struct pollfd *fds, nfds_t n, int timeout_ms);

/* The kernel's own, for hooks. */
ssize_t real_pread(int fd, void *dst, size_t len, uint64_t at);
int real_poll(struct pollfd *fds, nfds_t n, int timeout_ms);

#endif
