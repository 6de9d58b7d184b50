/* py_ps_callback.c — see py_ps_callback.h. */
#include "python/native/py_ps_callback.h"

#include <stdlib.h>

struct py_ps_slip {
    py_ps_slip *before, *after;   /* links of the pending list; `after` also links notified ones */
    py_ps_connection *connection; /* borrowed: the connection frees its slips */
    PyObject *object;             /* owned */
};

/* Removes a slip from the pending list. Locked, as is the next function. */
static void take_out(py_ps_slip *slip) {
    *(slip->before == NULL ? &slip->connection->pending : &slip->before->after) = slip->after;
    if (slip->after != NULL) slip->after->before = slip->before;
    slip->before = slip->after = NULL;
}

static void ring(py_ps_slip *slip) {
    py_ps_connection *connection = slip->connection;
    take_out(slip);
    *connection->notified_end = slip;
    connection->notified_end = &slip->after;
    pthread_cond_broadcast(&connection->news);
}

py_ps_slip *py_ps_slip_new(py_ps_connection *connection, PyObject *object) {
    py_ps_slip *slip = calloc(1, sizeof *slip);
    if (slip == NULL) return PyErr_NoMemory(), NULL;
    slip->connection = connection;
    slip->object = Py_NewRef(object);
    pthread_mutex_lock(&connection->lock);
    slip->after = connection->pending;
    if (slip->after != NULL) slip->after->before = slip;
    connection->pending = slip;
    pthread_mutex_unlock(&connection->lock);
    return slip;
}

static PyObject *freed(py_ps_slip *slip) {
    PyObject *object = slip->object;
    free(slip);
    return object;
}

void py_ps_slip_drop(py_ps_slip *slip) {
    if (slip == NULL) return;
    pthread_mutex_t *lock = &slip->connection->lock;
    pthread_mutex_lock(lock);
    take_out(slip);
    pthread_mutex_unlock(lock);
    Py_DECREF(freed(slip));
}

void py_ps_slip_ring(void *context, mr_status status) {
    py_ps_slip *slip = context;
    pthread_mutex_t *lock = &slip->connection->lock;
    pthread_mutex_lock(lock);
    ring(slip);
    pthread_mutex_unlock(lock);
}

void py_ps_slips_ring(py_ps_connection *connection) {
    pthread_mutex_lock(&connection->lock);
    while (connection->pending != NULL) ring(connection->pending);
    pthread_mutex_unlock(&connection->lock);
}

void py_ps_slips_free(py_ps_connection *connection) {
    py_ps_slip *lists[] = {connection->pending, connection->notified};
    for (int i = 0; i < 2; i++)
        for (py_ps_slip *slip = lists[i], *next; slip != NULL; slip = next) {
            next = slip->after;
            Py_DECREF(freed(slip));
        }
}

static py_ps_slip *await(py_ps_connection *self, double timeout_s) {
    struct timespec until = py_ps_until(timeout_s);
    pthread_mutex_lock(&self->lock);
    while (self->notified == NULL && pthread_cond_timedwait(&self->news, &self->lock, &until) == 0) continue;
    py_ps_slip *slip = self->notified;
    if (slip != NULL && (self->notified = slip->after) == NULL) self->notified_end = &self->notified;
    pthread_mutex_unlock(&self->lock);
    return slip;
}

PyObject *py_ps_callback(PyObject *object, PyObject *timeout) {
    double timeout_s = PyFloat_AsDouble(timeout);
    if (timeout_s == -1 && PyErr_Occurred()) return NULL;
    py_ps_slip *slip;
    PY_CORE_WITHOUT_GIL(slip = await((py_ps_connection *)object, timeout_s));
    return slip == NULL ? Py_NewRef(Py_None) : freed(slip);
}

PyObject *py_ps_tell(PyObject *object, PyObject *given) {
    py_ps_slip *slip = py_ps_slip_new((py_ps_connection *)object, given);
    if (slip == NULL) return NULL;
    py_ps_slip_ring(slip, MR_OK);
    Py_RETURN_NONE;
}
