/* py_context.h — start and end of the runtime in this process, and calls about the runtime as a whole. The signatures
 * that users see are in miniray/_core_api/api.py, which checks the arguments. */
#pragma once
#include "python/native/py_internal.h"

extern PyMethodDef py_context_functions[]; /* functions of the module */
