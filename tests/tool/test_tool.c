/* SPDX-License-Identifier: Apache-2.0 */
/* test_tool.c - sizes and times as people write them, strings for programs, and who is to blame. */
#include "support/expect.h"

#include "json.h"
#include "size.h"
#include "verdict.h"

#include <stdlib.h>
#include <string.h>

Test(tool, a_size_is_a_number_and_a_unit)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {
        { "0", 0 },
        { "1", 1 },
        { "007", 7 },
        { "1K", 1024 },
        { "3M", 3145728 },
        { "2G", UINT64_C(2147483648) },
        { "18446744073709551615", UINT64_MAX },
        { "17179869183G", UINT64_MAX - ((UINT64_C(1) << 30) - 1) },
    };

    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        uint64_t bytes = 99;

        expect_note("%s", good[i].text);
        expect_true(size_parse(good[i].text, strlen(good[i].text), &bytes));
        expect_u64(bytes, good[i].bytes);
    }
}

Test(tool, anything_else_is_no_size)
{
    static const char *const bad[] = {
        "",
        "K",
        "1k",
        "1T",
        "1KK",
        "-1",
        "+1",
        " 1",
        "1 ",
        "0x1",
        "1.5",
        "18446744073709551616",
        "99999999999999999999",
        "17179869184G",
        "18014398509481984K",
    };

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        uint64_t bytes = 99;

        expect_note("'%s'", bad[i]);
        expect_true(!size_parse(bad[i], strlen(bad[i]), &bytes));
        expect_u64(bytes, 99);
    }
}

Test(tool, a_size_ends_where_it_is_told)
{
    uint64_t bytes;

    expect_true(size_parse("12K4", 3, &bytes));
    expect_u64(bytes, 12 * 1024);
}

Test(tool, three_digits_are_shown)
{
    static const struct {
        double bytes;
        const char *text;
    } sizes[] = {
        { 0, "0 B" },
        { 1, "1 B" },
        { 1023, "1023 B" },
        { 1023.6, "1.00 KiB" },
        { 1024, "1.00 KiB" },
        { 10234, "9.99 KiB" },
        { 10236, "10.0 KiB" },
        { 1024 * 99.96, "100 KiB" },
        { 1024 * 1023.4, "1023 KiB" },
        { 1024 * 1024 - 1, "1.00 MiB" },
        { 5368709120.0, "5.00 GiB" },
        { 18446744073709551615.0, "16.0 EiB" },
    };
    static const struct {
        uint64_t ns;
        const char *text;
    } times[] = {
        { 0, "0 ns" },
        { 999, "999 ns" },
        { 1000, "1.00 us" },
        { 12345, "12.3 us" },
        { 999499, "999 us" },
        { 999500, "1.00 ms" },
        { 1500000000, "1.50 s" },
        { UINT64_C(7200000000000), "7200 s" },
    };
    char text[SIZE_TEXT];

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        expect_str(size_format(text, sizes[i].bytes), sizes[i].text);
    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        expect_str(time_format(text, times[i].ns), times[i].text);
    expect_str(rate_format(text, 3 << 20, 500000000), "6.00 MiB/s");
    expect_str(rate_format(text, 1, 0), "-");
    expect_true(strlen(rate_format(text, UINT64_MAX, 1)) < SIZE_TEXT);
}

/* What json_text() makes of it, without the object around it. */
static char *as_json(const char *text)
{
    char *made = NULL;
    size_t len;
    struct json j;
    FILE *to = open_memstream(&made, &len);

    json_begin(&j, to);
    json_text(&j, "a", text);
    json_end(&j);
    fclose(to);
    return made;
}

Test(tool, any_bytes_become_a_string)
{
    static const struct {
        const char *text, *json;
    } cases[] = {
        { "", "" },
        { "plain", "plain" },
        { "\"\\", "\\\"\\\\" },
        { "\t\n\x1f", "\\u0009\\u000a\\u001f" },
        { "\xc3\xa9\xe2\x82\xac\xf0\x9f\x99\x82", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x99\x82" },
        { "\x80", "\\ufffd" },                                  /* begins nothing */
        { "\xc3", "\\ufffd" },                                  /* cut */
        { "\xe2\x82", "\\ufffd\\ufffd" },                       /* cut */
        { "\xc3x", "\\ufffdx" },                                /* cut by another */
        { "\xc1\xbf", "\\ufffd\\ufffd" },                       /* overlong */
        { "\xe0\x9f\xbf", "\\ufffd\\ufffd\\ufffd" },            /* overlong */
        { "\xed\xa0\x80", "\\ufffd\\ufffd\\ufffd" },            /* a surrogate */
        { "\xf0\x8f\xbf\xbf", "\\ufffd\\ufffd\\ufffd\\ufffd" }, /* overlong */
        { "\xf4\x90\x80\x80", "\\ufffd\\ufffd\\ufffd\\ufffd" }, /* beyond the last */
        { "\xff", "\\ufffd" },
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *made = as_json(cases[i].text);
        char wanted[80];

        snprintf(wanted, sizeof wanted, "{\"a\":\"%s\"}\n", cases[i].json);
        expect_str(made, wanted);
        free(made);
    }
}

Test(tool, members_are_kept_apart)
{
    char *made = NULL;
    size_t len;
    struct json j;
    FILE *to = open_memstream(&made, &len);

    json_begin(&j, to);
    json_number(&j, "least", 0);
    json_number(&j, "most", UINT64_MAX);
    json_integer(&j, "below", INT64_MIN);
    json_bool(&j, "yes", true);
    json_bool(&j, "no", false);
    json_text(&j, "text", "x");
    json_end(&j);
    json_begin(&j, to);
    json_end(&j);
    fclose(to);
    expect_str(made, "{\"least\":0,\"most\":18446744073709551615,\"below\":"
                     "-9223372036854775808,\"yes\":true,\"no\":false,\"text\":\"x\"}\n{}\n");
    free(made);
}

Test(tool, a_list_has_objects_and_something_behind_it)
{
    char *made = NULL;
    size_t len;
    struct json j;
    FILE *to = open_memstream(&made, &len);

    json_begin(&j, to);
    json_list_begin(&j, "none");
    json_list_end(&j);
    json_list_begin(&j, "two");
    json_item_begin(&j);
    json_number(&j, "a", 1);
    json_number(&j, "b", 2);
    json_item_end(&j);
    json_item_begin(&j);
    json_item_end(&j);
    json_list_end(&j);
    json_number(&j, "c", 3);
    json_end(&j);
    fclose(to);
    expect_str(made, "{\"none\":[],\"two\":[{\"a\":1,\"b\":2},{}],\"c\":3}\n");
    free(made);
}

/* Of 100 ns: the reader's work, the second thread's wait (-1: there is none). */
static const char *blamed(uint64_t work_ns, int fill_wait_ns)
{
    struct reading r = {
        .elapsed_ns = 100,
        .work_ns = work_ns,
        .stats = {
            .bytes = 1,
            .threads_started = fill_wait_ns >= 0,
            .fill_wait_ns = fill_wait_ns >= 0 ? (uint64_t)fill_wait_ns : 0,
        },
    };

    return verdict_name(verdict(&r));
}

Test(tool, whoever_kept_the_other_waiting_is_the_bottleneck)
{
    expect_str(blamed(20, 0), "source");  /* it got bytes all the time */
    expect_str(blamed(74, 0), "source");  /* 26 of getting, no waiting for room */
    expect_str(blamed(76, 0), "neither"); /* 24 */
    expect_str(blamed(100, 0), "neither");
    expect_str(blamed(99, 25), "neither");
    expect_str(blamed(99, 27), "reader"); /* 1 of getting, 27 of waiting for room */
    expect_str(blamed(99, 99), "reader");
    expect_str(blamed(50, 50), "neither"); /* by turns */
    expect_str(blamed(0, 100), "neither");
}

Test(tool, without_a_second_thread_the_larger_share_is)
{
    expect_str(blamed(37, -1), "source");
    expect_str(blamed(38, -1), "neither");
    expect_str(blamed(62, -1), "neither");
    expect_str(blamed(63, -1), "reader");
}

Test(tool, nothing_read_is_nobodys_fault)
{
    struct reading r = { .elapsed_ns = 100, .work_ns = 0 };

    expect_str(verdict_name(verdict(&r)), "neither");
}
