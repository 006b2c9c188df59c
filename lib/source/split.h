/* SPDX-License-Identifier: Apache-2.0 */
/* split.h - reading in steps, so that several threads can make pieces at once.
 *
 * A source that offers these steps is *split*.  Instead of one read() that
 * does everything, with only one caller at a time:
 *
 *   claim    in order, one caller at a time, cheap: takes the next blocks
 *   make     any thread, several at once: turns them into bytes in their place
 *   settle   in order, one caller at a time: what needs the order
 *   drop     instead of settle, for a piece that will not be delivered
 *
 * Each claimed piece ends in exactly one of settle and drop; it is made at
 * most once, before that.  settle runs beside a later claim and beside makes,
 * so what it keeps between two calls is its own.  After an ending nothing is
 * claimed, unless a seek succeeds.  read() and skip() of the source run only
 * when every piece that was claimed has been settled or dropped, so what they
 * keep in step with settle needs no care; seek() runs when no other step does,
 * and resets what claim and settle keep. */
#ifndef AHEAD_SOURCE_SPLIT_H
#define AHEAD_SOURCE_SPLIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ahead/source.h>

/* The most that a piece is asked to hold, unless one block is larger.  64 KiB
 * to 256 KiB are equal in time; larger ones leave the caches (bench_overlap). */
enum { AHEAD_PIECE_BYTES = 256 * 1024 };

/* What claim has to say to settle or drop about a piece.  The source's own
 * words; travels with the piece. */
struct ahead_note {
    uint64_t word[6];
};

/* What one thread needs to make one piece: it belongs to that thread, from the
 * claim until the make has returned, and is used again for the next.  The
 * source grows `in` and `block` by realloc(); the stream frees them. */
struct ahead_job {
    struct ahead_note note;
    size_t bound; /* claim: the most bytes that make will write; may be 0 */
    uint8_t *in;  /* the blocks in encoded form, as claim took them */
    size_t in_len, in_cap;
    uint8_t *block; /* one block decoded, where it cannot go to its place */
    size_t block_cap;
};

/* What a claim came back with. */
enum ahead_claim {
    AHEAD_CLAIM_PIECE,   /* a piece is in the job: make it, or drop it */
    AHEAD_CLAIM_NO_ROOM, /* the next block is larger than `room`; nothing was taken */
    AHEAD_CLAIM_READ,    /* only read() can tell what comes next; nothing was taken */
    AHEAD_CLAIM_ENDING   /* *err says which: AHEAD_EOF, or a fault */
};

struct ahead_split_ops {
    /* Take the next blocks into the job: as many as fit into `want` bytes once
     * decoded, one at least if it fits into `room` (>= want).  Takes no more
     * than has arrived, if that is one block at least.  May block if
     * may_block() says so.  NULL: the source is not split, and only the hints
     * at the end of this table count. */
    enum ahead_claim (*claim)(void *ctx, struct ahead_job *job, size_t want, size_t room,
                              struct ahead_error *err);

    /* Write the piece to dst; *len says how many bytes are good, also on
     * failure: those in front of the fault.  At most job->bound are touched. */
    enum ahead_status (*make)(void *ctx, struct ahead_job *job, uint8_t *dst, size_t *len,
                              struct ahead_error *err);

    /* The piece stands in its place: look at it in order.  `made` is what make
     * returned.  On failure *len is lowered to the bytes that are good.
     * Neither blocks nor reads.  NULL: nothing to do. */
    enum ahead_status (*settle)(void *ctx, const struct ahead_note *note, const uint8_t *bytes,
                                size_t *len, enum ahead_status made, struct ahead_error *err);

    /* The piece will not be delivered.  NULL: nothing to do. */
    void (*drop)(void *ctx, const struct ahead_note *note);

    /* Can claim and read() block for as long as a peer likes?  The same answer
     * for as long as the source lives.  NULL: yes. */
    bool (*may_block)(void *ctx);

    /* Wait until read() would return at once (true), or for timeout_ms (false).
     * Returns true after interrupt().  NULL: cannot be told. */
    bool (*wait)(void *ctx, uint32_t timeout_ms);

    /* read() would block now: wait some tens of microseconds for bytes of a peer
     * that is merely not quick enough.  false: none came.  NULL: do not. */
    bool (*linger)(void *ctx);

    /* There are very many, and memory is short: of its own the source is to keep
     * little more than so many bytes of input.  Called as read() is.  NULL: it
     * keeps none. */
    void (*economize)(void *ctx, size_t bytes);

    /* The bytes are in memory: a second thread would have nothing to save. */
    bool immediate;
};

/* Whether the source offers the steps. */
static inline bool ahead_source_is_split(struct ahead_source src)
{
    return src.ops->split && src.ops->split->claim;
}

static inline bool ahead_source_is_immediate(struct ahead_source src)
{
    return src.ops->split && src.ops->split->immediate;
}

/* Whether claim and read() can block for as long as a peer likes. */
static inline bool ahead_source_may_block(struct ahead_source src)
{
    const struct ahead_split_ops *split = src.ops->split;

    return !split || !split->may_block || split->may_block(src.ctx);
}

#endif
