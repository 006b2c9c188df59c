/* SPDX-License-Identifier: Apache-2.0 */
/* stat.c - `ahead stat`: read an input through, and say how that went. */
#include "input.h"
#include "json.h"
#include "progress.h"
#include "report.h"
#include "size.h"
#include "tool.h"
#include "verdict.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char help[] =
    "usage: ahead stat [OPTION...] FILE...\n"
    "\n"
    "Read each FILE (-: standard input) through, and say how fast that was, who\n"
    "waited for whom, and which side was the bottleneck.  The reader adds up what it\n"
    "reads as numbers of 8 bytes, so it is a light one: it touches each byte once.\n"
    "\n"
    "  --json             a line of JSON for each, with the unit in each name\n"
    "  --format FORMAT    auto (the default), plain, lz4-frame or lz4-block\n"
    "  --compat           accept the ends that Apache Spark accepts, too\n"
    "  --dict FILE        a dictionary for LZ4 frames; --dict-id N: its ID\n"
    "  --max-block SIZE   of an LZ4 block, decoded; a larger one fails\n"
    "  --range START:LEN  only these bytes of each, encoded; START: is to the end\n"
    "  --index FILE       of a shuffle file: only the bytes of its --partition N\n"
    "  --buffer SIZE      of one of the two buffers; by default it is chosen\n"
    "  --sync             no second thread: do not read ahead\n"
    "  --progress         on standard error, also if that is no terminal\n"
    "  --help             this\n"
    "\n"
    "START, LEN and SIZE take K, M and G (of 1024).\n"
    "Exit: 0, all was well; 1, a FILE failed, and its figures are those of its good\n"
    "bytes; 2, a wrong call.\n";

struct stat_options {
    struct input_options input;
    bool json;
    bool progress;
    bool several; /* files: progress has their names */
};

/* -1: go on; else the exit code. */
static int parse(struct stat_options *o, int argc, char **argv)
{
    static const struct option names[] = {
        INPUT_OPTIONS,
        { "json", no_argument, NULL, OPTION_JSON },
        { "progress", no_argument, NULL, OPTION_PROGRESS },
        { "help", no_argument, NULL, OPTION_HELP },
        { 0 },
    };
    int code;

    while ((code = options_next(argc, argv, ":", names)) != -1) {
        switch (code) {
        case OPTION_HELP: fputs(help, stdout); return EXIT_WELL;
        case OPTION_JSON: o->json = true; break;
        case OPTION_PROGRESS: o->progress = true; break;
        case '?': return EXIT_USAGE;
        default:
            if (!input_option(&o->input, argv[0], code, optarg))
                return EXIT_USAGE;
        }
    }
    if (argc == optind)
        return report_usage(argv[0], "it takes FILEs, - for standard input");
    o->several = argc - optind > 1;
    return -1;
}

/* The reader's work.  The sum is stored where the compiler must leave it, else
 * it would leave out the work. */
static void add_up(const uint8_t *data, size_t len)
{
    static volatile uint64_t result;
    uint64_t sum = result, word;

    for (; len >= sizeof word; data += sizeof word, len -= sizeof word) {
        memcpy(&word, data, sizeof word);
        sum += word;
    }
    while (len-- > 0)
        sum += *data++;
    result = sum;
}

/* `began_ns`: the first bytes may have been waited for before, to tell what
 * they are. */
static enum ahead_status
read_through(struct ahead_stream *s, uint64_t began_ns, struct progress *p, struct reading *r)
{
    uint64_t now;
    enum ahead_status st;
    const uint8_t *data;
    size_t len;

    while (!(st = ahead_peek(s, 1, &data, &len))) {
        now = now_ns();
        progress_at(p, PROGRESS_WORK, ahead_tell(s));
        add_up(data, len);
        ahead_consume(s, len);
        progress_at(p, PROGRESS_INPUT, ahead_tell(s));
        r->work_ns += now_ns() - now;
    }
    r->elapsed_ns = now_ns() - began_ns;
    ahead_get_stats(s, &r->stats);
    return st;
}

static void print_json(const char *name, const struct reading *r, enum ahead_status st)
{
    const struct ahead_stats *stats = &r->stats;
    const struct {
        const char *name;
        uint64_t value;
    } numbers[] = {
        { "bytes", stats->bytes },
        { "elapsed_ns", r->elapsed_ns },
        { "reader_work_ns", r->work_ns },
        { "reader_getting_ns", r->elapsed_ns - r->work_ns },
        { "bytes_per_second",
          r->elapsed_ns ? (uint64_t)((double)stats->bytes * 1e9 / (double)r->elapsed_ns) : 0 },
        { "source_reads", stats->source_reads },
        { "fills", stats->fills },
        { "swaps", stats->swaps },
        { "early_returns", stats->early_returns },
        { "reader_waits", stats->reader_waits },
        { "reader_wait_ns", stats->reader_wait_ns },
        { "fill_waits", stats->fill_waits },
        { "fill_wait_ns", stats->fill_wait_ns },
        { "sync_fills", stats->sync_fills },
        { "helped_pieces", stats->helped_pieces },
        { "discarded_bytes", stats->discarded_bytes },
        { "threads_started", stats->threads_started },
        { "wakeups", stats->wakeups },
    };
    struct json j;

    json_begin(&j, stdout);
    json_text(&j, "file", name);
    json_text(&j, "status", ahead_status_name(st));
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        json_number(&j, numbers[i].name, numbers[i].value);
    json_text(&j, "bottleneck", verdict_name(verdict(r)));
    json_end(&j);
}

static void print_waits(const char *who, uint64_t times, uint64_t ns)
{
    char text[SIZE_TEXT];

    printf("  %-14s waited %" PRIu64 " times, %s in all\n", who, times, time_format(text, ns));
}

/* Why the verdict is what it is. */
static const char *reason(const struct reading *r)
{
    bool alone = r->stats.threads_started == 0;

    if (r->stats.bytes == 0)
        return "neither; nothing was read";
    switch (verdict(r)) {
    case VERDICT_SOURCE: return "the source; the reader spent its time on getting bytes";
    case VERDICT_READER:
        return alone ? "the reader; getting the bytes took less than its work"
                     : "the reader; the second thread had to wait for room";
    case VERDICT_NEITHER:
        return alone ? "neither; getting the bytes and the work took turns"
                     : "neither; both sides were busy, or waited equally";
    }
    return "?";
}

static void print_text(const char *name, const struct reading *r)
{
    const struct ahead_stats *stats = &r->stats;
    uint64_t getting = r->elapsed_ns - r->work_ns;
    char size[SIZE_TEXT], time[SIZE_TEXT], rate[SIZE_TEXT];

    printf("%s: %s in %s, %s\n", name, size_format(size, (double)stats->bytes),
           time_format(time, r->elapsed_ns), rate_format(rate, stats->bytes, r->elapsed_ns));
    printf("  %-14s %s adding up the bytes (%s), ", "reader", time_format(time, r->work_ns),
           rate_format(rate, stats->bytes, r->work_ns));
    printf("%s getting them\n", time_format(time, getting));
    print_waits("reader", stats->reader_waits, stats->reader_wait_ns);
    if (stats->threads_started > 0)
        print_waits("second thread", stats->fill_waits, stats->fill_wait_ns);
    else
        printf("  %-14s not started\n", "second thread");
    printf("  %-14s %" PRIu64 " reads, %" PRIu64 " of them by the reader, to help\n", "source",
           stats->source_reads, stats->helped_pieces);
    printf("  %-14s %" PRIu64 " filled, %" PRIu64 " used up, %" PRIu64 " early returns\n",
           "buffers", stats->fills, stats->swaps, stats->early_returns);
    printf("  %-14s %s\n", "bottleneck", reason(r));
}

static enum outcome stat_input(void *ctx, const char *name)
{
    const struct stat_options *o = ctx;
    struct reading r = { .elapsed_ns = 0 };
    struct progress p;
    struct input in;
    enum ahead_status st;

    if (!input_open(&in, name, &o->input))
        return BAD_INPUT;
    progress_begin(&p, progress_choose(o->progress, -1), o->several ? name : NULL, in.size);
    st = read_through(in.stream, in.began_ns, &p, &r);
    progress_end(&p);
    if (o->json)
        print_json(name, &r, st);
    else
        print_text(name, &r);
    if (!output_printed()) {
        input_drop(&in);
        return BAD_OUTPUT;
    }
    return input_close(&in, st) ? GOOD : BAD_INPUT;
}

int stat_main(int argc, char **argv)
{
    struct stat_options o = { .json = false };
    int code = parse(&o, argc, argv);
    char **names = argv + optind;
    int count = argc - optind;

    if (code >= 0)
        return code;
    code = input_prepare(&o.input, argv[0], names, count);
    if (code != EXIT_WELL)
        return code;
    return input_each(names, count, stat_input, &o) == GOOD ? EXIT_WELL : EXIT_FAILED;
}
