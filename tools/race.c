/* SPDX-License-Identifier: Apache-2.0 */
/* race.c - several ways to do the same work, in turn, and how they compare. */
#include "race.h"

#include "output.h"
#include "report.h"
#include "size.h"

#include <errno.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* The bar of the slowest way. */
#define BAR "########################################"

static uint64_t cpu_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return (uint64_t)ts.tv_sec * UINT64_C(1000000000) + (uint64_t)ts.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

static uint64_t median(uint64_t *values, size_t n)
{
    qsort(values, n, sizeof *values, by_value);
    return values[n / 2];
}

static bool
same(const char *name, const char *way, const struct race_run *a, const struct race_run *b)
{
    struct ahead_error err = { .status = AHEAD_CORRUPT,
                               .offset = a->bytes,
                               .source_offset = UINT64_MAX };

    if (a->bytes == b->bytes && a->sum == b->sum)
        return true;
    snprintf(err.text, sizeof err.text,
             "'%s' came to other bytes than the first way; was it written to?", way);
    report_error(name, &err);
    return false;
}

bool race_run(struct race *r, const char *name, const struct race_way *ways, size_t n,
              unsigned rounds)
{
    static uint64_t wall[RACE_WAYS][RACE_ROUNDS], cpu[RACE_WAYS][RACE_ROUNDS];
    struct race_run run;

    *r = (struct race){ .ways = n, .rounds = rounds };
    for (size_t i = 0; i < n; i++) {
        run = (struct race_run){ .bytes = 0 };
        if (!ways[i].run(ways[i].ctx, &run))
            return false;
        if (i == 0)
            r->run = run;
        if (!same(name, ways[i].name, &run, &r->run))
            return false;
    }
    for (unsigned k = 0; k < rounds; k++) {
        for (size_t step = 0; step < n; step++) {
            size_t i = (step + k) % n;
            uint64_t began = now_ns(), used = cpu_ns();

            run = (struct race_run){ .bytes = 0 };
            if (!ways[i].run(ways[i].ctx, &run))
                return false;
            wall[i][k] = now_ns() - began;
            cpu[i][k] = cpu_ns() - used;
            if (!same(name, ways[i].name, &run, &r->run))
                return false;
        }
    }
    for (size_t i = 0; i < n; i++)
        r->lane[i] = (struct race_lane){ .name = ways[i].name,
                                         .wall_ns = median(wall[i], rounds),
                                         .cpu_ns = median(cpu[i], rounds) };
    return true;
}

static uint64_t slowest(const struct race *r)
{
    uint64_t most = 1;

    for (size_t i = 0; i < r->ways; i++)
        if (r->lane[i].wall_ns > most)
            most = r->lane[i].wall_ns;
    return most;
}

void race_print(const struct race *r)
{
    char wall[SIZE_TEXT], cpu[SIZE_TEXT], rate[SIZE_TEXT];
    uint64_t most = slowest(r);

    for (size_t i = 0; i < r->ways; i++) {
        const struct race_lane *lane = &r->lane[i];

        printf("  %-16s %9s  %12s  CPU %9s  %.*s\n", lane->name, time_format(wall, lane->wall_ns),
               rate_format(rate, r->run.bytes, lane->wall_ns), time_format(cpu, lane->cpu_ns),
               (int)((double)lane->wall_ns / (double)most * (sizeof BAR - 1) + 0.5), BAR);
    }
}

void race_json(const struct race *r, struct json *j)
{
    json_list_begin(j, "ways");
    for (size_t i = 0; i < r->ways; i++) {
        json_item_begin(j);
        json_text(j, "way", r->lane[i].name);
        json_number(j, "elapsed_ns", r->lane[i].wall_ns);
        json_number(j, "cpu_ns", r->lane[i].cpu_ns);
        json_item_end(j);
    }
    json_list_end(j);
}

/* ---- gnuplot ---- */

enum { NOT_INSTALLED = 127 }; /* as a shell says it */

/* A text between the single quotes of gnuplot. */
static void put_quoted(FILE *to, const char *text)
{
    fputc('\'', to);
    for (; *text; text++) {
        if (*text == '\'')
            fputc('\'', to);
        fputc(*text, to);
    }
    fputc('\'', to);
}

static void put_script(FILE *to, const struct race *r, const char *title)
{
    fputs("set terminal svg size 720,360 noenhanced\nset title ", to);
    put_quoted(to, title);
    fputs("\nset ylabel 'ms'\nset yrange [0:*]\nset boxwidth 0.6\nset style fill solid 0.7\n"
          "set grid y\nunset key\nplot '-' using 0:2:xtic(1) with boxes\n",
          to);
    for (size_t i = 0; i < r->ways; i++)
        fprintf(to, "\"%s\" %.3f\n", r->lane[i].name, (double)r->lane[i].wall_ns / 1e6);
    fputs("e\n", to);
}

/* Runs it from `in` to `out`.  Its exit code, NOT_INSTALLED, or -1. */
static int run_gnuplot(int in, int out)
{
    static char name[] = "gnuplot", *argv[] = { name, NULL };
    posix_spawn_file_actions_t files;
    int rc = posix_spawn_file_actions_init(&files), status;
    pid_t pid;

    if (rc)
        return -1;
    rc = posix_spawn_file_actions_adddup2(&files, in, STDIN_FILENO);
    if (!rc)
        rc = posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO);
    if (!rc)
        rc = posix_spawnp(&pid, name, &files, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&files);
    if (rc)
        return rc == ENOENT ? NOT_INSTALLED : -1;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static bool copy(FILE *from, struct output *to)
{
    char part[4096];
    size_t n;

    rewind(from);
    while ((n = fread(part, 1, sizeof part, from)) > 0)
        if (!output_write(to, part, n))
            return false;
    return true;
}

/* By way of files without a name: the output is opened when there is a picture. */
bool race_plot(const struct race *r, const char *title, const char *path)
{
    struct ahead_error err = { .status = AHEAD_IO, .source_offset = UINT64_MAX };
    struct output out = { .path = path, .fd = -1 };
    FILE *script = tmpfile(), *picture = tmpfile();
    bool good = false;
    int rc = -1;

    if (script && picture) {
        put_script(script, r, title);
        rewind(script); /* and flush it */
        rc = run_gnuplot(fileno(script), fileno(picture));
    }
    if (rc == 0) {
        good = output_open(&out) && copy(picture, &out);
        good = output_close(&out) && good;
    } else {
        snprintf(err.text, sizeof err.text, "%s",
                 rc == NOT_INSTALLED ? "a plot is drawn by gnuplot, which is not installed"
                                     : "gnuplot failed");
        report_error(path, &err);
    }
    if (script)
        fclose(script);
    if (picture)
        fclose(picture);
    return good;
}

bool race_plot_to(const char *command, const char **path, const char *value)
{
    *path = value;
    if (strcmp(value, "-") != 0)
        return true;
    report_usage(command, "--plot takes a file; standard output has the table");
    return false;
}
