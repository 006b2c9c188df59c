/* SPDX-License-Identifier: Apache-2.0 */
/* bench_writer.c - writing typed values through an encoder behind the producer's back, against
 * the producer alone, the encoder alone, and one after the other.
 *
 * Size: AHEAD_BENCH_MIB (256).  A ratio is a median of ratios within a round,
 * with its 95 % interval. */
#include <ahead/lz4.h>
#include <ahead/writer.h>

#include "support/measure.h"

#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>

#define ROUNDS 15

/* The values repeat, so that the encoder alone can be given them from memory. */
enum { PERIOD = 1 << 20 };

struct job {
    enum { RAW, BLOCK, FRAME } format;
    uint64_t values;
    uint8_t *period; /* PERIOD values, as they are written */
    uint64_t taken;  /* bytes that arrived */
};

/* Each one some four times in a row: a third of the bytes is left. */
static int32_t value(uint32_t i)
{
    return (int32_t)(i % PERIOD / 4 * 2654435761u >> 12) - 7;
}

/* ---- where it all goes ---- */

static ssize_t count(void *ctx, const void *src, size_t len, struct ahead_error *err)
{
    (void)src;
    (void)err;
    ((struct job *)ctx)->taken += len;
    return (ssize_t)len;
}

static const struct ahead_sink_ops count_ops = { .write = count };

static struct ahead_sink open_sink(struct job *j, bool encode)
{
    struct ahead_sink sink = { .ops = &count_ops, .ctx = j };
    enum ahead_status st = AHEAD_OK;

    j->taken = 0;
    if (encode && j->format == BLOCK)
        st = ahead_sink_lz4_block(&sink, sink, NULL);
    if (encode && j->format == FRAME)
        st = ahead_sink_lz4_frame(&sink, sink, NULL);
    cr_assert(st == AHEAD_OK);
    return sink;
}

/* ---- the ways ---- */

static uint64_t produce(struct job *j, bool encode, unsigned flags)
{
    struct ahead_options opt = { .flags = flags };
    struct ahead_writer *w;
    enum ahead_status st = AHEAD_OK;

    cr_assert(ahead_writer_open(&w, open_sink(j, encode), &opt) == AHEAD_OK);
    for (uint32_t i = 0; i < j->values && !st; i++)
        st = ahead_write_i32_be(w, value(i));
    cr_assert(st == AHEAD_OK);
    cr_assert(ahead_writer_close(w) == AHEAD_OK);
    return j->taken;
}

static uint64_t producer_alone(void *ctx)
{
    return produce(ctx, false, AHEAD_SYNC);
}

static uint64_t one_after_the_other(void *ctx)
{
    return produce(ctx, true, AHEAD_SYNC);
}

static uint64_t behind(void *ctx)
{
    return produce(ctx, true, 0);
}

static uint64_t encoder_alone(void *ctx)
{
    struct job *j = ctx;
    struct ahead_sink sink = open_sink(j, true);
    struct ahead_error err;
    enum { PIECE = 1 << 20 };

    for (uint64_t done = 0; done < 4 * j->values; done += PIECE)
        cr_assert(sink.ops->write(sink.ctx, j->period + done % (4 * PERIOD), PIECE, &err) == PIECE);
    cr_assert(!sink.ops->finish || sink.ops->finish(sink.ctx, &err) == AHEAD_OK);
    cr_assert(!sink.ops->close || sink.ops->close(sink.ctx, &err) == AHEAD_OK);
    return j->taken;
}

static void print_ratio(const char *name, const char *what, struct figure f)
{
    printf("  %-12s %6.3f  [%6.3f, %6.3f]\n", what, f.median, f.low, f.high);
    record("writer", name, what, f, "ratio");
}

static void cell(const char *name, int format)
{
    enum { P, E, S, A, WAYS };
    static struct table t;
    struct job j = { .format = format,
                     .values = size_from_env("AHEAD_BENCH_MIB", 256) * (1 << 20) / 4,
                     .period = malloc(4 * PERIOD) };
    struct way ways[WAYS] = {
        { "P", producer_alone, &j },
        { "E", encoder_alone, &j },
        { "S", one_after_the_other, &j },
        { "A", behind, &j },
    };

    cr_assert(j.period);
    for (uint32_t i = 0; i < PERIOD; i++)
        ahead_store_u32_be(j.period + 4 * i, (uint32_t)value(i));
    measure(&t, name, ways, WAYS, ROUNDS);
    cr_assert(t.sum[E] == t.sum[S] && t.sum[A] == t.sum[S]);
    printf("\n%s, %.0f MiB become %.0f MiB\n", name, (double)j.values * 4 / (1 << 20),
           (double)t.sum[A] / (1 << 20));
    for (unsigned i = 0; i < WAYS; i++) {
        struct figure w = wall_of(&t, (int)i), u = cpu_of(&t, (int)i);

        printf("  %s %8.2f ms, CPU %8.2f ms\n", ways[i].name, w.median * 1e3, u.median * 1e3);
        record("writer", name, ways[i].name, w, "s");
    }
    print_ratio(name, "A/max(P,E)", wall_ratio(&t, A, P, E, -1));
    print_ratio(name, "A/S", wall_ratio(&t, A, S, -1, -1));
    print_ratio(name, "CPU A/S", cpu_ratio(&t, A, S));
    free(j.period);
}

Test(writer, behind)
{
    print_machine();
    cell("plain", RAW);
    cell("LZ4Block", BLOCK);
    cell("LZ4 frame", FRAME);
}
