/* SPDX-License-Identifier: Apache-2.0 */
/* cat.c - `ahead cat`: what the inputs deliver, one behind the other. */
#include "input.h"
#include "output.h"
#include "progress.h"
#include "report.h"
#include "tool.h"

#include <stdio.h>
#include <string.h>

static const char help[] =
    "usage: ahead cat [OPTION...] [FILE...]\n"
    "\n"
    "Write what the files hold, decoded, to standard output, one behind the other.\n"
    "Without a FILE, or if it is -, read standard input.  A file that fails is\n"
    "reported, its good bytes are written, and the next one is read.\n"
    "\n"
    "  --format FORMAT    auto (the default), plain, lz4-frame or lz4-block\n"
    "  --compat           accept the ends that Apache Spark accepts, too\n"
    "  --dict FILE        a dictionary for LZ4 frames; --dict-id N: its ID\n"
    "  --max-block SIZE   of an LZ4 block, decoded; a larger one fails\n"
    "  --range START:LEN  only these bytes of each, encoded; START: is to the end\n"
    "  --index FILE       of a shuffle file: only the bytes of its --partition N\n"
    "  --buffer SIZE      of one of the two buffers; by default it is chosen\n"
    "  --sync             no second thread: do not read ahead\n"
    "  --progress         on standard error, also if that is no terminal\n"
    "  -o OUT             write to this file, which may not be one of those read\n"
    "  --help             this\n"
    "\n"
    "START, LEN and SIZE take K, M and G (of 1024).\n"
    "Exit: 0, all was well; 1, an input or the output failed; 2, a wrong call.\n";

struct cat {
    struct input_options input;
    struct output out;
    bool progress;
    bool several; /* inputs */
};

/* -1: go on; else the exit code. */
static int parse(struct cat *c, int argc, char **argv)
{
    static const struct option names[] = {
        INPUT_OPTIONS,
        { "progress", no_argument, NULL, OPTION_PROGRESS },
        { "help", no_argument, NULL, OPTION_HELP },
        { 0 },
    };
    int code;

    while ((code = options_next(argc, argv, ":o:", names)) != -1) {
        switch (code) {
        case OPTION_HELP: fputs(help, stdout); return EXIT_WELL;
        case OPTION_PROGRESS: c->progress = true; break;
        case 'o': c->out.path = strcmp(optarg, "-") ? optarg : NULL; break;
        case '?': return EXIT_USAGE;
        default:
            if (!input_option(&c->input, argv[0], code, optarg))
                return EXIT_USAGE;
        }
    }
    return -1;
}

/* An input that came into being as our own output, or by way of a link that
 * was laid since check_output(). */
static bool is_output(const struct cat *c, const struct input *in)
{
    struct ahead_error err = {
        .status = AHEAD_INVALID,
        .source_offset = UINT64_MAX,
        .text = "this is the output as well",
    };
    struct stat st;

    if (fstat(in->fd, &st) || !output_is(&c->out, &st))
        return false;
    report_error(in->name, &err);
    return true;
}

/* Straight from the stream's memory.  false: the output failed, which has been
 * reported.  *st is what ended the reading. */
static bool
copy(struct output *out, struct ahead_stream *s, struct progress *p, enum ahead_status *st)
{
    const uint8_t *data;
    size_t len;

    while (!(*st = ahead_peek(s, 1, &data, &len))) {
        progress_at(p, PROGRESS_OUTPUT, ahead_tell(s));
        if (!output_write(out, data, len))
            return false;
        ahead_consume(s, len);
        progress_at(p, PROGRESS_INPUT, ahead_tell(s));
    }
    return true;
}

/* As copy(), with what goes on around it. */
static bool copy_input(struct cat *c, const struct input *in, enum ahead_status *st)
{
    struct progress p;
    bool written;

    /* An OUT that exists keeps what it has until an input could be opened. */
    if (c->out.fd < 0 && !output_open(&c->out))
        return false;
    progress_begin(&p, progress_choose(c->progress, c->out.fd), c->several ? in->name : NULL,
                   in->size);
    written = copy(&c->out, in->stream, &p, st);
    progress_end(&p);
    return written;
}

static enum outcome cat_input(void *ctx, const char *name)
{
    struct cat *c = ctx;
    struct input in;
    enum ahead_status st;

    if (!input_open(&in, name, &c->input))
        return BAD_INPUT;
    if (is_output(c, &in)) {
        input_drop(&in);
        return BAD_INPUT;
    }
    if (!copy_input(c, &in, &st)) {
        input_drop(&in);
        return BAD_OUTPUT;
    }
    return input_close(&in, st) ? GOOD : BAD_INPUT;
}

int cat_main(int argc, char **argv)
{
    static char standard_input[] = "-", *only_that[] = { standard_input };
    struct cat c = { .out.fd = -1 };
    enum outcome all;
    int code = parse(&c, argc, argv);
    char **names = argv + optind;
    int count = argc - optind;

    if (code >= 0)
        return code;
    if (count == 0) {
        names = only_that;
        count = 1;
    }
    if (!input_check_output(&c.out, argv[0], names, count))
        return EXIT_USAGE;
    code = input_prepare(&c.input, argv[0], names, count);
    if (code != EXIT_WELL)
        return code;
    c.several = count > 1;
    all = input_each(names, count, cat_input, &c);
    if (!output_close(&c.out))
        all = BAD_OUTPUT;
    return all == GOOD ? EXIT_WELL : EXIT_FAILED;
}
