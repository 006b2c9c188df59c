/* SPDX-License-Identifier: Apache-2.0 */
/* bench_latency.c - from a write into a pipe to the reader who has the bytes, where little comes at
 * a time.
 *
 * Each group begins with the time at which it was written.  AHEAD_BENCH_SECONDS
 * (2) is the time of each way. */
#include "support/measure.h"

#include <ahead/ahead.h>
#include <criterion/criterion.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MOST_GROUPS = 100000, MOST_BYTES = 1024 };

enum route {
    BY_READ,     /* read(2), nothing in between */
    BY_STREAM,   /* a stream over the descriptor */
    BY_CALLBACK, /* over a callback of which nothing is known */
    BY_FRAME,    /* through a decoder: one block a group */
    BY_BLOCK
};

struct trickle {
    int fds[2];
    enum route route;
    size_t bytes;  /* of a group */
    long pause_ns; /* between groups */
    unsigned groups;
};

static uint64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static struct ahead_sink encoder(const struct trickle *t)
{
    struct ahead_sink sink;
    enum ahead_status st = ahead_sink_fd(&sink, t->fds[1], 0);

    if (!st && t->route == BY_FRAME)
        st = ahead_sink_lz4_frame(&sink, sink, NULL);
    if (!st && t->route == BY_BLOCK)
        st = ahead_sink_lz4_block(&sink, sink, NULL);
    cr_assert(st == AHEAD_OK);
    return sink;
}

static void *feed(void *arg)
{
    struct trickle *t = arg;
    struct ahead_writer *w = NULL;
    uint8_t group[MOST_BYTES] = { 0 };

    if (t->route >= BY_FRAME)
        cr_assert(ahead_writer_open(&w, encoder(t), &(struct ahead_options){
                                                        .flags = AHEAD_SYNC }) == AHEAD_OK);
    for (unsigned i = 0; i < t->groups; i++) {
        uint64_t now;

        nanosleep(&(struct timespec){ 0, t->pause_ns }, NULL);
        now = now_ns();
        memcpy(group, &now, sizeof now);
        if (w)
            cr_assert(!ahead_write(w, group, t->bytes) && !ahead_writer_flush(w));
        else
            cr_assert(write(t->fds[1], group, t->bytes) == (ssize_t)t->bytes);
    }
    if (w)
        cr_assert(ahead_writer_close(w) == AHEAD_OK);
    close(t->fds[1]);
    return NULL;
}

static ssize_t callback_read(void *ctx, void *dst, size_t len, struct ahead_error *err)
{
    (void)err;
    return read((int)(intptr_t)ctx, dst, len);
}

static const struct ahead_source_ops callback_ops = { .read = callback_read };

static struct ahead_stream *open_stream(const struct trickle *t)
{
    struct ahead_source src = { .ops = &callback_ops, .ctx = (void *)(intptr_t)t->fds[0] };
    struct ahead_stream *s;
    enum ahead_status st = AHEAD_OK;

    if (t->route != BY_CALLBACK)
        st = ahead_source_fd(&src, t->fds[0], 0);
    if (!st && t->route == BY_FRAME)
        st = ahead_source_lz4_frame(&src, src, NULL);
    if (!st && t->route == BY_BLOCK)
        st = ahead_source_lz4_block(&src, src, NULL);
    cr_assert(st == AHEAD_OK);
    cr_assert(ahead_open(&s, src, NULL) == AHEAD_OK);
    return s;
}

/* The groups' delays, in ns. */
static void take(const struct trickle *t, double *delay)
{
    struct ahead_stream *s = t->route == BY_READ ? NULL : open_stream(t);
    uint8_t group[MOST_BYTES];
    uint64_t then;

    for (unsigned i = 0; i < t->groups; i++) {
        if (s)
            cr_assert(ahead_read_full(s, group, t->bytes, NULL) == AHEAD_OK);
        else
            cr_assert(read(t->fds[0], group, t->bytes) == (ssize_t)t->bytes);
        memcpy(&then, group, sizeof then);
        delay[i] = (double)(now_ns() - then);
    }
    if (s) {
        cr_assert(ahead_finish(s) == AHEAD_OK);
        cr_assert(ahead_close(s) == AHEAD_OK);
    }
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void measure_trickle(const char *name, size_t bytes, long pause_ns)
{
    static double delay[MOST_GROUPS];
    static const char *const routes[] = { "read(2)", "stream", "stream, callback", "LZ4 frame",
                                          "LZ4Block" };
    double seconds = (double)size_from_env("AHEAD_BENCH_SECONDS", 2);

    printf("%s\n", name);
    for (int route = BY_READ; route <= BY_BLOCK; route++) {
        struct trickle t = { .route = (enum route)route, .bytes = bytes, .pause_ns = pause_ns };
        struct figure p50, p99;
        pthread_t feeder;

        t.groups = (unsigned)(seconds * 1e9 / (double)pause_ns);
        cr_assert(t.groups <= MOST_GROUPS && pipe(t.fds) == 0);
        cr_assert(pthread_create(&feeder, NULL, feed, &t) == 0);
        take(&t, delay);
        pthread_join(feeder, NULL);
        close(t.fds[0]);
        qsort(delay, t.groups, sizeof *delay, by_value);
        p50.low = p50.median = p50.high = delay[t.groups / 2] * 1e-3;
        p99.low = p99.median = p99.high = delay[t.groups * 99 / 100] * 1e-3;
        printf("  %-18s p50 %7.1f us   p99 %7.1f us\n", routes[route], p50.median, p99.median);
        record("latency", name, routes[route], p50, "us, p50");
        record("latency", name, routes[route], p99, "us, p99");
        fflush(stdout);
    }
}

Test(latency, trickling_pipes)
{
    print_machine();
    measure_trickle("1 KiB each ms", 1024, 1000000);
    measure_trickle("10 B each 10 ms", 10, 10000000);
}
