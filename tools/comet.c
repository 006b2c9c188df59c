/* SPDX-License-Identifier: Apache-2.0 */
/* comet.c - what the header of a Comet shuffle block says, and its body decoded. */
#include "comet.h"

#include <ahead/ahead.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    FIELDS_AT = 8,
    TAG_AT = 16,
    FLAG = 0x80 /* in the tag's first byte */
};

struct comet_block comet_look(const struct ahead_frame *f)
{
    const uint8_t *tag = f->header + TAG_AT;

    return (struct comet_block){
        .fields = ahead_load_u32_le(f->header + FIELDS_AT), /* 64 bits, but never above 31 */
        .tag = { (char)(tag[0] & ~FLAG), (char)tag[1], (char)tag[2], (char)tag[3] },
        .offsets_as_lengths = tag[0] & FLAG,
    };
}

static enum ahead_status
fail(struct ahead_error *err, const struct ahead_frame *f, enum ahead_status st, const char *text)
{
    *err = (struct ahead_error){
        .status = st,
        .offset = f->offset,
        .source_offset = f->offset,
    };
    snprintf(err->text, sizeof err->text, "the body of the frame: %.160s", text);
    return st;
}

static bool grow(struct bytes *b)
{
    size_t cap = b->cap ? 2 * b->cap : 1 << 16;
    uint8_t *data = cap > b->cap ? realloc(b->data, cap) : NULL;

    if (!data)
        return false;
    b->data = data;
    b->cap = cap;
    return true;
}

static enum ahead_status open_lz4(struct ahead_stream **s, const struct ahead_frame *f)
{
    const struct ahead_options opt = { .flags = AHEAD_SYNC };
    struct ahead_source src;
    enum ahead_status st = ahead_source_memory(&src, f->body, f->body_len);

    if (!st)
        st = ahead_source_lz4_frame(&src, src, NULL);
    return st ? st : ahead_open(s, src, &opt);
}

/* All that the stream delivers.  AHEAD_EOF: it is there; *why says why not. */
static enum ahead_status read_all(struct ahead_stream *s, struct bytes *to, const char **why)
{
    enum ahead_status st;
    size_t got;

    to->len = 0;
    do {
        *why = "no memory to hold it, decoded";
        if (to->len == to->cap && !grow(to))
            return AHEAD_NOMEM;
        st = ahead_read(s, to->data + to->len, to->cap - to->len, &got);
        to->len += got;
        *why = "it is above 2147483647 bytes, decoded";
        if (to->len > INT32_MAX)
            return AHEAD_LIMIT;
    } while (!st);
    *why = ahead_error(s)->text;
    return st;
}

static enum ahead_status
decode_lz4(const struct ahead_frame *f, struct bytes *room, struct ahead_error *err)
{
    struct ahead_stream *s;
    const char *why;
    enum ahead_status st = open_lz4(&s, f);

    if (st)
        return fail(err, f, st, "no memory to decode it");
    st = read_all(s, room, &why);
    if (st == AHEAD_TRUNCATED)
        st = AHEAD_CORRUPT;
    if (st != AHEAD_EOF)
        fail(err, f, st, why);
    ahead_close(s);
    return st == AHEAD_EOF ? AHEAD_OK : st;
}

enum ahead_status comet_decode(const struct ahead_frame *f, struct bytes *room,
                               const uint8_t **body, size_t *len, struct ahead_error *err)
{
    struct comet_block block = comet_look(f);
    bool lz4 = strcmp(block.tag, "LZ4_") == 0;
    char text[48];
    enum ahead_status st;

    if (!lz4 && strcmp(block.tag, "NONE") != 0) {
        snprintf(text, sizeof text, "%s is not decoded here", block.tag);
        return fail(err, f, AHEAD_UNSUPPORTED, text);
    }
    st = lz4 ? decode_lz4(f, room, err) : AHEAD_OK;
    *body = lz4 ? room->data : f->body;
    *len = lz4 ? room->len : f->body_len;
    return st;
}
