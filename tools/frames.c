/* SPDX-License-Identifier: Apache-2.0 */
/* frames.c - `ahead frames`: the shuffle blocks of a Comet shuffle file, checked. */
#include "input.h"
#include "json.h"
#include "output.h"
#include "report.h"
#include "tool.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static const char help[] =
    "usage: ahead frames [OPTION...] FILE...\n"
    "\n"
    "Read the shuffle blocks of each FILE (-: standard input), as DataFusion Comet\n"
    "writes them, through to its end, and say what they are.  The good ones in front\n"
    "of a fault count, and are written.\n"
    "\n"
    "  --json             a line of JSON for each\n"
    "  --raw              their bodies as they are, without header and tag\n"
    "  --decode           their bodies decoded: NONE and LZ4_; others fail\n"
    "  --fields N         each must have so many\n"
    "  --max-frame SIZE   a longer one, from its tag on, fails\n"
    "  --range START:LEN  only these bytes of each; START: is to the end\n"
    "  --index FILE       of the shuffle file: only the bytes of its --partition N\n"
    "  --help             this\n"
    "\n"
    "START, LEN and SIZE take K, M and G (of 1024).\n"
    "Exit: 0, all was well; 1, a FILE or the output failed; 2, a wrong call.\n";

/* In a header. */
enum {
    FIELDS_AT = 8,
    FIELDS_BYTES = 8, /* max_length counts them, --max-frame does not */
    TAG_AT = 16,
    FLAG = 0x80 /* in the tag's first byte */
};

struct frames_options {
    struct input_options input;
    struct ahead_frame_format format;
    uint32_t fields;
    bool json, raw, decode;
    struct output out;
};

/* What goes on while they are read, and what they have shown. */
struct frames {
    struct frames_options *o;
    struct json json;
    uint8_t *decoded; /* the last body, if they are to be */
    struct ahead_error end;
    uint64_t from; /* where in the file they begin */
    uint64_t count;
    uint64_t body_bytes; /* as they are in the file */
    uint64_t flagged;    /* frames that have lengths for offsets */
    uint64_t flagged_at; /* the first of them */
};

/* ---- options ---- */

static bool take_fields(struct frames_options *o, const char *command, const char *value)
{
    static const struct bounds within = { 0, INT32_MAX, "0", "2147483647" };
    uint64_t fields;

    if (!options_number(command, "--fields", value, within, &fields))
        return false;
    o->fields = (uint32_t)fields;
    o->format.check_ctx = &o->fields;
    return true;
}

static bool take_max_frame(struct frames_options *o, const char *command, const char *value)
{
    static const struct bounds within = { 4, INT32_MAX, "4", "2147483647" };
    uint64_t bytes;

    if (!options_size(command, "--max-frame", value, within, &bytes))
        return false;
    o->format.max_length = bytes + FIELDS_BYTES;
    return true;
}

static bool take(struct frames_options *o, const char *command, int code, const char *value)
{
    switch (code) {
    case OPTION_JSON: o->json = true; return true;
    case OPTION_RAW: o->raw = true; return true;
    case OPTION_DECODE: o->raw = o->decode = true; return true;
    case OPTION_FIELDS: return take_fields(o, command, value);
    case OPTION_MAX_FRAME: return take_max_frame(o, command, value);
    }
    return input_option(&o->input, command, code, value);
}

/* -1: go on; else the exit code. */
static int parse(struct frames_options *o, int argc, char **argv)
{
    static const struct option names[] = {
        INPUT_PART_OPTIONS,
        { "json", no_argument, NULL, OPTION_JSON },
        { "raw", no_argument, NULL, OPTION_RAW },
        { "decode", no_argument, NULL, OPTION_DECODE },
        { "fields", required_argument, NULL, OPTION_FIELDS },
        { "max-frame", required_argument, NULL, OPTION_MAX_FRAME },
        { "help", no_argument, NULL, OPTION_HELP },
        { 0 },
    };
    int code;

    while ((code = options_next(argc, argv, ":", names)) != -1) {
        if (code == OPTION_HELP) {
            fputs(help, stdout);
            return EXIT_WELL;
        }
        if (code == '?' || !take(o, argv[0], code, optarg))
            return EXIT_USAGE;
    }
    if (o->json && o->raw)
        return report_usage(argv[0], "--json excludes --raw and --decode");
    if (argc == optind)
        return report_usage(argv[0], "it takes FILEs, - for standard input");
    return -1;
}

/* ---- frames ---- */

/* What the header of a frame says. */
struct block {
    uint64_t at; /* in the file */
    uint32_t fields;
    char tag[5]; /* as "LZ4_", without the flag: */
    bool offsets_as_lengths;
    size_t body_bytes;
};

static struct block parse_block(const struct frames *fs, const struct ahead_frame *f)
{
    const uint8_t *tag = f->header + TAG_AT;

    return (struct block){
        .at = fs->from + f->offset,
        .fields = ahead_load_u32_le(f->header + FIELDS_AT), /* 64 bits, but never above 31 */
        .tag = { (char)(tag[0] & ~FLAG), (char)tag[1], (char)tag[2], (char)tag[3] },
        .offsets_as_lengths = tag[0] & FLAG,
        .body_bytes = f->body_len,
    };
}

static void print_block(const struct block *b)
{
    printf("byte %-12" PRIu64 "  %" PRIu32 " fields  %s%s  body of %zu\n", b->at, b->fields, b->tag,
           b->offsets_as_lengths ? ", offsets as lengths" : "", b->body_bytes);
}

static void json_block(struct json *j, const struct block *b)
{
    json_item_begin(j);
    json_number(j, "offset", b->at);
    json_number(j, "fields", b->fields);
    json_text(j, "tag", b->tag);
    json_bool(j, "offsets_as_lengths", b->offsets_as_lengths);
    json_number(j, "body_bytes", b->body_bytes);
    json_item_end(j);
}

static void add(struct frames *fs, const struct block *b)
{
    fs->count++;
    fs->body_bytes += b->body_bytes;
    if (b->offsets_as_lengths && fs->flagged++ == 0)
        fs->flagged_at = b->at;
}

/* false: that was all.  A body that cannot be decoded is the end of the input,
 * and its frame is not one of the good ones. */
static bool show(struct frames *fs, const struct ahead_frame *f)
{
    const struct frames_options *o = fs->o;
    struct block block = parse_block(fs, f);
    const uint8_t *body = f->body;
    size_t len = f->body_len;

    if (o->decode) {
        /* More than INT32_MAX bytes its writer could not have held. */
        if (ahead_frame_comet_decode(f, INT32_MAX, &fs->decoded, &len, &fs->end))
            return false;
        body = fs->decoded;
    }
    add(fs, &block);
    if (o->raw)
        return output_put(&fs->o->out, body, len);
    if (o->json)
        json_block(&fs->json, &block);
    else
        print_block(&block);
    return output_printed();
}

/* Whether the output is good; fs->end is what ended the input. */
static bool read_frames(struct frames *fs, struct ahead_frame_reader *r)
{
    struct ahead_frame f;
    enum ahead_status st;

    while (!(st = ahead_frame_next(r, &f)) && show(fs, &f))
        ;
    if (st)
        fs->end = *ahead_frame_error(r);
    return fs->end.status && output_flush(&fs->o->out) && output_printed();
}

static void print_end(struct frames *fs, const char *name)
{
    if (fs->o->json) {
        json_list_end(&fs->json);
        json_text(&fs->json, "status", ahead_status_name(fs->end.status));
        json_number(&fs->json, "body_bytes", fs->body_bytes);
        json_end(&fs->json);
    } else if (!fs->o->raw) {
        printf("%s: %" PRIu64 " frames, %" PRIu64 " bytes in their bodies\n", name, fs->count,
               fs->body_bytes);
    }
    if (fs->o->decode && fs->flagged > 0)
        report_note(name,
                    "%" PRIu64 " of %" PRIu64 " frames, the first at byte %" PRIu64
                    ", have lengths where Arrow has offsets",
                    fs->flagged, fs->count, fs->flagged_at);
}

static enum outcome frames(struct frames *fs, struct input *in)
{
    struct ahead_frame_reader *r;
    enum ahead_status st = ahead_frame_reader_open(&r, in->stream, &fs->o->format);

    if (st) {
        report_errno(in->name, st, 0, "open");
        return BAD_INPUT;
    }
    if (fs->o->json) {
        json_begin(&fs->json, stdout);
        json_text(&fs->json, "file", in->name);
        json_list_begin(&fs->json, "frames");
    }
    if (!read_frames(fs, r)) {
        ahead_frame_reader_close(r);
        return BAD_OUTPUT;
    }
    print_end(fs, in->name);
    return input_end(in, &fs->end, ahead_frame_reader_close(r)) ? GOOD : BAD_INPUT;
}

static enum outcome frames_input(void *o, const char *name)
{
    struct frames fs = { .o = o };
    enum outcome outcome;
    struct input in;

    if (!input_open(&in, name, &fs.o->input))
        return BAD_INPUT;
    fs.from = in.from;
    outcome = frames(&fs, &in);
    free(fs.decoded);
    return outcome;
}

int frames_main(int argc, char **argv)
{
    struct frames_options o = {
        .input.format = INPUT_PLAIN,
        .format = ahead_frame_comet,
        .out.fd = -1, /* standard output */
    };
    int code = parse(&o, argc, argv);
    char **names = argv + optind;
    int count = argc - optind;

    if (code >= 0)
        return code;
    if (!input_check_output(&o.out, argv[0], names, count))
        return EXIT_USAGE;
    code = input_prepare(&o.input, argv[0], names, count);
    if (code != EXIT_WELL)
        return code;
    if (!output_open(&o.out))
        return EXIT_FAILED;
    return input_each(names, count, frames_input, &o) == GOOD ? EXIT_WELL : EXIT_FAILED;
}
