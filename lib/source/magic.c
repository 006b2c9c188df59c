/* SPDX-License-Identifier: Apache-2.0 */
/* magic.c - the formats that are told by their first bytes. */
#include "source/magic.h"

static const struct ahead_magic magics[] = {
    { .name = "an LZ4Block stream",
      .format = AHEAD_FORMAT_LZ4_BLOCK,
      .len = 8,
      .first_mask = 0xff,
      .bytes = { 'L', 'Z', '4', 'B', 'l', 'o', 'c', 'k' } },
    { .name = "an LZ4 frame",
      .format = AHEAD_FORMAT_LZ4_FRAME,
      .len = 4,
      .first_mask = 0xff,
      .bytes = { 0x04, 0x22, 0x4d, 0x18 } },
    { .name = "a skippable LZ4 or zstd frame",
      .format = AHEAD_FORMAT_LZ4_FRAME,
      .len = 4,
      .first_mask = 0xf0,
      .bytes = { 0x50, 0x2a, 0x4d, 0x18 } },
    { .name = "a legacy LZ4 frame",
      .format = AHEAD_FORMAT_LZ4_FRAME,
      .len = 4,
      .first_mask = 0xff,
      .bytes = { 0x02, 0x21, 0x4c, 0x18 } },
    { .name = "zstd", .len = 4, .first_mask = 0xff, .bytes = { 0x28, 0xb5, 0x2f, 0xfd } },
    { .name = "gzip", .len = 2, .first_mask = 0xff, .bytes = { 0x1f, 0x8b } },
    { .name = "framed snappy",
      .len = 10,
      .first_mask = 0xff,
      .bytes = { 0xff, 0x06, 0x00, 0x00, 's', 'N', 'a', 'P', 'p', 'Y' } },
    { .name = "xz", .len = 6, .first_mask = 0xff, .bytes = { 0xfd, '7', 'z', 'X', 'Z', 0x00 } },
    { .name = "bzip2", .len = 3, .first_mask = 0xff, .bytes = { 'B', 'Z', 'h' } },
    { .name = "an Arrow file",
      .len = 6,
      .first_mask = 0xff,
      .bytes = { 'A', 'R', 'R', 'O', 'W', '1' } },
};

enum { MAGICS = sizeof magics / sizeof magics[0] };

/* How many of the first `len` bytes are those of the magic, if none differs;
 * else 0. */
static size_t match(const struct ahead_magic *m, const uint8_t *bytes, size_t len)
{
    size_t n = len < m->len ? len : m->len;

    if (!n || (bytes[0] & m->first_mask) != m->bytes[0])
        return 0;
    for (size_t i = 1; i < n; i++)
        if (bytes[i] != m->bytes[i])
            return 0;
    return n;
}

const struct ahead_magic *ahead_magic_find(const uint8_t *bytes, size_t len, bool *open)
{
    *open = !len;
    for (const struct ahead_magic *m = magics; m < magics + MAGICS; m++) {
        size_t n = match(m, bytes, len);

        if (n == m->len)
            return m;
        if (n)
            *open = true;
    }
    return NULL;
}

const char *ahead_magic_name(const uint8_t *bytes, size_t len)
{
    for (const struct ahead_magic *m = magics; m < magics + MAGICS; m++) {
        size_t n = match(m, bytes, len);

        if (n == m->len || n >= 4)
            return m->name;
    }
    return NULL;
}
