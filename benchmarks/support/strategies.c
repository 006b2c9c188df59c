/* SPDX-License-Identifier: Apache-2.0 */
/* strategies.c - the ways that bench_overlap compares. */
#include "support/strategies.h"

#include "support/textbook.h"

#include <criterion/criterion.h>

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* As the reader of a real program looks at what it was shown: a little at a
 * time, so that it is still in the first cache when it goes over it again. */
#define CHUNK 16384

static void *aligned(size_t len)
{
    void *p;

    cr_assert(posix_memalign(&p, 4096, len) == 0);
    return p;
}

static uint64_t sum_of(const uint8_t *p, size_t len)
{
    uint64_t sum = 0;

    for (size_t i = 0; i + 4 <= len; i += 4)
        sum += (uint64_t)(int64_t)(int32_t)ahead_load_u32_be(p + i);
    return sum;
}

static uint64_t fleeting_sum_of(const uint8_t *p, size_t len)
{
    uint64_t sum = 0;

    for (size_t i = 0; i + 4 <= len; i += 4 * FLEETING)
        sum += (uint64_t)(int64_t)(int32_t)ahead_load_u32_be(p + i);
    return sum;
}

uint64_t reader_work(const uint8_t *p, size_t len, double extra)
{
    uint64_t sum = 0;

    if (extra < 0)
        return fleeting_sum_of(p, len);
    for (size_t done = 0; done < len; done += CHUNK) {
        size_t n = len - done < CHUNK ? len - done : CHUNK;
        double again = extra * (double)n;
        uint64_t s = sum_of(p + done, n);
        volatile uint64_t sink;

        sum += s;
        for (; again > 0; again -= (double)n)
            sink = sum_of(p + done, again < (double)n ? (size_t)again : n);
        (void)sink;
    }
    return sum;
}

static void close_source(struct ahead_source src)
{
    struct ahead_error err = { 0 };

    if (src.ops->close)
        cr_assert(src.ops->close(src.ctx, &err) == AHEAD_OK);
}

/* One read of the source; 0 at the end. */
static size_t read_piece(struct ahead_source src, void *dst)
{
    struct ahead_error err = { .source_offset = UINT64_MAX };
    ssize_t n = src.ops->read(src.ctx, dst, PIECE, &err);

    cr_assert(n >= 0, "%s", err.text);
    return (size_t)n;
}

uint64_t run_source_alone(void *arg)
{
    struct job *j = arg;
    struct ahead_source src = j->open(j->input);
    uint8_t *buffer = aligned(PIECE);
    uint64_t total = 0;

    for (size_t n; (n = read_piece(src, buffer)) > 0; total += n)
        ;
    cr_assert(total == j->bytes);
    free(buffer);
    close_source(src);
    return total;
}

uint64_t run_reader_alone(void *arg)
{
    static uint8_t *buffer;
    struct job *j = arg;
    volatile uint64_t sink;

    if (!buffer) {
        buffer = aligned(PIECE);
        for (size_t i = 0; i < PIECE; i++)
            buffer[i] = (uint8_t)(i * 31);
    }
    for (uint64_t left = j->bytes; left > 0;) {
        size_t n = left < PIECE ? (size_t)left : PIECE;

        sink = reader_work(buffer, n, j->extra);
        left -= n;
    }
    (void)sink;
    return 0;
}

uint64_t run_synchronous(void *arg)
{
    struct job *j = arg;
    struct ahead_source src = j->open(j->input);
    uint8_t *buffer = aligned(PIECE);
    uint64_t sum = 0;

    for (size_t n; (n = read_piece(src, buffer)) > 0;)
        sum += reader_work(buffer, n, j->extra);
    free(buffer);
    close_source(src);
    return sum;
}

static struct ahead_stream *open_stream(struct job *j)
{
    struct ahead_stream *s;

    cr_assert(ahead_open(&s, j->open(j->input), &j->options) == AHEAD_OK);
    return s;
}

static void close_stream(struct job *j, struct ahead_stream *s)
{
    ahead_get_stats(s, &j->stats);
    cr_assert(ahead_close(s) == AHEAD_OK);
}

uint64_t run_ahead(void *arg)
{
    struct job *j = arg;
    struct ahead_stream *s = open_stream(j);
    enum ahead_status st;
    const uint8_t *p;
    uint64_t sum = 0;
    size_t n;

    while (!(st = ahead_peek(s, 4 * FLEETING, &p, &n))) {
        n -= n % (4 * FLEETING);
        if (n > PIECE)
            n = PIECE;
        sum += reader_work(p, n, j->extra);
        ahead_consume(s, n);
    }
    cr_assert(st == AHEAD_EOF);
    close_stream(j, s);
    return sum;
}

uint64_t run_ahead_cursor(void *arg)
{
    struct job *j = arg;
    struct ahead_stream *s = open_stream(j);
    struct ahead_cursor c = ahead_cursor_begin(s);
    enum ahead_status st;
    uint64_t sum = 0;
    int32_t v;

    while (!(st = ahead_cursor_read_i32_be(&c, &v)))
        sum += (uint64_t)(int64_t)v;
    ahead_cursor_end(&c);
    cr_assert(st == AHEAD_EOF);
    close_stream(j, s);
    return sum;
}

uint64_t run_textbook(void *arg)
{
    struct job *j = arg;
    struct textbook *t = textbook_open(j->open(j->input), (size_t)1 << 20);
    const uint8_t *p;
    uint64_t sum = 0;

    for (size_t n; (n = textbook_next(t, &p)) > 0;)
        sum += reader_work(p, n, j->extra);
    close_source(textbook_close(t));
    return sum;
}

/* ---- B ---- */

enum { RING = 8 };

struct pipeline {
    struct ahead_source src;
    uint8_t *piece[RING];
    size_t len[RING];
    _Alignas(64) atomic_size_t made;
    _Alignas(64) atomic_size_t used;
};

static inline void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

static void *pipeline_main(void *arg)
{
    struct pipeline *p = arg;
    size_t n;

    for (size_t i = 0;; i++) {
        while (i - atomic_load_explicit(&p->used, memory_order_acquire) == RING)
            relax();
        n = p->len[i % RING] = read_piece(p->src, p->piece[i % RING]);
        atomic_store_explicit(&p->made, i + 1, memory_order_release);
        if (n == 0)
            return NULL;
    }
}

uint64_t run_bare_pipeline(void *arg)
{
    struct job *j = arg;
    struct pipeline p = { .src = j->open(j->input) };
    pthread_t thread;
    uint64_t sum = 0;

    for (int i = 0; i < RING; i++)
        p.piece[i] = aligned(PIECE);
    cr_assert(pthread_create(&thread, NULL, pipeline_main, &p) == 0);
    for (size_t i = 0;; i++) {
        while (atomic_load_explicit(&p.made, memory_order_acquire) == i)
            relax();
        if (p.len[i % RING] == 0)
            break;
        sum += reader_work(p.piece[i % RING], p.len[i % RING], j->extra);
        atomic_store_explicit(&p.used, i + 1, memory_order_release);
    }
    pthread_join(thread, NULL);
    for (int i = 0; i < RING; i++)
        free(p.piece[i]);
    close_source(p.src);
    return sum;
}

/* ---- H ---- */

static void *loop_main(void *job)
{
    return (void *)(uintptr_t)run_synchronous(job);
}

uint64_t run_two_loops(void *arg)
{
    pthread_t thread;
    void *other;
    uint64_t sum;

    cr_assert(pthread_create(&thread, NULL, loop_main, arg) == 0);
    sum = run_synchronous(arg);
    pthread_join(thread, &other);
    cr_assert((uintptr_t)other == (uintptr_t)sum);
    return sum;
}

/* ---- M ---- */

uint64_t run_mapping(void *arg)
{
    struct job *j = arg;
    int fd = open(j->path, O_RDONLY | O_CLOEXEC);
    uint64_t sum;
    uint8_t *p;

    cr_assert(fd >= 0);
    p = mmap(NULL, j->bytes, PROT_READ, MAP_SHARED, fd, 0);
    cr_assert(p != MAP_FAILED);
    sum = reader_work(p, j->bytes, j->extra);
    munmap(p, j->bytes);
    close(fd);
    return sum;
}
