/* SPDX-License-Identifier: Apache-2.0 */
/* bench.c - `ahead bench`: one file, read by each strategy, side by side. */
#include "input.h"
#include "json.h"
#include "race.h"
#include "report.h"
#include "size.h"
#include "tool.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const char help[] =
    "usage: ahead bench [OPTION...] FILE\n"
    "\n"
    "Read FILE, whatever its format, by each strategy in turn, and show how long each\n"
    "took: one thread; a second one that reads ahead; for a plain file also read(2),\n"
    "a mapping and stdio.  The work is to add up big-endian numbers of 4 bytes.\n"
    "\n"
    "  --json             as one JSON object, with the unit in each name\n"
    "  --plot OUT.svg     as a picture, too, drawn by gnuplot\n"
    "  --rounds N         readings of each kind, 1 to 99; 7 by default\n"
    "  --format FORMAT    auto (the default), plain, lz4-frame or lz4-block\n"
    "  --compat, --dict FILE, --dict-id N, --max-block SIZE   as cat has them\n"
    "  --range START:LEN  only these bytes, encoded; START: is to the end\n"
    "  --index FILE       of a shuffle file: only the bytes of its --partition N\n"
    "  --buffer SIZE      of one of the two buffers; by default it is chosen\n"
    "  --help             this\n"
    "\n"
    "START, LEN and SIZE take K, M and G (of 1024).\n"
    "Exit: 0, all was well; 1, FILE failed; 2, a wrong call.\n";

enum { PIECE = 256 * 1024 };

struct bench_options {
    struct input_options input;
    const char *file;
    const char *plot;
    uint64_t rounds;
    bool json;
    bool plain; /* the file's bytes are what is read, all of them */
};

/* -1: go on; else the exit code. */
static int parse(struct bench_options *o, int argc, char **argv)
{
    static const struct bounds rounds = { 1, RACE_ROUNDS, "1", "99" };
    static const struct option names[] = {
        INPUT_OPTIONS,
        { "json", no_argument, NULL, OPTION_JSON },
        { "plot", required_argument, NULL, OPTION_PLOT },
        { "rounds", required_argument, NULL, OPTION_ROUNDS },
        { "help", no_argument, NULL, OPTION_HELP },
        { 0 },
    };
    int code;

    while ((code = options_next(argc, argv, ":", names)) != -1) {
        switch (code) {
        case OPTION_HELP: fputs(help, stdout); return EXIT_WELL;
        case OPTION_JSON: o->json = true; break;
        case OPTION_PLOT:
            if (!race_plot_to(argv[0], &o->plot, optarg))
                return EXIT_USAGE;
            break;
        case OPTION_ROUNDS:
            if (!options_number(argv[0], "--rounds", optarg, rounds, &o->rounds))
                return EXIT_USAGE;
            break;
        case OPTION_SYNC: return report_usage(argv[0], "--sync is one of the ways it compares");
        case '?': return EXIT_USAGE;
        default:
            if (!input_option(&o->input, argv[0], code, optarg))
                return EXIT_USAGE;
        }
    }
    if (argc - optind != 1)
        return report_usage(argv[0], "it takes one FILE");
    o->file = argv[optind];
    if (strcmp(o->file, "-") == 0)
        return report_usage(argv[0], "it reads its FILE many times, so that cannot be '-'");
    return -1;
}

/* ---- the ways ---- */

/* The work: the sum of big-endian numbers of 4 bytes, whichever way the pieces
 * are cut. */
static void add_up(struct race_run *run, const uint8_t *p, size_t len)
{
    uint64_t sum = 0;

    for (; len > 0 && run->bytes % 4 != 0; p++, len--, run->bytes++)
        sum += (uint64_t)*p << (24 - 8 * (run->bytes % 4));
    run->bytes += len;
    for (; len >= 4; p += 4, len -= 4)
        sum += ahead_load_u32_be(p);
    for (size_t i = 0; i < len; i++)
        sum += (uint64_t)p[i] << (24 - 8 * i);
    run->sum += sum;
}

static bool by_stream(const struct bench_options *o, unsigned flags, struct race_run *run)
{
    struct input_options how = o->input;
    enum ahead_status st;
    const uint8_t *data;
    struct input in;
    size_t len;

    how.stream.flags |= flags;
    if (!input_open(&in, o->file, &how))
        return false;
    while (!(st = ahead_peek(in.stream, 1, &data, &len))) {
        if (len > PIECE)
            len = PIECE;
        add_up(run, data, len);
        ahead_consume(in.stream, len);
    }
    return input_close(&in, st);
}

static bool one_thread(void *o, struct race_run *run)
{
    return by_stream(o, AHEAD_SYNC, run);
}

static bool read_ahead(void *o, struct race_run *run)
{
    return by_stream(o, 0, run);
}

static bool failed(const struct bench_options *o, const char *what, uint64_t bytes)
{
    report_errno(o->file, AHEAD_IO, bytes, what);
    return false;
}

static bool by_read(void *arg, struct race_run *run)
{
    const struct bench_options *o = arg;
    int fd = open(o->file, O_RDONLY | O_CLOEXEC);
    void *piece = NULL;
    ssize_t n = -1;

    if (fd < 0)
        return failed(o, "open", 0);
    errno = posix_memalign(&piece, 4096, PIECE);
    while (piece && ((n = read(fd, piece, PIECE)) > 0 || (n < 0 && errno == EINTR)))
        add_up(run, piece, n > 0 ? (size_t)n : 0);
    if (n < 0)
        failed(o, piece ? "read" : "memory", run->bytes);
    free(piece);
    close(fd);
    return n == 0;
}

static bool by_mapping(void *arg, struct race_run *run)
{
    const struct bench_options *o = arg;
    int fd = open(o->file, O_RDONLY | O_CLOEXEC);
    struct stat st;
    void *map;

    if (fd < 0)
        return failed(o, "open", 0);
    if (fstat(fd, &st) || st.st_size == 0) {
        close(fd);
        return true;
    }
    map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (map == MAP_FAILED)
        return failed(o, "mmap", 0);
    add_up(run, map, (size_t)st.st_size);
    munmap(map, (size_t)st.st_size);
    return true;
}

static bool by_stdio(void *arg, struct race_run *run)
{
    const struct bench_options *o = arg;
    FILE *in = fopen(o->file, "re");
    uint64_t sum = 0, bytes = 0;
    bool good;
    int byte;

    if (!in)
        return failed(o, "open", 0);
    for (unsigned shift = 24; (byte = getc_unlocked(in)) != EOF; shift = (shift - 8) % 32, bytes++)
        sum += (uint64_t)byte << shift;
    *run = (struct race_run){ .bytes = bytes, .sum = sum };
    good = !ferror(in);
    if (!good)
        failed(o, "read", bytes);
    fclose(in);
    return good;
}

/* ---- what came of it ---- */

static void print_json(const struct bench_options *o, const struct race *r)
{
    struct json j;

    json_begin(&j, stdout);
    json_text(&j, "file", o->file);
    json_number(&j, "bytes", r->run.bytes);
    json_number(&j, "rounds", r->rounds);
    race_json(r, &j);
    json_end(&j);
}

static void print_text(const struct bench_options *o, const struct race *r)
{
    double one = (double)r->lane[0].wall_ns, ahead = (double)r->lane[1].wall_ns;
    char size[SIZE_TEXT];

    printf("%s: %s%s, medians of %u readings\n", o->file, size_format(size, (double)r->run.bytes),
           o->plain ? "" : ", decoded", r->rounds);
    race_print(r);
    printf("  Reading ahead took %.2f of the time of one thread.\n", ahead / one);
}

/* Opened once, to see what it is, and that it can be read again. */
static bool look(struct bench_options *o)
{
    struct input in;
    struct stat st;

    if (!input_open(&in, o->file, &o->input))
        return false;
    o->plain = !in.decoded && !o->input.ranged;
    if (fstat(in.fd, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISBLK(st.st_mode)) {
        struct ahead_error err = { .status = AHEAD_UNSUPPORTED,
                                   .source_offset = UINT64_MAX,
                                   .text = "it is read many times, and is no regular file" };

        input_drop(&in);
        report_error(o->file, &err);
        return false;
    }
    input_drop(&in);
    return true;
}

/* Whether the plot is another file than the one that is read. */
static bool check_plot(const struct bench_options *o, const char *command, char *const *names)
{
    struct output out = { .path = o->plot, .fd = -1 };

    return !o->plot || input_check_output(&out, command, names, 1);
}

int bench_main(int argc, char **argv)
{
    struct bench_options o = { .rounds = 7 };
    const struct race_way ways[] = {
        { "one thread", one_thread, &o },  { "reading ahead", read_ahead, &o },
        { "read(2)", by_read, &o },        { "mapping", by_mapping, &o },
        { "getc_unlocked", by_stdio, &o },
    };
    struct race r;
    int code = parse(&o, argc, argv);

    if (code >= 0)
        return code;
    if (!check_plot(&o, argv[0], argv + optind))
        return EXIT_USAGE;
    code = input_prepare(&o.input, argv[0], argv + optind, 1);
    if (code != EXIT_WELL)
        return code;
    if (!look(&o) || !race_run(&r, o.file, ways, o.plain ? 5 : 2, (unsigned)o.rounds))
        return EXIT_FAILED;
    if (o.json)
        print_json(&o, &r);
    else
        print_text(&o, &r);
    if (o.plot && !race_plot(&r, o.file, o.plot))
        return EXIT_FAILED;
    return EXIT_WELL;
}
