/* SPDX-License-Identifier: Apache-2.0 */
/* input.c - a file, or standard input, as a stream: a part of it, decoded. */
#include "input.h"

#include "report.h"
#include "size.h"
#include "tool.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* START:LEN, or START: for all that follows. */
static bool parse_range(struct input_options *o, const char *text)
{
    const char *colon = strchr(text, ':');

    if (!colon || !size_parse(text, (size_t)(colon - text), &o->start) || o->start > INT64_MAX)
        return false;
    o->ranged = true;
    o->length = UINT64_MAX;
    if (!colon[1])
        return true;
    return size_parse(colon + 1, strlen(colon + 1), &o->length) &&
           o->length <= INT64_MAX - o->start;
}

static const struct bounds up_to_1g = { 1, (uint64_t)1 << 30, "1", "1G" };

bool input_format(enum input_format *format, const char *name)
{
    static const char *const names[] = { "auto", "plain", "lz4-frame", "lz4-block" };

    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(name, names[i]) == 0) {
            *format = (enum input_format)i;
            return true;
        }
    }
    return false;
}

static bool take_range(struct input_options *o, const char *command, const char *value)
{
    if (parse_range(o, value))
        return true;
    report_usage(command, "--range takes START:LEN or START:, as 1M:64K, not '%s'", value);
    return false;
}

static bool take_format(struct input_options *o, const char *command, const char *value)
{
    if (input_format(&o->format, value))
        return true;
    report_usage(command, "--format takes auto, plain, lz4-frame or lz4-block, not '%s'", value);
    return false;
}

static bool take_buffer(struct input_options *o, const char *command, const char *value)
{
    uint64_t bytes;

    if (!options_size(command, "--buffer", value, up_to_1g, &bytes))
        return false;
    o->stream.buffer_bytes = (size_t)bytes;
    return true;
}

static bool take_max_block(struct input_options *o, const char *command, const char *value)
{
    uint64_t bytes;

    if (!options_size(command, "--max-block", value, up_to_1g, &bytes))
        return false;
    o->lz4.max_block_bytes = (size_t)bytes;
    return true;
}

static bool take_dict_id(struct input_options *o, const char *command, const char *value)
{
    static const struct bounds within = { 1, UINT32_MAX, "1", "4294967295" };
    uint64_t id;

    if (!options_number(command, "--dict-id", value, within, &id))
        return false;
    o->lz4.dict_id = (uint32_t)id;
    return true;
}

static bool take_partition(struct input_options *o, const char *command, const char *value)
{
    static const struct bounds within = { 0, INT32_MAX, "0", "2147483647" };

    o->of_index = true;
    return options_number(command, "--partition", value, within, &o->partition);
}

bool input_option(struct input_options *o, const char *command, int code, const char *value)
{
    switch (code) {
    case OPTION_SYNC: o->stream.flags |= AHEAD_SYNC; return true;
    case OPTION_COMPAT: o->lz4.compat = true; return true;
    case OPTION_DICT: o->dict = value; return true;
    case OPTION_INDEX: o->index = value; return true;
    case OPTION_FORMAT: return take_format(o, command, value);
    case OPTION_BUFFER: return take_buffer(o, command, value);
    case OPTION_MAX_BLOCK: return take_max_block(o, command, value);
    case OPTION_DICT_ID: return take_dict_id(o, command, value);
    case OPTION_RANGE: return take_range(o, command, value);
    case OPTION_PARTITION: return take_partition(o, command, value);
    }
    return false;
}

/* ---- what must be known before anything is read ---- */

static bool is_stdin(const char *name)
{
    return strcmp(name, "-") == 0;
}

/* stat(2) of what `name` means.  false: errno says why. */
static bool stat_input(const char *name, struct stat *st)
{
    return !(is_stdin(name) ? fstat(STDIN_FILENO, st) : stat(name, st));
}

/* Options that need each other, or exclude each other. */
static bool are_of_one_mind(const struct input_options *o, const char *command, int count)
{
    const char *text = NULL;

    if (o->ranged && o->index)
        text = "--range and --index exclude each other";
    else if (o->index && !o->of_index)
        text = "--index needs --partition";
    else if (o->of_index && !o->index)
        text = "--partition needs --index";
    else if (o->index && count > 1)
        text = "--index is that of one FILE";
    else if (o->lz4.dict_id && !o->dict)
        text = "--dict-id needs --dict";
    if (text)
        report_usage(command, "%s", text);
    return !text;
}

/* What cannot be opened fails when it is its turn. */
static bool
can_be_sought(const struct input_options *o, const char *command, char *const *names, int count)
{
    struct stat st;

    for (int i = 0; i < count; i++) {
        if ((!o->ranged && !o->index) || !stat_input(names[i], &st))
            continue;
        if (S_ISREG(st.st_mode) || S_ISBLK(st.st_mode) || S_ISDIR(st.st_mode))
            continue;
        report_usage(command, "%s needs a file that can be sought, and '%s' is none",
                     o->index ? "--index" : "--range", names[i]);
        return false;
    }
    return true;
}

bool input_check_output(const struct output *out, const char *command, char *const *names,
                        int count)
{
    struct stat st;

    for (int i = 0; i < count; i++) {
        if (!stat_input(names[i], &st) || !output_is(out, &st))
            continue;
        report_usage(command, "'%s' is the output as well", names[i]);
        return false;
    }
    return true;
}

static int open_file(const char *name)
{
    int fd;

    do
        fd = open(name, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    while (fd < 0 && errno == EINTR);
    return fd;
}

static bool refused(const char *name, enum ahead_status st)
{
    report_errno(name, st, 0, "open"); /* errno is set, also by the library */
    return false;
}

/* The file as it is. */
static bool open_whole(struct ahead_source *src, const char *name)
{
    int fd = is_stdin(name) ? STDIN_FILENO : open_file(name);
    enum ahead_status st = AHEAD_IO;

    if (fd >= 0)
        st = ahead_source_fd(src, fd, fd == STDIN_FILENO ? 0 : AHEAD_FD_CLOSE);
    return !st || refused(name, st);
}

/* Read it to its end, keeping the last `most` bytes at the front of `room`, which
 * has twice as many.  Returns the status; *len is how many there are. */
static enum ahead_status read_last(struct ahead_stream *s, uint8_t *room, size_t most, size_t *len)
{
    enum ahead_status st;
    size_t got;

    *len = 0;
    do {
        if (*len == 2 * most) {
            memcpy(room, room + most, most);
            *len = most;
        }
        st = ahead_read(s, room + *len, 2 * most - *len, &got);
        *len += got;
    } while (!st);
    if (*len > most) {
        memmove(room, room + *len - most, most);
        *len = most;
    }
    return st;
}

/* LZ4 refers to the last 64 KiB of a dictionary at most. */
static bool load_dict(struct input_options *o)
{
    enum { MOST = 65536 };
    static uint8_t room[2 * MOST];
    const struct ahead_options opt = { .flags = AHEAD_SYNC };
    struct ahead_source src;
    struct ahead_stream *s;
    enum ahead_status st;

    if (!open_whole(&src, o->dict))
        return false;
    st = ahead_open(&s, src, &opt);
    if (st)
        return refused(o->dict, st);
    st = read_last(s, room, MOST, &o->lz4.dict_len);
    if (st != AHEAD_EOF)
        report_error(o->dict, ahead_error(s));
    ahead_close(s); /* it has nothing to add to the bytes */
    o->lz4.dict = room;
    return st == AHEAD_EOF;
}

/* The range of the partition, which is an input of its own, and may be empty. */
static int load_range(struct input_options *o, const char *command, const char *name)
{
    struct ahead_source src;
    struct ahead_index *x;
    struct ahead_error err;
    struct stat st;
    int code = EXIT_WELL;

    if (!stat_input(name, &st)) {
        refused(name, AHEAD_IO);
        return EXIT_FAILED;
    }
    if (!open_whole(&src, o->index))
        return EXIT_FAILED;
    if (ahead_index_open(&x, src, S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0, &err)) {
        report_error(o->index, &err);
        return EXIT_FAILED;
    }
    if (ahead_index_range(x, (size_t)o->partition, &o->start, &o->length))
        code = report_usage(command, "there is no partition %" PRIu64 ": '%s' has %zu, from 0",
                            o->partition, o->index, ahead_index_partitions(x));
    ahead_index_close(x);
    o->ranged = true;
    o->lz4.empty_ok = true;
    return code;
}

int input_prepare(struct input_options *o, const char *command, char *const *names, int count)
{
    if (!are_of_one_mind(o, command, count) || !can_be_sought(o, command, names, count))
        return EXIT_USAGE;
    if (o->dict && !load_dict(o))
        return EXIT_FAILED;
    return o->index ? load_range(o, command, names[0]) : EXIT_WELL;
}

/* ---- an input ---- */

static enum ahead_status open_bytes(struct ahead_source *src, int fd, const struct input_options *o)
{
    unsigned flags = fd == STDIN_FILENO ? 0 : AHEAD_FD_CLOSE;

    if (o->ranged)
        return ahead_source_range(src, fd, o->start, o->length, flags);
    return ahead_source_fd(src, fd, flags);
}

/* Whatever it returns, the bytes belong to *src. */
static enum ahead_status
decode(struct ahead_source *src, const struct input_options *o, bool *decoded)
{
    enum ahead_format found = AHEAD_FORMAT_PLAIN;
    enum ahead_status st = AHEAD_OK;

    switch (o->format) {
    case INPUT_PLAIN: break;
    case INPUT_AUTO: st = ahead_source_detect(src, *src, &o->lz4, &found); break;
    case INPUT_LZ4_FRAME:
        found = AHEAD_FORMAT_LZ4_FRAME;
        st = ahead_source_lz4_frame(src, *src, &o->lz4);
        break;
    case INPUT_LZ4_BLOCK:
        found = AHEAD_FORMAT_LZ4_BLOCK;
        st = ahead_source_lz4_block(src, *src, &o->lz4);
        break;
    }
    *decoded = found != AHEAD_FORMAT_PLAIN;
    return st;
}

bool input_open(struct input *in, const char *name, const struct input_options *o)
{
    struct ahead_source src;
    enum ahead_status st;

    *in = (struct input){ .name = name, .size = UINT64_MAX, .start = -1 };
    in->from = o->ranged ? o->start : 0;
    in->fd = is_stdin(name) ? STDIN_FILENO : open_file(name);
    if (in->fd < 0)
        return refused(name, AHEAD_IO);
    if (in->fd == STDIN_FILENO && !o->ranged)
        in->start = lseek(in->fd, 0, SEEK_CUR);
    in->began_ns = now_ns();
    st = open_bytes(&src, in->fd, o);
    if (!st)
        st = decode(&src, o, &in->decoded);
    if (st)
        return refused(name, st);
    if (src.ops->remaining)
        in->size = src.ops->remaining(src.ctx);
    st = ahead_open(&in->stream, src, &o->stream);
    return !st || refused(name, st);
}

/* The library leaves the descriptor where it stood; whoever shares our standard
 * input expects that what was read is gone.  `delivered` bytes were; how many
 * encoded ones that took is known at the end, and where a fault is. */
static void leave_stdin(const struct input *in, uint64_t delivered, const struct ahead_error *end)
{
    if (in->start < 0)
        return;
    if (!in->decoded)
        lseek(in->fd, in->start + (off_t)delivered, SEEK_SET);
    else if (end && end->status == AHEAD_EOF)
        lseek(in->fd, 0, SEEK_END);
    else if (end && end->source_offset != UINT64_MAX)
        lseek(in->fd, in->start + (off_t)end->source_offset, SEEK_SET);
}

/* A person looks for a place in the file; the library counts from the start of
 * the range, also in its text. */
static struct ahead_error in_file(const struct input *in, const struct ahead_error *end)
{
    struct ahead_error err = *end;

    if (in->from == 0 || end->source_offset == UINT64_MAX)
        return err;
    err.source_offset += in->from;
    snprintf(err.text, sizeof err.text, "in the input from byte %" PRIu64 " on: %.140s", in->from,
             end->text);
    return err;
}

bool input_end(const struct input *in, const struct ahead_error *end, enum ahead_status closed)
{
    const struct ahead_error placed = in_file(in, end);
    const struct ahead_error not_closed = {
        .status = closed,
        .offset = end->offset,
        .source_offset = UINT64_MAX,
        .text = "the input could not be closed",
    };

    leave_stdin(in, end->offset, end);
    if (end->status != AHEAD_EOF)
        report_error(in->name, &placed);
    else if (closed)
        report_error(in->name, &not_closed);
    return end->status == AHEAD_EOF && !closed;
}

bool input_close(struct input *in, enum ahead_status st)
{
    struct ahead_error end = *ahead_error(in->stream);

    end.status = st;
    end.offset = ahead_tell(in->stream);
    return input_end(in, &end, ahead_close(in->stream));
}

void input_drop(struct input *in)
{
    leave_stdin(in, ahead_tell(in->stream), NULL);
    ahead_close(in->stream);
}

enum outcome input_each(char *const *names, int count,
                        enum outcome (*one)(void *ctx, const char *name), void *ctx)
{
    enum outcome worst = GOOD;

    for (int i = 0; i < count && worst != BAD_OUTPUT; i++) {
        enum outcome outcome = one(ctx, names[i]);

        if (outcome > worst)
            worst = outcome;
    }
    return worst;
}
