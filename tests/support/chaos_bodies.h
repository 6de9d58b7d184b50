/* chaos_bodies.h — what workers do under the load of chaos_load.h: tasks, and an actor that sees that calls come in
 * order. Whoever calls something of this file is linked with them. */
#pragma once
#include "miniray/runtime.h"

enum { CHAOS_LARGE_MIN = 20 * 1000 }; /* floats: more than fits a message */

float *chaos_filled(float start, size_t count); /* what large values have in them; the caller's. NULL: no memory */
