/* SPDX-License-Identifier: Apache-2.0 */
/* writer.h - a writer that writes behind its caller.
 *
 * A writer has two buffers.  The caller fills one without taking a lock, a
 * second thread brings the other to the sink, and they are swapped under a
 * lock.
 *
 *     struct ahead_sink sink;
 *     struct ahead_writer *w;
 *     enum ahead_status st = ahead_sink_path(&sink, "numbers");
 *
 *     if (!st)
 *         st = ahead_writer_open(&w, sink, NULL);
 *     if (st)
 *         return st;
 *     for (int32_t v = 0; !st && v < 1000000; v++)
 *         st = ahead_write_i32_be(w, v);
 *     return ahead_writer_close(w);
 *
 * The status of the close alone is enough: it is that of the first failure,
 * whichever call was told of it.  AHEAD_OK means that the sink took everything.
 *
 * Threads: one writer is written to by one thread at a time.  Different writers
 * are independent.  ahead_writer_cancel() may be called from any thread.  In a
 * child of fork() a writer is AHEAD_INVALID, and its close only frees memory:
 * the output is the parent's. */
#ifndef AHEAD_WRITER_H
#define AHEAD_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include <ahead/sink.h>
#include <ahead/status.h>
#include <ahead/stream.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The part of a writer that the inlines below touch.  Only the writing thread
 * looks at it, so nothing is atomic and nothing is locked.
 *
 *      bytes              next          end
 *        |-----written-----|----room-----|--slack--|
 *
 * next >= end in every state but "there is room": fresh, full, failed.
 * AHEAD_SLACK bytes behind `end` belong to the same memory, and a value may lap
 * over into them: so while next < end, there is room for any value.  Neither is
 * ever NULL. */
struct ahead_writer {
    uint8_t *next; /* producer: where the next byte goes */
    uint8_t *end;  /* producer: from here on the buffer counts as full */
};

/* Open a writer in front of `sink`.
 *
 * `sink` belongs to the library from the call on, whatever is returned: on
 * failure it has been closed and *out is NULL.  On success *out is the writer;
 * close it with ahead_writer_close().  `opt` is copied; NULL means defaults.
 * Of the options: `buffer_bytes` is one of the two buffers; `read_timeout_ms`
 * bounds each wait of the writing thread; AHEAD_EAGER starts the second thread
 * now; AHEAD_SYNC has none, the caller writes.  Without a second thread, also
 * when it could not be started, the limits in ms cannot be kept.  With `pool`, its
 * threads write instead of one of the writer's own, and the buffers stay within
 * its budget, as is said in pool.h; the pool has to outlive the writer.
 *
 * Does not wait, and starts no thread unless AHEAD_EAGER is set: that happens
 * when the first buffer is full, so small outputs have none.  The sink's
 * functions run on the writing thread or the second thread.  AHEAD_OK;
 * AHEAD_NOMEM; AHEAD_INVALID: `out` or `sink.ops->write` is NULL, a flag is
 * unknown, buffer_bytes is above 1 GiB, the pool was opened by the parent of
 * this process.  On failure errno is set. */
AHEAD_API AHEAD_NODISCARD enum ahead_status
ahead_writer_open(struct ahead_writer **out, struct ahead_sink sink,
                  const struct ahead_options *opt);

/* Write what is left, end the output, close the sink once, free everything.
 *
 * Waits until the sink has taken every byte, or failed; with close_timeout_ms
 * set not longer than that: then the sink is interrupted and the status is
 * AHEAD_TIMEDOUT; if it still does not return, the second thread closes it and
 * frees the writer when it does.  The writer must not be used afterwards,
 * whatever is returned; ahead_writer_cancel() may not begin after close has.
 *
 * Returns the first failure there was, that of the sink's close included:
 * AHEAD_OK if and only if everything that was written has reached the sink and
 * it was finished.  NULL is fine: AHEAD_OK.  Called inside a function of the
 * writer's own sink: AHEAD_INVALID, and nothing happens. */
AHEAD_API enum ahead_status ahead_writer_close(struct ahead_writer *w);

/* The same.  *err (may be NULL) is filled in for every status: `offset` is the
 * number of bytes that the sink took, `source_offset` that of the last sink in
 * a row of encoders, at the time of the failure. */
AHEAD_API enum ahead_status
ahead_writer_close_error(struct ahead_writer *w, struct ahead_error *err);

/* Give the output up, for good.  Any thread, any number of times, also while
 * the writing thread is inside a call.  Never waits for the sink.  Whoever
 * sleeps wakes up; what was not written yet is dropped, and from the next time
 * that a buffer is handed over every call says AHEAD_CANCELLED.  So does the
 * close, unless the sink had everything already.  NULL is fine. */
AHEAD_API void ahead_writer_cancel(struct ahead_writer *w);

/* Wait until every byte so far has reached the sink, and its flush() has
 * returned.  An encoder ends the block that it is collecting.  AHEAD_OK; the
 * failure; AHEAD_TIMEDOUT: it goes on, call again; AHEAD_INVALID. */
AHEAD_API AHEAD_NODISCARD enum ahead_status ahead_writer_flush(struct ahead_writer *w);

/* What the last call on this writer that did not return AHEAD_OK had to say;
 * once it has failed, the failure: `offset` is the number of bytes that the
 * sink took.  Status AHEAD_OK if there was none.  Valid until the next call;
 * never NULL (for a NULL writer: AHEAD_INVALID).  Writing thread. */
AHEAD_API const struct ahead_error *ahead_writer_error(const struct ahead_writer *w);

/* How many bytes were accepted so far.  0 for NULL. */
AHEAD_API uint64_t ahead_writer_tell(const struct ahead_writer *w);

/* What a writer has done so far. */
struct ahead_writer_stats {
    uint64_t bytes;          /* taken by the sink */
    uint64_t sink_writes;    /* writes of the sink that took something */
    uint64_t swaps;          /* buffers handed over */
    uint64_t producer_waits; /* times the writing thread slept */
    uint64_t producer_wait_ns;
    uint64_t thread_waits; /* times the second thread slept */
    uint64_t thread_wait_ns;
    uint64_t threads_started; /* not those of a pool */
    uint64_t wakeups;         /* signals sent to a side that slept */
    uint64_t buffer_bytes;    /* of both buffers, now */
};

/* Copy the figures.  Writing thread.  Never blocks. */
AHEAD_API void ahead_writer_get_stats(struct ahead_writer *w, struct ahead_writer_stats *out);

/* ---- writing ----
 *
 * Every write returns AHEAD_OK when the bytes were accepted: whether they
 * arrive is told by a later call, the flush or the close.  They wait only for
 * a free buffer.  Otherwise: the failure of an earlier byte; AHEAD_TIMEDOUT:
 * the value was not accepted, call again (of many bytes or values, those in
 * front may have been: ahead_writer_tell() says); AHEAD_NOMEM: no buffer could
 * be had, and the writer has failed; AHEAD_INVALID.  `w` must not be NULL. */

/* Write len bytes from src, which may be NULL if len is 0. */
AHEAD_API AHEAD_NODISCARD enum ahead_status
ahead_write(struct ahead_writer *w, const void *src, size_t len);

/* Make room for a value at w->next, handing a full buffer over: the one slow
 * path under every typed write. */
AHEAD_API AHEAD_NODISCARD enum ahead_status ahead_make_room(struct ahead_writer *w);

/* Stores, byte by byte in the source and one instruction in the program: right
 * at every alignment and on either kind of machine. */
AHEAD_INLINE void ahead_store_u8(uint8_t *p, uint8_t v)
{
    p[0] = v;
}

AHEAD_INLINE void ahead_store_u16_be(uint8_t *p, uint16_t v)
{
    p[0] = (uint8_t)(v >> 8);
    p[1] = (uint8_t)v;
}

AHEAD_INLINE void ahead_store_u16_le(uint8_t *p, uint16_t v)
{
    p[0] = (uint8_t)v;
    p[1] = (uint8_t)(v >> 8);
}

AHEAD_INLINE void ahead_store_u32_be(uint8_t *p, uint32_t v)
{
    p[0] = (uint8_t)(v >> 24);
    p[1] = (uint8_t)(v >> 16);
    p[2] = (uint8_t)(v >> 8);
    p[3] = (uint8_t)v;
}

AHEAD_INLINE void ahead_store_u32_le(uint8_t *p, uint32_t v)
{
    p[0] = (uint8_t)v;
    p[1] = (uint8_t)(v >> 8);
    p[2] = (uint8_t)(v >> 16);
    p[3] = (uint8_t)(v >> 24);
}

AHEAD_INLINE void ahead_store_u64_be(uint8_t *p, uint64_t v)
{
    p[0] = (uint8_t)(v >> 56);
    p[1] = (uint8_t)(v >> 48);
    p[2] = (uint8_t)(v >> 40);
    p[3] = (uint8_t)(v >> 32);
    p[4] = (uint8_t)(v >> 24);
    p[5] = (uint8_t)(v >> 16);
    p[6] = (uint8_t)(v >> 8);
    p[7] = (uint8_t)v;
}

AHEAD_INLINE void ahead_store_u64_le(uint8_t *p, uint64_t v)
{
    p[0] = (uint8_t)v;
    p[1] = (uint8_t)(v >> 8);
    p[2] = (uint8_t)(v >> 16);
    p[3] = (uint8_t)(v >> 24);
    p[4] = (uint8_t)(v >> 32);
    p[5] = (uint8_t)(v >> 40);
    p[6] = (uint8_t)(v >> 48);
    p[7] = (uint8_t)(v >> 56);
}

/* Each line below gives ahead_write_NAME(w, v) for a value of TYPE, stored as
 * BITS by STORE.  memcpy() turns the value into unsigned bits: also a float,
 * and a negative number on machines of any kind. */
#define AHEAD_DEFINE_WRITE_(name, type, bits, store)                                               \
    AHEAD_INLINE AHEAD_NODISCARD enum ahead_status ahead_write_##name(struct ahead_writer *w,      \
                                                                      type v)                      \
    {                                                                                              \
        bits b;                                                                                    \
                                                                                                   \
        if (AHEAD_UNLIKELY(w->next >= w->end)) {                                                   \
            enum ahead_status st = ahead_make_room(w);                                             \
                                                                                                   \
            if (st)                                                                                \
                return st;                                                                         \
        }                                                                                          \
        memcpy(&b, &v, sizeof b);                                                                  \
        store(w->next, b);                                                                         \
        w->next += sizeof b;                                                                       \
        return AHEAD_OK;                                                                           \
    }

AHEAD_DEFINE_WRITE_(u8, uint8_t, uint8_t, ahead_store_u8)
AHEAD_DEFINE_WRITE_(i8, int8_t, uint8_t, ahead_store_u8)
AHEAD_DEFINE_WRITE_(u16_be, uint16_t, uint16_t, ahead_store_u16_be)
AHEAD_DEFINE_WRITE_(u16_le, uint16_t, uint16_t, ahead_store_u16_le)
AHEAD_DEFINE_WRITE_(i16_be, int16_t, uint16_t, ahead_store_u16_be)
AHEAD_DEFINE_WRITE_(i16_le, int16_t, uint16_t, ahead_store_u16_le)
AHEAD_DEFINE_WRITE_(u32_be, uint32_t, uint32_t, ahead_store_u32_be)
AHEAD_DEFINE_WRITE_(u32_le, uint32_t, uint32_t, ahead_store_u32_le)
AHEAD_DEFINE_WRITE_(i32_be, int32_t, uint32_t, ahead_store_u32_be)
AHEAD_DEFINE_WRITE_(i32_le, int32_t, uint32_t, ahead_store_u32_le)
AHEAD_DEFINE_WRITE_(u64_be, uint64_t, uint64_t, ahead_store_u64_be)
AHEAD_DEFINE_WRITE_(u64_le, uint64_t, uint64_t, ahead_store_u64_le)
AHEAD_DEFINE_WRITE_(i64_be, int64_t, uint64_t, ahead_store_u64_be)
AHEAD_DEFINE_WRITE_(i64_le, int64_t, uint64_t, ahead_store_u64_le)
AHEAD_DEFINE_WRITE_(f32_be, float, uint32_t, ahead_store_u32_be)
AHEAD_DEFINE_WRITE_(f32_le, float, uint32_t, ahead_store_u32_le)
AHEAD_DEFINE_WRITE_(f64_be, double, uint64_t, ahead_store_u64_be)
AHEAD_DEFINE_WRITE_(f64_le, double, uint64_t, ahead_store_u64_le)

/* Write a truth value as one byte, 1 or 0, as Java's writeBoolean(). */
AHEAD_INLINE AHEAD_NODISCARD enum ahead_status ahead_write_bool(struct ahead_writer *w, bool v)
{
    return ahead_write_u8(w, v ? 1 : 0);
}

/* Write n values of `width` bytes (2, 4, 8) each from src, which need not be
 * aligned; big_endian says how they are to be stored.  The real function under
 * the typed ones below. */
AHEAD_API AHEAD_NODISCARD enum ahead_status
ahead_write_array(struct ahead_writer *w, const void *src, size_t n, size_t width, bool big_endian);

/* Write n values.  Values are accepted whole. */
#define AHEAD_DEFINE_WRITE_ARRAY_(name, type, big)                                                 \
    AHEAD_INLINE AHEAD_NODISCARD enum ahead_status ahead_write_##name##_array(                     \
        struct ahead_writer *w, const type *src, size_t n)                                         \
    {                                                                                              \
        return ahead_write_array(w, src, n, sizeof *src, big);                                     \
    }

AHEAD_DEFINE_WRITE_ARRAY_(u16_be, uint16_t, true)
AHEAD_DEFINE_WRITE_ARRAY_(u16_le, uint16_t, false)
AHEAD_DEFINE_WRITE_ARRAY_(i16_be, int16_t, true)
AHEAD_DEFINE_WRITE_ARRAY_(i16_le, int16_t, false)
AHEAD_DEFINE_WRITE_ARRAY_(u32_be, uint32_t, true)
AHEAD_DEFINE_WRITE_ARRAY_(u32_le, uint32_t, false)
AHEAD_DEFINE_WRITE_ARRAY_(i32_be, int32_t, true)
AHEAD_DEFINE_WRITE_ARRAY_(i32_le, int32_t, false)
AHEAD_DEFINE_WRITE_ARRAY_(u64_be, uint64_t, true)
AHEAD_DEFINE_WRITE_ARRAY_(u64_le, uint64_t, false)
AHEAD_DEFINE_WRITE_ARRAY_(i64_be, int64_t, true)
AHEAD_DEFINE_WRITE_ARRAY_(i64_le, int64_t, false)
AHEAD_DEFINE_WRITE_ARRAY_(f32_be, float, true)
AHEAD_DEFINE_WRITE_ARRAY_(f32_le, float, false)
AHEAD_DEFINE_WRITE_ARRAY_(f64_be, double, true)
AHEAD_DEFINE_WRITE_ARRAY_(f64_le, double, false)

/* Write an unsigned number of variable length (LEB128, as Protocol Buffers
 * store it): seven bits in a byte, low ones first, the top bit says that more
 * follow.  At most 10 bytes, which the slack holds. */
AHEAD_INLINE AHEAD_NODISCARD enum ahead_status
ahead_write_varint_u64(struct ahead_writer *w, uint64_t v)
{
    uint8_t *p;

    if (AHEAD_UNLIKELY(w->next >= w->end)) {
        enum ahead_status st = ahead_make_room(w);

        if (st)
            return st;
    }
    for (p = w->next; v >= 0x80; v >>= 7)
        *p++ = (uint8_t)(v | 0x80);
    *p++ = (uint8_t)v;
    w->next = p;
    return AHEAD_OK;
}

AHEAD_INLINE AHEAD_NODISCARD enum ahead_status
ahead_write_varint_u32(struct ahead_writer *w, uint32_t v)
{
    return ahead_write_varint_u64(w, v);
}

/* Write a signed number of variable length in the zigzag coding of Protocol
 * Buffers: 0, -1, 1, -2 are 0, 1, 2, 3. */
AHEAD_INLINE AHEAD_NODISCARD enum ahead_status
ahead_write_zigzag_i64(struct ahead_writer *w, int64_t v)
{
    uint64_t bits = (uint64_t)v;

    return ahead_write_varint_u64(w, bits << 1 ^ (~(bits >> 63) + 1));
}

AHEAD_INLINE AHEAD_NODISCARD enum ahead_status
ahead_write_zigzag_i32(struct ahead_writer *w, int32_t v)
{
    return ahead_write_zigzag_i64(w, v);
}

/* Write a string as Java's DataOutput.writeUTF() stores it: a big-endian 16-bit
 * length, then the len bytes at src, which have to be modified UTF-8 already.
 * AHEAD_INVALID, and nothing is written: they are not, or more than 65535. */
AHEAD_API AHEAD_NODISCARD enum ahead_status
ahead_write_utf(struct ahead_writer *w, const char *src, size_t len);

#ifdef __cplusplus
}
#endif
#endif
