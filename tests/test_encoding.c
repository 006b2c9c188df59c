/* SPDX-License-Identifier: Apache-2.0 */
/* test_encoding.c - values swapped many at a time are those swapped one by one, at every length and
 * place. */
#include "encoding.h"
#include "support/expect.h"

#include <string.h>

enum { MOST = 300, GUARD = 8 };

static void swap_one_by_one(uint8_t *dst, const uint8_t *src, size_t n, size_t width, bool as_is)
{
    for (size_t i = 0; i < n * width; i++)
        dst[i] = src[as_is ? i : (i ^ (width - 1))];
}

static void compare(size_t n, size_t width, size_t from, size_t to, bool big_endian)
{
    const uint16_t one = 1;
    bool host_is_big = *(const uint8_t *)&one == 0;
    uint8_t src[MOST + 64], got[MOST + 64], want[MOST + 64];

    for (size_t i = 0; i < sizeof src; i++)
        src[i] = (uint8_t)(i * 37 + 11);
    memset(got, 0xee, sizeof got);
    memset(want, 0xee, sizeof want);
    swap_one_by_one(want + GUARD + to, src + from, n, width, big_endian == host_is_big);
    ahead_encoding_copy(got + GUARD + to, src + from, n, width, big_endian);
    expect_note("%zu values of %zu bytes from %zu to %zu", n, width, from, to);
    expect_mem(got, want, sizeof want);
}

Test(encoding, many_values_are_as_one_by_one_at_every_length_and_place)
{
    for (size_t width = 2; width <= 8; width *= 2)
        for (size_t n = 0; n * width <= MOST - 32; n++)
            for (size_t at = 0; at < 32; at += 3)
                for (int big = 0; big < 2; big++)
                    compare(n, width, at, (at * 5) % 31, big);
}
