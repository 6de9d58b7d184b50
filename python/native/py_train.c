/* py_train.c — see py_train.h: trainers. */
#include "python/native/py_train.h"

#include "miniray/train.h"
#include "python/native/py_decode.h"
#include "python/native/py_ref.h"
#include "python/native/py_wait.h"

typedef struct trainer {
    PyObject_HEAD mr_trainer *trainer; /* owned */
    PyObject *owner;                   /* owned */
    uint64_t generation;
    size_t workers;
    mr_trainer_ops ops;
    PyObject *error[3]; /* owned: exception raised by a method of the owner; NULL: none */
} trainer;

/* ---- Calls from the library to the owner. The calling thread has released the GIL. */

static mr_status stop(trainer *self) {
    PyErr_Fetch(&self->error[0], &self->error[1], &self->error[2]);
    return MR_CANCELLED;
}

/* Gives the library its own reference from the result of a method, which is moved. */
static mr_status take_ref(trainer *self, PyObject *given, mr_ref *out) {
    mr_status status = MR_END;
    if (given == NULL) return stop(self);
    if (given != Py_None) {
        status = MR_CANCELLED;
        if (!py_ref_check(given))
            PyErr_Format(PyExc_TypeError, "a call of a worker must return an ObjectRef, not %s",
                         Py_TYPE(given)->tp_name);
        else if (py_ref_usable(given))
            status = mr_retain(core.mr, *out = ((struct py_ref *)given)->ref);
        if (PyErr_Occurred()) status = stop(self);
    }
    Py_DECREF(given);
    return status;
}

static mr_status call_worker(void *user, const char *method, size_t worker, mr_ref *out) {
    trainer *self = user;
    PyGILState_STATE gil = PyGILState_Ensure();
    mr_status status = take_ref(self, PyObject_CallMethod(self->owner, method, "n", (Py_ssize_t)worker), out);
    PyGILState_Release(gil);
    return status;
}

static mr_status do_load(void *user, size_t worker, mr_ref *out) { return call_worker(user, "load", worker, out); }
static mr_status do_alive(void *user, size_t worker, mr_ref *out) { return call_worker(user, "alive", worker, out); }
static mr_status do_restore(void *user, size_t worker, mr_ref *out) {
    return call_worker(user, "restore", worker, out);
}
static mr_status do_gather(void *user, size_t worker, mr_ref *out) { return call_worker(user, "gather", worker, out); }

static PyObject *ref_of(const void *item) {
    const mr_ref *weights = item;
    mr_status status = mr_retain(core.mr, *weights);
    return status == MR_OK ? py_ref_new(*weights) : py_core_raise(status);
}

static mr_status do_sync(void *user, const mr_ref *weights, mr_ref *out) {
    trainer *self = user;
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *list =
        weights == NULL ? Py_NewRef(Py_None) : py_core_list(weights, self->workers, sizeof *weights, ref_of);
    PyObject *given = list == NULL ? NULL : PyObject_CallMethod(self->owner, "sync", "O", list);
    mr_status status = take_ref(self, given, out);
    Py_XDECREF(list);
    PyGILState_Release(gil);
    return status;
}

static mr_status do_create(void *user, size_t worker) {
    trainer *self = user;
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *done = PyObject_CallMethod(self->owner, "create", "n", (Py_ssize_t)worker);
    mr_status status = done == NULL ? stop(self) : MR_OK;
    Py_XDECREF(done);
    PyGILState_Release(gil);
    return status;
}

static mr_status do_train(void *user, size_t worker, int64_t epoch, mr_ref *out) {
    trainer *self = user;
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *given = PyObject_CallMethod(self->owner, "train", "nL", (Py_ssize_t)worker, (long long)epoch);
    mr_status status = take_ref(self, given, out);
    PyGILState_Release(gil);
    return status;
}

/* Reads values that only Python can decode; reports that a worker returned nothing. */
static mr_status do_read(void *user, mr_value *result) {
    trainer *self = user;
    PyGILState_STATE gil = PyGILState_Ensure();
    if (mr_value_kind(result) == MR_KIND_NIL) { /* stays what it is */
        PyObject *told = PyObject_CallMethod(self->owner, "returned_nothing", NULL);
        mr_status status = told == NULL ? stop(self) : MR_OK;
        Py_XDECREF(told);
        PyGILState_Release(gil);
        return status;
    }
    PyObject *object = py_decode_borrowed(result);
    mr_value read;
    mr_status status = object != NULL && py_train_value(object, &read) ? MR_OK : stop(self);
    if (status == MR_OK) {
        mr_value_release(result);
        *result = read;
    }
    Py_XDECREF(object);
    PyGILState_Release(gil);
    return status;
}

static bool do_poll(void *user, size_t done) {
    trainer *self = user;
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *said = PyErr_CheckSignals() != 0 || self->generation != core.generation
                         ? NULL
                         : PyObject_CallMethod(self->owner, "poll", "n", (Py_ssize_t)done);
    bool goes_on = said != NULL && PyObject_IsTrue(said) == 1;
    Py_XDECREF(said);
    if (PyErr_Occurred()) goes_on = stop(self) == MR_OK;
    PyGILState_Release(gil);
    return goes_on;
}

/* ---- Calls from Python to the library. */

static bool usable(const trainer *self) {
    if (core.mr != NULL && self->generation == core.generation) return true;
    return PyErr_Format(PyExc_RuntimeError,
                        "miniray was shut down while this trainer existed: create another trainer") != NULL;
}

/* Raises the error of a failure: the exception of the owner, the error of a worker, or the library's error. */
static PyObject *raise(trainer *self, mr_status status) {
    size_t worker;
    mr_ref failed;
    if (self->error[0] != NULL) {
        PyErr_Restore(self->error[0], self->error[1], self->error[2]);
        self->error[0] = self->error[1] = self->error[2] = NULL;
        return NULL;
    }
    if (!usable(self)) return NULL;
    bool died = status == MR_ACTOR_DIED || status == MR_WORKER_DIED || status == MR_PEER_DIED;
    if (died || mr_trainer_failed(self->trainer, &worker, &failed) != MR_OK) return py_core_raise(status);
    mr_value value;
    status = mr_get(core.mr, failed, 0, &value); /* the error text of this call is now the last one */
    return status == MR_OK ? py_decode_owned(&value) : py_wait_raise(core.mr, failed, status);
}

static PyObject *trainer_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    PyObject *owner;
    Py_ssize_t workers;
    long long interval;
    int max_failures, syncs;
    if (!PyArg_ParseTuple(args, "OnLip", &owner, &workers, &interval, &max_failures, &syncs) ||
        py_core_context() == NULL)
        return NULL;
    trainer *self = (trainer *)type->tp_alloc(type, 0);
    if (self == NULL) return NULL;
    self->owner = Py_NewRef(owner);
    self->generation = core.generation;
    self->workers = workers < 0 ? 0 : (size_t)workers;
    self->ops = (mr_trainer_ops){.size = sizeof self->ops,
                                 .create = do_create,
                                 .load = do_load,
                                 .train = do_train,
                                 .alive = do_alive,
                                 .gather = syncs ? do_gather : NULL,
                                 .sync = syncs ? do_sync : NULL,
                                 .restore = syncs ? do_restore : NULL,
                                 .read = do_read};
    mr_trainer_options options =
        MR_OPTIONS(mr_trainer_options, .num_workers = self->workers, .sync_interval = interval,
                   .max_failures = max_failures, .poll = do_poll, .user = self, .ops = &self->ops);
    mr_status status = mr_trainer_create(core.mr, &options, &self->trainer);
    if (status == MR_OK) return (PyObject *)self;
    Py_DECREF(self);
    return py_core_raise(status);
}

static void trainer_dealloc(PyObject *object) {
    trainer *self = (trainer *)object;
    if (self->trainer != NULL && (core.mr == NULL || self->generation != core.generation))
        mr_trainer_detach(self->trainer);
    mr_trainer_destroy(self->trainer);
    Py_XDECREF(self->owner);
    for (size_t i = 0; i < 3; i++) Py_XDECREF(self->error[i]);
    Py_TYPE(object)->tp_free(object);
}

static PyObject *trainer_start(PyObject *object, PyObject *none) {
    trainer *self = (trainer *)object;
    mr_status status;
    if (!usable(self)) return NULL;
    PY_CORE_WAIT(status = mr_trainer_start(self->trainer));
    return status == MR_OK ? Py_NewRef(Py_None) : raise(self, status);
}

static PyObject *trainer_epoch(PyObject *object, PyObject *args) {
    trainer *self = (trainer *)object;
    long long epoch;
    int sync;
    mr_status status;
    mr_value result;
    if (!PyArg_ParseTuple(args, "Lp", &epoch, &sync) || !usable(self)) return NULL;
    PY_CORE_WAIT(status = mr_trainer_epoch(self->trainer, epoch, sync, &result));
    return status == MR_OK ? py_decode_owned(&result) : raise(self, status);
}

static PyObject *trainer_recover(PyObject *object, PyObject *none) {
    trainer *self = (trainer *)object;
    size_t mended = 0;
    mr_status status;
    if (!usable(self)) return NULL;
    PY_CORE_WAIT(status = mr_trainer_recover(self->trainer, &mended));
    return status == MR_OK ? PyLong_FromSize_t(mended) : raise(self, status);
}

static PyObject *trainer_report(PyObject *object, PyObject *none) {
    mr_trainer_report report;
    mr_trainer_report_get(((trainer *)object)->trainer, &report);
    return Py_BuildValue("{s:n,s:n,s:n,s:d,s:d,s:d,s:n,s:d,s:d}", "epochs", (Py_ssize_t)report.epochs, "syncs",
                         (Py_ssize_t)report.syncs, "failures", (Py_ssize_t)report.failures, "train_s", report.train_s,
                         "sync_s", report.sync_s, "epoch_s", report.epoch_s, "slowest", (Py_ssize_t)report.slowest,
                         "slowest_s", report.slowest_s, "fastest_s", report.fastest_s);
}

/* line(epoch, epochs, done, workers, name, value, samples_s, elapsed_s, width, colour) */
static PyObject *trainer_line(PyObject *object, PyObject *args) {
    mr_progress progress = {0};
    long long epoch, epochs;
    Py_ssize_t done, workers, width;
    int colour;
    char line[MR_PROGRESS_MAX];
    if (!PyArg_ParseTuple(args, "LLnnzdddnp", &epoch, &epochs, &done, &workers, &progress.name, &progress.value,
                          &progress.samples_s, &progress.elapsed_s, &width, &colour))
        return NULL;
    progress.epoch = epoch;
    progress.epochs = epochs;
    progress.done = (size_t)done;
    progress.workers = (size_t)workers;
    mr_trainer_report_get(((trainer *)object)->trainer, &progress.report);
    size_t size = mr_progress_line(&progress, width < 0 ? 0 : (size_t)width, colour != 0, line);
    return PyUnicode_DecodeUTF8(line, (Py_ssize_t)size, "replace");
}

static PyObject *trainer_failed_worker(PyObject *object, void *none) {
    trainer *self = (trainer *)object;
    size_t worker;
    mr_ref ref;
    if (!usable(self)) return NULL;
    if (mr_trainer_failed(self->trainer, &worker, &ref) != MR_OK || worker == SIZE_MAX) Py_RETURN_NONE;
    return PyLong_FromSize_t(worker);
}

static PyMethodDef trainer_methods[] = {
    {"start", trainer_start, METH_NOARGS, NULL},
    {"epoch", trainer_epoch, METH_VARARGS, "epoch(epoch, sync) → the average of the workers' results"},
    {"mend", trainer_recover, METH_NOARGS, "How many workers were dead, and are made again."},
    {"report", trainer_report, METH_NOARGS, NULL},
    {"line", trainer_line, METH_VARARGS, NULL},
    {NULL},
};

static PyGetSetDef trainer_getset[] = {
    {"failed_worker", trainer_failed_worker, NULL, "Whose call failed last; None: nobody's.", NULL},
    {NULL},
};

PyTypeObject py_train_trainer_type = {
    PY_CORE_CLASS("miniray._core.Trainer", trainer, 0, "The trainer of the library, for miniray.train."),
    .tp_new = trainer_new,
    .tp_dealloc = trainer_dealloc,
    .tp_methods = trainer_methods,
    .tp_getset = trainer_getset,
};
