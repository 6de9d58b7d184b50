/* py_stack.h — Python stacks of this process, for `miniray why` (mr_on_describe). */
#pragma once
#include "python/native/py_internal.h"

mr_describe_fn py_stack_describe; /* takes the GIL; code that never releases the GIL is not shown */
