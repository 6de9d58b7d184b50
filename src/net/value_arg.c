/* value_arg.c — constructors of outgoing values (mr_int, mr_list, …). Measuring checks them. */
#include <string.h>

#include "net/value.h"

static const char *const kinds[] = {
#define X(name, number, text) [number] = text,
    MR_KIND_LIST(X)
#undef X
};

const char *mr_kind_name(mr_kind kind) {
    return (unsigned)kind < sizeof kinds / sizeof *kinds ? kinds[kind] : "unknown";
}

static const struct {
    const char *name;
    size_t size;
} dtypes[] = {
#define X(name, number, size, text) [number] = {text, size},
    MR_DTYPE_LIST(X)
#undef X
};

static bool is_dtype(mr_dtype dtype) { return (unsigned)dtype < sizeof dtypes / sizeof *dtypes; }

const char *mr_dtype_name(mr_dtype dtype) { return is_dtype(dtype) ? dtypes[dtype].name : "unknown"; }
size_t mr_dtype_size(mr_dtype dtype) { return is_dtype(dtype) ? dtypes[dtype].size : 0; }

mr_arg mr_nil(void) { return (mr_arg){.kind = MR_KIND_NIL}; }
mr_arg mr_bool(bool value) { return (mr_arg){.kind = MR_KIND_BOOL, .b = value}; }
mr_arg mr_int(int64_t value) { return (mr_arg){.kind = MR_KIND_INT, .i = value}; }
mr_arg mr_float(double value) { return (mr_arg){.kind = MR_KIND_FLOAT, .f = value}; }

/* A value made from NULL: every function that takes values refuses it. */
static mr_arg none(void) { return (mr_arg){.kind = (mr_kind)VALUE_KIND_NONE}; }

mr_arg mr_str(const char *text) { return text == NULL ? none() : mr_text(text, strlen(text)); }

mr_arg mr_text(const char *text, size_t size) { return (mr_arg){.kind = MR_KIND_STR, .bytes = {text, size}}; }
mr_arg mr_bytes(const void *data, size_t size) { return (mr_arg){.kind = MR_KIND_BYTES, .bytes = {data, size}}; }
mr_arg mr_list(const mr_arg *items, size_t count) { return (mr_arg){.kind = MR_KIND_LIST, .items = {items, count}}; }
mr_arg mr_tuple(const mr_arg *items, size_t count) { return (mr_arg){.kind = MR_KIND_TUPLE, .items = {items, count}}; }
mr_arg mr_map(const mr_arg *items, size_t count) { return (mr_arg){.kind = MR_KIND_MAP, .items = {items, count}}; }

/* A number that does not fit its field becomes one that measuring refuses. */
static uint8_t narrow(int number) { return number < 0 || number > UINT8_MAX ? UINT8_MAX : (uint8_t)number; }

static mr_arg tensor(int dtype, int tensor_kind, int dims, mr_array array) {
    return (mr_arg){.kind = MR_KIND_TENSOR,
                    .dtype = narrow(dtype),
                    .tensor_kind = narrow(tensor_kind),
                    .dims = narrow(dims),
                    .array = array};
}

mr_arg mr_tensor_of(mr_dtype dtype, const void *data, int dims, const int64_t *shape) {
    return tensor((int)dtype, MR_NUMPY, dims, (mr_array){.data = data, .shape = shape});
}

mr_arg mr_tensor_arg(const mr_tensor *from) {
    if (from == NULL) return none();
    return tensor((int)from->dtype, (int)from->tensor_kind, from->dims,
                  (mr_array){.data = from->data, .shape = from->shape});
}

mr_arg mr_vector(const float *data, size_t count) {
    int64_t length = count > INT64_MAX ? -1 : (int64_t)count;
    return tensor(MR_F32, MR_NUMPY, 1, (mr_array){.data = data, .length = length});
}

mr_arg mr_future(mr_ref ref) { return (mr_arg){.kind = MR_KIND_REF, .ref = ref}; }
mr_arg mr_handle(mr_actor actor) { return (mr_arg){.kind = MR_KIND_ACTOR, .actor = actor}; }

mr_arg mr_custom_arg(const mr_custom *custom) {
    return custom == NULL ? none() : (mr_arg){.kind = MR_KIND_CUSTOM, .custom = custom};
}

mr_arg mr_value_arg(const mr_value *value) {
    return value == NULL ? none() : (mr_arg){.kind = mr_value_kind(value), .received = true, .value = value};
}
