/* SPDX-License-Identifier: Apache-2.0 */
/* lz4_reference.h - what a reader has to answer, by a reader that has all of the input at once.
 *
 * Written from the rules of the formats, for tests and fuzzers to compare with:
 * no state machine, no pieces, no threads.  Only the inside of an LZ4 block is
 * left to liblz4. */
#ifndef TESTS_SUPPORT_LZ4_REFERENCE_H
#define TESTS_SUPPORT_LZ4_REFERENCE_H

#include <ahead/lz4.h>

struct reference {
    enum ahead_status status;
    uint64_t offset; /* of the element at fault; UINT64_MAX with AHEAD_EOF */
    uint8_t *bytes;  /* for free() */
    size_t len, cap;
};

/* max_block_bytes 0 is the format's maximum, as ever. */
struct reference
reference_lz4_block(const uint8_t *in, size_t len, const struct ahead_lz4_options *opt);
struct reference
reference_lz4_frame(const uint8_t *in, size_t len, const struct ahead_lz4_options *opt);

#endif
