/* SPDX-License-Identifier: Apache-2.0 */
/* test_status.c - names, version, and that old programs keep their numbers. */
#include "support/expect.h"

#include <stdio.h>
#include <string.h>

static const struct {
    enum ahead_status status;
    int number;
    const char *name;
} statuses[] = {
    { AHEAD_OK, 0, "OK" },
    { AHEAD_EOF, 1, "EOF" },
    { AHEAD_TRUNCATED, 2, "TRUNCATED" },
    { AHEAD_CORRUPT, 3, "CORRUPT" },
    { AHEAD_LIMIT, 4, "LIMIT" },
    { AHEAD_IO, 5, "IO" },
    { AHEAD_CANCELLED, 6, "CANCELLED" },
    { AHEAD_TIMEDOUT, 7, "TIMEDOUT" },
    { AHEAD_NOMEM, 8, "NOMEM" },
    { AHEAD_INVALID, 9, "INVALID" },
    { AHEAD_UNSUPPORTED, 10, "UNSUPPORTED" },
};

Test(status, names_and_numbers_stay)
{
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++) {
        expect_int(statuses[i].status, statuses[i].number);
        expect_str(ahead_status_name(statuses[i].status), statuses[i].name);
    }
}

Test(status, unknown_number_has_a_name_too)
{
    expect_str(ahead_status_name((enum ahead_status)11), "?");
    expect_str(ahead_status_name((enum ahead_status)99), "?");
}

Test(status, version_of_library_is_that_of_headers)
{
    char version[32];

    snprintf(version, sizeof version, "%d.%d.%d", AHEAD_VERSION / 10000, AHEAD_VERSION / 100 % 100,
             AHEAD_VERSION % 100);
    expect_str(ahead_version(), version);
}
