/* value_extension.c — see value_extension.h. Tested by src/net/value_buffers_test.c. */
#include "net/value_extension.h"

#include <string.h>

#include "net/value_utf8.h"

static uint32_t load_u32(const uint8_t *at) {
    uint32_t number;
    memcpy(&number, at, sizeof number);
    return number;
}

const char *value_tensor_bytes(unsigned dtype, int dims, const int64_t *shape, size_t *out) {
    size_t bytes = mr_dtype_size((mr_dtype)dtype);
    if (bytes == 0) return "a tensor of an unknown dtype";
    if (dims < 0 || dims > MR_TENSOR_DIMS_MAX) return "a tensor of more than 8 dimensions";
    bool empty = false;
    for (int i = 0; i < dims; i++) {
        if (shape[i] < 0) return "a tensor with a negative dimension";
        /* A dimension of 0 does not exempt the others: a reader multiplies them in its own order. */
        if (shape[i] == 0)
            empty = true;
        else if (__builtin_mul_overflow(bytes, (uint64_t)shape[i], &bytes) || bytes > INT64_MAX)
            return "a tensor of more than 2^63 bytes";
    }
    *out = empty ? 0 : bytes;
    return NULL;
}

static const char missing_buffer[] = "a buffer index past the last buffer";

const char *value_extension_tensor(const value_doc *doc, const value_token *token, mr_tensor *out) {
    static const char wrong_size[] = "a tensor whose payload does not have its shape's size";
    const uint8_t *payload = doc->bytes.data + value_start(token->word);
    const size_t size = value_size(token->word);
    const bool is_out = token->ext == VALUE_EXT_TENSOR_OUT;
    if (size < VALUE_TENSOR_FIXED) return wrong_size;
    *out = (mr_tensor){.dtype = payload[0], .tensor_kind = payload[1], .dims = payload[2]};
    if (out->tensor_kind > MR_NUMPY_WRITABLE) return "a tensor of an unknown kind";
    if (payload[3] != 0) return "a tensor whose reserved byte is not zero";
    if (out->dims > MR_TENSOR_DIMS_MAX) return "a tensor of more than 8 dimensions";
    const size_t fixed = VALUE_TENSOR_FIXED + 8 * (size_t)out->dims;
    if (size < fixed + (is_out ? VALUE_INDEX_SIZE : VALUE_TENSOR_SLACK)) return wrong_size;
    memcpy(out->shape, payload + VALUE_TENSOR_FIXED, 8 * (size_t)out->dims);
    const char *wrong = value_tensor_bytes(out->dtype, out->dims, out->shape, &out->bytes);
    if (wrong != NULL) return wrong;
    if (is_out) {
        mr_span buffer;
        if (size != fixed + VALUE_INDEX_SIZE) return wrong_size;
        if (!value_doc_buffer(doc, load_u32(payload + fixed), &buffer)) return missing_buffer;
        if (buffer.size != out->bytes) return "a tensor whose buffer does not have its shape's size";
        out->data = buffer.data;
        return NULL;
    }
    if (size - fixed - VALUE_TENSOR_SLACK != out->bytes) return wrong_size;
    size_t offset = value_start(token->word) + fixed;
    out->data = payload + fixed + (-offset & (VALUE_ALIGN - 1));
    return NULL;
}

const char *value_extension_bytes(const value_doc *doc, const value_token *token, mr_span *out) {
    const uint8_t *payload = doc->bytes.data + value_start(token->word);
    if (token->ext == VALUE_EXT_NONE) {
        *out = (mr_span){payload, value_size(token->word)};
        return NULL;
    }
    if (value_size(token->word) != VALUE_INDEX_SIZE) return "bytes whose payload is not a buffer's index";
    return value_doc_buffer(doc, load_u32(payload), out) ? NULL : missing_buffer;
}

const char *value_extension_words(const value_doc *doc, const value_token *token, uint64_t out[2]) {
    if (value_size(token->word) != VALUE_REF_SIZE) return "a ref or an actor that is not 16 bytes";
    memcpy(out, doc->bytes.data + value_start(token->word), VALUE_REF_SIZE);
    return NULL;
}

const char *value_extension_custom(const value_doc *doc, const value_token *token, mr_custom *out,
                                   value_buffers *named) {
    const uint8_t *payload = doc->bytes.data + value_start(token->word);
    const size_t size = value_size(token->word);
    const bool is_out = token->ext == VALUE_EXT_CUSTOM_OUT;
    if (is_out ? size != VALUE_CUSTOM_FIXED : size < VALUE_CUSTOM_FIXED) return "a custom object of the wrong size";
    if (payload[0] == 0) return "a custom object without a format";
    uint32_t first = load_u32(payload + 1), count = load_u32(payload + 5);
    uint64_t total = (uint64_t)count + is_out;
    if (total > doc->buffer_count || first > doc->buffer_count - total) return missing_buffer;
    *named = (value_buffers){first, (uint32_t)total};
    *out = (mr_custom){.format = payload[0], .buffer_count = count};
    if (!is_out)
        out->data = (mr_span){payload + VALUE_CUSTOM_FIXED, size - VALUE_CUSTOM_FIXED};
    else if (!value_doc_buffer(doc, first, &out->data))
        return missing_buffer;
    return NULL;
}

const char *value_extension_error(span payload, size_t depth, mr_error *out, size_t *count) {
    const uint8_t *at = payload.data;
    size_t left = payload.size;
    for (*count = 0; left > 0; ++*count) {
        if (*count == VALUE_ERRORS_MAX) return "an error with more causes than the limit";
        if (left < VALUE_ERROR_FIXED) return "an error whose header is cut off";
        uint32_t code = load_u32(at), message = load_u32(at + 4), origin = load_u32(at + 8);
        left -= VALUE_ERROR_FIXED;
        at += VALUE_ERROR_FIXED;
        if (code == MR_OK || message > left || origin > left - message) return "an error with code 0 or long texts";
        if (*count == depth) *out = (mr_error){(mr_status)code, {at, message}, {at + message, origin}};
        at += (size_t)message + origin;
        left -= (size_t)message + origin;
    }
    return *count == 0 ? "an error without a code" : NULL;
}

static const char *check_error(const value_doc *doc, const value_token *token) {
    mr_error first;
    size_t count;
    return value_extension_error(value_payload(doc, token->word), 0, &first, &count);
}

static bool all_zero(const uint8_t *at, size_t size) {
    uint8_t any = 0;
    for (size_t i = 0; i < size; i++) any |= at[i];
    return any == 0;
}

static const char *check_tensor(const value_doc *doc, const value_token *token, value_buffers *named) {
    mr_tensor tensor;
    const char *wrong = value_extension_tensor(doc, token, &tensor);
    if (wrong != NULL) return wrong;
    const uint8_t *end = doc->bytes.data + token->next;
    if (token->ext == VALUE_EXT_TENSOR_OUT) {
        *named = (value_buffers){load_u32(end - VALUE_INDEX_SIZE), 1};
        return NULL;
    }
    const uint8_t *data = tensor.data, *behind = data + tensor.bytes;
    const size_t after = (size_t)(end - behind), before = VALUE_TENSOR_SLACK - after;
    return all_zero(data - before, before) && all_zero(behind, after) ? NULL : "a tensor whose padding is not zero";
}

const char *value_extension_check(const value_doc *doc, const value_token *token, value_buffers *named) {
    mr_span bytes;
    mr_custom custom;
    uint64_t words[2];
    *named = (value_buffers){0, 0};
    switch (token->kind) {
    case MR_KIND_STR: return value_utf8_valid(value_payload(doc, token->word)) ? NULL : "a str that is not UTF-8";
    case MR_KIND_BYTES: {
        const char *wrong = value_extension_bytes(doc, token, &bytes);
        if (wrong == NULL && token->ext != VALUE_EXT_NONE)
            *named = (value_buffers){load_u32(doc->bytes.data + value_start(token->word)), 1};
        return wrong;
    }
    case MR_KIND_TENSOR: return check_tensor(doc, token, named);
    case MR_KIND_REF:
    case MR_KIND_ACTOR: return value_extension_words(doc, token, words);
    case MR_KIND_CUSTOM: return value_extension_custom(doc, token, &custom, named);
    case MR_KIND_ERROR: return check_error(doc, token);
    default: return NULL;
    }
}
