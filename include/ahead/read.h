/* SPDX-License-Identifier: Apache-2.0 */
/* read.h - typed reads from a stream, and from a cursor in tight loops.
 *
 * Every read returns AHEAD_OK; AHEAD_EOF: nothing was left; AHEAD_TRUNCATED:
 * the end is inside the value, whose bytes stay unread; the fault that comes
 * before enough bytes do; AHEAD_TIMEDOUT.  *v is written with AHEAD_OK only,
 * and nothing is consumed otherwise.  They wait only if the value is not at
 * hand.  `s` and `v` must not be NULL. */
#ifndef AHEAD_READ_H
#define AHEAD_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include <ahead/stream.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A local copy of a stream's hot state, for tight loops: kept by value, its
 * fields live in registers.  Between begin and end, use nothing of the stream
 * but this cursor (ahead_cancel() excepted). */
struct ahead_cursor {
    const uint8_t *next;
    const uint8_t *end;
    struct ahead_stream *stream;
};

/* Take the position from the stream. */
AHEAD_INLINE struct ahead_cursor ahead_cursor_begin(struct ahead_stream *s)
{
    struct ahead_cursor c;

    c.next = s->next;
    c.end = s->end;
    c.stream = s;
    return c;
}

/* Give the position back to the stream. */
AHEAD_INLINE void ahead_cursor_end(struct ahead_cursor *c)
{
    c->stream->next = c->next;
}

/* ahead_need() for a cursor.  Inline on purpose: only a cursor whose address
 * reaches no real function stays in registers; else each value costs a store. */
AHEAD_INLINE enum ahead_status ahead_cursor_need(struct ahead_cursor *c, size_t n)
{
    enum ahead_status st;

    c->stream->next = c->next;
    st = ahead_need(c->stream, n);
    c->next = c->stream->next;
    c->end = c->stream->end;
    return st;
}

/* From the byte order that is asked for to this machine's.  Not byte by byte:
 * clang does not make one load of that when the sign is extended. */
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define AHEAD_SWAP_BE_(bits, v) __builtin_bswap##bits(v)
#define AHEAD_SWAP_LE_(bits, v) (v)
#elif defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define AHEAD_SWAP_BE_(bits, v) (v)
#define AHEAD_SWAP_LE_(bits, v) __builtin_bswap##bits(v)
#else
#error "libahead needs a compiler that defines __BYTE_ORDER__"
#endif

/* Loads at any alignment: one instruction, or two. */
#define AHEAD_DEFINE_LOAD_(bits)                                                                   \
    AHEAD_INLINE uint##bits##_t ahead_load_u##bits##_be(const uint8_t *p)                          \
    {                                                                                              \
        uint##bits##_t v;                                                                          \
                                                                                                   \
        memcpy(&v, p, sizeof v);                                                                   \
        return AHEAD_SWAP_BE_(bits, v);                                                            \
    }                                                                                              \
                                                                                                   \
    AHEAD_INLINE uint##bits##_t ahead_load_u##bits##_le(const uint8_t *p)                          \
    {                                                                                              \
        uint##bits##_t v;                                                                          \
                                                                                                   \
        memcpy(&v, p, sizeof v);                                                                   \
        return AHEAD_SWAP_LE_(bits, v);                                                            \
    }

AHEAD_DEFINE_LOAD_(16)
AHEAD_DEFINE_LOAD_(32)
AHEAD_DEFINE_LOAD_(64)

AHEAD_INLINE uint8_t ahead_load_u8(const uint8_t *p)
{
    return p[0];
}

/* Each line below gives ahead_read_NAME(s, v) and ahead_cursor_read_NAME(c, v)
 * for a value of TYPE, loaded as BITS by LOAD.  memcpy() turns the unsigned
 * bits into the value: also into a float, and into a negative number on
 * machines of any kind. */
#define AHEAD_DEFINE_READ_(name, type, bits, load)                                                 \
    AHEAD_INLINE AHEAD_NODISCARD enum ahead_status ahead_read_##name(struct ahead_stream *s,       \
                                                                     type *v)                      \
    {                                                                                              \
        bits b;                                                                                    \
                                                                                                   \
        if (AHEAD_UNLIKELY(s->next + sizeof b > s->end)) {                                         \
            enum ahead_status st = ahead_need(s, sizeof b);                                        \
                                                                                                   \
            if (st)                                                                                \
                return st;                                                                         \
        }                                                                                          \
        b = load(s->next);                                                                         \
        memcpy(v, &b, sizeof b);                                                                   \
        s->next += sizeof b;                                                                       \
        return AHEAD_OK;                                                                           \
    }                                                                                              \
                                                                                                   \
    AHEAD_INLINE AHEAD_NODISCARD enum ahead_status ahead_cursor_read_##name(                       \
        struct ahead_cursor *c, type *v)                                                           \
    {                                                                                              \
        bits b;                                                                                    \
                                                                                                   \
        if (AHEAD_UNLIKELY(c->next + sizeof b > c->end)) {                                         \
            enum ahead_status st = ahead_cursor_need(c, sizeof b);                                 \
                                                                                                   \
            if (st)                                                                                \
                return st;                                                                         \
        }                                                                                          \
        b = load(c->next);                                                                         \
        memcpy(v, &b, sizeof b);                                                                   \
        c->next += sizeof b;                                                                       \
        return AHEAD_OK;                                                                           \
    }

AHEAD_DEFINE_READ_(u8, uint8_t, uint8_t, ahead_load_u8)
AHEAD_DEFINE_READ_(i8, int8_t, uint8_t, ahead_load_u8)
AHEAD_DEFINE_READ_(u16_be, uint16_t, uint16_t, ahead_load_u16_be)
AHEAD_DEFINE_READ_(u16_le, uint16_t, uint16_t, ahead_load_u16_le)
AHEAD_DEFINE_READ_(i16_be, int16_t, uint16_t, ahead_load_u16_be)
AHEAD_DEFINE_READ_(i16_le, int16_t, uint16_t, ahead_load_u16_le)
AHEAD_DEFINE_READ_(u32_be, uint32_t, uint32_t, ahead_load_u32_be)
AHEAD_DEFINE_READ_(u32_le, uint32_t, uint32_t, ahead_load_u32_le)
AHEAD_DEFINE_READ_(i32_be, int32_t, uint32_t, ahead_load_u32_be)
AHEAD_DEFINE_READ_(i32_le, int32_t, uint32_t, ahead_load_u32_le)
AHEAD_DEFINE_READ_(u64_be, uint64_t, uint64_t, ahead_load_u64_be)
AHEAD_DEFINE_READ_(u64_le, uint64_t, uint64_t, ahead_load_u64_le)
AHEAD_DEFINE_READ_(i64_be, int64_t, uint64_t, ahead_load_u64_be)
AHEAD_DEFINE_READ_(i64_le, int64_t, uint64_t, ahead_load_u64_le)
AHEAD_DEFINE_READ_(f32_be, float, uint32_t, ahead_load_u32_be)
AHEAD_DEFINE_READ_(f32_le, float, uint32_t, ahead_load_u32_le)
AHEAD_DEFINE_READ_(f64_be, double, uint64_t, ahead_load_u64_be)
AHEAD_DEFINE_READ_(f64_le, double, uint64_t, ahead_load_u64_le)

/* Read one byte as a truth value, as Java's readBoolean(): any but 0 is true. */
AHEAD_INLINE AHEAD_NODISCARD enum ahead_status ahead_read_bool(struct ahead_stream *s, bool *v)
{
    uint8_t b;
    enum ahead_status st = ahead_read_u8(s, &b);

    if (!st)
        *v = b != 0;
    return st;
}

AHEAD_INLINE AHEAD_NODISCARD enum ahead_status
ahead_cursor_read_bool(struct ahead_cursor *c, bool *v)
{
    uint8_t b;
    enum ahead_status st = ahead_cursor_read_u8(c, &b);

    if (!st)
        *v = b != 0;
    return st;
}

/* Read n values of `width` bytes (2, 4, 8) each into dst, which need not be
 * aligned; big_endian says how they are stored.  The real function under the
 * typed ones below. */
AHEAD_API AHEAD_NODISCARD enum ahead_status
ahead_read_array(struct ahead_stream *s, void *dst, size_t n, size_t width, bool big_endian,
                 size_t *got);

/* Read n values into dst.  *got says how many were stored (whole ones, also on
 * failure); may be NULL.  AHEAD_OK only if all; AHEAD_EOF: not one byte was
 * left; AHEAD_TRUNCATED: a clean end came in between, the bytes of a value
 * that it cuts stay unread; else the fault that follows, AHEAD_TIMEDOUT, or
 * AHEAD_INVALID. */
#define AHEAD_DEFINE_READ_ARRAY_(name, type, big)                                                  \
    AHEAD_INLINE AHEAD_NODISCARD enum ahead_status ahead_read_##name##_array(                      \
        struct ahead_stream *s, type *dst, size_t n, size_t *got)                                  \
    {                                                                                              \
        return ahead_read_array(s, dst, n, sizeof *dst, big, got);                                 \
    }

AHEAD_DEFINE_READ_ARRAY_(u16_be, uint16_t, true)
AHEAD_DEFINE_READ_ARRAY_(u16_le, uint16_t, false)
AHEAD_DEFINE_READ_ARRAY_(i16_be, int16_t, true)
AHEAD_DEFINE_READ_ARRAY_(i16_le, int16_t, false)
AHEAD_DEFINE_READ_ARRAY_(u32_be, uint32_t, true)
AHEAD_DEFINE_READ_ARRAY_(u32_le, uint32_t, false)
AHEAD_DEFINE_READ_ARRAY_(i32_be, int32_t, true)
AHEAD_DEFINE_READ_ARRAY_(i32_le, int32_t, false)
AHEAD_DEFINE_READ_ARRAY_(u64_be, uint64_t, true)
AHEAD_DEFINE_READ_ARRAY_(u64_le, uint64_t, false)
AHEAD_DEFINE_READ_ARRAY_(i64_be, int64_t, true)
AHEAD_DEFINE_READ_ARRAY_(i64_le, int64_t, false)
AHEAD_DEFINE_READ_ARRAY_(f32_be, float, true)
AHEAD_DEFINE_READ_ARRAY_(f32_le, float, false)
AHEAD_DEFINE_READ_ARRAY_(f64_be, double, true)
AHEAD_DEFINE_READ_ARRAY_(f64_le, double, false)

/* The cold twin of the variable-length reads: a number of up to `bits` (32,
 * 64) bits, seven in a byte, low ones first. */
AHEAD_API AHEAD_NODISCARD enum ahead_status
ahead_read_varint(struct ahead_stream *s, unsigned bits, uint64_t *v);

/* Read an unsigned number of variable length (LEB128, as Protocol Buffers
 * store it): seven bits in a byte, low ones first, the top bit says that more
 * follow.  Also AHEAD_CORRUPT: more than 5 (10) bytes, or more than 32 (64)
 * bits; nothing was consumed. */
AHEAD_INLINE AHEAD_NODISCARD enum ahead_status
ahead_read_varint_u64(struct ahead_stream *s, uint64_t *v)
{
    if (s->next == s->end || *s->next >= 0x80)
        return ahead_read_varint(s, 64, v);
    *v = *s->next++;
    return AHEAD_OK;
}

AHEAD_INLINE AHEAD_NODISCARD enum ahead_status
ahead_read_varint_u32(struct ahead_stream *s, uint32_t *v)
{
    uint64_t wide;
    enum ahead_status st;

    if (s->next != s->end && *s->next < 0x80) {
        *v = *s->next++;
        return AHEAD_OK;
    }
    st = ahead_read_varint(s, 32, &wide);
    if (!st)
        *v = (uint32_t)wide;
    return st;
}

AHEAD_INLINE AHEAD_NODISCARD enum ahead_status
ahead_cursor_read_varint_u64(struct ahead_cursor *c, uint64_t *v)
{
    enum ahead_status st;

    if (c->next != c->end && *c->next < 0x80) {
        *v = *c->next++;
        return AHEAD_OK;
    }
    c->stream->next = c->next;
    st = ahead_read_varint(c->stream, 64, v);
    c->next = c->stream->next;
    c->end = c->stream->end;
    return st;
}

AHEAD_INLINE AHEAD_NODISCARD enum ahead_status
ahead_cursor_read_varint_u32(struct ahead_cursor *c, uint32_t *v)
{
    uint64_t wide;
    enum ahead_status st;

    if (c->next != c->end && *c->next < 0x80) {
        *v = *c->next++;
        return AHEAD_OK;
    }
    c->stream->next = c->next;
    st = ahead_read_varint(c->stream, 32, &wide);
    c->next = c->stream->next;
    c->end = c->stream->end;
    if (!st)
        *v = (uint32_t)wide;
    return st;
}

/* Undo the zigzag coding of Protocol Buffers: 0, 1, 2, 3 are 0, -1, 1, -2. */
AHEAD_INLINE int64_t ahead_zigzag(uint64_t bits)
{
    uint64_t b = bits >> 1 ^ (~(bits & 1) + 1);
    int64_t v;

    memcpy(&v, &b, sizeof v);
    return v;
}

/* Read a signed number of variable length, zigzag coded.  As the unsigned
 * ones. */
AHEAD_INLINE AHEAD_NODISCARD enum ahead_status
ahead_read_zigzag_i64(struct ahead_stream *s, int64_t *v)
{
    uint64_t bits;
    enum ahead_status st = ahead_read_varint_u64(s, &bits);

    if (!st)
        *v = ahead_zigzag(bits);
    return st;
}

AHEAD_INLINE AHEAD_NODISCARD enum ahead_status
ahead_read_zigzag_i32(struct ahead_stream *s, int32_t *v)
{
    uint32_t bits;
    enum ahead_status st = ahead_read_varint_u32(s, &bits);

    if (!st)
        *v = (int32_t)ahead_zigzag(bits);
    return st;
}

AHEAD_INLINE AHEAD_NODISCARD enum ahead_status
ahead_cursor_read_zigzag_i64(struct ahead_cursor *c, int64_t *v)
{
    uint64_t bits;
    enum ahead_status st = ahead_cursor_read_varint_u64(c, &bits);

    if (!st)
        *v = ahead_zigzag(bits);
    return st;
}

AHEAD_INLINE AHEAD_NODISCARD enum ahead_status
ahead_cursor_read_zigzag_i32(struct ahead_cursor *c, int32_t *v)
{
    uint32_t bits;
    enum ahead_status st = ahead_cursor_read_varint_u32(c, &bits);

    if (!st)
        *v = (int32_t)ahead_zigzag(bits);
    return st;
}

/* Read a string as Java's DataOutput.writeUTF() stores it: a big-endian 16-bit
 * length, then that many bytes of modified UTF-8, which are stored at dst as
 * they are, without a NUL.  *len is their number, also with AHEAD_LIMIT: more
 * than cap.  AHEAD_CORRUPT: not modified UTF-8.  Nothing is consumed unless
 * AHEAD_OK.  AHEAD_INVALID; AHEAD_NOMEM. */
AHEAD_API AHEAD_NODISCARD enum ahead_status
ahead_read_utf(struct ahead_stream *s, char *dst, size_t cap, size_t *len);

/* The same from a cursor. */
AHEAD_INLINE AHEAD_NODISCARD enum ahead_status
ahead_cursor_read_utf(struct ahead_cursor *c, char *dst, size_t cap, size_t *len)
{
    enum ahead_status st;

    c->stream->next = c->next;
    st = ahead_read_utf(c->stream, dst, cap, len);
    c->next = c->stream->next;
    c->end = c->stream->end;
    return st;
}

/* Read up to and with the byte `delim`: *data points to *len bytes, valid until
 * the next call on this stream, consumed.  At most `max` of them, the
 * delimiter included (0: 64 MiB): if there is none among so many it is
 * AHEAD_LIMIT, also if the input ends right behind them, and nothing is
 * consumed.  At a clean end before that: the rest, consumed, with
 * AHEAD_TRUNCATED; then AHEAD_EOF.  Before a fault: that fault, the bytes in
 * front of it stay unread.  AHEAD_TIMEDOUT, AHEAD_NOMEM, AHEAD_INVALID. */
AHEAD_API AHEAD_NODISCARD enum ahead_status
ahead_read_until(struct ahead_stream *s, uint8_t delim, size_t max, const uint8_t **data,
                 size_t *len);

#ifdef __cplusplus
}
#endif
#endif
