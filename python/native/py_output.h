/* py_output.h — output of workers on its way to sys.stdout and sys.stderr of the driver.
 *
 *  py_output_print ──► kept ──► a thread that begins with the first line takes the GIL ──► miniray._output.stdio.show
 *
 * The library calls py_output_print on its own thread, which must not wait for the GIL: a program that computes would
 * block everything else that the library does. Waiting output beyond PY_OUTPUT_BYTES_MAX is dropped, and the number of
 * dropped bytes is printed. */
#pragma once
#include "python/native/py_internal.h"

enum { PY_OUTPUT_BYTES_MAX = 4 << 20 };

mr_print_fn py_output_print;
void py_output_end(void);    /* without the GIL, after the last output: all is shown, and the thread has ended */
void py_output_forked(void); /* in a forked process: it has no such thread, and no output */
