/* local.h — metadata store client for a store in the same process.
 *
 * Requests wait in a queue until the next tick, which is due at once; so `done` never comes from within a slot.
 *
 * Bounds      LOCAL_OPEN_MAX requests are open; one more ends with MR_BUSY at the next tick.
 * Ownership   the keeper is borrowed for its life; keys and values that are asked for are copied. */
#pragma once
#include "cluster/clerk.h"

enum { LOCAL_OPEN_MAX = 1024 };

typedef struct local local;

local *local_create(keeper *keeper);
void local_destroy(local *local); /* ends what is open with MR_CLOSED */

coordinator local_coordinator(local *local);
int64_t local_next_us(const local *local);
void local_tick(local *local, int64_t now_us);
