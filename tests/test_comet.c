/* SPDX-License-Identifier: Apache-2.0 */
/* test_comet.c - the body of a Comet frame decodes to what was put in, or not at all. */
#include <ahead/ahead.h>

#include "support/bytes.h"
#include "support/expect.h"
#include "support/failing.h"
#include "support/pattern.h"

#include <lz4frame.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { AT = 4711 }; /* where the frames of these tests are said to begin */

/* `header` has room for 20 bytes, of which only the tag counts here. */
static struct ahead_frame frame_of(uint8_t *header, const char *tag, const struct bytes *body)
{
    memset(header, 0, 16);
    memcpy(header + 16, tag, 4);
    return (struct ahead_frame){
        .header = header, .body = body->p, .body_len = body->len, .offset = AT
    };
}

/* n bytes that compress, each word of the pattern eight times over. */
static struct bytes plain_of(size_t n)
{
    struct bytes b = { 0 };

    while (b.len + 64 <= n)
        for (uint64_t word = pattern_word(b.len), i = 0; i < 8; i++)
            bytes_add(&b, &word, sizeof word);
    bytes_add_pattern(&b, n - b.len);
    return b;
}

static struct bytes lz4_of(const struct bytes *plain, LZ4F_preferences_t prefs)
{
    struct bytes b = { 0 };
    size_t cap = LZ4F_compressFrameBound(plain->len, &prefs), n;

    n = LZ4F_compressFrame(bytes_reserve(&b, cap), cap, plain->p, plain->len, &prefs);
    expect_true(!LZ4F_isError(n));
    b.len = n;
    return b;
}

/* A decode that must fail: with a place and a text, and with nothing in `len`. */
static void expect_refused(const struct ahead_frame *f, size_t max, enum ahead_status want)
{
    struct ahead_error err;
    uint8_t *out = NULL;
    size_t len = 77;

    expect_status(ahead_frame_comet_decode(f, max, &out, &len, &err), want);
    expect_status(err.status, want);
    expect_size(len, 0);
    expect_u64(err.source_offset, AT);
    expect_u64(err.offset, AT);
    expect_true(strlen(err.text) > 5);
    free(out);
}

static void expect_decoded(const struct ahead_frame *f, size_t max, const struct bytes *plain)
{
    struct ahead_error err;
    uint8_t *out = NULL;
    size_t len = 77;

    expect_status(ahead_frame_comet_decode(f, max, &out, &len, NULL), AHEAD_OK);
    expect_status(ahead_frame_comet_decode(f, max, &out, &len, &err), AHEAD_OK);
    expect_status(err.status, AHEAD_OK);
    expect_true(out);
    expect_size(len, plain->len);
    expect_mem(out, plain->p, len);
    free(out);
}

static const size_t lengths[] = { 0, 1, 100, 65535, 65536, 65537, 131072, 1000000, 5 << 20 };

/* F182: the limit passes, one less does not; 0 is none. */
Test(comet, a_stored_body_is_copied)
{
    static const char *const tags[] = { "NONE", "\xceONE" };

    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        struct bytes plain = plain_of(lengths[i]);

        for (size_t k = 0; k < 2; k++) {
            uint8_t header[20];
            struct ahead_frame f = frame_of(header, tags[k], &plain);

            expect_note("%zu bytes", lengths[i]);
            expect_decoded(&f, 0, &plain);
            expect_decoded(&f, plain.len, &plain);
            if (plain.len > 1)
                expect_refused(&f, plain.len - 1, AHEAD_LIMIT);
        }
        free(plain.p);
    }
}

Test(comet, an_lz4_body_is_decoded)
{
    static const char *const tags[] = { "LZ4_", "\xccZ4_" };

    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        struct bytes plain = plain_of(lengths[i]);

        for (unsigned k = 0; k < 16; k++) {
            LZ4F_preferences_t prefs = {
                .frameInfo = { .blockSizeID = k & 1 ? LZ4F_max64KB : LZ4F_max4MB,
                               .blockMode = k & 2 ? LZ4F_blockIndependent : LZ4F_blockLinked,
                               .contentChecksumFlag =
                                   k & 4 ? LZ4F_contentChecksumEnabled : LZ4F_noContentChecksum,
                               .contentSize = k & 8 ? plain.len : 0 }
            };
            struct bytes body = lz4_of(&plain, prefs);
            uint8_t header[20];
            struct ahead_frame f = frame_of(header, tags[k % 2], &body);

            expect_note("%zu bytes, kind %u", lengths[i], k);
            atomic_store(&largest, 0);
            expect_decoded(&f, 0, &plain);
            expect_decoded(&f, plain.len ? plain.len : 1, &plain);
            if (plain.len > 1)
                expect_refused(&f, plain.len - 1, AHEAD_LIMIT);
            free(body.p);
        }
        free(plain.p);
    }
}

/* Memory up to the limit and no further, whatever the body says. */
Test(comet, a_limit_bounds_what_is_allocated)
{
    LZ4F_preferences_t prefs = { .frameInfo = { .blockSizeID = LZ4F_max64KB } };
    struct bytes plain = { 0 }, body;
    uint8_t header[20];
    struct ahead_frame f;

    bytes_add_zeros(&plain, 40 << 20);
    body = lz4_of(&plain, prefs);
    f = frame_of(header, "LZ4_", &body);
    for (size_t max = 1; max < plain.len; max = 3 * max + 1) {
        atomic_store(&largest, 0);
        expect_refused(&f, max, AHEAD_LIMIT);
        expect_true(atomic_load(&largest) <= (max > 200000 ? max : 200000));
    }
    free(plain.p);
    free(body.p);
}

static struct bytes small_body(struct bytes *plain)
{
    LZ4F_preferences_t prefs = { .frameInfo = { .contentChecksumFlag =
                                                    LZ4F_contentChecksumEnabled } };

    *plain = (struct bytes){ 0 };
    bytes_add_pattern(plain, 100);
    bytes_reserve(plain, 100);
    bytes_add(plain, plain->p, 100);
    bytes_add_pattern(plain, 100);
    return lz4_of(plain, prefs);
}

/* The frame is whole, so that a body which stops early, or late, is damaged. */
Test(comet, a_body_that_ends_elsewhere_is_corrupt)
{
    struct bytes plain, body = small_body(&plain);
    size_t whole = body.len;
    uint8_t header[20];
    struct ahead_frame f;

    for (body.len = 0; body.len < whole; body.len++) {
        f = frame_of(header, "LZ4_", &body);
        expect_note("%zu of %zu bytes", body.len, whole);
        expect_refused(&f, 0, AHEAD_CORRUPT);
    }
    f = frame_of(header, "LZ4_", &body);
    expect_decoded(&f, 0, &plain);
    for (unsigned more = 1; more < 30; more++) {
        bytes_add(&body, "x", 1);
        f = frame_of(header, "LZ4_", &body);
        expect_note("%u bytes more", more);
        expect_refused(&f, 0, AHEAD_CORRUPT);
    }
    free(plain.p);
    free(body.p);
}

/* And by no other status, though the body may ask for a dictionary now, or go
 * on behind its end.  Four bits mean nothing: the last token of a block has a
 * match length, but no match. */
Test(comet, every_flipped_bit_that_counts_is_corrupt)
{
    struct bytes plain, body = small_body(&plain);
    unsigned harmless = 0;

    for (size_t bit = 0; bit < 8 * body.len; bit++) {
        uint8_t header[20], *out = NULL;
        struct ahead_frame f = frame_of(header, "LZ4_", &body);
        size_t len;

        expect_note("bit %zu", bit);
        body.p[bit / 8] ^= (uint8_t)(1 << bit % 8);
        if (!ahead_frame_comet_decode(&f, 0, &out, &len, NULL)) {
            harmless++;
            expect_decoded(&f, 0, &plain);
        } else {
            expect_refused(&f, 0, AHEAD_CORRUPT);
        }
        body.p[bit / 8] ^= (uint8_t)(1 << bit % 8);
        free(out);
    }
    expect_int(harmless, 4);
    free(plain.p);
    free(body.p);
}

Test(comet, a_fault_is_told_with_its_place_in_the_body)
{
    struct bytes plain, body = small_body(&plain);
    uint8_t header[20], *out = NULL;
    struct ahead_frame f = frame_of(header, "LZ4_", &body);
    struct ahead_error err;
    size_t len;
    char start[32];

    body.p[body.len - 1] ^= 1;
    snprintf(start, sizeof start, "in the body, byte %zu: ", body.len - 4);
    expect_status(ahead_frame_comet_decode(&f, 0, &out, &len, &err), AHEAD_CORRUPT);
    err.text[strlen(start)] = '\0';
    expect_str(err.text, start);
    free(out);
    free(plain.p);
    free(body.p);
}

Test(comet, what_is_not_built_in_is_said_by_name)
{
    static const char *const tags[] = { "ZSTD", "\xdaSTD", "SNAP", "\xd3NAP" };
    struct bytes body = { .p = (uint8_t *)"body", .len = 4 };

    for (size_t i = 0; i < 4; i++) {
        uint8_t header[20], *out = NULL;
        struct ahead_frame f = frame_of(header, tags[i], &body);
        struct ahead_error err;
        size_t len;

        expect_refused(&f, 0, AHEAD_UNSUPPORTED);
        expect_status(ahead_frame_comet_decode(&f, 0, &out, &len, &err), AHEAD_UNSUPPORTED);
        expect_true(strstr(err.text, i < 2 ? "ZSTD" : "SNAP"));
        expect_true(!out);
    }
}

Test(comet, calls_that_are_wrong)
{
    struct bytes body = { .p = (uint8_t *)"body", .len = 4 };
    uint8_t header[20], *out = NULL;
    struct ahead_frame f = frame_of(header, "NONE", &body), bad = f;
    struct ahead_error err;
    size_t len;

    expect_status(ahead_frame_comet_decode(NULL, 0, &out, &len, &err), AHEAD_INVALID);
    expect_status(err.status, AHEAD_INVALID);
    expect_status(ahead_frame_comet_decode(&f, 0, NULL, &len, NULL), AHEAD_INVALID);
    expect_status(ahead_frame_comet_decode(&f, 0, &out, NULL, NULL), AHEAD_INVALID);
    bad.header = NULL;
    expect_status(ahead_frame_comet_decode(&bad, 0, &out, &len, NULL), AHEAD_INVALID);
    bad = f;
    bad.body = NULL;
    expect_status(ahead_frame_comet_decode(&bad, 0, &out, &len, NULL), AHEAD_INVALID);
    bad.body_len = 0;
    expect_status(ahead_frame_comet_decode(&bad, 0, &out, &len, NULL), AHEAD_OK);
    expect_size(len, 0);
    free(out);
    out = NULL;
    memcpy(header + 16, "GZIP", 4);
    expect_refused(&f, 0, AHEAD_INVALID);
    expect_true(!out);
}

/* What was there before is used again, and stays the caller's on failure. */
Test(comet, memory_goes_from_frame_to_frame)
{
    LZ4F_preferences_t prefs = { .frameInfo = { .blockSizeID = LZ4F_max64KB } };
    uint8_t *out = NULL;
    size_t len;

    for (unsigned i = 0; i < 12; i++) {
        struct bytes plain = plain_of(lengths[(5 * i) % 9]), body = lz4_of(&plain, prefs);
        uint8_t header[20];
        struct ahead_frame lz4 = frame_of(header, "LZ4_", &body), none;

        expect_status(ahead_frame_comet_decode(&lz4, 0, &out, &len, NULL), AHEAD_OK);
        expect_size(len, plain.len);
        expect_mem(out, plain.p, len);
        none = frame_of(header, "NONE", &plain);
        expect_status(ahead_frame_comet_decode(&none, 0, &out, &len, NULL), AHEAD_OK);
        expect_mem(out, plain.p, len);
        memcpy(header + 16, "LZ4_", 4);
        expect_status(ahead_frame_comet_decode(&none, 0, &out, &len, NULL), AHEAD_CORRUPT);
        free(plain.p);
        free(body.p);
    }
    free(out);
}

Test(comet, unwinds_from_every_failing_step)
{
    LZ4F_preferences_t prefs = { .frameInfo = { .blockSizeID = LZ4F_max64KB } };
    struct bytes plain = plain_of(1000000), body = lz4_of(&plain, prefs);
    int before = live;

    for (int lz4 = 0; lz4 < 2; lz4++) {
        bool failed = true;

        for (int step = 1; failed; step++) {
            uint8_t header[20], *out = NULL;
            struct ahead_frame f =
                lz4 ? frame_of(header, "LZ4_", &body) : frame_of(header, "NONE", &plain);
            struct ahead_error err;
            enum ahead_status st;
            size_t len;

            expect_note("step %d", step);
            fail_step(step);
            st = ahead_frame_comet_decode(&f, 0, &out, &len, &err);
            failed = fail_step(0);
            expect_status(st, failed ? AHEAD_NOMEM : AHEAD_OK);
            if (failed)
                expect_u64(err.source_offset, AT);
            free(out);
            expect_int(live, before);
        }
    }
    free(plain.p);
    free(body.p);
}
