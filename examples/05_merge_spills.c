/* SPDX-License-Identifier: Apache-2.0 */
/* 05_merge_spills.c - merge sorted spills, all read ahead by two threads within 64 MiB. */
#include <ahead/ahead.h>

#include <inttypes.h>
#include <stdio.h>

enum { MOST_SPILLS = 1000 };

static enum ahead_status
open_spill(struct ahead_spill_reader **out, const char *path, const struct ahead_options *opt)
{
    struct ahead_source src;
    struct ahead_stream *s;
    enum ahead_status st = ahead_source_path(&src, path);

    if (!st)
        st = ahead_source_detect(&src, src, NULL, NULL);
    if (!st)
        st = ahead_open(&s, src, opt);
    return st ? st : ahead_spill_reader_open(out, s, NULL);
}

/* Prints where each record comes from. */
static enum ahead_status print_merged(struct ahead_spill_merge *m, char **paths)
{
    struct ahead_spill_record rec;
    enum ahead_status st;
    size_t from;

    while (!(st = ahead_spill_merge_next(m, &rec, &from)))
        printf("%" PRId64 " %" PRIu32 " %s\n", rec.key_prefix, rec.len, paths[from]);
    if (st != AHEAD_EOF)
        fprintf(stderr, "%s: %s: %s\n", paths[from], ahead_status_name(st),
                ahead_spill_merge_error(m)->text);
    return st;
}

int main(int argc, char **argv)
{
    struct ahead_pool_options limits = { .threads = 2, .byte_budget = 64 << 20 };
    struct ahead_spill_reader *readers[MOST_SPILLS];
    struct ahead_spill_merge *m = NULL;
    struct ahead_options opt = { 0 };
    enum ahead_status st;
    int n = 0;

    if (argc < 2 || argc > 1 + MOST_SPILLS) {
        fprintf(stderr, "usage: %s SPILL...\n", argv[0]);
        return 2;
    }
    if (ahead_pool_open(&opt.pool, &limits)) {
        perror(argv[0]);
        return 1;
    }

    while (n < argc - 1 && !open_spill(&readers[n], argv[n + 1], &opt))
        n++;
    if (n < argc - 1) {
        perror(argv[n + 1]);
        while (n > 0)
            (void)ahead_spill_reader_close(readers[--n]);
        st = AHEAD_IO;
    } else if ((st = ahead_spill_merge_open(&m, readers, (size_t)n, NULL, NULL))) {
        perror(argv[0]); /* the readers have been closed */
    } else {
        st = print_merged(m, argv + 1);
        if (ahead_spill_merge_close(m) && st == AHEAD_EOF)
            st = AHEAD_IO;
    }
    (void)ahead_pool_close(opt.pool); /* nobody uses it any more */
    if (fflush(stdout)) {
        perror("standard output");
        return 1;
    }
    return st == AHEAD_EOF ? 0 : 1;
}
