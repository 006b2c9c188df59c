/* SPDX-License-Identifier: Apache-2.0 */
/* files.h - files of the pattern, and what a source over one has to give. */
#ifndef TESTS_SUPPORT_FILES_H
#define TESTS_SUPPORT_FILES_H

#include "support/expect.h"
#include "support/pattern.h"
#include "support/steps.h"

#include <ahead/source.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PIECE = 65536, MANY = 5 * PIECE + 321 };

static char path[64];

/* A new file of `len` bytes of the pattern, at `path`. */
static inline int make_file(size_t len)
{
    uint8_t *bytes = malloc(len + 1);
    int fd;

    snprintf(path, sizeof path, "/tmp/test_ahead.XXXXXX");
    fd = mkstemp(path);
    expect_true(fd >= 0 && bytes);
    pattern_fill(bytes, 0, len);
    expect_int(write(fd, bytes, len), (intmax_t)len);
    expect_int(lseek(fd, 0, SEEK_SET), 0);
    free(bytes);
    return fd;
}

static inline void remove_file(int fd)
{
    close(fd);
    unlink(path);
}

static inline struct ahead_source open_fd(int fd)
{
    struct ahead_source src;

    expect_status(ahead_source_fd(&src, fd, 0), AHEAD_OK);
    return src;
}

static inline struct ahead_source open_range(int fd, uint64_t offset, uint64_t length)
{
    struct ahead_source src;

    expect_status(ahead_source_range(&src, fd, offset, length, 0), AHEAD_OK);
    return src;
}

/* The rest of the source is the pattern from `from`, `len` bytes, then `end`. */
static inline void expect_rest(struct ahead_source src, struct steps how, uint64_t from, size_t len,
                               enum ahead_status end)
{
    struct all a = steps_all(src, how);

    expect_status(a.end, end);
    expect_size(a.len, len);
    expect_size(pattern_match(a.bytes, from, a.len), len);
    free(a.bytes);
}

static const struct steps plain = { .want = PIECE, .batch = 4 };

static inline bool says(const struct ahead_error *err, const char *words)
{
    return strstr(err->text, words) != NULL;
}

static inline void expect_byte_at(struct ahead_source src, uint64_t offset, uint8_t want)
{
    struct ahead_error err;
    uint8_t byte;

    expect_status(src.ops->seek(src.ctx, offset, &err), AHEAD_OK);
    expect_int(src.ops->read(src.ctx, &byte, 1, &err), 1);
    expect_int(byte, want);
}

static inline void expect_end(struct ahead_source src)
{
    struct ahead_error err;
    uint8_t byte;

    expect_int(src.ops->read(src.ctx, &byte, 1, &err), 0);
}

static inline uint64_t skip_of(struct ahead_source src, uint64_t n, enum ahead_status want)
{
    struct ahead_error err = { .status = AHEAD_OK };
    uint64_t skipped = 12345;

    expect_status(src.ops->skip(src.ctx, n, &skipped, &err), want);
    if (want)
        expect_status(err.status, want);
    return skipped;
}

#endif
