/* SPDX-License-Identifier: Apache-2.0 */
/* measure.h - several ways to do one thing, timed side by side.
 *
 * The ways run in one process, in a new random order each round, so that what
 * disturbs the machine disturbs all of them alike; what is compared is the
 * median, over the rounds, of the ratio within a round. */
#ifndef MEASURE_H
#define MEASURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    MEASURE_WAYS = 32,  /* most ways of one table */
    MEASURE_ROUNDS = 99 /* most rounds */
};

/* One way to do it.  run() returns a checksum of what it read, which has to be
 * the same in every round and for every way with the same `sum_of`. */
struct way {
    const char *name;
    uint64_t (*run)(void *ctx);
    void *ctx;
};

/* A figure with its bootstrap 95 % interval. */
struct figure {
    double low, median, high;
};

struct table {
    const char *name;
    const struct way *ways;
    size_t n;
    unsigned rounds;
    double wall[MEASURE_WAYS][MEASURE_ROUNDS]; /* seconds */
    double cpu[MEASURE_WAYS][MEASURE_ROUNDS];  /* seconds, of the whole process */
    uint64_t sum[MEASURE_WAYS];
    bool sums_agree; /* of each way, from round to round */
};

/* Run every way once to warm up, then `rounds` times (env AHEAD_BENCH_ROUNDS
 * overrides). */
void measure(struct table *t, const char *name, const struct way *ways, size_t n, unsigned rounds);

/* The index of a way, by its name.  The name must be there. */
size_t way_index(const struct table *t, const char *name);

/* Of way a alone, and of a over the larger of b and c (-1: none) in the same
 * round. */
struct figure wall_of(const struct table *t, int a);
struct figure cpu_of(const struct table *t, int a);
struct figure wall_ratio(const struct table *t, int a, int b, int c, int d);
struct figure cpu_ratio(const struct table *t, int a, int b);

/* The median and its interval of n values; reorders them. */
struct figure figure_of(double *values, size_t n);

/* Monotonic seconds; CPU seconds of the process. */
double wall_now(void);
double cpu_now(void);

/* Print machine, compiler and caches once, in front of a program's tables. */
void print_machine(void);

/* Append one line of JSON to the file that AHEAD_BENCH_JSON names, if any:
 * {"bench":...,"case":...,"what":...,"low":...,"median":...,"high":...,"unit":...} */
void record(const char *bench, const char *which, const char *what, struct figure f,
            const char *unit);

/* Size from the environment variable, else the default: bytes. */
size_t size_from_env(const char *name, size_t otherwise);

#endif
