/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_lz4_frame.c - any bytes as LZ4 frames, read as the reference reads them. */
#include "fuzz/fuzz_lz4.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static const uint8_t dict[] = "a dictionary, of which any part may be reached";

    return fuzz_one(ahead_source_lz4_frame, reference_lz4_frame, data, len, dict, sizeof dict);
}
