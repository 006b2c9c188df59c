/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz.h - what the fuzz targets of record and frame readers share. */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <ahead/ahead.h>

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* No length in an input may cost more: run with -malloc_limit_mb=64. */
#define FUZZ_LIMIT_BYTES (16u << 20)

/* abort() and not assert(): a fuzzer may be built with NDEBUG. */
#define MUST(fact) ((fact) ? (void)0 : abort())

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The last byte of an input says how it is to be read, so that any file is one. */
struct fuzz {
    const uint8_t *data;
    size_t size;
    unsigned how;
};

static inline struct fuzz fuzz_begin(const uint8_t *data, size_t size)
{
    struct fuzz f = { .data = data, .size = size ? size - 1 : 0, .how = size ? data[size - 1] : 0 };

    return f;
}

/* The next `bits` bits of how. */
static inline unsigned fuzz_take(struct fuzz *f, unsigned bits)
{
    unsigned v = f->how & ((1u << bits) - 1);

    f->how >>= bits;
    return v;
}

/* Small buffers put the swap everywhere. */
static inline struct ahead_stream *fuzz_open(struct ahead_source src, unsigned size_class)
{
    static const size_t sizes[] = { 1, 7, 64, 65536 };
    struct ahead_options opt = { .buffer_bytes = sizes[size_class % 4], .flags = AHEAD_SYNC };
    struct ahead_stream *s;

    MUST(!ahead_open(&s, src, &opt));
    return s;
}

static inline struct ahead_source fuzz_source(const struct fuzz *f)
{
    struct ahead_source src;

    MUST(!ahead_source_memory(&src, f->data, f->size));
    return src;
}

/* Every byte is there to be read. */
static inline uint64_t fuzz_sum(uint64_t sum, const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sum = (sum ^ p[i]) * 0x100000001b3u;
    return sum;
}

#endif
