/* concurrent_bodies.h — bodies that detect whether others run at the same time, by files in a folder that is their
 * argument. */
#pragma once
#include "miniray/runtime.h"

enum { CONCURRENT_PATH_MAX = 160 };

mr_status concurrent_path(mr_call *call, char out[CONCURRENT_PATH_MAX]); /* the first argument, a text */
/* Writes its process id to the folder, and returns when as many processes as argument 1 have done so. */
mr_status concurrent_others(mr_call *call);
/* Asserts that all these processes wrote, and removes their files. */
void concurrent_clear(const char *folder, const int64_t *processes, size_t count);
/* Occupies the folder for a moment; fails if another body is there. */
mr_status concurrent_nobody(mr_call *call);
