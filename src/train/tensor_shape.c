/* tensor_shape.c — see tensor_shape.h. */
#include "train/tensor_shape.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char *tensor_shape_text(const mr_tensor *tensor, char text[TENSOR_SHAPE_TEXT_MAX]) {
    size_t used = (size_t)snprintf(text, TENSOR_SHAPE_TEXT_MAX, "%s[", mr_dtype_name(tensor->dtype));
    int dims = tensor->dims < 0 ? 0 : tensor->dims > MR_TENSOR_DIMS_MAX ? MR_TENSOR_DIMS_MAX : tensor->dims;
    for (int i = 0; i < dims; i++)
        used += (size_t)snprintf(text + used, TENSOR_SHAPE_TEXT_MAX - used, "%s%" PRId64, i == 0 ? "" : ", ",
                                 tensor->shape[i]);
    snprintf(text + used, TENSOR_SHAPE_TEXT_MAX - used, "]");
    return text;
}

bool tensor_shape_same(const mr_tensor *a, const mr_tensor *b) {
    return a->dtype == b->dtype && a->dims == b->dims &&
           memcmp(a->shape, b->shape, (size_t)a->dims * sizeof *a->shape) == 0;
}
