/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_spill.c - any bytes as a spill: the records and the ending are those of the rules.
 *
 * Bare bytes are judged by support/judge.h; bytes as an LZ4Block stream are
 * read twice, and must give the same whatever the buffer's size is. */
#include "format/spill.h"
#include "fuzz/fuzz.h"
#include "support/judge.h"

#include <ahead/lz4.h>

#include <string.h>

/* What a spill came to. */
struct outcome {
    enum ahead_status status;
    uint64_t records, sum, offset;
};

static struct outcome read_all(struct ahead_stream *s, struct ahead_spill_options opt)
{
    struct outcome o = { .sum = 0 };
    struct ahead_spill_reader *r;
    struct ahead_spill_record rec;

    MUST(!ahead_spill_reader_open(&r, s, &opt));
    if (opt.max_record_bytes & 1) /* else next() comes first */
        (void)ahead_spill_count(r);
    while (!(o.status = ahead_spill_next(r, &rec))) {
        MUST(rec.len <= opt.max_record_bytes);
        o.sum = fuzz_sum(o.sum ^ (uint64_t)rec.key_prefix, rec.data, rec.len);
        o.records++;
    }
    MUST(ahead_spill_next(r, NULL) == AHEAD_INVALID);
    MUST(ahead_spill_next(r, &rec) == o.status);
    MUST(ahead_spill_reader_taken(r, &o.offset) == o.records);
    MUST(ahead_spill_error(r)->status == o.status && ahead_spill_error(r)->text[0]);
    o.offset = ahead_spill_error(r)->offset;
    MUST(ahead_spill_reader_close(r) == (o.status == AHEAD_EOF ? AHEAD_OK : o.status));
    return o;
}

static uint64_t sum_of(const uint8_t *p, uint64_t records)
{
    uint64_t sum = 0;

    for (p += 4; records > 0; records--) {
        size_t len = (size_t)judge_number(p, 4, true);

        sum = fuzz_sum(sum ^ judge_number(p + 4, 8, true), p + 12, len);
        p += 12 + len;
    }
    return sum;
}

static void fuzz_bare(const struct fuzz *f, unsigned size_class, struct ahead_spill_options opt)
{
    struct judged want = judge_spill(f->data, f->size, AHEAD_EOF, opt.compat, opt.max_record_bytes);
    struct outcome o = read_all(fuzz_open(fuzz_source(f), size_class), opt);

    MUST(o.status == want.status);
    MUST(o.records == want.elements);
    MUST(o.offset == want.whole);
    MUST(o.sum == sum_of(f->data, o.records));
}

static struct outcome
read_block(const struct fuzz *f, unsigned size_class, struct ahead_spill_options opt)
{
    struct ahead_lz4_options lz4 = { .compat = opt.compat, .max_block_bytes = FUZZ_LIMIT_BYTES };
    struct ahead_source src;

    MUST(!ahead_source_lz4_block(&src, fuzz_source(f), &lz4));
    return read_all(fuzz_open(src, size_class), opt);
}

static void fuzz_block(const struct fuzz *f, unsigned size_class, struct ahead_spill_options opt)
{
    struct outcome a = read_block(f, size_class, opt), b = read_block(f, size_class + 1, opt);

    MUST(a.status == b.status && a.records == b.records && a.offset == b.offset && a.sum == b.sum);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz f = fuzz_begin(data, size);
    struct ahead_spill_options opt = { .max_record_bytes = FUZZ_LIMIT_BYTES };
    unsigned size_class = fuzz_take(&f, 2);

    opt.compat = fuzz_take(&f, 1);
    if (fuzz_take(&f, 1))
        opt.max_record_bytes = 101;
    if (f.size >= 8 && !memcmp(f.data, "LZ4Block", 8))
        fuzz_block(&f, size_class, opt);
    else
        fuzz_bare(&f, size_class, opt);
    return 0;
}
