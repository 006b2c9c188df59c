/* SPDX-License-Identifier: Apache-2.0 */
/* driver.c - the model is a position in an input that is known in full. */
#include "support/driver.h"

#include "support/clock.h"
#include "support/expect.h"
#include "support/pattern.h"
#include "support/reading.h"
#include "support/script.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The state of a model: the stream's is compared with it after each call. */
struct model {
    const struct expected *want;
    uint64_t pos;
    uint64_t seed;
};

enum { MOST = 3000 }; /* bytes that one call asks for */

static uint64_t rest(const struct model *m)
{
    return m->pos < m->want->length ? m->want->length - m->pos : 0;
}

/* What a call says that needs n bytes at once. */
static enum ahead_status status_for(const struct model *m, uint64_t n)
{
    if (rest(m) >= n && n > 0)
        return AHEAD_OK;
    if (m->want->ending != AHEAD_EOF)
        return m->want->ending;
    return rest(m) ? AHEAD_TRUNCATED : AHEAD_EOF;
}

static uint8_t byte_at(const struct model *m, uint64_t pos)
{
    return pattern_byte(m->want->pattern_at + pos);
}

static void expect_bytes(const struct model *m, const void *p, size_t n)
{
    expect_size(pattern_match(p, m->want->pattern_at + m->pos, n), n);
}

/* 1 to MOST, small ones more often. */
static size_t some(struct model *m)
{
    static const unsigned bounds[] = { 4, 20, 100, MOST };

    return 1 + (size_t)random_below(&m->seed, bounds[random_below(&m->seed, 4)]);
}

static void do_read(struct ahead_stream *s, struct model *m)
{
    uint8_t bytes[MOST];
    size_t n = some(m), got = 0;
    enum ahead_status st = ahead_read(s, bytes, n, &got);

    expect_status(st, rest(m) ? AHEAD_OK : m->want->ending);
    expect_true(got <= n && got <= rest(m) && (st || got > 0));
    expect_bytes(m, bytes, got);
    m->pos += got;
}

static void do_read_full(struct ahead_stream *s, struct model *m)
{
    uint8_t bytes[MOST];
    size_t n = some(m), got = 0;

    expect_status(ahead_read_full(s, bytes, n, &got), status_for(m, n));
    expect_size(got, n < rest(m) ? n : rest(m));
    expect_bytes(m, bytes, got);
    m->pos += got;
}

static void do_typed(struct ahead_stream *s, struct model *m)
{
    uint8_t narrow;
    uint32_t middle;
    uint64_t wide;
    void *value;
    size_t n;
    enum ahead_status st;

    switch (random_below(&m->seed, 3)) {
    case 0:
        st = ahead_read_u8(s, &narrow);
        value = &narrow;
        n = 1;
        break;
    case 1:
        st = ahead_read_u32_le(s, &middle);
        value = &middle;
        n = 4;
        break;
    default:
        st = ahead_read_u64_le(s, &wide);
        value = &wide;
        n = 8;
        break;
    }
    expect_status(st, status_for(m, n));
    if (st)
        return;
    if (n > 1) { /* back to the order in which the bytes came */
        uint64_t v = n == 4 ? middle : wide;
        uint8_t bytes[8];

        for (size_t i = 0; i < n; i++)
            bytes[i] = (uint8_t)(v >> 8 * i);
        expect_bytes(m, bytes, n);
    } else {
        expect_bytes(m, value, n);
    }
    m->pos += n;
}

/* A tight loop through a cursor. */
static void do_cursor(struct ahead_stream *s, struct model *m)
{
    struct ahead_cursor c = ahead_cursor_begin(s);
    enum ahead_status st = AHEAD_OK;
    size_t n = some(m);
    uint16_t v;

    while (n-- > 0 && !(st = ahead_cursor_read_u16_be(&c, &v))) {
        expect_int(v, byte_at(m, m->pos) << 8 | byte_at(m, m->pos + 1));
        m->pos += 2;
    }
    ahead_cursor_end(&c);
    if (st)
        expect_status(st, status_for(m, 2));
}

static void do_array(struct ahead_stream *s, struct model *m)
{
    uint8_t bytes[MOST];
    size_t n = some(m) / 4, got = 0, whole = (size_t)(rest(m) / 4 < n ? rest(m) / 4 : n);
    enum ahead_status st = ahead_read_array(s, bytes, n, 4, false, &got);
    uint32_t v;

    if (n > 0)
        expect_status(st, status_for(m, 4 * n));
    expect_size(got, whole);
    for (size_t i = 0; i < got; i++) {
        memcpy(&v, bytes + 4 * i, 4);
        for (size_t k = 0; k < 4; k++)
            expect_int((uint8_t)(v >> 8 * k), byte_at(m, m->pos + k));
        m->pos += 4;
    }
}

static void do_peek(struct ahead_stream *s, struct model *m)
{
    const uint8_t *data = NULL;
    size_t want = some(m), len = 0, n;
    enum ahead_status st = ahead_peek(s, want, &data, &len);

    expect_status(st, status_for(m, want));
    if (!st)
        expect_true(len >= want && len <= rest(m));
    else
        expect_size(len, rest(m));
    expect_bytes(m, data, len);
    expect_u64(ahead_tell(s), m->pos);
    n = (size_t)random_below(&m->seed, len + 1);
    ahead_consume(s, n);
    m->pos += n;
}

static void do_skip(struct ahead_stream *s, struct model *m)
{
    uint64_t n = some(m), skipped = 0;
    enum ahead_status st = ahead_skip(s, n, &skipped);

    expect_status(st, n <= rest(m) ? AHEAD_OK : m->want->ending);
    expect_u64(skipped, n < rest(m) ? n : rest(m));
    m->pos += skipped;
}

/* One that cannot be asked of the source may still be within what is at hand.  None
 * goes past a fault: a source that takes it may have no fault there. */
static void do_seek(struct ahead_stream *s, struct model *m)
{
    uint64_t past = m->want->ending == AHEAD_EOF ? 100 : 1;
    uint64_t to = random_below(&m->seed, m->want->length + past);
    enum ahead_status st;

    if (random_below(&m->seed, 2))
        to = m->pos > 50 ? m->pos - random_below(&m->seed, 50) : m->pos;
    st = ahead_seek(s, to);
    if (st && m->want->seekable)
        expect_status(st, AHEAD_OK);
    if (st)
        expect_status(st, AHEAD_UNSUPPORTED);
    else
        m->pos = to;
}

static void do_until(struct ahead_stream *s, struct model *m)
{
    uint8_t delim = (uint8_t)pattern_random(&m->seed);
    size_t max = some(m), len = 0, n = 0, most = max < rest(m) ? max : (size_t)rest(m);
    const uint8_t *data = NULL;
    enum ahead_status st = ahead_read_until(s, delim, max, &data, &len);

    while (n < most && byte_at(m, m->pos + n) != delim)
        n++;
    if (n < most) {
        expect_status(st, AHEAD_OK);
        expect_size(len, n + 1);
    } else if (rest(m) > max || (rest(m) == max && st == AHEAD_LIMIT)) {
        expect_status(st, AHEAD_LIMIT);
    } else {
        expect_status(st, status_for(m, max + 1));
    }
    if (st && st != AHEAD_TRUNCATED)
        return;
    if (st && m->want->ending != AHEAD_EOF)
        return; /* the fault is a TRUNCATED, and the bytes stay unread */
    expect_bytes(m, data, len);
    m->pos += len;
}

static void do_swap(struct ahead_stream *s, struct model *m)
{
    struct ahead_buffer b, was;
    enum ahead_status st;

    expect_status(ahead_buffer_alloc(s, &b), AHEAD_OK);
    was = b;
    st = ahead_swap_buffer(s, &b);
    expect_status(st, rest(m) ? AHEAD_OK : m->want->ending);
    if (st) {
        expect_mem(&b, &was, sizeof b);
    } else {
        expect_true(b.len > 0 && b.len <= rest(m) && b.len <= b.cap);
        expect_bytes(m, b.data, b.len);
        memset(b.data, 0xcc, b.cap);
        m->pos += b.len;
    }
    ahead_buffer_free(&b);
}

static void do_finish(struct ahead_stream *s, struct model *m)
{
    enum ahead_status clean = m->want->ending == AHEAD_EOF ? AHEAD_OK : m->want->ending;

    expect_status(ahead_finish(s), rest(m) ? AHEAD_CORRUPT : clean);
}

static void do_look(struct ahead_stream *s, struct model *m)
{
    struct ahead_stats stats;

    expect_true(ahead_buffered(s) <= rest(m));
    ahead_get_stats(s, &stats);
    expect_true(stats.swaps <= stats.fills);
}

void drive(struct ahead_stream *s, const struct expected *want, uint64_t seed, unsigned calls)
{
    static void (*const call[])(struct ahead_stream * s, struct model * m) = {
        do_read, do_read_full, do_typed, do_typed, do_cursor, do_array,  do_peek,
        do_peek, do_skip,      do_seek,  do_until, do_swap,   do_finish, do_look
    };
    struct model m = { .want = want, .seed = seed };

    while (calls-- > 0) {
        call[random_below(&m.seed, sizeof call / sizeof *call)](s, &m);
        expect_u64(ahead_tell(s), m.pos);
    }
    if (!rest(&m))
        expect_ending(s, want->ending, want->os_errno, m.pos);
}

/* Sources. */

static size_t random_buffer(uint64_t *seed)
{
    static const size_t bounds[] = { 8, 40, 300, 5000, 70000 };

    if (random_below(seed, 10) == 0)
        return 0;
    return 1 + (size_t)random_below(seed, bounds[random_below(seed, 5)]);
}

/* A script of up to six runs of bytes and what may lie between them. */
static void random_steps(struct step *steps, uint64_t *seed, struct expected *want)
{
    static const enum ahead_status faults[] = { AHEAD_TRUNCATED, AHEAD_CORRUPT, AHEAD_NOMEM };
    unsigned runs = (unsigned)random_below(seed, 7), at = 0;

    for (unsigned i = 0; i < runs; i++) {
        uint64_t n = random_below(seed, random_below(seed, 4) ? 500 : 20000);
        size_t piece = 1 + (size_t)random_below(seed, 400);

        want->length += n;
        switch (random_below(seed, 3)) {
        case 0: steps[at++] = (struct step)BYTES(n); break;
        case 1: steps[at++] = (struct step)PIECES(n, piece); break;
        case 2: steps[at++] = (struct step)RANDOM(n, piece); break;
        }
        switch (random_below(seed, 12)) {
        case 0: steps[at++] = (struct step)ERRNO_TIMES(EINTR, 3); break;
        case 1: steps[at++] = (struct step)ERRNO_TIMES(EAGAIN, 1); break;
        case 2: steps[at++] = (struct step){ .what = STEP_SLEEP, .n = 300 }; break;
        }
    }
    want->ending = AHEAD_EOF;
    want->os_errno = 0;
    switch (random_below(seed, 3)) {
    case 0: break;
    case 1:
        want->ending = AHEAD_IO;
        want->os_errno = EIO;
        steps[at++] = (struct step)ERRNO(EIO);
        break;
    case 2:
        want->ending = faults[random_below(seed, 3)];
        steps[at++] = (struct step)STATUS(want->ending, 5, "random fault");
        break;
    }
    steps[at] = (struct step)END;
}

void drive_script(uint64_t seed)
{
    struct step steps[16];
    struct expected want = { .length = 0 };
    struct script sc = { .step = steps, .seed = pattern_random(&seed) };
    struct ahead_options opt = { .buffer_bytes = random_buffer(&seed) };
    const struct mode *mode = &modes[random_below(&seed, modes_len)];
    enum ahead_status closed;
    struct ahead_stream *s;

    random_steps(steps, &seed, &want);
    sc.has = (unsigned)random_below(&seed, 32);
    sc.remaining = random_below(&seed, 3) ? 0 : random_below(&seed, 30000);
    sc.ready = (unsigned)random_below(&seed, 3);
    sc.unit = (size_t)random_below(&seed, 1000);
    script_set_mode(&sc, mode);
    sc.make_us = random_below(&seed, 4) ? 0 : (unsigned)random_below(&seed, 30);
    opt.flags = mode->flags;
    want.seekable = sc.has & HAS_SEEK;
    s = script_open(&sc, &opt);
    drive(s, &want, seed, 1 + (unsigned)random_below(&seed, 150));
    closed = ahead_close(s);
    expect_true(closed == AHEAD_OK || closed == want.ending);
    expect_str(script_closing_verdict(&sc), "ok");
}

/* What feeds a pipe. */
struct feeder {
    int fd;
    uint64_t n, seed;
};

static void *feed(void *arg)
{
    struct feeder f = *(struct feeder *)arg;
    uint8_t bytes[2000];
    uint64_t pos = 0;

    while (pos < f.n) {
        size_t n = 1 + (size_t)random_below(&f.seed, random_below(&f.seed, 2) ? 30 : 2000);

        if (n > f.n - pos)
            n = (size_t)(f.n - pos);
        pattern_fill(bytes, pos, n);
        if (write(f.fd, bytes, n) != (ssize_t)n)
            break; /* the reader has gone */
        pos += n;
        if (random_below(&f.seed, 8) == 0)
            sleep_us(random_below(&f.seed, 400));
    }
    close(f.fd);
    return NULL;
}

enum { FILE_BYTES = 30000 };

/* A file of the pattern, which stays open for the life of the process. */
static int the_file(void)
{
    static int fd = -1;
    char name[] = "/tmp/ahead-stress-XXXXXX";
    uint8_t *bytes;

    if (fd >= 0)
        return fd;
    fd = mkstemp(name);
    bytes = malloc(FILE_BYTES);
    expect_true(fd >= 0 && bytes);
    unlink(name);
    pattern_fill(bytes, 0, FILE_BYTES);
    expect_int(write(fd, bytes, FILE_BYTES), FILE_BYTES);
    expect_int(lseek(fd, 0, SEEK_SET), 0);
    free(bytes);
    return fd;
}

static enum ahead_status
open_range(struct ahead_source *src, int file, uint64_t *seed, struct expected *want)
{
    uint64_t from = random_below(seed, FILE_BYTES), n = random_below(seed, FILE_BYTES);

    want->pattern_at = from;
    want->length = n;
    want->seekable = true;
    if (n > FILE_BYTES - from) {
        want->length = FILE_BYTES - from;
        want->ending = AHEAD_TRUNCATED;
    }
    return ahead_source_range(src, file, from, n, 0);
}

void drive_own_source(uint64_t seed)
{
    static uint8_t memory[30000];
    struct expected want = { .ending = AHEAD_EOF };
    struct ahead_options opt = { .buffer_bytes = random_buffer(&seed),
                                 .flags = (unsigned)random_below(&seed, 3) };
    struct feeder feeder = { .fd = -1, .seed = seed };
    struct ahead_source src;
    struct ahead_stream *s;
    enum ahead_status closed;
    pthread_t thread;
    int end[2] = { -1, -1 }, file = the_file();

    switch (random_below(&seed, 4)) {
    case 0:
        want.length = FILE_BYTES;
        want.seekable = true;
        expect_status(ahead_source_fd(&src, file, 0), AHEAD_OK);
        break;
    case 1: expect_status(open_range(&src, file, &seed, &want), AHEAD_OK); break;
    case 2:
        want.length = random_below(&seed, sizeof memory);
        want.seekable = true;
        pattern_fill(memory, 0, sizeof memory);
        expect_status(ahead_source_memory(&src, memory, (size_t)want.length), AHEAD_OK);
        break;
    case 3:
        want.length = random_below(&seed, 30000);
        expect_int(pipe(end), 0);
        feeder.fd = end[1];
        feeder.n = want.length;
        expect_int(pthread_create(&thread, NULL, feed, &feeder), 0);
        expect_status(ahead_source_fd(&src, end[0], 0), AHEAD_OK);
        break;
    }
    for (uint64_t levels = random_below(&seed, 3); levels > 0; levels--) {
        opt.buffer_bytes = random_buffer(&seed);
        expect_status(ahead_open(&s, src, &opt), AHEAD_OK);
        expect_status(ahead_source_stream(&src, s), AHEAD_OK);
    }
    expect_status(ahead_open(&s, src, &opt), AHEAD_OK);
    drive(s, &want, seed, 1 + (unsigned)random_below(&seed, 150));
    closed = ahead_close(s);
    expect_true(closed == AHEAD_OK || closed == want.ending);
    if (end[0] >= 0) {
        close(end[0]);
        pthread_join(thread, NULL);
    }
}

uint64_t driver_seed(void)
{
    const char *text = getenv("AHEAD_STRESS_SEED");

    return text ? strtoull(text, NULL, 0) : now_ns();
}
