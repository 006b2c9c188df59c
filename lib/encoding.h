/* SPDX-License-Identifier: Apache-2.0 */
/* encoding.h - what values look like as bytes, for both ways. */
#ifndef AHEAD_ENCODING_H
#define AHEAD_ENCODING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Copy n values of `width` bytes (2, 4, 8), neither side aligned, from the
 * machine's order to the one that is named, or back. */
void ahead_encoding_copy(uint8_t *restrict dst, const uint8_t *restrict src, size_t n, size_t width,
                         bool big_endian);

/* Whether p[0..len) is what Java's readUTF() accepts: one, two or three bytes
 * for each UTF-16 unit.  *bad is where it is not. */
bool ahead_encoding_is_modified_utf8(const uint8_t *p, size_t len, size_t *bad);

#endif
