/* SPDX-License-Identifier: Apache-2.0 */
/* strategies.h - ways to get an input's bytes to a reader, each a `way`.
 *
 *   P  the source alone               C  the reader alone, over memory in cache
 *   S  the synchronous loop           A  this library
 *   T  the textbook scheme, whose fill stops after an early return
 *   B  a bare pipeline: two threads that spin, a ring of pieces
 *   H  two synchronous loops at once, half their time: what two cores can do
 *   M  a mapping of the file
 *
 * Every buffer is page-aligned. */
#ifndef STRATEGIES_H
#define STRATEGIES_H

#include <ahead/ahead.h>

#include <stddef.h>
#include <stdint.h>

enum {
    PIECE = 256 * 1024,
    FLEETING = 16 /* a fleeting reader looks at one number in so many */
};

/* What is read, and how heavy its reader is. */
struct job {
    /* A new source over the input, from its start. */
    struct ahead_source (*open)(void *input);
    void *input;
    const char *path; /* for M; NULL: there is no file */
    uint64_t bytes;   /* decoded */
    double extra;     /* bytes that the reader goes over again, for each byte; -1: it is fleeting */
    struct ahead_options options;
    struct ahead_stats stats; /* of the last A */
};

/* The reader: the sum of the big-endian int32 in p[0..len), and `extra` times
 * the bytes gone over once more; or the sum of one number in FLEETING, which is
 * the same however the bytes are cut, at multiples of 64. */
uint64_t reader_work(const uint8_t *p, size_t len, double extra);

/* Each takes a struct job *, and returns the sum. */
uint64_t run_source_alone(void *job); /* P; returns the bytes */
uint64_t run_reader_alone(void *job); /* C; returns 0 */
uint64_t run_synchronous(void *job);
uint64_t run_ahead(void *job);        /* by peek and consume */
uint64_t run_ahead_cursor(void *job); /* by a cursor, value for value; extra 0 */
uint64_t run_textbook(void *job);
uint64_t run_bare_pipeline(void *job);
uint64_t run_two_loops(void *job); /* two; the caller halves the time */
uint64_t run_mapping(void *job);

#endif
