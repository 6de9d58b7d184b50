/* py_interrupt.h — interruption of cancelled tasks that run: KeyboardInterrupt is raised in them.
 *
 * The runtime reports a cancellation on one of its own threads, which sends SIGINT to the thread that runs the task;
 * the signal also ends a sleep of that thread. Python's handler then asks whether the running task is cancelled
 * (py_interrupt_is_due), so a late signal, or one of another process, has no effect. A signal that arrives just before
 * the thread begins to sleep does not end that sleep, so the signal is repeated until the handler has asked. */
#pragma once
#include "python/native/py_internal.h"

void py_interrupt_begin(mr_call *call); /* with the GIL, on the thread that runs the task */
void py_interrupt_end(void);

PyObject *py_interrupt_is_due(PyObject *module, PyObject *none); /* true at most once for each task */
