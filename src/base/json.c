/* json.c — see json.h. */
#include "base/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/utf8.h"

/* ---- Characters. */

static bool is_control(span character) {
    uint8_t lead = character.data[0];
    if (character.size == 2)
        return lead == 0xc2 && character.data[1] < 0xa0; /* U+0080 to U+009F: terminal control characters */
    return character.size == 1 && (lead < 0x20 || lead == 0x7f);
}

/* Escapes one character into at most 6 bytes. */
static size_t escape_character(span character, bool quoted, char out[8]) {
    static const char short_forms[][2] = {{'\n', 'n'}, {'\t', 't'}, {'\r', 'r'}, {'\b', 'b'}, {'\f', 'f'}};
    uint8_t lead = character.data[0];
    if (quoted && (lead == '"' || lead == '\\')) return (size_t)sprintf(out, "\\%c", lead);
    if (!is_control(character)) {
        memcpy(out, character.data, character.size);
        return character.size;
    }
    for (size_t i = 0; i < sizeof short_forms / sizeof *short_forms; i++)
        if (lead == short_forms[i][0]) return (size_t)sprintf(out, "\\%c", short_forms[i][1]);
    return (size_t)sprintf(out, "\\u%04x", character.data[character.size - 1]); /* last UTF-8 byte = code here */
}

size_t json_escape(span text, bool quoted, uint8_t *out, size_t size, size_t *taken) {
    static const uint8_t replacement[] = {0xef, 0xbf, 0xbd};
    size_t used = 0, at = 0;
    while (at < text.size) {
        char piece[8];
        size_t length = utf8_length(span_of(text.data + at, text.size - at));
        span character = length == 0 ? span_of(replacement, sizeof replacement) : span_of(text.data + at, length);
        size_t piece_length = escape_character(character, quoted, piece);
        if (piece_length > size - used) break;
        memcpy(out + used, piece, piece_length);
        used += piece_length;
        at += length == 0 ? 1 : length;
    }
    *taken = at;
    return used;
}

/* ---- Numbers. */

/* printf uses the decimal point of the process's locale; JSON requires ".". */
static size_t with_plain_point(const char *text, char *out) {
    size_t used = 0;
    bool in_point = false;
    for (; *text != '\0'; text++) {
        bool foreign = strchr("0123456789+-e", *text) == NULL;
        if (!foreign || !in_point) out[used++] = foreign ? '.' : *text;
        in_point = foreign;
    }
    out[used] = '\0';
    return used;
}

size_t json_double_text(double value, char out[JSON_DOUBLE_MAX]) {
    if (!isfinite(value)) return (size_t)sprintf(out, "null");
    char text[JSON_DOUBLE_MAX];
    for (int digits = 15; digits <= 17; digits++) { /* 17 digits always read back as the same double */
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value) break;
    }
    return with_plain_point(text, out);
}

/* ---- Structure. */

json json_of(buffer *out) { return (json){.out = out}; }

static void put(json *json, const void *bytes, size_t size) {
    if (json->status == MR_OK) json->status = buffer_append(json->out, bytes, size);
}

static void put_quoted(json *json, span text) {
    put(json, "\"", 1);
    for (size_t taken; text.size > 0; text = span_of(text.data + taken, text.size - taken)) {
        uint8_t piece[256];
        put(json, piece, json_escape(text, true, piece, sizeof piece, &taken));
    }
    put(json, "\"", 1);
}

/* Called before each value: writes the comma and asserts that a value is allowed here. */
static void before_value(json *json) {
    bool *is_followed = &json->is_followed[json->depth];
    MR_ASSERT(json->has_key == json->is_object[json->depth]);
    MR_ASSERT(json->depth > 0 || !*is_followed);
    if (*is_followed && !json->has_key) put(json, ",", 1);
    *is_followed = true;
    json->has_key = false;
}

static void begin(json *json, bool is_object) {
    before_value(json);
    MR_ASSERT(json->depth < JSON_DEPTH_MAX);
    json->depth++;
    json->is_object[json->depth] = is_object;
    json->is_followed[json->depth] = false;
    put(json, is_object ? "{" : "[", 1);
}

static void end(json *json, bool is_object) {
    MR_ASSERT(json->depth > 0 && json->is_object[json->depth] == is_object && !json->has_key);
    json->depth--;
    put(json, is_object ? "}" : "]", 1);
}

void json_object_begin(json *json) { begin(json, true); }
void json_object_end(json *json) { end(json, true); }
void json_array_begin(json *json) { begin(json, false); }
void json_array_end(json *json) { end(json, false); }

void json_key(json *json, const char *key) {
    MR_ASSERT(json->is_object[json->depth] && !json->has_key);
    if (json->is_followed[json->depth]) put(json, ",", 1);
    put_quoted(json, span_of(key, strlen(key)));
    put(json, ":", 1);
    json->has_key = true;
}

mr_status json_done(json *json) {
    MR_ASSERT(json->depth == 0 && json->is_followed[0]);
    return json->status;
}

/* ---- Values. */

void json_text(json *json, span text) {
    before_value(json);
    put_quoted(json, text);
}

void json_string(json *json, const char *text) { json_text(json, span_of(text, strlen(text))); }

static void put_plain(json *json, const char *text) {
    before_value(json);
    put(json, text, strlen(text));
}

void json_int(json *json, int64_t value) {
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)value);
    put_plain(json, text);
}

void json_uint(json *json, uint64_t value) {
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    put_plain(json, text);
}

void json_double(json *json, double value) {
    char text[JSON_DOUBLE_MAX];
    json_double_text(value, text);
    put_plain(json, text);
}

void json_bool(json *json, bool value) { put_plain(json, value ? "true" : "false"); }
void json_null(json *json) { put_plain(json, "null"); }
