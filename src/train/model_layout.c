/* model_layout.c — see model_layout.h. The tree is walked twice: to measure it, and to write the layout. */
#include "train/model_layout.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/binary_search.h"
#include "base/error.h"
#include "net/value.h"
#include "train/shared_model.h"

typedef struct amount { /* sizes of the layout of a tree */
    size_t tensors, args, lengths;
} amount;

enum { ALIGNED = 64 };

typedef struct slice {   /* state of the second walk */
    const uint8_t *base; /* of the half; NULL: tensors get offsets one after another, */
    size_t half;         /* and this is the end of the last one; else the bytes of the half */
    model_layout_stretch *stretches;
    const void **sources;
    mr_arg *args;
    int64_t *lengths;
    size_t count;
} slice;

static bool is_container(const mr_arg *arg) {
    return arg->kind == MR_KIND_LIST || arg->kind == MR_KIND_TUPLE || arg->kind == MR_KIND_MAP;
}

static size_t item_count(const mr_arg *arg) { return arg->items.count * (arg->kind == MR_KIND_MAP ? 2 : 1); }

static mr_status measure(const mr_arg *arg, int depth, amount *sum) {
    if (arg->received || arg->kind == MR_KIND_CUSTOM)
        return error_set(MR_INVALID, "cannot share a received %s: copy it first", mr_kind_name((mr_kind)arg->kind));
    if (arg->kind == MR_KIND_TENSOR) {
        if (arg->dims > MR_TENSOR_DIMS_MAX - SHARED_MODEL_STAND_IN_DIMS)
            return error_set(MR_INVALID, "cannot share weights: tensor %zu has %d dimensions; the limit is %d",
                             sum->tensors, arg->dims, MR_TENSOR_DIMS_MAX - SHARED_MODEL_STAND_IN_DIMS);
        sum->tensors++;
        sum->lengths += (size_t)arg->dims + SHARED_MODEL_STAND_IN_DIMS;
    }
    if (!is_container(arg)) return MR_OK;
    size_t count = item_count(arg);
    if (depth >= VALUE_DEPTH_MAX || (count > 0 && arg->items.first == NULL))
        return error_set(MR_INVALID, "cannot share weights of more than %d levels, or items at NULL", VALUE_DEPTH_MAX);
    sum->args += count;
    for (size_t i = 0; i < count; i++) MR_TRY(measure(&arg->items.first[i], depth + 1, sum));
    return MR_OK;
}

/* The size of the tensor in bytes; false: dtype or shape is invalid, or the size overflows. */
static bool bytes_of(const mr_arg *tensor, const int64_t *shape, size_t *out) {
    *out = mr_dtype_size((mr_dtype)tensor->dtype);
    bool sound = *out > 0 && (tensor->array.shape != NULL || tensor->dims <= 1);
    for (int i = 0; sound && i < tensor->dims; i++)
        sound = shape[i] >= 0 && !__builtin_mul_overflow(*out, (size_t)shape[i], out);
    return sound;
}

/* The offset of the tensor in the half; false: the tensor is not in the half. */
static bool find(const slice *slice, const void *data, size_t bytes, size_t *from) {
    *from = bytes == 0 ? 0 : (uintptr_t)data - (uintptr_t)slice->base; /* wraps if the data is before the half */
    return *from <= slice->half && bytes <= slice->half - *from;
}

/* The offset that the tensor gets; false: data is NULL, or the size overflows. */
static bool give_place(slice *slice, const void *data, size_t bytes, size_t *from) {
    if ((data == NULL && bytes > 0) || bytes > SIZE_MAX / 4 - slice->half) return false;
    *from = slice->half;
    slice->sources[slice->count] = data;
    slice->half += (bytes + ALIGNED - 1) / ALIGNED * ALIGNED;
    return true;
}

static mr_status write_tensor(slice *slice, const mr_arg *tensor, mr_arg *out) {
    const int64_t *shape = tensor->array.shape != NULL ? tensor->array.shape : &tensor->array.length;
    size_t bytes, from = 0;
    bool sound = bytes_of(tensor, shape, &bytes);
    if (sound && slice->base != NULL) sound = find(slice, tensor->array.data, bytes, &from);
    if (sound && slice->base == NULL) sound = give_place(slice, tensor->array.data, bytes, &from);
    if (!sound) return error_set(MR_INVALID, "tensor %zu is not in the memory of the shared model", slice->count);
    slice->stretches[slice->count++] = (model_layout_stretch){from, from + bytes};
    slice->lengths[0] = 0;
    slice->lengths[1] = (int64_t)from;
    if (tensor->dims > 0)
        memcpy(slice->lengths + SHARED_MODEL_STAND_IN_DIMS, shape, (size_t)tensor->dims * sizeof *shape);
    *out = mr_tensor_of((mr_dtype)tensor->dtype, NULL, tensor->dims + SHARED_MODEL_STAND_IN_DIMS, slice->lengths);
    out->tensor_kind = tensor->tensor_kind;
    slice->lengths += tensor->dims + SHARED_MODEL_STAND_IN_DIMS;
    return MR_OK;
}

static mr_status write_down(slice *slice, const mr_arg *arg, mr_arg *out) {
    if (arg->kind == MR_KIND_TENSOR) return write_tensor(slice, arg, out);
    *out = *arg;
    if (!is_container(arg)) return MR_OK;
    mr_arg *items = slice->args;
    size_t count = item_count(arg);
    slice->args += count;
    out->items.first = items;
    for (size_t i = 0; i < count; i++) MR_TRY(write_down(slice, &arg->items.first[i], &items[i]));
    return MR_OK;
}

/* Insertion sort: the tensors of most models are in the order of the tree. */
static void put_in_order(model_layout_stretch *stretches, size_t count) {
    size_t i = 1;
    while (i < count && stretches[i - 1].from <= stretches[i].from) i++;
    if (i < count) qsort(stretches, count, sizeof *stretches, binary_search_u64);
}

static mr_status draw(model_layout *layout, slice *slice, const mr_arg *weights) {
    amount sum = {0};
    MR_TRY(measure(weights, 0, &sum));
    if (sum.tensors == 0) return error_set(MR_INVALID, "no tensor in %zu shared values", sum.args + 1);
    size_t bytes = sum.tensors * (sizeof *slice->stretches + sizeof *slice->sources) + sum.args * sizeof *slice->args +
                   sum.lengths * sizeof *slice->lengths;
    MR_TRY(alloc_try(bytes, &slice->stretches));
    struct model_layout made = {.stretches = slice->stretches, .count = sum.tensors};
    slice->sources = (void *)(slice->stretches + sum.tensors);
    slice->args = (void *)(slice->sources + sum.tensors);
    slice->lengths = (void *)(slice->args + sum.args);
    if (slice->base == NULL) made.sources = slice->sources;
    mr_status status = write_down(slice, weights, &made.weights);
    if (status != MR_OK) {
        free(made.stretches);
        return status;
    }
    model_layout_fini(layout);
    *layout = made;
    return MR_OK;
}

mr_status model_layout_draw(model_layout *layout, const uint8_t *base, size_t half, const mr_arg *weights) {
    MR_TRY(draw(layout, &(slice){.base = base, .half = half}, weights));
    put_in_order(layout->stretches, layout->count);
    return MR_OK;
}

mr_status model_layout_pack(model_layout *layout, const mr_arg *weights, size_t *bytes) {
    slice slice = {0};
    MR_TRY(draw(layout, &slice, weights));
    *bytes = slice.half;
    return MR_OK;
}

void model_layout_fini(model_layout *layout) {
    free(layout->stretches);
    *layout = (struct model_layout){0};
}
