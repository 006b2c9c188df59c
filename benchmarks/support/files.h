/* SPDX-License-Identifier: Apache-2.0 */
/* files.h - inputs that benchmarks make for themselves. */
#ifndef BENCH_FILES_H
#define BENCH_FILES_H

#include <stdint.h>

/* A file of pseudo-random int32 in the page cache. */
struct bench_file {
    char path[64];
    uint64_t bytes;
};

/* Make one of `bytes`, a multiple of 256 KiB or less than that; remove it with
 * remove_file(). */
struct bench_file make_file(uint64_t bytes);
void remove_file(struct bench_file *f);

#endif
