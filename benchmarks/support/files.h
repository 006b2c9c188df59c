/* SPDX-License-Identifier: Apache-2.0 */
/* files.h - inputs that benchmarks make for themselves. */
#ifndef BENCH_FILES_H
#define BENCH_FILES_H

#include <ahead/lz4.h>

#include <stdint.h>

/* A file in the page cache, in AHEAD_BENCH_DIR (/tmp). */
struct bench_file {
    char path[256];
    uint64_t bytes; /* decoded */
};

/* Make a file of pseudo-random int32.  `bytes` is a multiple of 256 KiB or less
 * than that.  Remove it with remove_file(). */
struct bench_file make_file(uint64_t bytes);

/* Make a file of records, such as a sorter spills: a third of the bytes is left
 * when it is encoded, as LZ4Block or as an LZ4 frame. */
struct bench_file
make_encoded(uint64_t bytes, enum ahead_format format, const struct ahead_lz4_encode_options *how);

/* The bytes of those records from `at` on, which have no end. */
void make_records(uint8_t *to, size_t len, uint64_t at);

void remove_file(struct bench_file *f);

#endif
