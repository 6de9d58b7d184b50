/* py_ps_callback.c — see py_ps_callback.h. */
#include "python/native/py_ps_callback.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

struct py_ps_slip {
    py_ps_slip *before, *after; /* of those that are pending */
    struct py_ps_bell *bell;
    PyObject *object; /* owned */
};

struct py_ps_bell {
    pthread_mutex_t lock;
    pthread_cond_t news;
    py_ps_slip *pending;
    py_ps_slip *first, **end; /* rung, by `after` */
};

static struct py_ps_bell *create(void) {
    struct py_ps_bell *bell = calloc(1, sizeof *bell);
    pthread_condattr_t attributes;
    if (bell == NULL) return NULL;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&bell->lock, NULL);
    pthread_cond_init(&bell->news, &attributes);
    pthread_condattr_destroy(&attributes);
    bell->end = &bell->first;
    return bell;
}

/* Locked, as the next two. */
static void add(struct py_ps_bell *bell, py_ps_slip *slip) {
    slip->after = bell->pending;
    if (bell->pending != NULL) bell->pending->before = slip;
    bell->pending = slip;
}

static void take_out(py_ps_slip *slip) {
    *(slip->before == NULL ? &slip->bell->pending : &slip->before->after) = slip->after;
    if (slip->after != NULL) slip->after->before = slip->before;
    slip->before = slip->after = NULL;
}

static void ring(py_ps_slip *slip) {
    take_out(slip);
    *slip->bell->end = slip;
    slip->bell->end = &slip->after;
    pthread_cond_signal(&slip->bell->news);
}

py_ps_slip *py_ps_slip_new(py_ps_connection *connection, PyObject *object) {
    if (connection->bell == NULL) connection->bell = create();
    py_ps_slip *slip = connection->bell == NULL ? NULL : calloc(1, sizeof *slip);
    if (slip == NULL) return PyErr_NoMemory(), NULL;
    slip->bell = connection->bell;
    slip->object = Py_NewRef(object);
    pthread_mutex_lock(&slip->bell->lock);
    add(slip->bell, slip);
    pthread_mutex_unlock(&slip->bell->lock);
    return slip;
}

static PyObject *freed(py_ps_slip *slip) {
    PyObject *object = slip->object;
    free(slip);
    return object;
}

void py_ps_slip_drop(py_ps_slip *slip) {
    if (slip == NULL) return;
    pthread_mutex_lock(&slip->bell->lock);
    take_out(slip);
    pthread_mutex_unlock(&slip->bell->lock);
    Py_DECREF(freed(slip));
}

void py_ps_slip_ring(void *context, mr_status status) {
    py_ps_slip *slip = context;
    struct py_ps_bell *bell = slip->bell;
    pthread_mutex_lock(&bell->lock);
    ring(slip);
    pthread_mutex_unlock(&bell->lock);
}

void py_ps_bell_ring_all(struct py_ps_bell *bell) {
    if (bell == NULL) return;
    pthread_mutex_lock(&bell->lock);
    while (bell->pending != NULL) ring(bell->pending);
    pthread_mutex_unlock(&bell->lock);
}

void py_ps_bell_destroy(struct py_ps_bell *bell) {
    if (bell == NULL) return;
    py_ps_slip *lists[] = {bell->pending, bell->first};
    for (int i = 0; i < 2; i++)
        for (py_ps_slip *slip = lists[i], *next; slip != NULL; slip = next) {
            next = slip->after;
            Py_DECREF(freed(slip));
        }
    pthread_cond_destroy(&bell->news);
    pthread_mutex_destroy(&bell->lock);
    free(bell);
}

static py_ps_slip *await(struct py_ps_bell *bell, double timeout_s) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    int64_t ns = until.tv_nsec + (int64_t)(timeout_s * 1e9);
    until.tv_sec += ns / 1000000000;
    until.tv_nsec = ns % 1000000000;
    pthread_mutex_lock(&bell->lock);
    while (bell->first == NULL && pthread_cond_timedwait(&bell->news, &bell->lock, &until) == 0) continue;
    py_ps_slip *slip = bell->first;
    if (slip != NULL && (bell->first = slip->after) == NULL) bell->end = &bell->first;
    pthread_mutex_unlock(&bell->lock);
    return slip;
}

PyObject *py_ps_callback(PyObject *object, PyObject *timeout) {
    py_ps_connection *self = (py_ps_connection *)object;
    double timeout_s = PyFloat_AsDouble(timeout);
    if (timeout_s == -1 && PyErr_Occurred()) return NULL;
    if (self->bell == NULL) Py_RETURN_NONE;
    py_ps_slip *slip;
    PY_CORE_WITHOUT_GIL(slip = await(self->bell, timeout_s));
    return slip == NULL ? Py_NewRef(Py_None) : freed(slip);
}

PyObject *py_ps_tell(PyObject *object, PyObject *given) {
    py_ps_slip *slip = py_ps_slip_new((py_ps_connection *)object, given);
    if (slip == NULL) return NULL;
    py_ps_slip_ring(slip, MR_OK);
    Py_RETURN_NONE;
}
