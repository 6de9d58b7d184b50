/* py_public.h — functions of the package that programs call: their exceptions have no frames of the package
 * (miniray/_core_api/tracebacks.py). The traceback ends at the program's line. */
#pragma once
#include "python/native/py_internal.h"

extern PyTypeObject py_public_type;          /* PublicFunction(function): calls the function */
extern PyTypeObject py_public_iterator_type; /* what such a function that is a generator returns */
