/* SPDX-License-Identifier: Apache-2.0 */
/* bench_cold.c - a file that is not in the page cache, by each hint to the kernel; and how much of
 * it is in the cache afterwards.
 *
 * The file is written to disk and dropped from the cache before each reading,
 * which is checked.  AHEAD_BENCH_MIB (256) is its size, AHEAD_BENCH_DIR its
 * place: a file system in memory has no cold files, which is said. */
#include "support/files.h"
#include "support/measure.h"

#include <ahead/ahead.h>
#include <criterion/criterion.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ROUNDS = 5, PIECE = 256 * 1024 };

struct cold {
    const char *path;
    uint64_t bytes;
    unsigned flags;
    uint64_t cached; /* after the last reading: bytes in the page cache */
};

static uint64_t cached_bytes(const struct cold *c, int fd)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = (c->bytes + page - 1) / page, n = 0;
    unsigned char *in = malloc(pages);
    void *map = mmap(NULL, c->bytes, PROT_READ, MAP_SHARED, fd, 0);

    cr_assert(in && map != MAP_FAILED && mincore(map, c->bytes, in) == 0);
    for (size_t i = 0; i < pages; i++)
        n += in[i] & 1;
    munmap(map, c->bytes);
    free(in);
    return n * page;
}

/* false: it stays there. */
static bool drop(const struct cold *c)
{
    int fd = open(c->path, O_RDONLY | O_CLOEXEC);
    uint64_t left;

    cr_assert(fd >= 0 && fsync(fd) == 0);
    cr_assert(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0);
    left = cached_bytes(c, fd);
    close(fd);
    return left < c->bytes / 100;
}

static uint64_t sum_of(const uint8_t *p, size_t n)
{
    uint64_t sum = 0;

    for (size_t i = 0; i + 4 <= n; i += 4)
        sum += ahead_load_u32_be(p + i);
    return sum;
}

static uint64_t by_read(void *arg)
{
    struct cold *c = arg;
    int fd = open(c->path, O_RDONLY | O_CLOEXEC);
    uint8_t *piece;
    uint64_t sum = 0;
    ssize_t n;

    cr_assert(fd >= 0 && posix_memalign((void **)&piece, 4096, PIECE) == 0);
    while ((n = read(fd, piece, PIECE)) > 0)
        sum += sum_of(piece, (size_t)n);
    free(piece);
    close(fd);
    return sum;
}

static uint64_t by_stream(void *arg)
{
    struct cold *c = arg;
    struct ahead_source src;
    struct ahead_stream *s;
    const uint8_t *p;
    uint64_t sum = 0;
    size_t n;

    cr_assert(ahead_source_path_flags(&src, c->path, c->flags) == AHEAD_OK);
    cr_assert(ahead_open(&s, src, NULL) == AHEAD_OK);
    while (!ahead_peek(s, 4, &p, &n)) {
        sum += sum_of(p, n - n % 4);
        ahead_consume(s, n - n % 4);
    }
    cr_assert(ahead_close(s) == AHEAD_OK);
    return sum;
}

static bool refused(const char *path, unsigned flags)
{
    struct ahead_source src;
    enum ahead_status st = ahead_source_path_flags(&src, path, flags);

    if (!st)
        src.ops->close(src.ctx, &(struct ahead_error){ 0 });
    return st == AHEAD_UNSUPPORTED;
}

Test(cold, hints)
{
    static const struct {
        const char *name;
        uint64_t (*run)(void *);
        unsigned flags;
    } how[] = {
        { "read(2)", by_read, 0 },
        { "stream", by_stream, 0 },
        { "sequential", by_stream, AHEAD_FD_SEQUENTIAL },
        { "will need", by_stream, AHEAD_FD_WILLNEED },
        { "drop behind", by_stream, AHEAD_FD_DROP_BEHIND },
        { "will need, drop", by_stream, AHEAD_FD_WILLNEED | AHEAD_FD_DROP_BEHIND },
        { "direct", by_stream, AHEAD_FD_DIRECT },
    };
    enum { N = sizeof how / sizeof *how };
    struct bench_file f = make_file(size_from_env("AHEAD_BENCH_MIB", 256) << 20);
    struct cold c = { .path = f.path, .bytes = f.bytes };
    double wall[N][ROUNDS], cpu[N][ROUNDS];
    uint64_t cached[N] = { 0 }, sum = 0;
    bool off[N];

    print_machine();
    if (!drop(&c)) {
        printf("SKIPPED: %s stays in memory; set AHEAD_BENCH_DIR to a folder on a disk\n", f.path);
        remove_file(&f);
        return;
    }
    for (int i = 0; i < N; i++)
        off[i] = refused(c.path, how[i].flags);
    for (unsigned r = 0; r < ROUNDS; r++)
        for (int k = 0; k < N; k++) {
            int i = (int)((k + r) % N), fd;
            uint64_t got;

            if (off[i])
                continue;
            c.flags = how[i].flags;
            cr_assert(drop(&c));
            wall[i][r] = wall_now();
            cpu[i][r] = cpu_now();
            got = how[i].run(&c);
            wall[i][r] = wall_now() - wall[i][r];
            cpu[i][r] = cpu_now() - cpu[i][r];
            cr_assert(sum == 0 || got == sum, "%s read something else", how[i].name);
            sum = got;
            cr_assert((fd = open(c.path, O_RDONLY | O_CLOEXEC)) >= 0);
            cached[i] = cached_bytes(&c, fd);
            close(fd);
        }
    for (int i = 0; i < N; i++) {
        struct figure w, u;

        if (off[i]) {
            printf("%-16s the file system has no such thing\n", how[i].name);
            continue;
        }
        w = figure_of(wall[i], ROUNDS);
        u = figure_of(cpu[i], ROUNDS);
        printf("%-16s %8.1f ms [%7.1f, %7.1f], CPU %7.1f ms, %6.1f MiB left in the cache\n",
               how[i].name, w.median * 1e3, w.low * 1e3, w.high * 1e3, u.median * 1e3,
               (double)cached[i] / (1 << 20));
        record("cold", how[i].name, "wall", w, "s");
        record("cold", how[i].name, "left in the cache",
               (struct figure){ (double)cached[i], (double)cached[i], (double)cached[i] }, "bytes");
    }
    remove_file(&f);
}
