/* py_interrupt.h — interruption of cancelled tasks that run: KeyboardInterrupt is raised in them.
 *
 * The runtime tells on a thread of its own; that sends SIGINT to the thread that runs the task, which also ends what it
 * sleeps in. Python's handler then asks whether it is the task at hand that is meant (py_interrupt_is_due): one that
 * was too late, or that another process sent, changes nothing. A signal that comes just before the thread begins to
 * sleep does not end that sleep: so it is sent again until the handler has asked. */
#pragma once
#include "python/native/py_internal.h"

void py_interrupt_begin(mr_call *call); /* with the GIL, in the thread that runs it */
void py_interrupt_end(void);

PyObject *py_interrupt_is_due(PyObject *module, PyObject *none); /* at most once for each task */
