/* SPDX-License-Identifier: Apache-2.0 */
/* test_source_fd.c - sources over files give exactly their bytes and one right ending, whatever
 * happens to the file meanwhile. */
#include "support/expect.h"
#include "support/files.h"
#include "support/leaks.h"
#include "support/syscalls.h"

#include <ahead/source.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

Test(source_fd, every_length_in_every_piece_is_the_bytes_and_then_eof)
{
    const size_t lengths[] = { 0, 1, 4095, 4096, 4097, PIECE, MANY };
    const size_t wants[] = { 321, 4096, PIECE, 2 * MANY };

    for (size_t i = 0; i < 7 * 4 * 2 * 2; i++) {
        size_t len = lengths[i % 7];
        int fd = make_file(len);
        struct ahead_source src = open_fd(fd);
        struct steps how = { .want = wants[i / 7 % 4],
                             .batch = i / 28 % 2 ? 5 : 1,
                             .threads = i / 56 % 2 };

        expect_note("%zu bytes, %zu a piece, %u at once, threads %d", len, how.want, how.batch,
                    how.threads);
        expect_rest(src, how, 0, len, AHEAD_EOF);
        expect_close(src);
        remove_file(fd);
    }
}

/* F224: as few calls as the bytes need, and the size once. */
Test(source_fd, costs_one_pread_a_piece_and_one_for_the_end)
{
    int fd = make_file(MANY);
    struct ahead_source src = open_fd(fd);

    expect_rest(src, plain, 0, MANY, AHEAD_EOF);
    expect_int(syscalls.preads, (MANY + PIECE - 1) / PIECE + 1);
    expect_int(syscalls.reads + syscalls.polls, 0);
    expect_true(syscalls.others <= 2);
    expect_close(src);
    remove_file(fd);
}

/* F129, F149. */
Test(source_fd, begins_where_the_descriptor_stands_and_never_moves_it)
{
    int fd = make_file(MANY);
    uint64_t seed = 1;
    struct ahead_source one, two;
    uint8_t byte;
    struct ahead_error err;

    expect_int(lseek(fd, 1000, SEEK_SET), 1000);
    one = open_fd(fd);
    expect_int(lseek(fd, 1, SEEK_SET), 1);
    two = open_fd(fd);
    for (unsigned i = 1; i < 10000; i++) {
        off_t at = (off_t)random_below(&seed, MANY);

        expect_int(lseek(fd, at, SEEK_SET), at);
        expect_int(one.ops->read(one.ctx, &byte, 1, &err), 1);
        expect_int(byte, pattern_byte(999 + i));
        expect_int(two.ops->read(two.ctx, &byte, 1, &err), 1);
        expect_int(byte, pattern_byte(i));
        expect_int(lseek(fd, 0, SEEK_CUR), at);
    }
    expect_close(one);
    expect_close(two);
    remove_file(fd);
}

static ssize_t pread_short(int fd, void *dst, size_t len, uint64_t at)
{
    static atomic_uint calls;
    uint64_t seed = at + atomic_fetch_add(&calls, 1);

    return real_pread(fd, dst, 1 + random_below(&seed, len), at);
}

/* F124 */
Test(source_fd, short_reads_are_no_end)
{
    int fd = make_file(MANY);
    struct ahead_source src = open_fd(fd);

    on_pread = pread_short;
    expect_rest(src, (struct steps){ .want = PIECE, .batch = 4, .threads = true }, 0, MANY,
                AHEAD_EOF);
    expect_true(syscalls.preads > 12);
    expect_close(src);
    remove_file(fd);
}

static ssize_t pread_disturbed(int fd, void *dst, size_t len, uint64_t at)
{
    static atomic_uint calls;

    switch (atomic_fetch_add(&calls, 1) % 4) {
    case 0: errno = EINTR; return -1;
    case 1: errno = EAGAIN; return -1;
    case 2: return pread_short(fd, dst, len, at);
    }
    return real_pread(fd, dst, len, at);
}

/* F125, F126 */
Test(source_fd, eintr_and_eagain_are_tried_again)
{
    int fd = make_file(MANY);
    struct ahead_source src = open_fd(fd);

    on_pread = pread_disturbed;
    expect_rest(src, plain, 0, MANY, AHEAD_EOF);
    expect_close(src);
    remove_file(fd);
}

static ssize_t pread_eagain(int fd, void *dst, size_t len, uint64_t at)
{
    (void)fd, (void)dst, (void)len, (void)at;
    errno = EAGAIN;
    return -1;
}

/* F127: not for ever, and not at full speed. */
Test(source_fd, eagain_for_two_seconds_is_a_failure)
{
    int fd = make_file(10);
    struct ahead_source src = open_fd(fd);
    struct all a;

    on_pread = pread_eagain;
    a = steps_all(src, plain);
    expect_status(a.end, AHEAD_IO);
    expect_int(a.err.os_errno, EAGAIN);
    expect_true(syscalls.preads > 10 && syscalls.preads < 1000);
    free(a.bytes);
    expect_close(src);
    remove_file(fd);
}

static ssize_t pread_eintr(int fd, void *dst, size_t len, uint64_t at)
{
    (void)fd, (void)dst, (void)len, (void)at;
    errno = EINTR;
    return -1;
}

static void *interrupt_later(void *arg)
{
    struct ahead_source *src = arg;

    while (syscalls.preads < 100)
        ;
    src->ops->interrupt(src->ctx);
    return NULL;
}

Test(source_fd, interrupt_ends_a_read_that_the_system_keeps_interrupting,
     .timeout = 10 * TIME_SCALE)
{
    int fd = make_file(10);
    struct ahead_source src = open_fd(fd);
    pthread_t thread;
    struct all a;

    on_pread = pread_eintr;
    expect_int(pthread_create(&thread, NULL, interrupt_later, &src), 0);
    a = steps_all(src, plain);
    expect_status(a.end, AHEAD_IO);
    expect_int(a.err.os_errno, ECANCELED);
    free(a.bytes);
    expect_int(pthread_join(thread, NULL), 0);
    expect_close(src);
    remove_file(fd);
}

static uint64_t bad_from;

static ssize_t pread_broken(int fd, void *dst, size_t len, uint64_t at)
{
    if (at >= bad_from) {
        errno = EIO;
        return -1;
    }
    return real_pread(fd, dst, len < bad_from - at ? len : bad_from - at, at);
}

/* F112: at any byte of a piece, at its edges, and where only read() goes. */
Test(source_fd, bytes_before_a_failure_come_first)
{
    const uint64_t places[] = { 0, 1, 999, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE, MANY - 1, MANY };

    on_pread = pread_broken;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        int fd = make_file(MANY);
        struct ahead_source src = open_range(fd, 100, UINT64_MAX);
        struct all a;
        char words[32];

        bad_from = 100 + places[i];
        if (bad_from > MANY)
            bad_from = MANY;
        expect_note("failure at byte %u", (unsigned)bad_from);
        a = steps_all(src, plain);
        expect_status(a.end, AHEAD_IO);
        expect_int(a.err.os_errno, EIO);
        expect_u64(a.err.source_offset, bad_from - 100);
        expect_size(a.len, bad_from - 100);
        expect_size(pattern_match(a.bytes, 100, a.len), a.len);
        snprintf(words, sizeof words, "at offset %u: Input", (unsigned)bad_from - 100);
        expect_true(says(&a.err, words));
        free(a.bytes);
        expect_close(src);
        remove_file(fd);
    }
}

/* F134 */
Test(source_fd, file_that_grows_is_read_to_its_new_end)
{
    int fd = make_file(1000);
    struct ahead_source src = open_fd(fd);
    uint8_t more[100];
    struct all a;

    pattern_fill(more, 1000, sizeof more);
    expect_int(pwrite(fd, more, sizeof more, 1000), sizeof more);
    a = steps_all(src, (struct steps){ .want = 300, .batch = 2 });
    expect_status(a.end, AHEAD_EOF);
    expect_size(a.len, 1100);
    expect_size(pattern_match(a.bytes, 0, a.len), a.len);
    expect_int(a.reads, 2); /* what was added, and the end */
    free(a.bytes);
    expect_close(src);
    remove_file(fd);
}

Test(source_fd, file_of_procfs_has_content_though_its_size_is_0)
{
    uint8_t want[4096];
    int fd = open("/proc/version", O_RDONLY);
    ssize_t len = read(fd, want, sizeof want);
    struct ahead_source src;
    struct all a;

    expect_true(len > 20);
    expect_status(ahead_source_path(&src, "/proc/version"), AHEAD_OK);
    expect_u64(src.ops->remaining(src.ctx), UINT64_MAX);
    a = steps_all(src, (struct steps){ .want = 7, .batch = 2 });
    expect_status(a.end, AHEAD_EOF);
    expect_size(a.len, (size_t)len);
    expect_mem(a.bytes, want, a.len);
    expect_int(a.pieces, 0);
    free(a.bytes);
    expect_close(src);
    close(fd);
}

/* A size that promises more than there is, as sysfs has. */
Test(source_fd, file_of_sysfs_ends_where_its_content_does)
{
    struct ahead_source src;
    struct all a;
    struct stat st;

    if (stat("/sys/kernel/mm/transparent_hugepage/enabled", &st) || st.st_size < 1000)
        skip("no file of sysfs");
    expect_status(ahead_source_path(&src, "/sys/kernel/mm/transparent_hugepage/enabled"), AHEAD_OK);
    a = steps_all(src, plain);
    expect_status(a.end, AHEAD_EOF);
    expect_true(a.len > 5 && a.len < 100);
    free(a.bytes);
    expect_close(src);
}

/* F133 */
Test(source_fd, file_that_was_cut_ends_there)
{
    const off_t cuts[] = { 0, 1, PIECE - 1, PIECE, PIECE + 1, 4 * PIECE + 5, MANY - 1 };

    for (size_t i = 0; i < 7 * 2; i++) {
        int fd = make_file(MANY);
        struct ahead_source src = open_fd(fd);
        struct steps how = { .want = PIECE, .batch = 6, .threads = i >= 7 };

        expect_note("cut at %u", (unsigned)cuts[i % 7]);
        expect_int(ftruncate(fd, cuts[i % 7]), 0);
        expect_rest(src, how, 0, (size_t)cuts[i % 7], AHEAD_EOF);
        expect_close(src);
        remove_file(fd);
    }
}

Test(source_fd, range_that_was_cut_is_truncated_and_names_both_numbers)
{
    int fd = make_file(MANY);
    struct ahead_source src = open_range(fd, 1000, 200000);
    struct all a;

    expect_int(ftruncate(fd, 151000), 0);
    a = steps_all(src, plain);
    expect_status(a.end, AHEAD_TRUNCATED);
    expect_size(a.len, 150000);
    expect_size(pattern_match(a.bytes, 1000, a.len), a.len);
    expect_u64(a.err.source_offset, 150000);
    expect_true(says(&a.err, "200000") && says(&a.err, "150000"));
    expect_true(a.dropped > 0);
    free(a.bytes);
    expect_close(src);
    remove_file(fd);
}

/* F123: short by one, and known to be so when it is opened. */
Test(source_fd, range_longer_than_its_file_is_truncated)
{
    int fd = make_file(1000);
    const uint64_t starts[] = { 0, 1, 999, 1000, 1001, 5000 };

    for (size_t i = 0; i < 6; i++) {
        uint64_t there = starts[i] < 1000 ? 1000 - starts[i] : 0;
        struct ahead_source src = open_range(fd, starts[i], there + 1);
        struct all a = steps_all(src, plain);

        expect_note("range from %u", (unsigned)starts[i]);
        expect_status(a.end, AHEAD_TRUNCATED);
        expect_size(a.len, there);
        expect_size(pattern_match(a.bytes, starts[i], a.len), a.len);
        free(a.bytes);
        expect_close(src);
    }
    remove_file(fd);
}

Test(source_fd, range_gives_its_bytes_and_asks_for_no_other)
{
    int fd = make_file(MANY);
    const uint64_t ranges[][2] = { { 0, 0 },    { 7, 1 },    { 1, 4096 },    { 100, 3 * PIECE },
                                   { 0, MANY }, { MANY, 0 }, { MANY + 5, 0 } };

    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        struct ahead_source src = open_range(fd, ranges[i][0], ranges[i][1]);

        expect_note("range %u", (unsigned)i);
        syscalls.pread_end = 0;
        expect_u64(src.ops->remaining(src.ctx), ranges[i][1]);
        expect_rest(src, plain, ranges[i][0], ranges[i][1], AHEAD_EOF);
        expect_true(syscalls.pread_end <= ranges[i][0] + ranges[i][1]);
        expect_close(src);
    }
    remove_file(fd);
}

Test(source_fd, range_without_length_goes_to_the_end)
{
    int fd = make_file(MANY);
    struct ahead_source src = open_range(fd, 1234, UINT64_MAX);

    expect_rest(src, plain, 1234, MANY - 1234, AHEAD_EOF);
    expect_close(src);
    remove_file(fd);
}

/* F132: every counter has 64 bits. */
Test(source_fd, offsets_beyond_4_gib_are_exact)
{
    const uint64_t marks[] = { INT32_MAX, (uint64_t)INT32_MAX + 1, UINT32_MAX,
                               (uint64_t)UINT32_MAX + 1, (uint64_t)UINT32_MAX + 2 };
    const uint64_t size = 5368709120;
    int fd = make_file(0);
    struct ahead_source src;
    struct ahead_error err;
    uint64_t skipped, at = 0;
    uint8_t byte;

    expect_int(ftruncate(fd, (off_t)size), 0);
    for (int i = 0; i < 5; i++)
        expect_int(pwrite(fd, &(uint8_t){ (uint8_t)(i + 1) }, 1, (off_t)marks[i]), 1);
    src = open_fd(fd);
    expect_u64(src.ops->remaining(src.ctx), size);
    for (int i = 0; i < 5; i++) {
        expect_status(src.ops->skip(src.ctx, marks[i] - at, &skipped, &err), AHEAD_OK);
        expect_u64(skipped, marks[i] - at);
        expect_int(src.ops->read(src.ctx, &byte, 1, &err), 1);
        expect_int(byte, i + 1);
        at = marks[i] + 1;
    }
    for (int i = 5; i-- > 0;)
        expect_byte_at(src, marks[i], (uint8_t)(i + 1));
    expect_u64(src.ops->remaining(src.ctx), size - marks[0] - 1);
    expect_status(src.ops->skip(src.ctx, UINT64_MAX, &skipped, &err), AHEAD_OK);
    expect_u64(skipped, size - marks[0] - 1);
    expect_end(src);
    expect_true(syscalls.preads < 40);
    expect_close(src);
    remove_file(fd);
}

Test(source_fd, failure_beyond_4_gib_says_where)
{
    int fd = make_file(0);
    struct ahead_source src;
    struct ahead_error err;
    struct all a;

    bad_from = 4294967296 + 1000;
    expect_int(ftruncate(fd, 5368709120), 0);
    src = open_fd(fd);
    on_pread = pread_broken;
    expect_status(src.ops->seek(src.ctx, 4294967296, &err), AHEAD_OK);
    a = steps_all(src, plain);
    expect_status(a.end, AHEAD_IO);
    expect_size(a.len, 1000);
    expect_u64(a.err.source_offset, 4294968296);
    expect_true(says(&a.err, "4294968296"));
    free(a.bytes);
    expect_close(src);
    remove_file(fd);
}

static ssize_t pread_nothing_written(int fd, void *dst, size_t len, uint64_t at)
{
    (void)fd, (void)dst, (void)at;
    return (ssize_t)len;
}

/* F131 */
Test(source_fd, no_call_asks_for_more_than_1_gib)
{
    int fd = make_file(0);
    struct ahead_source src;
    struct ahead_job job = { .bound = 0 };
    struct ahead_error err;
    size_t huge = (size_t)5 << 28, len;
    uint8_t *room = mmap(NULL, huge, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    expect_true(room != MAP_FAILED);
    expect_int(ftruncate(fd, (off_t)huge), 0);
    src = open_fd(fd);
    on_pread = pread_nothing_written;
    expect_int(src.ops->split->claim(src.ctx, &job, huge, huge, &err), AHEAD_CLAIM_PIECE);
    expect_true(job.bound > 0);
    expect_status(src.ops->split->make(src.ctx, &job, room, &len, &err), AHEAD_OK);
    expect_size(len, job.bound);
    expect_int(src.ops->read(src.ctx, room, huge, &err), 1 << 30);
    expect_u64(syscalls.longest, 1 << 30);
    munmap(room, huge);
    expect_close(src);
    remove_file(fd);
}

/* F150, F152: also with pieces claimed and dropped in between. */
Test(source_fd, seeks_at_random_are_exact)
{
    int fd = make_file(MANY);
    struct ahead_source src = open_fd(fd);
    struct ahead_job job = { .bound = 0 };
    struct ahead_error err;
    uint64_t seed = 7;

    for (int i = 0; i < 10000; i++) {
        uint64_t at = random_below(&seed, MANY);

        expect_byte_at(src, at, pattern_byte(at));
        if (i % 3 == 0)
            src.ops->split->claim(src.ctx, &job, 1000, 1000, &err);
    }
    expect_close(src);
    remove_file(fd);
}

/* F156 */
Test(source_fd, seek_past_the_end_is_the_end_and_no_wrap)
{
    int fd = make_file(100);
    const uint64_t past[] = { 100, 101, 1u << 31, INT64_MAX - 1, INT64_MAX };
    struct ahead_source whole, part = open_range(fd, 10, 50);
    struct ahead_error err;

    expect_int(lseek(fd, 1, SEEK_SET), 1);
    whole = open_fd(fd);
    for (size_t i = 0; i < 5; i++) {
        expect_status(whole.ops->seek(whole.ctx, past[i], &err), AHEAD_OK);
        expect_end(whole);
        expect_rest(whole, plain, 0, 0, AHEAD_EOF);
        expect_status(part.ops->seek(part.ctx, past[i], &err), AHEAD_OK);
        expect_end(part);
    }
    expect_byte_at(whole, 98, pattern_byte(99));
    expect_byte_at(part, 49, pattern_byte(59));
    expect_end(part);
    expect_byte_at(part, 20, pattern_byte(30));
    expect_status(part.ops->seek(part.ctx, (uint64_t)INT64_MAX + 1, &err), AHEAD_INVALID);
    expect_true(err.text[0]);
    expect_status(part.ops->seek(part.ctx, UINT64_MAX, &err), AHEAD_INVALID);
    expect_rest(part, plain, 31, 29, AHEAD_EOF);
    expect_close(whole);
    expect_close(part);
    remove_file(fd);
}

/* F155 */
Test(source_fd, skip_passes_what_is_there)
{
    int fd = make_file(MANY);
    struct ahead_source src = open_fd(fd);

    expect_u64(skip_of(src, 0, AHEAD_OK), 0);
    expect_u64(skip_of(src, 10, AHEAD_OK), 10);
    expect_u64(skip_of(src, MANY - 11, AHEAD_OK), MANY - 11);
    expect_u64(src.ops->remaining(src.ctx), 1);
    expect_u64(skip_of(src, 2, AHEAD_OK), 1);
    expect_u64(skip_of(src, UINT64_MAX, AHEAD_OK), 0);
    expect_byte_at(src, 5, pattern_byte(5));
    expect_u64(skip_of(src, (uint64_t)1 << 62, AHEAD_OK), MANY - 6);
    expect_close(src);

    src = open_range(fd, 100, 1000);
    expect_u64(skip_of(src, 999, AHEAD_OK), 999);
    expect_rest(src, plain, 1099, 1, AHEAD_EOF);
    expect_byte_at(src, 0, pattern_byte(100));
    expect_u64(skip_of(src, UINT64_MAX, AHEAD_OK), 999);
    expect_end(src);
    expect_close(src);
    remove_file(fd);
}

Test(source_fd, skip_knows_that_the_file_has_changed)
{
    int fd = make_file(MANY);
    struct ahead_source cut = open_fd(fd), range = open_range(fd, 0, MANY), grown;
    uint8_t more[100];

    expect_int(ftruncate(fd, 5000), 0);
    expect_u64(skip_of(cut, 4000, AHEAD_OK), 4000);
    expect_u64(skip_of(cut, 4000, AHEAD_OK), 1000);
    expect_end(cut);
    expect_u64(skip_of(range, 5001, AHEAD_TRUNCATED), 5000);
    expect_close(cut);
    expect_close(range);

    grown = open_fd(fd);
    pattern_fill(more, 5000, sizeof more);
    expect_int(pwrite(fd, more, sizeof more, 5000), sizeof more);
    expect_u64(skip_of(grown, 5050, AHEAD_OK), 5050);
    expect_rest(grown, plain, 5050, 50, AHEAD_EOF);
    expect_close(grown);
    remove_file(fd);
}

Test(source_fd, skip_reads_where_the_size_says_nothing)
{
    uint8_t want[4096];
    int fd = open("/proc/version", O_RDONLY);
    ssize_t len = read(fd, want, sizeof want);
    struct ahead_source src;

    expect_status(ahead_source_path(&src, "/proc/version"), AHEAD_OK);
    expect_u64(skip_of(src, 10, AHEAD_OK), 10);
    expect_u64(skip_of(src, UINT64_MAX, AHEAD_OK), (uint64_t)len - 10);
    expect_end(src);
    expect_close(src);
    close(fd);
}

Test(source_fd, skip_that_fails_says_how_far_it_came)
{
    int fd = make_file(MANY);
    struct ahead_source src = open_fd(fd);

    bad_from = 10000;
    on_pread = pread_broken;
    expect_u64(skip_of(src, 20000, AHEAD_IO), 10000);
    expect_close(src);
    remove_file(fd);
}

Test(source_fd, regular_file_never_blocks)
{
    int fd = make_file(10);
    struct ahead_source src = open_fd(fd);

    expect_true(ahead_source_is_split(src) && !ahead_source_may_block(src));
    expect_true(src.ops->ready(src.ctx));
    expect_true(src.ops->split->wait(src.ctx, 0));
    expect_u64(src.ops->remaining(src.ctx), 10);
    expect_close(src);
    remove_file(fd);
}

/* Resident pages of the first `len` bytes, of which there is at least one. */
static unsigned resident(int fd, size_t len)
{
    size_t pages = (len + 4095) / 4096;
    unsigned char *there = calloc(pages, 1);
    void *p = mmap(NULL, len, PROT_READ, MAP_SHARED, fd, 0);
    unsigned n = 0;

    expect_true(p != MAP_FAILED && there);
    expect_int(mincore(p, len, there), 0);
    for (size_t i = 0; i < pages; i++)
        n += there[i] & 1;
    munmap(p, len);
    free(there);
    return n;
}

_Noreturn static void skip_file(int fd, const char *why)
{
    remove_file(fd);
    skip(why);
}

/* Takes the file out of the page cache, or skips the test: tmpfs lives there. */
static void evict(int fd, size_t len)
{
    expect_int(fsync(fd), 0);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    if (resident(fd, len) > 0)
        skip_file(fd, "this file system keeps its pages");
}

Test(source_fd, drop_behind_leaves_nothing_in_the_page_cache)
{
    const size_t wants[] = { PIECE, 10000 };
    int fd = make_file(MANY);

    evict(fd, MANY);
    for (int i = 0; i < 2; i++) {
        struct ahead_source src;

        expect_status(ahead_source_fd(&src, fd, AHEAD_FD_DROP_BEHIND), AHEAD_OK);
        expect_rest(src, (struct steps){ .want = wants[i], .batch = 3 }, 0, MANY, AHEAD_EOF);
        expect_close(src);
        expect_int(resident(fd, MANY), 0);
    }
    remove_file(fd);
}

/* Before it is closed, too, and a seek does not leave anything behind. */
Test(source_fd, drop_behind_keeps_up_with_the_cursor)
{
    enum { BYTES = 64 * 1024 * 1024, MAX_PAGES = 20 * 1024 * 1024 / 4096 };
    int fd = make_file(BYTES);
    struct ahead_source src;
    struct ahead_error err;

    evict(fd, BYTES);
    expect_status(ahead_source_fd(&src, fd, AHEAD_FD_DROP_BEHIND), AHEAD_OK);
    expect_rest(src, (struct steps){ .want = 100000, .batch = 1 }, 0, BYTES, AHEAD_EOF);
    expect_true(resident(fd, BYTES) < MAX_PAGES);
    expect_true(syscalls.advices[POSIX_FADV_DONTNEED] <= 1 + 15);
    expect_status(src.ops->seek(src.ctx, 0, &err), AHEAD_OK);
    expect_int(resident(fd, BYTES), 0);
    expect_close(src);
    remove_file(fd);
}

Test(source_fd, willneed_brings_in_what_is_ahead)
{
    int fd = make_file(MANY);
    struct ahead_source src;
    struct ahead_job job = { .bound = 0 };
    struct ahead_error err;
    uint64_t start;

    evict(fd, MANY);
    expect_status(ahead_source_fd(&src, fd, AHEAD_FD_WILLNEED), AHEAD_OK);
    expect_int(src.ops->split->claim(src.ctx, &job, 4096, 4096, &err), AHEAD_CLAIM_PIECE);
    expect_int(syscalls.preads, 0);
    start = 0;
    while (resident(fd, MANY) < MANY / 4096 && start++ < 10000)
        usleep(1000);
    expect_true(resident(fd, MANY) >= MANY / 4096);
    expect_int(syscalls.advices[POSIX_FADV_WILLNEED], 1);
    expect_close(src);
    remove_file(fd);
}

/* One call for each half of a window of 8 MiB, and again after a seek. */
Test(source_fd, willneed_asks_seldom_and_not_beyond_the_end)
{
    enum { BYTES = 20 * 1024 * 1024 };
    int fd = make_file(0);
    struct ahead_source src;
    struct ahead_error err;
    unsigned once;

    expect_int(ftruncate(fd, BYTES), 0);
    expect_status(ahead_source_fd(&src, fd, AHEAD_FD_WILLNEED), AHEAD_OK);
    free(steps_all(src, plain).bytes);
    once = syscalls.advices[POSIX_FADV_WILLNEED];
    expect_true(once >= 3 && once <= 5);
    expect_status(src.ops->seek(src.ctx, 0, &err), AHEAD_OK);
    free(steps_all(src, plain).bytes);
    expect_int(syscalls.advices[POSIX_FADV_WILLNEED], 2 * once);
    expect_close(src);
    remove_file(fd);
}

Test(source_fd, sequential_is_told_once)
{
    int fd = make_file(MANY);
    struct ahead_source src;

    expect_status(ahead_source_fd(&src, fd, AHEAD_FD_SEQUENTIAL), AHEAD_OK);
    expect_rest(src, plain, 0, MANY, AHEAD_EOF);
    expect_int(syscalls.advices[POSIX_FADV_SEQUENTIAL], 1);
    expect_close(src);
    remove_file(fd);
}

static bool is_direct(int fd)
{
    return fcntl(fd, F_GETFL) & O_DIRECT;
}

static atomic_uint direct_reads, misaligned;

static ssize_t pread_watched(int fd, void *dst, size_t len, uint64_t at)
{
    if (is_direct(fd)) {
        direct_reads++;
        misaligned += ((uintptr_t)dst | len | at) % 4096 != 0;
    }
    return real_pread(fd, dst, len, at);
}

/* Places, offsets and ends that O_DIRECT does not take, by claims and by read(). */
Test(source_fd, direct_is_exact_at_every_offset_and_place)
{
    enum { SIZE = 40321 };
    const uint64_t starts[] = { 0, 1, 4095, 4096, 5000 };
    const size_t shifts[] = { 0, 1, 512 }, wants[] = { 16384, 10000, 100 };
    const uint64_t lengths[] = { UINT64_MAX, 30000 };
    int fd = make_file(SIZE);
    int flags = fcntl(fd, F_GETFL);
    struct ahead_source src;

    if (ahead_source_fd(&src, fd, AHEAD_FD_DIRECT) == AHEAD_UNSUPPORTED)
        skip_file(fd, "this file system has no O_DIRECT");
    expect_close(src);
    on_pread = pread_watched;
    for (size_t i = 0; i < 5 * 3 * 3 * 2; i++) {
        uint64_t start = starts[i % 5], length = lengths[i / 45];
        size_t len = length < SIZE ? length : SIZE - start;
        struct steps how = { .want = wants[i / 15 % 3], .batch = 3, .shift = shifts[i / 5 % 3] };

        expect_note("from %u, shift %zu, want %zu", (unsigned)start, how.shift, how.want);
        expect_status(ahead_source_range(&src, fd, start, length, AHEAD_FD_DIRECT), AHEAD_OK);
        expect_rest(src, how, start, len, AHEAD_EOF);
        expect_close(src);
    }
    expect_int(fcntl(fd, F_GETFL), flags);
    expect_true(direct_reads > 90);
    expect_int(misaligned, 0); /* this file system might have let it pass */
    remove_file(fd);
}

static ssize_t pread_one_sector(int fd, void *dst, size_t len, uint64_t at)
{
    return real_pread(fd, dst, is_direct(fd) && len > 512 ? 512 : len, at);
}

static ssize_t pread_larger_blocks(int fd, void *dst, size_t len, uint64_t at)
{
    if (is_direct(fd)) {
        errno = EINVAL;
        return -1;
    }
    return real_pread(fd, dst, len, at);
}

Test(source_fd, direct_reads_that_come_short_or_are_refused_lose_nothing)
{
    enum { SIZE = 40321 };
    int fd = make_file(SIZE);
    struct ahead_source src;

    for (int i = 0; i < 2; i++) {
        if (ahead_source_range(&src, fd, 3000, UINT64_MAX, AHEAD_FD_DIRECT) == AHEAD_UNSUPPORTED)
            skip_file(fd, "this file system has no O_DIRECT");
        on_pread = i ? pread_larger_blocks : pread_one_sector;
        expect_rest(src, (struct steps){ .want = 10000, .batch = 2 }, 3000, SIZE - 3000, AHEAD_EOF);
        expect_close(src);
    }
    remove_file(fd);
}

Test(source_fd, direct_bypasses_the_page_cache_and_reads_what_is_new)
{
    int fd = make_file(64 * 4096);
    uint8_t more[5000];
    struct ahead_source src;

    evict(fd, 64 * 4096);
    if (ahead_source_fd(&src, fd, AHEAD_FD_DIRECT) == AHEAD_UNSUPPORTED)
        skip_file(fd, "this file system has no O_DIRECT");
    expect_rest(src, plain, 0, 64 * 4096, AHEAD_EOF);
    expect_int(resident(fd, 64 * 4096), 0);
    pattern_fill(more, 64 * 4096, sizeof more);
    expect_int(pwrite(fd, more, sizeof more, 64 * 4096), sizeof more);
    expect_status(src.ops->seek(src.ctx, 60 * 4096, &(struct ahead_error){ 0 }), AHEAD_OK);
    expect_rest(src, plain, 60 * 4096, 4 * 4096 + sizeof more, AHEAD_EOF);
    expect_close(src);
    remove_file(fd);
}

Test(source_fd, direct_is_unsupported_where_there_is_none)
{
    struct leaks before = leaks_count();
    struct ahead_source src;

    expect_status(ahead_source_path_flags(&src, "/proc/version", AHEAD_FD_DIRECT),
                  AHEAD_UNSUPPORTED);
    expect_int(errno, ENOTSUP);
    expect_true(!src.ops && !src.ctx);
    expect_no_leaks(before);
}
