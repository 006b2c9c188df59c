/* SPDX-License-Identifier: Apache-2.0 */
/* input.h - what a decoder has read of its inner source and not yet used.
 *
 *        buf        pos             end              cap
 *         |...used...|##at hand######|----room--------|
 *
 * Read in requests of AHEAD_INPUT_BYTES at least, or less where memory is short, whatever the decoder wants
 * to see.  An element that is needed in one piece is moved to the front, never
 * gathered elsewhere.  A source over memory lends its bytes: all of them are at
 * hand from the start, and none is copied.
 *
 * Belongs to whoever may call the source's read(), but for what is immutable
 * and for ahead_input_interrupt(). */
#ifndef AHEAD_SOURCE_INPUT_H
#define AHEAD_SOURCE_INPUT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ahead/source.h>

#include "source/split.h"

/* The least that is asked of the inner source at a time. */
enum { AHEAD_INPUT_BYTES = 64 * 1024 };

struct ahead_input {
    struct ahead_source inner; /* immutable */
    const uint8_t *lent;       /* immutable: all bytes of a source over memory; else NULL */
    uint8_t *buf;              /* from malloc(); NULL: nothing was read yet, or lent */
    size_t cap;
    size_t pos, end;
    size_t request;            /* the least that is asked for at a time */
    uint64_t offset;           /* of buf[pos], in what the inner source delivers */
    struct ahead_error ending; /* EOF or a fault, behind what is at hand; AHEAD_OK: not known */
    atomic_bool interrupted;   /* any thread: a latch */
};

/* Takes over `inner`. */
void ahead_input_init(struct ahead_input *in, struct ahead_source inner);

/* Free the memory and close the inner source, whose status it returns. */
enum ahead_status ahead_input_close(struct ahead_input *in, struct ahead_error *err);

static inline const uint8_t *ahead_input_bytes(const struct ahead_input *in)
{
    const uint8_t *bytes = in->lent ? in->lent : in->buf;

    return bytes ? bytes + in->pos : (const uint8_t *)"";
}

static inline size_t ahead_input_len(const struct ahead_input *in)
{
    return in->end - in->pos;
}

/* Read once from the inner source, and make room for an element of `need`
 * bytes that starts at the first byte at hand.  May block.  AHEAD_OK: there is
 * at least a byte more.  Else *err says what stands behind the bytes at hand:
 * AHEAD_EOF or a fault, which is what every later call says as well, or
 * AHEAD_NOMEM or AHEAD_TIMEDOUT, after which another call may succeed. */
enum ahead_status ahead_input_more(struct ahead_input *in, size_t need, struct ahead_error *err);

/* Whether it was interrupted: AHEAD_IO, with ECANCELED.  ahead_input_more() asks
 * as well; it is for who goes on for long with what is at hand. */
enum ahead_status ahead_input_check(const struct ahead_input *in, struct ahead_error *err);

/* One of very many: ask for `bytes` at a time, no more than AHEAD_INPUT_BYTES
 * and not less than a page, and make do with little more than that. */
void ahead_input_economize(struct ahead_input *in, size_t bytes);

/* Drop the first n bytes, n <= ahead_input_len(). */
static inline void ahead_input_consume(struct ahead_input *in, size_t n)
{
    in->pos += n;
    in->offset += n;
}

/* Pass over n bytes, at hand or not, without memory for them.  May block.
 * *passed says how many in every outcome; fewer than n only with a status
 * other than AHEAD_OK, which is as in ahead_input_more(). */
enum ahead_status
ahead_input_pass(struct ahead_input *in, uint64_t n, uint64_t *passed, struct ahead_error *err);

/* Give the first n bytes to a job and drop them here: by copying them or the
 * bytes behind them, whichever are fewer, or not at all if they are lent.
 * ahead_input_given() finds them.  AHEAD_NOMEM: nothing was given. */
enum ahead_status ahead_input_give(struct ahead_input *in, size_t n, struct ahead_job *job,
                                   uint64_t *start, struct ahead_error *err);

/* Where they are.  Any thread. */
static inline const uint8_t *
ahead_input_given(const struct ahead_input *in, const struct ahead_job *job, uint64_t start)
{
    return (in->lent ? in->lent : job->in) + start;
}

/* Go back to the start of the inner source.  On any status but AHEAD_OK
 * nothing changed. */
enum ahead_status ahead_input_rewind(struct ahead_input *in, struct ahead_error *err);

/* Would ahead_input_more() return at once, as far as is known? */
bool ahead_input_ready(const struct ahead_input *in);

/* Whether it can be waited for, and is worth it. */
bool ahead_input_can_wait(const struct ahead_input *in);

/* Only if so.  Wait until ahead_input_more() would return at once, or for
 * timeout_ms: false. */
bool ahead_input_wait(const struct ahead_input *in, uint32_t timeout_ms);

/* Make a blocked read return, and every later one.  Any thread. */
void ahead_input_interrupt(struct ahead_input *in);

#endif
