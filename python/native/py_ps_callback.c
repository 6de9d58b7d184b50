/* py_ps_callback.c — see py_ps_callback.h. */
#include "python/native/py_ps_callback.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

struct py_ps_slip {
    py_ps_slip *before, *after; /* in the list of pending ones */
    struct py_ps_callback_queue *callback_queue;
    PyObject *object; /* owned */
};

struct py_ps_callback_queue {
    pthread_mutex_t lock;
    pthread_cond_t news;
    py_ps_slip *pending;
    py_ps_slip *first, **end; /* notified, by `after` */
};

static struct py_ps_callback_queue *create(void) {
    struct py_ps_callback_queue *callback_queue = calloc(1, sizeof *callback_queue);
    pthread_condattr_t attributes;
    if (callback_queue == NULL) return NULL;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&callback_queue->lock, NULL);
    pthread_cond_init(&callback_queue->news, &attributes);
    pthread_condattr_destroy(&attributes);
    callback_queue->end = &callback_queue->first;
    return callback_queue;
}

/* Locked, as the next two. */
static void add(struct py_ps_callback_queue *callback_queue, py_ps_slip *slip) {
    slip->after = callback_queue->pending;
    if (callback_queue->pending != NULL) callback_queue->pending->before = slip;
    callback_queue->pending = slip;
}

static void take_out(py_ps_slip *slip) {
    *(slip->before == NULL ? &slip->callback_queue->pending : &slip->before->after) = slip->after;
    if (slip->after != NULL) slip->after->before = slip->before;
    slip->before = slip->after = NULL;
}

static void ring(py_ps_slip *slip) {
    take_out(slip);
    *slip->callback_queue->end = slip;
    slip->callback_queue->end = &slip->after;
    pthread_cond_signal(&slip->callback_queue->news);
}

py_ps_slip *py_ps_slip_new(py_ps_connection *connection, PyObject *object) {
    if (connection->callback_queue == NULL) connection->callback_queue = create();
    py_ps_slip *slip = connection->callback_queue == NULL ? NULL : calloc(1, sizeof *slip);
    if (slip == NULL) return PyErr_NoMemory(), NULL;
    slip->callback_queue = connection->callback_queue;
    slip->object = Py_NewRef(object);
    pthread_mutex_lock(&slip->callback_queue->lock);
    add(slip->callback_queue, slip);
    pthread_mutex_unlock(&slip->callback_queue->lock);
    return slip;
}

static PyObject *freed(py_ps_slip *slip) {
    PyObject *object = slip->object;
    free(slip);
    return object;
}

void py_ps_slip_drop(py_ps_slip *slip) {
    if (slip == NULL) return;
    pthread_mutex_lock(&slip->callback_queue->lock);
    take_out(slip);
    pthread_mutex_unlock(&slip->callback_queue->lock);
    Py_DECREF(freed(slip));
}

void py_ps_slip_ring(void *context, mr_status status) {
    py_ps_slip *slip = context;
    struct py_ps_callback_queue *callback_queue = slip->callback_queue;
    pthread_mutex_lock(&callback_queue->lock);
    ring(slip);
    pthread_mutex_unlock(&callback_queue->lock);
}

void py_ps_callback_queue_ring_all(struct py_ps_callback_queue *callback_queue) {
    if (callback_queue == NULL) return;
    pthread_mutex_lock(&callback_queue->lock);
    while (callback_queue->pending != NULL) ring(callback_queue->pending);
    pthread_mutex_unlock(&callback_queue->lock);
}

void py_ps_callback_queue_destroy(struct py_ps_callback_queue *callback_queue) {
    if (callback_queue == NULL) return;
    py_ps_slip *lists[] = {callback_queue->pending, callback_queue->first};
    for (int i = 0; i < 2; i++)
        for (py_ps_slip *slip = lists[i], *next; slip != NULL; slip = next) {
            next = slip->after;
            Py_DECREF(freed(slip));
        }
    pthread_cond_destroy(&callback_queue->news);
    pthread_mutex_destroy(&callback_queue->lock);
    free(callback_queue);
}

static py_ps_slip *await(struct py_ps_callback_queue *callback_queue, double timeout_s) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    int64_t ns = until.tv_nsec + (int64_t)(timeout_s * 1e9);
    until.tv_sec += ns / 1000000000;
    until.tv_nsec = ns % 1000000000;
    pthread_mutex_lock(&callback_queue->lock);
    while (callback_queue->first == NULL &&
           pthread_cond_timedwait(&callback_queue->news, &callback_queue->lock, &until) == 0)
        continue;
    py_ps_slip *slip = callback_queue->first;
    if (slip != NULL && (callback_queue->first = slip->after) == NULL) callback_queue->end = &callback_queue->first;
    pthread_mutex_unlock(&callback_queue->lock);
    return slip;
}

PyObject *py_ps_callback(PyObject *object, PyObject *timeout) {
    py_ps_connection *self = (py_ps_connection *)object;
    double timeout_s = PyFloat_AsDouble(timeout);
    if (timeout_s == -1 && PyErr_Occurred()) return NULL;
    if (self->callback_queue == NULL) Py_RETURN_NONE;
    py_ps_slip *slip;
    PY_CORE_WITHOUT_GIL(slip = await(self->callback_queue, timeout_s));
    return slip == NULL ? Py_NewRef(Py_None) : freed(slip);
}

PyObject *py_ps_tell(PyObject *object, PyObject *given) {
    py_ps_slip *slip = py_ps_slip_new((py_ps_connection *)object, given);
    if (slip == NULL) return NULL;
    py_ps_slip_ring(slip, MR_OK);
    Py_RETURN_NONE;
}
