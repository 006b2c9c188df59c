/* SPDX-License-Identifier: Apache-2.0 */
/* decoder.h - a split source out of a format's rules.
 *
 * A format says what stands at the front of the input, one element at a time,
 * and how blocks are turned into bytes; how that is cut into pieces, read, and
 * skipped is the same for all of them and stands in decoder.c.
 *
 * Who may touch what:
 *
 *   immutable   set by the constructor
 *   token       whoever claims, reads, skips, seeks or asks: one at a time
 *   settle      whoever settles: one at a time, beside the token's holder
 *
 * make() runs on any thread and touches the immutable alone; only a block of a
 * format that is serial() just now is made with the token held.  read() and
 * skip() settle what they made themselves: they run only once every piece that
 * was claimed has been settled or dropped. */
#ifndef AHEAD_SOURCE_DECODER_H
#define AHEAD_SOURCE_DECODER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ahead/lz4.h>
#include <ahead/source.h>

#include "source/input.h"
#include "source/split.h"

/* What an element of the input is. */
enum ahead_element {
    AHEAD_ELEMENT_CUT,   /* cannot be told before `len` bytes of it are at hand */
    AHEAD_ELEMENT_BLOCK, /* makes up to `bound` bytes; goes into a piece */
    AHEAD_ELEMENT_PASS,  /* makes nothing and settles nothing */
    AHEAD_ELEMENT_FAULT  /* *err says what is wrong with it */
};

struct ahead_found {
    size_t len;    /* in encoded form */
    uint64_t skip; /* CUT: so many bytes more need not be seen at all */
    size_t bound;  /* the most bytes that it makes */
    bool alone;    /* BLOCK: with no other element in its piece */
    bool trailer;  /* BLOCK: for settle only; make is not shown it */
    bool last;     /* BLOCK: nothing follows it in its piece */
};

/* The words of a note that decoder.c fills in; the others are the format's. */
enum { AHEAD_NOTE_OFFSET = 4, AHEAD_NOTE_START = 5 };

/* Blocks in encoded form, for make. */
struct ahead_blocks {
    const uint8_t *bytes;
    size_t len;
    uint64_t offset; /* of the first one, in the input */
};

struct ahead_decoder;

struct ahead_decoder_format {
    size_t max_block_bytes; /* the largest block that there can be */

    /* Token.  What stands `at` bytes behind the front of the input.  Looks
     * only: asked again it says the same. */
    enum ahead_element (*look)(const struct ahead_decoder *d, size_t at, struct ahead_found *found,
                               struct ahead_error *err);

    /* Token.  The BLOCK that look() found `at` bytes behind the front goes
     * into the piece of `note`, which is all zero for the first one. */
    void (*take)(struct ahead_decoder *d, size_t at, const struct ahead_found *found,
                 struct ahead_note *note);

    /* Token.  The PASS that look() found at the front has been seen, and will
     * be dropped if this is AHEAD_OK. */
    enum ahead_status (*pass)(struct ahead_decoder *d, const struct ahead_found *found,
                              struct ahead_error *err);

    /* Token.  The input has come to its end where look() says CUT: AHEAD_EOF,
     * or AHEAD_TRUNCATED. */
    enum ahead_status (*judge_end)(const struct ahead_decoder *d, struct ahead_error *err);

    /* Token.  The size of the largest block; 0: not known yet. */
    size_t (*unit)(const struct ahead_decoder *d);

    /* Token.  Whether blocks can only be made in order.  NULL: no. */
    bool (*serial)(const struct ahead_decoder *d);

    /* As in split.h; make is given the blocks where they are. */
    enum ahead_status (*make)(struct ahead_decoder *d, const struct ahead_note *note,
                              struct ahead_blocks blocks, uint8_t *dst, size_t *len,
                              struct ahead_error *err);
    enum ahead_status (*settle)(struct ahead_decoder *d, const struct ahead_note *note,
                                const uint8_t *bytes, size_t *len, enum ahead_status made,
                                struct ahead_error *err); /* NULL: nothing to do */

    void (*reset)(struct ahead_decoder *d);   /* the input is at its start again */
    void (*release)(struct ahead_decoder *d); /* NULL: nothing to release but *d itself */
};

struct ahead_decoder {
    const struct ahead_decoder_format *format; /* immutable */
    struct ahead_lz4_options opt;              /* immutable */
    struct ahead_input in;                     /* token, but for interrupt */
    uint8_t *block;                            /* token: a block that had no place at dst */
    size_t block_cap;
    const uint8_t *pending; /* token: bytes of it that were not read yet */
    size_t pending_len;
    struct ahead_error ending; /* token: what read() came to; AHEAD_OK: nothing yet */
};

/* Make *out a decoder over what `in` has at hand and whatever follows it.  `d`
 * comes from malloc(), its format's own part already set up; both belong to
 * *out from now on. */
void ahead_decoder_init(struct ahead_decoder *d, const struct ahead_decoder_format *format,
                        const struct ahead_input *in, const struct ahead_lz4_options *opt,
                        struct ahead_source *out);

/* What every constructor of a decoder looks at first; AHEAD_INVALID: `inner`
 * has been closed.  `opt` may be NULL. */
enum ahead_status ahead_decoder_check(struct ahead_source *out, struct ahead_source inner,
                                      const struct ahead_lz4_options *opt);

/* A format's constructor, for an input of which some is at hand.  On failure
 * the input has been closed. */
typedef enum ahead_status (*ahead_decoder_init_fn)(struct ahead_source *out, struct ahead_input *in,
                                                   const struct ahead_lz4_options *opt);

enum ahead_status ahead_lz4_block_init(struct ahead_source *out, struct ahead_input *in,
                                       const struct ahead_lz4_options *opt);
enum ahead_status ahead_lz4_frame_init(struct ahead_source *out, struct ahead_input *in,
                                       const struct ahead_lz4_options *opt);

/* Check, and construct over `inner` from its first byte. */
enum ahead_status
ahead_decoder_open(struct ahead_source *out, struct ahead_source inner,
                   const struct ahead_lz4_options *opt, ahead_decoder_init_fn init);

#endif
