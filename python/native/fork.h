/* fork.h — a Python worker is a copy of a warm interpreter: what Python wants to have done around the copying. */
#pragma once
#include "python/native/core.h"

/* For mr_options.fork; used by a thread that is in mr_init, with core.serving as its state. */
const mr_fork *fork_of_workers(void);
