/* SPDX-License-Identifier: Apache-2.0 */
/* 01_sum_i32.c - add up the big-endian 32-bit integers of a file. */
#include <ahead/ahead.h>

#include <inttypes.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    struct ahead_stream *s;
    struct ahead_cursor c;
    enum ahead_status st;
    uint64_t count = 0;
    int64_t sum = 0;
    int32_t v;

    if (argc != 2) {
        fprintf(stderr, "usage: %s FILE\n", argv[0]);
        return 2;
    }
    if (ahead_open_path(&s, argv[1], NULL)) {
        perror(argv[1]);
        return 1;
    }

    c = ahead_cursor_begin(s); /* a copy, for speed: its fields live in registers */
    while (!(st = ahead_cursor_read_i32_be(&c, &v))) {
        sum += v;
        count++;
    }
    ahead_cursor_end(&c);

    /* What was read is good, also if an error or a cut integer comes behind it. */
    printf("%" PRIu64 " integers, sum %" PRId64 "\n", count, sum);
    if (st != AHEAD_EOF)
        fprintf(stderr, "%s: %s, after %" PRIu64 " bytes: %s\n", argv[1], ahead_status_name(st),
                ahead_tell(s), ahead_error(s)->text);
    if (ahead_close(s) && st == AHEAD_EOF) {
        fprintf(stderr, "%s: could not be closed\n", argv[1]);
        st = AHEAD_IO;
    }
    if (fflush(stdout)) {
        perror("standard output");
        return 1;
    }
    return st == AHEAD_EOF ? 0 : 1;
}
