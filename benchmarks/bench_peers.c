/* SPDX-License-Identifier: Apache-2.0 */
/* bench_peers.c - programs that people put in front of a reader instead: `lz4 -dc` and `mbuffer`,
 * through a pipe, against a stream in the process.  One that is not installed is skipped, and it
 * says so.
 *
 * AHEAD_BENCH_MIB (256) is the size of the input, decoded. */
#include "support/files.h"
#include "support/measure.h"

#include <ahead/ahead.h>
#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROUNDS = 15, PIECE = 64 * 1024 };

struct peer {
    const char *path;
    const char *command; /* "%s" is the file */
    enum ahead_format format;
    bool by_stream; /* what comes out of the pipe is read by a stream, too */
};

static uint64_t sum_of(const uint8_t *p, size_t n)
{
    uint64_t sum = 0;

    for (size_t i = 0; i + 4 <= n; i += 4)
        sum += ahead_load_u32_be(p + i);
    return sum;
}

static uint64_t sum_stream(struct ahead_source src)
{
    struct ahead_stream *s;
    enum ahead_status st;
    const uint8_t *p;
    uint64_t sum = 0;
    size_t n;

    cr_assert(ahead_open(&s, src, NULL) == AHEAD_OK);
    while (!(st = ahead_peek(s, 4, &p, &n))) {
        n = n - n % 4 < PIECE ? n - n % 4 : PIECE;
        sum += sum_of(p, n);
        ahead_consume(s, n);
    }
    cr_assert(st == AHEAD_EOF && ahead_close(s) == AHEAD_OK);
    return sum;
}

static uint64_t in_process(void *arg)
{
    struct peer *p = arg;
    struct ahead_source src;

    cr_assert(ahead_source_path(&src, p->path) == AHEAD_OK);
    if (p->format == AHEAD_FORMAT_LZ4_FRAME)
        cr_assert(ahead_source_lz4_frame(&src, src, NULL) == AHEAD_OK);
    return sum_stream(src);
}

/* A pipe gives what it has: numbers are not to be cut. */
static size_t read_piece(int fd, uint8_t *piece)
{
    size_t have = 0;
    ssize_t n;

    while (have < PIECE && (n = read(fd, piece + have, PIECE - have)) > 0)
        have += (size_t)n;
    return have;
}

static uint64_t by_pipe(void *arg)
{
    static uint8_t piece[PIECE];
    struct peer *p = arg;
    char command[512];
    uint64_t sum = 0;
    size_t n;
    FILE *in;

    snprintf(command, sizeof command, p->command, p->path);
    in = popen(command, "r");
    cr_assert(in);
    if (p->by_stream) {
        struct ahead_source src;

        cr_assert(ahead_source_fd(&src, fileno(in), 0) == AHEAD_OK);
        sum = sum_stream(src);
    } else {
        while ((n = read_piece(fileno(in), piece)) > 0)
            sum += sum_of(piece, n);
    }
    cr_assert(pclose(in) == 0, "%s failed", command);
    return sum;
}

static void cell(const char *program, const char *command, const struct bench_file *f,
                 enum ahead_format format)
{
    static struct table t;
    struct peer ours = { .path = f->path, .format = format };
    struct peer plain = { .path = f->path, .command = command };
    struct peer streamed = { .path = f->path, .command = command, .by_stream = true };
    const struct way ways[] = {
        { "stream in the process", in_process, &ours },
        { "pipe, read", by_pipe, &plain },
        { "pipe, stream", by_pipe, &streamed },
    };
    char look[128];

    snprintf(look, sizeof look, "command -v %s > /dev/null", program);
    if (system(look)) {
        printf("SKIPPED: %s is not installed\n", program);
        return;
    }
    measure(&t, program, ways, 3, ROUNDS);
    cr_assert(t.sum[1] == t.sum[0] && t.sum[2] == t.sum[0], "%s came to other bytes", program);
    printf("%s, %.0f MiB\n", program, (double)f->bytes / (1 << 20));
    for (int i = 0; i < 3; i++) {
        struct figure r = wall_ratio(&t, i, 0, -1, -1);

        printf("  %-22s %8.1f ms  %6.3f [%6.3f, %6.3f]\n", ways[i].name,
               wall_of(&t, i).median * 1e3, r.median, r.low, r.high);
        record("peers", program, ways[i].name, r, "ratio");
    }
    fflush(stdout);
}

Test(peers, in_front_of_a_reader)
{
    uint64_t bytes = size_from_env("AHEAD_BENCH_MIB", 256) << 20;
    struct bench_file plain = make_file(bytes);
    struct bench_file frame =
        make_encoded(bytes, AHEAD_FORMAT_LZ4_FRAME,
                     &(struct ahead_lz4_encode_options){ .independent_blocks = true });

    print_machine();
    cell("lz4", "lz4 -dc %s", &frame, AHEAD_FORMAT_LZ4_FRAME);
    cell("mbuffer", "mbuffer -q -i %s", &plain, AHEAD_FORMAT_PLAIN);
    cell("cat", "cat %s", &plain, AHEAD_FORMAT_PLAIN);
    remove_file(&plain);
    remove_file(&frame);
}
