/* SPDX-License-Identifier: Apache-2.0 */
/* script.c - plays the steps, as one read() or in pieces, and watches the caller. */
#include "support/script.h"

#include "support/clock.h"
#include "support/expect.h"
#include "support/pattern.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What lies in a piece behind its good bytes, and in pieces behind a fault. */
enum { GARBAGE = 0xee, GARBAGE_BYTES = 5, IS_GARBAGE = -1 };

/* A piece's life.  Final ones last. */
enum state { FREE, CLAIMED, MAKING, MADE, SETTLING, SETTLED, DROPPED };

/* Words of a piece's note. */
enum { NOTE_PIECE, NOTE_POS, NOTE_LEN, NOTE_FAULT, NOTE_BOUND, NOTE_SEAL };

static void broke(struct script *sc, const char *rule)
{
    const char *none = NULL;

    atomic_compare_exchange_strong(&sc->broken, &none, rule);
}

const char *script_verdict(struct script *sc)
{
    const char *rule = atomic_load(&sc->broken);

    return rule ? rule : "ok";
}

const char *script_closing_verdict(struct script *sc)
{
    if (script_count(sc, CALL_CLOSE) != 1 && !(sc->has & LACKS_CLOSE))
        broke(sc, script_count(sc, CALL_CLOSE) ? "closed twice" : "never closed");
    if (script_count(sc, CALL_CLAIM) &&
        script_count(sc, CALL_SETTLE) + script_count(sc, CALL_DROP) != sc->pieces)
        broke(sc, "a piece was neither settled nor dropped, or both");
    return script_verdict(sc);
}

/* Every function begins with this. */
static void called(struct script *sc, enum script_call call)
{
    if (atomic_load_explicit(&sc->closed, memory_order_relaxed))
        broke(sc, "called after close");
    atomic_fetch_add_explicit(&sc->calls[call], 1, memory_order_relaxed);
    if (sc->on_call)
        sc->on_call(sc, call);
}

/* Those of which only one may run at a time. */
static void enter(struct script *sc, enum script_call call)
{
    if (atomic_exchange_explicit(&sc->serial, true, memory_order_relaxed))
        broke(sc, "two of claim, read, skip, seek and close at once");
    called(sc, call);
}

static void leave(struct script *sc)
{
    atomic_store_explicit(&sc->serial, false, memory_order_relaxed);
}

/* Those which neither a seek nor a close may run beside. */
static void enter_beside(struct script *sc, enum script_call call, atomic_uint *inside)
{
    atomic_fetch_add_explicit(inside, 1, memory_order_relaxed);
    if (atomic_load_explicit(&sc->seeking, memory_order_relaxed))
        broke(sc, "a make, settle or drop beside a seek");
    called(sc, call);
}

static void leave_beside(atomic_uint *inside)
{
    atomic_fetch_sub_explicit(inside, 1, memory_order_relaxed);
}

static void expect_alone(struct script *sc)
{
    if (atomic_load_explicit(&sc->making, memory_order_relaxed) ||
        atomic_load_explicit(&sc->settling, memory_order_relaxed) ||
        atomic_load_explicit(&sc->dropping, memory_order_relaxed))
        broke(sc, "a seek or close beside a make, settle or drop");
}

/* The steps. */

static const struct step *step_at(const struct script *sc, unsigned at)
{
    static const struct step end = END;

    return sc->step ? &sc->step[at] : &end;
}

static void next_step(struct script *sc)
{
    sc->at++;
    sc->done = 0;
    sc->block = 0;
    sc->tries = 0;
}

static void spend(struct script *sc, unsigned at)
{
    if (step_at(sc, at)->once && at < 64)
        sc->spent |= (uint64_t)1 << at;
}

static bool is_spent(const struct script *sc, unsigned at)
{
    return at < 64 && sc->spent >> at & 1;
}

/* The step that is due. */
static const struct step *due(struct script *sc)
{
    for (;;) {
        const struct step *st = step_at(sc, sc->at);

        if (!is_spent(sc, sc->at) && !(st->what == STEP_BYTES && sc->done == st->n))
            return st;
        next_step(sc);
    }
}

/* Bytes left of the block that is due in a BYTES step. */
static uint64_t block_left(struct script *sc, const struct step *st)
{
    uint64_t left = st->n - sc->done;

    if (sc->block == 0 && st->piece == 0)
        sc->block = left;
    else if (sc->block == 0)
        sc->block = st->random ? 1 + random_below(&sc->seed, st->piece) : st->piece;
    if (sc->block > left)
        sc->block = left;
    return sc->block;
}

static void put_bytes(const struct script *sc, void *dst, uint64_t pos, size_t len)
{
    if (sc->data)
        memcpy(dst, sc->data + pos, len);
    else
        pattern_fill(dst, sc->pattern_at + pos, len);
}

static bool are_bytes(const struct script *sc, const void *p, uint64_t pos, size_t len)
{
    if (sc->data)
        return len == 0 || memcmp(p, sc->data + pos, len) == 0;
    return pattern_match(p, sc->pattern_at + pos, len) == len;
}

static void pass_bytes(struct script *sc, uint64_t n)
{
    sc->done += n;
    sc->block -= n;
    sc->pos += n;
    sc->part = sc->block > 0 && step_at(sc, sc->at)->piece > 0;
}

static bool is_retry(const struct step *st)
{
    return st->what == STEP_ERRNO && (st->os_errno == EINTR || st->os_errno == EAGAIN);
}

static bool is_ending(const struct step *st)
{
    return st->what == STEP_END || st->what == STEP_STATUS ||
           (st->what == STEP_ERRNO && !is_retry(st));
}

/* Fill in *err as a step says.  Returns the status. */
static enum ahead_status put_fault(const struct step *st, struct ahead_error *err)
{
    switch (st->what) {
    case STEP_STATUS:
        err->status = st->status;
        err->source_offset = st->where;
        snprintf(err->text, sizeof err->text, "%s", st->text);
        break;
    case STEP_ERRNO:
        err->status = AHEAD_IO;
        err->os_errno = st->os_errno;
        snprintf(err->text, sizeof err->text, "scripted failure");
        break;
    case STEP_END:
    case STEP_BYTES:
    case STEP_STALL:
    case STEP_SLEEP:
    case STEP_OVER:
    case STEP_SPOIL: err->status = AHEAD_EOF; break;
    }
    return err->status;
}

/* Block until released (true) or interrupted (false). */
static bool stall(struct script *sc)
{
    bool released = true;

    pthread_mutex_lock(&sc->lock);
    atomic_fetch_add(&sc->stalls, 1);
    pthread_cond_broadcast(&sc->changed);
    while (sc->releases == 0 && !(sc->interrupted && !sc->deaf))
        pthread_cond_wait(&sc->changed, &sc->lock);
    if (sc->releases > 0)
        sc->releases--;
    else
        released = false;
    pthread_mutex_unlock(&sc->lock);
    return released;
}

static bool is_interrupted(const struct script *sc)
{
    return !sc->deaf && atomic_load_explicit(&sc->interrupted, memory_order_relaxed);
}

void script_release(struct script *sc)
{
    pthread_mutex_lock(&sc->lock);
    sc->releases++;
    pthread_cond_broadcast(&sc->changed);
    pthread_mutex_unlock(&sc->lock);
}

void script_let_make(struct script *sc)
{
    pthread_mutex_lock(&sc->lock);
    sc->let_make = true;
    pthread_cond_broadcast(&sc->changed);
    pthread_mutex_unlock(&sc->lock);
}

/* What a read() that was interrupted returns. */
static ssize_t interrupted(const struct script *sc)
{
    if (sc->interrupted_errno < 0)
        return 0;
    errno = sc->interrupted_errno ? sc->interrupted_errno : EINTR;
    return -1;
}

/* One step's worth of read(), or of skip() if `dst` is NULL. */
static ssize_t play(struct script *sc, uint8_t *dst, uint64_t len, struct ahead_error *err)
{
    for (;;) {
        const struct step *st = due(sc);
        uint64_t n;

        if (is_interrupted(sc))
            return interrupted(sc);
        switch (st->what) {
        case STEP_BYTES:
            n = block_left(sc, st);
            if (n > len)
                n = len;
            if (st->pause_us)
                sleep_us(st->pause_us);
            if (dst)
                put_bytes(sc, dst, sc->pos, n);
            pass_bytes(sc, n);
            return (ssize_t)n;
        case STEP_ERRNO:
            errno = st->os_errno;
            if (is_retry(st)) {
                if (++sc->tries >= st->times)
                    next_step(sc);
            } else {
                sc->ended = true;
                spend(sc, sc->at);
            }
            return -1;
        case STEP_STATUS:
            sc->ended = true;
            put_fault(st, err);
            return -1;
        case STEP_STALL:
            if (!stall(sc))
                return interrupted(sc);
            next_step(sc);
            break;
        case STEP_SLEEP:
            sleep_us(st->n);
            next_step(sc);
            break;
        case STEP_OVER:
            sc->ended = true;
            if (dst)
                memset(dst, GARBAGE, len);
            return (ssize_t)(len + st->n);
        case STEP_SPOIL:
            sc->ended = true;
            if (dst)
                memset(dst, GARBAGE, st->n < len ? st->n : len);
            errno = st->os_errno;
            return -1;
        case STEP_END: sc->ended = true; return 0;
        }
    }
}

/* The functions of every source. */

static void expect_clean(struct script *sc, const struct ahead_error *err)
{
    if (!err)
        broke(sc, "no place for an error");
    else if (err->status || err->source_offset != UINT64_MAX)
        broke(sc, "*err was not clean on entry");
}

static ssize_t script_read(void *ctx, void *dst, size_t len, struct ahead_error *err)
{
    struct script *sc = ctx;
    ssize_t n;

    enter(sc, CALL_READ);
    expect_clean(sc, err);
    if (sc->ended)
        broke(sc, "read after the ending");
    if (len == 0 || len > 1024 * 1024 * 1024)
        broke(sc, "a read of 0 bytes, or of more than 1 GiB");
    if (len > atomic_load_explicit(&sc->most_asked, memory_order_relaxed))
        atomic_store_explicit(&sc->most_asked, len, memory_order_relaxed);
    if (sc->beyond) {
        sc->ended = true;
        n = 0;
    } else {
        n = play(sc, dst, len, err);
    }
    if (n > 0)
        atomic_fetch_add_explicit(&sc->given, (unsigned long long)n, memory_order_relaxed);
    leave(sc);
    return n;
}

static enum ahead_status
script_skip(void *ctx, uint64_t n, uint64_t *skipped, struct ahead_error *err)
{
    struct script *sc = ctx;
    ssize_t got = 1;

    enter(sc, CALL_SKIP);
    expect_clean(sc, err);
    if (sc->ended)
        broke(sc, "skip after the ending");
    *skipped = 0;
    while (*skipped < n && got > 0) {
        got = play(sc, NULL, n - *skipped, err);
        if (got > 0)
            *skipped += (uint64_t)got;
        else if (got < 0 && !sc->ended && !is_interrupted(sc))
            got = 1; /* "again": of a skip nobody but the source can know */
    }
    if (got == 0)
        sc->ended = false; /* that is for read() to say */
    if (got < 0 && !err->status) {
        err->status = AHEAD_IO;
        err->os_errno = errno;
        snprintf(err->text, sizeof err->text, "scripted failure");
    }
    leave(sc);
    return got < 0 ? err->status : AHEAD_OK;
}

static void rewind_to(struct script *sc, uint64_t offset)
{
    sc->at = 0;
    sc->done = 0;
    sc->block = 0;
    sc->part = false;
    sc->tries = 0;
    sc->pos = 0;
    sc->ended = false;
    sc->beyond = false;
    while (sc->pos < offset) {
        const struct step *st = step_at(sc, sc->at);

        if (st->what == STEP_BYTES) {
            uint64_t n = st->n < offset - sc->pos ? st->n : offset - sc->pos;

            sc->done = n;
            sc->pos += n;
            if (n < st->n || sc->pos == offset)
                break;
        } else if (st->what == STEP_END) {
            sc->pos = offset;
            break;
        }
        next_step(sc);
    }
    if (step_at(sc, sc->at)->piece && sc->done % step_at(sc, sc->at)->piece)
        sc->block = step_at(sc, sc->at)->piece - sc->done % step_at(sc, sc->at)->piece;
}

static enum ahead_status script_seek(void *ctx, uint64_t offset, struct ahead_error *err)
{
    struct script *sc = ctx;
    enum ahead_status st = sc->refuse_seek;

    enter(sc, CALL_SEEK);
    atomic_store_explicit(&sc->seeking, true, memory_order_relaxed);
    expect_clean(sc, err);
    expect_alone(sc);
    if (!st && offset > INT64_MAX)
        st = AHEAD_INVALID;
    if (st) {
        err->status = st;
        err->os_errno = st == AHEAD_IO ? EIO : 0;
        snprintf(err->text, sizeof err->text, "scripted refusal");
    } else {
        rewind_to(sc, offset);
        sc->last_settled = sc->pieces;
    }
    atomic_store_explicit(&sc->seeking, false, memory_order_relaxed);
    leave(sc);
    return st;
}

static uint64_t script_remaining(void *ctx)
{
    struct script *sc = ctx;
    uint64_t left = 0;

    called(sc, CALL_REMAINING);
    if (sc->remaining)
        return sc->remaining;
    for (unsigned at = sc->at; step_at(sc, at)->what != STEP_END; at++)
        if (step_at(sc, at)->what == STEP_BYTES)
            left += step_at(sc, at)->n - (at == sc->at ? sc->done : 0);
    return left;
}

static bool script_ready(void *ctx)
{
    struct script *sc = ctx;
    enum step_what what;

    called(sc, CALL_READY);
    if (sc->ready != TRUTHFUL)
        return sc->ready == ALWAYS;
    what = due(sc)->what;
    return what != STEP_STALL && what != STEP_SLEEP;
}

static void script_interrupt(void *ctx)
{
    struct script *sc = ctx;

    atomic_fetch_add(&sc->hooks, 1);
    called(sc, CALL_INTERRUPT);
    pthread_mutex_lock(&sc->lock);
    sc->interrupted = true;
    pthread_cond_broadcast(&sc->changed);
    pthread_mutex_unlock(&sc->lock);
    atomic_fetch_sub(&sc->hooks, 1);
}

static enum ahead_status script_close(void *ctx, struct ahead_error *err)
{
    struct script *sc = ctx;

    enter(sc, CALL_CLOSE);
    expect_alone(sc);
    if (atomic_load(&sc->hooks))
        broke(sc, "close beside interrupt");
    if (sc->close_status) {
        err->status = sc->close_status;
        err->os_errno = sc->close_errno;
        snprintf(err->text, sizeof err->text, "scripted failure of close");
    }
    leave(sc);
    atomic_store(&sc->closed, true);
    return sc->close_status;
}

static size_t script_unit(void *ctx)
{
    struct script *sc = ctx;

    enter(sc, CALL_UNIT);
    if (script_count(sc, CALL_READ) || script_count(sc, CALL_CLAIM))
        broke(sc, "unit() after the first read");
    leave(sc);
    return sc->unit;
}

/* The steps of a split source. */

static void move_piece(struct script *sc, uint64_t piece, unsigned from, enum state to)
{
    unsigned long long old = atomic_exchange_explicit(&sc->slot[piece % SCRIPT_SLOTS],
                                                      piece << 3 | to, memory_order_relaxed);

    if (old >> 3 != piece || !(from >> (old & 7) & 1))
        broke(sc, to == MAKING     ? "made twice, or after its end"
                  : to == SETTLING ? "settled twice, unmade, or after a drop"
                  : to == DROPPED  ? "dropped twice, while it is made, or after a settle"
                                   : "a piece's state is lost");
}

static void check_note(struct script *sc, const struct ahead_note *note)
{
    if (note->word[NOTE_SEAL] != pattern_word(note->word[NOTE_PIECE] ^ note->word[NOTE_POS]))
        broke(sc, "a piece's note was changed");
}

/* Put the piece into the job, whose blocks in encoded form are its note. */
static enum ahead_claim claim_piece(struct script *sc, struct ahead_job *job, uint64_t len,
                                    size_t bound, int fault, struct ahead_error *err)
{
    uint64_t piece = sc->pieces + 1;
    unsigned long long old;

    if (job->in_cap < sizeof job->note) {
        uint8_t *in = realloc(job->in, sizeof job->note);

        if (!in) {
            err->status = AHEAD_NOMEM;
            snprintf(err->text, sizeof err->text, "no memory for a scripted block");
            sc->ended = true;
            return AHEAD_CLAIM_ENDING;
        }
        job->in = in;
        job->in_cap = sizeof job->note;
    }
    sc->pieces = piece;
    old = atomic_exchange_explicit(&sc->slot[piece % SCRIPT_SLOTS], piece << 3 | CLAIMED,
                                   memory_order_relaxed);
    if ((old & 7) != FREE && (old & 7) < SETTLED)
        broke(sc, "more pieces under way than the script has room for");
    job->note = (struct ahead_note){ .word = { piece, sc->pos, len, (uint64_t)fault, bound,
                                               pattern_word(piece ^ sc->pos) } };
    job->bound = bound;
    memcpy(job->in, &job->note, sizeof job->note);
    job->in_len = sizeof job->note;
    return AHEAD_CLAIM_PIECE;
}

/* The step that ends the input right behind `len` more bytes, plus 1; else 0. */
static int fault_behind(struct script *sc, const struct step *st, uint64_t len)
{
    unsigned at = sc->at + 1;

    if (sc->fault == FAULT_CLAIM || sc->fault == FAULT_READ)
        return 0;
    if (sc->done + len != st->n)
        return 0;
    while (is_spent(sc, at))
        at++;
    return is_ending(step_at(sc, at)) ? (int)at + 1 : 0;
}

static enum ahead_claim claim_bytes(struct script *sc, struct ahead_job *job, size_t want,
                                    size_t room, struct ahead_error *err)
{
    const struct step *st = due(sc);
    uint64_t len = block_left(sc, st), pos = sc->pos;
    size_t bound;
    int fault;
    enum ahead_claim claimed;

    if (sc->part)
        return AHEAD_CLAIM_READ;
    if (st->piece == 0 && len > want)
        len = want;
    if (len > room)
        return AHEAD_CLAIM_NO_ROOM;
    while (sc->batch && st->piece && !st->random && sc->done + len < st->n) {
        uint64_t next = st->n - sc->done - len;

        if (next > st->piece)
            next = st->piece;
        if (next > want || len > want - next)
            break;
        len += next;
    }
    bound = sc->bound_extra < room - len ? (size_t)len + sc->bound_extra : room;
    fault = fault_behind(sc, st, len);
    claimed = claim_piece(sc, job, len, bound, fault, err);
    if (claimed != AHEAD_CLAIM_PIECE)
        return claimed;
    sc->block = 0;
    sc->done += len;
    sc->pos = pos + len;
    if (fault) {
        spend(sc, (unsigned)fault - 1);
        sc->beyond = true;
        sc->garbage_left = sc->garbage;
    }
    return AHEAD_CLAIM_PIECE;
}

/* What lies behind a piece that will turn out to be faulty. */
static enum ahead_claim
claim_beyond(struct script *sc, struct ahead_job *job, size_t room, struct ahead_error *err)
{
    if (sc->garbage_left > 0) {
        sc->garbage_left--;
        return claim_piece(sc, job, 0, room < GARBAGE_BYTES ? room : GARBAGE_BYTES, IS_GARBAGE,
                           err);
    }
    sc->ended = true;
    err->status = AHEAD_EOF;
    return AHEAD_CLAIM_ENDING;
}

static enum ahead_claim claim_step(struct script *sc, struct ahead_job *job, size_t want,
                                   size_t room, struct ahead_error *err)
{
    for (;;) {
        const struct step *st = due(sc);

        if (is_interrupted(sc))
            break;
        if (st->what == STEP_BYTES)
            return claim_bytes(sc, job, want, room, err);
        if (st->what == STEP_STALL) {
            if (!stall(sc))
                break;
            next_step(sc);
        } else if (st->what == STEP_SLEEP) {
            sleep_us(st->n);
            next_step(sc);
        } else if (!is_ending(st) || sc->fault == FAULT_READ) {
            return AHEAD_CLAIM_READ;
        } else {
            sc->ended = true;
            put_fault(st, err);
            spend(sc, sc->at);
            return AHEAD_CLAIM_ENDING;
        }
    }
    err->status = AHEAD_IO;
    err->os_errno = EINTR;
    snprintf(err->text, sizeof err->text, "interrupted");
    return AHEAD_CLAIM_ENDING;
}

static enum ahead_claim
script_claim(void *ctx, struct ahead_job *job, size_t want, size_t room, struct ahead_error *err)
{
    struct script *sc = ctx;
    enum ahead_claim claimed;

    enter(sc, CALL_CLAIM);
    expect_clean(sc, err);
    if (sc->ended)
        broke(sc, "claim after the ending");
    if (want == 0 || want > room)
        broke(sc, "a claim that wants nothing, or more than there is room for");
    if (sc->beyond) {
        claimed = claim_beyond(sc, job, room, err);
    } else if (sc->hollow && !sc->was_hollow && !sc->part && due(sc)->what == STEP_BYTES) {
        sc->was_hollow = true;
        claimed = claim_piece(sc, job, 0, sc->bound_extra < room ? sc->bound_extra : room, 0, err);
    } else {
        claimed = claim_step(sc, job, want, room, err);
        if (claimed == AHEAD_CLAIM_PIECE)
            sc->was_hollow = false;
    }
    leave(sc);
    return claimed;
}

/* Wait for the make of the piece behind this one, for a while: most makes then
 * end out of order. */
static void stagger(struct script *sc, uint64_t piece)
{
    uint64_t start = now_ns(), next = piece + 1;

    while (now_ns() - start < sc->stagger_us * 1000u) {
        unsigned long long slot =
            atomic_load_explicit(&sc->slot[next % SCRIPT_SLOTS], memory_order_relaxed);

        if (slot >> 3 == next && (slot & 7) == MADE) {
            atomic_fetch_add(&sc->out_of_order, 1);
            return;
        }
        sleep_us(20);
    }
}

static void hold(struct script *sc)
{
    pthread_mutex_lock(&sc->lock);
    atomic_fetch_add(&sc->held, 1);
    while (!sc->let_make)
        pthread_cond_wait(&sc->changed, &sc->lock);
    pthread_mutex_unlock(&sc->lock);
}

static bool settle_finds(const struct script *sc)
{
    return sc->fault == FAULT_SETTLE || sc->fault == FAULT_BOTH;
}

static bool is_faulty(const uint64_t *note)
{
    return note[NOTE_FAULT] != 0 && note[NOTE_FAULT] != (uint64_t)IS_GARBAGE;
}

static enum ahead_status
script_make(void *ctx, struct ahead_job *job, uint8_t *dst, size_t *len, struct ahead_error *err)
{
    struct script *sc = ctx;
    const uint64_t *note = job->note.word;
    uint64_t piece = note[NOTE_PIECE];
    enum ahead_status st = AHEAD_OK;

    enter_beside(sc, CALL_MAKE, &sc->making);
    expect_clean(sc, err);
    check_note(sc, &job->note);
    move_piece(sc, piece, 1u << CLAIMED, MAKING);
    if (job->bound != note[NOTE_BOUND] || job->in_len != sizeof job->note ||
        memcmp(job->in, &job->note, sizeof job->note) != 0)
        broke(sc, "a job was changed between its claim and its make");
    if (job->bound)
        memset(dst, GARBAGE, job->bound);
    put_bytes(sc, dst, note[NOTE_POS], note[NOTE_LEN]);
    *len = note[NOTE_LEN];
    if (note[NOTE_FAULT] == (uint64_t)IS_GARBAGE)
        *len = job->bound;
    if (job->block)
        broke(sc, "somebody wrote into a job's block");
    if (sc->make_us)
        sleep_us(sc->make_us);
    if (piece == sc->hold_make)
        hold(sc);
    if (sc->stagger_us && piece % 2)
        stagger(sc, piece);
    if (is_faulty(note) && settle_finds(sc))
        *len = job->bound;
    if (is_faulty(note) && sc->fault == FAULT_MAKE)
        st = put_fault(step_at(sc, (unsigned)note[NOTE_FAULT] - 1), err);
    if (is_faulty(note) && sc->fault == FAULT_BOTH) {
        st = err->status = AHEAD_CORRUPT;
        snprintf(err->text, sizeof err->text, "found by make");
    }
    move_piece(sc, piece, 1u << MAKING, MADE);
    leave_beside(&sc->making);
    return st;
}

static enum ahead_status
script_settle(void *ctx, const struct ahead_note *note, const uint8_t *bytes, size_t *len,
              enum ahead_status made, struct ahead_error *err)
{
    struct script *sc = ctx;
    uint64_t piece = note->word[NOTE_PIECE], good = note->word[NOTE_LEN];
    bool faulty = is_faulty(note->word);
    enum ahead_status st = AHEAD_OK;

    enter_beside(sc, CALL_SETTLE, &sc->settling);
    check_note(sc, note);
    if (atomic_load_explicit(&sc->settling, memory_order_relaxed) > 1)
        broke(sc, "two settles at once");
    move_piece(sc, piece, 1u << MADE, SETTLING);
    if (piece != sc->last_settled + 1)
        broke(sc, "settled out of order");
    sc->last_settled = piece;
    if (note->word[NOTE_FAULT] == (uint64_t)IS_GARBAGE)
        broke(sc, "a piece behind the fault was settled");
    if (!are_bytes(sc, bytes, note->word[NOTE_POS], good))
        broke(sc, "settle was shown other bytes than make had written");
    if ((made != AHEAD_OK) != (faulty && sc->fault != FAULT_SETTLE))
        broke(sc, "settle was not told what make had returned");
    if (*len != (faulty && settle_finds(sc) ? note->word[NOTE_BOUND] : good))
        broke(sc, "settle was not told how many bytes make had written");
    if (faulty && settle_finds(sc)) {
        *len = good;
        st = put_fault(step_at(sc, (unsigned)note->word[NOTE_FAULT] - 1), err);
    }
    atomic_fetch_add_explicit(&sc->given, good, memory_order_relaxed);
    move_piece(sc, piece, 1u << SETTLING, SETTLED);
    leave_beside(&sc->settling);
    return st;
}

static void script_drop(void *ctx, const struct ahead_note *note)
{
    struct script *sc = ctx;

    enter_beside(sc, CALL_DROP, &sc->dropping);
    check_note(sc, note);
    move_piece(sc, note->word[NOTE_PIECE], 1u << CLAIMED | 1u << MADE, DROPPED);
    leave_beside(&sc->dropping);
}

static bool script_may_block(void *ctx)
{
    const struct script *sc = ctx;

    for (unsigned at = 0; step_at(sc, at)->what != STEP_END; at++)
        if (step_at(sc, at)->what == STEP_STALL || step_at(sc, at)->what == STEP_SLEEP)
            return true;
    return false;
}

static bool script_wait(void *ctx, uint32_t timeout_ms)
{
    struct script *sc = ctx;
    uint64_t start = now_ns();
    bool ready = false;

    called(sc, CALL_WAIT);
    do {
        pthread_mutex_lock(&sc->lock);
        ready = due(sc)->what != STEP_STALL || sc->releases > 0 || is_interrupted(sc);
        pthread_mutex_unlock(&sc->lock);
        if (!ready)
            sleep_us(100);
    } while (!ready && now_ns() - start < timeout_ms * 1000000ull);
    return ready;
}

struct ahead_source script_source(struct script *sc)
{
    sc->ops =
        (struct ahead_source_ops){ .read = script_read,
                                   .skip = sc->has & HAS_SKIP ? script_skip : NULL,
                                   .seek = sc->has & HAS_SEEK ? script_seek : NULL,
                                   .remaining = sc->has & HAS_REMAINING ? script_remaining : NULL,
                                   .ready = sc->has & HAS_READY ? script_ready : NULL,
                                   .interrupt = sc->has & LACKS_INTERRUPT ? NULL : script_interrupt,
                                   .close = sc->has & LACKS_CLOSE ? NULL : script_close,
                                   .unit = sc->has & HAS_UNIT ? script_unit : NULL,
                                   .split =
                                       sc->split || sc->has & HAS_WAIT ? &sc->split_ops : NULL };
    sc->split_ops = (struct ahead_split_ops){ .claim = sc->split ? script_claim : NULL,
                                              .make = script_make,
                                              .settle = script_settle,
                                              .drop = script_drop,
                                              .may_block = script_may_block,
                                              .wait = sc->has & HAS_WAIT ? script_wait : NULL };
    sc->lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    sc->changed = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
    return (struct ahead_source){ .ops = &sc->ops, .ctx = sc };
}

const struct mode modes[] = {
    { "thread", 0, .split = false },
    { "eager", AHEAD_EAGER, .split = false },
    { "sync", AHEAD_SYNC, .split = false },
    { "split", 0, .split = true, .fault = FAULT_CLAIM },
    { "split, batches", AHEAD_EAGER, .split = true, .fault = FAULT_CLAIM, .batch = true },
    { "split, sync", AHEAD_SYNC, .split = true, .fault = FAULT_MAKE, .bound_extra = 3 },
    { "split, make fails", 0, .split = true, .fault = FAULT_MAKE, .garbage = 3 },
    { "split, make fails short of its bound", AHEAD_EAGER, .split = true, .fault = FAULT_MAKE,
      .bound_extra = 7, .garbage = 2 },
    { "split, settle fails", 0, .split = true, .fault = FAULT_SETTLE, .bound_extra = 5 },
    { "split, settle fails early", AHEAD_EAGER, .split = true, .fault = FAULT_SETTLE,
      .bound_extra = 5, .garbage = 9, .batch = true },
    { "split, settle fails, sync", AHEAD_SYNC, .split = true, .fault = FAULT_SETTLE,
      .bound_extra = 2, .hollow = true },
    { "split, read fails", 0, .split = true, .fault = FAULT_READ, .bound_extra = 1 },
    { "split, hollow pieces", AHEAD_EAGER, .split = true, .fault = FAULT_CLAIM, .bound_extra = 2,
      .hollow = true },
    { "split, makes out of order", AHEAD_EAGER, .split = true, .fault = FAULT_MAKE,
      .bound_extra = 4, .stagger_us = 60, .garbage = 2 }
};
const unsigned modes_len = sizeof modes / sizeof *modes;

void script_set_mode(struct script *sc, const struct mode *mode)
{
    sc->split = mode->split;
    sc->fault = mode->fault;
    sc->bound_extra = mode->bound_extra;
    sc->batch = mode->batch;
    sc->hollow = mode->hollow;
    sc->garbage = mode->garbage;
    sc->stagger_us = mode->stagger_us;
}
