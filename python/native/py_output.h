/* py_output.h — output of workers on its way to sys.stdout and sys.stderr of the driver.
 *
 *  py_output_print ──► kept ──► thread, started at the first line, takes the GIL ──► miniray._output.stdio.show
 *
 * The library calls py_output_print on its own thread, which must not wait for the GIL: a program that computes would
 * block all other work of the library. Waiting output beyond PY_OUTPUT_BYTES_MAX is dropped, and the number of dropped
 * bytes is printed. */
#pragma once
#include "python/native/py_internal.h"

enum { PY_OUTPUT_BYTES_MAX = 4 << 20 };

mr_print_fn py_output_print;
void py_output_end(void); /* without the GIL, after the last output: shows all output, and joins the thread */
PyObject *py_output_lost(PyObject *module, PyObject *error); /* output_lost(errno), of a worker */
void py_output_forked(void); /* in a forked process, which has no such thread: drops the waiting output */
