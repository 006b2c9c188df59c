/* SPDX-License-Identifier: Apache-2.0 */
/* output.h - where bytes go: a file, or standard output. */
#ifndef AHEAD_TOOL_OUTPUT_H
#define AHEAD_TOOL_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

struct output {
    const char *path; /* NULL: standard output */
    int fd;           /* -1: not open */
    uint64_t bytes;   /* written */
    size_t held;      /* bytes of `room` that are not written yet */
    char room[1 << 16];
};

/* Whether this is the file that is written to: reading it would destroy it, or
 * never end.  Of files that have no content of their own, none is. */
bool output_is(const struct output *out, const struct stat *st);

/* Create or truncate the file.  false: reported. */
bool output_open(struct output *out);

/* Write all of it.  false: reported, and no more can be written.  Does not
 * return if nobody reads what is written. */
bool output_write(struct output *out, const void *data, size_t len);

/* The same for many small pieces, which are collected until it is flushed. */
bool output_put(struct output *out, const void *data, size_t len);
bool output_flush(struct output *out);

/* Whether all that was printed to stdout could be written so far, to be asked
 * behind each line of many.  Does not return if nobody reads it. */
bool output_printed(void);

/* Close it, if it is open.  false: reported. */
bool output_close(struct output *out);

#endif
