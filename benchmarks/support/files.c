/* SPDX-License-Identifier: Apache-2.0 */
/* files.c - inputs that benchmarks make for themselves. */
#include "support/files.h"

#include <ahead/writer.h>

#include <criterion/criterion.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BLOCK (256 * 1024)

static struct bench_file new_file(uint64_t bytes)
{
    struct bench_file f = { .bytes = bytes };
    const char *dir = getenv("AHEAD_BENCH_DIR");
    int fd;

    snprintf(f.path, sizeof f.path, "%s/ahead-bench-XXXXXX", dir ? dir : "/tmp");
    fd = mkstemp(f.path);
    cr_assert(fd >= 0, "no file can be made in %s", dir ? dir : "/tmp");
    cr_assert(close(fd) == 0);
    return f;
}

struct bench_file make_file(uint64_t bytes)
{
    static uint32_t block[BLOCK / 4];
    struct bench_file f = new_file(bytes);
    int fd = open(f.path, O_WRONLY | O_CLOEXEC);
    uint32_t x = 1;

    cr_assert(fd >= 0);
    for (uint64_t done = 0; done < bytes;) {
        size_t n = bytes - done < BLOCK ? (size_t)(bytes - done) : BLOCK;

        for (size_t i = 0; i < BLOCK / 4; i++)
            block[i] = x = x * 1664525 + 1013904223;
        cr_assert(write(fd, block, n) == (ssize_t)n);
        done += n;
    }
    cr_assert(close(fd) == 0);
    return f;
}

/* ---- records ---- */

/* One takes 64 bytes: a number that rises, one that jumps, three words of a few
 * hundred, and what is random. */
enum { RECORD = 64, WORD = 14, WORDS = 256 };

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 31) * UINT64_C(0x7fb5d329728ea185);
    x = (x ^ x >> 27) * UINT64_C(0x81dadef4bc2dd44d);
    return x ^ x >> 33;
}

static void word(uint8_t to[WORD], uint64_t which)
{
    uint64_t a = mix(which + 1), b = mix(a);

    memcpy(to, &a, 8);
    memcpy(to + 8, &b, WORD - 8);
}

static void record_at(uint8_t to[RECORD], uint64_t i)
{
    uint64_t h = mix(i + 1000), number = i * 3 + h % 3;

    for (int k = 0; k < 8; k++)
        to[k] = (uint8_t)(number >> (56 - 8 * k));
    memcpy(to + 8, &h, 4);
    memset(to + 12, 0, 4);
    for (int k = 0; k < 3; k++)
        word(to + 16 + k * WORD, h >> (8 * k + 32) & (WORDS - 1));
    memset(to + 16 + 3 * WORD, ' ', RECORD - 16 - 3 * WORD);
}

void make_records(uint8_t *to, size_t len, uint64_t at)
{
    uint8_t one[RECORD];

    while (len > 0) {
        size_t from = (size_t)(at % RECORD), n = RECORD - from < len ? RECORD - from : len;

        record_at(one, at / RECORD);
        memcpy(to, one + from, n);
        to += n;
        at += n;
        len -= n;
    }
}

struct bench_file
make_encoded(uint64_t bytes, enum ahead_format format, const struct ahead_lz4_encode_options *how)
{
    static uint8_t block[BLOCK];
    struct bench_file f = new_file(bytes);
    struct ahead_sink sink;
    struct ahead_writer *w;

    cr_assert(ahead_sink_path(&sink, f.path) == AHEAD_OK);
    if (format == AHEAD_FORMAT_LZ4_BLOCK)
        cr_assert(ahead_sink_lz4_block(&sink, sink, how) == AHEAD_OK);
    else
        cr_assert(ahead_sink_lz4_frame(&sink, sink, how) == AHEAD_OK);
    cr_assert(ahead_writer_open(&w, sink, NULL) == AHEAD_OK);
    for (uint64_t done = 0; done < bytes;) {
        size_t n = bytes - done < BLOCK ? (size_t)(bytes - done) : BLOCK;

        make_records(block, n, done);
        cr_assert(ahead_write(w, block, n) == AHEAD_OK);
        done += n;
    }
    cr_assert(ahead_writer_close(w) == AHEAD_OK);
    return f;
}

void remove_file(struct bench_file *f)
{
    unlink(f->path);
}
