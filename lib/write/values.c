/* SPDX-License-Identifier: Apache-2.0 */
/* values.c - what writer.h writes that is not one fixed-width value: bytes,
 * arrays, strings. */
#include <ahead/writer.h>

#include "encoding.h"
#include "write/core.h"

#include <string.h>

/* Room for n > 0 bytes at least one of which fits: how many do, up to n. */
static size_t room_for(const struct ahead_writer *w, size_t n)
{
    size_t room = (size_t)(w->end - w->next);

    return room < n ? room : n;
}

enum ahead_status ahead_write(struct ahead_writer *w, const void *src, size_t len)
{
    const uint8_t *p = src;

    if (!w || (!src && len > 0))
        return AHEAD_INVALID;
    while (len > 0) {
        size_t n;

        if (w->next >= w->end) {
            enum ahead_status st = ahead_make_room(w);

            if (st)
                return st;
        }
        n = room_for(w, len);
        memcpy(w->next, p, n);
        w->next += n;
        p += n;
        len -= n;
    }
    return AHEAD_OK;
}

enum ahead_status
ahead_write_array(struct ahead_writer *w, const void *src, size_t n, size_t width, bool big_endian)
{
    const uint8_t *p = src;

    if (!w || (!src && n > 0) || (width != 2 && width != 4 && width != 8) || n > SIZE_MAX / width)
        return AHEAD_INVALID;
    while (n > 0) {
        size_t k;

        if (w->next >= w->end) {
            enum ahead_status st = ahead_make_room(w);

            if (st)
                return st;
        }
        /* The last one may lap over the end. */
        k = (room_for(w, n * width) + width - 1) / width;
        ahead_encoding_copy(w->next, p, k, width, big_endian);
        w->next += k * width;
        p += k * width;
        n -= k;
    }
    return AHEAD_OK;
}

enum ahead_status ahead_write_utf(struct ahead_writer *w, const char *src, size_t len)
{
    struct ahead_writer_core *c = ahead_writer_core_of(w);
    enum ahead_status st;
    size_t bad;

    if (!w || (!src && len > 0))
        return AHEAD_INVALID;
    if (len > UINT16_MAX)
        return ahead_writer_core_fail(c, AHEAD_INVALID, "a string of %zu bytes is above 65535",
                                      len);
    if (!ahead_encoding_is_modified_utf8((const uint8_t *)src, len, &bad))
        return ahead_writer_core_fail(
            c, AHEAD_INVALID, "byte %zu of a string of %zu bytes is not modified UTF-8", bad, len);
    st = ahead_write_u16_be(w, (uint16_t)len);
    return st ? st : ahead_write(w, src, len);
}
