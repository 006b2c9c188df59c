/* SPDX-License-Identifier: Apache-2.0 */
/* bench_merge.c - many inputs at once on a pool, against a thread for each and against none.
 *
 *   merge   256 sorted spills in LZ4Block become one sequence
 *   turns   1000 parts of a file are read in turn, 4 bytes at a time
 *
 * Sizes: AHEAD_BENCH_MIB (64) of decoded bytes in all; AHEAD_BENCH_BUDGET_MIB
 * (64) for all buffers together, and as much for those who have no pool; where
 * that is more than each input is long, it says nothing about memory.  The merge
 * alone has all decoded bytes in memory, on top of that.  Each way has to give
 * the same sum.  Threads and memory are those of a run of its own. */
#include "support/files.h"
#include "support/footprint.h"
#include "support/measure.h"

#include <ahead/ahead.h>
#include <criterion/criterion.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROUNDS 9

enum {
    SPILLS = 256,
    STREAMS = 1000,
    RECORD_BYTES = 88,
    RECORD_TAKES = RECORD_BYTES + 12,
    PAGE = 4096
};

static uint64_t budget(void)
{
    return (uint64_t)size_from_env("AHEAD_BENCH_BUDGET_MIB", 64) << 20;
}

/* As many bytes for each of two buffers, with the page in front of each. */
static size_t fair_bytes(unsigned streams)
{
    size_t share = (size_t)(budget() / 2 / streams);

    return share > 2 * PAGE ? (share - PAGE) / PAGE * PAGE : PAGE;
}

static unsigned cores(void)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);

    return n < 1 ? 1 : (unsigned)n;
}

static struct ahead_pool *open_pool(unsigned threads)
{
    struct ahead_pool_options opt = { .threads = threads, .byte_budget = budget() };
    struct ahead_pool *p;

    cr_assert(ahead_pool_open(&p, &opt) == AHEAD_OK);
    return p;
}

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 31) * UINT64_C(0x7fb5d329728ea185);
    x = (x ^ x >> 27) * UINT64_C(0x81dadef4bc2dd44d);
    return x ^ x >> 33;
}

/* ---- spills ---- */

struct spills {
    char folder[64];
    uint32_t records;       /* in each */
    uint8_t *plain[SPILLS]; /* decoded, for the merge alone */
    size_t plain_len[SPILLS];
    struct ahead_options options; /* how each is read */
};

static void path_of(const struct spills *sp, unsigned i, char path[96])
{
    snprintf(path, 96, "%s/%03u", sp->folder, i);
}

/* Prefixes rise by a step that is random for each; what else is in a record packs to a half. */
static void write_records(struct spills *sp, unsigned which, struct ahead_sink sink)
{
    struct ahead_spill_writer *sw;
    struct ahead_writer *w;
    uint64_t prefix = 0, random = which + 1;
    uint8_t data[RECORD_BYTES];

    cr_assert(ahead_writer_open(&w, sink, NULL) == AHEAD_OK);
    cr_assert(ahead_spill_writer_open(&sw, w, sp->records) == AHEAD_OK);
    for (uint32_t i = 0; i < sp->records; i++) {
        for (unsigned k = 0; k < RECORD_BYTES; k += 8) {
            uint64_t word = k % 16 ? i / 64 : (random = mix(random + i));

            memcpy(data + k, &word, 8);
        }
        prefix += random % 100000;
        cr_assert(ahead_spill_put(sw, (int64_t)prefix, data, RECORD_BYTES) == AHEAD_OK);
    }
    cr_assert(ahead_spill_writer_close(sw) == AHEAD_OK);
}

static struct spills make_spills(uint64_t bytes)
{
    const char *dir = getenv("AHEAD_BENCH_DIR");
    struct spills sp = { .records = (uint32_t)(bytes / SPILLS / RECORD_TAKES) };
    struct ahead_sink sink;
    char path[96];

    snprintf(sp.folder, sizeof sp.folder, "%s/ahead-bench-XXXXXX", dir ? dir : "/tmp");
    cr_assert(mkdtemp(sp.folder));
    for (unsigned i = 0; i < SPILLS; i++) {
        path_of(&sp, i, path);
        cr_assert(ahead_sink_path(&sink, path) == AHEAD_OK);
        cr_assert(ahead_sink_lz4_block(&sink, sink, NULL) == AHEAD_OK);
        write_records(&sp, i, sink);
    }
    for (unsigned i = 0; i < SPILLS; i++) {
        cr_assert(ahead_sink_memory(&sink, &sp.plain[i], &sp.plain_len[i]) == AHEAD_OK);
        write_records(&sp, i, sink);
    }
    return sp;
}

static void remove_spills(struct spills *sp)
{
    char path[96];

    for (unsigned i = 0; i < SPILLS; i++) {
        path_of(sp, i, path);
        unlink(path);
    }
    rmdir(sp->folder);
    for (unsigned i = 0; i < SPILLS; i++)
        free(sp->plain[i]);
}

static struct ahead_stream *open_spill(const struct spills *sp, unsigned i)
{
    struct ahead_source src;
    struct ahead_stream *s;
    char path[96];

    path_of(sp, i, path);
    cr_assert(ahead_source_path(&src, path) == AHEAD_OK);
    cr_assert(ahead_source_lz4_block(&src, src, NULL) == AHEAD_OK);
    cr_assert(ahead_open(&s, src, &sp->options) == AHEAD_OK);
    return s;
}

/* The sum depends on the order of the records, and on all of their bytes. */
static uint64_t merge_streams(struct ahead_stream **streams)
{
    static struct ahead_spill_reader *readers[SPILLS];
    struct ahead_spill_record rec;
    struct ahead_spill_merge *m;
    enum ahead_status st;
    uint64_t sum = 0;

    for (unsigned i = 0; i < SPILLS; i++)
        cr_assert(ahead_spill_reader_open(&readers[i], streams[i], NULL) == AHEAD_OK);
    cr_assert(ahead_spill_merge_open(&m, readers, SPILLS, NULL, NULL) == AHEAD_OK);
    while (!(st = ahead_spill_merge_next(m, &rec, NULL))) {
        uint64_t bytes = 0;

        for (uint32_t k = 0; k + 8 <= rec.len; k += 8)
            bytes += ahead_load_u64_be(rec.data + k);
        sum = (sum << 5 ^ sum >> 59) + (uint64_t)rec.key_prefix + bytes;
    }
    cr_assert(st == AHEAD_EOF, "%s", ahead_spill_merge_error(m)->text);
    cr_assert(ahead_spill_merge_close(m) == AHEAD_OK);
    return sum;
}

static uint64_t merge_spills(struct spills *sp)
{
    struct ahead_stream *streams[SPILLS];

    for (unsigned i = 0; i < SPILLS; i++)
        streams[i] = open_spill(sp, i);
    return merge_streams(streams);
}

static uint64_t on_a_pool(void *spills)
{
    struct spills *sp = spills;
    uint64_t sum;

    sp->options = (struct ahead_options){ .pool = open_pool(cores()) };
    sum = merge_spills(sp);
    cr_assert(ahead_pool_close(sp->options.pool) == AHEAD_OK);
    return sum;
}

static uint64_t a_thread_each(void *spills)
{
    struct spills *sp = spills;

    sp->options = (struct ahead_options){ .buffer_bytes = fair_bytes(SPILLS) };
    return merge_spills(sp);
}

static uint64_t synchronous(void *spills)
{
    struct spills *sp = spills;

    sp->options = (struct ahead_options){ .flags = AHEAD_SYNC, .buffer_bytes = fair_bytes(SPILLS) };
    return merge_spills(sp);
}

/* One after the other, and nothing is done with the bytes. */
static uint64_t decoding_alone(void *spills)
{
    struct spills *sp = spills;
    uint64_t bytes = 0;

    sp->options = (struct ahead_options){ .flags = AHEAD_SYNC, .buffer_bytes = fair_bytes(SPILLS) };
    for (unsigned i = 0; i < SPILLS; i++) {
        struct ahead_stream *s = open_spill(sp, i);
        const uint8_t *data;
        size_t len;

        while (!ahead_peek(s, 1, &data, &len)) {
            bytes += len;
            ahead_consume(s, len);
        }
        cr_assert(ahead_finish(s) == AHEAD_OK);
        cr_assert(ahead_close(s) == AHEAD_OK);
    }
    cr_assert(bytes == SPILLS * (4 + (uint64_t)sp->records * RECORD_TAKES));
    return bytes;
}

/* Over memory, in which all spills are, decoded. */
static uint64_t merging_alone(void *spills)
{
    const struct spills *sp = spills;
    struct ahead_stream *streams[SPILLS];
    struct ahead_options opt = { .flags = AHEAD_SYNC, .buffer_bytes = fair_bytes(SPILLS) };
    struct ahead_source src;

    for (unsigned i = 0; i < SPILLS; i++) {
        cr_assert(ahead_source_memory(&src, sp->plain[i], sp->plain_len[i]) == AHEAD_OK);
        cr_assert(ahead_open(&streams[i], src, &opt) == AHEAD_OK);
    }
    return merge_streams(streams);
}

/* ---- the tables ---- */

static void print_ways(const struct table *t)
{
    printf("%-16s %9s %9s %8s %9s\n", t->name, "wall s", "cpu s", "threads", "grown MiB");
    for (size_t i = 0; i < t->n; i++) {
        struct footprint f = footprint_of(t->ways[i].run, t->ways[i].ctx);

        printf("%-16s %9.3f %9.3f %8u %9.1f\n", t->ways[i].name, wall_of(t, (int)i).median,
               cpu_of(t, (int)i).median, f.threads, f.grown_mib);
        record(t->name, t->ways[i].name, "grown",
               (struct figure){ f.grown_mib, f.grown_mib, f.grown_mib }, "MiB");
        record(t->name, t->ways[i].name, "threads",
               (struct figure){ f.threads, f.threads, f.threads }, "threads");
    }
}

static void print_ratio(const char *bench, const char *what, struct figure f)
{
    printf("  %-44s %6.3f [%6.3f, %6.3f]\n", what, f.median, f.low, f.high);
    record(bench, "pool", what, f, "ratio");
}

/* Over what two things at once take at best: the longer of the merge, and all
 * work divided by the cores. */
static struct figure over_the_best(const struct table *t, int pool, int decode, int merge)
{
    double values[MEASURE_ROUNDS];

    for (unsigned r = 0; r < t->rounds; r++) {
        double shared = (t->wall[decode][r] + t->wall[merge][r]) / cores();

        values[r] = t->wall[pool][r] / (shared > t->wall[merge][r] ? shared : t->wall[merge][r]);
    }
    return figure_of(values, t->rounds);
}

Test(merge, of_many_spills)
{
    static struct table t;
    struct spills sp = make_spills((uint64_t)size_from_env("AHEAD_BENCH_MIB", 64) << 20);
    enum { POOL, THREADS, SYNC, DECODE, MERGE, N };
    const struct way ways[N] = {
        [POOL] = { "pool", on_a_pool, &sp },
        [THREADS] = { "a thread each", a_thread_each, &sp },
        [SYNC] = { "synchronous", synchronous, &sp },
        [DECODE] = { "decoding alone", decoding_alone, &sp },
        [MERGE] = { "merging alone", merging_alone, &sp },
    };

    print_machine();
    measure(&t, "merge", ways, N, ROUNDS);
    cr_assert(t.sum[POOL] == t.sum[SYNC] && t.sum[THREADS] == t.sum[SYNC]);
    cr_assert(t.sum[POOL] == t.sum[MERGE]);
    print_ways(&t);
    print_ratio("merge", "wall over the best that there can be",
                over_the_best(&t, POOL, DECODE, MERGE));
    print_ratio("merge", "wall over synchronous", wall_ratio(&t, POOL, SYNC, -1, -1));
    print_ratio("merge", "wall over a thread each", wall_ratio(&t, POOL, THREADS, -1, -1));
    print_ratio("merge", "CPU over synchronous", cpu_ratio(&t, POOL, SYNC));
    fflush(stdout);
    remove_spills(&sp);
}

/* ---- a thousand streams in turn ---- */

struct turns {
    struct bench_file file;
    int fd;
};

static uint64_t read_in_turn(const struct turns *f, const struct ahead_options *opt)
{
    static struct ahead_stream *streams[STREAMS];
    uint64_t each = f->file.bytes / STREAMS / 4 * 4, sum = 0;
    struct ahead_source src;

    for (unsigned i = 0; i < STREAMS; i++) {
        cr_assert(ahead_source_range(&src, f->fd, i * each, each, 0) == AHEAD_OK);
        cr_assert(ahead_open(&streams[i], src, opt) == AHEAD_OK);
    }
    for (uint64_t at = 0; at < each; at += 4)
        for (unsigned i = 0; i < STREAMS; i++) {
            int32_t v = 0;

            cr_assert(ahead_read_i32_be(streams[i], &v) == AHEAD_OK);
            sum += (uint64_t)(int64_t)v * (i + 1);
        }
    for (unsigned i = 0; i < STREAMS; i++) {
        cr_assert(ahead_finish(streams[i]) == AHEAD_OK);
        cr_assert(ahead_close(streams[i]) == AHEAD_OK);
    }
    return sum;
}

static uint64_t turns_on_a_pool(void *turns)
{
    struct ahead_options opt = { .pool = open_pool(2) };
    uint64_t sum = read_in_turn(turns, &opt);

    cr_assert(ahead_pool_close(opt.pool) == AHEAD_OK);
    return sum;
}

/* All of the memory is in one buffer, as there is no second one to fill. */
static uint64_t turns_synchronous(void *turns)
{
    struct ahead_options opt = { .flags = AHEAD_SYNC, .buffer_bytes = 2 * fair_bytes(STREAMS) };

    return read_in_turn(turns, &opt);
}

Test(merge, turns_of_a_thousand)
{
    static struct table t;
    struct turns f = { .file = make_file((uint64_t)size_from_env("AHEAD_BENCH_MIB", 64) << 20) };
    enum { POOL, SYNC, N };
    const struct way ways[N] = {
        [POOL] = { "pool", turns_on_a_pool, &f },
        [SYNC] = { "synchronous", turns_synchronous, &f },
    };

    f.fd = open(f.file.path, O_RDONLY | O_CLOEXEC);
    cr_assert(f.fd >= 0);
    print_machine();
    measure(&t, "turns", ways, N, ROUNDS);
    cr_assert(t.sum[POOL] == t.sum[SYNC]);
    print_ways(&t);
    print_ratio("turns", "wall over synchronous", wall_ratio(&t, POOL, SYNC, -1, -1));
    print_ratio("turns", "CPU over synchronous", cpu_ratio(&t, POOL, SYNC));
    fflush(stdout);
    close(f.fd);
    remove_file(&f.file);
}
