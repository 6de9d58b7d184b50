/* env.h — environment of a module: its clock, randomness, disk and transport.
 *
 * Code that is handed an env runs unchanged on a machine and in the simulator. Modules keep a pointer to it (borrowed
 * for their whole life) and call nothing of the system directly. The coordinator and the launcher will join as further
 * operation tables. */
#pragma once
#include "base/clock.h"
#include "base/rng.h"
#include "net/disk.h"
#include "net/transport.h"

typedef struct env {
    clock_source clock;
    rng *rng;
    transport transport;
    disk disk; /* ops is NULL where the process has no place for files */
} env;
