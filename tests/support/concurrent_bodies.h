/* concurrent_bodies.h — bodies that find out whether others run at the same time, by what they write into a folder that
 * is their argument. */
#pragma once
#include "miniray/runtime.h"

enum { CONCURRENT_PATH_MAX = 160 };

mr_status concurrent_path(mr_call *call, char out[CONCURRENT_PATH_MAX]); /* the first argument, a text */
/* Comes to the folder, and leaves, with the number of its process, when so many processes have come (second argument).
 */
mr_status concurrent_others(mr_call *call);
void concurrent_clear(const char *folder, const int64_t *processes, size_t count); /* asserts that they all came */
/* Is alone in the folder for a moment; fails if it is not. */
mr_status concurrent_nobody(mr_call *call);
