/* SPDX-License-Identifier: Apache-2.0 */
/* 03_existing_parser.c - decompress in the background, under a parser that takes a FILE. */
#include <ahead/ahead.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What you have already: it adds up a column of a table, and knows of nothing but stdio. */
static bool add_up(FILE *table, unsigned long *lines, double *sum)
{
    char *line = NULL;
    size_t cap = 0;

    while (getline(&line, &cap, table) >= 0) {
        char *comma = strchr(line, ','), *end;
        double value = comma ? strtod(comma + 1, &end) : 0;

        if (comma && end != comma + 1) {
            *sum += value;
            ++*lines;
        }
    }
    free(line);
    return !ferror(table);
}

int main(int argc, char **argv)
{
    struct ahead_source src;
    struct ahead_stream *s;
    unsigned long lines = 0;
    double sum = 0;
    FILE *table;
    bool good;

    if (argc != 2) {
        fprintf(stderr, "usage: %s TABLE, with lines of `name,value`, as it is or in LZ4\n",
                argv[0]);
        return 2;
    }
    if (ahead_source_path(&src, argv[1]) || ahead_source_detect(&src, src, NULL, NULL) ||
        ahead_open(&s, src, NULL) || ahead_stdio_open(&table, s)) {
        perror(argv[1]);
        return 1;
    }

    /* Where fopen() was; the rest is as before. */
    good = add_up(table, &lines, &sum);
    printf("%lu lines, sum %g\n", lines, sum);
    if (!good) {
        perror(argv[1]);
        (void)fclose(table); /* would say the same again */
    } else if (fclose(table)) {
        perror(argv[1]);
        good = false;
    }
    if (fflush(stdout)) {
        perror("standard output");
        return 1;
    }
    return good ? 0 : 1;
}
