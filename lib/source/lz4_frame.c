/* SPDX-License-Identifier: Apache-2.0 */
/* lz4_frame.c - LZ4 frames: linked and independent blocks, legacy and skippable frames.
 *
 * Blocks are decoded one by one with the block functions of liblz4, never with
 * its frame decoder: that would copy what it decodes, deliver raw bytes before
 * their checksum has been seen, and keep a context from frame to frame that
 * versions up to 1.9.4 do not reset in all cases (lz4#1227).
 *
 * A piece lies within one frame.  Its note says what settle has to do: `start`
 * of a frame, bytes, its `end` mark, its content `sum`, in this order, each
 * maybe in a piece of its own. */
#include <ahead/lz4.h>
#include <ahead/read.h>

#include "error.h"
#include "source/decoder.h"
#include "source/magic.h"

#include <inttypes.h>
#include <lz4.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum {
    MAGIC_FRAME = 0x184d2204,
    MAGIC_LEGACY = 0x184c2102,
    MAGIC_SKIPPABLE = 0x184d2a50, /* and the 15 numbers behind it */

    WORD = 4, /* bytes of a magic, a size, a checksum */
    SKIPPABLE_HEADER = 8,
    LEAST_HEADER = 7, /* magic, FLG, BD, HC */

    LEGACY_BYTES = 8 << 20,  /* of the largest block */
    HISTORY_BYTES = 64 << 10 /* how far back a match can reach */
};

static const uint32_t RAW = 0x80000000; /* in a size word */

/* FLG */
enum {
    FLG_DICT_ID = 0x01,
    FLG_RESERVED = 0x02,
    FLG_CONTENT_SUM = 0x04,
    FLG_CONTENT_SIZE = 0x08,
    FLG_BLOCK_SUMS = 0x10,
    FLG_INDEPENDENT = 0x20,
    FLG_VERSION = 0xc0,
    FLG_VERSION_1 = 0x40
};

/* What a piece is, in the first word of its note, below the block maximum. */
enum {
    PIECE_START = 0x01, /* it begins its frame */
    PIECE_END_MARK = 0x02,
    PIECE_SUM = 0x04,    /* the content checksum is in the note */
    PIECE_SIZED = 0x08,  /* the content size is */
    PIECE_HASHED = 0x10, /* the bytes count for a content checksum */
    PIECE_BLOCK_SUMS = 0x20,
    PIECE_LINKED = 0x40,
    PIECE_LEGACY = 0x80,
    PIECE_BITS = 8 /* the block maximum lies above these */
};

/* The words of a note. */
enum { NOTE_PIECE, NOTE_CONTENT_SIZE, NOTE_END_MARK, NOTE_SUM };

/* What comes next in the input. */
enum state {
    BETWEEN,  /* a magic, or the end */
    SKIPPING, /* the rest of a skippable frame */
    BLOCKS,   /* a size word, or the end mark */
    SUM,      /* the content checksum */
    LEGACY    /* a size word, a magic, or the end */
};

/* The last bytes that were decoded, for the next linked block: the stream
 * may have taken away the place where they were written. */
struct history {
    uint8_t *bytes; /* 2 * HISTORY_BYTES; NULL: not needed yet */
    size_t len;
};

struct lz4_frame {
    struct ahead_decoder d; /* first: they have one address */
    const uint8_t *dict;    /* immutable: what counts of it */
    size_t dict_len;        /* immutable */

    /* token: the frame that is being claimed */
    enum state state;
    uint64_t frame_at; /* where it starts */
    uint64_t skip_end; /* of a skippable one */
    uint64_t content_size;
    uint64_t end_mark_at;
    uint64_t claimed;     /* sum of the bounds of its blocks so far */
    uint32_t block_bytes; /* the largest block */
    bool has_sum;         /* a content checksum stands behind the end mark */
    unsigned piece;       /* PIECE_... that hold for the next one */
    struct history history;

    /* settle: the frame that is being settled */
    uint64_t settled; /* bytes of it */
    XXH32_state_t *hash;
};

static bool is_skippable(uint32_t magic)
{
    return (magic & 0xfffffff0) == MAGIC_SKIPPABLE;
}

static bool is_magic(uint32_t word)
{
    return word == MAGIC_FRAME || word == MAGIC_LEGACY || is_skippable(word);
}

/* ---- headers ---- */

static size_t header_bytes(unsigned flg)
{
    return LEAST_HEADER + (flg & FLG_CONTENT_SIZE ? 8 : 0) + (flg & FLG_DICT_ID ? 4 : 0);
}

static uint32_t block_bytes(unsigned bd)
{
    return UINT32_C(1) << (8 + 2 * (bd >> 4));
}

static enum ahead_status
check_flags(unsigned flg, unsigned bd, uint64_t at, struct ahead_error *err)
{
    if ((flg & FLG_VERSION) != FLG_VERSION_1)
        return ahead_error_set(err, AHEAD_CORRUPT, at,
                               "LZ4 frame at input byte %" PRIu64 ": expected version 1, found %u",
                               at, flg >> 6);
    if (flg & FLG_RESERVED || bd & 0x8f)
        return ahead_error_set(err, AHEAD_CORRUPT, at,
                               "LZ4 frame at input byte %" PRIu64
                               ": expected reserved bits 0, found FLG 0x%02x, BD 0x%02x",
                               at, flg, bd);
    if (bd >> 4 < 4)
        return ahead_error_set(err, AHEAD_CORRUPT, at,
                               "LZ4 frame at input byte %" PRIu64
                               ": expected block maximum 4 to 7, found %u",
                               at, bd >> 4);
    return AHEAD_OK;
}

/* Whether the dictionary that the caller gave, if any, is the one asked for. */
static enum ahead_status check_dict(const struct lz4_frame *f, uint32_t id, struct ahead_error *err)
{
    const struct ahead_lz4_options *opt = &f->d.opt;
    uint64_t at = f->d.in.offset;

    if (!opt->dict)
        return ahead_error_set(err, AHEAD_UNSUPPORTED, at,
                               "LZ4 frame at input byte %" PRIu64 " needs dictionary 0x%08" PRIx32
                               ", none was given",
                               at, id);
    if (opt->dict_id && opt->dict_id != id)
        return ahead_error_set(err, AHEAD_UNSUPPORTED, at,
                               "LZ4 frame at input byte %" PRIu64 " needs dictionary 0x%08" PRIx32
                               ", 0x%08" PRIx32 " was given",
                               at, id, opt->dict_id);
    return AHEAD_OK;
}

static enum ahead_status
check_limit(const struct lz4_frame *f, size_t bytes, struct ahead_error *err)
{
    uint64_t at = f->d.in.offset;

    if (bytes <= f->d.opt.max_block_bytes)
        return AHEAD_OK;
    return ahead_error_set(err, AHEAD_LIMIT, at,
                           "LZ4 frame at input byte %" PRIu64
                           ": blocks of up to %zu bytes are above the limit of %zu",
                           at, bytes, f->d.opt.max_block_bytes);
}

/* A whole header, whose FLG and BD are in order. */
static enum ahead_status
check_header(const struct lz4_frame *f, const uint8_t *p, size_t len, struct ahead_error *err)
{
    unsigned expected = p[len - 1];
    unsigned sum = XXH32(p + WORD, len - WORD - 1, 0) >> 8 & 0xff;
    enum ahead_status st = AHEAD_OK;

    if (sum != expected)
        return ahead_error_set(err, AHEAD_CORRUPT, f->d.in.offset,
                               "header checksum of the LZ4 frame at input byte %" PRIu64
                               ": expected 0x%02x, its bytes give 0x%02x",
                               f->d.in.offset, expected, sum);
    if (p[WORD] & FLG_DICT_ID)
        st = check_dict(f, ahead_load_u32_le(p + len - 5), err);
    return st ? st : check_limit(f, block_bytes(p[WORD + 1]), err);
}

static enum ahead_element look_header(const struct lz4_frame *f, const uint8_t *p, size_t have,
                                      struct ahead_found *found, struct ahead_error *err)
{
    found->len = WORD + 2;
    if (have < found->len)
        return AHEAD_ELEMENT_CUT;
    if (check_flags(p[WORD], p[WORD + 1], f->d.in.offset, err))
        return AHEAD_ELEMENT_FAULT;
    found->len = header_bytes(p[WORD]);
    if (have < found->len)
        return AHEAD_ELEMENT_CUT;
    return check_header(f, p, found->len, err) ? AHEAD_ELEMENT_FAULT : AHEAD_ELEMENT_PASS;
}

static void not_a_magic(const uint8_t *p, size_t have, uint64_t at, struct ahead_error *err)
{
    const char *name = ahead_magic_name(p, have);

    if (name)
        ahead_error_set(err, AHEAD_CORRUPT, at,
                        "no LZ4 frame magic at input byte %" PRIu64 ": this is %s", at, name);
    else
        ahead_error_set(err, AHEAD_CORRUPT, at,
                        "no LZ4 frame magic at input byte %" PRIu64
                        ": expected 04224d18, found %08" PRIx32,
                        at, ahead_load_u32_be(p));
}

static enum ahead_element look_magic(const struct lz4_frame *f, const uint8_t *p, size_t have,
                                     struct ahead_found *found, struct ahead_error *err)
{
    uint32_t magic;

    found->len = WORD;
    if (have < WORD)
        return AHEAD_ELEMENT_CUT;
    magic = ahead_load_u32_le(p);
    if (magic == MAGIC_FRAME)
        return look_header(f, p, have, found, err);
    if (magic == MAGIC_LEGACY)
        return check_limit(f, LEGACY_BYTES, err) ? AHEAD_ELEMENT_FAULT : AHEAD_ELEMENT_PASS;
    if (is_skippable(magic)) {
        found->len = SKIPPABLE_HEADER;
        return have < found->len ? AHEAD_ELEMENT_CUT : AHEAD_ELEMENT_PASS;
    }
    not_a_magic(p, have, f->d.in.offset, err);
    return AHEAD_ELEMENT_FAULT;
}

/* ---- blocks ---- */

/* The most bytes that LZ4 data of `stored` bytes can be. */
static size_t most_of(size_t stored, size_t block_bytes)
{
    return stored < block_bytes / 255 ? 255 * stored : block_bytes;
}

/* Whether a block of up to `bound` bytes could take the frame over its content
 * size.  Then settle has to be able to refuse just this one. */
static bool may_pass_size(const struct lz4_frame *f, size_t bound)
{
    return f->piece & PIECE_SIZED &&
           (f->claimed > f->content_size || bound > f->content_size - f->claimed);
}

static enum ahead_element look_block(const struct lz4_frame *f, const uint8_t *p, size_t at,
                                     struct ahead_found *found, struct ahead_error *err)
{
    size_t have = ahead_input_len(&f->d.in) - at;
    uint64_t offset = f->d.in.offset + at;
    uint32_t word, stored;

    found->len = WORD;
    if (have < WORD)
        return AHEAD_ELEMENT_CUT;
    word = ahead_load_u32_le(p);
    if (!word) {
        found->trailer = true;
        found->last = !(f->piece & PIECE_HASHED);
        return f->piece & (PIECE_HASHED | PIECE_SIZED) ? AHEAD_ELEMENT_BLOCK : AHEAD_ELEMENT_PASS;
    }
    stored = word & ~RAW;
    if (stored > f->block_bytes) {
        ahead_error_set(err, AHEAD_CORRUPT, offset,
                        "size of the LZ4 frame block at input byte %" PRIu64 ": %" PRIu32
                        " bytes, expected %" PRIu32 " at most",
                        offset, stored, f->block_bytes);
        return AHEAD_ELEMENT_FAULT;
    }
    found->len += stored + (f->piece & PIECE_BLOCK_SUMS ? WORD : 0);
    found->bound = word & RAW ? stored : most_of(stored, f->block_bytes);
    found->alone = may_pass_size(f, found->bound);
    return have < found->len ? AHEAD_ELEMENT_CUT : AHEAD_ELEMENT_BLOCK;
}

static enum ahead_element
look_sum(const struct lz4_frame *f, size_t have, struct ahead_found *found)
{
    found->len = WORD;
    found->trailer = found->last = true;
    if (have < WORD)
        return AHEAD_ELEMENT_CUT;
    return f->piece & PIECE_HASHED ? AHEAD_ELEMENT_BLOCK : AHEAD_ELEMENT_PASS;
}

static enum ahead_element look_legacy(const struct lz4_frame *f, const uint8_t *p, size_t at,
                                      struct ahead_found *found, struct ahead_error *err)
{
    size_t have = ahead_input_len(&f->d.in) - at;
    uint64_t offset = f->d.in.offset + at;
    uint32_t stored;

    found->len = WORD;
    if (have < WORD)
        return AHEAD_ELEMENT_CUT;
    stored = ahead_load_u32_le(p);
    if (is_magic(stored)) {
        found->len = 0; /* it begins the next frame */
        return AHEAD_ELEMENT_PASS;
    }
    if (!stored || stored > LZ4_COMPRESSBOUND(LEGACY_BYTES)) {
        ahead_error_set(err, AHEAD_CORRUPT, offset,
                        "size of the legacy LZ4 block at input byte %" PRIu64 ": %" PRIu32
                        " bytes, expected 1 to %d",
                        offset, stored, LZ4_COMPRESSBOUND(LEGACY_BYTES));
        return AHEAD_ELEMENT_FAULT;
    }
    found->len += stored;
    found->bound = most_of(stored, LEGACY_BYTES);
    return have < found->len ? AHEAD_ELEMENT_CUT : AHEAD_ELEMENT_BLOCK;
}

/* What is at hand of a skippable frame is passed over; the rest need not be
 * read where the source can skip. */
static enum ahead_element
look_skippable(const struct lz4_frame *f, size_t have, struct ahead_found *found)
{
    uint64_t left = f->skip_end - f->d.in.offset;

    found->len = left < have ? (size_t)left : have;
    if (have || !left)
        return AHEAD_ELEMENT_PASS;
    found->len = 1;
    found->skip = left;
    return AHEAD_ELEMENT_CUT;
}

static enum ahead_element frame_look(const struct ahead_decoder *d, size_t at,
                                     struct ahead_found *found, struct ahead_error *err)
{
    const struct lz4_frame *f = (const struct lz4_frame *)d;
    const uint8_t *p = ahead_input_bytes(&d->in) + at;
    size_t have = ahead_input_len(&d->in) - at;

    switch (f->state) {
    case BETWEEN: return look_magic(f, p, have, found, err);
    case SKIPPING: return look_skippable(f, have, found);
    case BLOCKS: return look_block(f, p, at, found, err);
    case SUM: return look_sum(f, have, found);
    case LEGACY: return look_legacy(f, p, at, found, err);
    }
    return AHEAD_ELEMENT_FAULT; /* not reached */
}

/* ---- claim ---- */

static void frame_take(struct ahead_decoder *d, size_t at, const struct ahead_found *found,
                       struct ahead_note *note)
{
    struct lz4_frame *f = (struct lz4_frame *)d;

    note->word[NOTE_PIECE] |= f->piece | (uint64_t)f->block_bytes << PIECE_BITS;
    note->word[NOTE_CONTENT_SIZE] = f->content_size;
    f->piece &= ~(unsigned)PIECE_START;
    f->claimed += found->bound;
    if (f->state == SUM) {
        note->word[NOTE_PIECE] |= PIECE_SUM;
        note->word[NOTE_SUM] = ahead_load_u32_le(ahead_input_bytes(&d->in) + at);
        f->state = BETWEEN;
    } else if (found->trailer) {
        note->word[NOTE_PIECE] |= PIECE_END_MARK;
        f->end_mark_at = d->in.offset + at;
        f->state = f->has_sum ? SUM : BETWEEN;
    }
    note->word[NOTE_END_MARK] = f->end_mark_at;
}

/* Linked blocks need memory for their history, from the first such frame on. */
static enum ahead_status get_history(struct lz4_frame *f, struct ahead_error *err)
{
    if (!f->history.bytes)
        f->history.bytes = malloc(2 * HISTORY_BYTES);
    if (f->history.bytes)
        return AHEAD_OK;
    return ahead_error_set(err, AHEAD_NOMEM, f->d.in.offset, "no memory for %d bytes of history",
                           2 * HISTORY_BYTES);
}

static enum ahead_status begin_frame(struct lz4_frame *f, const uint8_t *p, struct ahead_error *err)
{
    unsigned flg = p[WORD];
    bool hashed = flg & FLG_CONTENT_SUM && !f->d.opt.no_checksums;

    if (!(flg & FLG_INDEPENDENT) && get_history(f, err))
        return err->status;
    f->state = BLOCKS;
    f->block_bytes = block_bytes(p[WORD + 1]);
    f->has_sum = flg & FLG_CONTENT_SUM;
    f->content_size = flg & FLG_CONTENT_SIZE ? ahead_load_u64_le(p + WORD + 2) : 0;
    f->piece =
        PIECE_START | (hashed ? PIECE_HASHED : 0) | (flg & FLG_CONTENT_SIZE ? PIECE_SIZED : 0) |
        (flg & FLG_BLOCK_SUMS ? PIECE_BLOCK_SUMS : 0) | (flg & FLG_INDEPENDENT ? 0 : PIECE_LINKED);
    return AHEAD_OK;
}

static void begin_legacy(struct lz4_frame *f)
{
    f->state = LEGACY;
    f->block_bytes = LEGACY_BYTES;
    f->piece = PIECE_START | PIECE_LEGACY;
}

static enum ahead_status begin(struct lz4_frame *f, struct ahead_error *err)
{
    const uint8_t *p = ahead_input_bytes(&f->d.in);
    uint32_t magic = ahead_load_u32_le(p);

    if (magic == MAGIC_FRAME && begin_frame(f, p, err))
        return err->status;
    f->frame_at = f->d.in.offset;
    f->claimed = 0;
    if (magic == MAGIC_LEGACY)
        begin_legacy(f);
    if (is_skippable(magic)) {
        f->state = SKIPPING;
        f->skip_end = f->frame_at + SKIPPABLE_HEADER + ahead_load_u32_le(p + WORD);
    }
    return AHEAD_OK;
}

static enum ahead_status
frame_pass(struct ahead_decoder *d, const struct ahead_found *found, struct ahead_error *err)
{
    struct lz4_frame *f = (struct lz4_frame *)d;

    switch (f->state) {
    case BETWEEN: return begin(f, err);
    case SKIPPING:
        if (d->in.offset + found->len == f->skip_end)
            f->state = BETWEEN;
        break;
    case BLOCKS: f->state = f->has_sum ? SUM : BETWEEN; break;
    case SUM:
    case LEGACY: f->state = BETWEEN; break;
    }
    return AHEAD_OK;
}

static bool frame_serial(const struct ahead_decoder *d)
{
    const struct lz4_frame *f = (const struct lz4_frame *)d;

    return (f->state == BLOCKS || f->state == SUM) && f->piece & PIECE_LINKED;
}

static size_t frame_unit(const struct ahead_decoder *d)
{
    const struct lz4_frame *f = (const struct lz4_frame *)d;

    return f->state == BLOCKS || f->state == LEGACY ? f->block_bytes : 0;
}

/* ---- the end of the input ---- */

static enum ahead_status
cut(struct ahead_error *err, uint64_t at, const char *what, size_t have, size_t len)
{
    return ahead_error_set(err, AHEAD_TRUNCATED, at,
                           "%s at input byte %" PRIu64
                           ": the input ends after %zu of its %zu bytes",
                           what, at, have, len);
}

static enum ahead_status
judge_end_between(const struct ahead_decoder *d, size_t need, struct ahead_error *err)
{
    size_t have = ahead_input_len(&d->in);
    uint64_t at = d->in.offset;

    if (have)
        return cut(err, at, have < WORD ? "LZ4 frame magic" : "LZ4 frame header", have, need);
    if (at || d->opt.compat || d->opt.empty_ok)
        return ahead_error_set(err, AHEAD_EOF, at, "the end");
    return ahead_error_set(err, AHEAD_TRUNCATED, at, "LZ4 frame missing: the input has 0 bytes");
}

static enum ahead_status frame_judge_end(const struct ahead_decoder *d, struct ahead_error *err)
{
    const struct lz4_frame *f = (const struct lz4_frame *)d;
    size_t have = ahead_input_len(&d->in);
    uint64_t at = d->in.offset;
    struct ahead_found found = { .len = 0 };

    frame_look(d, 0, &found, err);
    switch (f->state) {
    case BETWEEN: return judge_end_between(d, found.len, err);
    case SKIPPING:
        return ahead_error_set(err, AHEAD_TRUNCATED, f->frame_at,
                               "skippable frame at input byte %" PRIu64 ": the input ends %" PRIu64
                               " bytes before it does",
                               f->frame_at, f->skip_end - at);
    case BLOCKS:
        if (!have)
            return ahead_error_set(err, AHEAD_TRUNCATED, at,
                                   "end mark of the LZ4 frame at input byte %" PRIu64
                                   " missing: the input ends at byte %" PRIu64,
                                   f->frame_at, at);
        return cut(err, at, "LZ4 frame block", have, found.len);
    case SUM: return cut(err, at, "LZ4 frame content checksum", have, found.len);
    case LEGACY:
        if (!have)
            return ahead_error_set(err, AHEAD_EOF, at, "the end");
        return cut(err, at, "legacy LZ4 block", have, found.len);
    }
    return AHEAD_TRUNCATED; /* not reached */
}

/* ---- make ---- */

/* What a match can reach back to. */
struct reach {
    const uint8_t *bytes;
    size_t len;
};

static struct reach last_of(const uint8_t *bytes, size_t len)
{
    size_t n = len < HISTORY_BYTES ? len : HISTORY_BYTES;

    return (struct reach){ .bytes = n ? bytes + (len - n) : bytes, .len = n };
}

static void keep(struct history *h, const uint8_t *bytes, size_t len)
{
    struct reach new = last_of(bytes, len);

    if (new.len == HISTORY_BYTES) {
        h->len = 0; /* the front half is the one that the cache has */
    } else if (new.len > 2 * HISTORY_BYTES - h->len) {
        struct reach old = last_of(h->bytes, h->len);
        size_t drop = new.len + old.len - HISTORY_BYTES;

        h->len = old.len - drop;
        memmove(h->bytes, old.bytes + drop, h->len);
    }
    if (new.len)
        memcpy(h->bytes + h->len, new.bytes, new.len);
    h->len += new.len;
}

/* A block in encoded form. */
struct block {
    const uint8_t *bytes;
    size_t stored;
    size_t encoded; /* with its size word and its checksum */
    bool raw;
    uint64_t at; /* in the input */
};

static struct block parse_block(unsigned piece, const uint8_t *p, uint64_t at)
{
    uint32_t word = ahead_load_u32_le(p);
    bool raw = word & RAW && !(piece & PIECE_LEGACY);
    size_t stored = piece & PIECE_LEGACY ? word : word & ~RAW;

    return (struct block){
        .bytes = p + WORD,
        .stored = stored,
        .encoded = WORD + stored + (piece & PIECE_BLOCK_SUMS ? WORD : 0),
        .raw = raw,
        .at = at,
    };
}

static enum ahead_status verify(const struct block *b, struct ahead_error *err)
{
    uint32_t expected = ahead_load_u32_le(b->bytes + b->stored);
    uint32_t sum = XXH32(b->bytes, b->stored, 0);

    if (sum == expected)
        return AHEAD_OK;
    return ahead_error_set(err, AHEAD_CORRUPT, b->at,
                           "checksum of the LZ4 frame block at input byte %" PRIu64
                           ": expected 0x%08" PRIx32 ", its %zu stored bytes give 0x%08" PRIx32,
                           b->at, expected, b->stored, sum);
}

/* Returns how many bytes, or -1. */
static int decode(const struct block *b, struct reach reach, size_t cap, uint8_t *dst)
{
    if (b->raw) {
        if (b->stored)
            memcpy(dst, b->bytes, b->stored);
        return (int)b->stored;
    }
    return LZ4_decompress_safe_usingDict((const char *)b->bytes, (char *)dst, (int)b->stored,
                                         (int)most_of(b->stored, cap), (const char *)reach.bytes,
                                         (int)reach.len);
}

/* A linked block reaches back into what this call has made already, if that is
 * enough; else into the history, which is then brought up to it. */
static struct reach
reach_of(struct lz4_frame *f, unsigned piece, const uint8_t *dst, size_t len, size_t *kept)
{
    if (piece & PIECE_LEGACY)
        return (struct reach){ .len = 0 };
    if (!(piece & PIECE_LINKED))
        return (struct reach){ .bytes = f->dict, .len = f->dict_len };
    if (len >= HISTORY_BYTES)
        return last_of(dst, len);
    keep(&f->history, dst + *kept, len - *kept);
    *kept = len;
    return last_of(f->history.bytes, f->history.len);
}

static enum ahead_status
frame_make(struct ahead_decoder *d, const struct ahead_note *note, struct ahead_blocks blocks,
           uint8_t *dst, size_t *len, struct ahead_error *err)
{
    struct lz4_frame *f = (struct lz4_frame *)d;
    unsigned piece = note->word[NOTE_PIECE] & ((1u << PIECE_BITS) - 1);
    size_t cap = (size_t)(note->word[NOTE_PIECE] >> PIECE_BITS);
    size_t kept = 0;
    enum ahead_status st = AHEAD_OK;

    if (piece & PIECE_START && piece & PIECE_LINKED) {
        f->history.len = 0;
        keep(&f->history, f->dict, f->dict_len);
    }
    *len = 0;
    for (size_t at = 0; !st && at < blocks.len;) {
        struct block b = parse_block(piece, blocks.bytes + at, blocks.offset + at);
        int n;

        if (piece & PIECE_BLOCK_SUMS && !d->opt.no_checksums && verify(&b, err))
            return err->status;
        n = decode(&b, reach_of(f, piece, dst, *len, &kept), cap, dst + *len);
        if (n < 0)
            st = ahead_error_set(err, AHEAD_CORRUPT, b.at,
                                 "LZ4 block at input byte %" PRIu64 ": its %zu bytes do not decode"
                                 " to %zu at most, or reach back before the data",
                                 b.at, b.stored, cap);
        else
            *len += (size_t)n;
        at += b.encoded;
    }
    if (piece & PIECE_LINKED)
        keep(&f->history, dst + kept, *len - kept);
    return st;
}

/* ---- settle ---- */

static enum ahead_status
check_end(const struct lz4_frame *f, const struct ahead_note *note, struct ahead_error *err)
{
    uint64_t piece = note->word[NOTE_PIECE], size = note->word[NOTE_CONTENT_SIZE];
    uint64_t at = note->word[NOTE_END_MARK];
    uint32_t sum;

    if (piece & PIECE_END_MARK && piece & PIECE_SIZED && f->settled != size)
        return ahead_error_set(err, AHEAD_CORRUPT, at,
                               "content size at the end mark at input byte %" PRIu64
                               ": expected %" PRIu64 " bytes, found %" PRIu64,
                               at, size, f->settled);
    if (!(piece & PIECE_SUM))
        return AHEAD_OK;
    sum = XXH32_digest(f->hash);
    if (sum == note->word[NOTE_SUM])
        return AHEAD_OK;
    return ahead_error_set(err, AHEAD_CORRUPT, at + WORD,
                           "content checksum at input byte %" PRIu64 ": expected 0x%08" PRIx64
                           ", the frame's %" PRIu64 " bytes give 0x%08" PRIx32,
                           at + WORD, note->word[NOTE_SUM], f->settled, sum);
}

static enum ahead_status
frame_settle(struct ahead_decoder *d, const struct ahead_note *note, const uint8_t *bytes,
             size_t *len, enum ahead_status made, struct ahead_error *err)
{
    struct lz4_frame *f = (struct lz4_frame *)d;
    uint64_t piece = note->word[NOTE_PIECE], size = note->word[NOTE_CONTENT_SIZE];
    uint64_t at = note->word[AHEAD_NOTE_OFFSET];

    if (piece & PIECE_START) {
        f->settled = 0;
        XXH32_reset(f->hash, 0);
    }
    if (piece & PIECE_SIZED && *len > size - f->settled) {
        *len = 0; /* one block: such pieces hold no other */
        return ahead_error_set(err, AHEAD_CORRUPT, at,
                               "content size at the LZ4 frame block at input byte %" PRIu64
                               ": expected %" PRIu64 " bytes, there are more",
                               at, size);
    }
    f->settled += *len;
    if (piece & PIECE_HASHED && *len)
        XXH32_update(f->hash, bytes, *len);
    return made ? AHEAD_OK : check_end(f, note, err);
}

/* ---- the source ---- */

static void frame_reset(struct ahead_decoder *d)
{
    struct lz4_frame *f = (struct lz4_frame *)d;

    f->state = BETWEEN;
    f->piece = 0;
}

static void frame_release(struct ahead_decoder *d)
{
    struct lz4_frame *f = (struct lz4_frame *)d;

    XXH32_freeState(f->hash);
    free(f->history.bytes);
}

static const struct ahead_decoder_format lz4_frame_format = {
    .max_block_bytes = LEGACY_BYTES,
    .look = frame_look,
    .take = frame_take,
    .pass = frame_pass,
    .judge_end = frame_judge_end,
    .unit = frame_unit,
    .serial = frame_serial,
    .make = frame_make,
    .settle = frame_settle,
    .reset = frame_reset,
    .release = frame_release,
};

enum ahead_status ahead_lz4_frame_init(struct ahead_source *out, struct ahead_input *in,
                                       const struct ahead_lz4_options *opt)
{
    struct lz4_frame *f = calloc(1, sizeof *f);
    struct ahead_error err;

    if (f)
        f->hash = XXH32_createState();
    if (!f || !f->hash) {
        free(f);
        ahead_input_close(in, &err);
        return ahead_fail_errno(AHEAD_NOMEM);
    }
    if (opt && opt->dict) {
        struct reach reach = last_of(opt->dict, opt->dict_len);

        f->dict = reach.bytes;
        f->dict_len = reach.len;
    }
    ahead_decoder_init(&f->d, &lz4_frame_format, in, opt, out);
    return AHEAD_OK;
}

enum ahead_status ahead_source_lz4_frame(struct ahead_source *out, struct ahead_source inner,
                                         const struct ahead_lz4_options *opt)
{
    return ahead_decoder_open(out, inner, opt, ahead_lz4_frame_init);
}
