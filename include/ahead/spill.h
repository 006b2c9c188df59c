/* SPDX-License-Identifier: Apache-2.0 */
/* spill.h - records of Apache Spark's sorter spill files: read, written, merged.
 *
 * A spill is a big-endian count, then so many records: length (32 bits), sort
 * key prefix (64 bits), bytes.  Spark writes it into an LZ4Block stream, or as
 * it is:
 *
 *     struct ahead_spill_record rec;
 *     struct ahead_spill_reader *r;
 *
 *     if ((st = ahead_source_path(&src, path)) ||
 *         (st = ahead_source_lz4_block(&src, src, NULL)) ||
 *         (st = ahead_open(&s, src, NULL)) ||
 *         (st = ahead_spill_reader_open(&r, s, NULL)))
 *         return st;
 *     while (!(st = ahead_spill_next(r, &rec)))
 *         use(rec.key_prefix, rec.data, rec.len);
 *     if (st != AHEAD_EOF)
 *         fprintf(stderr, "%s\n", ahead_spill_error(r)->text);
 *     ahead_spill_reader_close(r);
 *
 * Threads: one reader is used by one thread at a time.  ahead_cancel() of its
 * stream may be called from any thread until the reader is closed. */
#ifndef AHEAD_SPILL_H
#define AHEAD_SPILL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ahead/status.h>
#include <ahead/stream.h>
#include <ahead/writer.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A record.  `data` is the reader's, and never NULL. */
struct ahead_spill_record {
    int64_t key_prefix;
    const uint8_t *data;
    uint32_t len;
};

/* How a spill is to be read.  All zero is complete, and what NULL means. */
struct ahead_spill_options {
    uint32_t max_record_bytes; /* the longest record; 0: 2147483647, which is what there can be */
    /* Stop at the last record, as Spark does.  What follows it, and an end that
     * is not there, are not looked at. */
    bool compat;
};

/* ---- reading ---- */

struct ahead_spill_reader;

/* Open a reader over `s`, which stands in front of the count.
 *
 * `s` belongs to the library from the call on, whatever is returned: on failure
 * it has been closed and *out is NULL.  `opt` is copied.  Reads nothing.
 * AHEAD_OK; AHEAD_INVALID: `out` or `s` is NULL; AHEAD_NOMEM.  On failure errno
 * is set. */
AHEAD_API AHEAD_NODISCARD enum ahead_status
ahead_spill_reader_open(struct ahead_spill_reader **out, struct ahead_stream *s,
                        const struct ahead_spill_options *opt);

/* How many records the spill says it has.  Waits for the count if that was not
 * read yet.  0 if it cannot be had, and ahead_spill_next() says why.  Nothing
 * is allocated for it: the records may not be there. */
AHEAD_API uint32_t ahead_spill_count(struct ahead_spill_reader *r);

/* Read the next record.  Its bytes stay valid and unchanged until the next call
 * on this reader; they lie in the stream's buffer if they are in one piece
 * there, else in memory that grows as they arrive and is used again.
 *
 * Waits as ahead_read() does.  *rec is written with AHEAD_OK only.  AHEAD_EOF:
 * that was the last one, and nothing follows it: the layer below has come to
 * its end and verified it (with `compat`: that was the last one).  Else, and
 * for good, after every whole record in front of it:
 *
 *   AHEAD_TRUNCATED  a clean end inside a record, or before the last one
 *   AHEAD_CORRUPT    a negative count or length; bytes behind the last record
 *   AHEAD_LIMIT      a record above max_record_bytes; nothing was allocated
 *   AHEAD_NOMEM
 *   and each fault of the stream, as it is
 *
 * AHEAD_TIMEDOUT loses nothing: call again.  AHEAD_INVALID: an argument is
 * NULL, or the stream refused the call. */
AHEAD_API AHEAD_NODISCARD enum ahead_status
ahead_spill_next(struct ahead_spill_reader *r, struct ahead_spill_record *rec);

/* Close the stream and free everything.  Waits as ahead_close() does.  Returns
 * the fault that was met, else what closing the stream returned.  NULL is fine:
 * AHEAD_OK. */
AHEAD_API enum ahead_status ahead_spill_reader_close(struct ahead_spill_reader *r);

/* What the last call that did not return AHEAD_OK or AHEAD_EOF had to say, with
 * the number of the record, from 1; once the end was reached, that.  `offset`
 * is where in the stream the last whole record ends.  `source_offset` and
 * os_errno are those of the layer below; none if the records themselves are at
 * fault.  Valid until the next call; never NULL (for a NULL reader:
 * AHEAD_INVALID). */
AHEAD_API const struct ahead_error *ahead_spill_error(const struct ahead_spill_reader *r);

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

/* ---- merging ---- */

/* Which of two records with equal key prefixes comes first: below 0, a; above
 * 0, b; 0, they are equal, and come in the order of their inputs.  Called on
 * the thread that called ahead_spill_merge_next(); must not use the readers. */
typedef int (*ahead_spill_compare)(const struct ahead_spill_record *a,
                                   const struct ahead_spill_record *b, void *ctx);

struct ahead_spill_merge;

/* Open a merge of n sorted spills; 0 is fine.  Records come in the order of
 * their key prefixes, as signed numbers; equal ones as `cmp` says (NULL: in the
 * order of their inputs); and records of one input in their order.
 *
 * The readers, each of which is there once, belong to the library from the call
 * on, whatever is returned: on failure they have been closed and *out is NULL.
 * `readers` itself is copied.  Reads nothing.  AHEAD_OK; AHEAD_INVALID: `out` or
 * a reader is NULL; AHEAD_NOMEM.  On failure errno is set.
 *
 * Hundreds of inputs want a pool (pool.h): a few threads read ahead for all of
 * them, and memory stays within a budget. */
AHEAD_API AHEAD_NODISCARD enum ahead_status
ahead_spill_merge_open(struct ahead_spill_merge **out, struct ahead_spill_reader *const *readers,
                       size_t n, ahead_spill_compare cmp, void *ctx);

/* The next record of all, where it lies: its bytes stay valid and unchanged
 * until the next call.  *from is the number of its input, from 0; NULL: not
 * asked for.  Waits as ahead_read() does.
 *
 * *rec is written with AHEAD_OK only.  AHEAD_EOF: all inputs have come to their
 * verified ends.  Else *from is the input at fault.  A fault of an input ends
 * the merge in front of what that input would have had next; AHEAD_CORRUPT is
 * also an input that is not sorted, AHEAD_NOMEM a copy that the comparison
 * needs of a record.  AHEAD_TIMEDOUT loses nothing: call again.  AHEAD_INVALID:
 * `m` or `rec` is NULL, or a stream refused the call. */
AHEAD_API AHEAD_NODISCARD enum ahead_status
ahead_spill_merge_next(struct ahead_spill_merge *m, struct ahead_spill_record *rec, size_t *from);

/* Close all readers and free everything.  Waits as ahead_close() does.  Returns
 * the fault that was met, else the first of what closing the readers returned.
 * NULL is fine: AHEAD_OK. */
AHEAD_API enum ahead_status ahead_spill_merge_close(struct ahead_spill_merge *m);

/* What the last call that did not return AHEAD_OK or AHEAD_EOF had to say, with
 * the number of the input, from 0, in front of its reader's words, and that
 * reader's offsets.  Valid until the next call; never NULL (for a NULL merge:
 * AHEAD_INVALID). */
AHEAD_API const struct ahead_error *ahead_spill_merge_error(const struct ahead_spill_merge *m);

#ifdef __cplusplus
}
#endif
#endif
