/* SPDX-License-Identifier: Apache-2.0 */
/* options.c - getopt_long() with our words. */
#include "options.h"

#include "report.h"

#include <stddef.h>

int options_next(int argc, char **argv, const char *letters, const struct option *names)
{
    int code;

    opterr = 0;
    code = getopt_long(argc, argv, letters, names, NULL); /* NOLINT(concurrency-mt-unsafe) */
    if (code == ':')
        report_usage(argv[0], "%s needs a value", argv[optind - 1]);
    else if (code == '?' && optopt >= OPTION_HELP)
        report_usage(argv[0], "%s takes no value", argv[optind - 1]);
    else if (code == '?' && optopt)
        report_usage(argv[0], "there is no option -%c", optopt);
    else if (code == '?')
        report_usage(argv[0], "there is no option %s", argv[optind - 1]);
    return code == ':' ? '?' : code;
}
