/* SPDX-License-Identifier: Apache-2.0 */
/* options.c - getopt_long() with our words. */
#include "options.h"

#include "report.h"
#include "size.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>

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

static bool parse(const char *text, struct bounds within, uint64_t *value)
{
    uint64_t n;

    if (!size_parse(text, strlen(text), &n) || n < within.least || n > within.most)
        return false;
    *value = n;
    return true;
}

bool options_size(const char *command, const char *name, const char *text, struct bounds within,
                  uint64_t *value)
{
    if (parse(text, within, value))
        return true;
    report_usage(command, "%s takes a size from %s to %s, as 256K, not '%s'", name,
                 within.least_text, within.most_text, text);
    return false;
}

bool options_number(const char *command, const char *name, const char *text, struct bounds within,
                    uint64_t *value)
{
    size_t len = strlen(text);

    if (len > 0 && isdigit((unsigned char)text[len - 1]) && parse(text, within, value))
        return true;
    report_usage(command, "%s takes a number from %s to %s, not '%s'", name, within.least_text,
                 within.most_text, text);
    return false;
}
