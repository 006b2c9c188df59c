/* SPDX-License-Identifier: Apache-2.0 */
/* decode.h - reads a decoder to its end, in each way in which a stream may. */
#ifndef TESTS_SUPPORT_DECODE_H
#define TESTS_SUPPORT_DECODE_H

#include "source/split.h"

#include <ahead/lz4.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes that a decoder reads: in pieces, with a fault at their end, counted.
 * The test sets what is above the line. */
struct feed {
    const uint8_t *data;
    size_t len;
    size_t piece; /* the most in one read; 0: any */
    bool random;  /* 1 to `piece` */
    bool stingy;  /* ready() is false, and it may block */
    uint64_t seed;
    int fault;                       /* errno behind the last byte; 0: the end */
    const struct ahead_error *error; /* what it says then; NULL: nothing but errno */
    bool seeks, skips;
    /* ---- */
    size_t pos;
    unsigned reads, closed, after_end;
    size_t least_asked; /* of all reads */
    uint64_t skipped;
};

struct ahead_source feed_source(struct feed *f);

/* In which way. */
enum decode_way {
    DECODE_READ,    /* read() into windows of `window` bytes */
    DECODE_STEPS,   /* claims, makes and settles in random order; read() where there is no other */
    DECODE_THREADS, /* the same on three threads at once */
    DECODE_WAYS
};

struct decode {
    enum decode_way way;
    size_t window; /* of a read, and `want` of a claim; 0: another one each time */
    size_t room;   /* of a claim; 0: as `want` */
    uint64_t seed;
};

/* What came of it.  err.status is the ending. */
struct decoded {
    uint8_t *bytes; /* for free() */
    size_t len, cap;
    struct ahead_error err;
    unsigned pieces, reads;
};

/* Read `src` to its ending, check that the ending stays, and close it. */
struct decoded decode_all(struct ahead_source src, struct decode how);

/* The same without close. */
struct decoded decode_to_end(struct ahead_source src, struct decode how);

/* Expects `status` after exactly these bytes, at this place in the input
 * (UINT64_MAX: wherever), with a text.  Frees d->bytes. */
void expect_decoded(struct decoded *d, enum ahead_status status, const void *bytes, size_t len,
                    uint64_t source_offset);

/* for (each_way(how)) over bytes: all the ways, large and small windows. */
extern const struct decode decode_ways[];
extern const unsigned decode_ways_len;
#define each_way(how)                                                                              \
    const struct decode *how = decode_ways;                                                        \
    how < decode_ways + decode_ways_len;                                                           \
    how++

#endif
