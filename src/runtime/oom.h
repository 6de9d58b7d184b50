/* oom.h — whether the kernel has ended processes for want of memory. */
#pragma once
#include <stdint.h>

/* How often that has happened so far, as far as this process may know: in its control group, and on the machine. */
uint64_t oom_count(void);
