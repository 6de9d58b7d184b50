/* py_ps_deployment.h — PsDeployment: a parameter server whose scheduler and servers are actors (miniray/deployment.h).
 *
 * A deployment belongs to the runtime and to the process in which it was started: after the end of the runtime, or in a
 * forked child, there is nothing to end. */
#pragma once
#include "python/native/py_internal.h"

extern PyTypeObject py_ps_deployment_type;

/* (listen or None, folder or None, servers, copies, workers, slots, consistency, staleness, mixed, checkpoint in s,
 * balance in s (0: default, below: never), backup, deadline in s, (num_cpus, num_gpus, resources or None), timeout in
 * s) */
PyObject *py_ps_deployment_start(PyObject *module, PyObject *args);
