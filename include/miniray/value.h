/* miniray/value.h — the data that tasks and actors exchange, in every language.
 *
 * Kinds: nil, bool, int, float, str, bytes, list, tuple, map, tensor, object reference, actor handle, error (why a task
 * failed, with its causes), and custom: an object of another language, which can be passed on but not read.
 *
 * An argument (mr_arg) is a tree that is built on the stack. It copies nothing: the memory that it points to is
 * borrowed until the call that takes the argument returns.
 *
 *     mr_arg options[] = {mr_str("lr"), mr_float(0.5), mr_str("steps"), mr_int(100)};
 *     mr_call_task(mr, "train", &ref, mr_vector(data, count), mr_map(options, 2));
 *
 * A received value (mr_value) is a view: reading it copies nothing, and the view is borrowed until mr_value_release.
 * The bytes were checked as a whole before the view was given out.
 *
 * An int has 64 bits with sign. An unsigned number above INT64_MAX goes into a tensor of u64; a larger int of Python is
 * a custom object. A float has 64 bits and arrives with the same bits.
 *
 * The keys of a map are nil, bool, int, float, str, bytes, or a tuple of these. A map keeps its order. Duplicate keys
 * are not checked for: the first one counts. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "miniray/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* X(name, number, bytes of one item, text). Messages contain these numbers: none is ever used for another dtype. */
#define MR_DTYPE_LIST(X)       \
    X(BOOL, 0, 1, "bool")      \
    X(I8, 1, 1, "int8")        \
    X(I16, 2, 2, "int16")      \
    X(I32, 3, 4, "int32")      \
    X(I64, 4, 8, "int64")      \
    X(U8, 5, 1, "uint8")       \
    X(U16, 6, 2, "uint16")     \
    X(U32, 7, 4, "uint32")     \
    X(U64, 8, 8, "uint64")     \
    X(F16, 9, 2, "float16")    \
    X(BF16, 10, 2, "bfloat16") \
    X(F32, 11, 4, "float32")   \
    X(F64, 12, 8, "float64")

typedef enum mr_dtype {
#define X(name, number, size, text) MR_##name = (number),
    MR_DTYPE_LIST(X)
#undef X
} mr_dtype;

/* The type that a tensor has in Python. A large array of NumPy is read-only there, as in Ray. MR_NUMPY_WRITABLE and
 * MR_TORCH may be written; only the process that writes sees the change. */
typedef enum mr_tensor_kind { MR_NUMPY = 0, MR_TORCH = 1, MR_NUMPY_WRITABLE = 2 } mr_tensor_kind;

enum { MR_TENSOR_DIMS_MAX = 8 };

typedef struct mr_tensor { /* row-major, without gaps */
    mr_dtype dtype;
    mr_tensor_kind tensor_kind;
    int dims; /* 0: one item */
    int64_t shape[MR_TENSOR_DIMS_MAX];
    const void *data; /* of a received tensor: aligned to the item's size, to 64 bytes if the tensor is large */
    size_t bytes;
} mr_tensor;

typedef struct mr_ref { /* a future: the name of an object that exists or will exist */
    uint64_t word[2];
} mr_ref;

typedef struct mr_actor { /* a handle: may be copied, stored and passed on */
    uint64_t word[2];
} mr_actor;

typedef struct mr_placement_group { /* the name of a placement group (miniray/placement.h); zero: none */
    uint64_t word[2];
} mr_placement_group;

typedef struct mr_span { /* borrowed bytes */
    const void *data;
    size_t size;
} mr_span;

typedef struct mr_custom { /* an object of another language */
    int format;            /* 1…255 */
    mr_span data;
    const mr_span *buffers; /* out-of-band data; NULL in a received value: mr_value_buffer reads them */
    size_t buffer_count;
} mr_custom;

enum { MR_PICKLE = 1 }; /* a format: Python's pickle, protocol 5, with out-of-band buffers */

#define MR_KIND_LIST(X)     \
    X(NIL, 0, "nil")        \
    X(BOOL, 1, "bool")      \
    X(INT, 2, "int")        \
    X(FLOAT, 3, "float")    \
    X(STR, 4, "str")        \
    X(BYTES, 5, "bytes")    \
    X(LIST, 6, "list")      \
    X(TUPLE, 7, "tuple")    \
    X(MAP, 8, "map")        \
    X(TENSOR, 9, "tensor")  \
    X(REF, 10, "ref")       \
    X(ACTOR, 11, "actor")   \
    X(CUSTOM, 12, "custom") \
    X(ERROR, 13, "error")

typedef enum mr_kind {
#define X(name, number, text) MR_KIND_##name = (number),
    MR_KIND_LIST(X)
#undef X
} mr_kind;

MR_API const char *mr_kind_name(mr_kind kind);    /* static: "tensor"; "unknown" for any other number */
MR_API const char *mr_dtype_name(mr_dtype dtype); /* static: "float32"; "unknown" */
MR_API size_t mr_dtype_size(mr_dtype dtype);      /* bytes of one item; 0 for any other number */

/* ---- Received values. A zeroed mr_value is nil. */

typedef struct mr_value {
    uint64_t word[3];
} mr_value;

MR_API mr_kind mr_value_kind(const mr_value *value);

/* MR_INVALID: the value has another kind, which the error names. */
MR_API MR_MUST mr_status mr_value_bool(const mr_value *value, bool *out);
MR_API MR_MUST mr_status mr_value_int(const mr_value *value, int64_t *out);
MR_API MR_MUST mr_status mr_value_float(const mr_value *value, double *out); /* also an int that is exact as a float */
MR_API MR_MUST mr_status mr_value_str(const mr_value *value, mr_span *out);  /* UTF-8, without a terminating zero */
MR_API MR_MUST mr_status mr_value_bytes(const mr_value *value, mr_span *out);
MR_API MR_MUST mr_status mr_value_tensor(const mr_value *value, mr_tensor *out);
MR_API MR_MUST mr_status mr_value_ref(const mr_value *value, mr_ref *out);
MR_API MR_MUST mr_status mr_value_actor(const mr_value *value, mr_actor *out);
MR_API MR_MUST mr_status mr_value_custom(const mr_value *value, mr_custom *out);
MR_API MR_MUST mr_status mr_value_buffer(const mr_value *custom, size_t index, mr_span *out);

typedef struct mr_error { /* borrowed from the value */
    mr_status code;
    mr_span message, origin; /* "division by zero", "task 'divide' in worker process 4711" */
} mr_error;

/* Reads an error: the error itself (depth 0), its cause (1), the cause of that cause (2), … MR_NOT_FOUND: the chain of
 * causes ends before that depth. */
MR_API MR_MUST mr_status mr_value_error(const mr_value *value, size_t depth, mr_error *out);

/* Items of lists, tuples and maps; other kinds have none. mr_iter_next takes constant time; the time of mr_value_item
 * and mr_value_field grows with the position of the item. */
MR_API size_t mr_value_count(const mr_value *value);                                          /* of a map: pairs */
MR_API MR_MUST mr_status mr_value_item(const mr_value *value, size_t index, mr_value *out);   /* list and tuple */
MR_API MR_MUST mr_status mr_value_field(const mr_value *map, const char *key, mr_value *out); /* MR_NOT_FOUND */

typedef struct mr_iter {
    uint64_t word[3];
} mr_iter;

/* The iterator is valid as long as the value. A map gives key, value, key, value.
 *
 *     mr_iter iter = mr_value_iter(&list);
 *     for (mr_value item; mr_iter_next(&iter, &item);) …
 */
MR_API mr_iter mr_value_iter(const mr_value *value);
MR_API bool mr_iter_next(mr_iter *iter, mr_value *out); /* false at the end: *out is nil */

MR_API void mr_value_release(mr_value *value); /* ends all views into the value; *value is nil after */

/* ---- Arguments. */

typedef struct mr_items {
    const struct mr_arg *first; /* of a map: key, value, key, value */
    size_t count;               /* of a map: its pairs */
} mr_items;

typedef struct mr_array {
    const void *data;
    const int64_t *shape; /* NULL: {length} */
    int64_t length;
} mr_array;

typedef struct mr_arg { /* made by the functions below */
    mr_kind kind;
    uint8_t dtype, tensor_kind, dims; /* of a tensor */
    bool received;                    /* `value` is set, whatever the kind */
    union {
        bool b;
        int64_t i;
        double f;
        mr_span bytes; /* str and bytes */
        mr_items items;
        mr_array array; /* tensor */
        mr_ref ref;
        mr_actor actor;
        const mr_custom *custom;
        const mr_value *value;
    };
} mr_arg;

MR_API mr_arg mr_nil(void);
MR_API mr_arg mr_bool(bool value);
MR_API mr_arg mr_int(int64_t value);
MR_API mr_arg mr_float(double value);
MR_API mr_arg mr_str(const char *text); /* UTF-8, zero-terminated */
MR_API mr_arg mr_text(const char *text, size_t size);
MR_API mr_arg mr_bytes(const void *data, size_t size);
MR_API mr_arg mr_list(const mr_arg *items, size_t count);
MR_API mr_arg mr_tuple(const mr_arg *items, size_t count);
MR_API mr_arg mr_map(const mr_arg *items, size_t count); /* `count` pairs: key, value, key, value */
MR_API mr_arg mr_tensor_of(mr_dtype dtype, const void *data, int dims, const int64_t *shape);
MR_API mr_arg mr_tensor_arg(const mr_tensor *tensor);     /* with its kind; `bytes` is ignored */
MR_API mr_arg mr_vector(const float *data, size_t count); /* a one-dimensional tensor of float32 */
MR_API mr_arg mr_future(mr_ref ref);                      /* the task starts when the value exists, and receives it */
MR_API mr_arg mr_handle(mr_actor actor);
MR_API mr_arg mr_custom_arg(const mr_custom *custom);
MR_API mr_arg mr_value_arg(const mr_value *value); /* passes a received value of any kind on */

#ifdef __cplusplus
}
#endif
