/* runtime_main.h — the frame of a test program whose tests share one runtime: its main ends with
 *
 *     return runtime_main(tests);
 *
 * The program is its own worker, as every program is. */
#pragma once
#include <stdlib.h>

#include "miniray/runtime.h"

extern mr_context *mr; /* in the program and in its workers; two tasks run at once */

int runtime_main_serve(void); /* what a worker does, in mr_init */
int runtime_main_open(void **state);
int runtime_main_close(void **state);

#define runtime_main(tests)                                \
    (getenv("MINIRAY_BOOT") != NULL ? runtime_main_serve() \
                                    : cmocka_run_group_tests(tests, runtime_main_open, runtime_main_close))
