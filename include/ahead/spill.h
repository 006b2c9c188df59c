/* SPDX-License-Identifier: Apache-2.0 */
/* spill.h - records of Apache Spark's sorter spill files. */
#ifndef AHEAD_SPILL_H
#define AHEAD_SPILL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ahead/status.h>
#include <ahead/writer.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- writing ---- */

struct ahead_spill_writer;

/* Open a spill of exactly `count` records in front of `w`, to which the count is
 * written now.
 *
 * `w` belongs to the library from the call on, whatever is returned: on failure
 * it has been closed and *out is NULL.  Until the spill is closed nothing else
 * may be written to it; ahead_writer_cancel() may be called from any thread.
 * AHEAD_OK; AHEAD_INVALID: `out` or `w` is NULL, count is above 2147483647;
 * AHEAD_NOMEM; what writing the count returned.  On failure errno is set. */
AHEAD_API AHEAD_NODISCARD enum ahead_status
ahead_spill_writer_open(struct ahead_spill_writer **out, struct ahead_writer *w, uint32_t count);

/* Write a record: `len` bytes at `data`, up to 2147483647, which may be NULL if
 * there are none.  Waits as ahead_write() does.
 *
 * AHEAD_OK; AHEAD_INVALID: `data` is NULL, len is too large, or all that were
 * announced have been put; nothing was written, and other records can follow.
 * AHEAD_TIMEDOUT before a byte was written: call again.  Any other status, and
 * AHEAD_TIMEDOUT inside the record, is the end: every later put says the same,
 * and so does the close. */
AHEAD_API AHEAD_NODISCARD enum ahead_status
ahead_spill_put(struct ahead_spill_writer *sw, int64_t key_prefix, const void *data, uint32_t len);

/* Close the writer and free everything.  Waits as ahead_writer_close() does.
 * Returns the first failure; AHEAD_TRUNCATED: fewer records were put than had
 * been announced.  Those that were have been written all the same, and a reader
 * comes to the same verdict.  NULL is fine: AHEAD_OK. */
AHEAD_API enum ahead_status ahead_spill_writer_close(struct ahead_spill_writer *sw);

/* What the last call on this spill that did not return AHEAD_OK had to say; once
 * it has failed, the failure.  Status AHEAD_OK if there was none.  Valid until
 * the next call; never NULL (for a NULL spill: AHEAD_INVALID). */
AHEAD_API const struct ahead_error *ahead_spill_writer_error(const struct ahead_spill_writer *sw);

#ifdef __cplusplus
}
#endif
#endif
