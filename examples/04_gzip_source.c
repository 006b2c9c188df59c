/* SPDX-License-Identifier: Apache-2.0 */
/* 04_gzip_source.c - a source of your own: gzip by zlib, decompressed by the second thread. */
#include <ahead/ahead.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <zlib.h>

/* ---- the source ---- */

struct gzip {
    int fd;
    bool inside; /* a member has begun, and its end was not seen */
    z_stream z;
    uint8_t in[65536];
};

/* As read(2): it may be short, but what was decoded in front of a fault comes before the fault. */
static ssize_t gzip_read(void *ctx, void *dst, size_t len, struct ahead_error *err)
{
    struct gzip *g = ctx;
    int rc;

    g->z.next_out = dst;
    g->z.avail_out = len < UINT_MAX ? (uInt)len : UINT_MAX;
    do {
        if (g->z.avail_in == 0) {
            ssize_t n = read(g->fd, g->in, sizeof g->in);

            if (n < 0 || (n == 0 && !g->inside))
                return n; /* errno says it, and EINTR is tried again; or the end */
            g->z.next_in = g->in;
            g->z.avail_in = (uInt)n;
        }
        g->inside = true;
        rc = inflate(&g->z, Z_NO_FLUSH);
        if (rc == Z_STREAM_END) { /* another member may follow */
            g->inside = false;
            inflateReset(&g->z);
        } else if (rc != Z_OK && g->z.next_out == dst) {
            err->status = rc == Z_BUF_ERROR ? AHEAD_TRUNCATED : AHEAD_CORRUPT;
            snprintf(err->text, sizeof err->text, "gzip: %s",
                     rc == Z_BUF_ERROR ? "the input ends in the middle"
                     : g->z.msg        ? g->z.msg
                                       : zError(rc));
            return -1;
        }
    } while (g->z.next_out == dst);
    return g->z.next_out - (uint8_t *)dst;
}

static enum ahead_status gzip_close(void *ctx, struct ahead_error *err)
{
    struct gzip *g = ctx;
    int failed = close(g->fd);

    (void)err;
    inflateEnd(&g->z);
    free(g);
    return failed ? AHEAD_IO : AHEAD_OK;
}

static const struct ahead_source_ops gzip_ops = { .read = gzip_read, .close = gzip_close };

/* ---- its use ---- */

static enum ahead_status gzip_source(struct ahead_source *out, const char *path)
{
    struct gzip *g = calloc(1, sizeof *g);

    if (!g)
        return AHEAD_NOMEM;
    g->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (g->fd < 0) {
        free(g);
        return AHEAD_IO;
    }
    if (inflateInit2(&g->z, 15 + 16) != Z_OK) { /* 16: a gzip header */
        close(g->fd);
        free(g);
        errno = ENOMEM;
        return AHEAD_NOMEM;
    }
    *out = (struct ahead_source){ .ops = &gzip_ops, .ctx = g };
    return AHEAD_OK;
}

int main(int argc, char **argv)
{
    uint64_t lines = 0, bytes = 0;
    struct ahead_source src;
    struct ahead_stream *s;
    enum ahead_status st;
    const uint8_t *line;
    size_t len;

    if (argc != 2) {
        fprintf(stderr, "usage: %s FILE.gz\n", argv[0]);
        return 2;
    }
    if (gzip_source(&src, argv[1]) || ahead_open(&s, src, NULL)) {
        perror(argv[1]);
        return 1;
    }

    /* TRUNCATED: the last line has no end, which is fine; the next call says EOF, or the fault. */
    while (!(st = ahead_read_until(s, '\n', 0, &line, &len)) ||
           (st == AHEAD_TRUNCATED && len > 0)) {
        lines++;
        bytes += len;
    }
    printf("%" PRIu64 " lines, %" PRIu64 " bytes\n", lines, bytes);
    if (st != AHEAD_EOF)
        fprintf(stderr, "%s: %s, after %" PRIu64 " bytes: %s\n", argv[1], ahead_status_name(st),
                ahead_error(s)->offset, ahead_error(s)->text);
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
