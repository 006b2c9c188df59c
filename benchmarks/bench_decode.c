/* SPDX-License-Identifier: Apache-2.0 */
/* bench_decode.c - what a decoder costs above the decoding itself: no stream, no thread.
 *
 * AHEAD_BENCH_MIB (256) of text, encoded in each form, are decoded three ways:
 * by a bare loop over liblz4's block functions, with the checksum where there
 * is one, over blocks that lie in memory; by the source over those bytes; and
 * by the source over a file of them in the page cache, which is compared with
 * the bare loop and with that loop and the read(2) calls together.  All decode
 * into a window that stays in the cache.  Bytes are kept honest by a sum over
 * samples of them, which costs next to nothing.
 *
 * AHEAD_BENCH_CASE: only the encodings whose names have this in them. */
#include "support/files.h"
#include "support/measure.h"

#include <ahead/ahead.h>
#include <criterion/criterion.h>

#include <fcntl.h>
#include <lz4.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

enum {
    ROUNDS = 21,
    WINDOW_BYTES = 256 * 1024, /* what a stream asks for at a time, unless blocks are larger */
    HISTORY_BYTES = 64 * 1024,
    REQUEST_BYTES = 64 * 1024,
    SAMPLE_STEP = 509
};

enum form { LZ4_BLOCK, LZ4_FRAME };

/* One encoding of the text. */
struct encoding {
    const char *name;
    enum form form;
    size_t block_bytes;
    bool linked, sums;
};

static const struct encoding encodings[] = {
    { "LZ4Block 32K", LZ4_BLOCK, 32 << 10, false, false },
    { "LZ4Block 32K, sums", LZ4_BLOCK, 32 << 10, false, true },
    { "linked 64K", LZ4_FRAME, 64 << 10, true, false },
    { "linked 64K, sums", LZ4_FRAME, 64 << 10, true, true },
    { "independent 64K", LZ4_FRAME, 64 << 10, false, false },
    { "independent 64K, sums", LZ4_FRAME, 64 << 10, false, true },
    { "independent 4M", LZ4_FRAME, 4 << 20, false, false },
    { "independent 4M, sums", LZ4_FRAME, 4 << 20, false, true },
};

/* A block in encoded form. */
struct block {
    const uint8_t *bytes;
    uint32_t stored;
    bool raw;
    uint32_t sum; /* LZ4Block */
};

/* What the ways read. */
struct input {
    struct encoding e;
    uint8_t *bytes;
    size_t len;
    char path[64];
    struct block *blocks;
    size_t n;
    uint32_t content_sum;
    uint8_t *window;
    size_t window_bytes;
};

/* ---- the input ---- */

/* Lines of a log: about a third of their size when encoded. */
static void make_text(char *text, size_t len)
{
    static const char *const what[] = { "read", "wrote", "fetched", "merged", "spilled" };
    uint64_t x = 1;
    size_t n = 0;

    while (len - n > 128) {
        x = x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        n += (size_t)snprintf(
            text + n, len - n, "%02u:%02u:%02u INFO task %u.%u %s %u bytes of block rdd_%u_%u\n",
            (unsigned)(n >> 26) % 24, (unsigned)(n >> 20) % 60, (unsigned)(n >> 14) % 60,
            (unsigned)(x >> 60), (unsigned)(x >> 50) % 999, what[(x >> 40) % 5],
            (unsigned)(x >> 20) % 1000000, (unsigned)(x >> 56) % 7, (unsigned)(x >> 30) % 500);
    }
    memset(text + n, '\n', len - n);
}

static void encode(struct input *in, const char *text, size_t len)
{
    struct ahead_lz4_encode_options opt = {
        .block_bytes = in->e.block_bytes,
        .independent_blocks = !in->e.linked,
        .no_content_checksum = !in->e.sums,
    };
    struct ahead_sink sink;
    struct ahead_error err;

    snprintf(in->path, sizeof in->path, "/tmp/ahead-bench-XXXXXX");
    cr_assert(ahead_sink_fd(&sink, mkstemp(in->path), AHEAD_FD_CLOSE) == AHEAD_OK);
    if (in->e.form == LZ4_BLOCK)
        cr_assert(ahead_sink_lz4_block(&sink, sink, &opt) == AHEAD_OK);
    else
        cr_assert(ahead_sink_lz4_frame(&sink, sink, &opt) == AHEAD_OK);
    for (size_t done = 0; done < len;) {
        ssize_t n = sink.ops->write(sink.ctx, text + done, len - done, &err);

        cr_assert(n > 0);
        done += (size_t)n;
    }
    cr_assert(sink.ops->finish(sink.ctx, &err) == AHEAD_OK);
    cr_assert(sink.ops->close(sink.ctx, &err) == AHEAD_OK);
}

static void load(struct input *in)
{
    FILE *file = fopen(in->path, "rbe");

    cr_assert(file && fseek(file, 0, SEEK_END) == 0);
    in->len = (size_t)ftell(file);
    rewind(file);
    in->bytes = malloc(in->len);
    cr_assert(in->bytes && fread(in->bytes, 1, in->len, file) == in->len);
    fclose(file);
}

/* The bare loop is given what it needs and no more. */
static void find_blocks(struct input *in)
{
    size_t at = in->e.form == LZ4_BLOCK ? 0 : 7;

    in->blocks = malloc((in->len / 1024 + 2) * sizeof *in->blocks);
    cr_assert(in->blocks);
    for (;; in->n++) {
        struct block *b = &in->blocks[in->n];
        const uint8_t *p = in->bytes + at;

        if (in->e.form == LZ4_BLOCK) {
            *b = (struct block){ p + 21, ahead_load_u32_le(p + 9), (p[8] & 0xf0) == 0x10,
                                 ahead_load_u32_le(p + 17) };
            at += 21;
        } else {
            uint32_t word = ahead_load_u32_le(p);

            *b = (struct block){ p + 4, word & 0x7fffffff, word >> 31, 0 };
            at += 4;
        }
        if (!b->stored)
            break;
        at += b->stored;
    }
    if (in->e.form == LZ4_FRAME && in->e.sums)
        in->content_sum = ahead_load_u32_le(in->bytes + at);
}

static void open_input(struct input *in, const struct encoding *e, const char *text, size_t len)
{
    void *window;

    *in = (struct input){ .e = *e };
    encode(in, text, len);
    load(in);
    find_blocks(in);
    in->window_bytes = e->block_bytes > WINDOW_BYTES ? e->block_bytes : WINDOW_BYTES;
    cr_assert(posix_memalign(&window, 4096, in->window_bytes) == 0);
    in->window = window;
}

static void close_input(struct input *in)
{
    unlink(in->path);
    free(in->window);
    free(in->blocks);
    free(in->bytes);
}

/* ---- the ways ---- */

/* A sum over some of the bytes, wherever they are cut. */
struct sample {
    uint64_t sum, pos, next;
};

static void sample(struct sample *s, const uint8_t *bytes, size_t len)
{
    for (; s->next < s->pos + len; s->next += SAMPLE_STEP)
        s->sum = s->sum * 31 + bytes[s->next - s->pos];
    s->pos += len;
}

static size_t decode_bare(const struct input *in, const struct block *b, size_t at)
{
    uint8_t *dst = in->window + at;
    const uint8_t *history = at ? dst - HISTORY_BYTES : in->window + WINDOW_BYTES - HISTORY_BYTES;
    int n;

    if (b->raw) {
        memcpy(dst, b->bytes, b->stored);
        return b->stored;
    }
    if (in->e.linked && b > in->blocks)
        n = LZ4_decompress_safe_usingDict((const char *)b->bytes, (char *)dst, (int)b->stored,
                                          (int)in->e.block_bytes, (const char *)history,
                                          HISTORY_BYTES);
    else
        n = LZ4_decompress_safe((const char *)b->bytes, (char *)dst, (int)b->stored,
                                (int)in->e.block_bytes);
    cr_assert(n > 0);
    return (size_t)n;
}

static uint64_t by_bare_loop(void *arg)
{
    const struct input *in = arg;
    XXH32_state_t *hash = XXH32_createState();
    struct sample s = { .sum = 0 };
    size_t at = 0;

    XXH32_reset(hash, 0);
    for (size_t i = 0; i < in->n; i++) {
        const struct block *b = &in->blocks[i];
        size_t n = decode_bare(in, b, at);

        if (in->e.sums && in->e.form == LZ4_BLOCK)
            cr_assert((XXH32(in->window + at, n, 0x9747b28c) & 0x0fffffff) == b->sum);
        else if (in->e.sums)
            XXH32_update(hash, in->window + at, n);
        sample(&s, in->window + at, n);
        at += n;
        if (at + in->e.block_bytes > in->window_bytes)
            at = 0;
    }
    if (in->e.sums && in->e.form == LZ4_FRAME)
        cr_assert(XXH32_digest(hash) == in->content_sum);
    XXH32_freeState(hash);
    return s.sum;
}

/* What the kernel has to do for a file, before anything is decoded. */
static uint64_t by_read2(void *arg)
{
    const struct input *in = arg;
    int fd = open(in->path, O_RDONLY | O_CLOEXEC);
    uint64_t bytes = 0;
    ssize_t n;

    cr_assert(fd >= 0);
    while ((n = read(fd, in->window, REQUEST_BYTES)) > 0)
        bytes += (uint64_t)n;
    close(fd);
    return bytes;
}

static uint64_t by_source(const struct input *in, struct ahead_source src)
{
    const struct ahead_lz4_options opt = { .no_checksums = !in->e.sums };
    struct sample s = { .sum = 0 };
    struct ahead_error err;
    ssize_t n;

    if (in->e.form == LZ4_BLOCK)
        cr_assert(ahead_source_lz4_block(&src, src, &opt) == AHEAD_OK);
    else
        cr_assert(ahead_source_lz4_frame(&src, src, &opt) == AHEAD_OK);
    while ((n = src.ops->read(src.ctx, in->window, in->window_bytes, &err)) > 0)
        sample(&s, in->window, (size_t)n);
    cr_assert(n == 0, "%s", err.text);
    cr_assert(src.ops->close(src.ctx, &err) == AHEAD_OK);
    return s.sum;
}

static uint64_t by_memory(void *arg)
{
    const struct input *in = arg;
    struct ahead_source src;

    cr_assert(ahead_source_memory(&src, in->bytes, in->len) == AHEAD_OK);
    return by_source(in, src);
}

static uint64_t by_file(void *arg)
{
    const struct input *in = arg;
    struct ahead_source src;

    cr_assert(ahead_source_path(&src, in->path) == AHEAD_OK);
    return by_source(in, src);
}

/* ---- the table ---- */

enum { WAY_BARE, WAY_READ2, WAY_MEMORY, WAY_FILE, WAYS };

/* CPU time of a way over that of the bare loop, and of read(2) besides. */
static struct figure over(const struct table *t, int way, bool read2)
{
    double values[MEASURE_ROUNDS];

    for (unsigned r = 0; r < t->rounds; r++)
        values[r] = t->cpu[way][r] / (t->cpu[WAY_BARE][r] + (read2 ? t->cpu[WAY_READ2][r] : 0));
    return figure_of(values, t->rounds);
}

static void print_row(const struct table *t, const struct input *in, size_t len)
{
    const struct {
        const char *what;
        struct figure f;
    } columns[] = {
        { "memory over bare", over(t, WAY_MEMORY, false) },
        { "file over bare", over(t, WAY_FILE, false) },
        { "file over bare and read(2)", over(t, WAY_FILE, true) },
    };

    printf("%-21s %5.2f %6.0f", in->e.name, (double)len / (double)in->len,
           (double)len / cpu_of(t, WAY_BARE).median / 1e6);
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        struct figure f = columns[i].f;

        printf("  %.3f [%.3f, %.3f]", f.median, f.low, f.high);
        record("decode", in->e.name, columns[i].what, f, "ratio");
    }
    printf("\n");
    fflush(stdout);
}

static void measure_encoding(const struct encoding *e, const char *text, size_t len)
{
    static struct table t;
    struct input in;
    const struct way ways[WAYS] = {
        [WAY_BARE] = { "bare", by_bare_loop, &in },
        [WAY_READ2] = { "read(2)", by_read2, &in },
        [WAY_MEMORY] = { "memory", by_memory, &in },
        [WAY_FILE] = { "file", by_file, &in },
    };

    open_input(&in, e, text, len);
    measure(&t, e->name, ways, WAYS, ROUNDS);
    cr_assert(t.sum[WAY_READ2] == in.len);
    cr_assert(t.sum[WAY_MEMORY] == t.sum[WAY_BARE] && t.sum[WAY_FILE] == t.sum[WAY_BARE],
              "%s: other bytes", e->name);
    print_row(&t, &in, len);
    close_input(&in);
}

Test(decode, over_a_bare_loop)
{
    size_t len = size_from_env("AHEAD_BENCH_MIB", 256) << 20;
    const char *only = getenv("AHEAD_BENCH_CASE");
    char *text = malloc(len);

    cr_assert(text);
    make_text(text, len);
    print_machine();
    printf("\nCPU time, over that of the bare loop [95 %%]\n%-21s %5s %6s  %-20s  %-20s  %s\n",
           "encoding", "ratio", "MB/s", "memory", "file", "file, read(2) counted");
    for (size_t i = 0; i < sizeof encodings / sizeof *encodings; i++)
        if (!only || strstr(encodings[i].name, only))
            measure_encoding(&encodings[i], text, len);
    free(text);
}
