/* SPDX-License-Identifier: Apache-2.0 */
/* encoding.c - what values look like as bytes, for both ways. */
#include "encoding.h"

#include <string.h>

/* What a compiler makes of a plain loop for any x86-64 runs at a third of this,
 * which is as fast as memcpy(): bench_read, "array". */
#if defined(__x86_64__) && defined(__GNUC__)
#define HAVE_AVX2 1
#include <immintrin.h>
#endif

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define HOST_IS_BIG_ENDIAN true
#else
#define HOST_IS_BIG_ENDIAN false
#endif

/* memcpy() of one value on either side: dst need not be aligned. */
#define SWAP_VALUES(type, swap)                                                                    \
    for (size_t i = 0; i < n; i++) {                                                               \
        type v;                                                                                    \
                                                                                                   \
        memcpy(&v, src + i * sizeof v, sizeof v);                                                  \
        v = swap(v);                                                                               \
        memcpy(dst + i * sizeof v, &v, sizeof v);                                                  \
    }

static void copy_swapped(uint8_t *restrict dst, const uint8_t *restrict src, size_t n, size_t width)
{
    switch (width) {
    case 2: SWAP_VALUES(uint16_t, __builtin_bswap16) break;
    case 4: SWAP_VALUES(uint32_t, __builtin_bswap32) break;
    case 8: SWAP_VALUES(uint64_t, __builtin_bswap64) break;
    }
}

#ifdef HAVE_AVX2
enum { VECTOR = 32 };

__attribute__((target("avx2"))) static void
copy_swapped_avx2(uint8_t *restrict dst, const uint8_t *restrict src, size_t n, size_t width)
{
    size_t vectors = n * width / VECTOR;
    uint8_t order[VECTOR];
    __m256i mask;

    /* Where each byte comes from, within its half of the vector. */
    for (size_t i = 0; i < VECTOR; i++)
        order[i] = (uint8_t)((i ^ (width - 1)) % (VECTOR / 2));
    mask = _mm256_loadu_si256((const __m256i *)order);
    for (size_t i = 0; i < vectors; i++) {
        __m256i v = _mm256_loadu_si256((const __m256i *)(src + i * VECTOR));

        _mm256_storeu_si256((__m256i *)(dst + i * VECTOR), _mm256_shuffle_epi8(v, mask));
    }
    copy_swapped(dst + vectors * VECTOR, src + vectors * VECTOR, n - vectors * VECTOR / width,
                 width);
}
#endif

static void swap_copy(uint8_t *restrict dst, const uint8_t *restrict src, size_t n, size_t width)
{
#ifdef HAVE_AVX2
    if (__builtin_cpu_supports("avx2")) {
        copy_swapped_avx2(dst, src, n, width);
        return;
    }
#endif
    copy_swapped(dst, src, n, width);
}

void ahead_encoding_copy(uint8_t *restrict dst, const uint8_t *restrict src, size_t n, size_t width,
                         bool big_endian)
{
    if (big_endian == HOST_IS_BIG_ENDIAN)
        memcpy(dst, src, n * width);
    else
        swap_copy(dst, src, n, width);
}

bool ahead_encoding_is_modified_utf8(const uint8_t *p, size_t len, size_t *bad)
{
    for (size_t i = 0, more; i < len; i += more + 1) {
        *bad = i;
        if (p[i] < 0x80)
            more = 0;
        else if (p[i] >> 5 == 6)
            more = 1;
        else if (p[i] >> 4 == 14)
            more = 2;
        else
            return false;
        if (more > len - i - 1)
            return false;
        for (size_t k = 1; k <= more; k++)
            if (p[i + k] >> 6 != 2)
                return false;
    }
    return true;
}
