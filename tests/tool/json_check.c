/* SPDX-License-Identifier: Apache-2.0 */
/* json_check.c - whether standard input is one JSON value (RFC 8259) in UTF-8. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const unsigned char *p; /* the text ends with a NUL, which is not JSON */

static bool value(void);

static void blanks(void)
{
    while (*p && strchr(" \t\r\n", *p))
        p++;
}

static bool take(char c)
{
    if (*p != (unsigned char)c)
        return false;
    p++;
    return true;
}

static bool digits(void)
{
    const unsigned char *start = p;

    while (*p >= '0' && *p <= '9')
        p++;
    return p > start;
}

static bool number(void)
{
    take('-');
    if (!take('0') && !digits())
        return false;
    if (take('.') && !digits())
        return false;
    if (!take('e') && !take('E'))
        return true;
    if (!take('-'))
        take('+');
    return digits();
}

static bool word(const char *text)
{
    size_t n = strlen(text);

    if (strncmp((const char *)p, text, n) != 0)
        return false;
    p += n;
    return true;
}

/* One character of more than a byte: by its value, so that it is shortest, no
 * surrogate and not too large. */
static bool wide(void)
{
    static const unsigned lowest[] = { 0, 0, 0x80, 0x800, 0x10000 };
    unsigned n = *p >= 0xf0 ? 4 : *p >= 0xe0 ? 3 : 2;
    unsigned c = *p & (0xffu >> (n + 1));

    if (*p < 0xc0 || *p > 0xf7)
        return false;
    p++;
    for (unsigned i = 1; i < n; i++) {
        if ((*p & 0xc0) != 0x80)
            return false;
        c = c << 6 | (*p++ & 0x3f);
    }
    return c >= lowest[n] && c <= 0x10ffff && (c < 0xd800 || c > 0xdfff);
}

static bool escape(void)
{
    if (!take('u')) {
        if (!*p || !strchr("\"\\/bfnrt", *p))
            return false;
        p++;
        return true;
    }
    for (int i = 0; i < 4; i++, p++)
        if (!*p || !strchr("0123456789abcdefABCDEF", *p))
            return false;
    return true;
}

static bool string(void)
{
    if (!take('"'))
        return false;
    while (!take('"')) {
        if (*p < 0x20)
            return false;
        if (*p >= 0x80) {
            if (!wide())
                return false;
        } else if (*p++ == '\\' && !escape()) {
            return false;
        }
    }
    return true;
}

static bool member(void)
{
    blanks();
    if (!string())
        return false;
    blanks();
    return take(':') && value();
}

static bool list(bool (*item)(void), char close)
{
    blanks();
    if (take(close))
        return true;
    do
        if (!item())
            return false;
    while (take(','));
    return take(close);
}

static bool value(void)
{
    bool good;

    blanks();
    if (take('{'))
        good = list(member, '}');
    else if (take('['))
        good = list(value, ']');
    else if (*p == '"')
        good = string();
    else
        good = word("true") || word("false") || word("null") || number();
    blanks();
    return good;
}

int main(void)
{
    static unsigned char text[1 << 20];
    size_t n = fread(text, 1, sizeof text - 1, stdin);

    p = text;
    if (value() && p == text + n)
        return 0;
    fprintf(stderr, "no JSON at byte %zu: %.40s\n", (size_t)(p - text), (const char *)p);
    return 1;
}
