/* SPDX-License-Identifier: Apache-2.0 */
/* index.h - which bytes of a shuffle file belong to which partition.
 *
 * Spark and Comet write the output of a map task as one data file, its
 * partitions one behind the other, and an index file beside it: the offset of
 * each partition and, last, the end, 64 bits each, big-endian.
 *
 *     uint64_t offset, length;
 *     struct ahead_lz4_options opt = { .empty_ok = true };
 *
 *     if ((st = ahead_index_open(&x, index, data_bytes, &err)) ||
 *         (st = ahead_index_range(x, partition, &offset, &length)) ||
 *         (st = ahead_source_range(&src, fd, offset, length, 0)) ||
 *         (st = ahead_source_lz4_block(&src, src, &opt)))
 *         return st;
 *
 * An index does not change once it is open: any number of threads may ask it. */
#ifndef AHEAD_INDEX_H
#define AHEAD_INDEX_H

#include <stddef.h>
#include <stdint.h>

#include <ahead/source.h>
#include <ahead/status.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ahead_index;

/* Read an index to its end, check it, and close `index`.
 *
 * `index` belongs to the library from the call on, and has been closed when it
 * returns, whatever that is; on failure *out is NULL.  data_bytes is the size
 * of the data file: an index that ends below it is not of that file.  (One that
 * ends above it is: the file was cut, and ahead_source_range() will say
 * AHEAD_TRUNCATED of the partitions concerned.)
 *
 * Waits for the bytes.  Memory grows as they arrive.  AHEAD_OK; AHEAD_CORRUPT:
 * a size that is no multiple of 8 or below 16, a first offset that is not 0,
 * one that is smaller than the one before or negative, an end below data_bytes;
 * the fault of the source; AHEAD_NOMEM; AHEAD_INVALID: `out` or the functions
 * of `index` are NULL.  *err says what, with the place in the index; it may be
 * NULL.  On failure errno is set. */
AHEAD_API AHEAD_NODISCARD enum ahead_status
ahead_index_open(struct ahead_index **out, struct ahead_source index, uint64_t data_bytes,
                 struct ahead_error *err);

/* How many partitions there are, one at least.  0 for NULL. */
AHEAD_API size_t ahead_index_partitions(const struct ahead_index *x);

/* Which bytes of the data file are the partition's; partitions count from 0.
 * length 0: it is empty.  AHEAD_OK; AHEAD_INVALID: there is no such partition,
 * or an argument is NULL; nothing was written. */
AHEAD_API AHEAD_NODISCARD enum ahead_status
ahead_index_range(const struct ahead_index *x, size_t partition, uint64_t *offset,
                  uint64_t *length);

/* Free the index.  NULL is fine. */
AHEAD_API void ahead_index_close(struct ahead_index *x);

#ifdef __cplusplus
}
#endif
#endif
