/* SPDX-License-Identifier: Apache-2.0 */
/* fill.c - claim and make, by whoever has the token, and the second thread. */
#include "error.h"
#include "stream/buffer.h"
#include "stream/core.h"
#include "thread.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* Less than this is not a buffer of a peer that writes all the time
 * (bench_latency). */
#define FEW_BYTES (16 * 1024)

/* Where the source can be split, the reader makes pieces too, and smaller
 * halves stay in the caches: as much as one huge page holds, with the front
 * page and what is behind.  Where it cannot, a half smaller than a core's
 * private cache makes the fill pay for every line that it takes back from the
 * reader's core.  (bench_overlap, file and callback.) */
#define SPLIT_BUFFER_BYTES (((size_t)2 << 20) - 8192)
#define PLAIN_BUFFER_BYTES ((size_t)4 << 20)
#define MOST_PLAIN_BUFFER_BYTES ((size_t)16 << 20)

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

/* Twice the private cache, if the system knows its size, or more. */
static size_t plain_buffer_bytes(void)
{
#ifdef _SC_LEVEL2_CACHE_SIZE
    long cache = sysconf(_SC_LEVEL2_CACHE_SIZE);

    if (cache > 0 && 2 * (size_t)cache > MOST_PLAIN_BUFFER_BYTES)
        return MOST_PLAIN_BUFFER_BYTES;
    if (cache > 0 && 2 * (size_t)cache > PLAIN_BUFFER_BYTES)
        return 2 * (size_t)cache;
#endif
    return PLAIN_BUFFER_BYTES;
}

size_t ahead_fill_buffer_bytes(struct ahead_core *c)
{
    size_t n, unit;

    if (!c->chosen_bytes) {
        n = c->swap.split ? SPLIT_BUFFER_BYTES : plain_buffer_bytes();
        unit = c->src.ops->unit ? c->src.ops->unit(c->src.ctx) : 0;
        if (unit <= AHEAD_MAX_GATHER_BYTES)
            c->unit_bytes = round_to_page(unit);
        c->chosen_bytes = c->buffer_bytes ? c->buffer_bytes : c->unit_bytes > n ? c->unit_bytes : n;
    }
    return c->chosen_bytes;
}

void ahead_fill_delete_half(struct ahead_core *c, unsigned half, uint8_t *bytes, size_t cap)
{
    if (c->swap.pool)
        ahead_buffer_unback(bytes, cap);
    ahead_buffer_delete(bytes, cap);
    if (c->borrowed[half])
        ahead_pool_return(c->swap.pool, c->borrowed[half]);
    c->borrowed[half] = 0;
}

/* What prepare_half() came to. */
enum ahead_prepared {
    AHEAD_PREPARED,
    AHEAD_PREPARED_SINGLE, /* the budget has no second half for this stream */
    AHEAD_PREPARED_NOT     /* no memory */
};

/* What a reader alone is to use: a few of the source's blocks, one at least. */
static size_t solo_bytes(const struct ahead_core *c)
{
    size_t n = AHEAD_SOLO_UNITS * c->unit_bytes;

    if (n > AHEAD_MOST_SOLO_BYTES)
        n = AHEAD_MOST_SOLO_BYTES;
    if (n < c->unit_bytes)
        n = c->unit_bytes;
    return n > AHEAD_SOLO_BYTES ? n : AHEAD_SOLO_BYTES;
}

uint64_t ahead_fill_remaining(struct ahead_core *c)
{
    return c->src.ops->remaining ? c->src.ops->remaining(c->src.ctx) : UINT64_MAX;
}

/* What a source keeps of its input comes on top of the budget, so it is to be
 * little beside a buffer. */
static void economize(const struct ahead_core *c)
{
    const struct ahead_split_ops *split = c->src.ops->split;

    if (split && split->economize)
        split->economize(c->src.ctx, ahead_pool_share_bytes(c->swap.pool) / 8);
}

/* How large the half is to be: a whole buffer, or what the source has left if
 * that is less.  On a pool it begins small, and grows when the reader had to
 * wait or to fill. */
static size_t wanted_bytes(struct ahead_core *c, bool solo)
{
    size_t n = ahead_fill_buffer_bytes(c);
    uint64_t left = ahead_fill_remaining(c);

    if (solo && n > solo_bytes(c))
        n = solo_bytes(c);

    if (c->swap.pool) {
        economize(c);
        if (!c->grown_bytes)
            c->grown_bytes = AHEAD_POOL_FIRST_BYTES;
        else if (ahead_swap_reader_had_to_wait(&c->swap) && c->grown_bytes < n)
            c->grown_bytes *= 2;
        if (n > c->grown_bytes)
            n = c->grown_bytes;
    }
    if (left < n)
        n = left ? round_to_page((size_t)left) : AHEAD_PAGE;
    return n < ahead_fill_buffer_bytes(c) ? n : ahead_fill_buffer_bytes(c);
}

/* What the pool, if there is one, lets a half of `cap` bytes be; see
 * ahead_pool_borrow(). */
static size_t borrow(struct ahead_core *c, size_t cap, size_t have, size_t *borrowed)
{
    *borrowed = 0;
    if (!c->swap.pool)
        return cap;
    if (!c->shares)
        ahead_pool_begin_share(c->swap.pool);
    c->shares = true;
    return ahead_pool_borrow(c->swap.pool, cap, have, borrowed);
}

/* An empty half that has more than a share of the budget, while others have to
 * do without, has nothing for a moment. */
static void yield_half(struct ahead_core *c, struct ahead_place *place)
{
    size_t has = c->borrowed[place->half];

    if (!has || !place->empty || !ahead_pool_wants_back(c->swap.pool, has))
        return;
    ahead_fill_delete_half(c, place->half, place->bytes, place->room);
    ahead_swap_install(&c->swap, place, NULL, 0, ahead_fill_buffer_bytes(c), solo_bytes(c));
}

/* Gives the half memory, at the first claim in it; or more of it, when the
 * source or the pool has more than it seemed; or less, when others came.
 * `least`: so many bytes in any case, beside the budget if need be; 0: what is
 * to be had, maybe nothing. */
static enum ahead_prepared
prepare_half(struct ahead_core *c, struct ahead_place *place, size_t least)
{
    size_t cap, borrowed;
    uint8_t *bytes;
    bool fits;

    yield_half(c, place);
    fits = place->bytes && place->room >= least;
    if (fits && (!place->empty || place->room >= ahead_fill_buffer_bytes(c)))
        return AHEAD_PREPARED;
    cap = wanted_bytes(c, place->solo);
    if (fits && cap <= place->room)
        return AHEAD_PREPARED;
    cap = borrow(c, cap, place->bytes ? place->room : 0, &borrowed);
    if (cap == 0 && fits)
        return AHEAD_PREPARED;
    if (cap == 0 && least == 0 && !place->alone && !place->bytes)
        return AHEAD_PREPARED_SINGLE;
    if (cap < least)
        cap = least;
    if (cap < AHEAD_PAGE && cap < ahead_fill_buffer_bytes(c))
        cap = AHEAD_PAGE; /* beside the budget: a stream always goes on */
    bytes = ahead_buffer_new(cap);
    if (!bytes) {
        if (borrowed)
            ahead_pool_return(c->swap.pool, borrowed);
        return fits ? AHEAD_PREPARED : AHEAD_PREPARED_NOT;
    }
    if (place->bytes)
        ahead_fill_delete_half(c, place->half, place->bytes, place->room);
    c->borrowed[place->half] = borrowed;
    ahead_swap_install(&c->swap, place, bytes, cap, ahead_fill_buffer_bytes(c), solo_bytes(c));
    return AHEAD_PREPARED;
}

/* In a stream with memory for one half, at a half that is empty: whether the
 * pool has something for a second one by now. */
static void try_two_halves(struct ahead_core *c)
{
    size_t borrowed;

    if (borrow(c, AHEAD_PAGE, 0, &borrowed) == 0)
        return;
    ahead_pool_return(c->swap.pool, borrowed);
    ahead_swap_end_single(&c->swap);
}

void ahead_fill_shrink(struct ahead_core *c)
{
    uint8_t *bytes;
    size_t cap;

    if (c->grown_bytes > AHEAD_POOL_FIRST_BYTES)
        c->grown_bytes /= 2;
    for (unsigned i = 0; i < 2; i++) {
        if (c->borrowed[i] <= c->grown_bytes + AHEAD_PAGE)
            continue;
        ahead_swap_take_half(&c->swap, i, &bytes, &cap);
        ahead_fill_delete_half(c, i, bytes, cap);
    }
}

void ahead_fill_release(struct ahead_core *c)
{
    uint8_t *bytes[2];
    size_t cap[2];

    if (!c->swap.pool || !ahead_swap_take_memory(&c->swap, bytes, cap))
        return;
    for (unsigned i = 0; i < 2; i++)
        ahead_fill_delete_half(c, i, bytes[i], cap[i]);
    if (c->shares)
        ahead_pool_end_share(c->swap.pool);
    c->shares = false;
}

/* ---- one piece ---- */

/* One read() of the source, tried again where that is due: bytes > 0, or 0
 * with *err filled in. */
static size_t read_some(struct ahead_core *c, uint8_t *dst, size_t len, struct ahead_error *err)
{
    unsigned naps = 0;
    ssize_t n;

    for (;;) {
        ahead_error_clear(err);
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
    enum ahead_placed placed;
    struct ahead_error err;
    uint64_t number;
    size_t len = 0;

    while ((placed = ahead_swap_end_claim(&c->swap, place, job, &number)) == AHEAD_PLACED_MOVED)
        if (prepare_half(c, place, job->bound ? job->bound : 1) != AHEAD_PREPARED)
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
    ahead_error_clear(&err);
    err.status = split->make(c->src.ctx, job, place->bytes + place->off, &len, &err);
    if (err.status)
        ahead_error_make_ending(&err, "source");
    return ahead_swap_end_make(&c->swap, c->src, number, len, &err, next);
}

bool ahead_fill_piece(struct ahead_core *c, struct ahead_job *job, struct ahead_place *place,
                      struct ahead_place *next)
{
    struct ahead_error err;
    size_t want;

    if (c->swap.pool && place->empty && place->alone && place->bytes)
        try_two_halves(c);
    switch (prepare_half(c, place, 0)) {
    case AHEAD_PREPARED: break;
    case AHEAD_PREPARED_SINGLE: ahead_swap_end_claim_single(&c->swap); return false;
    case AHEAD_PREPARED_NOT: end_without_memory(c); return false;
    }
    if (!c->swap.split || place->serial)
        return make_by_read(c, place, next);

    want = place->want < place->room ? place->want : place->room;
    ahead_error_clear(&err);
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

/* Makes pieces, one after the other, for as long as there are some to claim. */
static void fill_on(struct ahead_core *c, struct ahead_job *job, struct ahead_place *place)
{
    struct ahead_place next = { .turns = 1 };

    while (ahead_fill_piece(c, job, place, &next)) {
        *place = next;
        next.turns++;
    }
}

/* On a thread of a pool. */
void ahead_fill_run(struct ahead_task *task, struct ahead_job *job)
{
    struct ahead_core *c =
        (struct ahead_core *)((char *)task - offsetof(struct ahead_core, swap.task));
    const struct ahead_core *outer = self_;
    struct ahead_place place;
    bool orphan = false;

    self_ = c;
    if (ahead_swap_begin_pool_fill(&c->swap, &place, &orphan)) {
        fill_on(c, job, &place);
        orphan = ahead_swap_end_pool_fill(&c->swap);
    }
    if (orphan)
        ahead_core_destroy(c);
    self_ = outer;
}

/* Prepares the other half while the reader still goes on alone: backing the
 * memory takes as long as filling it several times. */
static void warm_up(struct ahead_core *c)
{
    size_t cap = c->second_bytes;
    struct ahead_place place;
    uint8_t *bytes;

    if (!ahead_swap_begin_warm_up(&c->swap, &place))
        return;
    bytes = place.bytes || !cap ? NULL : ahead_buffer_new(cap);
    if (bytes)
        ahead_buffer_touch(bytes, cap);
    if (!ahead_swap_end_warm_up(&c->swap, &place, bytes, cap, c->chosen_bytes, solo_bytes(c)))
        ahead_buffer_delete(bytes, cap);
}

static void *fill_main(void *arg)
{
    struct ahead_core *c = arg;
    struct ahead_place place;
    bool orphan = false;

    self_ = c;
    warm_up(c);
    while (ahead_swap_begin_fill(&c->swap, &place, &orphan))
        fill_on(c, &c->fill_job, &place);
    if (orphan)
        ahead_core_destroy(c);
    return NULL;
}

void ahead_fill_start(struct ahead_core *c)
{
    bool join;

    if (c->swap.pool && !ahead_pool_start(c->swap.pool)) {
        ahead_swap_start_failed(&c->swap);
        return;
    }
    if (!ahead_swap_begin_start(&c->swap, &join))
        return;
    if (join)
        pthread_join(c->thread, NULL);
    /* Of a source that nothing was asked for yet, unit() may wait for bytes:
     * then there is no reader alone, and no half to be warmed up. */
    if (c->chosen_bytes)
        c->second_bytes = wanted_bytes(c, false);
    if (ahead_thread_start(&c->thread, c->name, fill_main, c))
        ahead_swap_start_failed(&c->swap);
}
