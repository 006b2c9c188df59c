/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_frame.c - any bytes as Comet's frames, and as frames of any description: the frames and the
 * ending are those of the rules, and a body is decoded or refused. */
#include "fuzz/fuzz.h"
#include "support/judge.h"

#include <stdbool.h>

/* Reads every frame; each is to lie where the one before it ended. */
static struct judged
read_all(const struct fuzz *f, unsigned size_class, const struct ahead_frame_format *fmt,
         void (*use)(const struct ahead_frame *frame))
{
    struct judged j = { .whole = 0 };
    struct ahead_frame_reader *r;
    struct ahead_frame frame;

    MUST(!ahead_frame_reader_open(&r, fuzz_open(fuzz_source(f), size_class), fmt));
    while (!(j.status = ahead_frame_next(r, &frame))) {
        size_t total = fmt->header_bytes + frame.body_len;

        MUST(frame.offset == j.whole && total <= f->size - j.whole);
        MUST(!memcmp(frame.header, f->data + j.whole, fmt->header_bytes));
        MUST(!frame.body_len ||
             !memcmp(frame.body, f->data + j.whole + fmt->header_bytes, frame.body_len));
        if (use)
            use(&frame);
        j.whole += total;
        j.elements++;
    }
    MUST(ahead_frame_next(r, NULL) == AHEAD_INVALID);
    MUST(ahead_frame_next(r, &frame) == j.status);
    MUST(ahead_frame_error(r)->status == j.status && ahead_frame_error(r)->text[0]);
    MUST(ahead_frame_error(r)->offset == j.whole);
    MUST(ahead_frame_reader_close(r) == (j.status == AHEAD_EOF ? AHEAD_OK : j.status));
    return j;
}

static enum ahead_status decode_at_most(const struct ahead_frame *frame, size_t max, size_t *len)
{
    struct ahead_error err;
    uint8_t *out = NULL;
    enum ahead_status st = ahead_frame_comet_decode(frame, max, &out, len, &err);

    MUST(st == err.status);
    if (!st)
        (void)fuzz_sum(0, out, *len);
    free(out);
    return st;
}

/* A body that decodes does so within its own size, and not within less; and the tag says how. */
static void decode(const struct ahead_frame *frame)
{
    uint8_t header[20];
    struct ahead_frame other = *frame;
    size_t len, again;
    enum ahead_status st = decode_at_most(frame, FUZZ_LIMIT_BYTES, &len);

    MUST(st == AHEAD_OK || st == AHEAD_CORRUPT || st == AHEAD_LIMIT || st == AHEAD_UNSUPPORTED);
    if (!st && len > 1) {
        MUST(!decode_at_most(frame, len, &again) && again == len);
        MUST(decode_at_most(frame, len - 1, &again) == AHEAD_LIMIT);
    }
    memcpy(header, frame->header, sizeof header);
    header[16] = 'X';
    other.header = header;
    MUST(decode_at_most(&other, FUZZ_LIMIT_BYTES, &len) == AHEAD_INVALID);
    MUST(ahead_frame_comet_decode(frame, 0, NULL, &len, NULL) == AHEAD_INVALID);
}

static void fuzz_comet(struct fuzz *f, unsigned size_class)
{
    struct ahead_frame_format fmt = ahead_frame_comet;
    uint32_t fields = 3;
    bool counted = fuzz_take(f, 1);
    uint64_t max = fuzz_take(f, 1) ? 100 : FUZZ_LIMIT_BYTES;
    struct judged want = judge_comet(f->data, f->size, AHEAD_EOF, counted ? 3 : -1, max), got;

    if (counted)
        fmt.check_ctx = &fields;
    fmt.max_length = max + 8;
    got = read_all(f, size_class, &fmt, decode);
    MUST(got.status == want.status && got.elements == want.elements && got.whole == want.whole);
}

/* The rules once more. */
static struct judged judge_any(const struct fuzz *f, const struct ahead_frame_format *fmt)
{
    uint32_t first = fmt->first_bytes ? fmt->first_bytes : fmt->header_bytes;
    struct judged j = { .whole = 0 };

    for (; j.whole < f->size; j.elements++) {
        size_t left = f->size - j.whole;
        uint64_t length, total;
        bool wraps;

        if (left < first)
            return judge_as(j, AHEAD_TRUNCATED);
        length = judge_number(f->data + j.whole + fmt->length_offset, fmt->length_bytes,
                              fmt->big_endian);
        wraps = __builtin_add_overflow(length, fmt->length_counts_from, &total);
        if (length < fmt->min_length || (!wraps && total < fmt->header_bytes))
            return judge_as(j, AHEAD_CORRUPT);
        if ((fmt->max_length && length > fmt->max_length) || wraps || total > PTRDIFF_MAX)
            return judge_as(j, AHEAD_LIMIT);
        if (left < total)
            return judge_as(j, AHEAD_TRUNCATED);
        j.whole += (size_t)total;
    }
    return judge_as(j, AHEAD_EOF);
}

/* A description that is made of the first bytes. */
static void fuzz_any(struct fuzz *f, unsigned size_class)
{
    struct ahead_frame_format fmt = { .max_length = FUZZ_LIMIT_BYTES };
    struct ahead_frame_reader *r;
    struct judged want, got;

    if (f->size < 8)
        return;
    fmt.header_bytes = f->data[0] % 32;
    fmt.length_offset = f->data[1] % 32;
    fmt.length_bytes = f->data[2] % 10;
    fmt.first_bytes = f->data[3] % 32;
    fmt.length_counts_from = f->data[4] % 32;
    fmt.min_length = f->data[5];
    fmt.big_endian = f->data[6] & 1;
    if (f->data[6] & 2)
        fmt.max_length = f->data[7];
    f->data += 8;
    f->size -= 8;
    if (ahead_frame_reader_open(&r, fuzz_open(fuzz_source(f), size_class), &fmt))
        return;
    MUST(!ahead_frame_reader_close(r));
    want = judge_any(f, &fmt);
    got = read_all(f, size_class, &fmt, NULL);
    MUST(got.status == want.status && got.elements == want.elements && got.whole == want.whole);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz f = fuzz_begin(data, size);
    unsigned size_class = fuzz_take(&f, 2);

    if (fuzz_take(&f, 1))
        fuzz_any(&f, size_class);
    else
        fuzz_comet(&f, size_class);
    return 0;
}
