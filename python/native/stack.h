/* stack.h — where the Python code of this process is, for who asks why it does not end (mr_on_describe). */
#pragma once
#include "python/native/core.h"

mr_describe_fn stack_describe; /* takes the GIL: code that never gives it up is not seen */
