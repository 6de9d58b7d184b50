/* py_output.h — output of workers on its way to sys.stdout and sys.stderr of the driver.
 *
 *  py_output_print ──► kept ──► a thread that begins with the first line takes the GIL ──► miniray._output.stdio.show
 *
 * The library tells of it on its own thread, which must not wait for the GIL: a program that computes would hold up
 * everything else that the library does. More than PY_OUTPUT_BYTES_MAX that wait are left out, and how many is said. */
#pragma once
#include "python/native/py_internal.h"

enum { PY_OUTPUT_BYTES_MAX = 4 << 20 };

mr_print_fn py_output_print;
void py_output_end(void);    /* without the GIL, when nothing more is told: all is shown, and the thread is gone */
void py_output_forked(void); /* in a process that was forked: it has no such thread, and nothing to show */
