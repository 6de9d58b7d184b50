/* py_fork.h — fork hooks of Python workers, which are copies of a warm interpreter. */
#pragma once
#include "python/native/py_internal.h"

/* For mr_options.fork; the calling thread is in mr_init, and core.serving is its thread state. */
const mr_fork *py_fork_of_workers(void);
