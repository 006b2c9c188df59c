/* SPDX-License-Identifier: Apache-2.0 */
/* bench_read.c - what one typed read costs, by each way to ask for it, against
 * what one would write without the library.
 *
 * The input is a file in the page cache, AHEAD_BENCH_MIB (64) large.  All ways
 * but the first read it; the first goes over an array in memory of the same
 * size, piece by piece: the least that a loop can cost. */
#include "support/files.h"
#include "support/measure.h"

#include <ahead/ahead.h>
#include <criterion/criterion.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROUNDS 21
#define PIECE (256 * 1024)

static uint8_t *piece_buffer(void)
{
    void *p;

    cr_assert(posix_memalign(&p, 4096, PIECE) == 0);
    return p;
}

static uint64_t sum_i32(const uint8_t *p, size_t len)
{
    uint64_t sum = 0;

    for (size_t i = 0; i + 4 <= len; i += 4)
        sum += (uint64_t)(int64_t)(int32_t)ahead_load_u32_be(p + i);
    return sum;
}

static uint64_t by_memory(void *arg)
{
    static uint8_t *buffer;
    struct bench_file *f = arg;
    uint64_t sum = 0;

    if (!buffer) {
        int fd = open(f->path, O_RDONLY | O_CLOEXEC);

        buffer = piece_buffer();
        cr_assert(fd >= 0 && read(fd, buffer, PIECE) > 0);
        close(fd);
    }
    for (uint64_t left = f->bytes; left > 0; left -= PIECE)
        sum += sum_i32(buffer, PIECE);
    return sum;
}

static uint64_t by_read2(void *arg)
{
    struct bench_file *f = arg;
    int fd = open(f->path, O_RDONLY | O_CLOEXEC);
    uint8_t *buffer = piece_buffer();
    uint64_t sum = 0;
    ssize_t n;

    cr_assert(fd >= 0);
    while ((n = read(fd, buffer, PIECE)) > 0)
        sum += sum_i32(buffer, (size_t)n);
    free(buffer);
    close(fd);
    return sum;
}

static uint64_t by_getc(void *arg)
{
    struct bench_file *f = arg;
    FILE *in = fopen(f->path, "re");
    uint64_t sum = 0;
    int a, b, c, d;

    cr_assert(in);
    while ((a = getc_unlocked(in)) != EOF && (b = getc_unlocked(in)) != EOF &&
           (c = getc_unlocked(in)) != EOF && (d = getc_unlocked(in)) != EOF)
        sum += (uint64_t)(int64_t)(int32_t)((uint32_t)a << 24 | (uint32_t)b << 16 |
                                            (uint32_t)c << 8 | (uint32_t)d);
    fclose(in);
    return sum;
}

static uint64_t by_fread(void *arg)
{
    struct bench_file *f = arg;
    FILE *in = fopen(f->path, "re");
    uint64_t sum = 0;
    uint8_t b[4];

    cr_assert(in);
    while (fread_unlocked(b, 1, 4, in) == 4)
        sum += (uint64_t)(int64_t)(int32_t)ahead_load_u32_be(b);
    fclose(in);
    return sum;
}

static struct ahead_stream *open_stream(void *file)
{
    struct ahead_stream *s;

    cr_assert(ahead_open_path(&s, ((struct bench_file *)file)->path, NULL) == AHEAD_OK);
    return s;
}

static uint64_t close_stream(struct ahead_stream *s, enum ahead_status st, uint64_t sum)
{
    cr_assert(st == AHEAD_EOF, "%s", ahead_status_name(st));
    cr_assert(ahead_close(s) == AHEAD_OK);
    return sum;
}

/* A loop for each fixed-width type, by stream and by cursor. */
#define DEFINE_LOOPS(name, type)                                                                   \
    static uint64_t stream_##name(void *arg)                                                       \
    {                                                                                              \
        struct ahead_stream *s = open_stream(arg);                                                 \
        enum ahead_status st;                                                                      \
        uint64_t sum = 0;                                                                          \
        type v;                                                                                    \
                                                                                                   \
        while (!(st = ahead_read_##name(s, &v)))                                                   \
            sum += (uint64_t)(int64_t)v;                                                           \
        return close_stream(s, st, sum);                                                           \
    }                                                                                              \
                                                                                                   \
    static uint64_t cursor_##name(void *arg)                                                       \
    {                                                                                              \
        struct ahead_stream *s = open_stream(arg);                                                 \
        struct ahead_cursor c = ahead_cursor_begin(s);                                             \
        enum ahead_status st;                                                                      \
        uint64_t sum = 0;                                                                          \
        type v;                                                                                    \
                                                                                                   \
        while (!(st = ahead_cursor_read_##name(&c, &v)))                                           \
            sum += (uint64_t)(int64_t)v;                                                           \
        ahead_cursor_end(&c);                                                                      \
        return close_stream(s, st, sum);                                                           \
    }

DEFINE_LOOPS(u8, uint8_t)
DEFINE_LOOPS(u16_be, uint16_t)
DEFINE_LOOPS(i32_be, int32_t)
DEFINE_LOOPS(i32_le, int32_t)
DEFINE_LOOPS(i64_be, int64_t)

static uint64_t by_peek(void *arg)
{
    struct ahead_stream *s = open_stream(arg);
    enum ahead_status st;
    const uint8_t *p;
    uint64_t sum = 0;
    size_t n;

    while (!(st = ahead_peek(s, 4, &p, &n))) {
        sum += sum_i32(p, n - n % 4);
        ahead_consume(s, n - n % 4);
    }
    return close_stream(s, st, sum);
}

static uint64_t by_array(void *arg)
{
    static int32_t values[4096];
    struct ahead_stream *s = open_stream(arg);
    enum ahead_status st;
    uint64_t sum = 0;
    size_t got;

    do {
        st = ahead_read_i32_be_array(s, values, 4096, &got);
        for (size_t i = 0; i < got; i++)
            sum += (uint64_t)(int64_t)values[i];
    } while (!st);
    return close_stream(s, st, sum);
}

/* What of that is the swapping: the same values, which nobody looks at, and the
 * same bytes as they are. */
static uint64_t by_array_alone(void *arg)
{
    static int32_t values[4096];
    struct ahead_stream *s = open_stream(arg);
    enum ahead_status st;
    uint64_t sum = 0;
    size_t got;

    do {
        st = ahead_read_i32_be_array(s, values, 4096, &got);
        sum += got;
    } while (!st);
    return close_stream(s, st, sum);
}

static uint64_t by_copy(void *arg)
{
    static int32_t values[4096];
    struct ahead_stream *s = open_stream(arg);
    enum ahead_status st;
    uint64_t sum = 0;
    size_t got;

    do {
        st = ahead_read_full(s, values, sizeof values, &got);
        sum += got / sizeof *values;
    } while (!st);
    return close_stream(s, st, sum);
}

static const struct way ways[] = {
    { "memory", by_memory, NULL },
    { "read(2)", by_read2, NULL },
    { "cursor i32_be", cursor_i32_be, NULL },
    { "stream i32_be", stream_i32_be, NULL },
    { "peek", by_peek, NULL },
    { "array i32_be", by_array, NULL },
    { "getc_unlocked", by_getc, NULL },
    { "fread 4", by_fread, NULL },
    { "array, no sum", by_array_alone, NULL },
    { "bytes, no sum", by_copy, NULL },
    { "cursor u8", cursor_u8, NULL },
    { "stream u8", stream_u8, NULL },
    { "cursor u16_be", cursor_u16_be, NULL },
    { "stream u16_be", stream_u16_be, NULL },
    { "cursor i32_le", cursor_i32_le, NULL },
    { "stream i32_le", stream_i32_le, NULL },
    { "cursor i64_be", cursor_i64_be, NULL },
    { "stream i64_be", stream_i64_be, NULL },
};

enum { N = sizeof ways / sizeof *ways, SAME_SUM_FROM = 1, SAME_SUM_TO = 8 };

static double value_bytes(const char *name)
{
    if (strstr(name, "u8"))
        return 1;
    if (strstr(name, "16"))
        return 2;
    return strstr(name, "64") ? 8 : 4;
}

Test(read, ns_per_value)
{
    static struct table t;
    struct figure array;
    struct way mine[N];
    struct bench_file f = make_file((uint64_t)size_from_env("AHEAD_BENCH_MIB", 64) << 20);

    for (size_t i = 0; i < N; i++) {
        mine[i] = ways[i];
        mine[i].ctx = &f;
    }
    print_machine();
    measure(&t, "typed reads", mine, N, ROUNDS);
    for (int i = SAME_SUM_FROM; i < SAME_SUM_TO; i++)
        cr_assert(t.sum[i] == t.sum[1], "%s read something else", mine[i].name);

    printf("\n%-16s %8s  %s\n", "way", "ns/value", "over the loop over memory [95 %]");
    for (int i = 0; i < N; i++) {
        struct figure w = wall_of(&t, i), r = wall_ratio(&t, i, 0, -1, -1);
        double n = (double)f.bytes / value_bytes(mine[i].name);

        printf("%-16s %8.3f  %6.3f [%6.3f, %6.3f]\n", mine[i].name, w.median / n * 1e9, r.median,
               r.low, r.high);
        record("read", mine[i].name, "over memory", r, "ratio");
    }
    array = wall_ratio(&t, (int)way_index(&t, "array, no sum"),
                       (int)way_index(&t, "bytes, no sum"), -1, -1);
    printf("an array over its bytes: %.3f [%.3f, %.3f]\n", array.median, array.low, array.high);
    record("read", "array", "over its bytes", array, "ratio");
    fflush(stdout);
    remove_file(&f);
}

/* ---- records of mixed lengths, as a sorter spills them ---- */

enum { LONGEST = 72 };

/* A key of 8 bytes, a length of 4, and that many bytes. */
static struct bench_file make_spill(uint64_t bytes, uint8_t **image, size_t *len)
{
    struct bench_file f = make_file(0);
    uint8_t *p = malloc(bytes);
    size_t n = 0;
    uint32_t x = 1;
    int fd = open(f.path, O_WRONLY | O_CLOEXEC);

    cr_assert(p && fd >= 0);
    while (bytes - n >= 12 + LONGEST) {
        uint32_t body = 8 + (x = x * 1664525 + 1013904223) % (LONGEST - 8);

        memset(p + n, 0, 12);
        memcpy(p + n + 1, &x, sizeof x);
        p[n + 11] = (uint8_t)body;
        memset(p + n + 12, (int)(x >> 24), body);
        n += 12 + body;
    }
    for (size_t done = 0; done < n;) {
        ssize_t k = write(fd, p + done, n - done);

        cr_assert(k > 0);
        done += (size_t)k;
    }
    close(fd);
    f.bytes = n;
    *image = p;
    *len = n;
    return f;
}

struct spill {
    struct bench_file file;
    uint8_t *image;
    size_t len;
};

static uint64_t records_by_memory(void *arg)
{
    struct spill *s = arg;
    uint64_t sum = 0;
    size_t body;

    for (const uint8_t *p = s->image; p < s->image + s->len; p += 12 + body) {
        body = ahead_load_u32_be(p + 8);
        sum += ahead_load_u64_be(p) + p[12] + p[11 + body];
    }
    return sum;
}

static uint64_t records_by_stream(void *arg)
{
    struct ahead_stream *s = open_stream(arg);
    enum ahead_status st;
    uint64_t sum = 0;
    const uint8_t *p;
    int64_t key;
    uint32_t body;
    size_t n;

    while (!(st = ahead_read_i64_be(s, &key)) && !(st = ahead_read_u32_be(s, &body)) &&
           !(st = ahead_peek(s, body, &p, &n))) {
        sum += (uint64_t)key + p[0] + p[body - 1];
        ahead_consume(s, body);
    }
    return close_stream(s, st, sum);
}

static uint64_t records_by_copy(void *arg)
{
    struct ahead_stream *s = open_stream(arg);
    enum ahead_status st;
    uint8_t copy[LONGEST];
    uint64_t sum = 0;
    int64_t key;
    uint32_t body;

    while (!(st = ahead_read_i64_be(s, &key)) && !(st = ahead_read_u32_be(s, &body)) &&
           !(st = ahead_read_full(s, copy, body, NULL)))
        sum += (uint64_t)key + copy[0] + copy[body - 1];
    return close_stream(s, st, sum);
}

static uint64_t records_by_fread(void *arg)
{
    struct spill *s = arg;
    FILE *in = fopen(s->file.path, "re");
    uint8_t head[12], copy[LONGEST];
    uint64_t sum = 0;
    size_t body;

    cr_assert(in);
    while (fread_unlocked(head, 1, 12, in) == 12) {
        body = ahead_load_u32_be(head + 8);
        cr_assert(fread_unlocked(copy, 1, body, in) == body);
        sum += ahead_load_u64_be(head) + copy[0] + copy[body - 1];
    }
    fclose(in);
    return sum;
}

Test(read, records_of_mixed_lengths)
{
    static struct table t;
    struct spill s;
    const struct way by[] = {
        { "memory", records_by_memory, &s },
        { "stream, in place", records_by_stream, &s },
        { "stream, copied", records_by_copy, &s },
        { "fread", records_by_fread, &s },
    };

    s.file = make_spill((uint64_t)size_from_env("AHEAD_BENCH_MIB", 64) << 20, &s.image, &s.len);
    print_machine();
    measure(&t, "records", by, 4, ROUNDS);
    printf("\n%-16s %8s  %s\n", "records", "ns/byte", "over the loop over memory [95 %]");
    for (int i = 0; i < 4; i++) {
        struct figure r = wall_ratio(&t, i, 0, -1, -1);

        cr_assert(t.sum[i] == t.sum[0], "%s read something else", by[i].name);
        printf("%-16s %8.3f  %6.3f [%6.3f, %6.3f]\n", by[i].name,
               wall_of(&t, i).median / (double)s.len * 1e9, r.median, r.low, r.high);
        record("read", by[i].name, "records, over memory", r, "ratio");
    }
    fflush(stdout);
    free(s.image);
    remove_file(&s.file);
}
