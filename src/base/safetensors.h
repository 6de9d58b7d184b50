/* safetensors.h — reader and writer of safetensors files: tensors by name in one file.
 *
 *   bytes    file
 *   -------  ---------------------------------------------------------------------------------------------------
 *   8        n, the size of the header
 *   n        JSON: {"__metadata__": {text: text, …},
 *                   name: {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, …}
 *   …        the tensors, row-major, little-endian, one behind the other without gaps
 *
 * Writing  Tensors and texts are collected in a list that borrows the data and written together, larger items first:
 *          each tensor is aligned to its item size, and the data begins at a multiple of 8.
 * Reading  Strict: the header is an object with these fields and no others, names are unique, sizes match shapes, and
 *          the tensors cover the data without gap or overlap, as the format requires. The result points into the bytes.
 *
 * Bounds   SAFETENSORS_HEADER_MAX bytes of a header, SAFETENSORS_COUNT_MAX tensors and as many texts.
 * Pure data. */
#pragma once
#include "base/bytes.h"

enum {
    SAFETENSORS_HEADER_MAX = 100 * 1000 * 1000, /* as other readers of the format */
    SAFETENSORS_COUNT_MAX = 1 << 20,
    SAFETENSORS_NAME_MAX = 256, /* bytes of a tensor's name or a text's key, including the NUL */
    SAFETENSORS_DIMS_MAX = 8
};

#define SAFETENSORS_DTYPES(X) \
    X(F64, 8)                 \
    X(I64, 8)                 \
    X(U64, 8)                 \
    X(F32, 4)                 \
    X(I32, 4)                 \
    X(U32, 4)                 \
    X(F16, 2)                 \
    X(BF16, 2)                \
    X(I16, 2)                 \
    X(U16, 2)                 \
    X(I8, 1)                  \
    X(U8, 1)                  \
    X(BOOL, 1)

typedef enum safetensors_dtype {
#define X(name, size) SAFETENSORS_##name,
    SAFETENSORS_DTYPES(X)
#undef X
        SAFETENSORS_DTYPE_COUNT
} safetensors_dtype;

/* Writes the bytes of a tensor, as many as its size, from `data`. */
typedef mr_status safetensors_put_fn(const void *data, const byte_sink *out);

typedef struct safetensor {
    char name[SAFETENSORS_NAME_MAX];
    safetensors_dtype dtype;
    uint32_t dims; /* 0: one item */
    uint64_t shape[SAFETENSORS_DIMS_MAX];
    span data;               /* borrowed */
    safetensors_put_fn *put; /* when writing: `data.data` is its argument; NULL: `data` are the bytes */
} safetensor;

typedef struct safetensors_text {
    char key[SAFETENSORS_NAME_MAX];
    char *value; /* owned */
} safetensors_text;

typedef struct safetensors { /* zero-initialized: empty */
    safetensor *tensors;     /* owned; sorted by name after reading, the texts by key */
    size_t count, room;
    safetensors_text *texts; /* owned, like each text */
    size_t text_count, text_room;
} safetensors;

void safetensors_fini(safetensors *list);

/* Adds a tensor of this shape, whose data is borrowed until the file is written. The size follows from the shape; the
 * name is UTF-8 without NULs, unique, and not "__metadata__". */
void safetensors_add(safetensors *list, const char *name, safetensors_dtype dtype, const uint64_t *shape, uint32_t dims,
                     const void *data);
/* Same; the data is written by a function, which need not have it in one piece of memory. */
void safetensors_add_put(safetensors *list, const char *name, safetensors_dtype dtype, const uint64_t *shape,
                         uint32_t dims, const void *data, safetensors_put_fn *put);
void safetensors_say(safetensors *list, const char *key, const char *value); /* adds a text; both are copied */

/* The whole file replaces the buffer's content. MR_TOO_LARGE: the file exceeds the buffer's limit, or the header its
 * own; MR_NOMEM. */
MR_MUST mr_status safetensors_write(const safetensors *list, buffer *out);

/* Writes the file piece by piece. MR_TOO_LARGE: nothing was written; other errors are those of the sink. */
MR_MUST mr_status safetensors_stream(const safetensors *list, const byte_sink *out);

/* The list must be empty; the tensors borrow from the bytes. MR_CORRUPT: the error names the fault. */
MR_MUST mr_status safetensors_read(span file, safetensors *out);

const safetensor *safetensors_find(const safetensors *list, const char *name); /* of a list that was read */
const char *safetensors_text_of(const safetensors *list, const char *key);     /* likewise; NULL: not found */

const char *safetensors_dtype_name(safetensors_dtype dtype);
size_t safetensors_item(safetensors_dtype dtype); /* bytes per item */
