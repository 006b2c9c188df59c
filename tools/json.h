/* SPDX-License-Identifier: Apache-2.0 */
/* json.h - an object on one line. */
#ifndef AHEAD_TOOL_JSON_H
#define AHEAD_TOOL_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct json {
    FILE *to;
    bool more; /* the object has a member already */
};

void json_begin(struct json *j, FILE *to);
void json_number(struct json *j, const char *name, uint64_t value);
void json_integer(struct json *j, const char *name, int64_t value);
void json_bool(struct json *j, const char *name, bool value);

/* Bytes that are no UTF-8 become U+FFFD: a file's name may be anything, a
 * string may not. */
void json_text(struct json *j, const char *name, const char *value);

/* A list of objects; the members in between are those of the item. */
void json_list_begin(struct json *j, const char *name);
void json_item_begin(struct json *j);
void json_item_end(struct json *j);
void json_list_end(struct json *j);

void json_end(struct json *j);

#endif
