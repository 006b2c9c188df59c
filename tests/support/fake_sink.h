/* SPDX-License-Identifier: Apache-2.0 */
/* fake_sink.h - a sink that does exactly what a test says, and keeps what it took.
 *
 *     struct fake_sink fs = { .most = 7, .fails = true, .fail_at = 100, .fail_errno = ENOSPC };
 *     struct ahead_writer *w = fake_open(&fs, NULL);
 *
 * What the library must serialise is in plain fields here, without a lock, so
 * that the thread sanitizer sees if it does not; the counts are relaxed
 * atomics, which order nothing. */
#ifndef TESTS_SUPPORT_FAKE_SINK_H
#define TESTS_SUPPORT_FAKE_SINK_H

#include <ahead/ahead.h>

#include "support/expect.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct fake_sink {
    /* What the test says. */
    size_t most;       /* bytes that a write takes; 0: all */
    bool random;       /* 1 to `most`, by the seed */
    uint64_t seed;     /* of random sizes */
    bool hiccups;      /* before each write: EINTR, EAGAIN and a result of 0 in turn */
    bool zeros;        /* every write takes nothing */
    size_t over;       /* a write says that it took so many more than it was given */
    unsigned write_us; /* how long a write takes */
    bool fails;        /* once fail_at bytes were taken: */
    uint64_t fail_at;
    int fail_errno;                /* with this errno, *err left zero; 0: */
    enum ahead_status fail_status; /* with this status, at `fail_where`, and this text */
    uint64_t fail_where;
    const char *fail_text;
    bool dies;   /* instead, the thread ends */
    bool stalls; /* once stall_at bytes were taken: until interrupt() or fake_release() */
    uint64_t stall_at;
    bool deaf;            /* interrupt() has no effect */
    bool lacks_interrupt; /* there is none */
    bool has_finish;      /* there is a finish() */
    enum ahead_status flush_status, finish_status, close_status;
    int close_us; /* how long a close takes */
    /* Called first thing in write(), flush() and close(). */
    void (*on_call)(struct fake_sink *fs);
    void *user;

    /* What happened. */
    atomic_uint writes, flushes, finishes, closes, interrupts, stalled;
    atomic_ullong taken; /* bytes */
    _Atomic(const char *) broken;

    /* Its own: whoever is in the sink. */
    uint8_t *bytes;
    size_t len, cap;
    size_t flushed; /* of these, when flush() or finish() was last called */
    unsigned hiccup;
    bool failed;

    atomic_bool inside;
    bool interrupted, released, closed; /* under the lock */
};

struct ahead_sink fake_sink(struct fake_sink *fs);

/* fake_sink() and ahead_writer_open(), which must succeed. */
struct ahead_writer *fake_open(struct fake_sink *fs, const struct ahead_options *opt);

/* Let what stalls go on, for good. */
void fake_release(struct fake_sink *fs);

/* Whether it was closed: by whichever thread, it does not touch *fs any more. */
bool fake_closed(struct fake_sink *fs);

/* The sink must have been closed, once, and every rule of sink.h been kept; what
 * it took is the pattern's first `len` bytes.  Frees it. */
#define expect_fake(fs, len) expect_fake_(EXPECT_HERE_(#fs), fs, len)
void expect_fake_(struct expect_here at, struct fake_sink *fs, uint64_t len);

#endif
