/* py_ps_deployment.c — see py_ps_deployment.h. */
#include "python/native/py_ps_deployment.h"

#include <unistd.h>

#include "miniray/deployment.h"
#include "python/native/py_ps.h"

typedef struct py_ps_deployment {
    PyObject_HEAD mr_ps_deployment *deployment; /* owned; NULL: stopped */
    uint64_t generation;                        /* generation of the runtime */
    pid_t pid;                                  /* process that started the deployment */
    unsigned servers;
    unsigned calls; /* calls under way */
} py_ps_deployment;

static int64_t micros(double seconds) { return (int64_t)(seconds * 1e6); }

PyObject *py_ps_deployment_start(PyObject *module, PyObject *args) {
    mr_actor_options server = MR_INIT(mr_actor_options);
    mr_ps_scheduler_options own = MR_INIT(mr_ps_scheduler_options), *scheduler = &own;
    mr_ps_start_options options = MR_OPTIONS(mr_ps_start_options, .scheduler = &own, .server = &server);
    double checkpoint_s, balance_s, deadline_s, timeout_s;
    int consistency;
    if (!PyArg_ParseTuple(args, "zzIIIIiIpddIdI(ddz)d", &scheduler->listen, &scheduler->checkpoint_dir,
                          &scheduler->num_servers, &scheduler->replicas, &scheduler->num_workers, &scheduler->slots,
                          &consistency, &scheduler->staleness, &scheduler->mixed_consistency, &checkpoint_s, &balance_s,
                          &scheduler->backup_workers, &deadline_s, &scheduler->readers, &server.num_cpus,
                          &server.num_gpus, &server.resources, &timeout_s) ||
        py_core_context() == NULL)
        return NULL;
    scheduler->consistency = (mr_ps_consistency)consistency;
    scheduler->checkpoint_us = micros(checkpoint_s);
    scheduler->balance_us = micros(balance_s);
    scheduler->deadline_us = micros(deadline_s);
    py_ps_deployment *self = (py_ps_deployment *)py_ps_deployment_type.tp_alloc(&py_ps_deployment_type, 0);
    if (self == NULL) return NULL;
    self->generation = core.generation;
    self->pid = getpid();
    self->servers = scheduler->num_servers;
    mr_context *mr = core.mr;
    mr_status status;
    PY_CORE_WAIT(status = mr_ps_start(mr, &options, micros(timeout_s), &self->deployment));
    if (status == MR_OK) return (PyObject *)self;
    Py_DECREF(self);
    return py_ps_raise(status);
}

/* The runtime of the deployment; NULL: that runtime has ended. */
static mr_context *runtime_of(const py_ps_deployment *self) {
    return self->generation == core.generation ? core.mr : NULL;
}

static void end(py_ps_deployment *self) {
    mr_ps_deployment *deployment = self->deployment;
    mr_context *mr = runtime_of(self);
    self->deployment = NULL;
    if (deployment == NULL || self->pid != getpid()) return; /* a fork does not end its parent's */
    PY_CORE_WAIT(mr_ps_stop(mr, deployment));
}

static PyObject *stop(PyObject *object, PyObject *none) {
    py_ps_deployment *self = (py_ps_deployment *)object;
    if (self->calls > 0)
        return PyErr_Format(PyExc_RuntimeError, "cannot stop the parameter server: %u other threads query it",
                            self->calls);
    end(self);
    Py_RETURN_NONE;
}

/* The pid of a server's process, or of the scheduler's; -1: not found. */
static int pid_of(py_ps_deployment *self, mr_context *mr, int server, int64_t timeout_us) {
    const mr_ps_deployment *deployment = self->deployment;
    mr_status status;
    int pid;
    self->calls++;
    PY_CORE_WAIT(status = mr_ps_pid(mr, deployment, server, timeout_us, &pid));
    self->calls--;
    return status == MR_OK ? pid : -1;
}

/* pids(timeout in s) → {"scheduler": pid, 0: pid of server 0, …}, of the processes that answer in time */
static PyObject *pids(PyObject *object, PyObject *args) {
    py_ps_deployment *self = (py_ps_deployment *)object;
    double timeout_s;
    if (!PyArg_ParseTuple(args, "d", &timeout_s)) return NULL;
    PyObject *dict = PyDict_New();
    for (int server = MR_PS_THE_SCHEDULER; dict != NULL && server < (int)self->servers; server++) {
        mr_context *mr = self->deployment == NULL || self->pid != getpid() ? NULL : runtime_of(self);
        int pid = mr == NULL ? -1 : pid_of(self, mr, server, micros(timeout_s));
        if (pid < 0) continue;
        PyObject *key =
            server == MR_PS_THE_SCHEDULER ? PyUnicode_FromString("scheduler") : PyLong_FromLong((long)server);
        py_core_insert(&dict, key, PyLong_FromLong(pid));
    }
    return dict;
}

static PyObject *get_address(PyObject *object, void *none) {
    return PyUnicode_FromString(mr_ps_address(((py_ps_deployment *)object)->deployment));
}

static void dealloc(PyObject *object) {
    end((py_ps_deployment *)object);
    Py_TYPE(object)->tp_free(object);
}

static PyMethodDef methods[] = {
    {"stop", stop, METH_NOARGS, "Ends the actors; a second call does nothing."},
    {"pids", pids, METH_VARARGS, "The processes that answer in time."},
    {NULL},
};

static PyGetSetDef properties[] = {
    {"address", get_address, NULL, "Address of the scheduler.", NULL},
    {NULL},
};

PyTypeObject py_ps_deployment_type = {
    PY_CORE_TYPE("miniray._core.PsDeployment", py_ps_deployment, "The actors of a parameter server, for miniray.ps."),
    .tp_dealloc = dealloc,
    .tp_methods = methods,
    .tp_getset = properties,
};
