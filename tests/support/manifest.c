/* SPDX-License-Identifier: Apache-2.0 */
/* manifest.c - the files of tests/data, and what MANIFEST.tsv says of them. */
#include "support/manifest.h"

#include <stdio.h>

enum { MOST_ROWS = 600, COLUMNS = 9 };

static struct row rows[MOST_ROWS];
static size_t rows_len;

const char *data_path(const char *file)
{
    static char path[512];

    snprintf(path, sizeof path, "%s/%s", TESTS_DATA, file);
    return path;
}

struct bytes data_load(const char *file)
{
    FILE *in = fopen(data_path(file), "rb");
    struct bytes b = { .p = NULL };
    size_t n;

    expect_note("%s", file);
    expect_true(in);
    while ((n = fread(bytes_reserve(&b, 65536), 1, 65536, in)) > 0)
        b.len += n;
    fclose(in);
    expect_no_note();
    return b;
}

/* What the rows point into. */
static struct bytes load_rows(void)
{
    struct bytes text = data_load("MANIFEST.tsv");
    char *line, *lines;

    bytes_add(&text, "", 1);
    lines = (char *)text.p;
    strsep(&lines, "\n"); /* the header */
    for (rows_len = 0; (line = strsep(&lines, "\n")) && *line; rows_len++) {
        const char **field = &rows[rows_len].file;

        expect_true(rows_len < MOST_ROWS);
        for (unsigned i = 0; i < COLUMNS; i++) {
            field[i] = strsep(&line, "\t");
            expect_true(field[i]);
        }
    }
    return text;
}

const char *row_option(const struct row *row, const char *key)
{
    static char value[64];
    size_t len = strlen(key);

    for (const char *at = row->options; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (!strncmp(at, key, len) && at[len] == '=') {
            snprintf(value, sizeof value, "%.*s", (int)strcspn(at + len + 1, ","), at + len + 1);
            return value;
        }
    return NULL;
}

uint64_t row_number(const struct row *row, const char *key, uint64_t otherwise)
{
    const char *value = row_option(row, key);

    return value ? strtoull(value, NULL, 10) : otherwise;
}

static bool has_compat_row(const struct row *row)
{
    for (size_t i = 0; i < rows_len; i++)
        if (!strcmp(rows[i].file, row->file) && !strcmp(rows[i].format, row->format) &&
            !strcmp(rows[i].options, row->options) && !strcmp(rows[i].mode, "compat"))
            return true;
    return false;
}

void manifest_try(const char *format, enum rows which, size_t how_many,
                  void (*try)(const struct row *row, bool compat))
{
    struct bytes text = load_rows();
    size_t tried = 0;

    for (size_t i = 0; i < rows_len; i++) {
        const struct row *row = &rows[i];

        if (strcmp(row->format, format) || (which == ROWS_INDEXED) != !!row_option(row, "index"))
            continue;
        tried++;
        if (!strcmp(row->mode, "strict"))
            try(row, false);
        if (!strcmp(row->mode, "compat") || !has_compat_row(row))
            try(row, true);
    }
    expect_size(tried, how_many);
    free(text.p);
}
