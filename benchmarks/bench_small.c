/* SPDX-License-Identifier: Apache-2.0 */
/* bench_small.c - what a stream costs that is opened for a few bytes: open, read and close, against
 * the plain system calls. */
#include "support/files.h"
#include "support/measure.h"

#include <ahead/ahead.h>
#include <criterion/criterion.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { ROUNDS = 25, BUFFER = 2 << 20 };

/* How much of which file, and how often in one round. */
struct small {
    const char *path;
    size_t bytes;
    unsigned times;
    uint64_t threads; /* started by streams so far */
};

static uint8_t room[2 * BUFFER];

static uint64_t ends(const uint8_t *p, size_t n)
{
    return p[0] + 256u * p[n - 1];
}

static uint64_t by_calls(void *arg)
{
    struct small *s = arg;
    uint64_t sum = 0;

    for (unsigned i = 0; i < s->times; i++) {
        int fd = open(s->path, O_RDONLY | O_CLOEXEC);
        size_t done = 0;
        ssize_t n;

        cr_assert(fd >= 0);
        while (done < s->bytes && (n = read(fd, room + done, s->bytes - done)) > 0)
            done += (size_t)n;
        cr_assert(close(fd) == 0 && done == s->bytes);
        sum += ends(room, done);
    }
    return sum;
}

/* The bytes where the stream has them, as one would read them with it. */
static uint64_t by_stream(void *arg)
{
    struct small *s = arg;
    uint64_t sum = 0;

    for (unsigned i = 0; i < s->times; i++) {
        struct ahead_stream *in;
        struct ahead_stats stats;
        size_t left = s->bytes, n;
        const uint8_t *p;
        uint8_t first = 0, last = 0;

        cr_assert(ahead_open_path(&in, s->path, NULL) == AHEAD_OK);
        while (left > 0) {
            cr_assert(ahead_peek(in, 1, &p, &n) == AHEAD_OK);
            n = n < left ? n : left;
            first = left == s->bytes ? p[0] : first;
            last = p[n - 1];
            ahead_consume(in, n);
            left -= n;
        }
        ahead_get_stats(in, &stats);
        s->threads += stats.threads_started;
        cr_assert(ahead_close(in) == AHEAD_OK);
        sum += first + 256u * last;
    }
    return sum;
}

/* The same, copied out. */
static uint64_t by_copy(void *arg)
{
    struct small *s = arg;
    uint64_t sum = 0;

    for (unsigned i = 0; i < s->times; i++) {
        struct ahead_stream *in;
        size_t got;

        cr_assert(ahead_open_path(&in, s->path, NULL) == AHEAD_OK);
        cr_assert(ahead_read_full(in, room, s->bytes, &got) == AHEAD_OK && got == s->bytes);
        cr_assert(ahead_close(in) == AHEAD_OK);
        sum += ends(room, got);
    }
    return sum;
}

static void cell(const char *name, size_t file_bytes, size_t bytes)
{
    static struct table t;
    struct bench_file f = make_file(file_bytes);
    struct small s = { .path = f.path, .bytes = bytes };
    const struct way ways[] = {
        { "calls", by_calls, &s },
        { "stream", by_stream, &s },
        { "stream, copied", by_copy, &s },
    };

    s.times = bytes < 100000 ? 3000 : bytes < BUFFER / 2 ? 300 : 50;
    measure(&t, name, ways, 3, ROUNDS);
    cr_assert(t.sum[1] == t.sum[0] && t.sum[2] == t.sum[0], "%s: read something else", name);
    for (int i = 0; i < 3; i++) {
        struct figure r = wall_ratio(&t, i, 0, -1, -1);

        printf("%-14s %-16s %9.2f us  %6.3f [%6.3f, %6.3f]\n", i ? "" : name, ways[i].name,
               wall_of(&t, i).median / s.times * 1e6, r.median, r.low, r.high);
        record("small", name, ways[i].name, r, "ratio");
    }
    printf("%31s %llu threads started\n", "", (unsigned long long)s.threads);
    fflush(stdout);
    remove_file(&f);
}

Test(small, open_read_close)
{
    print_machine();
    printf("%-14s %-16s %12s  %s\n", "", "", "each", "over the system calls [95 %]");
    cell("100 B", 100, 100);
    cell("4 KiB", 4096, 4096);
    cell("64 KiB", 65536, 65536);
    cell("4 KiB of 64 M", (size_t)64 << 20, 4096);
    cell("2 MiB", BUFFER, BUFFER);
    cell("4 MiB", 2 * BUFFER, 2 * BUFFER);
}
