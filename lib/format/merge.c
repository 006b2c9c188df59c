/* SPDX-License-Identifier: Apache-2.0 */
/* merge.c - sorted spills become one sequence, by a tree of losers.
 *
 * Each inner node of the tree holds the input that lost the match played there,
 * so the next record costs one match on each level on the way up from the
 * input that gave the last one:
 *
 *              winner
 *                |
 *            1: loser               leaf of input i: node n + i
 *           /         \             parent of node k: k / 2
 *      2: loser     3: loser
 *      /     \       /     \
 *
 * The record that was handed out lies in its reader's memory, so that reader is
 * asked for the next one at the next call, and not before. */
#include <ahead/spill.h>

#include "error.h"
#include "format/spill.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RECORD_HEADER_BYTES = 12 };

struct input {
    struct ahead_spill_record rec; /* the next one; valid unless ended */
    bool ended;
    struct ahead_spill_reader *reader;
};

struct ahead_spill_merge {
    struct input *in;
    size_t *loser; /* of the match at each node from 1 to n - 1 */
    size_t n;
    size_t loaded;  /* so many inputs have shown their first record, or their end */
    size_t winner;  /* once all have; that record was handed out if `taken` */
    bool taken;     /* so the next one of that input is due */
    bool ended;     /* `error` is the ending */
    size_t culprit; /* the input that it is about */
    ahead_spill_compare cmp;
    void *ctx;
    struct ahead_spill_record last; /* with cmp: a copy of what was handed out */
    uint8_t *last_bytes;
    size_t last_cap;
    struct ahead_error error;
};

/* ---- open and close ---- */

/* Closes them all; the first failure. */
static enum ahead_status close_readers(struct ahead_spill_reader *const *readers, size_t n)
{
    enum ahead_status first = AHEAD_OK;

    for (size_t i = 0; readers && i < n; i++) {
        enum ahead_status st = ahead_spill_reader_close(readers[i]);

        if (!first)
            first = st;
    }
    return first;
}

static bool are_readers(struct ahead_spill_reader *const *readers, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!readers || !readers[i])
            return false;
    return true;
}

static struct ahead_spill_merge *create(struct ahead_spill_reader *const *readers, size_t n)
{
    struct ahead_spill_merge *m = calloc(1, sizeof *m);

    if (!m)
        return NULL;
    m->n = n;
    m->in = calloc(n ? n : 1, sizeof *m->in);
    m->loser = calloc(n ? n : 1, sizeof *m->loser);
    if (!m->in || !m->loser) {
        free(m->in);
        free(m->loser);
        free(m);
        return NULL;
    }
    for (size_t i = 0; i < n; i++)
        m->in[i].reader = readers[i];
    m->error.source_offset = AHEAD_NO_OFFSET;
    return m;
}

enum ahead_status
ahead_spill_merge_open(struct ahead_spill_merge **out, struct ahead_spill_reader *const *readers,
                       size_t n, ahead_spill_compare cmp, void *ctx)
{
    struct ahead_spill_merge *m = NULL;
    enum ahead_status st = AHEAD_INVALID;

    if (out && are_readers(readers, n)) {
        m = create(readers, n);
        st = m ? AHEAD_OK : AHEAD_NOMEM;
    }
    if (out)
        *out = m;
    if (st) {
        (void)close_readers(readers, n);
        return ahead_fail_errno(st);
    }
    m->cmp = cmp;
    m->ctx = ctx;
    return AHEAD_OK;
}

enum ahead_status ahead_spill_merge_close(struct ahead_spill_merge *m)
{
    enum ahead_status st, closed = AHEAD_OK;

    if (!m)
        return AHEAD_OK;
    st = m->ended && m->error.status != AHEAD_EOF && m->error.status != AHEAD_CANCELLED
             ? m->error.status
             : AHEAD_OK;
    for (size_t i = 0; i < m->n; i++) {
        enum ahead_status one = ahead_spill_reader_close(m->in[i].reader);

        if (!closed)
            closed = one;
    }
    free(m->in);
    free(m->loser);
    free(m->last_bytes);
    free(m);
    return st ? st : closed;
}

const struct ahead_error *ahead_spill_merge_error(const struct ahead_spill_merge *m)
{
    static const struct ahead_error none = {
        .status = AHEAD_INVALID,
        .source_offset = AHEAD_NO_OFFSET,
        .text = "there is no merge",
    };

    return m ? &m->error : &none;
}

/* ---- what went wrong ---- */

/* The merge ends for want or by fault of an input, whose words `err` has. */
static enum ahead_status end(struct ahead_spill_merge *m, size_t culprit, struct ahead_error err)
{
    ahead_error_set(&m->error, err.status, err.source_offset, "input %zu: %s", culprit, err.text);
    m->error.offset = err.offset;
    m->error.os_errno = err.os_errno;
    m->culprit = culprit;
    m->ended = err.status != AHEAD_TIMEDOUT && err.status != AHEAD_INVALID;
    return err.status;
}

/* The record that an input has given last should not be there, or cannot be
 * kept. */
static enum ahead_status
refuse(struct ahead_spill_merge *m, size_t culprit, enum ahead_status st, const char *why)
{
    struct ahead_error err;
    uint64_t offset, number = ahead_spill_reader_taken(m->in[culprit].reader, &offset);

    offset -= RECORD_HEADER_BYTES + (uint64_t)m->in[culprit].rec.len;
    ahead_error_set(&err, st, AHEAD_NO_OFFSET, "record %" PRIu64 ", at byte %" PRIu64 ": %s",
                    number, offset, why);
    err.offset = offset;
    return end(m, culprit, err);
}

/* ---- order ---- */

/* Below 0: a comes before b.  0: they are equal. */
static int compare(const struct ahead_spill_merge *m, const struct ahead_spill_record *a,
                   const struct ahead_spill_record *b)
{
    if (a->key_prefix != b->key_prefix)
        return a->key_prefix < b->key_prefix ? -1 : 1;
    return m->cmp ? m->cmp(a, b, m->ctx) : 0;
}

/* Whether the record of input a comes before that of input b. */
static bool wins(const struct ahead_spill_merge *m, size_t a, size_t b)
{
    int order;

    if (m->in[a].ended || m->in[b].ended)
        return !m->in[a].ended;
    order = compare(m, &m->in[a].rec, &m->in[b].rec);
    return order ? order < 0 : a < b;
}

/* Plays all matches below a node: who won. */
static size_t play(struct ahead_spill_merge *m, size_t node)
{
    size_t a, b;

    if (node >= m->n)
        return node - m->n;
    a = play(m, 2 * node);
    b = play(m, 2 * node + 1);
    if (wins(m, b, a)) {
        m->loser[node] = a;
        return b;
    }
    m->loser[node] = b;
    return a;
}

/* The winner has another record: plays its matches again. */
static void replay(struct ahead_spill_merge *m)
{
    size_t winner = m->winner;

    for (size_t node = (m->n + winner) / 2; node > 0; node /= 2)
        if (wins(m, m->loser[node], winner)) {
            size_t loser = winner;

            winner = m->loser[node];
            m->loser[node] = loser;
        }
    m->winner = winner;
}

/* ---- records ---- */

/* Lets an input show its next record, or its end. */
static enum ahead_status load(struct ahead_spill_merge *m, size_t i)
{
    enum ahead_status st = ahead_spill_next(m->in[i].reader, &m->in[i].rec);

    m->in[i].ended = st == AHEAD_EOF;
    return st && st != AHEAD_EOF ? end(m, i, *ahead_spill_error(m->in[i].reader)) : AHEAD_OK;
}

/* The bytes that were handed out are gone with the next ones of their reader,
 * and a comparison function may have to look at both. */
static bool keep_last(struct ahead_spill_merge *m)
{
    const struct ahead_spill_record *rec = &m->in[m->winner].rec;

    if (m->cmp && rec->len > m->last_cap) {
        size_t cap = rec->len > 2 * m->last_cap ? rec->len : 2 * m->last_cap;
        uint8_t *bytes = realloc(m->last_bytes, cap);

        if (!bytes)
            return false;
        m->last_bytes = bytes;
        m->last_cap = cap;
    }
    m->last = *rec;
    m->last.data = m->last_bytes ? m->last_bytes : (const uint8_t *)"";
    if (m->cmp && rec->len > 0)
        memcpy(m->last_bytes, rec->data, rec->len);
    return true;
}

static enum ahead_status advance(struct ahead_spill_merge *m)
{
    enum ahead_status st = load(m, m->winner);

    if (st)
        return st;
    m->taken = false;
    if (!m->in[m->winner].ended && compare(m, &m->last, &m->in[m->winner].rec) > 0)
        return refuse(m, m->winner, AHEAD_CORRUPT,
                      m->last.key_prefix == m->in[m->winner].rec.key_prefix
                          ? "not sorted: the comparison puts it before the one before it"
                          : "not sorted: its key prefix is below that of the one before it");
    replay(m);
    return AHEAD_OK;
}

static enum ahead_status begin(struct ahead_spill_merge *m)
{
    for (; m->loaded < m->n; m->loaded++) {
        enum ahead_status st = load(m, m->loaded);

        if (st)
            return st;
    }
    m->winner = m->n ? play(m, 1) : 0;
    return AHEAD_OK;
}

static enum ahead_status next(struct ahead_spill_merge *m, struct ahead_spill_record *rec)
{
    enum ahead_status st = AHEAD_OK;

    if (m->ended)
        return m->error.status;
    if (m->loaded < m->n)
        st = begin(m);
    else if (m->taken)
        st = advance(m);
    if (st)
        return st;
    if (m->n == 0 || m->in[m->winner].ended) {
        ahead_error_set(&m->error, AHEAD_EOF, AHEAD_NO_OFFSET, "end of the records");
        m->ended = true;
        return AHEAD_EOF;
    }
    if (!keep_last(m))
        return refuse(m, m->winner, AHEAD_NOMEM, "no memory for the copy that a comparison needs");
    m->taken = true;
    *rec = m->in[m->winner].rec;
    return AHEAD_OK;
}

enum ahead_status
ahead_spill_merge_next(struct ahead_spill_merge *m, struct ahead_spill_record *rec, size_t *from)
{
    enum ahead_status st;

    if (!m || !rec)
        return AHEAD_INVALID;
    st = next(m, rec);
    if (from && st != AHEAD_EOF)
        *from = st ? m->culprit : m->winner;
    return st;
}
