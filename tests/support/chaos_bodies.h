/* chaos_bodies.h — bodies for workers under the load of chaos_load.h: tasks, and an actor that checks the order of
 * calls. A program that calls a function of this file is linked with all of them. */
#pragma once
#include "miniray/runtime.h"

enum { CHAOS_LARGE_MIN = 20 * 1000 }; /* floats: too large for a message */

float *chaos_filled(float start, size_t count); /* content of large values; the caller frees it. NULL: no memory */
