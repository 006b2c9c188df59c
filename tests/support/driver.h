/* SPDX-License-Identifier: Apache-2.0 */
/* driver.h - a stream driven by random calls, each compared with what a reader of the whole input
 * in memory would have got.
 *
 * A failure names the seed; AHEAD_STRESS_SEED=SEED runs that round first. */
#ifndef TESTS_SUPPORT_DRIVER_H
#define TESTS_SUPPORT_DRIVER_H

#include <ahead/ahead.h>

#include <stdbool.h>
#include <stdint.h>

/* What a stream must deliver: bytes of the pattern, then an ending. */
struct expected {
    uint64_t pattern_at; /* where in the pattern the stream's first byte is */
    uint64_t length;
    enum ahead_status ending;
    int os_errno;
    bool seekable;
};

/* Call `s` at random until `calls` calls were made.  The stream stays open. */
void drive(struct ahead_stream *s, const struct expected *want, uint64_t seed, unsigned calls);

/* Open a random stream over a random source, drive it, close it, and look at what
 * is left.  Of a script, split or not, hostile in all ways. */
void drive_script(uint64_t seed);

/* The same over a file, a range of it, memory, a pipe, and streams on streams. */
void drive_own_source(uint64_t seed);

/* The seed of the first round: of the environment, else of the clock. */
uint64_t driver_seed(void);

#endif
