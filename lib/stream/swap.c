/* SPDX-License-Identifier: Apache-2.0 */
/* swap.c - the hand-over of pieces between makers and reader: the only file
 * that locks a stream.
 *
 * Every transition is one section under the lock, and ends by waking whoever
 * sleeps and can go on now (wake_locked), and nobody else. */
#include "stream/swap.h"

#include "error.h"
#include "stream/buffer.h"
#include "thread.h"

#include <string.h>

/* The first claim of a stream asks for this much, each further one for twice
 * as much: a small read is not late by the making of a large piece
 * (bench_small). */
#define FIRST_WANT_BYTES (64 * 1024)

/* Pieces that a thread of a pool makes for one stream while others wait. */
#define POOL_TURNS 4

/* ---- predicates, all called locked ---- */

static struct ahead_piece *piece_locked(struct ahead_swap *sw, uint64_t number)
{
    return &sw->ring[number % AHEAD_RING];
}

static bool all_published_locked(const struct ahead_swap *sw)
{
    return sw->claims == sw->published && !sw->settling;
}

/* Whether the reader makes pieces beside the second thread.  Not of what has to
 * be read in order, be the source one that can be split: the reader would take
 * turns with the thread, and have its bytes from the other core. */
static bool helps_locked(const struct ahead_swap *sw)
{
    return sw->split && !sw->in_order;
}

static bool quiet_locked(const struct ahead_swap *sw)
{
    return !sw->token && !sw->settling && sw->makes[0] + sw->makes[1] == 0;
}

/* Whether a claim may begin, whoever makes it. */
static bool claimable_locked(const struct ahead_swap *sw)
{
    return !sw->token && !sw->pend && !sw->stop && !sw->half[sw->filling].closed &&
           sw->claims - sw->published < AHEAD_RING && (!sw->serial || all_published_locked(sw));
}

/* Whether the second thread does the filling.  One of a pool's that has not
 * come yet does not: so a busy pool, or streams read through one another on a
 * pool of one thread, keep nobody waiting. */
static bool fill_works_locked(const struct ahead_swap *sw)
{
    if (sw->pool)
        return sw->fills > 0;
    return sw->fill == AHEAD_FILL_RUNNING && sw->warm && !sw->solo;
}

static bool fill_can_claim_locked(const struct ahead_swap *sw)
{
    return sw->warm && !sw->solo && !sw->hold && claimable_locked(sw);
}

/* Whether the reader leaves what may block to the second thread: but not to one
 * of a pool's that has not come, if it can keep the time itself, or if it keeps
 * a thread of a pool from coming. */
static bool delegates_locked(const struct ahead_swap *sw)
{
    return sw->delegate && !sw->nested && !(sw->pool && sw->fills == 0 && sw->can_wait);
}

/* A claim that may block is made only while nothing that was claimed is
 * unpublished: else the reader, and a peer that waits for its answer, could
 * wait for each other. */
static bool reader_can_claim_locked(const struct ahead_swap *sw)
{
    if (!claimable_locked(sw))
        return false;
    if (!helps_locked(sw) && fill_works_locked(sw))
        return false;
    if (!sw->may_block || sw->fill == AHEAD_FILL_NEVER)
        return true;
    return !delegates_locked(sw) && all_published_locked(sw);
}

static size_t unread_locked(const struct ahead_swap *sw)
{
    return sw->half[sw->active].ready - sw->taken;
}

static bool ending_due_locked(const struct ahead_swap *sw)
{
    return sw->pend && sw->published == sw->pend_published && sw->taken_offset == sw->position;
}

static bool used_up_locked(const struct ahead_swap *sw)
{
    const struct ahead_half *h = &sw->half[sw->active];

    return h->closed && h->pending == 0 && sw->taken == h->ready;
}

/* Whether a read() writes into the reader's half. */
static bool being_read_locked(const struct ahead_swap *sw)
{
    return sw->token && sw->reading && sw->token_half == sw->active;
}

/* Whether the clock says if the second thread pays.  Over a source that can be
 * split the reader helps, so it always does; and what is small is not worth a
 * look at the clock. */
static bool paced_locked(const struct ahead_swap *sw)
{
    return !helps_locked(sw) && !sw->pool && !sw->delegate && ahead_pace_applies(sw->full_bytes);
}

/* Whether the second thread is to be started, or let loose: at the first
 * bytes beyond one buffer, or when only it may wait for the source.  On a pool,
 * where buffers begin small, at the first beyond what the half has. */
static bool start_due_locked(const struct ahead_swap *sw)
{
    size_t alone = sw->pool ? sw->half[sw->active].cap : sw->full_bytes;

    if (sw->warm || sw->pend || sw->fill == AHEAD_FILL_NEVER)
        return false;
    if (sw->delegate && sw->may_block)
        return true;
    return sw->position - sw->cold_offset > alone;
}

/* Whether another thread than the reader may be in the source. */
static bool fill_is_inside_locked(const struct ahead_swap *sw)
{
    if (sw->pool)
        return sw->queued || sw->fills > 0;
    return sw->fill == AHEAD_FILL_RUNNING;
}

/* Published, and not taken. */
static size_t ready_locked(const struct ahead_swap *sw)
{
    const struct ahead_half *h = &sw->half[sw->active];
    size_t n = unread_locked(sw);

    if (h->closed && h->pending == 0)
        n += sw->half[!sw->active].ready;
    return n;
}

/* Whether what is published is worth a wake-up.  A reader that makes pieces
 * itself is woken by the first byte; another one when half a buffer is there,
 * when no more comes for now, or when its patience is over. */
static bool worth_waking_locked(const struct ahead_swap *sw)
{
    const struct ahead_half *h = &sw->half[sw->active];

    return helps_locked(sw) || sw->hungry || sw->dry || sw->solo || sw->pend || h->closed ||
           unread_locked(sw) >= h->cap / 2;
}

static bool wish_granted_locked(const struct ahead_swap *sw)
{
    switch (sw->wish) {
    case AHEAD_WISH_NONE: return false;
    case AHEAD_WISH_BYTES:
        if (unread_locked(sw) > 0)
            return worth_waking_locked(sw);
        return ending_due_locked(sw) || used_up_locked(sw) || reader_can_claim_locked(sw);
    case AHEAD_WISH_QUIET:
        return quiet_locked(sw) || sw->cancelled || ready_locked(sw) >= sw->enough;
    case AHEAD_WISH_WHOLE:
        return sw->makes[sw->active] == 0 && !sw->settling &&
               (sw->half[sw->active].pending == 0 ||
                (sw->pend && sw->published == sw->pend_published));
    case AHEAD_WISH_LEFT: return !fill_is_inside_locked(sw) && sw->hooks == 0;
    }
    return false;
}

/* ---- waking and sleeping ---- */

static void wake_fill_locked(struct ahead_swap *sw)
{
    sw->rest = AHEAD_REST_NONE;
    sw->stats.wakeups++;
    pthread_cond_signal(&sw->room);
}

static void wake_locked(struct ahead_swap *sw)
{
    if (wish_granted_locked(sw)) {
        sw->wish = AHEAD_WISH_NONE;
        sw->stats.wakeups++;
        pthread_cond_signal(&sw->ready);
    }
    if (sw->pool && !sw->queued && sw->fill == AHEAD_FILL_RUNNING && fill_can_claim_locked(sw)) {
        sw->queued = true;
        ahead_pool_submit(sw->pool, &sw->task, sw->wish == AHEAD_WISH_BYTES);
    }
    if (sw->rest == AHEAD_REST_NONE)
        return;
    if (sw->stop || sw->pend || (sw->rest == AHEAD_REST_SLEEP && fill_can_claim_locked(sw)))
        wake_fill_locked(sw);
}

/* The reader sleeps once for `wish`; the caller tests again.  The sleep is
 * over at `until` (0: never).  Returns the time. */
static uint64_t
reader_sleep_locked(struct ahead_swap *sw, enum ahead_wish wish, uint64_t now, uint64_t until)
{
    uint64_t then;

    if (sw->rest == AHEAD_REST_NAP && fill_can_claim_locked(sw))
        wake_fill_locked(sw);
    if (sw->queued && wish == AHEAD_WISH_BYTES)
        ahead_pool_promote(sw->pool, &sw->task);
    sw->wish = wish;
    ahead_thread_sleep(&sw->ready, &sw->lock, until);
    sw->wish = AHEAD_WISH_NONE;
    then = ahead_thread_now_ns(sw->clock);
    sw->stats.reader_wait_ns += then - now;
    return then;
}

/* The reader sleeps until `wish` is granted.  false: timeout_ms (0: no limit)
 * ran out first. */
static bool reader_wait_locked(struct ahead_swap *sw, enum ahead_wish wish, uint32_t timeout_ms)
{
    uint64_t now = 0, deadline = 0;
    bool granted;

    while (sw->wish = wish, granted = wish_granted_locked(sw), sw->wish = AHEAD_WISH_NONE,
           !granted) {
        if (!now) {
            now = ahead_thread_now_ns(sw->clock);
            deadline = timeout_ms ? now + timeout_ms * UINT64_C(1000000) : 0;
            sw->stats.reader_waits++;
        }
        if (deadline && now >= deadline)
            return false;
        now = reader_sleep_locked(sw, wish, now, deadline);
    }
    return true;
}

/* One field, for a caller that does not hold the lock. */
static bool get_field(struct ahead_swap *sw, const bool *field)
{
    bool value;

    pthread_mutex_lock(&sw->lock);
    value = *field;
    pthread_mutex_unlock(&sw->lock);
    return value;
}

/* ---- set-up ---- */

enum ahead_status ahead_swap_init(struct ahead_swap *sw)
{
    sw->want = FIRST_WANT_BYTES;
    sw->warm = sw->eager;
    sw->solo = !sw->eager;
    if (pthread_mutex_init(&sw->lock, NULL))
        return AHEAD_NOMEM;
    if (ahead_thread_cond_init(&sw->ready, &sw->clock))
        goto err_lock;
    if (ahead_thread_cond_init(&sw->room, &sw->clock))
        goto err_ready;
    return AHEAD_OK;

err_ready:
    pthread_cond_destroy(&sw->ready);
err_lock:
    pthread_mutex_destroy(&sw->lock);
    return AHEAD_NOMEM;
}

void ahead_swap_destroy(struct ahead_swap *sw)
{
    pthread_cond_destroy(&sw->room);
    pthread_cond_destroy(&sw->ready);
    pthread_mutex_destroy(&sw->lock);
}

/* ---- halves, called locked ---- */

static void empty_half_locked(struct ahead_half *h)
{
    h->tail = h->ready = 0;
    h->claimed = h->pending = 0;
    h->closed = false;
    if (h->bytes)
        ahead_buffer_poison(h->bytes, h->cap);
}

/* Whether the next claim, and the reader, stay in the half in which they are,
 * when it is closed and used up.  A reader alone does, once it has used up what
 * was read ahead. */
static bool stays_locked(const struct ahead_swap *sw)
{
    return sw->single ||
           (sw->solo && sw->filling == sw->active && sw->half[!sw->active].claimed == 0);
}

/* No more is claimed in the filling half; the next claim goes to the other. */
static void close_filling_locked(struct ahead_swap *sw)
{
    sw->half[sw->filling].closed = true;
    if (!stays_locked(sw))
        sw->filling = !sw->filling;
    sw->stats.fills++;
}

/* The second thread fills from now on, in the other half if this one is closed
 * and was to be used again. */
static void end_solo_locked(struct ahead_swap *sw)
{
    if (sw->solo && !sw->single && stays_locked(sw) && sw->half[sw->filling].closed)
        sw->filling = !sw->filling;
    sw->solo = false;
}

/* Closes the filling half when it is full.  Over a source that cannot be
 * split, also when what is left is not worth a read; but an input that ends in
 * the first buffer is not to look as if it needed a second.  A reader alone
 * uses little of the half. */
static void close_if_full_locked(struct ahead_swap *sw)
{
    const struct ahead_half *h = &sw->half[sw->filling];

    if (h->cap - h->tail <= (sw->split || !sw->warm ? 0 : h->cap / 64) ||
        (sw->solo && h->tail >= sw->solo_bytes))
        close_filling_locked(sw);
}

/* What is free of the filling half. */
static void find_place_locked(const struct ahead_swap *sw, struct ahead_place *place)
{
    const struct ahead_half *h = &sw->half[sw->filling];

    place->half = sw->filling;
    place->bytes = h->bytes;
    place->off = h->tail;
    place->room = h->cap - h->tail;
    place->empty = h->claimed == 0;
    place->solo = sw->solo;
    place->alone = !sw->half[!sw->filling].bytes;
}

/* Takes the token for a claim. */
static void begin_claim_locked(struct ahead_swap *sw, struct ahead_place *place, bool by_reader)
{
    find_place_locked(sw, place);
    sw->token = true;
    sw->token_half = sw->filling;
    sw->by_reader = by_reader;
    sw->reading = !sw->split || sw->serial;
    place->want = sw->want;
    place->serial = sw->serial;
    place->awaited = 0;
    place->takes = place->taken = false;
    if (sw->want < AHEAD_PIECE_BYTES)
        sw->want *= 2;
}

/* A thread of a pool makes way for other streams when it has made some pieces
 * in a row; and at once when it may have to wait for the next. */
static bool has_had_its_turn(const struct ahead_swap *sw, const struct ahead_place *next)
{
    return sw->pool && next->turns >= (sw->may_block ? 1 : POOL_TURNS) &&
           ahead_pool_is_pressed(sw->pool);
}

/* The end of a maker's section: takes the next claim if `next` asks for it,
 * then wakes.  The other way round the reader would be woken for a token that
 * is gone when it comes. */
static bool end_section_locked(struct ahead_swap *sw, struct ahead_place *next)
{
    bool again = next && fill_can_claim_locked(sw) && !has_had_its_turn(sw, next);

    if (again)
        begin_claim_locked(sw, next, false);
    wake_locked(sw);
    if (again)
        next->awaited = sw->wish == AHEAD_WISH_BYTES ? unread_locked(sw) : 0;
    return again;
}

/* The source was asked, by the token's holder, and answered. */
static void count_read_locked(struct ahead_swap *sw)
{
    sw->stats.source_reads++;
    if (!sw->by_reader)
        return;
    if (fill_works_locked(sw))
        sw->stats.helped_pieces++;
    else
        sw->stats.sync_fills++;
}

/* Adds a piece behind the others of its half. */
static struct ahead_piece *add_piece_locked(struct ahead_swap *sw, unsigned half, size_t bound)
{
    struct ahead_half *h = &sw->half[half];
    struct ahead_piece *p = piece_locked(sw, sw->claims++);

    *p = (struct ahead_piece){ .half = half, .off = h->tail };
    count_read_locked(sw);
    h->tail += bound;
    h->claimed++;
    h->pending++;
    return p;
}

static void publish_locked(struct ahead_swap *sw, const struct ahead_piece *p, size_t len)
{
    struct ahead_half *h = &sw->half[p->half];

    sw->published++;
    sw->position += len;
    h->ready += len;
    h->pending--;
    if (h->pending == 0 && !h->closed)
        h->tail = h->ready;
}

/* ---- endings, called locked ---- */

/* Keeps the ending of the earliest claim.  `published`: how many pieces come
 * before it.  A cancel, and an ending that was returned, stay.  `tighter`: of
 * two for the same claim, this one leaves fewer good bytes. */
static void record_locked(struct ahead_swap *sw, const struct ahead_error *ending, uint64_t claim,
                          uint64_t published, bool tighter)
{
    if (sw->cancelled || sw->ended)
        return;
    if (sw->pend && (sw->pend_claim < claim || (sw->pend_claim == claim && !tighter)))
        return;
    sw->pend = true;
    sw->pend_claim = claim;
    sw->pend_published = published;
    sw->ending = *ending;
}

static void record_cancel_locked(struct ahead_swap *sw)
{
    sw->pend = true;
    sw->pend_claim = 0;
    sw->pend_published = sw->published;
    ahead_error_set(&sw->ending, AHEAD_CANCELLED, AHEAD_NO_OFFSET, "the stream was cancelled");
}

/* ---- the reader ---- */

static void leave_half_locked(struct ahead_swap *sw)
{
    empty_half_locked(&sw->half[sw->active]);
    if (!stays_locked(sw))
        sw->active = !sw->active;
    sw->taken = 0;
    sw->stats.swaps++;
    if (sw->rest != AHEAD_REST_NONE && !sw->room_ns)
        sw->room_ns = ahead_thread_now_ns(sw->clock);
}

/* At the end of a stretch: the reader goes on as before, or the other way. */
static void keep_pace_locked(struct ahead_swap *sw)
{
    bool solo;

    if (!sw->warm || sw->pend || sw->fill != AHEAD_FILL_RUNNING || !paced_locked(sw) ||
        !ahead_pace_is_due(&sw->pace, sw->taken_offset, sw->solo))
        return;
    solo = ahead_pace_is_better_alone(&sw->pace, ahead_thread_now_ns(sw->clock), sw->taken_offset,
                                      sw->stats.reader_wait_ns, sw->solo);
    if (sw->solo && !solo)
        end_solo_locked(sw);
    sw->solo = solo;
}

static void give_back_locked(struct ahead_swap *sw)
{
    leave_half_locked(sw);
    keep_pace_locked(sw);
    wake_locked(sw);
}

/* What the pace of a reader alone is made of. */
static void note_claim_alone_locked(struct ahead_swap *sw)
{
    bool paced = paced_locked(sw) && sw->claims % AHEAD_PACE_SAMPLE == 0;
    uint64_t now;

    if (sw->pace.since_ns && !paced)
        return;
    now = ahead_thread_now_ns(sw->clock);
    if (!sw->pace.since_ns)
        ahead_pace_begin(&sw->pace, now, sw->position);
    if (paced)
        ahead_pace_enter_source(&sw->pace, now);
}

static size_t take_locked(struct ahead_swap *sw, size_t most, uint8_t **bytes, size_t *from)
{
    size_t n = unread_locked(sw);

    if (n > most)
        n = most;
    *bytes = sw->half[sw->active].bytes;
    *from = sw->taken;
    sw->taken += n;
    sw->taken_offset += n;
    return n;
}

enum ahead_turn ahead_swap_next(struct ahead_swap *sw, struct ahead_ask ask,
                                struct ahead_place *place, struct ahead_error *ending)
{
    uint64_t now = 0, deadline = 0, patience = 0;
    enum ahead_turn turn;

    place->left = false;
    pthread_mutex_lock(&sw->lock);
    sw->nested = sw->pool && ahead_pool_is_any();
    for (;;) {
        if (start_due_locked(sw) && !ask.poll) {
            turn = AHEAD_TURN_START;
            break;
        }
        if (unread_locked(sw) > 0) {
            turn = AHEAD_TURN_READY;
            if (!sw->half[sw->active].closed && fill_works_locked(sw))
                sw->stats.early_returns++;
            if (!ask.partial) {
                turn = AHEAD_TURN_TAKEN;
                place->room = take_locked(sw, SIZE_MAX, &place->bytes, &place->off);
            }
            break;
        }
        if (ending_due_locked(sw)) {
            turn = AHEAD_TURN_ENDED;
            sw->ending.offset = sw->position;
            *ending = sw->ending;
            if (sw->ending.status != AHEAD_EOF || !ask.partial)
                sw->ended = true;
            break;
        }
        if (used_up_locked(sw)) {
            if (ask.partial) {
                turn = AHEAD_TURN_USED;
                break;
            }
            give_back_locked(sw);
            place->left = true;
            continue;
        }
        if (ask.poll) {
            turn = AHEAD_TURN_WAIT;
            break;
        }
        if (reader_can_claim_locked(sw)) {
            turn = AHEAD_TURN_CLAIM;
            begin_claim_locked(sw, place, true);
            place->takes = !ask.partial;
            if (!sw->warm)
                note_claim_alone_locked(sw);
            break;
        }
        if (!now) {
            now = ahead_thread_now_ns(sw->clock);
            deadline = ask.timeout_ms ? now + ask.timeout_ms * UINT64_C(1000000) : 0;
            patience = helps_locked(sw) ? 0 : now + AHEAD_PATIENCE_NS;
            sw->stats.reader_waits++;
        }
        if (deadline && now >= deadline) {
            turn = AHEAD_TURN_TIMEDOUT;
            break;
        }
        sw->hungry = now >= patience;
        now = reader_sleep_locked(sw, AHEAD_WISH_BYTES, now,
                                  sw->hungry || (deadline && deadline < patience) ? deadline
                                                                                  : patience);
    }
    sw->hungry = false;
    pthread_mutex_unlock(&sw->lock);
    return turn;
}

size_t ahead_swap_take(struct ahead_swap *sw, size_t most, uint8_t **bytes, size_t *from)
{
    size_t n;

    pthread_mutex_lock(&sw->lock);
    n = take_locked(sw, most, bytes, from);
    pthread_mutex_unlock(&sw->lock);
    return n;
}

void ahead_swap_give_back(struct ahead_swap *sw)
{
    pthread_mutex_lock(&sw->lock);
    give_back_locked(sw);
    pthread_mutex_unlock(&sw->lock);
}

size_t ahead_swap_ready_bytes(struct ahead_swap *sw)
{
    size_t n;

    pthread_mutex_lock(&sw->lock);
    n = ready_locked(sw);
    pthread_mutex_unlock(&sw->lock);
    return n;
}

size_t ahead_swap_buffer_bytes(struct ahead_swap *sw)
{
    size_t n;

    pthread_mutex_lock(&sw->lock);
    n = sw->half[0].cap + sw->half[1].cap;
    pthread_mutex_unlock(&sw->lock);
    return n;
}

size_t ahead_swap_full_bytes(struct ahead_swap *sw)
{
    size_t n;

    pthread_mutex_lock(&sw->lock);
    n = sw->full_bytes;
    pthread_mutex_unlock(&sw->lock);
    return n;
}

void ahead_swap_unend(struct ahead_swap *sw)
{
    pthread_mutex_lock(&sw->lock);
    if (sw->ended && sw->cancelled)
        record_cancel_locked(sw);
    sw->ended = false;
    pthread_mutex_unlock(&sw->lock);
}

bool ahead_swap_cancelled(struct ahead_swap *sw)
{
    return get_field(sw, &sw->cancelled);
}

bool ahead_swap_wants_thread(struct ahead_swap *sw, uint64_t left)
{
    bool wants;

    pthread_mutex_lock(&sw->lock);
    wants = sw->pool || sw->delegate || !ahead_pace_applies(sw->full_bytes) ||
            ahead_pace_wants_thread(&sw->pace, ahead_thread_now_ns(sw->clock), sw->position, left);
    if (!wants)
        sw->cold_offset = sw->position; /* alone for once more that long */
    pthread_mutex_unlock(&sw->lock);
    return wants;
}

bool ahead_swap_begin_start(struct ahead_swap *sw, bool *join)
{
    bool start = false;

    pthread_mutex_lock(&sw->lock);
    sw->warm = true;
    *join = sw->fill == AHEAD_FILL_LEFT;
    if (sw->fill == AHEAD_FILL_NONE || sw->fill == AHEAD_FILL_LEFT) {
        start = !sw->pool;
        sw->fill = AHEAD_FILL_RUNNING;
        sw->stats.threads_started += start;
    }
    if (!start || sw->delegate || sw->split)
        end_solo_locked(sw); /* else the thread does, when it is there */
    wake_locked(sw);
    pthread_mutex_unlock(&sw->lock);
    return start;
}

void ahead_swap_start_failed(struct ahead_swap *sw)
{
    pthread_mutex_lock(&sw->lock);
    if (sw->fill == AHEAD_FILL_RUNNING)
        sw->stats.threads_started--;
    sw->fill = AHEAD_FILL_NEVER;
    sw->solo = true;
    pthread_mutex_unlock(&sw->lock);
}

enum ahead_status ahead_swap_begin_seek(struct ahead_swap *sw, uint32_t timeout_ms, uint64_t enough)
{
    enum ahead_status st = AHEAD_OK;

    pthread_mutex_lock(&sw->lock);
    sw->hold = true;
    sw->enough = enough;
    if (!reader_wait_locked(sw, AHEAD_WISH_QUIET, timeout_ms))
        st = AHEAD_TIMEDOUT;
    else if (!quiet_locked(sw))
        st = AHEAD_LIMIT;
    if (sw->cancelled)
        st = AHEAD_CANCELLED;
    if (st)
        sw->hold = false;
    else
        sw->token = true;
    wake_locked(sw);
    pthread_mutex_unlock(&sw->lock);
    return st;
}

bool ahead_swap_ending_known(struct ahead_swap *sw)
{
    return get_field(sw, &sw->pend);
}

bool ahead_swap_failed(struct ahead_swap *sw)
{
    bool failed;

    pthread_mutex_lock(&sw->lock);
    failed = sw->pend && sw->ending.status != AHEAD_EOF;
    pthread_mutex_unlock(&sw->lock);
    return failed;
}

static void release_seek_locked(struct ahead_swap *sw)
{
    sw->token = false;
    sw->hold = false;
    wake_locked(sw);
}

void ahead_swap_end_seek(struct ahead_swap *sw)
{
    pthread_mutex_lock(&sw->lock);
    release_seek_locked(sw);
    pthread_mutex_unlock(&sw->lock);
}

void ahead_swap_end_seek_moved(struct ahead_swap *sw, struct ahead_source src, uint64_t offset,
                               uint64_t discarded, const struct ahead_error *ending)
{
    ahead_swap_drop(sw, src);
    pthread_mutex_lock(&sw->lock);
    sw->stats.discarded_bytes += discarded;
    for (unsigned i = 0; i < 2; i++)
        empty_half_locked(&sw->half[i]);
    sw->filling = sw->active;
    sw->taken = 0;
    sw->position = sw->taken_offset = sw->cold_offset = offset;
    sw->want = FIRST_WANT_BYTES;
    sw->serial = sw->in_order = false;
    sw->warm = false;
    sw->solo = true;
    sw->pace = (struct ahead_pace){ 0 };
    sw->pend = sw->ended = false;
    if (sw->cancelled)
        record_cancel_locked(sw);
    else if (ending)
        record_locked(sw, ending, sw->claims, sw->claims, false);
    release_seek_locked(sw);
    pthread_mutex_unlock(&sw->lock);
}

void ahead_swap_end_with(struct ahead_swap *sw, const struct ahead_error *ending)
{
    pthread_mutex_lock(&sw->lock);
    sw->pend = sw->ended = false;
    if (sw->cancelled)
        record_cancel_locked(sw);
    else
        record_locked(sw, ending, sw->claims, sw->published, false);
    pthread_mutex_unlock(&sw->lock);
}

enum ahead_status ahead_swap_replace(struct ahead_swap *sw, uint32_t timeout_ms, uint8_t **bytes,
                                     size_t *cap, size_t *end)
{
    struct ahead_half *h;
    struct ahead_half old;
    enum ahead_status st = AHEAD_OK;

    pthread_mutex_lock(&sw->lock);
    h = &sw->half[sw->active];
    /* With one half only, a claim on its way into it has nowhere else to go. */
    if (being_read_locked(sw) || (sw->single && sw->token && sw->token_half == sw->active)) {
        pthread_mutex_unlock(&sw->lock);
        return AHEAD_UNSUPPORTED;
    }
    /* A claim on its way into it goes elsewhere when it comes back. */
    if (!h->closed)
        close_filling_locked(sw);
    if (reader_wait_locked(sw, AHEAD_WISH_WHOLE, timeout_ms)) {
        old = *h;
        h->bytes = *bytes;
        h->cap = *cap;
        *bytes = old.bytes;
        *cap = old.cap;
        *end = old.ready;
        sw->taken_offset += old.ready - sw->taken;
        leave_half_locked(sw);
    } else {
        st = AHEAD_TIMEDOUT;
    }
    wake_locked(sw);
    pthread_mutex_unlock(&sw->lock);
    return st;
}

/* ---- any thread ---- */

/* Makes a blocked read of the source return, if nobody has.  Lets go of the
 * lock for a while; close waits for `hooks`. */
static void hook_locked(struct ahead_swap *sw, struct ahead_source src)
{
    if (sw->hooked || !src.ops->interrupt)
        return;
    sw->hooked = true;
    sw->hooks++;
    sw->hook_thread = pthread_self();
    pthread_mutex_unlock(&sw->lock);
    src.ops->interrupt(src.ctx);
    pthread_mutex_lock(&sw->lock);
    sw->hooks--;
    if (sw->orphan)
        pthread_cond_signal(&sw->room);
    wake_locked(sw);
}

void ahead_swap_cancel(struct ahead_swap *sw, struct ahead_source src)
{
    pthread_mutex_lock(&sw->lock);
    if (!sw->cancelled && !sw->ended)
        record_cancel_locked(sw);
    sw->cancelled = true;
    wake_locked(sw);
    hook_locked(sw, src);
    pthread_mutex_unlock(&sw->lock);
}

/* ---- close ---- */

bool ahead_swap_is_hooking(struct ahead_swap *sw)
{
    bool hooking;

    pthread_mutex_lock(&sw->lock);
    hooking = sw->hooks > 0 && pthread_equal(sw->hook_thread, pthread_self());
    pthread_mutex_unlock(&sw->lock);
    return hooking;
}

enum ahead_fill_state
ahead_swap_stop(struct ahead_swap *sw, struct ahead_source src, uint32_t timeout_ms)
{
    enum ahead_fill_state fill;

    pthread_mutex_lock(&sw->lock);
    sw->stop = true;
    if (sw->queued && ahead_pool_withdraw(sw->pool, &sw->task))
        sw->queued = false;
    wake_locked(sw);
    if (fill_is_inside_locked(sw))
        hook_locked(sw, src);
    /* When only the hook of a cancel is late nobody else could clean up. */
    if (!reader_wait_locked(sw, AHEAD_WISH_LEFT, timeout_ms) && !fill_is_inside_locked(sw))
        reader_wait_locked(sw, AHEAD_WISH_LEFT, 0);
    sw->orphan = fill_is_inside_locked(sw);
    fill = sw->orphan ? AHEAD_FILL_RUNNING : sw->pool ? AHEAD_FILL_NEVER : sw->fill;
    pthread_mutex_unlock(&sw->lock);
    return fill;
}

void ahead_swap_drop(struct ahead_swap *sw, struct ahead_source src)
{
    while (sw->published < sw->claims) {
        const struct ahead_piece *p = piece_locked(sw, sw->published);

        if (!p->settled && src.ops->split->drop)
            src.ops->split->drop(src.ctx, &p->note);
        pthread_mutex_lock(&sw->lock);
        sw->published++;
        pthread_mutex_unlock(&sw->lock);
    }
}

/* ---- whoever makes pieces ---- */

static bool fill_may_go_on_locked(const struct ahead_swap *sw)
{
    return sw->stop || sw->pend || fill_can_claim_locked(sw);
}

/* Rests until there is something to claim, or to leave for. */
static void fill_rest_locked(struct ahead_swap *sw)
{
    uint64_t since = ahead_thread_now_ns(sw->clock), now = since;

    sw->stats.fill_waits++;
    sw->room_ns = 0;
    do {
        bool nap = now - since < sw->nap_ns;

        sw->rest = nap ? AHEAD_REST_NAP : AHEAD_REST_SLEEP;
        ahead_thread_sleep(&sw->room, &sw->lock, nap ? since + sw->nap_ns : 0);
        sw->rest = AHEAD_REST_NONE;
        now = ahead_thread_now_ns(sw->clock);
    } while (!fill_may_go_on_locked(sw));
    sw->stats.fill_wait_ns += now - since;

    /* The next time a little longer than was needed now: what is slept too
     * long costs nothing, as a whole half is ready. */
    if (sw->room_ns) {
        sw->nap_ns = (sw->room_ns - since) + (sw->room_ns - since) / 8;
        if (sw->nap_ns > AHEAD_MAX_NAP_NS)
            sw->nap_ns = 0;
    }
}

bool ahead_swap_begin_fill(struct ahead_swap *sw, struct ahead_place *place, bool *orphan)
{
    bool work;

    pthread_mutex_lock(&sw->lock);
    if (!fill_may_go_on_locked(sw))
        fill_rest_locked(sw);
    work = !sw->stop && end_section_locked(sw, place);
    if (!work) {
        *orphan = sw->orphan;
        while (*orphan && sw->hooks > 0)
            ahead_thread_sleep(&sw->room, &sw->lock, 0);
        sw->fill = AHEAD_FILL_LEFT;
        wake_locked(sw);
    }
    pthread_mutex_unlock(&sw->lock);
    return work;
}

/* Gives the token back at the end of a claim that brought no piece. */
static void release_claim_locked(struct ahead_swap *sw)
{
    sw->token = false;
    wake_locked(sw);
}

/* Nobody but this thread is left in a stream that close gave up on. */
static bool is_orphan_locked(struct ahead_swap *sw)
{
    bool orphan = sw->orphan && sw->fills == 0 && !sw->queued;

    while (orphan && sw->hooks > 0)
        ahead_thread_sleep(&sw->room, &sw->lock, 0);
    return orphan;
}

bool ahead_swap_begin_pool_fill(struct ahead_swap *sw, struct ahead_place *place, bool *orphan)
{
    bool work;

    pthread_mutex_lock(&sw->lock);
    sw->queued = false;
    place->turns = 0;
    work = end_section_locked(sw, place);
    if (work)
        sw->fills++;
    else
        *orphan = is_orphan_locked(sw);
    pthread_mutex_unlock(&sw->lock);
    return work;
}

bool ahead_swap_end_pool_fill(struct ahead_swap *sw)
{
    bool orphan;

    pthread_mutex_lock(&sw->lock);
    sw->fills--;
    orphan = is_orphan_locked(sw);
    wake_locked(sw);
    pthread_mutex_unlock(&sw->lock);
    return orphan;
}

bool ahead_swap_begin_warm_up(struct ahead_swap *sw, struct ahead_place *place)
{
    bool solo;

    pthread_mutex_lock(&sw->lock);
    place->half = !sw->active;
    place->bytes = sw->half[place->half].bytes;
    solo = sw->solo && sw->warm && stays_locked(sw);
    pthread_mutex_unlock(&sw->lock);
    return solo;
}

void ahead_swap_end_claim_single(struct ahead_swap *sw)
{
    pthread_mutex_lock(&sw->lock);
    sw->single = true;
    /* The reader may have come to the half without memory already. */
    if (!sw->half[sw->active].bytes)
        sw->active = !sw->active;
    sw->filling = sw->active;
    release_claim_locked(sw);
    pthread_mutex_unlock(&sw->lock);
}

void ahead_swap_end_single(struct ahead_swap *sw)
{
    pthread_mutex_lock(&sw->lock);
    sw->single = false;
    pthread_mutex_unlock(&sw->lock);
}

bool ahead_swap_reader_had_to_wait(struct ahead_swap *sw)
{
    uint64_t waits;
    bool more;

    pthread_mutex_lock(&sw->lock);
    waits = sw->stats.reader_waits + sw->stats.sync_fills + sw->stats.helped_pieces;
    more = waits > sw->waits_seen;
    sw->waits_seen = waits;
    pthread_mutex_unlock(&sw->lock);
    return more;
}

static void take_half_locked(struct ahead_half *h, uint8_t **bytes, size_t *cap)
{
    empty_half_locked(h);
    *bytes = h->bytes;
    *cap = h->cap;
    h->bytes = NULL;
    h->cap = 0;
}

void ahead_swap_take_half(struct ahead_swap *sw, unsigned half, uint8_t **bytes, size_t *cap)
{
    pthread_mutex_lock(&sw->lock);
    take_half_locked(&sw->half[half], bytes, cap);
    pthread_mutex_unlock(&sw->lock);
}

bool ahead_swap_take_memory(struct ahead_swap *sw, uint8_t *bytes[2], size_t cap[2])
{
    bool quiet;

    pthread_mutex_lock(&sw->lock);
    quiet = quiet_locked(sw) && sw->ended;
    for (unsigned i = 0; quiet && i < 2; i++)
        take_half_locked(&sw->half[i], &bytes[i], &cap[i]);
    if (quiet)
        sw->taken = 0;
    pthread_mutex_unlock(&sw->lock);
    return quiet;
}

static void install_locked(struct ahead_swap *sw, struct ahead_place *place, uint8_t *bytes,
                           size_t cap, size_t full, size_t solo)
{
    sw->half[place->half].bytes = place->bytes = bytes;
    sw->half[place->half].cap = place->room = cap;
    sw->full_bytes = full;
    sw->solo_bytes = solo;
}

void ahead_swap_install(struct ahead_swap *sw, struct ahead_place *place, uint8_t *bytes,
                        size_t cap, size_t full, size_t solo)
{
    pthread_mutex_lock(&sw->lock);
    install_locked(sw, place, bytes, cap, full, solo);
    pthread_mutex_unlock(&sw->lock);
}

bool ahead_swap_end_warm_up(struct ahead_swap *sw, struct ahead_place *place, uint8_t *bytes,
                            size_t cap, size_t full, size_t solo)
{
    bool installed;

    pthread_mutex_lock(&sw->lock);
    /* A reader that was sought meanwhile may be in that half, alone again. */
    installed = bytes && place->half != sw->active && !sw->half[place->half].bytes;
    if (installed)
        install_locked(sw, place, bytes, cap, full, solo);
    if (sw->warm)
        end_solo_locked(sw);
    pthread_mutex_unlock(&sw->lock);
    return installed;
}

/* Pieces again: the second thread is of use, and needs no clock. */
static void end_order_locked(struct ahead_swap *sw)
{
    if (!sw->in_order)
        return;
    sw->in_order = false;
    sw->pace.claim_ns = 0;
    if (sw->warm)
        end_solo_locked(sw);
}

enum ahead_placed ahead_swap_end_claim(struct ahead_swap *sw, struct ahead_place *place,
                                       const struct ahead_job *job, uint64_t *number)
{
    const struct ahead_half *h;
    enum ahead_placed placed = AHEAD_PLACED;

    pthread_mutex_lock(&sw->lock);
    if (sw->pend || sw->stop) {
        placed = AHEAD_PLACED_NOWHERE;
    } else if (sw->filling != place->half) {
        placed = AHEAD_PLACED_MOVED;
        sw->token_half = sw->filling;
    }
    find_place_locked(sw, place); /* what is free may also have moved down */
    if (placed == AHEAD_PLACED) {
        sw->token = false;
        end_order_locked(sw);
        *number = sw->claims;
        add_piece_locked(sw, place->half, job->bound)->note = job->note;
        sw->makes[place->half]++;
        ahead_buffer_unpoison(place->bytes + place->off, job->bound);
        h = &sw->half[place->half];
        if (h->tail == h->cap)
            close_filling_locked(sw);
    }
    wake_locked(sw);
    pthread_mutex_unlock(&sw->lock);
    return placed;
}

/* Settles the next piece and publishes it, unless a cancel or a fault comes
 * first.  Lets go of the lock for a while. */
static void settle_locked(struct ahead_swap *sw, struct ahead_source src, struct ahead_piece *p)
{
    const struct ahead_split_ops *split = src.ops->split;
    struct ahead_half *h = &sw->half[p->half];
    const uint8_t *from = h->bytes + p->off;
    uint8_t *to = h->bytes + h->ready;
    uint64_t number = sw->published;
    struct ahead_error err;
    enum ahead_status st = AHEAD_OK;
    size_t len = p->len;

    ahead_error_clear(&err);
    if (from != to || split->settle) {
        sw->settling = true;
        wake_locked(sw); /* for what was published before this one */
        pthread_mutex_unlock(&sw->lock);
        memmove(to, from, len);
        if (split->settle)
            st = split->settle(src.ctx, &p->note, to, &len, p->st, &err);
        pthread_mutex_lock(&sw->lock);
        sw->settling = false;
    }
    p->settled = true;
    if (st) {
        err.status = st;
        ahead_error_make_ending(&err, "source");
        record_locked(sw, &err, number, number + 1, len < p->len);
    }
    if (!sw->pend || number < sw->pend_published)
        publish_locked(sw, p, len);
}

bool ahead_swap_end_make(struct ahead_swap *sw, struct ahead_source src, uint64_t number,
                         size_t len, const struct ahead_error *err, struct ahead_place *next)
{
    struct ahead_piece *p;
    bool again;

    pthread_mutex_lock(&sw->lock);
    p = piece_locked(sw, number);
    sw->makes[p->half]--;
    p->len = len;
    p->st = err->status;
    p->made = true;
    if (err->status)
        record_locked(sw, err, number, number + 1, false);
    while (!sw->settling && !sw->stop && sw->published < sw->claims &&
           !(sw->pend && sw->published >= sw->pend_published) &&
           (p = piece_locked(sw, sw->published))->made)
        settle_locked(sw, src, p);
    again = end_section_locked(sw, next);
    pthread_mutex_unlock(&sw->lock);
    return again;
}

bool ahead_swap_end_read(struct ahead_swap *sw, struct ahead_place *place, size_t len,
                         struct ahead_place *next)
{
    bool again;

    pthread_mutex_lock(&sw->lock);
    sw->token = false;
    sw->serial = false;
    sw->dry = false;
    if (sw->pace.claim_ns)
        ahead_pace_leave_source(&sw->pace, ahead_thread_now_ns(sw->clock));
    if (!sw->pend && !sw->stop) {
        publish_locked(sw, add_piece_locked(sw, place->half, len), len);
        close_if_full_locked(sw);
        if (place->takes && place->half == sw->active) {
            place->room = take_locked(sw, SIZE_MAX, &place->bytes, &place->off);
            place->taken = true;
        }
    }
    again = end_section_locked(sw, next);
    pthread_mutex_unlock(&sw->lock);
    return again;
}

void ahead_swap_end_claim_no_room(struct ahead_swap *sw)
{
    pthread_mutex_lock(&sw->lock);
    if (!sw->pend && sw->filling == sw->token_half) /* else swap_buffer has taken that half */
        close_filling_locked(sw);
    release_claim_locked(sw);
    pthread_mutex_unlock(&sw->lock);
}

void ahead_swap_end_claim_serial(struct ahead_swap *sw)
{
    pthread_mutex_lock(&sw->lock);
    sw->serial = sw->in_order = true;
    release_claim_locked(sw);
    pthread_mutex_unlock(&sw->lock);
}

void ahead_swap_end_claim_ending(struct ahead_swap *sw, const struct ahead_error *ending)
{
    pthread_mutex_lock(&sw->lock);
    count_read_locked(sw);
    record_locked(sw, ending, sw->claims, sw->claims, false);
    release_claim_locked(sw);
    pthread_mutex_unlock(&sw->lock);
}

void ahead_swap_abandon_claim(struct ahead_swap *sw)
{
    pthread_mutex_lock(&sw->lock);
    release_claim_locked(sw);
    pthread_mutex_unlock(&sw->lock);
}

void ahead_swap_going_dry(struct ahead_swap *sw)
{
    pthread_mutex_lock(&sw->lock);
    sw->dry = true;
    wake_locked(sw);
    pthread_mutex_unlock(&sw->lock);
}

bool ahead_swap_interrupted(struct ahead_swap *sw)
{
    bool interrupted;

    pthread_mutex_lock(&sw->lock);
    interrupted = sw->cancelled || sw->stop;
    pthread_mutex_unlock(&sw->lock);
    return interrupted;
}

void ahead_swap_get_stats(struct ahead_swap *sw, struct ahead_stats *out)
{
    pthread_mutex_lock(&sw->lock);
    *out = sw->stats;
    for (unsigned i = 0; i < 2; i++) {
        out->buffers += sw->half[i].bytes != NULL;
        out->buffer_bytes += sw->half[i].cap;
    }
    pthread_mutex_unlock(&sw->lock);
}
