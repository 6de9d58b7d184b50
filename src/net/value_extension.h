/* value_extension.h — contents of the extension types of an encoded value; the layouts are in value.h.
 *
 * Each reader returns NULL, or the fault as a text. Readers never access memory outside the value and the region, even
 * if the bytes change meanwhile. */
#pragma once
#include "net/value_token.h"

enum {
    VALUE_TENSOR_FIXED = 4, /* bytes before the shape */
    VALUE_TENSOR_SLACK = 7, /* zero bytes around the data */
    VALUE_INDEX_SIZE = 4,   /* of a buffer index */
    VALUE_CUSTOM_FIXED = 9, /* bytes before the data */
    VALUE_ERROR_FIXED = 12, /* bytes before the texts of one error */
};

/* Computes the size of a tensor with this shape in bytes. */
const char *value_tensor_bytes(unsigned dtype, int dims, const int64_t *shape, size_t *out);

const char *value_extension_tensor(const value_doc *doc, const value_token *token, mr_tensor *out);
const char *value_extension_bytes(const value_doc *doc, const value_token *token, mr_span *out);    /* str too */
const char *value_extension_words(const value_doc *doc, const value_token *token, uint64_t out[2]); /* ref and actor */

/* Reads error `depth` of a chain; *count is the length of the chain. If depth is too large *out is not set. */
const char *value_extension_error(span payload, size_t depth, mr_error *out, size_t *count);

typedef struct value_buffers { /* the buffers that an item references */
    uint32_t first, count;
} value_buffers;

/* Reads a custom object. If its data is a buffer, that is the first of `named`, and out->buffer_count does not include
 * it. */
const char *value_extension_custom(const value_doc *doc, const value_token *token, mr_custom *out,
                                   value_buffers *named);

/* Performs all checks of opening for one item that is no container: the above, and that a str is UTF-8 and the bytes
 * around a tensor's data are zero. Only this function needs token->next. */
const char *value_extension_check(const value_doc *doc, const value_token *token, value_buffers *named);
