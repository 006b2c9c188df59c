/* SPDX-License-Identifier: Apache-2.0 */
/* bench_push.c - what handing a full buffer to a push function that does nothing costs its
 * producer: by copy and by swap, for three sizes of buffer.
 *
 * Two tables.  "alone": each call with the queue empty, as for a producer that
 * spends its time filling the next buffer.  "in a row": one call after the
 * other, as fast as it goes.  Hand-overs a round: AHEAD_BENCH_PUSHES (1000).  A
 * round's figure is the median of its calls, or its time by their number; what
 * is shown is the median over the rounds, with its 95 % interval. */
#include <ahead/push.h>

#include "support/measure.h"

#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS 15

struct job {
    struct ahead_pusher *p;
    struct ahead_buffer b; /* for swap */
    uint8_t *bytes;        /* for copy */
    size_t len;
    bool alone;
    size_t pushes;
    uint64_t pushed; /* by the push thread, looked at after a drain */
    double *calls;   /* seconds that each took, of this round */
    double rounds[MEASURE_ROUNDS + 1];
    unsigned n; /* rounds so far; the first one only warms up */
};

static enum ahead_status
push_nothing(void *ctx, uint64_t key, const void *data, size_t len, struct ahead_error *err)
{
    struct job *j = ctx;

    (void)key;
    (void)data;
    (void)err;
    j->pushed += len;
    return AHEAD_OK;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *values, size_t n)
{
    qsort(values, n, sizeof *values, compare);
    return values[n / 2];
}

static enum ahead_status hand_over(struct job *j, uint64_t i, bool swap)
{
    j->b.len = j->len;
    return swap ? ahead_push_swap(j->p, i, &j->b) : ahead_push_copy(j->p, i, j->bytes, j->len);
}

static uint64_t run(struct job *j, bool swap)
{
    uint64_t before = j->pushed;
    double begin = wall_now(), figure;

    for (size_t i = 0; i < j->pushes; i++) {
        double start = wall_now();

        cr_assert(hand_over(j, i, swap) == AHEAD_OK);
        j->calls[i] = wall_now() - start;
        if (j->alone)
            cr_assert(ahead_pusher_drain(j->p) == AHEAD_OK);
    }
    figure = (wall_now() - begin) / (double)j->pushes;
    if (j->alone)
        figure = median(j->calls, j->pushes);
    if (j->n <= MEASURE_ROUNDS)
        j->rounds[j->n++] = figure;
    /* Every byte has to arrive, or the time means nothing. */
    cr_assert(ahead_pusher_drain(j->p) == AHEAD_OK);
    cr_assert(j->pushed - before == j->pushes * j->len);
    return j->pushed - before;
}

static uint64_t by_copy(void *ctx)
{
    return run(ctx, false);
}

static uint64_t by_swap(void *ctx)
{
    return run(ctx, true);
}

static void open_job(struct job *j, size_t len, bool alone)
{
    struct ahead_pusher_options opt = { .buffer_bytes = len };

    *j = (struct job){ .len = len, .bytes = malloc(len), .alone = alone };
    j->pushes = size_from_env("AHEAD_BENCH_PUSHES", 1000);
    j->calls = calloc(j->pushes, sizeof *j->calls);
    cr_assert(j->bytes && j->calls);
    memset(j->bytes, 'x', len);
    cr_assert(ahead_pusher_open(&j->p, push_nothing, j, &opt) == AHEAD_OK);
    cr_assert(ahead_pusher_acquire(j->p, &j->b) == AHEAD_OK);
}

static void close_job(struct job *j)
{
    ahead_buffer_free(&j->b);
    cr_assert(ahead_pusher_close(j->p) == AHEAD_OK);
    free(j->bytes);
    free(j->calls);
}

static void print_call(const char *name, const struct job *j)
{
    double rounds[MEASURE_ROUNDS];
    struct figure f;

    memcpy(rounds, j->rounds + 1, (j->n - 1) * sizeof *rounds);
    f = figure_of(rounds, j->n - 1);
    printf("  %-14s %8.3f us  [%8.3f, %8.3f]\n", name, f.median * 1e6, f.low * 1e6, f.high * 1e6);
    record("push", j->alone ? "alone" : "in a row", name, f, "s");
}

static void print_ratio(const char *what, const struct job *a, const struct job *b)
{
    double ratios[MEASURE_ROUNDS];
    struct figure f;

    for (unsigned r = 1; r < a->n; r++)
        ratios[r - 1] = a->rounds[r] / b->rounds[r];
    f = figure_of(ratios, a->n - 1);
    printf("  %-24s %7.3f  [%7.3f, %7.3f]\n", what, f.median, f.low, f.high);
    record("push", a->alone ? "alone" : "in a row", what, f, "ratio");
}

static void hand_overs(bool alone)
{
    enum { COPY_64K, COPY_256K, COPY_1M, SWAP_64K, SWAP_256K, SWAP_1M, WAYS };
    static const size_t len[] = { 64 << 10, 256 << 10, 1 << 20 };
    static struct table t;
    static struct job job[WAYS];
    struct way ways[WAYS] = {
        { "copy 64 KiB", by_copy, &job[COPY_64K] },   { "copy 256 KiB", by_copy, &job[COPY_256K] },
        { "copy 1 MiB", by_copy, &job[COPY_1M] },     { "swap 64 KiB", by_swap, &job[SWAP_64K] },
        { "swap 256 KiB", by_swap, &job[SWAP_256K] }, { "swap 1 MiB", by_swap, &job[SWAP_1M] },
    };

    print_machine();
    printf("\nhand-overs %s\n", alone ? "alone" : "in a row");
    for (unsigned i = 0; i < WAYS; i++)
        open_job(&job[i], len[i % 3], alone);
    measure(&t, "push", ways, WAYS, ROUNDS);
    for (unsigned i = 0; i < WAYS; i++)
        print_call(ways[i].name, &job[i]);
    print_ratio("swap 256 KiB / 64 KiB", &job[SWAP_256K], &job[SWAP_64K]);
    print_ratio("swap 1 MiB / 64 KiB", &job[SWAP_1M], &job[SWAP_64K]);
    print_ratio("copy / swap, 256 KiB", &job[COPY_256K], &job[SWAP_256K]);
    for (unsigned i = 0; i < WAYS; i++)
        close_job(&job[i]);
}

Test(push, alone)
{
    hand_overs(true);
}

Test(push, in_a_row)
{
    hand_overs(false);
}
