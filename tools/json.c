/* SPDX-License-Identifier: Apache-2.0 */
/* json.c - an object on one line. */
#include "json.h"

#include <inttypes.h>
#include <stddef.h>

/* The length of the UTF-8 sequence at p, which ends with a NUL: 0 if it is
 * none (overlong, a surrogate, beyond U+10FFFF, cut). */
static size_t utf8_length(const unsigned char *p)
{
    unsigned low = 0x80, high = 0xbf; /* of the second byte */
    size_t n;

    if (p[0] < 0x80)
        return 1;
    if (p[0] < 0xc2 || p[0] > 0xf4)
        return 0;
    n = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
    switch (p[0]) {
    case 0xe0: low = 0xa0; break;
    case 0xed: high = 0x9f; break;
    case 0xf0: low = 0x90; break;
    case 0xf4: high = 0x8f; break;
    }
    if (p[1] < low || p[1] > high)
        return 0;
    for (size_t i = 2; i < n; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    return n;
}

static void put_string(FILE *to, const char *text)
{
    const unsigned char *p = (const unsigned char *)text;

    putc('"', to);
    while (*p) {
        size_t n = utf8_length(p);

        if (n == 0)
            fputs("\\ufffd", to);
        else if (*p == '"' || *p == '\\')
            fprintf(to, "\\%c", *p);
        else if (*p < 0x20)
            fprintf(to, "\\u%04x", *p);
        else
            fwrite(p, 1, n, to);
        p += n ? n : 1;
    }
    putc('"', to);
}

/* The next of several, in an object or a list. */
static void put_next(struct json *j)
{
    if (j->more)
        putc(',', j->to);
    j->more = true;
}

static void put_name(struct json *j, const char *name)
{
    put_next(j);
    put_string(j->to, name);
    putc(':', j->to);
}

void json_begin(struct json *j, FILE *to)
{
    *j = (struct json){ .to = to };
    putc('{', to);
}

void json_number(struct json *j, const char *name, uint64_t value)
{
    put_name(j, name);
    fprintf(j->to, "%" PRIu64, value);
}

void json_integer(struct json *j, const char *name, int64_t value)
{
    put_name(j, name);
    fprintf(j->to, "%" PRId64, value);
}

void json_bool(struct json *j, const char *name, bool value)
{
    put_name(j, name);
    fputs(value ? "true" : "false", j->to);
}

void json_text(struct json *j, const char *name, const char *value)
{
    put_name(j, name);
    put_string(j->to, value);
}

static void open_inner(struct json *j, char bracket)
{
    putc(bracket, j->to);
    j->more = false;
}

/* Whatever it was in, it is not the first there. */
static void close_inner(struct json *j, char bracket)
{
    putc(bracket, j->to);
    j->more = true;
}

void json_list_begin(struct json *j, const char *name)
{
    put_name(j, name);
    open_inner(j, '[');
}

void json_item_begin(struct json *j)
{
    put_next(j);
    open_inner(j, '{');
}

void json_item_end(struct json *j)
{
    close_inner(j, '}');
}

void json_list_end(struct json *j)
{
    close_inner(j, ']');
}

void json_end(struct json *j)
{
    fputs("}\n", j->to);
}
