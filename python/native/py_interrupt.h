/* py_interrupt.h — interruption of cancelled tasks that run: KeyboardInterrupt is raised in them.
 *
 * The runtime reports a cancellation on a thread of its own, which sends SIGINT to the thread that runs the task; the
 * signal also ends a sleep of that thread. Python's handler then asks whether the running task is cancelled
 * (py_interrupt_is_due): a late signal, or one of another process, changes nothing. A signal that comes just before the
 * thread begins to sleep does not end that sleep: so the signal is repeated until the handler has asked. */
#pragma once
#include "python/native/py_internal.h"

void py_interrupt_begin(mr_call *call); /* with the GIL, in the thread that runs it */
void py_interrupt_end(void);

PyObject *py_interrupt_is_due(PyObject *module, PyObject *none); /* at most once for each task */
