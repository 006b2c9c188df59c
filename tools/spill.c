/* SPDX-License-Identifier: Apache-2.0 */
/* spill.c - `ahead spill`: the records of a Spark spill, checked. */
#include "input.h"
#include "json.h"
#include "output.h"
#include "report.h"
#include "tool.h"

#include <inttypes.h>
#include <stdio.h>

static const char help[] =
    "usage: ahead spill [OPTION...] FILE...\n"
    "\n"
    "Read the records of each FILE (-: standard input), a spill of Apache Spark's\n"
    "sorter, through to its end, and say what they are.  The good ones in front of a\n"
    "fault count, and are written.\n"
    "\n"
    "  --json             a line of JSON for each\n"
    "  --dump             a line for each record: number, prefix, length and bytes in\n"
    "                     hex, with tabs in between\n"
    "  --raw              each record's header of 12 bytes and its bytes, as they are\n"
    "  --format FORMAT    auto (the default), plain or lz4-block\n"
    "  --compat           stop at the last record, as Spark does\n"
    "  --max-record SIZE  a longer record fails\n"
    "  --help             this\n"
    "\n"
    "SIZE takes K, M and G (of 1024).\n"
    "Exit: 0, all was well; 1, a FILE or the output failed; 2, a wrong call.\n";

enum view { VIEW_TEXT, VIEW_JSON, VIEW_DUMP, VIEW_RAW };

struct spill_options {
    struct input_options input;
    struct ahead_spill_options spill;
    enum view view;
    struct output out;
};

/* What the records have shown. */
struct summary {
    uint32_t count; /* what the spill says */
    uint64_t records;
    uint64_t bytes; /* in the records, without their headers */
    uint32_t shortest, longest;
    int64_t least, greatest, last; /* prefixes */
    bool unsorted;
};

/* ---- options ---- */

static bool take_view(struct spill_options *o, const char *command, enum view view)
{
    if (o->view != VIEW_TEXT && o->view != view) {
        report_usage(command, "--json, --dump and --raw exclude each other");
        return false;
    }
    o->view = view;
    return true;
}

static bool take_format(struct spill_options *o, const char *command, const char *value)
{
    if (input_format(&o->input.format, value) && o->input.format != INPUT_LZ4_FRAME)
        return true;
    report_usage(command, "--format takes auto, plain or lz4-block, not '%s'", value);
    return false;
}

static bool take_max_record(struct spill_options *o, const char *command, const char *value)
{
    static const struct bounds within = { 1, INT32_MAX, "1", "2147483647" };
    uint64_t bytes;

    if (!options_size(command, "--max-record", value, within, &bytes))
        return false;
    o->spill.max_record_bytes = (uint32_t)bytes;
    return true;
}

static bool take(struct spill_options *o, const char *command, int code, const char *value)
{
    switch (code) {
    case OPTION_JSON: return take_view(o, command, VIEW_JSON);
    case OPTION_DUMP: return take_view(o, command, VIEW_DUMP);
    case OPTION_RAW: return take_view(o, command, VIEW_RAW);
    case OPTION_FORMAT: return take_format(o, command, value);
    case OPTION_MAX_RECORD: return take_max_record(o, command, value);
    case OPTION_COMPAT: o->input.lz4.compat = o->spill.compat = true; return true;
    }
    return false;
}

/* -1: go on; else the exit code. */
static int parse(struct spill_options *o, int argc, char **argv)
{
    static const struct option names[] = {
        { "json", no_argument, NULL, OPTION_JSON },
        { "dump", no_argument, NULL, OPTION_DUMP },
        { "raw", no_argument, NULL, OPTION_RAW },
        { "format", required_argument, NULL, OPTION_FORMAT },
        { "compat", no_argument, NULL, OPTION_COMPAT },
        { "max-record", required_argument, NULL, OPTION_MAX_RECORD },
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
    if (argc == optind)
        return report_usage(argv[0], "it takes FILEs, - for standard input");
    return -1;
}

/* ---- records ---- */

static void add(struct summary *sum, const struct ahead_spill_record *rec)
{
    bool first = sum->records++ == 0;

    sum->bytes += rec->len;
    if (first || rec->len < sum->shortest)
        sum->shortest = rec->len;
    if (first || rec->len > sum->longest)
        sum->longest = rec->len;
    if (first || rec->key_prefix < sum->least)
        sum->least = rec->key_prefix;
    if (first || rec->key_prefix > sum->greatest)
        sum->greatest = rec->key_prefix;
    if (!first && rec->key_prefix < sum->last)
        sum->unsorted = true;
    sum->last = rec->key_prefix;
}

static bool dump(struct output *out, const struct ahead_spill_record *rec, uint64_t number)
{
    static const char digits[] = "0123456789abcdef";
    char text[1024];
    int n = snprintf(text, sizeof text, "%" PRIu64 "\t%" PRId64 "\t%" PRIu32 "\t", number,
                     rec->key_prefix, rec->len);

    if (!output_put(out, text, (size_t)n))
        return false;
    for (uint32_t i = 0; i < rec->len;) {
        for (n = 0; i < rec->len && n < (int)sizeof text; i++) {
            text[n++] = digits[rec->data[i] >> 4];
            text[n++] = digits[rec->data[i] & 15];
        }
        if (!output_put(out, text, (size_t)n))
            return false;
    }
    return output_put(out, "\n", 1);
}

static void store_be(uint8_t *to, uint64_t value, unsigned bytes)
{
    while (bytes > 0) {
        to[--bytes] = (uint8_t)value;
        value >>= 8;
    }
}

static bool put_raw(struct output *out, const struct ahead_spill_record *rec)
{
    uint8_t header[12];

    store_be(header, rec->len, 4);
    store_be(header + 4, (uint64_t)rec->key_prefix, 8);
    return output_put(out, header, sizeof header) && output_put(out, rec->data, rec->len);
}

static bool
show(struct output *out, enum view view, const struct ahead_spill_record *rec, uint64_t number)
{
    switch (view) {
    case VIEW_DUMP: return dump(out, rec, number);
    case VIEW_RAW: return put_raw(out, rec);
    case VIEW_TEXT:
    case VIEW_JSON: break;
    }
    return true;
}

/* false: the output failed, which has been reported. */
static bool
read_records(struct ahead_spill_reader *r, struct output *out, enum view view, struct summary *sum)
{
    struct ahead_spill_record rec;

    while (!ahead_spill_next(r, &rec)) {
        add(sum, &rec);
        if (!show(out, view, &rec, sum->records))
            return false;
    }
    sum->count = ahead_spill_count(r);
    return output_flush(out);
}

/* ---- the whole ---- */

static void print_text(const char *name, const struct summary *sum)
{
    printf("%s: %" PRIu64 " of %" PRIu32 " records\n", name, sum->records, sum->count);
    if (sum->records == 0)
        return;
    printf("  %-9s %" PRIu64 ", from %" PRIu32 " to %" PRIu32 " in a record\n", "bytes", sum->bytes,
           sum->shortest, sum->longest);
    printf("  %-9s from %" PRId64 " to %" PRId64 ", %s\n", "prefixes", sum->least, sum->greatest,
           sum->unsorted ? "not sorted" : "sorted");
}

static void print_json(const char *name, const struct summary *sum, enum ahead_status st)
{
    struct json j;

    json_begin(&j, stdout);
    json_text(&j, "file", name);
    json_text(&j, "status", ahead_status_name(st));
    json_number(&j, "count", sum->count);
    json_number(&j, "records", sum->records);
    json_number(&j, "bytes", sum->bytes);
    if (sum->records > 0) {
        json_number(&j, "shortest_bytes", sum->shortest);
        json_number(&j, "longest_bytes", sum->longest);
        json_integer(&j, "least_prefix", sum->least);
        json_integer(&j, "greatest_prefix", sum->greatest);
    }
    json_bool(&j, "sorted", !sum->unsorted);
    json_end(&j);
}

static void print(enum view view, const char *name, const struct summary *sum, enum ahead_status st)
{
    if (view == VIEW_TEXT)
        print_text(name, sum);
    if (view == VIEW_JSON)
        print_json(name, sum, st);
}

static enum outcome spill_input(void *ctx, const char *name)
{
    struct spill_options *o = ctx;
    struct summary sum = { .records = 0 };
    struct ahead_spill_reader *r;
    struct ahead_error end;
    struct input in;
    enum ahead_status st;

    if (!input_open(&in, name, &o->input))
        return BAD_INPUT;
    st = ahead_spill_reader_open(&r, in.stream, &o->spill);
    if (st) {
        report_errno(name, st, 0, "open");
        return BAD_INPUT;
    }
    if (!read_records(r, &o->out, o->view, &sum)) {
        ahead_spill_reader_close(r);
        return BAD_OUTPUT;
    }
    end = *ahead_spill_error(r);
    print(o->view, name, &sum, end.status);
    if (!output_printed()) {
        ahead_spill_reader_close(r);
        return BAD_OUTPUT;
    }
    return input_end(&in, &end, ahead_spill_reader_close(r)) ? GOOD : BAD_INPUT;
}

int spill_main(int argc, char **argv)
{
    struct spill_options o = { .view = VIEW_TEXT, .out.fd = -1 }; /* standard output */
    int code = parse(&o, argc, argv);
    char **names = argv + optind;
    int count = argc - optind;

    if (code >= 0)
        return code;
    if (!input_check_output(&o.out, argv[0], names, count))
        return EXIT_USAGE;
    if (!output_open(&o.out))
        return EXIT_FAILED;
    return input_each(names, count, spill_input, &o) == GOOD ? EXIT_WELL : EXIT_FAILED;
}
