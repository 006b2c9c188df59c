/* SPDX-License-Identifier: Apache-2.0 */
/* manifest.h - the files of tests/data, and what MANIFEST.tsv says of them.
 *
 * A row: file, format, mode, status, bytes delivered, sha256 of them, offset of
 * the fault in the file, options, what it is.  Delivered are of a spill each
 * record's header and bytes, of Comet's frames the bodies.  A row holds in both
 * modes unless there is one for compat with the same file, format and options. */
#ifndef TESTS_SUPPORT_MANIFEST_H
#define TESTS_SUPPORT_MANIFEST_H

#include "support/bytes.h"

struct row {
    const char *file, *format, *mode, *status, *bytes, *sha256, *offset, *options, *note;
};

/* Where a file lies.  Valid until the next call. */
const char *data_path(const char *file);

/* All of it. */
struct bytes data_load(const char *file);

/* The value of an option; NULL: not there.  Valid until the next call. */
const char *row_option(const struct row *row, const char *key);

uint64_t row_number(const struct row *row, const char *key, uint64_t otherwise);

/* Call `try` for each row of `format` that has an index or has none, in each
 * mode in which it holds; there have to be `how_many` of them. */
enum rows { ROWS_WHOLE, ROWS_INDEXED };
void manifest_try(const char *format, enum rows which, size_t how_many,
                  void (*try)(const struct row *row, bool compat));

#endif
