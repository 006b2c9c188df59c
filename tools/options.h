/* SPDX-License-Identifier: Apache-2.0 */
/* options.h - getopt_long() with our words. */
#ifndef AHEAD_TOOL_OPTIONS_H
#define AHEAD_TOOL_OPTIONS_H

#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>

/* What long options return.  No letters: getopt_long() would then name the
 * letter when the word is at fault. */
enum option_code {
    OPTION_HELP = 256,
    OPTION_JSON,
    OPTION_PROGRESS,
    OPTION_BUFFER,
    OPTION_RANGE,
    OPTION_INDEX,
    OPTION_PARTITION,
    OPTION_SYNC,
    OPTION_FORMAT,
    OPTION_COMPAT,
    OPTION_DICT,
    OPTION_DICT_ID,
    OPTION_MAX_BLOCK,
    OPTION_MAX_RECORD,
    OPTION_MAX_FRAME,
    OPTION_FIELDS,
    OPTION_DUMP,
    OPTION_RAW,
    OPTION_DECODE,
    OPTION_BUDGET,
    OPTION_THREADS,
    OPTION_OPEN,
    OPTION_PLOT,
    OPTION_ROUNDS,
    OPTION_SIZE
};

/* The next option of a command, -1 behind the last, '?' once a wrong one has
 * been reported.  `letters` begins with a colon. */
int options_next(int argc, char **argv, const char *letters, const struct option *names);

/* A value's bounds, and how they are called: as "1", "1G". */
struct bounds {
    uint64_t least, most;
    const char *least_text, *most_text;
};

/* Take the value of option `name`: a size, as 256K; or a number, without a
 * unit.  false: it is none or out of bounds, which has been reported. */
bool options_size(const char *command, const char *name, const char *text, struct bounds within,
                  uint64_t *value);
bool options_number(const char *command, const char *name, const char *text, struct bounds within,
                    uint64_t *value);

#endif
