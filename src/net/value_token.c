/* value_token.c — see value_token.h.
 *
 * The first byte of an item gives its type and the length of its header. msgpuck's own checks assert that more bytes
 * follow, which a peer controls, so bounds are checked here, and msgpuck only loads the numbers.
 * Tested by src/net/value_check_test.c. */
#include "net/value_token.h"

#include <msgpuck.h>
#include <string.h>

static const char cut_off[] = "the value ends in the middle of an item";

typedef struct cursor {
    const char *start, *at, *stop;
} cursor;

static bool has(const cursor *c, size_t size) { return (size_t)(c->stop - c->at) >= size; }

static uint32_t offset(const cursor *c) { return (uint32_t)(c->at - c->start); }

/* Loads a length of 1, 2 or 4 bytes, after has(). */
static uint32_t load_length(cursor *c, size_t width) {
    if (width == 1) return mp_load_u8(&c->at);
    if (width == 2) return mp_load_u16(&c->at);
    return mp_load_u32(&c->at);
}

static const char *scalar(cursor *c, mr_kind kind, int64_t i, value_token *out) {
    out->kind = kind;
    out->word = (uint64_t)i;
    out->next = offset(c);
    return NULL;
}

static const char *unsigned_int(cursor *c, size_t width, value_token *out) {
    if (!has(c, width)) return cut_off;
    uint64_t number = width == 8 ? mp_load_u64(&c->at) : load_length(c, width);
    if (number > INT64_MAX) return "an int above 2^63 - 1";
    return scalar(c, MR_KIND_INT, (int64_t)number, out);
}

static const char *signed_int(cursor *c, size_t width, value_token *out) {
    if (!has(c, width)) return cut_off;
    switch (width) {
    case 1: return scalar(c, MR_KIND_INT, (int8_t)mp_load_u8(&c->at), out);
    case 2: return scalar(c, MR_KIND_INT, (int16_t)mp_load_u16(&c->at), out);
    case 4: return scalar(c, MR_KIND_INT, (int32_t)mp_load_u32(&c->at), out);
    default: return scalar(c, MR_KIND_INT, (int64_t)mp_load_u64(&c->at), out);
    }
}

static const char *floating(cursor *c, size_t width, value_token *out) {
    if (!has(c, width)) return cut_off;
    out->kind = MR_KIND_FLOAT;
    double number = width == 4 ? (double)mp_load_float(&c->at) : mp_load_double(&c->at);
    memcpy(&out->word, &number, sizeof number);
    out->next = offset(c);
    return NULL;
}

static const char *payload(cursor *c, mr_kind kind, uint32_t size, value_token *out) {
    if (!has(c, size)) return cut_off;
    out->kind = kind;
    out->word = value_word(offset(c), size);
    out->next = offset(c) + size;
    return NULL;
}

static const char *long_payload(cursor *c, mr_kind kind, size_t width, value_token *out) {
    if (!has(c, width)) return cut_off;
    return payload(c, kind, load_length(c, width), out);
}

/* Every item takes at least one byte, so a short message cannot announce a billion items. */
static const char *items(cursor *c, mr_kind kind, uint32_t count, value_token *out) {
    if (!has(c, kind == MR_KIND_MAP ? 2 * (size_t)count : count)) return "a container with more items than bytes";
    out->kind = kind;
    out->word = value_word(offset(c), count);
    out->next = offset(c);
    return NULL;
}

static const char *many_items(cursor *c, mr_kind kind, size_t width, value_token *out) {
    if (!has(c, width)) return cut_off;
    return items(c, kind, load_length(c, width), out);
}

static const char *tuple(cursor *c, uint32_t size, value_token *out) {
    static const char no_array[] = "a tuple whose payload is not an array";
    cursor inner = {c->start, c->at, c->at + size};
    if (size == 0) return no_array;
    uint8_t first = mp_load_u8(&inner.at);
    const char *wrong;
    if ((first & 0xf0) == 0x90)
        wrong = items(&inner, MR_KIND_TUPLE, first & 0x0f, out);
    else if (first == 0xdc || first == 0xdd)
        wrong = many_items(&inner, MR_KIND_TUPLE, first == 0xdc ? 2 : 4, out);
    else
        return no_array;
    out->next = offset(c) + size;
    return wrong;
}

static const char *extension(cursor *c, uint32_t size, value_token *out) {
    if (!has(c, 1 + (size_t)size)) return cut_off;
    out->ext = mp_load_u8(&c->at);
    switch (out->ext) {
    case VALUE_EXT_TUPLE: return tuple(c, size, out);
    case VALUE_EXT_TENSOR:
    case VALUE_EXT_TENSOR_OUT: return payload(c, MR_KIND_TENSOR, size, out);
    case VALUE_EXT_BYTES_OUT: return payload(c, MR_KIND_BYTES, size, out);
    case VALUE_EXT_REF: return payload(c, MR_KIND_REF, size, out);
    case VALUE_EXT_ACTOR: return payload(c, MR_KIND_ACTOR, size, out);
    case VALUE_EXT_CUSTOM:
    case VALUE_EXT_CUSTOM_OUT: return payload(c, MR_KIND_CUSTOM, size, out);
    case VALUE_EXT_ERROR: return payload(c, MR_KIND_ERROR, size, out);
    default: return "an extension of an unknown code";
    }
}

static const char *long_extension(cursor *c, size_t width, value_token *out) {
    if (!has(c, width)) return cut_off;
    return extension(c, load_length(c, width), out);
}

const char *value_token_read(span bytes, uint32_t at, uint32_t end, value_token *out) {
    const char *start = (const char *)bytes.data;
    cursor c = {start, start + at, start + end};
    out->ext = VALUE_EXT_NONE;
    if (at >= end) return "the value ends where an item should begin";
    uint8_t first = mp_load_u8(&c.at);
    if (first <= 0x7f || first >= 0xe0) return scalar(&c, MR_KIND_INT, (int8_t)first, out);
    if (first <= 0x8f) return items(&c, MR_KIND_MAP, first & 0x0f, out);
    if (first <= 0x9f) return items(&c, MR_KIND_LIST, first & 0x0f, out);
    if (first <= 0xbf) return payload(&c, MR_KIND_STR, first & 0x1f, out);
    switch (first) {
    case 0xc0: return scalar(&c, MR_KIND_NIL, 0, out);
    case 0xc2: return scalar(&c, MR_KIND_BOOL, false, out);
    case 0xc3: return scalar(&c, MR_KIND_BOOL, true, out);
    case 0xc4: return long_payload(&c, MR_KIND_BYTES, 1, out);
    case 0xc5: return long_payload(&c, MR_KIND_BYTES, 2, out);
    case 0xc6: return long_payload(&c, MR_KIND_BYTES, 4, out);
    case 0xc7: return long_extension(&c, 1, out);
    case 0xc8: return long_extension(&c, 2, out);
    case 0xc9: return long_extension(&c, 4, out);
    case 0xca: return floating(&c, 4, out);
    case 0xcb: return floating(&c, 8, out);
    case 0xcc: return unsigned_int(&c, 1, out);
    case 0xcd: return unsigned_int(&c, 2, out);
    case 0xce: return unsigned_int(&c, 4, out);
    case 0xcf: return unsigned_int(&c, 8, out);
    case 0xd0: return signed_int(&c, 1, out);
    case 0xd1: return signed_int(&c, 2, out);
    case 0xd2: return signed_int(&c, 4, out);
    case 0xd3: return signed_int(&c, 8, out);
    case 0xd4: return extension(&c, 1, out);
    case 0xd5: return extension(&c, 2, out);
    case 0xd6: return extension(&c, 4, out);
    case 0xd7: return extension(&c, 8, out);
    case 0xd8: return extension(&c, 16, out);
    case 0xd9: return long_payload(&c, MR_KIND_STR, 1, out);
    case 0xda: return long_payload(&c, MR_KIND_STR, 2, out);
    case 0xdb: return long_payload(&c, MR_KIND_STR, 4, out);
    case 0xdc: return many_items(&c, MR_KIND_LIST, 2, out);
    case 0xdd: return many_items(&c, MR_KIND_LIST, 4, out);
    case 0xde: return many_items(&c, MR_KIND_MAP, 2, out);
    case 0xdf: return many_items(&c, MR_KIND_MAP, 4, out);
    default: return "byte 0xc1, which begins no item"; /* 0xc1 */
    }
}
