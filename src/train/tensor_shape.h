/* tensor_shape.h — dtype and shape of a tensor. */
#pragma once
#include <stdbool.h>

#include "miniray/value.h"

enum { TENSOR_SHAPE_TEXT_MAX = 256 };

/* Writes a text such as "float32[3, 4]"; returns `text`. */
const char *tensor_shape_text(const mr_tensor *tensor, char text[TENSOR_SHAPE_TEXT_MAX]);
bool tensor_shape_same(const mr_tensor *a, const mr_tensor *b);
