/* SPDX-License-Identifier: Apache-2.0 */
/* pace.h - whether the second thread pays.
 *
 * Starting it, and backing its memory, takes as long as reading a few MiB of a
 * cached file: it comes only if what is left takes longer.  Where that is not
 * known, as much is expected as has been read: so it costs no more than was
 * spent without it, and what is short is over before it comes.
 *
 * Over a source that cannot be split, a reader that does next to nothing with
 * the bytes gains nothing by a second thread, and what a fast source writes has
 * to go from one core to the other: then it is faster alone.  This is found by
 * the clock, in stretches of a few MiB: the reader begins alone; the second
 * thread comes unless the reader takes less time than handing over would; and
 * where the reader waits most of the time all the same, the two ways are
 * compared. */
#ifndef AHEAD_STREAM_PACE_H
#define AHEAD_STREAM_PACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of one stream, under its lock.  All zero is the beginning. */
struct ahead_pace {
    uint64_t since_ns; /* when this stretch began; 0: it has not */
    uint64_t since_offset;
    uint64_t since_wait_ns;
    uint64_t claim_ns;  /* when the reader alone went into the source; 0: it is not there */
    uint64_t source_ns; /* of this stretch, what it spent there */
    double alone;       /* ns for a byte, the last time that the reader was alone; 0: not known */
    double together;    /* the same when both were at it */
    unsigned patience;  /* stretches until the other way is tried */
    unsigned waiting;   /* stretches in a row, up to now, in which the reader waited */
};

/* Whether a stream with such buffers is to keep a pace: small ones are not worth
 * a look at the clock. */
bool ahead_pace_applies(size_t buffer_bytes);

/* The reader begins alone, at `offset`. */
void ahead_pace_begin(struct ahead_pace *p, uint64_t now_ns, uint64_t offset);

/* It goes into the source, and is back: told of one time in so many, as a look
 * at the clock takes a few percent of a small read. */
enum { AHEAD_PACE_SAMPLE = 4 };
void ahead_pace_enter_source(struct ahead_pace *p, uint64_t now_ns);
void ahead_pace_leave_source(struct ahead_pace *p, uint64_t now_ns);

/* At the end of a stretch of a reader that was alone from the beginning:
 * whether the second thread is to come.  Else the next stretch begins.  `left`
 * is what the source has still to give; UINT64_MAX: not known. */
bool ahead_pace_wants_thread(struct ahead_pace *p, uint64_t now_ns, uint64_t offset, uint64_t left);

/* Whether a stretch since then is over at `offset`.  None is, for as long as the
 * reader is alone because the thread is on its way. */
bool ahead_pace_is_due(const struct ahead_pace *p, uint64_t offset, bool solo);

/* At the end of a stretch since then, which the reader did alone (`solo`) or
 * not: whether it is to do the next one alone.  `wait_ns` is the time that it
 * has ever slept.  The first call only begins a stretch. */
bool ahead_pace_is_better_alone(struct ahead_pace *p, uint64_t now_ns, uint64_t offset,
                                uint64_t wait_ns, bool solo);

#endif
