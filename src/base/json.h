/* json.h — compact JSON writer into a buffer, without a reader.
 *
 *     json json = json_of(&buffer);
 *     json_object_begin(&json);
 *     json_key(&json, "rows");
 *     json_int(&json, 3);
 *     json_object_end(&json);
 *     MR_TRY(json_done(&json));
 *
 * The output of a json_done that returns MR_OK is well-formed. A missing key, a missing end or a second top-level value
 * is a bug of the caller and asserted; json_done reports a full buffer or lack of memory. Text may be any bytes:
 * control characters are escaped, each byte of invalid UTF-8 becomes U+FFFD. Numbers that JSON lacks (infinite, not a
 * number) become null. A double has the fewest digits that read back as the same bits, independent of the process's
 * locale. */
#pragma once
#include "base/bytes.h"

enum { JSON_DEPTH_MAX = 32, JSON_DOUBLE_MAX = 40 };

typedef struct json {
    buffer *out;      /* borrowed; the output is appended to its content */
    mr_status status; /* the first failure; nothing is written after it */
    unsigned depth;
    bool has_key;                         /* the next value belongs to a key */
    bool is_object[JSON_DEPTH_MAX + 1];   /* for each open level; level 0 is the document */
    bool is_followed[JSON_DEPTH_MAX + 1]; /* for each open level: it has a value already */
} json;

json json_of(buffer *out);
MR_MUST mr_status json_done(json *json); /* MR_TOO_LARGE, MR_NOMEM: the buffer holds an incomplete document */

void json_object_begin(json *json);
void json_key(json *json, const char *key);
void json_object_end(json *json);
void json_array_begin(json *json);
void json_array_end(json *json);

void json_string(json *json, const char *text);
void json_text(json *json, span text); /* may contain NULs */
void json_int(json *json, int64_t value);
void json_uint(json *json, uint64_t value);
void json_double(json *json, double value);
void json_bool(json *json, bool value);
void json_null(json *json);

/* Escapes as many complete characters as fit into `size` bytes. Returns the number of bytes written and stores in
 * *taken the number of bytes read. `quoted` also escapes quotes and backslashes, as JSON strings require. */
size_t json_escape(span text, bool quoted, uint8_t *out, size_t size, size_t *taken);

/* The shortest text that reads back as the same double; "null" if it is not finite. Returns the length. */
size_t json_double_text(double value, char out[JSON_DOUBLE_MAX]);
