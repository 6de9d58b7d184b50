/* json.h — compact JSON writer into a buffer. There is no reader here.
 *
 *     json json = json_of(&buffer);
 *     json_object_begin(&json);
 *     json_key(&json, "rows");
 *     json_int(&json, 3);
 *     json_object_end(&json);
 *     MR_TRY(json_done(&json));
 *
 * The output is always well-formed or refused as a whole: a missing key, a missing end or a second top-level value is a
 * bug of the caller and asserted, a buffer that is full (or no memory) is reported once, by json_done. Text may be any
 * bytes: control characters are escaped, invalid UTF-8 becomes U+FFFD byte by byte. A number that JSON does not have
 * (infinite, not a number) becomes null. Doubles are as short as they can be and still read back to the same bits,
 * whatever decimal point the process's locale has. */
#pragma once
#include "base/bytes.h"

enum { JSON_DEPTH_MAX = 32, JSON_DOUBLE_MAX = 40 };

typedef struct json {
    buffer *out;      /* borrowed; its earlier content stays in front */
    mr_status status; /* of the first failure; nothing is written after it */
    unsigned depth;
    bool has_key;                         /* the next value belongs to a key */
    bool is_object[JSON_DEPTH_MAX + 1];   /* of each open level; level 0 is the document */
    bool is_followed[JSON_DEPTH_MAX + 1]; /* it has a value already */
} json;

json json_of(buffer *out);
MR_MUST mr_status json_done(json *json); /* MR_TOO_LARGE, MR_NOMEM: the buffer holds a torn document */

void json_object_begin(json *json);
void json_key(json *json, const char *key);
void json_object_end(json *json);
void json_array_begin(json *json);
void json_array_end(json *json);

void json_string(json *json, const char *text);
void json_text(json *json, span text); /* may hold zeros */
void json_int(json *json, int64_t value);
void json_uint(json *json, uint64_t value);
void json_double(json *json, double value);
void json_bool(json *json, bool value);
void json_null(json *json);

/* The parts that others need. Escapes as many whole characters as fit into `size` bytes: gives how many bytes were
 * written and, in *taken, how many were read. `quoted` escapes quotes and backslashes too, as a JSON string needs it.
 */
size_t json_escape(span text, bool quoted, uint8_t *out, size_t size, size_t *taken);

/* The shortest text that reads back to the same double; "null" if it is not finite. Gives the length. */
size_t json_double_text(double value, char out[JSON_DOUBLE_MAX]);
