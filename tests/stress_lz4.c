/* SPDX-License-Identifier: Apache-2.0 */
/* stress_lz4.c - LZ4 inputs of random structure, sound and hostile, by every way to a reader.
 *
 * An input is put together element by element: blocks about their limits and of
 * no bytes, content sizes that lie, dictionaries right and wrong, skippable and
 * legacy frames in between, every kind of end; then maybe cut, or one byte
 * changed.  What it must give says a reader of the whole input, and liblz4's
 * own frame decoder is asked whether it agrees.
 *
 * A failure names the seed; AHEAD_STRESS_SEED=SEED runs that round first. */
#include "support/clock.h"
#include "support/decode_lz4.h"
#include "support/driver.h"
#include "support/expect.h"
#include "support/pattern.h"
#include "support/reading.h"

#include <ahead/ahead.h>

#include <inttypes.h>
#include <lz4frame.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

enum { DICT_BYTES = 70000, MOST_TEXT = (8 << 20) + 2 };

static uint8_t dict[DICT_BYTES];

/* Text to be encoded, for all inputs. */
static const uint8_t *text(void)
{
    static uint8_t *all;

    if (!all) {
        all = malloc(MOST_TEXT);
        expect_true(all);
        fill_words(all, MOST_TEXT, 5);
        fill_words(dict, sizeof dict, 6);
    }
    return all;
}

static bool one_in(uint64_t *seed, unsigned n)
{
    return random_below(seed, n) == 0;
}

/* ---- inputs ---- */

struct input {
    struct bytes in;
    decoder_open open;
    struct ahead_lz4_options opt;
    bool foreign; /* liblz4's frame decoder sees it otherwise, or not at all */
};

/* A length about a limit, or far below. */
static size_t random_length(uint64_t *seed, size_t limit)
{
    switch (random_below(seed, 8)) {
    case 0: return 0;
    case 1: return limit;
    case 2: return limit - 1 - (size_t)random_below(seed, 12);
    case 3: return 1 + (size_t)random_below(seed, 13);
    default: return (size_t)random_below(seed, limit > 3000 ? 3000 : limit);
    }
}

static const uint8_t *random_text(uint64_t *seed, size_t len)
{
    return text() + random_below(seed, MOST_TEXT - len);
}

/* A block, rarely one that cannot be. */
static void add_block(struct frame *f, size_t limit, uint64_t *seed)
{
    size_t len = random_length(seed, limit);
    uint8_t junk[64];

    if (one_in(seed, 20))
        len = limit + 1;
    switch (random_below(seed, 6)) {
    case 0:
    case 1: frame_raw(f, random_text(seed, len), len); break;
    case 2:
        if (!one_in(seed, 6))
            return;
        pattern_fill(junk, *seed << 8, sizeof junk);
        frame_stored(f, 1 + (uint32_t)random_below(seed, sizeof junk), junk, sizeof junk);
        break;
    default: frame_lz4(f, random_text(seed, len), len); break;
    }
}

static uint64_t random_size(uint64_t *seed, uint64_t right)
{
    switch (random_below(seed, 12)) {
    case 0: return right + 1;
    case 1: return right - (right > 0);
    case 2: return UINT64_MAX;
    case 3: return 0;
    default: return right;
    }
}

static void add_frame(struct input *i, uint64_t *seed)
{
    unsigned flags = (unsigned)random_below(seed, 64) & ~2u;
    unsigned code = one_in(seed, 12) ? 4 + (unsigned)random_below(seed, 4) : 4;
    size_t limit = (size_t)1 << (8 + 2 * code), at = i->in.len, size_at = at + 6;
    uint32_t id = one_in(seed, 4) ? 77 : 76;
    struct frame f;
    uint64_t size;

    if (!one_in(seed, 4))
        flags &= ~(unsigned)FRAME_DICT_ID;
    f = frame_begin(&i->in, flags, code, 0, id);
    if (flags & FRAME_DICT_ID)
        i->foreign = true; /* liblz4 does not look at it */
    if (i->opt.dict && !one_in(seed, 5))
        frame_dict(&f, dict, sizeof dict);
    for (uint64_t n = random_below(seed, 6); n > 0; n--)
        add_block(&f, limit, seed);
    if (flags & FRAME_SIZE) {
        uint8_t *header = i->in.data + at + 4;
        size_t len = 10 + (flags & FRAME_DICT_ID ? 4 : 0);

        size = random_size(seed, f.plain.len - f.dict_len);
        i->foreign |= size == 0; /* not known, says liblz4 */
        for (unsigned k = 0; k < 8; k++)
            i->in.data[size_at + k] = (uint8_t)(size >> 8 * k);
        header[len] = (uint8_t)(XXH32(header, len, 0) >> 8);
    }
    frame_end(&f);
    if (one_in(seed, 12))
        i->in.len -= random_below(seed, 9) % (i->in.len - at);
}

static void add_legacy(struct input *i, uint64_t *seed)
{
    static const uint32_t tails[] = { 0, 8421521, 0xffffffff, 0x184d2204, 0x184d2a55 };

    i->foreign = true;
    put_le(&i->in, 0x184c2102, 4);
    for (uint64_t n = random_below(seed, 4); n > 0; n--) {
        size_t len = one_in(seed, 30) ? (8 << 20) - 1 + (size_t)random_below(seed, 3)
                                      : random_length(seed, 100000);
        size_t cap = (size_t)LZ4_compressBound((int)len), at = i->in.len, stored;

        stored = lz4_block_of(grow(&i->in, 4 + cap) + 4, cap, random_text(seed, len), len, 0);
        i->in.len -= cap - stored;
        for (unsigned k = 0; k < 4; k++)
            i->in.data[at + k] = (uint8_t)(stored >> 8 * k);
    }
    if (one_in(seed, 3))
        put_le(&i->in, tails[random_below(seed, 5)], 1 + (unsigned)random_below(seed, 4));
}

static void add_skippable(struct input *i, uint64_t *seed)
{
    size_t at = i->in.len;

    put_skippable(&i->in, (unsigned)random_below(seed, 16),
                  (size_t)random_below(seed, one_in(seed, 4) ? 200000 : 50));
    if (one_in(seed, 10))
        i->in.data[at + 4 + random_below(seed, 4)] ^= 1 << random_below(seed, 8);
}

static void build_frames(struct input *i, uint64_t *seed)
{
    i->open = ahead_source_lz4_frame;
    for (uint64_t n = random_below(seed, 6); n > 0; n--) {
        switch (random_below(seed, 8)) {
        case 0: add_legacy(i, seed); break;
        case 1:
        case 2: add_skippable(i, seed); break;
        default: add_frame(i, seed); break;
        }
    }
}

static void add_member(struct bytes *in, uint64_t *seed)
{
    for (uint64_t n = random_below(seed, 6); n > 0; n--) {
        unsigned level = (unsigned)random_below(seed, one_in(seed, 20) ? 14 : 7);
        size_t limit = (size_t)1 << (10 + level), len = random_length(seed, limit);

        if (one_in(seed, 30))
            len = limit + 1;
        if (len == 0 || one_in(seed, 3))
            put_raw_block(in, level, random_text(seed, len), len);
        else
            put_lz4_block(in, level, random_text(seed, len), len);
    }
    if (!one_in(seed, 6))
        for (uint64_t n = one_in(seed, 8) ? random_below(seed, 2000) : 1; n > 0; n--)
            put_end_mark(in, (unsigned)random_below(seed, 16));
}

static void build_members(struct input *i, uint64_t *seed)
{
    i->open = ahead_source_lz4_block;
    i->foreign = true;
    for (uint64_t n = random_below(seed, 4); n > 0; n--)
        add_member(&i->in, seed);
}

/* The last touch: a cut, a byte that is another, bytes too many. */
static void damage(struct bytes *in, uint64_t *seed)
{
    if (in->len == 0)
        return;
    switch (random_below(seed, 9)) {
    case 0: in->len = (size_t)random_below(seed, in->len); break;
    case 1: in->data[random_below(seed, in->len)] ^= 1 << random_below(seed, 8); break;
    case 2: in->data[random_below(seed, in->len > 40 ? 40 : in->len)] ^= 0xff; break;
    case 3: put(in, text(), 1 + (size_t)random_below(seed, 40)); break;
    }
}

static struct input random_input(uint64_t *seed)
{
    static const size_t limits[] = { 0, 0, 0, 64 << 10, 1 << 20, 5000 };
    struct input i = { .opt = { .compat = one_in(seed, 3),
                                .empty_ok = one_in(seed, 8),
                                .no_checksums = one_in(seed, 6),
                                .max_block_bytes = limits[random_below(seed, 6)] } };

    text();
    if (one_in(seed, 3)) {
        i.opt.dict = dict;
        i.opt.dict_len = sizeof dict;
        i.opt.dict_id = one_in(seed, 2) ? 76 : 0;
    }
    if (one_in(seed, 3))
        build_members(&i, seed);
    else
        build_frames(&i, seed);
    damage(&i.in, seed);
    grow(&i.in, 0); /* a place also for no bytes */
    return i;
}

/* ---- liblz4's opinion ---- */

/* All frames of the input, by its frame decoder.  false: it refuses, or wants more. */
static bool decode_by_liblz4(const struct input *i, struct bytes *to)
{
    LZ4F_dctx *ctx;
    size_t at = 0, hint = 0;

    expect_true(!LZ4F_isError(LZ4F_createDecompressionContext(&ctx, LZ4F_VERSION)));
    while (at < i->in.len && !LZ4F_isError(hint)) {
        size_t room = 1 << 20, used = i->in.len - at;
        uint8_t *dst = grow(to, room);

        hint = LZ4F_decompress(ctx, dst, &room, i->in.data + at, &used, NULL);
        to->len -= (1 << 20) - (LZ4F_isError(hint) ? 0 : room);
        if (used == 0 && room == 0)
            break;
        at += used;
    }
    LZ4F_freeDecompressionContext(ctx);
    return hint == 0 && at == i->in.len;
}

/* What is sound for one is for the other, and the same; limits, modes and what
 * it lets pass aside. */
static void expect_liblz4_agrees(const struct input *i, const struct reference *want)
{
    struct bytes bytes = { .data = NULL };
    bool sound;

    if (i->foreign || i->opt.dict || i->opt.no_checksums || i->in.len == 0)
        return;
    sound = decode_by_liblz4(i, &bytes);
    if (want->status == AHEAD_EOF) {
        expect_true(sound);
        expect_size(bytes.len, want->len);
        expect_mem(bytes.data, want->bytes, want->len);
    } else if (want->status != AHEAD_LIMIT) {
        expect_true(!sound);
    }
    free(bytes.data);
}

/* ---- ways to a reader ---- */

/* Writes the input into a pipe, in pieces; then closes it, or leaves it open. */
struct writer {
    pthread_t thread;
    const uint8_t *data;
    size_t len;
    uint64_t seed;
    int fd;
    bool leave_open;
};

static void *writer_main(void *arg)
{
    struct writer *w = arg;

    for (size_t at = 0; at < w->len;) {
        size_t most = one_in(&w->seed, 3) ? 100 : 70000,
               n = 1 + (size_t)random_below(&w->seed, most);
        ssize_t written = write(w->fd, w->data + at, n < w->len - at ? n : w->len - at);

        if (written <= 0)
            break; /* nobody reads any more */
        at += (size_t)written;
        if (one_in(&w->seed, 50))
            sleep_us(50);
    }
    if (!w->leave_open)
        close(w->fd);
    return NULL;
}

static struct ahead_source
open_pipe(struct writer *w, const uint8_t *data, size_t len, uint64_t *seed)
{
    struct ahead_source src;
    int end[2];

    expect_int(pipe(end), 0);
    *w = (struct writer){ .data = data, .len = len, .seed = *seed, .fd = end[1] };
    expect_status(ahead_source_fd(&src, end[0], AHEAD_FD_CLOSE), AHEAD_OK);
    return src;
}

static void begin_writer(struct writer *w)
{
    expect_int(pthread_create(&w->thread, NULL, writer_main, w), 0);
}

static struct ahead_source open_memory(const uint8_t *data, size_t len)
{
    struct ahead_source src;

    expect_status(ahead_source_memory(&src, data, len), AHEAD_OK);
    return src;
}

static struct ahead_stream *open_stream(struct ahead_source src, uint64_t *seed)
{
    static const size_t buffers[] = { 0, 1, 100, 4096, 65536, 300000 };
    static const unsigned flags[] = { 0, AHEAD_EAGER, AHEAD_SYNC };
    struct ahead_options opt = { .buffer_bytes = buffers[random_below(seed, 6)],
                                 .flags = flags[random_below(seed, 3)] };
    struct ahead_stream *s;

    expect_status(ahead_open(&s, src, &opt), AHEAD_OK);
    return s;
}

static struct ahead_source decode(const struct input *i, struct ahead_source src)
{
    expect_status(i->open(&src, src, &i->opt), AHEAD_OK);
    return src;
}

/* One call; the bytes it gave are looked at.  Returns its status. */
static enum ahead_status
read_some(struct ahead_stream *s, const struct reference *want, size_t *pos, uint64_t *seed)
{
    static uint8_t room[200000];
    const uint8_t *p = room;
    uint64_t skipped = 0;
    size_t got = 0, n = 1 + (size_t)random_below(seed, one_in(seed, 4) ? 500 : sizeof room);
    enum ahead_status st;

    switch (random_below(seed, 5)) {
    case 0: st = ahead_peek(s, 1, &p, &got); break;
    case 1:
        st = ahead_skip(s, n, &skipped);
        *pos += (size_t)skipped;
        return st;
    case 2:
        st = ahead_read_full(s, room, n, &got);
        if (st == AHEAD_TRUNCATED && got > 0)
            st = AHEAD_OK; /* of this call alone, maybe: the next one says */
        break;
    default: st = ahead_read(s, room, n, &got); break;
    }
    expect_true(got <= want->len - *pos);
    expect_mem(p, want->bytes + *pos, got);
    *pos += got;
    if (p != room)
        ahead_consume(s, got);
    return st;
}

/* Read to the ending, `most` bytes at the most. */
static enum ahead_status
read_on(struct ahead_stream *s, const struct reference *want, size_t most, uint64_t *seed)
{
    enum ahead_status st = AHEAD_OK;
    size_t pos = 0;

    while (!st && pos <= most)
        st = read_some(s, want, &pos, seed);
    if (st) {
        expect_u64(ahead_tell(s), pos);
        expect_u64(ahead_error(s)->offset, pos);
    }
    return st;
}

/* To the end: all of the bytes, then what has to be, with its place. */
static void expect_stream(struct ahead_stream *s, const struct reference *want, uint64_t *seed)
{
    expect_status(read_on(s, want, SIZE_MAX - 1, seed), want->status);
    expect_u64(ahead_tell(s), want->len);
    if (want->status != AHEAD_EOF)
        expect_u64(ahead_error(s)->source_offset, want->offset);
    expect_status(ahead_close(s), closes_with(want->status));
}

static void by_steps(const struct input *i, const struct reference *want, uint64_t *seed)
{
    struct decode how = decode_ways[random_below(seed, decode_ways_len)];

    if (how.window && how.window < 1000 && want->len > 50000)
        how.window += 1000;
    how.seed = *seed;
    expect_as_reference(i->open, want, i->in.data, i->in.len, &i->opt, how,
                        one_in(seed, 2) ? 0 : 70000);
}

static void by_memory(const struct input *i, const struct reference *want, uint64_t *seed)
{
    expect_stream(open_stream(decode(i, open_memory(i->in.data, i->in.len)), seed), want, seed);
}

static void by_pipe(const struct input *i, const struct reference *want, uint64_t *seed)
{
    struct writer w;
    struct ahead_source src = open_pipe(&w, i->in.data, i->in.len, seed);

    begin_writer(&w);
    expect_stream(open_stream(decode(i, src), seed), want, seed);
    pthread_join(w.thread, NULL);
}

/* A stream on a stream on a stream: the input in LZ4Block, which may be cut. */
static void by_nested(const struct input *i, const struct reference *want, uint64_t *seed)
{
    struct ahead_source src;
    struct bytes outer = { .data = NULL };
    struct reference all, part;

    for (size_t at = 0, n; at < i->in.len; at += n) {
        n = 1 + (size_t)random_below(seed, 60000);
        n = n < i->in.len - at ? n : i->in.len - at;
        put_lz4_block(&outer, 6, i->in.data + at, n);
    }
    put_end_mark(&outer, 6);
    if (one_in(seed, 2))
        outer.len = (size_t)random_below(seed, outer.len);
    all = reference_lz4_block(outer.data, outer.len, NULL);
    part = refer(i->open, all.bytes, all.len, &i->opt);
    if (all.status == AHEAD_EOF) {
        expect_status(part.status, want->status);
    } else if (part.status == AHEAD_EOF || part.status == AHEAD_TRUNCATED) {
        part.status = all.status; /* below is where the fault is */
        part.offset = all.offset;
    }
    src = open_memory(outer.data, outer.len);
    expect_status(ahead_source_lz4_block(&src, src, NULL), AHEAD_OK);
    expect_status(ahead_source_stream(&src, open_stream(src, seed)), AHEAD_OK);
    expect_stream(open_stream(decode(i, src), seed), &part, seed);
    free(part.bytes);
    free(all.bytes);
    free(outer.data);
}

static void *cancel_main(void *arg)
{
    ahead_cancel(arg);
    return NULL;
}

/* Stopped in the middle: the pipe says nothing more, and stays open. */
static void by_stopped_pipe(const struct input *i, const struct reference *want, uint64_t *seed)
{
    struct writer w;
    struct ahead_source src =
        open_pipe(&w, i->in.data, (size_t)random_below(seed, i->in.len + 1), seed);
    struct ahead_stream *s = open_stream(decode(i, src), seed);
    enum ahead_status st = AHEAD_OK;
    pthread_t canceller;
    uint64_t start;

    w.leave_open = true;
    begin_writer(&w);
    if (one_in(seed, 3)) { /* close what nobody has read to its end */
        sleep_us(random_below(seed, 300));
    } else {
        expect_int(pthread_create(&canceller, NULL, cancel_main, s), 0);
        st = read_on(s, want, SIZE_MAX - 1, seed);
        if (st != AHEAD_CANCELLED) { /* it came to its fault before */
            expect_status(st, want->status);
            expect_u64(ahead_tell(s), want->len);
        }
        pthread_join(canceller, NULL);
    }
    start = now_ns();
    st = ahead_close(s);
    expect_true(st == AHEAD_OK || st == want->status);
    expect_within_ms(start, 1000);
    pthread_join(w.thread, NULL);
    close(w.fd);
}

static void one_round(uint64_t seed)
{
    static void (*const ways[])(const struct input *, const struct reference *, uint64_t *) = {
        by_steps, by_memory, by_pipe, by_nested, by_stopped_pipe,
    };
    uint64_t start = seed;
    struct input i = random_input(&seed);
    struct reference want = refer(i.open, i.in.data, i.in.len, &i.opt);

    expect_note("seed %" PRIu64 ", liblz4", start);
    expect_liblz4_agrees(&i, &want);
    for (unsigned n = 0; n < sizeof ways / sizeof *ways; n++) {
        expect_note("seed %" PRIu64 ", way %u of %zu bytes", start, n, i.in.len);
        ways[n](&i, &want, &seed);
    }
    expect_no_note();
    free(want.bytes);
    free(i.in.data);
}

Test(lz4, random_structures_by_all_ways, .timeout = 120 * TIME_SCALE)
{
    uint64_t seed = driver_seed();

    signal(SIGPIPE, SIG_IGN);
    while (time_left())
        one_round(seed++);
}
