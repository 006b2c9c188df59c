/* SPDX-License-Identifier: Apache-2.0 */
/* script.h - sources that do exactly what a test says, however hostile.
 *
 *     struct script sc = { .step = STEPS(BYTES(8), PIECES(90, 7), ERRNO(EIO)) };
 *     struct ahead_stream *s = script_open(&sc, &(struct ahead_options){ .buffer_bytes = 16 });
 *
 * gives 8 bytes, then 90 in pieces of 7 at most, then fails.  The same script
 * can be played as a source of one read() or as a split one, whose fault is
 * found by its claim, its make, its settle or its read(): what the reader gets
 * must be the same.  script_verdict() says whether the library kept the rules
 * of source.h and split.h.
 *
 * What the library must serialise is in plain fields here, without a lock, so
 * that the thread sanitizer sees if it does not; the counts are relaxed
 * atomics, which order nothing. */
#ifndef TESTS_SUPPORT_SCRIPT_H
#define TESTS_SUPPORT_SCRIPT_H

#include <ahead/ahead.h>

#include "source/split.h"
#include "support/expect.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum step_what {
    STEP_END,    /* read() returns 0.  Also what follows the last step */
    STEP_BYTES,  /* deliver bytes */
    STEP_ERRNO,  /* fail with errno, *err left zero */
    STEP_STATUS, /* fail with a status, a place in the source and a text */
    STEP_STALL,  /* block until script_release() or interrupt() */
    STEP_SLEEP,  /* let time pass */
    STEP_OVER,   /* return more than was asked for */
    STEP_SPOIL   /* store bytes, then fail with errno: none of them counts */
};

struct step {
    enum step_what what;
    uint64_t n;        /* BYTES: how many; SLEEP: us; OVER: too many; SPOIL: how many */
    size_t piece;      /* BYTES: the most in one read, the size of a block; 0: any */
    bool random;       /* BYTES: 1 to `piece`, by the seed */
    unsigned pause_us; /* BYTES: before each piece */
    unsigned times;    /* ERRNO: in a row; 0: once */
    bool once;         /* ERRNO: gone after it was met, for those who seek and read again */
    int os_errno;
    enum ahead_status status;
    uint64_t where;
    const char *text;
};

/* clang-format off */
#define BYTES(n_)                { .what = STEP_BYTES, .n = (n_) }
#define PIECES(n_, piece_)       { .what = STEP_BYTES, .n = (n_), .piece = (piece_) }
#define RANDOM(n_, piece_)       { .what = STEP_BYTES, .n = (n_), .piece = (piece_), .random = true }
#define TRICKLE(n_, piece_, us_) { .what = STEP_BYTES, .n = (n_), .piece = (piece_), .pause_us = (us_) }
#define END                      { .what = STEP_END }
#define ERRNO(e_)                { .what = STEP_ERRNO, .os_errno = (e_) }
#define ERRNO_ONCE(e_)           { .what = STEP_ERRNO, .os_errno = (e_), .once = true }
#define ERRNO_TIMES(e_, times_)  { .what = STEP_ERRNO, .os_errno = (e_), .times = (times_) }
#define STALL                    { .what = STEP_STALL }
#define SLEEP_MS(ms_)            { .what = STEP_SLEEP, .n = (ms_) * 1000u }
#define OVER(n_)                 { .what = STEP_OVER, .n = (n_) }
#define SPOIL(n_, e_)            { .what = STEP_SPOIL, .n = (n_), .os_errno = (e_) }
#define STATUS(status_, where_, text_)                                                             \
    { .what = STEP_STATUS, .status = (status_), .where = (where_), .text = (text_) }
#define STEPS(...) ((const struct step[]){ __VA_ARGS__, END })
/* clang-format on */

/* Which functions a source has, read(), interrupt() and close() apart. */
enum {
    HAS_SKIP = 1,
    HAS_SEEK = 2,
    HAS_REMAINING = 4, /* says the truth, or `remaining` if that is set */
    HAS_READY = 8,     /* says the truth, or `ready` */
    HAS_UNIT = 16,
    HAS_WAIT = 32,
    LACKS_INTERRUPT = 64,
    LACKS_CLOSE = 128
};

/* Where a split source finds the fault, or the end, that follows a piece.  With
 * FAULT_BOTH make finds AHEAD_CORRUPT behind the piece's bound, and settle
 * what the script says, further in front. */
enum script_fault { FAULT_CLAIM, FAULT_MAKE, FAULT_SETTLE, FAULT_READ, FAULT_BOTH };

enum script_call {
    CALL_READ,
    CALL_CLAIM,
    CALL_MAKE,
    CALL_SETTLE,
    CALL_DROP,
    CALL_SKIP,
    CALL_SEEK,
    CALL_INTERRUPT,
    CALL_CLOSE,
    CALL_READY,
    CALL_REMAINING,
    CALL_UNIT,
    CALL_WAIT,
    SCRIPT_CALLS
};

enum { SCRIPT_SLOTS = 1024 }; /* pieces that can be under way */

struct script {
    /* What the test says. */
    const struct step *step; /* NULL: the end at once */
    const uint8_t *data;     /* the bytes; NULL: the pattern */
    uint64_t pattern_at;     /* where in the pattern its first byte is */
    unsigned has;            /* HAS_... */
    uint64_t seed;           /* of random pieces */
    uint64_t remaining;      /* what to say; 0: the truth */
    size_t unit;             /* what to say */
    enum { TRUTHFUL, ALWAYS, NEVER } ready;
    bool deaf;                     /* interrupt() has no effect */
    int interrupted_errno;         /* 0: EINTR; -1: an interrupted read() returns 0 */
    enum ahead_status refuse_seek; /* AHEAD_IO: by EIO */
    enum ahead_status close_status;
    int close_errno;

    /* The same for a split source. */
    bool split;
    enum script_fault fault; /* where what follows a piece is found */
    size_t bound_extra;      /* a piece's bound above what it holds */
    bool batch;              /* a piece takes as many blocks as fit */
    bool hollow;             /* every other piece holds nothing */
    unsigned garbage;        /* pieces that can be claimed behind a fault */
    unsigned make_us;        /* how long a make takes */
    unsigned stagger_us;     /* every other make waits so long for the next one to end first */
    uint64_t hold_make;      /* the make of this piece (from 1) waits for script_let_make() */

    /* Called first thing in each function, on the thread that called it. */
    void (*on_call)(struct script *sc, enum script_call call);
    void *user;

    /* What happened. */
    atomic_uint calls[SCRIPT_CALLS];
    atomic_uint stalls;           /* STALLs that were entered */
    atomic_uint held;             /* makes that wait for script_let_make(), or have */
    atomic_uint out_of_order;     /* makes that ended before an earlier one */
    atomic_ullong given;          /* bytes that read() has returned, or make and settle passed */
    atomic_size_t most_asked;     /* the longest read() */
    _Atomic(const char *) broken; /* the first rule that was broken */

    /* Its own: whoever holds the stream's token. */
    struct ahead_source_ops ops;
    struct ahead_split_ops split_ops;
    unsigned at;    /* the step that is due */
    uint64_t done;  /* bytes of it that were delivered */
    uint64_t block; /* bytes left of the present block; 0: none begun */
    bool part;      /* read() has begun it, and has to end it */
    unsigned tries; /* of an ERRNO step */
    uint64_t pos;   /* bytes delivered since the start */
    uint64_t spent; /* bit set of `once` steps that were taken */
    bool ended;
    bool beyond; /* a piece with a fault was claimed */
    bool was_hollow;
    unsigned garbage_left;
    uint64_t pieces; /* claimed so far */

    /* Its own: whoever settles. */
    uint64_t last_settled;

    /* Shared, in no order. */
    atomic_bool serial; /* somebody is in read, claim, skip, seek or close */
    atomic_bool seeking, closed;
    atomic_uint making, settling, dropping, hooks;
    atomic_ullong slot[SCRIPT_SLOTS]; /* piece << 3 | state */

    /* Its own: under the lock.  Only what blocks takes it. */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned releases;
    atomic_bool interrupted; /* written under the lock */
    bool let_make;
};

/* The source.  Resets nothing but what the source itself changes: a script is played once. */
struct ahead_source script_source(struct script *sc);

/* script_source() and ahead_open(), which must succeed. */
static inline struct ahead_stream *script_open(struct script *sc, const struct ahead_options *opt)
{
    struct ahead_stream *s = NULL;

    expect_status(ahead_open(&s, script_source(sc), opt), AHEAD_OK);
    return s;
}

/* Let one STALL pass: the one that is waited in, or the next. */
void script_release(struct script *sc);

/* Let the held make go on. */
void script_let_make(struct script *sc);

/* "ok" if every rule was kept so far, else the one that was broken first. */
const char *script_verdict(struct script *sc);

/* The same once the source must have been closed: once, and with every piece
 * that was claimed either settled or dropped. */
const char *script_closing_verdict(struct script *sc);

static inline unsigned script_count(struct script *sc, enum script_call call)
{
    return atomic_load_explicit(&sc->calls[call], memory_order_relaxed);
}

/* Calls that ask for bytes, or for another place. */
static inline unsigned script_asked(struct script *sc)
{
    return script_count(sc, CALL_READ) + script_count(sc, CALL_CLAIM) +
           script_count(sc, CALL_SKIP) + script_count(sc, CALL_SEEK);
}

/* How a script is played and read: the same bytes and the same status in each. */
struct mode {
    const char *name;
    unsigned flags; /* AHEAD_EAGER, AHEAD_SYNC */
    bool split;
    enum script_fault fault;
    size_t bound_extra;
    bool batch, hollow;
    unsigned garbage, stagger_us;
};

extern const struct mode modes[];
extern const unsigned modes_len;

/* Play `sc` in this mode. */
void script_set_mode(struct script *sc, const struct mode *mode);

/* for (each_mode(m)) */
#define each_mode(m)                                                                               \
    const struct mode *m = modes;                                                                  \
    m < modes + modes_len;                                                                         \
    m++

#endif
