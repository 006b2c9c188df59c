/* SPDX-License-Identifier: Apache-2.0 */
/* fill.c - claim and make, by whoever has the token, and the second thread. */
#include "error.h"
#include "stream/buffer.h"
#include "stream/core.h"
#include "thread.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* Less than this is not a buffer of a peer that writes all the time. */
#define FEW_BYTES (16 * 1024)

/* Where the source can be split, the reader makes pieces too, and smaller
 * halves stay in the caches.  Where it cannot, a half smaller than a core's
 * private cache makes the fill pay for every line that it takes back from the
 * reader's core. */
#define SPLIT_BUFFER_BYTES ((size_t)1 << 20)
#define PLAIN_BUFFER_BYTES ((size_t)4 << 20)

/* The stream whose second thread this thread is. */
static _Thread_local const struct ahead_core *self_;

bool ahead_fill_is_self(const struct ahead_core *c)
{
    return self_ == c;
}

/* ---- memory ---- */

static size_t round_to_page(size_t n)
{
    return (n + AHEAD_PAGE - 1) / AHEAD_PAGE * AHEAD_PAGE;
}

size_t ahead_fill_buffer_bytes(struct ahead_core *c)
{
    size_t unit;

    if (c->buffer_bytes)
        return c->buffer_bytes;
    if (!c->chosen_bytes) {
        c->chosen_bytes = c->swap.split ? SPLIT_BUFFER_BYTES : PLAIN_BUFFER_BYTES;
        unit = c->src.ops->unit ? c->src.ops->unit(c->src.ctx) : 0;
        if (unit > c->chosen_bytes && unit <= AHEAD_MAX_GATHER_BYTES)
            c->chosen_bytes = round_to_page(unit);
    }
    return c->chosen_bytes;
}

/* Gives the half its memory at the first claim in it: a whole buffer, or what
 * the source has left if that is less; `least` bytes in any case.  A half that
 * was made small for a source that turned out to have more is replaced. */
static bool prepare_half(struct ahead_core *c, struct ahead_place *place, size_t least)
{
    size_t full = ahead_fill_buffer_bytes(c), cap = full;
    bool fits = place->bytes && place->room >= least;
    uint64_t left = UINT64_MAX;
    uint8_t *bytes;

    if (fits && (!place->empty || place->room >= full))
        return true;
    if (c->src.ops->remaining)
        left = c->src.ops->remaining(c->src.ctx);
    if (fits && left <= place->room)
        return true;
    if (!place->bytes && left < full)
        cap = left ? round_to_page((size_t)left) : AHEAD_PAGE;
    if (cap > full)
        cap = full;
    if (cap < least)
        cap = least;
    bytes = ahead_buffer_new(cap);
    if (!bytes)
        return fits;
    if (place->bytes)
        ahead_buffer_delete(place->bytes, place->room);
    ahead_swap_install(&c->swap, place, bytes, cap, full);
    return true;
}

/* ---- one piece ---- */

/* One read() of the source, tried again where that is due: bytes > 0, or 0
 * with *err filled in. */
static size_t read_some(struct ahead_core *c, uint8_t *dst, size_t len, struct ahead_error *err)
{
    unsigned naps = 0;
    ssize_t n;

    for (;;) {
        *err = (struct ahead_error){ .source_offset = AHEAD_NO_OFFSET };
        errno = 0;
        n = c->src.ops->read(c->src.ctx, dst, len, err);
        if (n > 0 && (size_t)n <= len)
            return (size_t)n;
        if (n == 0) {
            ahead_error_set(err, AHEAD_EOF, AHEAD_NO_OFFSET, "end of input");
            return 0;
        }
        if (n > 0) {
            ahead_error_set(err, AHEAD_IO, AHEAD_NO_OFFSET,
                            "the source says it read %zd bytes where there was room for %zu", n,
                            len);
            return 0;
        }
        if (err->status == AHEAD_OK &&
            (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK)) {
            int os_errno = errno;

            if (!ahead_swap_interrupted(&c->swap) && (os_errno == EINTR || ahead_thread_nap(&naps)))
                continue;
            errno = os_errno;
        }
        if (err->status == AHEAD_OK)
            ahead_error_set_errno(err, errno, err->source_offset, "reading the source failed");
        ahead_error_make_ending(err, "source");
        return 0;
    }
}

/* Whether the reader, who sleeps in front of `awaited` bytes, is better woken
 * before the next read.  A few bytes may be all that a peer has to say before
 * it hears from the reader; of many, there are more to come. */
static bool is_dry(struct ahead_core *c, size_t awaited)
{
    const struct ahead_source_ops *ops = c->src.ops;

    if (!ops->ready || ops->ready(c->src.ctx))
        return false;
    return awaited < FEW_BYTES || !ops->split || !ops->split->linger ||
           !ops->split->linger(c->src.ctx);
}

static bool make_by_read(struct ahead_core *c, struct ahead_place *place, struct ahead_place *next)
{
    size_t want = place->want < place->room ? place->want : place->room;
    struct ahead_error err;
    size_t n;

    if (place->awaited && is_dry(c, place->awaited))
        ahead_swap_going_dry(&c->swap);
    ahead_buffer_unpoison(place->bytes + place->off, want);
    n = read_some(c, place->bytes + place->off, want, &err);
    if (n > 0)
        return ahead_swap_end_read(&c->swap, place, n, next);
    ahead_swap_end_claim_ending(&c->swap, &err);
    return false;
}

/* The claim ends the stream: no memory for a half. */
static void end_without_memory(struct ahead_core *c)
{
    struct ahead_error err;

    ahead_error_set(&err, AHEAD_NOMEM, AHEAD_NO_OFFSET, "no memory for a buffer of %zu bytes",
                    ahead_fill_buffer_bytes(c));
    ahead_swap_end_claim_ending(&c->swap, &err);
}

static bool make_claimed(struct ahead_core *c, struct ahead_job *job, struct ahead_place *place,
                         struct ahead_place *next)
{
    const struct ahead_split_ops *split = c->src.ops->split;
    struct ahead_error err = { .source_offset = AHEAD_NO_OFFSET };
    enum ahead_placed placed;
    uint64_t number;
    size_t len = 0;

    while ((placed = ahead_swap_end_claim(&c->swap, place, job, &number)) == AHEAD_PLACED_MOVED)
        if (!prepare_half(c, place, job->bound))
            break;
    if (placed != AHEAD_PLACED) {
        /* With the token: a seek comes only after it. */
        if (split->drop)
            split->drop(c->src.ctx, &job->note);
        if (placed == AHEAD_PLACED_MOVED)
            end_without_memory(c);
        else
            ahead_swap_abandon_claim(&c->swap);
        return false;
    }
    err.status = split->make(c->src.ctx, job, place->bytes + place->off, &len, &err);
    if (err.status)
        ahead_error_make_ending(&err, "source");
    return ahead_swap_end_make(&c->swap, c->src, number, len, &err, next);
}

bool ahead_fill_piece(struct ahead_core *c, struct ahead_job *job, struct ahead_place *place,
                      struct ahead_place *next)
{
    struct ahead_error err = { .source_offset = AHEAD_NO_OFFSET };
    size_t want;

    if (!prepare_half(c, place, 1)) {
        end_without_memory(c);
        return false;
    }
    if (!c->swap.split || place->serial)
        return make_by_read(c, place, next);

    want = place->want < place->room ? place->want : place->room;
    switch (c->src.ops->split->claim(c->src.ctx, job, want, place->room, &err)) {
    case AHEAD_CLAIM_PIECE: return make_claimed(c, job, place, next);
    case AHEAD_CLAIM_READ: ahead_swap_end_claim_serial(&c->swap); return false;
    case AHEAD_CLAIM_NO_ROOM:
        if (place->empty)
            ahead_swap_end_claim_serial(&c->swap);
        else
            ahead_swap_end_claim_no_room(&c->swap);
        return false;
    case AHEAD_CLAIM_ENDING: ahead_error_make_ending(&err, "source"); break;
    }
    ahead_swap_end_claim_ending(&c->swap, &err);
    return false;
}

/* ---- the second thread ---- */

static void *fill_main(void *arg)
{
    struct ahead_core *c = arg;
    struct ahead_place place, next;
    bool orphan = false;

    self_ = c;
    while (ahead_swap_begin_fill(&c->swap, &place, &orphan))
        while (ahead_fill_piece(c, &c->fill_job, &place, &next))
            place = next;
    if (orphan)
        ahead_core_destroy(c);
    return NULL;
}

void ahead_fill_start(struct ahead_core *c)
{
    bool join;

    if (!ahead_swap_begin_start(&c->swap, &join))
        return;
    if (join)
        pthread_join(c->thread, NULL);
    if (ahead_thread_start(&c->thread, c->name, fill_main, c))
        ahead_swap_start_failed(&c->swap);
}
