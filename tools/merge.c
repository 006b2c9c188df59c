/* SPDX-License-Identifier: Apache-2.0 */
/* merge.c - `ahead merge`: sorted spills into one, so many at a time as may be open.
 *
 * More inputs than that are merged in passes.  What a pass leaves for the next
 * one, its runs, lies one behind the other in one file that has no name: so
 * runs take no descriptors, and nothing is left behind however this ends. */
#include "input.h"
#include "output.h"
#include "report.h"
#include "tool.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char help[] =
    "usage: ahead merge [OPTION...] -o OUT FILE...\n"
    "\n"
    "Merge spills of Apache Spark's sorter, each sorted by key prefix, into one, in\n"
    "LZ4Block.  Records with the same prefix come in the order of the FILEs.  Each\n"
    "FILE (-: standard input) may be plain or LZ4Block.\n"
    "\n"
    "  -o OUT             write to this file (-: standard output)\n"
    "  --buffer SIZE      of one of the two buffers of a FILE, at most\n"
    "  --budget SIZE      of all buffers together; 64M by default\n"
    "  --threads N        that read and write; by default, one for each core\n"
    "  --open N           merge so many at a time, 256 by default; more of them in\n"
    "                     passes, by way of nameless files beside OUT\n"
    "  --help             this\n"
    "\n"
    "SIZE takes K, M and G (of 1024).\n"
    "Exit: 0, all was well; 1, a FILE or OUT failed; 2, a wrong call.\n";

/* A sorted spill. */
struct run {
    const char *name;        /* NULL: it is what a pass left, */
    int fd;                  /* in this file, */
    uint64_t offset, length; /* there */
};

struct merge {
    struct input_options input;
    struct ahead_pool_options pool;
    uint64_t most_open;
    struct output out;
    struct run *runs;
    size_t n;
    int old_fd, new_fd; /* of the pass before, and of this one; -1: none */
};

/* ---- options ---- */

static bool take(struct merge *m, const char *command, int code, const char *value)
{
    static const struct bounds budget = { 1, (uint64_t)1 << 44, "1", "16384G" };
    static const struct bounds threads = { 1, 1024, "1", "1024" };
    static const struct bounds open_ones = { 2, 1000000, "2", "1000000" };
    uint64_t n;

    switch (code) {
    case 'o': m->out.path = value; return true;
    case OPTION_BUDGET:
        return options_size(command, "--budget", value, budget, &m->pool.byte_budget);
    case OPTION_OPEN: return options_number(command, "--open", value, open_ones, &m->most_open);
    case OPTION_THREADS:
        if (!options_number(command, "--threads", value, threads, &n))
            return false;
        m->pool.threads = (unsigned)n;
        return true;
    }
    return input_option(&m->input, command, code, value);
}

/* A file that is named twice is read twice; what comes in by one descriptor
 * cannot be.  -1: go on; else the exit code. */
static int check_inputs(const char *command, char *const *names)
{
    int times = 0;

    for (; *names; names++)
        times += strcmp(*names, "-") == 0;
    return times > 1 ? report_usage(command, "standard input, -, is there %d times", times) : -1;
}

/* -1: go on; else the exit code. */
static int parse(struct merge *m, int argc, char **argv)
{
    static const struct option names[] = {
        { "buffer", required_argument, NULL, OPTION_BUFFER },
        { "budget", required_argument, NULL, OPTION_BUDGET },
        { "threads", required_argument, NULL, OPTION_THREADS },
        { "open", required_argument, NULL, OPTION_OPEN },
        { "help", no_argument, NULL, OPTION_HELP },
        { 0 },
    };
    int code;

    while ((code = options_next(argc, argv, ":o:", names)) != -1) {
        if (code == OPTION_HELP) {
            fputs(help, stdout);
            return EXIT_WELL;
        }
        if (code == '?' || !take(m, argv[0], code, optarg))
            return EXIT_USAGE;
    }
    if (!m->out.path)
        return report_usage(argv[0], "it needs -o OUT");
    if (strcmp(m->out.path, "-") == 0)
        m->out.path = NULL;
    if (optind == argc)
        return report_usage(argv[0], "it takes FILEs to be merged");
    return check_inputs(argv[0], argv + optind);
}

static const char *out_name(const struct merge *m)
{
    return m->out.path ? m->out.path : "standard output";
}

/* ---- a file for runs ---- */

/* Where OUT is, if that is a file; else where such files belong. */
static void choose_folder(const struct merge *m, char *folder, size_t size)
{
    const char *path = m->out.path, *slash = path ? strrchr(path, '/') : NULL;
    const char *tmp = getenv("TMPDIR"); /* NOLINT(concurrency-mt-unsafe) */
    struct stat st;

    if (!path || (!stat(path, &st) && !S_ISREG(st.st_mode)))
        snprintf(folder, size, "%s", tmp && *tmp ? tmp : "/tmp");
    else if (slash)
        snprintf(folder, size, "%.*s", (int)(slash - path + 1), path);
    else
        snprintf(folder, size, ".");
}

/* A file without a name; where there are none, one whose name is gone at once.
 * -1: reported. */
static int open_nameless(const struct merge *m)
{
    char path[4096];
    int fd = -1;

    choose_folder(m, path, sizeof path - 16);
#ifdef O_TMPFILE
    fd = open(path, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
#endif
    if (fd < 0) {
        strcat(path, "/.aheadXXXXXX");
        fd = mkostemp(path, O_CLOEXEC);
        if (fd >= 0)
            unlink(path);
    }
    if (fd < 0)
        report_errno(out_name(m), AHEAD_IO, 0, "a file for the runs of a pass");
    return fd;
}

/* ---- readers ---- */

static bool open_range(struct ahead_stream **s, const struct merge *m, const struct run *run)
{
    struct ahead_source src;
    enum ahead_status st = ahead_source_range(&src, run->fd, run->offset, run->length, 0);

    if (!st)
        st = ahead_source_lz4_block(&src, src, NULL);
    if (!st)
        st = ahead_open(s, src, &m->input.stream);
    if (st)
        report_errno(out_name(m), st, 0, "open of a run");
    return !st;
}

static bool open_reader(struct ahead_spill_reader **r, const struct merge *m, const struct run *run)
{
    struct input in = { .stream = NULL };
    enum ahead_status st;

    if (run->name ? !input_open(&in, run->name, &m->input) : !open_range(&in.stream, m, run))
        return false;
    st = ahead_spill_reader_open(r, in.stream, NULL);
    if (st)
        report_errno(run->name ? run->name : out_name(m), st, 0, "open");
    return !st;
}

/* Opens a merge of n runs; *count is of their records.  NULL: reported. */
static struct ahead_spill_merge *
open_merge(const struct merge *m, const struct run *runs, size_t n, uint64_t *count)
{
    struct ahead_spill_reader **readers = calloc(n, sizeof *readers);
    struct ahead_spill_merge *merge = NULL;
    enum ahead_status st = readers ? AHEAD_OK : AHEAD_NOMEM;
    size_t opened = 0;

    *count = 0;
    while (!st && opened < n && open_reader(&readers[opened], m, &runs[opened]))
        *count += ahead_spill_count(readers[opened++]);
    if (!st && opened == n)
        st = ahead_spill_merge_open(&merge, readers, n, NULL, NULL);
    else
        while (opened > 0)
            ahead_spill_reader_close(readers[--opened]);
    free(readers);
    if (st)
        report_errno(out_name(m), st, 0, "merge");
    return merge;
}

/* ---- one merge ---- */

/* What the writer has to say.  Nobody reading OUT is no failure to be told. */
static bool failed_output(const struct merge *m, const struct ahead_error *err)
{
    if (err->status == AHEAD_IO && err->os_errno == EPIPE)
        end_broken_pipe();
    report_error(out_name(m), err);
    return false;
}

/* A spill of `count` records in LZ4Block, into `fd`, which is the caller's.  NULL: reported. */
static struct ahead_spill_writer *open_writer(const struct merge *m, int fd, uint64_t count)
{
    struct ahead_error too_many = { .status = AHEAD_LIMIT, .source_offset = UINT64_MAX };
    struct ahead_spill_writer *sw = NULL;
    struct ahead_writer *w;
    struct ahead_sink sink;
    enum ahead_status st;

    if (count > INT32_MAX) {
        snprintf(too_many.text, sizeof too_many.text,
                 "%" PRIu64 " records are more than a spill has room for", count);
        report_error(out_name(m), &too_many);
        return NULL;
    }
    st = ahead_sink_fd(&sink, fd, 0);
    if (!st)
        st = ahead_sink_lz4_block(&sink, sink, NULL);
    if (!st)
        st = ahead_writer_open(&w, sink, &(struct ahead_options){ .pool = m->input.stream.pool });
    if (!st)
        st = ahead_spill_writer_open(&sw, w, (uint32_t)count);
    if (st)
        report_errno(out_name(m), st, 0, "open");
    return sw;
}

/* The library names an input by its number. */
static void report_run(const struct merge *m, const struct run *run, struct ahead_error err)
{
    const char *words = strstr(err.text, ": ");

    if (words)
        memmove(err.text, words + 2, strlen(words + 2) + 1);
    report_error(run->name ? run->name : out_name(m), &err);
}

/* Moves all records.  false: reported. */
static bool copy(const struct merge *m, const struct run *runs, struct ahead_spill_merge *from,
                 struct ahead_spill_writer *to)
{
    struct ahead_spill_record rec;
    enum ahead_status st;
    size_t which = 0;

    while (!(st = ahead_spill_merge_next(from, &rec, &which)))
        if (ahead_spill_put(to, rec.key_prefix, rec.data, rec.len))
            return failed_output(m, ahead_spill_writer_error(to));
    if (st == AHEAD_EOF)
        return true;
    report_run(m, &runs[which], *ahead_spill_merge_error(from));
    return false;
}

/* Ends both.  false: reported, now or before (`!well`). */
static bool
end(const struct merge *m, struct ahead_spill_merge *from, struct ahead_spill_writer *to, bool well)
{
    enum ahead_status written = ahead_spill_writer_close(to);
    int os_errno = errno;
    enum ahead_status read = ahead_spill_merge_close(from);

    if (well && written == AHEAD_IO && os_errno == EPIPE)
        end_broken_pipe();
    if (well && written) {
        errno = os_errno;
        report_errno(out_name(m), written, 0, "write");
    } else if (well && read) {
        report_errno(out_name(m), read, 0, "close of a FILE");
    }
    return well && !written && !read;
}

/* Merges n runs into `fd`, or into OUT if that is negative.  false: reported. */
static bool merge_runs(struct merge *m, const struct run *runs, size_t n, int fd)
{
    uint64_t count;
    struct ahead_spill_merge *from = open_merge(m, runs, n, &count);
    struct ahead_spill_writer *to = NULL;

    if (!from)
        return false;
    if (count > INT32_MAX || fd >= 0 || output_open(&m->out))
        to = open_writer(m, fd >= 0 ? fd : m->out.fd, count);
    if (!to) {
        ahead_spill_merge_close(from);
        return false;
    }
    return end(m, from, to, copy(m, runs, from, to));
}

/* ---- passes ---- */

/* Merges the n runs at `runs` into one, at *to.  false: reported. */
static bool merge_to_run(struct merge *m, const struct run *runs, size_t n, struct run *to)
{
    off_t start = lseek(m->new_fd, 0, SEEK_CUR), stop;

    if (!merge_runs(m, runs, n, m->new_fd))
        return false;
    stop = lseek(m->new_fd, 0, SEEK_CUR);
    *to = (struct run){ .fd = m->new_fd,
                        .offset = (uint64_t)start,
                        .length = (uint64_t)(stop - start) };
    return true;
}

/* Merges neighbours, until no more are left than can be merged at once; or each
 * with its neighbours, and another pass has to follow.  false: reported. */
static bool pass(struct merge *m)
{
    size_t to = 0, from = 0;

    m->new_fd = open_nameless(m);
    if (m->new_fd < 0)
        return false;
    while (from < m->n && to + (m->n - from) > m->most_open) {
        size_t some = to + (m->n - from) - (size_t)m->most_open + 1;

        if (some > m->most_open)
            some = (size_t)m->most_open;
        if (some > m->n - from)
            some = m->n - from;
        if (!merge_to_run(m, m->runs + from, some, &m->runs[to]))
            return false;
        from += some;
        to++;
    }
    if (from == m->n && m->old_fd >= 0)
        close(m->old_fd);
    if (from == m->n || m->old_fd < 0)
        m->old_fd = m->new_fd;
    memmove(m->runs + to, m->runs + from, (m->n - from) * sizeof *m->runs);
    m->n = to + (m->n - from);
    return true;
}

static bool merge(struct merge *m)
{
    while (m->n > m->most_open)
        if (!pass(m))
            return false;
    return merge_runs(m, m->runs, m->n, -1);
}

int merge_main(int argc, char **argv)
{
    struct merge m = {
        .pool.byte_budget = (uint64_t)64 << 20,
        .most_open = 256,
        .out.fd = -1,
        .old_fd = -1,
        .new_fd = -1,
    };
    int code = parse(&m, argc, argv);
    bool well;

    if (code >= 0)
        return code;
    m.n = (size_t)(argc - optind);
    if (!input_check_output(&m.out, argv[0], argv + optind, argc - optind))
        return EXIT_USAGE;
    m.runs = calloc(m.n, sizeof *m.runs);
    if (!m.runs || ahead_pool_open(&m.input.stream.pool, &m.pool)) {
        report_errno(out_name(&m), AHEAD_NOMEM, 0, "merge");
        free(m.runs);
        return EXIT_FAILED;
    }
    for (size_t i = 0; i < m.n; i++)
        m.runs[i].name = argv[optind + (int)i];
    well = merge(&m);
    well = output_close(&m.out) && well;
    ahead_pool_close(m.input.stream.pool);
    free(m.runs);
    return well ? EXIT_WELL : EXIT_FAILED;
}
