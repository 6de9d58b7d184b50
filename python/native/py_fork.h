/* py_fork.h — fork hooks of Python workers, which are copies of a warm interpreter. */
#pragma once
#include "python/native/py_internal.h"

/* For mr_options.fork; used by a thread that is in mr_init, with core.serving as its state. */
const mr_fork *py_fork_of_workers(void);
