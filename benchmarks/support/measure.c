/* SPDX-License-Identifier: Apache-2.0 */
/* measure.c - rounds in random order, medians of ratios, bootstrap intervals. */
#include "support/measure.h"

#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

/* As many resamples as make the interval steady in its second digit. */
#define RESAMPLES 2000

static uint64_t rng_state = UINT64_C(0x9e3779b97f4a7c15);

static uint64_t rng(void)
{
    rng_state ^= rng_state << 13;
    rng_state ^= rng_state >> 7;
    rng_state ^= rng_state << 17;
    return rng_state;
}

static double seconds_of(clockid_t clock)
{
    struct timespec ts;

    clock_gettime(clock, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

double wall_now(void)
{
    return seconds_of(CLOCK_MONOTONIC);
}

double cpu_now(void)
{
    return seconds_of(CLOCK_PROCESS_CPUTIME_ID);
}

static void shuffle(size_t *order, size_t n)
{
    for (size_t i = n; i > 1; i--) {
        size_t k = rng() % i, swap = order[k];

        order[k] = order[i - 1];
        order[i - 1] = swap;
    }
}

void measure(struct table *t, const char *name, const struct way *ways, size_t n, unsigned rounds)
{
    const char *env = getenv("AHEAD_BENCH_ROUNDS");
    size_t order[MEASURE_WAYS];

    cr_assert(n <= MEASURE_WAYS);
    if (env && atoi(env) > 0)
        rounds = (unsigned)atoi(env);
    if (rounds > MEASURE_ROUNDS)
        rounds = MEASURE_ROUNDS;
    memset(t, 0, sizeof *t);
    t->name = name;
    t->ways = ways;
    t->n = n;
    t->rounds = rounds;
    t->sums_agree = true;
    for (size_t i = 0; i < n; i++) {
        order[i] = i;
        t->sum[i] = ways[i].run(ways[i].ctx);
    }
    for (unsigned r = 0; r < rounds; r++) {
        shuffle(order, n);
        for (size_t k = 0; k < n; k++) {
            size_t i = order[k];
            double wall = wall_now(), cpu = cpu_now();
            uint64_t sum = ways[i].run(ways[i].ctx);

            t->wall[i][r] = wall_now() - wall;
            t->cpu[i][r] = cpu_now() - cpu;
            t->sums_agree = t->sums_agree && sum == t->sum[i];
        }
    }
    cr_assert(t->sums_agree, "%s: a way read something else in another round", name);
}

size_t way_index(const struct table *t, const char *name)
{
    for (size_t i = 0; i < t->n; i++)
        if (strcmp(t->ways[i].name, name) == 0)
            return i;
    cr_assert(false, "%s: no way is called %s", t->name, name);
    return 0;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *values, size_t n)
{
    qsort(values, n, sizeof *values, by_value);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

struct figure figure_of(double *values, size_t n)
{
    static double medians[RESAMPLES];
    double sample[MEASURE_ROUNDS];
    struct figure f;

    for (size_t i = 0; i < RESAMPLES; i++) {
        for (size_t k = 0; k < n; k++)
            sample[k] = values[rng() % n];
        medians[i] = median(sample, n);
    }
    f.median = median(values, n);
    qsort(medians, RESAMPLES, sizeof *medians, by_value);
    f.low = medians[RESAMPLES / 40];
    f.high = medians[RESAMPLES - 1 - RESAMPLES / 40];
    return f;
}

static struct figure of_row(const double *row, unsigned rounds)
{
    double values[MEASURE_ROUNDS];

    memcpy(values, row, rounds * sizeof *values);
    return figure_of(values, rounds);
}

struct figure wall_of(const struct table *t, int a)
{
    return of_row(t->wall[a], t->rounds);
}

struct figure cpu_of(const struct table *t, int a)
{
    return of_row(t->cpu[a], t->rounds);
}

struct figure wall_ratio(const struct table *t, int a, int b, int c, int d)
{
    double values[MEASURE_ROUNDS];

    for (unsigned r = 0; r < t->rounds; r++) {
        double base = t->wall[b][r];

        if (c >= 0 && t->wall[c][r] > base)
            base = t->wall[c][r];
        if (d >= 0 && t->wall[d][r] > base)
            base = t->wall[d][r];
        values[r] = t->wall[a][r] / base;
    }
    return figure_of(values, t->rounds);
}

struct figure cpu_ratio(const struct table *t, int a, int b)
{
    double values[MEASURE_ROUNDS];

    for (unsigned r = 0; r < t->rounds; r++)
        values[r] = t->cpu[a][r] / t->cpu[b][r];
    return figure_of(values, t->rounds);
}

static void print_model(void)
{
    FILE *f = fopen("/proc/cpuinfo", "re");
    char line[256];

    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, "model name", 10) == 0) {
            printf("machine: %s", strchr(line, ':') + 2);
            break;
        }
    if (f)
        fclose(f);
}

void print_machine(void)
{
    static bool printed;
    struct utsname u;

    if (printed)
        return;
    printed = true;
    print_model();
    uname(&u);
    printf("cores %ld, L2 %ld KiB, L3 %ld KiB, %s %s, " __VERSION__ "\n",
           sysconf(_SC_NPROCESSORS_ONLN), sysconf(_SC_LEVEL2_CACHE_SIZE) / 1024,
           sysconf(_SC_LEVEL3_CACHE_SIZE) / 1024, u.sysname, u.release);
    fflush(stdout);
}

void record(const char *bench, const char *which, const char *what, struct figure f,
            const char *unit)
{
    const char *path = getenv("AHEAD_BENCH_JSON");
    FILE *out = path ? fopen(path, "ae") : NULL;

    if (!out)
        return;
    fprintf(out,
            "{\"bench\":\"%s\",\"case\":\"%s\",\"what\":\"%s\","
            "\"low\":%.6g,\"median\":%.6g,\"high\":%.6g,\"unit\":\"%s\"}\n",
            bench, which, what, f.low, f.median, f.high, unit);
    cr_assert(fclose(out) == 0, "writing %s", path);
}

size_t size_from_env(const char *name, size_t otherwise)
{
    const char *env = getenv(name);

    return env && atoll(env) > 0 ? (size_t)atoll(env) : otherwise;
}
