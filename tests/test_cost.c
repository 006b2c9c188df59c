/* SPDX-License-Identifier: Apache-2.0 */
/* test_cost.c - what reading costs, counted: locks, hand-overs, wake-ups, threads. */
#include "support/expect.h"
#include "support/files.h"

#include <ahead/ahead.h>

#include <pthread.h>
#include <stdatomic.h>

static atomic_ulong locks;

/* In the place of the system's, by --wrap. */
int __real_pthread_mutex_lock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_lock(pthread_mutex_t *lock);

int __wrap_pthread_mutex_lock(pthread_mutex_t *lock)
{
    atomic_fetch_add_explicit(&locks, 1, memory_order_relaxed);
    return __real_pthread_mutex_lock(lock);
}

static struct ahead_stream *open_file(const struct ahead_options *opt)
{
    struct ahead_stream *s;

    expect_status(ahead_open_path(&s, path, opt), AHEAD_OK);
    return s;
}

static struct ahead_stats close_file(struct ahead_stream *s)
{
    struct ahead_stats stats;

    ahead_get_stats(s, &stats);
    expect_status(ahead_close(s), AHEAD_OK);
    return stats;
}

/* F217: values that lie in the active buffer are had without a lock. */
Test(cost, locks_depend_on_pieces_and_not_on_values)
{
    enum { BYTES_ = 8 << 20 };
    int fd = make_file(BYTES_);
    unsigned long by_width[3];

    for (int way = 0; way < 3; way++) {
        struct ahead_stream *s = open_file(NULL);
        struct ahead_cursor c;
        enum ahead_status st;
        uint64_t values = 0;
        int64_t v64;
        int32_t v32;
        uint8_t v8;

        atomic_store(&locks, 0);
        switch (way) {
        case 0:
            while (!(st = ahead_read_u8(s, &v8)))
                values++;
            break;
        case 1:
            c = ahead_cursor_begin(s);
            while (!(st = ahead_cursor_read_i32_be(&c, &v32)))
                values++;
            ahead_cursor_end(&c);
            break;
        default:
            while (!(st = ahead_read_i64_le(s, &v64)))
                values++;
        }
        by_width[way] = atomic_load(&locks);
        expect_status(st, AHEAD_EOF);
        expect_u64(values, (uint64_t)BYTES_ >> (way == 0 ? 0 : way == 1 ? 2 : 3));
        close_file(s);
        /* 64 KiB is the smallest piece, and each takes a few sections of two sides. */
        expect_note("%lu locks for %d bytes", by_width[way], BYTES_);
        expect_true(by_width[way] > 0 && by_width[way] < BYTES_ / 65536 * 16);
    }
    remove_file(fd);
}

/* F219: a reader that is faster than the source does not wake it for each piece. */
Test(cost, a_fast_reader_makes_few_hand_overs)
{
    enum { BYTES_ = 64 << 20 };
    int fd = make_file(BYTES_);
    struct ahead_stream *s = open_file(NULL);
    struct ahead_stats stats;
    const uint8_t *p;
    size_t n;

    while (!ahead_peek(s, 1, &p, &n))
        ahead_consume(s, n);
    stats = close_file(s);
    /* 20,000 for a GiB. */
    expect_true(stats.swaps + stats.early_returns <= 20000 / 16);
    expect_true(stats.wakeups <= 20000 / 16);
    remove_file(fd);
}

/* F220: a reader of one byte at a time wakes the second thread by the buffer. */
Test(cost, single_bytes_wake_nobody)
{
    enum { BYTES_ = 1 << 20, BUFFER = 65536 };
    int fd = make_file(BYTES_);
    struct ahead_stream *s = open_file(&(struct ahead_options){ .buffer_bytes = BUFFER });
    struct ahead_stats stats;
    uint8_t byte;

    while (!ahead_read_u8(s, &byte))
        ;
    stats = close_file(s);
    expect_u64(stats.bytes, BYTES_);
    /* Each half once for room, and the reader when it has to wait. */
    expect_true(stats.wakeups <= BYTES_ / BUFFER + 2 + stats.reader_waits);
    remove_file(fd);
}

/* F221: what fits into one buffer starts no thread. */
Test(cost, tiny_inputs_start_no_thread)
{
    int fd = make_file(1024);

    for (int i = 0; i < 2000; i++) {
        struct ahead_stream *s = open_file(NULL);
        uint8_t bytes[1024];
        size_t got;

        expect_status(ahead_read_full(s, bytes, sizeof bytes, &got), AHEAD_OK);
        expect_status(ahead_finish(s), AHEAD_OK);
        expect_u64(close_file(s).threads_started, 0);
    }
    remove_file(fd);
}
