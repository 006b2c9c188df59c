/* SPDX-License-Identifier: Apache-2.0 */
/* magic.h - formats by the bytes that they begin with. */
#ifndef AHEAD_SOURCE_MAGIC_H
#define AHEAD_SOURCE_MAGIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ahead/lz4.h>

enum { AHEAD_MAGIC_BYTES = 10 }; /* of the longest one */

struct ahead_magic {
    const char *name;         /* as in "gzip", "an LZ4 frame" */
    enum ahead_format format; /* PLAIN: one that is not decoded here */
    uint8_t len;
    uint8_t first_mask; /* the bits of the first byte that count */
    uint8_t bytes[AHEAD_MAGIC_BYTES];
};

/* The format whose magic stands at `bytes`; NULL: none.  *open says whether
 * bytes behind the `len` that are there could still make one. */
const struct ahead_magic *ahead_magic_find(const uint8_t *bytes, size_t len, bool *open);

/* What the data seem to be, by four bytes of a magic at least or by all of a
 * shorter one; NULL: nothing that is known. */
const char *ahead_magic_name(const uint8_t *bytes, size_t len);

#endif
