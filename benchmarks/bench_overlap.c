/* SPDX-License-Identifier: Apache-2.0 */
/* bench_overlap.c - reading ahead against what else one could do, for each kind
 * of source, by weight of the reader.
 *
 * Readers: fleeting (looks at one number in 16, and so waits for nearly every
 * source), light (the sum of all int32), balanced (as long as the source
 * alone), heavy (three times as long).
 *
 * Sizes: AHEAD_BENCH_MIB (256), decoded.  A column is a median of ratios within
 * a round, with its 95 % interval. */
#include "support/files.h"
#include "support/measure.h"
#include "support/strategies.h"

#include <criterion/criterion.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROUNDS 15

/* ---- inputs ---- */

static struct ahead_source open_file(void *input)
{
    struct ahead_source src;

    cr_assert(ahead_source_path(&src, ((struct bench_file *)input)->path) == AHEAD_OK);
    return src;
}

/* A callback over the same file, of which the library knows nothing: 32 KiB a
 * call, as a decompressor's block. */
static ssize_t callback_read(void *ctx, void *dst, size_t len, struct ahead_error *err)
{
    (void)err;
    return read((int)(intptr_t)ctx, dst, len < 32768 ? len : 32768);
}

static enum ahead_status callback_close(void *ctx, struct ahead_error *err)
{
    (void)err;
    close((int)(intptr_t)ctx);
    return AHEAD_OK;
}

static const struct ahead_source_ops callback_ops = {
    .read = callback_read,
    .close = callback_close,
};

static struct ahead_source open_callback(void *input)
{
    int fd = open(((struct bench_file *)input)->path, O_RDONLY | O_CLOEXEC);

    cr_assert(fd >= 0);
    return (struct ahead_source){ .ops = &callback_ops, .ctx = (void *)(intptr_t)fd };
}

/* Blocks of LZ4, decoded from the file. */
static struct ahead_source open_block(void *input)
{
    struct ahead_source src = open_file(input);

    cr_assert(ahead_source_lz4_block(&src, src, NULL) == AHEAD_OK);
    return src;
}

static struct ahead_source open_frame(void *input)
{
    struct ahead_source src = open_file(input);

    cr_assert(ahead_source_lz4_frame(&src, src, NULL) == AHEAD_OK);
    return src;
}

/* ---- one cell ---- */

enum { P, C, S, A, T, B, H, M };

static const struct way all_ways[] = {
    { "P", run_source_alone, NULL }, { "C", run_reader_alone, NULL },
    { "S", run_synchronous, NULL },  { "A", run_ahead, NULL },
    { "T", run_textbook, NULL },     { "B", run_bare_pipeline, NULL },
    { "H", run_two_loops, NULL },    { "M", run_mapping, NULL },
};

static void print_figure(const char *what, struct figure f)
{
    printf("  %-14s %6.3f  [%6.3f, %6.3f]\n", what, f.median, f.low, f.high);
}

static void cell(const char *name, struct job *j, bool split)
{
    static struct table t;
    struct way ways[8];
    size_t n = j->path ? 8 : 7;
    struct {
        const char *what;
        struct figure f;
    } rows[10];
    size_t k = 0;

    for (size_t i = 0; i < n; i++) {
        ways[i] = all_ways[i];
        ways[i].ctx = j;
    }
    measure(&t, name, ways, n, ROUNDS);
    for (size_t i = S; i < n; i++)
        cr_assert(t.sum[i] == t.sum[S], "%s: %s read something else", name, ways[i].name);
    for (unsigned r = 0; r < t.rounds; r++) {
        t.wall[H][r] /= 2;
        t.cpu[H][r] /= 2;
    }

    printf("\n%s, %.0f MiB, reader over %.2f x its bytes\n", name, (double)j->bytes / (1 << 20),
           j->extra < 0 ? 1.0 / FLEETING : 1 + j->extra);
    for (size_t i = 0; i < n; i++) {
        struct figure w = wall_of(&t, (int)i), u = cpu_of(&t, (int)i);

        printf("  %s %8.2f ms, CPU %8.2f ms\n", ways[i].name, w.median * 1e3, u.median * 1e3);
        record("overlap", name, ways[i].name, w, "s");
    }
    rows[k].what = "A/max(P,C)";
    rows[k++].f = wall_ratio(&t, A, P, C, -1);
    rows[k].what = split ? "A/max(C,H)" : "A/max(P,C,B)";
    rows[k++].f = split ? wall_ratio(&t, A, C, H, -1) : wall_ratio(&t, A, P, C, B);
    rows[k].what = "A/S";
    rows[k++].f = wall_ratio(&t, A, S, -1, -1);
    rows[k].what = "T/S";
    rows[k++].f = wall_ratio(&t, T, S, -1, -1);
    if (j->path) {
        rows[k].what = "A/M";
        rows[k++].f = wall_ratio(&t, A, M, -1, -1);
    }
    rows[k].what = "CPU A/S";
    rows[k++].f = cpu_ratio(&t, A, S);
    rows[k].what = "CPU A/H"; /* two cores at work: what caches and memory make of that is in H */
    rows[k++].f = cpu_ratio(&t, A, H);
    for (size_t i = 0; i < k; i++) {
        print_figure(rows[i].what, rows[i].f);
        record("overlap", name, rows[i].what, rows[i].f, "ratio");
    }
    printf("  wake-ups/MiB %.3f, early returns %llu, waits: reader %llu, fill %llu, helped %llu\n",
           (double)j->stats.wakeups / ((double)j->bytes / (1 << 20)),
           (unsigned long long)j->stats.early_returns, (unsigned long long)j->stats.reader_waits,
           (unsigned long long)j->stats.fill_waits, (unsigned long long)j->stats.helped_pieces);
    fflush(stdout);
}

/* How many times the reader has to go over its bytes again to take as long as
 * `times` the source alone. */
static double calibrate(struct job *j, double times)
{
    double best_p = 1e9, best_c = 1e9, c_extra = 1e9, want;

    for (int i = 0; i < 5; i++) {
        double t = wall_now();

        run_source_alone(j);
        if (wall_now() - t < best_p)
            best_p = wall_now() - t;
        j->extra = 0;
        t = wall_now();
        run_reader_alone(j);
        if (wall_now() - t < best_c)
            best_c = wall_now() - t;
        j->extra = 1;
        t = wall_now();
        run_reader_alone(j);
        if (wall_now() - t < c_extra)
            c_extra = wall_now() - t;
    }
    want = times * best_p;
    return want > best_c ? (want - best_c) / (c_extra - best_c) : 0;
}

static void weights(const char *source, struct job *j, bool split)
{
    char name[64];

    print_machine();
    snprintf(name, sizeof name, "%s fleeting", source);
    j->extra = -1;
    cell(name, j, split);
    snprintf(name, sizeof name, "%s light", source);
    j->extra = 0;
    cell(name, j, split);
    snprintf(name, sizeof name, "%s balanced", source);
    j->extra = calibrate(j, 1);
    cell(name, j, split);
    snprintf(name, sizeof name, "%s heavy", source);
    j->extra = calibrate(j, 3);
    cell(name, j, split);
}

static uint64_t bytes_to_read(void)
{
    return (uint64_t)size_from_env("AHEAD_BENCH_MIB", 256) << 20;
}

Test(overlap, file)
{
    struct bench_file f = make_file(bytes_to_read());
    struct job j = { .open = open_file, .input = &f, .path = f.path, .bytes = f.bytes };

    weights("file", &j, true);
    remove_file(&f);
}

Test(overlap, callback)
{
    struct bench_file f = make_file(bytes_to_read());
    struct job j = { .open = open_callback, .input = &f, .bytes = f.bytes };

    weights("callback", &j, false);
    remove_file(&f);
}

static void encoded(const char *name, enum ahead_format format, bool split,
                    const struct ahead_lz4_encode_options *how)
{
    struct bench_file f = make_encoded(bytes_to_read(), format, how);
    struct job j = { .open = format == AHEAD_FORMAT_LZ4_BLOCK ? open_block : open_frame,
                     .input = &f,
                     .bytes = f.bytes };

    weights(name, &j, split);
    remove_file(&f);
}

Test(overlap, lz4_block)
{
    encoded("LZ4Block", AHEAD_FORMAT_LZ4_BLOCK, true, NULL);
}

Test(overlap, lz4_frame_linked)
{
    encoded("frame linked 64K", AHEAD_FORMAT_LZ4_FRAME, false,
            &(struct ahead_lz4_encode_options){ .no_content_checksum = true });
}

Test(overlap, lz4_frame_linked_checksum)
{
    encoded("frame linked 64K sum", AHEAD_FORMAT_LZ4_FRAME, false,
            &(struct ahead_lz4_encode_options){ .level = 0 });
}

Test(overlap, lz4_frame_64k)
{
    encoded("frame 64K", AHEAD_FORMAT_LZ4_FRAME, true,
            &(struct ahead_lz4_encode_options){ .independent_blocks = true,
                                                .no_content_checksum = true });
}

Test(overlap, lz4_frame_64k_checksum)
{
    encoded("frame 64K sum", AHEAD_FORMAT_LZ4_FRAME, true,
            &(struct ahead_lz4_encode_options){ .independent_blocks = true });
}

Test(overlap, lz4_frame_4m)
{
    encoded("frame 4M", AHEAD_FORMAT_LZ4_FRAME, true,
            &(struct ahead_lz4_encode_options){
                .block_bytes = 4 << 20, .independent_blocks = true, .no_content_checksum = true });
}

Test(overlap, lz4_frame_4m_checksum)
{
    encoded(
        "frame 4M sum", AHEAD_FORMAT_LZ4_FRAME, true,
        &(struct ahead_lz4_encode_options){ .block_bytes = 4 << 20, .independent_blocks = true });
}
