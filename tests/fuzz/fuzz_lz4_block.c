/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_lz4_block.c - any bytes as an LZ4Block stream, read as the reference reads them. */
#include "fuzz/fuzz_lz4.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static const uint8_t dict[] = "a dictionary, of which any part may be reached";

    return fuzz_one(ahead_source_lz4_block, reference_lz4_block, data, len, dict, sizeof dict);
}
