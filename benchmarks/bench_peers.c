/* SPDX-License-Identifier: Apache-2.0 */
/* bench_peers.c - what people take instead, against a stream in the process.
 *
 *   front   programs in front of a reader, through a pipe: `lz4 -dc`, `mbuffer`, `cat`, FFmpeg's
 *           async protocol, htslib's files
 *   spark   Spark's ReadAheadInputStream over an LZ4Block file, in a virtual machine that stays
 *
 * One that is not installed is skipped, and it says so.  AHEAD_BENCH_MIB (256) is the size of the
 * input, decoded.  AHEAD_BENCH_SPARK is the folder of Spark's jars. */
#include "support/files.h"
#include "support/measure.h"

#include <ahead/ahead.h>
#include <criterion/criterion.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
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
    else if (p->format == AHEAD_FORMAT_LZ4_BLOCK)
        cr_assert(ahead_source_lz4_block(&src, src, NULL) == AHEAD_OK);
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

static bool is_installed(const char *program)
{
    char look[128];

    snprintf(look, sizeof look, "command -v %s > /dev/null", program);
    if (system(look) == 0)
        return true;
    printf("SKIPPED: %s is not installed\n", program);
    return false;
}

/* The first way is ours. */
static void print_ways(const struct table *t, uint64_t bytes)
{
    printf("%s, %.0f MiB\n", t->name, (double)bytes / (1 << 20));
    for (int i = 0; i < (int)t->n; i++) {
        struct figure r = wall_ratio(t, i, 0, -1, -1);

        cr_assert(t->sum[i] == t->sum[0], "%s came to other bytes", t->ways[i].name);
        printf("  %-22s %8.1f ms  %6.3f [%6.3f, %6.3f]\n", t->ways[i].name,
               wall_of(t, i).median * 1e3, r.median, r.low, r.high);
        record("peers", t->name, t->ways[i].name, r, "ratio");
    }
    fflush(stdout);
}

static void
cell(const char *program, const char *command, const struct bench_file *f, enum ahead_format format)
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

    if (!is_installed(program))
        return;
    measure(&t, program, ways, 3, ROUNDS);
    print_ways(&t, f->bytes);
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
    /* Bytes pass as samples of sound, which are left as they are. */
    cell("ffmpeg", "ffmpeg -nostdin -v error -f u8 -i async:file:%s -c copy -f u8 pipe:1", &plain,
         AHEAD_FORMAT_PLAIN);
    cell("htsfile", "htsfile --copy %s -", &plain, AHEAD_FORMAT_PLAIN);
    remove_file(&plain);
    remove_file(&frame);
}

/* ---- a class of another machine ---- */

struct java {
    pid_t pid;
    FILE *to, *from;
};

static struct java start_java(const char *jars, const struct bench_file *f)
{
    struct java j = { .pid = -1 };
    char class_path[512], values[32];
    int to[2], from[2];

    snprintf(class_path, sizeof class_path, "%s/*", jars);
    snprintf(values, sizeof values, "%llu", (unsigned long long)(f->bytes / 4));
    cr_assert(pipe(to) == 0 && pipe(from) == 0);
    j.pid = fork();
    if (j.pid == 0) {
        dup2(to[0], STDIN_FILENO);
        dup2(from[1], STDOUT_FILENO);
        close(to[0]);
        close(to[1]);
        close(from[0]);
        close(from[1]);
        execlp("java", "java", "-cp", class_path, "--add-opens=java.base/java.nio=ALL-UNNAMED",
               "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
               "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED", PEERS_DIR "/ReadAhead.java", f->path,
               values, (char *)NULL);
        _exit(127);
    }
    close(to[0]);
    close(from[1]);
    j.to = fdopen(to[1], "w");
    j.from = fdopen(from[0], "r");
    cr_assert(j.pid > 0 && j.to && j.from);
    return j;
}

static void stop_java(struct java *j)
{
    int status;

    fclose(j->to);
    fclose(j->from);
    cr_assert(waitpid(j->pid, &status, 0) == j->pid && status == 0);
}

static uint64_t ask(struct java *j, const char *word)
{
    unsigned long long sum = 0;

    fprintf(j->to, "%s\n", word);
    fflush(j->to);
    cr_assert(fscanf(j->from, "%llu", &sum) == 1, "the Java program has ended");
    return sum;
}

static uint64_t spark_ahead(void *java)
{
    return ask(java, "ahead");
}

static uint64_t spark_plain(void *java)
{
    return ask(java, "plain");
}

Test(peers, spark)
{
    static struct table t;
    const char *jars = getenv("AHEAD_BENCH_SPARK");
    uint64_t bytes = size_from_env("AHEAD_BENCH_MIB", 256) << 20;
    struct bench_file f;
    struct peer ours;
    struct java java;
    struct way ways[] = {
        { "stream in the process", in_process, &ours },
        { "ReadAheadInputStream", spark_ahead, &java },
        { "Spark without it", spark_plain, &java },
    };

    if (!jars)
        printf("SKIPPED: AHEAD_BENCH_SPARK does not say where Spark's jars are\n");
    if (!jars || !is_installed("java"))
        return;
    f = make_encoded(bytes, AHEAD_FORMAT_LZ4_BLOCK, NULL);
    ours = (struct peer){ .path = f.path, .format = AHEAD_FORMAT_LZ4_BLOCK };
    signal(SIGPIPE, SIG_IGN);
    java = start_java(jars, &f);
    print_machine();
    for (unsigned i = 0; i < 10; i++) { /* until it is compiled */
        spark_ahead(&java);
        spark_plain(&java);
    }
    measure(&t, "spark", ways, 3, ROUNDS);
    stop_java(&java);
    print_ways(&t, bytes);
    remove_file(&f);
}
