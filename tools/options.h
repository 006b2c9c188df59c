/* SPDX-License-Identifier: Apache-2.0 */
/* options.h - getopt_long() with our words. */
#ifndef AHEAD_TOOL_OPTIONS_H
#define AHEAD_TOOL_OPTIONS_H

#include <getopt.h>

/* What long options return.  No letters: getopt_long() would then name the
 * letter when the word is at fault. */
enum option_code {
    OPTION_HELP = 256,
    OPTION_JSON,
    OPTION_PROGRESS,
    OPTION_BUFFER,
    OPTION_RANGE,
    OPTION_SYNC
};

/* The next option of a command, -1 behind the last, '?' once a wrong one has
 * been reported.  `letters` begins with a colon. */
int options_next(int argc, char **argv, const char *letters, const struct option *names);

#endif
