/* value_extension.h — contents of the extension types of an encoded value; the layouts are in value.h.
 *
 * Each reader returns NULL, or the fault as a text. They never look outside the value and the region, also when others
 * change the bytes meanwhile. */
#pragma once
#include "net/value_token.h"

enum {
    VALUE_TENSOR_FIXED = 4, /* bytes before the shape */
    VALUE_TENSOR_SLACK = 7, /* zero bytes around the data */
    VALUE_INDEX_SIZE = 4,   /* of a buffer's index */
    VALUE_CUSTOM_FIXED = 9, /* bytes before the data */
    VALUE_ERROR_FIXED = 12, /* bytes before the texts of one error */
};

/* The bytes of a tensor with this shape. */
const char *value_tensor_bytes(unsigned dtype, int dims, const int64_t *shape, size_t *out);

const char *value_extension_tensor(const value_doc *doc, const value_token *token, mr_tensor *out);
const char *value_extension_bytes(const value_doc *doc, const value_token *token, mr_span *out);    /* str too */
const char *value_extension_words(const value_doc *doc, const value_token *token, uint64_t out[2]); /* ref and actor */

/* Error `depth` of a chain; *count is how many there are. With depth beyond them *out is not set. */
const char *value_extension_error(span payload, size_t depth, mr_error *out, size_t *count);

typedef struct value_buffers { /* the buffers that an item names */
    uint32_t first, count;
} value_buffers;

/* The data may itself be a buffer: then it is the first of `named`, and out->buffer_count is one less. */
const char *value_extension_custom(const value_doc *doc, const value_token *token, mr_custom *out,
                                   value_buffers *named);

/* Everything that opening a document checks of one item that is no container: the above, and that a str is UTF-8 and
 * the bytes around a tensor's data are zero. The only one that needs token->next. */
const char *value_extension_check(const value_doc *doc, const value_token *token, value_buffers *named);
