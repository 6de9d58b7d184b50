/* value_inline.c — values without out-of-line buffers: their bytes alone, without a buffer table. The smallest ones,
 * nil, bool, int and float, are read and written without a document or a plan. */
#include <msgpuck.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "net/value_token.h"
#include "net/value_utf8.h"

/* Reads bytes shorter than 256 that are the whole value: a faster value_token_read. */
static bool read_short_bytes(span bytes, value_token *token) {
    if (bytes.size < 2 || bytes.data[0] != 0xc4 || bytes.size != 2 + (size_t)bytes.data[1]) return false;
    token->kind = MR_KIND_BYTES;
    token->ext = VALUE_EXT_NONE;
    token->word = value_word(2, bytes.data[1]);
    return true;
}

/* Fast path for a complete str or bytes; value_check reports the faults of all others. */
static bool read_text(const value_doc *doc, mr_value *root) {
    value_token token;
    span bytes = doc->bytes;
    if (read_short_bytes(bytes, &token)) {
        *root = value_view(doc, &token, 0, true);
        return true;
    }
    if (value_token_read(bytes, 0, (uint32_t)bytes.size, &token) != NULL || token.next != bytes.size) return false;
    if (token.kind == MR_KIND_STR) {
        if (!value_utf8_valid(value_payload(doc, token.word))) return false;
    } else if (token.kind != MR_KIND_BYTES || token.ext != VALUE_EXT_NONE) {
        return false;
    }
    *root = value_view(doc, &token, 0, true);
    return true;
}

mr_status value_open_plain(value_doc *doc, span bytes, mr_value *root) {
    value_doc_init(doc);
    doc->bytes = bytes;
    doc->region = (span){0};
    doc->table = NULL;
    doc->buffer_count = 0;
    if (bytes.size > VALUE_SIZE_MAX || (uintptr_t)bytes.data % VALUE_ALIGN != 0)
        return error_set(MR_INVALID, "a value of %zu bytes: it begins at a multiple of %d and has at most %u",
                         bytes.size, VALUE_ALIGN, VALUE_SIZE_MAX);
    if (read_text(doc, root)) return MR_OK;
    mr_status status = value_check(doc, root);
    if (status != MR_OK) value_close(doc);
    return status;
}

static size_t written(const uint8_t *start, const char *end) { return (size_t)((const uint8_t *)end - start); }

size_t value_write_scalar(const mr_arg *arg, uint8_t *out) {
    char *at = (char *)out;
    if (arg->received) return 0;
    switch (arg->kind) {
    case MR_KIND_NIL: return written(out, mp_encode_nil(at));
    case MR_KIND_BOOL: return written(out, mp_encode_bool(at, arg->b));
    case MR_KIND_FLOAT: return written(out, mp_encode_double(at, arg->f));
    case MR_KIND_INT:
        return written(out, arg->i >= 0 ? mp_encode_uint(at, (uint64_t)arg->i) : mp_encode_int(at, arg->i));
    default: return 0;
    }
}

/* Whether the argument is a valid str or bytes of less than `limit` bytes. */
static bool is_text(const mr_arg *arg, size_t limit) {
    if (arg->received || (arg->kind != MR_KIND_STR && arg->kind != MR_KIND_BYTES)) return false;
    if (arg->bytes.size >= limit || (arg->bytes.data == NULL && arg->bytes.size != 0)) return false;
    return arg->kind == MR_KIND_BYTES || value_utf8_valid(span_of(arg->bytes.data, arg->bytes.size));
}

/* The words are assembled in registers, so that copying them does not wait for byte stores. */
size_t value_write_short(const mr_arg *arg, uint64_t out[2]) {
    if (!is_text(arg, VALUE_SHORT_MAX + 1)) return 0;
    const uint8_t *data = arg->bytes.data;
    const size_t size = arg->bytes.size, head = arg->kind == MR_KIND_STR ? 1 : 2;
    uint64_t low = arg->kind == MR_KIND_STR ? 0xa0 | size : 0xc4 | size << 8, high = 0;
    for (size_t i = 0; i < size; i++) {
        size_t at = 8 * (head + i);
        if (at < 64)
            low |= (uint64_t)data[i] << at;
        else
            high |= (uint64_t)data[i] << (at - 64);
    }
    out[0] = low;
    out[1] = high;
    return head + size;
}

size_t value_write_text(const mr_arg *arg, size_t limit, uint8_t *out, size_t room) {
    if (!is_text(arg, limit < UINT32_MAX ? limit : UINT32_MAX)) return 0;
    const size_t size = arg->bytes.size;
    bool is_str = arg->kind == MR_KIND_STR;
    size_t head = is_str ? mp_sizeof_strl((uint32_t)size) : mp_sizeof_binl((uint32_t)size);
    if (room < head || room - head < size) return 0;
    char *at = is_str ? mp_encode_strl((char *)out, (uint32_t)size) : mp_encode_binl((char *)out, (uint32_t)size);
    if (size != 0) memcpy(at, arg->bytes.data, size);
    return head + size;
}

/* Whether a float, or an int of more than one byte, may begin with this byte; short texts do not. */
static bool begins_number(uint8_t first) { return first >= 0xca && first <= 0xd3; }

bool value_read_longer(span bytes, mr_value *out) {
    value_token token;
    if (bytes.size == 0 || bytes.size > VALUE_SCALAR_MAX || (bytes.size > 1 && !begins_number(bytes.data[0])) ||
        value_token_read(bytes, 0, (uint32_t)bytes.size, &token) != NULL || token.kind > MR_KIND_FLOAT ||
        token.next != bytes.size)
        return false;
    *out = value_view(NULL, &token, 0, false);
    return true;
}
