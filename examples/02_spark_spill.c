/* SPDX-License-Identifier: Apache-2.0 */
/* 02_spark_spill.c - check a spill of Apache Spark, compressed or not, and count its records. */
#include <ahead/ahead.h>

#include <inttypes.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    struct ahead_spill_reader *r;
    struct ahead_spill_record rec;
    struct ahead_source src;
    struct ahead_stream *s;
    enum ahead_status st;
    uint64_t records = 0, bytes = 0;
    uint32_t longest = 0;

    if (argc != 2) {
        fprintf(stderr, "usage: %s FILE\n", argv[0]);
        return 2;
    }
    /* Each takes the one before, whatever comes of it: there is one thing to close, or none. */
    if (ahead_source_path(&src, argv[1]) || ahead_source_detect(&src, src, NULL, NULL) ||
        ahead_open(&s, src, NULL) || ahead_spill_reader_open(&r, s, NULL)) {
        perror(argv[1]);
        return 1;
    }

    while (!(st = ahead_spill_next(r, &rec))) {
        records++;
        bytes += rec.len;
        if (rec.len > longest)
            longest = rec.len;
    }
    printf("%" PRIu64 " of %" PRIu32 " records, %" PRIu64 " bytes, the longest %" PRIu32 "\n",
           records, ahead_spill_count(r), bytes, longest);
    if (st != AHEAD_EOF)
        fprintf(stderr, "%s: %s: %s\n", argv[1], ahead_status_name(st), ahead_spill_error(r)->text);
    if (ahead_spill_reader_close(r) && st == AHEAD_EOF) {
        fprintf(stderr, "%s: could not be closed\n", argv[1]);
        st = AHEAD_IO;
    }
    if (fflush(stdout)) {
        perror("standard output");
        return 1;
    }
    return st == AHEAD_EOF ? 0 : 1;
}
