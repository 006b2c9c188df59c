/* SPDX-License-Identifier: Apache-2.0 */
/* input.h - a file, or standard input, as a stream. */
#ifndef AHEAD_TOOL_INPUT_H
#define AHEAD_TOOL_INPUT_H

#include <stdbool.h>
#include <sys/stat.h>

#include <ahead/ahead.h>

#include "options.h"

/* How an input is to be read.  All zero is complete, as for the library. */
struct input_options {
    struct ahead_options stream;
    bool ranged;            /* only these bytes: */
    uint64_t start, length; /* length UINT64_MAX: to the end */
};

/* The names of these options, for a command's list. */
/* clang-format off */
#define INPUT_OPTIONS                                                                              \
    { "range", required_argument, NULL, OPTION_RANGE },                                            \
    { "buffer", required_argument, NULL, OPTION_BUFFER },                                          \
    { "sync", no_argument, NULL, OPTION_SYNC }
/* clang-format on */

/* Take one of them.  false: its value is wrong, which has been reported. */
bool input_option(struct input_options *o, const char *command, int code, const char *value);

/* Whether each of the inputs can be read so.  false: reported as usage. */
bool input_check(const struct input_options *o, const char *command, char *const *names, int count);

struct input {
    const char *name; /* "-": standard input */
    int fd;           /* the stream's, until it is closed */
    uint64_t size;    /* UINT64_MAX: not known */
    off_t start;      /* where standard input stood; -1: it is none, or cannot be sought */
    struct ahead_stream *stream;
};

/* stat(2) of what `name` means.  false: errno says why. */
bool input_stat(const char *name, struct stat *st);

/* Open it.  false: reported. */
bool input_open(struct input *in, const char *name, const struct input_options *o);

/* Close it; `st` is what ended the reading.  false: the input was at fault,
 * which has been reported. */
bool input_close(struct input *in, enum ahead_status st);

/* Close it, whatever it was that made the rest of no use. */
void input_drop(struct input *in);

#endif
