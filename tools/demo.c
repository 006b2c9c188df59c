/* SPDX-License-Identifier: Apache-2.0 */
/* demo.c - `ahead demo`: writes a spill through the library, reads it back each way, and says what
 * reading ahead and writing behind have saved. */
#include "options.h"
#include "race.h"
#include "report.h"
#include "size.h"
#include "tool.h"

#include <ahead/ahead.h>

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char help[] =
    "usage: ahead demo [OPTION...] [DIR]\n"
    "\n"
    "Write a spill of Apache Spark in LZ4Block, by one thread and with a\n"
    "second one that compresses behind it; read its records back by one thread and\n"
    "with a second one that decompresses ahead; and show what that saved.  The spill\n"
    "is written in DIR, by default in $TMPDIR or /tmp, and removed.\n"
    "\n"
    "  --size SIZE      of the records, 1M to 16G; 256M by default\n"
    "  --rounds N       writings and readings of each kind, 1 to 99; 5 by default\n"
    "  --plot OUT.svg   as a picture, too, drawn by gnuplot\n"
    "  --help           this\n"
    "\n"
    "SIZE takes K, M and G (of 1024).\n"
    "Exit: 0, all was well; 1, a file failed; 2, a wrong call.\n";

enum { RECORD_HEADER = 12, MOST_RECORD = 400 };

struct demo {
    const char *dir;
    const char *plot;
    uint64_t size;
    uint64_t rounds;
    int fd;         /* of the spill, whose name is gone: nothing is left, however this ends */
    uint32_t count; /* records */
};

/* -1: go on; else the exit code. */
static int parse(struct demo *d, int argc, char **argv)
{
    static const struct bounds sizes = { 1 << 20, UINT64_C(16) << 30, "1M", "16G" };
    static const struct bounds rounds = { 1, RACE_ROUNDS, "1", "99" };
    static const struct option names[] = {
        { "size", required_argument, NULL, OPTION_SIZE },
        { "rounds", required_argument, NULL, OPTION_ROUNDS },
        { "plot", required_argument, NULL, OPTION_PLOT },
        { "help", no_argument, NULL, OPTION_HELP },
        { 0 },
    };
    int code;

    while ((code = options_next(argc, argv, ":", names)) != -1) {
        switch (code) {
        case OPTION_HELP: fputs(help, stdout); return EXIT_WELL;
        case OPTION_PLOT:
            if (!race_plot_to(argv[0], &d->plot, optarg))
                return EXIT_USAGE;
            break;
        case OPTION_SIZE:
            if (!options_size(argv[0], "--size", optarg, sizes, &d->size))
                return EXIT_USAGE;
            break;
        case OPTION_ROUNDS:
            if (!options_number(argv[0], "--rounds", optarg, rounds, &d->rounds))
                return EXIT_USAGE;
            break;
        default: return EXIT_USAGE;
        }
    }
    if (argc - optind > 1)
        return report_usage(argv[0], "it takes one DIR, or none");
    d->dir = argv[optind] ? argv[optind] : getenv("TMPDIR");
    if (!d->dir || !*d->dir)
        d->dir = "/tmp";
    return -1;
}

/* ---- the records: page views, sorted by time ---- */

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 31) * UINT64_C(0x7fb5d329728ea185);
    x = (x ^ x >> 27) * UINT64_C(0x81dadef4bc2dd44d);
    return x ^ x >> 33;
}

static uint32_t make_record(char text[MOST_RECORD], uint64_t i, int64_t *key)
{
    static const char *const verbs[] = { "GET", "GET", "GET", "POST", "PUT", "DELETE" };
    static const char *const places[] = {
        "products", "orders", "users", "search", "cart", "static"
    };
    static const char *const agents[] = {
        "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0",
        "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 Safari/605.1.15",
        "curl/7.88.1",
    };
    uint64_t h = mix(i + 1);

    *key = (int64_t)(INT64_C(1700000000000) + (int64_t)(i * 3 + h % 3));
    return (uint32_t)snprintf(
        text, MOST_RECORD, "10.%u.%u.%u %s /api/v2/%s/%u?session=%08x HTTP/1.1 %u %u \"%s\"",
        (unsigned)(h & 15), (unsigned)(h >> 8 & 255), (unsigned)(h >> 16 & 255), verbs[h >> 24 & 3],
        places[(h >> 26) % 6], (unsigned)(h >> 30 & 4095), (unsigned)(h >> 32),
        h % 50 ? 200u : 404u, (unsigned)(h >> 42 & 65535), agents[h % 3]);
}

/* How many of them make `size` bytes. */
static uint32_t records_of(uint64_t size)
{
    char text[MOST_RECORD];
    uint64_t bytes = 0;
    uint32_t n = 0;
    int64_t key;

    /* The mean of some; they do not differ much. */
    for (; n < 4096; n++)
        bytes += RECORD_HEADER + make_record(text, n, &key);
    return (uint32_t)(size * n / bytes);
}

/* ---- writing ---- */

static bool open_output(struct demo *d, unsigned flags, struct ahead_spill_writer **out)
{
    const struct ahead_options opt = { .flags = flags };
    struct ahead_sink sink;
    struct ahead_writer *w;
    enum ahead_status st = AHEAD_IO;

    if (!ftruncate(d->fd, 0) && !lseek(d->fd, 0, SEEK_SET))
        st = ahead_sink_fd(&sink, d->fd, 0);
    if (!st)
        st = ahead_sink_lz4_block(&sink, sink, NULL);
    if (!st)
        st = ahead_writer_open(&w, sink, &opt);
    if (!st)
        st = ahead_spill_writer_open(out, w, d->count);
    if (st)
        report_errno(d->dir, st, 0, "open");
    return !st;
}

static bool write_spill(struct demo *d, unsigned flags, struct race_run *run)
{
    struct ahead_spill_writer *out;
    char text[MOST_RECORD];
    enum ahead_status st = AHEAD_OK, closed;
    struct ahead_error err;
    int64_t key;

    if (!open_output(d, flags, &out))
        return false;
    for (uint32_t i = 0; i < d->count && !st; i++) {
        uint32_t len = make_record(text, i, &key);

        st = ahead_spill_put(out, key, text, len);
        run->bytes += RECORD_HEADER + len;
        run->sum += (uint64_t)key;
    }
    err = *ahead_spill_writer_error(out);
    closed = ahead_spill_writer_close(out);
    if (st)
        report_error(d->dir, &err);
    else if (closed)
        report_errno(d->dir, closed, 0, "write");
    return !st && !closed;
}

static bool write_alone(void *d, struct race_run *run)
{
    return write_spill(d, AHEAD_SYNC, run);
}

static bool write_behind(void *d, struct race_run *run)
{
    return write_spill(d, 0, run);
}

/* ---- reading ---- */

static bool read_spill(struct demo *d, unsigned flags, struct race_run *run)
{
    const struct ahead_options opt = { .flags = flags };
    struct ahead_spill_reader *in;
    struct ahead_spill_record rec;
    struct ahead_source src;
    struct ahead_stream *s;
    struct ahead_error end;
    enum ahead_status st = AHEAD_IO;

    if (!lseek(d->fd, 0, SEEK_SET))
        st = ahead_source_fd(&src, d->fd, 0);
    if (!st)
        st = ahead_source_lz4_block(&src, src, NULL);
    if (!st)
        st = ahead_open(&s, src, &opt);
    if (!st)
        st = ahead_spill_reader_open(&in, s, NULL);
    if (st) {
        report_errno(d->dir, st, 0, "open");
        return false;
    }
    while (!(st = ahead_spill_next(in, &rec))) {
        run->bytes += RECORD_HEADER + rec.len;
        run->sum += (uint64_t)rec.key_prefix;
        /* As a program that looks at each byte of a record once. */
        for (uint32_t i = 0; i < rec.len; i++)
            run->sum += rec.data[i] == '/';
    }
    end = *ahead_spill_error(in);
    ahead_spill_reader_close(in);
    if (st != AHEAD_EOF)
        report_error(d->dir, &end);
    return st == AHEAD_EOF;
}

static bool read_alone(void *d, struct race_run *run)
{
    return read_spill(d, AHEAD_SYNC, run);
}

static bool read_ahead(void *d, struct race_run *run)
{
    return read_spill(d, 0, run);
}

/* ---- what came of it ---- */

static void print_saving(const char *what, const struct race *r)
{
    double one = (double)r->lane[0].wall_ns, two = (double)r->lane[1].wall_ns;

    if (two < one)
        printf("  %s saved %.0f %% of the time.\n", what, 100 * (1 - two / one));
    else
        printf("  %s saved nothing here: it took %.2f of the time.\n", what, two / one);
}

/* Both in one picture. */
static bool plot(const struct demo *d, const struct race *written, const struct race *read)
{
    struct race both = *written;

    for (size_t i = 0; i < read->ways; i++)
        both.lane[both.ways++] = read->lane[i];
    return race_plot(&both, "ahead demo", d->plot);
}

static bool run(struct demo *d)
{
    const struct race_way writing[] = { { "write, alone", write_alone, d },
                                        { "write behind", write_behind, d } };
    const struct race_way reading[] = { { "read, alone", read_alone, d },
                                        { "read ahead", read_ahead, d } };
    char decoded[SIZE_TEXT], encoded[SIZE_TEXT];
    struct race w, r;
    struct stat st;

    if (!race_run(&w, d->dir, writing, 2, (unsigned)d->rounds))
        return false;
    if (fstat(d->fd, &st)) {
        report_errno(d->dir, AHEAD_IO, 0, "stat");
        return false;
    }
    printf("A spill of %" PRIu32 " records, %s, %s in LZ4Block; medians of %u.\n\n", d->count,
           size_format(decoded, (double)w.run.bytes), size_format(encoded, (double)st.st_size),
           w.rounds);
    printf("Writing it:\n");
    race_print(&w);
    print_saving("Writing behind", &w);
    fflush(stdout);
    if (!race_run(&r, d->dir, reading, 2, (unsigned)d->rounds))
        return false;
    printf("\nReading its records, each byte looked at once:\n");
    race_print(&r);
    print_saving("Reading ahead", &r);
    return !d->plot || plot(d, &w, &r);
}

/* A file whose name is gone at once.  -1: reported. */
static int open_nameless(const char *dir)
{
    char path[4096];
    int fd = -1;

    if (snprintf(path, sizeof path, "%s/ahead-demo-XXXXXX", dir) < (int)sizeof path)
        fd = mkostemp(path, O_CLOEXEC);
    else
        errno = ENAMETOOLONG;
    if (fd >= 0)
        unlink(path);
    else
        report_errno(dir, AHEAD_IO, 0, "a file for the spill");
    return fd;
}

int demo_main(int argc, char **argv)
{
    struct demo d = { .size = UINT64_C(256) << 20, .rounds = 5 };
    int code = parse(&d, argc, argv);
    bool well;

    if (code >= 0)
        return code;
    d.fd = open_nameless(d.dir);
    if (d.fd < 0)
        return EXIT_FAILED;
    d.count = records_of(d.size);
    well = run(&d);
    close(d.fd);
    return well ? EXIT_WELL : EXIT_FAILED;
}
