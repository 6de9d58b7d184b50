/* shape.h — dtype and shape of a tensor. */
#pragma once
#include <stdbool.h>

#include "miniray/value.h"

enum { SHAPE_TEXT_MAX = 256 };

const char *shape_text(const mr_tensor *tensor, char text[SHAPE_TEXT_MAX]); /* "float32[3, 4]"; returns text */
bool shape_same(const mr_tensor *a, const mr_tensor *b);
