/* SPDX-License-Identifier: Apache-2.0 */
/* input.h - a file, or standard input, as a stream: a part of it, decoded. */
#ifndef AHEAD_TOOL_INPUT_H
#define AHEAD_TOOL_INPUT_H

#include <stdbool.h>
#include <sys/stat.h>

#include <ahead/ahead.h>

#include "options.h"
#include "output.h"

enum input_format { INPUT_AUTO, INPUT_PLAIN, INPUT_LZ4_FRAME, INPUT_LZ4_BLOCK };

/* How an input is to be read.  All zero is complete, as for the library. */
struct input_options {
    struct ahead_options stream;
    enum input_format format;
    struct ahead_lz4_options lz4;
    const char *dict;   /* the name of its file; NULL: none */
    bool ranged;        /* only these bytes, before they are decoded: */
    uint64_t start;     /* from the file's beginning */
    uint64_t length;    /* UINT64_MAX: to the end */
    const char *index;  /* the name of the file that knows the range; NULL: none */
    bool of_index;      /* of that, */
    uint64_t partition; /* this one, from 0 */
};

/* The names of these options, for a command's list: which bytes, and all. */
/* clang-format off */
#define INPUT_PART_OPTIONS                                                                         \
    { "range", required_argument, NULL, OPTION_RANGE },                                            \
    { "index", required_argument, NULL, OPTION_INDEX },                                            \
    { "partition", required_argument, NULL, OPTION_PARTITION }
#define INPUT_OPTIONS                                                                              \
    INPUT_PART_OPTIONS,                                                                            \
    { "format", required_argument, NULL, OPTION_FORMAT },                                          \
    { "compat", no_argument, NULL, OPTION_COMPAT },                                                \
    { "dict", required_argument, NULL, OPTION_DICT },                                              \
    { "dict-id", required_argument, NULL, OPTION_DICT_ID },                                        \
    { "max-block", required_argument, NULL, OPTION_MAX_BLOCK },                                    \
    { "buffer", required_argument, NULL, OPTION_BUFFER },                                          \
    { "sync", no_argument, NULL, OPTION_SYNC }
/* clang-format on */

/* Take one of them.  false: its value is wrong, which has been reported. */
bool input_option(struct input_options *o, const char *command, int code, const char *value);

/* The name of a format.  false: it is none. */
bool input_format(enum input_format *format, const char *name);

/* All options are there: whether each of the inputs can be read so.  Reads the
 * dictionary, and the index, which gives the range; the dictionary is kept in
 * memory that is never freed.  EXIT_WELL; else the exit code, reported. */
int input_prepare(struct input_options *o, const char *command, char *const *names, int count);

/* Whether the output is none of the inputs.  Asked before it is truncated.
 * false: reported as usage. */
bool input_check_output(const struct output *out, const char *command, char *const *names,
                        int count);

struct input {
    const char *name;  /* "-": standard input */
    int fd;            /* the stream's, until it is closed */
    uint64_t size;     /* UINT64_MAX: not known */
    uint64_t from;     /* where in the file it begins: the start of a range */
    off_t start;       /* where standard input stood; -1: it is none, or cannot be sought */
    bool decoded;      /* what the stream delivers are not the bytes of the file */
    uint64_t began_ns; /* when it was open, and before its format was looked at */
    struct ahead_stream *stream;
};

/* Open it.  false: reported. */
bool input_open(struct input *in, const char *name, const struct input_options *o);

/* Close it; `st` is what ended the reading.  false: the input was at fault,
 * which has been reported. */
bool input_close(struct input *in, enum ahead_status st);

/* The same when a reader had the stream: `end` is what ended it, `closed` what
 * its close returned. */
bool input_end(const struct input *in, const struct ahead_error *end, enum ahead_status closed);

/* Close it, whatever it was that made the rest of no use. */
void input_drop(struct input *in);

/* How one of several inputs went: reported, if it was not GOOD.  An output that
 * failed makes all else pointless. */
enum outcome { GOOD, BAD_INPUT, BAD_OUTPUT };

/* Do the same with each of them in turn, and leave out none but behind a
 * BAD_OUTPUT.  Returns the worst. */
enum outcome input_each(char *const *names, int count,
                        enum outcome (*one)(void *ctx, const char *name), void *ctx);

#endif
