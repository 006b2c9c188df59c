/* SPDX-License-Identifier: Apache-2.0 */
/* steps.h - takes a source through its steps by hand, as a stream would: claims in order, makes in
 * any order, each settled in order or dropped, read() where a claim asks for it. */
#ifndef TESTS_SUPPORT_STEPS_H
#define TESTS_SUPPORT_STEPS_H

#include "source/split.h"
#include "support/expect.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS_BATCH = 8 };

/* How: `want` bytes at most in a claim or read; `batch` claims (1 to
 * STEPS_BATCH) before the first is made; each made on a thread of its own, or
 * the last claim first.  `shift` bytes in front of each place. */
struct steps {
    size_t want;
    unsigned batch;
    bool threads;
    size_t shift;
};

/* What a source had: all good bytes, then one ending. */
struct all {
    uint8_t *bytes;
    size_t len, cap;
    enum ahead_status end;
    struct ahead_error err;
    unsigned pieces, reads, dropped;
};

struct steps_piece {
    struct ahead_source src;
    struct ahead_job job;
    struct ahead_error err;
    uint8_t *mem, *dst;
    size_t len;
    enum ahead_status made;
    pthread_t thread;
};

static inline uint8_t *steps_room(struct all *a, size_t n)
{
    if (a->cap - a->len < n) {
        a->cap = 2 * (a->len + n);
        a->bytes = realloc(a->bytes, a->cap);
        expect_true(a->bytes);
    }
    return a->bytes + a->len;
}

static inline void *steps_make(void *arg)
{
    struct steps_piece *p = arg;

    p->made = p->src.ops->split->make(p->src.ctx, &p->job, p->dst, &p->len, &p->err);
    return NULL;
}

static inline void steps_make_all(struct steps_piece *p, unsigned n, const struct steps *how)
{
    for (unsigned i = n; i-- > 0;) {
        if (how->threads)
            expect_int(pthread_create(&p[i].thread, NULL, steps_make, &p[i]), 0);
        else
            steps_make(&p[i]);
    }
    for (unsigned i = 0; how->threads && i < n; i++)
        expect_int(pthread_join(p[i].thread, NULL), 0);
}

/* Settles one piece; whether the stream goes on behind it. */
static inline bool steps_settle(struct steps_piece *p, struct all *a)
{
    const struct ahead_split_ops *split = p->src.ops->split;
    struct ahead_error err = { .source_offset = UINT64_MAX };
    enum ahead_status st = AHEAD_OK;

    expect_true(p->len <= p->job.bound);
    if (split->settle)
        st = split->settle(p->src.ctx, &p->job.note, p->dst, &p->len, p->made, &err);
    memcpy(steps_room(a, p->len + 1), p->dst, p->len);
    a->len += p->len;
    a->pieces++;
    if (!st && !p->made)
        return true;
    a->end = p->made ? p->made : st;
    a->err = p->made ? p->err : err;
    return false;
}

static inline void steps_free(struct steps_piece *p)
{
    free(p->mem);
    free(p->job.in);
    free(p->job.block);
}

/* One read(); whether the stream goes on. */
static inline bool steps_read(struct ahead_source src, struct all *a, const struct steps *how)
{
    uint8_t *dst = steps_room(a, how->want);
    ssize_t n;

    a->err = (struct ahead_error){ .source_offset = UINT64_MAX };
    a->reads++;
    n = src.ops->read(src.ctx, dst, how->want, &a->err);
    a->len += n > 0 ? (size_t)n : 0;
    a->end = n < 0 ? a->err.status : AHEAD_EOF;
    return n > 0;
}

/* A batch of claims, made and settled; whether the stream goes on. */
static inline bool
steps_batch(struct ahead_source src, struct all *a, const struct steps *how, enum ahead_claim *last)
{
    const struct ahead_split_ops *split = src.ops->split;
    struct steps_piece p[STEPS_BATCH];
    struct ahead_error end = { .source_offset = UINT64_MAX };
    unsigned n = 0;
    bool go_on = true;

    *last = AHEAD_CLAIM_PIECE;
    while (n < how->batch) {
        p[n] = (struct steps_piece){ .src = src, .err = { .source_offset = UINT64_MAX } };
        *last = split->claim(src.ctx, &p[n].job, how->want, how->want, &end);
        if (*last != AHEAD_CLAIM_PIECE)
            break;
        expect_true(p[n].job.bound <= how->want);
        expect_int(posix_memalign((void **)&p[n].mem, 4096, p[n].job.bound + how->shift + 1), 0);
        p[n].dst = p[n].mem + how->shift;
        p[n].dst[p[n].job.bound] = 0xa5;
        n++;
    }
    steps_make_all(p, n, how);
    for (unsigned i = 0; i < n; i++) {
        expect_int(p[i].dst[p[i].job.bound], 0xa5);
        if (go_on)
            go_on = steps_settle(&p[i], a);
        else if (a->dropped++, split->drop)
            split->drop(src.ctx, &p[i].job.note);
        steps_free(&p[i]);
    }
    /* A stream closes the half and asks again; here nothing else was in it. */
    if (go_on && *last == AHEAD_CLAIM_NO_ROOM && n == 0)
        *last = AHEAD_CLAIM_READ;
    if (go_on && *last == AHEAD_CLAIM_ENDING) {
        a->end = end.status;
        a->err = end;
        go_on = false;
    }
    return go_on;
}

/* Takes the source from where it stands to its ending.  Free a.bytes. */
static inline struct all steps_all(struct ahead_source src, struct steps how)
{
    struct all a = { .end = AHEAD_OK };
    enum ahead_claim last = AHEAD_CLAIM_READ;
    bool go_on;

    do {
        go_on = ahead_source_is_split(src) ? steps_batch(src, &a, &how, &last) : true;
        if (go_on && last == AHEAD_CLAIM_READ)
            go_on = steps_read(src, &a, &how);
    } while (go_on);
    return a;
}

static inline void expect_close(struct ahead_source src)
{
    struct ahead_error err;

    expect_status(src.ops->close ? src.ops->close(src.ctx, &err) : AHEAD_OK, AHEAD_OK);
}

#endif
