/* SPDX-License-Identifier: Apache-2.0 */
/* 06_push_queue.c - deal lines out to partitions; full buffers are pushed without a copy. */
#include <ahead/ahead.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { PARTITIONS = 4, BUFFER_BYTES = 32768 };

struct outputs {
    FILE *file[PARTITIONS];
};

/* On the push thread, one call at a time: a service that stores partitions would be called here. */
static enum ahead_status
push(void *ctx, uint64_t partition, const void *data, size_t len, struct ahead_error *err)
{
    struct outputs *out = ctx;

    if (fwrite(data, 1, len, out->file[partition]) == len)
        return AHEAD_OK;
    err->os_errno = errno;
    return AHEAD_IO;
}

static unsigned partition_of(const uint8_t *line, size_t len)
{
    uint32_t hash = 2166136261u; /* FNV-1a */

    while (len-- > 0)
        hash = (hash ^ *line++) * 16777619u;
    return hash % PARTITIONS;
}

/* A line goes into its partition's buffer; one that is full is swapped for an empty one. */
static enum ahead_status
deal(struct ahead_pusher *p, struct ahead_buffer *b, const uint8_t *line, size_t len)
{
    unsigned k = partition_of(line, len);
    enum ahead_status st = AHEAD_OK;

    if (len > b[k].cap - b[k].len)
        st = ahead_push_swap(p, k, &b[k]); /* waits for an idle buffer: so memory is bounded */
    if (!st && len > b[k].cap)
        return ahead_push_copy(p, k, line, len);
    if (!st) {
        memcpy(b[k].data + b[k].len, line, len);
        b[k].len += len;
    }
    return st;
}

/* Everything from `s`.  *in says whether it was the input that failed. */
static enum ahead_status deal_all(struct ahead_stream *s, struct ahead_pusher *p, bool *in)
{
    struct ahead_buffer b[PARTITIONS] = { 0 };
    enum ahead_status st = AHEAD_OK, end = AHEAD_OK;
    const uint8_t *line;
    size_t len;

    for (unsigned k = 0; !st && k < PARTITIONS; k++)
        st = ahead_pusher_acquire(p, &b[k]);
    while (!st) {
        end = ahead_read_until(s, '\n', 0, &line, &len);
        if (end && len == 0) /* TRUNCATED with bytes: the last line has no end */
            break;
        st = deal(p, b, line, len);
    }
    for (unsigned k = 0; k < PARTITIONS; k++) {
        if (!st && b[k].len > 0)
            st = ahead_push_swap(p, k, &b[k]);
        ahead_buffer_free(&b[k]); /* gives it back to the pusher */
    }
    *in = !st && end != AHEAD_EOF;
    return st ? st : end;
}

int main(int argc, char **argv)
{
    struct ahead_pusher_options opt = { .buffer_bytes = BUFFER_BYTES, .buffers = PARTITIONS + 2 };
    struct outputs out = { 0 };
    struct ahead_pusher *p;
    struct ahead_stream *s;
    struct ahead_error err;
    enum ahead_status st;
    bool in, good;

    if (argc != 2 + PARTITIONS) {
        fprintf(stderr, "usage: %s INPUT OUTPUT0 OUTPUT1 OUTPUT2 OUTPUT3\n", argv[0]);
        return 2;
    }
    if (ahead_open_path(&s, argv[1], NULL)) {
        perror(argv[1]);
        return 1;
    }
    for (unsigned k = 0; k < PARTITIONS; k++) {
        out.file[k] = fopen(argv[2 + k], "w");
        if (!out.file[k]) {
            perror(argv[2 + k]);
            (void)ahead_close(s);
            return 1;
        }
        setbuf(out.file[k], NULL); /* whole buffers come */
    }
    if (ahead_pusher_open(&p, push, &out, &opt)) {
        perror(argv[0]);
        (void)ahead_close(s);
        return 1;
    }

    st = deal_all(s, p, &in);
    good = st == AHEAD_EOF;
    if (in)
        fprintf(stderr, "%s: %s: %s\n", argv[1], ahead_status_name(st), ahead_error(s)->text);
    /* Waits until all is pushed, and says if something was not: no other check is needed. */
    if (ahead_pusher_close_error(p, &err)) {
        fprintf(stderr, "%s: %s: %s\n", argv[0], ahead_status_name(err.status), err.text);
        good = false;
    }
    (void)ahead_close(s); /* a file that was only read */
    for (unsigned k = 0; k < PARTITIONS; k++)
        if (fclose(out.file[k])) {
            perror(argv[2 + k]);
            good = false;
        }
    return good ? 0 : 1;
}
