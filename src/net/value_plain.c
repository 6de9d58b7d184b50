/* value_plain.c — values without buffers: their bytes alone, without a parcel's header and table around them. The
 * smallest of them, nil, bool, int and float, are read and written without a document or a plan. */
#include <msgpuck.h>

#include "base/assert.h"
#include "base/error.h"
#include "net/value_token.h"

mr_status value_open_plain(value_doc *doc, span bytes, mr_value *root) {
    doc->skips = doc->few;
    doc->skip_count = 0;
    doc->skip_capacity = VALUE_SKIPS_FEW;
    doc->has_foreign = false;
    doc->release = NULL;
    doc->bytes = bytes;
    doc->region = (span){0};
    doc->table = NULL;
    doc->buffer_count = 0;
    if (bytes.size > VALUE_SIZE_MAX || (uintptr_t)bytes.data % VALUE_ALIGN != 0)
        return error_set(MR_INVALID, "a value begins at a multiple of %d in memory and has at most %u bytes",
                         VALUE_ALIGN, VALUE_SIZE_MAX);
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

bool value_read_longer(span bytes, mr_value *out) {
    value_token token;
    if (bytes.size == 0 || bytes.size > VALUE_SCALAR_MAX ||
        value_token_read(bytes, 0, (uint32_t)bytes.size, &token) != NULL || token.kind > MR_KIND_FLOAT ||
        token.next != bytes.size)
        return false;
    *out = value_view(NULL, &token, 0, false);
    return true;
}
