/* SPDX-License-Identifier: Apache-2.0 */
/* input.c - a file, or standard input, as a stream. */
#include "input.h"

#include "report.h"
#include "size.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MAX_BUFFER_BYTES ((uint64_t)1 << 30)

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

static bool parse_buffer(struct input_options *o, const char *text)
{
    uint64_t bytes;

    if (!size_parse(text, strlen(text), &bytes) || bytes == 0 || bytes > MAX_BUFFER_BYTES)
        return false;
    o->stream.buffer_bytes = (size_t)bytes;
    return true;
}

bool input_option(struct input_options *o, const char *command, int code, const char *value)
{
    switch (code) {
    case OPTION_SYNC: o->stream.flags |= AHEAD_SYNC; return true;
    case OPTION_BUFFER:
        if (parse_buffer(o, value))
            return true;
        report_usage(command, "--buffer takes a size from 1 to 1G, as 256K, not '%s'", value);
        return false;
    case OPTION_RANGE:
        if (parse_range(o, value))
            return true;
        report_usage(command, "--range takes START:LEN or START:, as 1M:64K, not '%s'", value);
        return false;
    }
    return false;
}

static bool is_stdin(const char *name)
{
    return strcmp(name, "-") == 0;
}

bool input_stat(const char *name, struct stat *st)
{
    return !(is_stdin(name) ? fstat(STDIN_FILENO, st) : stat(name, st));
}

bool input_check(const struct input_options *o, const char *command, char *const *names, int count)
{
    struct stat st;

    for (int i = 0; i < count; i++) {
        if (!o->ranged || !input_stat(names[i], &st))
            continue; /* what cannot be opened fails when it is its turn */
        if (S_ISREG(st.st_mode) || S_ISBLK(st.st_mode) || S_ISDIR(st.st_mode))
            continue;
        report_usage(command, "--range needs a file that can be sought, and '%s' is none",
                     names[i]);
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

static enum ahead_status
open_source(struct ahead_source *src, int fd, const struct input_options *o)
{
    unsigned flags = fd == STDIN_FILENO ? 0 : AHEAD_FD_CLOSE;

    if (o->ranged)
        return ahead_source_range(src, fd, o->start, o->length, flags);
    return ahead_source_fd(src, fd, flags);
}

/* errno is set, also by the library. */
static bool refused(const struct input *in, enum ahead_status st)
{
    report_errno(in->name, st, 0, "open");
    return false;
}

bool input_open(struct input *in, const char *name, const struct input_options *o)
{
    struct ahead_source src;
    enum ahead_status st;

    *in = (struct input){ .name = name, .size = UINT64_MAX, .start = -1 };
    in->fd = is_stdin(name) ? STDIN_FILENO : open_file(name);
    if (in->fd < 0)
        return refused(in, AHEAD_IO);
    if (in->fd == STDIN_FILENO && !o->ranged)
        in->start = lseek(in->fd, 0, SEEK_CUR);
    st = open_source(&src, in->fd, o);
    if (st)
        return refused(in, st);
    if (src.ops->remaining)
        in->size = src.ops->remaining(src.ctx);
    st = ahead_open(&in->stream, src, &o->stream);
    return st ? refused(in, st) : true;
}

/* The library leaves the descriptor where it stood; whoever shares our standard
 * input expects that what was read is gone. */
static void leave_stdin(const struct input *in)
{
    if (in->start >= 0)
        lseek(in->fd, in->start + (off_t)ahead_tell(in->stream), SEEK_SET);
}

bool input_close(struct input *in, enum ahead_status st)
{
    struct ahead_error err = {
        .offset = ahead_tell(in->stream),
        .source_offset = UINT64_MAX,
        .text = "the input could not be closed",
    };

    if (st != AHEAD_EOF)
        report_error(in->name, ahead_error(in->stream));
    leave_stdin(in);
    err.status = ahead_close(in->stream);
    if (st == AHEAD_EOF && err.status)
        report_error(in->name, &err);
    return st == AHEAD_EOF && !err.status;
}

void input_drop(struct input *in)
{
    leave_stdin(in);
    ahead_close(in->stream);
}
