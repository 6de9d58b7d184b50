/* runtime_main.h — main function of a test program whose tests share one runtime: its main ends with
 *
 *     return runtime_main(tests);
 *     return runtime_main_with(tests, .num_workers = 3);      if two workers and 64 MB are not enough
 *
 * The workers run the same program. */
#pragma once
#include <stdlib.h>

#include "miniray/runtime.h"

extern mr_context *mr; /* set in the driver and in its workers */

int runtime_main_serve(void); /* runs a worker, which stays in mr_init */
void runtime_main_want(const mr_options *options);
int runtime_main_open(void **state); /* opens the runtime with the given options */
int runtime_main_close(void **state);

#define runtime_main_with(tests, ...)                                                           \
    (getenv("MINIRAY_BOOT") != NULL ? runtime_main_serve()                                      \
                                    : (runtime_main_want(&MR_OPTIONS(mr_options, __VA_ARGS__)), \
                                       cmocka_run_group_tests(tests, runtime_main_open, runtime_main_close)))

#define runtime_main(tests) runtime_main_with(tests, .num_workers = 2, .store_bytes = 64u << 20)
