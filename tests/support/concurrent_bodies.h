/* concurrent_bodies.h — bodies that detect whether others run at the same time, by files in a folder that is their
 * argument. */
#pragma once
#include "miniray/runtime.h"

enum { CONCURRENT_PATH_MAX = 160 };

mr_status concurrent_path(mr_call *call, char out[CONCURRENT_PATH_MAX]); /* the first argument, a text */
/* Writes its process id to the folder, and returns when as many processes as the second argument says have done so. */
mr_status concurrent_others(mr_call *call);
void concurrent_clear(const char *folder, const int64_t *processes, size_t count); /* asserts that all wrote */
/* Occupies the folder alone for a moment; fails if another body is there. */
mr_status concurrent_nobody(mr_call *call);
