/* env.h — environment of a module: its clock, randomness, disk and transport.
 *
 * Code that receives an env runs unchanged on a machine and in the simulator. Modules keep a pointer to the env,
 * borrowed for their whole life, and make no system calls of their own. */
#pragma once
#include "base/clock.h"
#include "base/rng.h"
#include "net/disk.h"
#include "net/transport.h"

typedef struct env {
    clock_source clock;
    rng *rng;
    transport transport;
    disk disk; /* ops is NULL in a process without a directory for files */
} env;
