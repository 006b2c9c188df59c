/* SPDX-License-Identifier: Apache-2.0 */
/* files.c - inputs that benchmarks make for themselves. */
#include "support/files.h"

#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct bench_file make_file(uint64_t bytes)
{
    static uint32_t block[64 * 1024];
    struct bench_file f = { .path = "/tmp/ahead-bench-XXXXXX", .bytes = bytes };
    int fd = mkstemp(f.path);
    uint32_t x = 1;

    cr_assert(fd >= 0);
    for (uint64_t done = 0; done < bytes;) {
        size_t n = bytes - done < sizeof block ? (size_t)(bytes - done) : sizeof block;

        for (size_t i = 0; i < sizeof block / sizeof *block; i++)
            block[i] = x = x * 1664525 + 1013904223;
        cr_assert(write(fd, block, n) == (ssize_t)n);
        done += n;
    }
    cr_assert(close(fd) == 0);
    return f;
}

void remove_file(struct bench_file *f)
{
    unlink(f->path);
}
