/* py_notifier.c — see py_notifier.h. */
#include "python/native/py_notifier.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "python/native/py_ref.h"
#include "python/native/py_reply.h"

typedef struct note note;

typedef struct box {
    pthread_mutex_t lock;
    int fd;
    bool closed;
    atomic_bool wakes;     /* the reader sleeps in mr_serve */
    note *waiting, *there; /* `there`: in order of arrival */
    note **last;           /* where the next note is linked */
    atomic_uint users;
} box;

struct note {
    note *next, **before; /* of a waiting note: the pointer to this note */
    box *box;
    PyObject *thing; /* owned; NULL: dropped */
    bool needed;     /* false: the event will never happen */
};

typedef struct py_notifier {
    PyObject_HEAD box *box;
    PyObject *weak;
} py_notifier;

/* ---- The box. */

static void box_unref(box *box) {
    if (atomic_fetch_sub(&box->users, 1) > 1) return;
    close(box->fd);
    pthread_mutex_destroy(&box->lock);
    free(box);
}

static box *box_new(void) {
    box *box = calloc(1, sizeof *box);
    int fd = box == NULL ? -1 : eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd < 0) {
        free(box);
        return PyErr_SetFromErrno(PyExc_OSError), NULL;
    }
    pthread_mutex_init(&box->lock, NULL);
    box->fd = fd;
    box->last = &box->there;
    atomic_init(&box->users, 1);
    return box;
}

/* Removes a note from `waiting`. Locked. */
static void unlink_waiting(note *note) {
    *note->before = note->next;
    if (note->next != NULL) note->next->before = note->before;
}

static note *note_new(box *box, PyObject *thing) {
    note *made = calloc(1, sizeof *made);
    if (made == NULL) return PyErr_NoMemory(), NULL;
    atomic_fetch_add(&box->users, 1);
    pthread_mutex_lock(&box->lock);
    *made = (struct note){box->waiting, &box->waiting, box, Py_NewRef(thing), true};
    if (made->next != NULL) made->next->before = &made->next;
    box->waiting = made;
    pthread_mutex_unlock(&box->lock);
    return made;
}

/* Moves a note from `waiting` to `there`, on any thread. Once the note is there, the reader may take it and release the
 * box, so this function keeps its own reference. */
static void note_arrives(note *note) {
    box *box = note->box;
    atomic_fetch_add(&box->users, 1);
    pthread_mutex_lock(&box->lock);
    unlink_waiting(note);
    bool keep = !box->closed;
    if (keep) {
        note->next = NULL;
        *box->last = note;
        box->last = &note->next;
    }
    pthread_mutex_unlock(&box->lock);
    if (keep) {
        (void)eventfd_write(box->fd, 1); /* a failure means that the descriptor is readable already */
        mr_context *mr = core.mr;
        if (atomic_load(&box->wakes) && mr != NULL) mr_serve_wake(mr); /* in a worker, core.mr stays valid */
    } else {
        free(note);
        box_unref(box);
    }
    box_unref(box);
}

static void told_ready(void *user, mr_ref ref) { note_arrives(user); }

static void note_forget(note *note) { /* with the GIL */
    box *box = note->box;
    pthread_mutex_lock(&box->lock);
    unlink_waiting(note);
    pthread_mutex_unlock(&box->lock);
    Py_XDECREF(note->thing);
    free(note);
    box_unref(box);
}

static void told_cancel(void *user, bool cancelled) {
    note *note = user;
    note->needed = cancelled;
    if (!cancelled && PyGILState_Check())
        note_forget(note);
    else
        note_arrives(note);
}

/* ---- Python interface. */

static PyObject *py_notifier_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    py_notifier *made = (py_notifier *)type->tp_alloc(type, 0);
    if (made != NULL && (made->box = box_new()) == NULL) Py_CLEAR(made);
    return (PyObject *)made;
}

/* Takes all notes that have arrived. */
static note *box_empty(box *box) {
    pthread_mutex_lock(&box->lock);
    note *first = box->there;
    box->there = NULL;
    box->last = &box->there;
    pthread_mutex_unlock(&box->lock);
    return first;
}

/* The thing of a waiting note; NULL: no note has one. The caller releases the thing unlocked, since that may call this
 * file. */
static PyObject *box_unwanted(box *box) {
    PyObject *thing = NULL;
    pthread_mutex_lock(&box->lock);
    box->closed = true;
    for (note *note = box->waiting; note != NULL && thing == NULL; note = note->next) {
        thing = note->thing;
        note->thing = NULL;
    }
    pthread_mutex_unlock(&box->lock);
    return thing;
}

static void py_notifier_dealloc(PyObject *self) {
    box *box = ((py_notifier *)self)->box;
    if (((py_notifier *)self)->weak != NULL) PyObject_ClearWeakRefs(self);
    for (PyObject *thing; box != NULL && (thing = box_unwanted(box)) != NULL;) Py_DECREF(thing);
    for (note *note = box == NULL ? NULL : box_empty(box), *next; note != NULL; note = next) {
        next = note->next;
        Py_DECREF(note->thing);
        free(note);
        box_unref(box);
    }
    if (box != NULL) box_unref(box);
    Py_TYPE(self)->tp_free(self);
}

static PyObject *py_notifier_fileno(PyObject *self, PyObject *none) {
    return PyLong_FromLong(((py_notifier *)self)->box->fd);
}

static PyObject *py_notifier_wakes_server(PyObject *self, PyObject *none) {
    atomic_store(&((py_notifier *)self)->box->wakes, true);
    Py_RETURN_NONE;
}

static PyObject *py_notifier_watch(PyObject *self, PyObject *args) {
    PyObject *object, *thing;
    if (!PyArg_ParseTuple(args, "O!O", &py_ref_type, &object, &thing) || !py_ref_usable(object)) return NULL;
    note *note = note_new(((py_notifier *)self)->box, thing);
    if (note == NULL) return NULL;
    mr_status status = mr_on_ready(core.mr, ((py_ref *)object)->ref, told_ready, note);
    if (status == MR_OK) Py_RETURN_NONE;
    note_forget(note);
    return py_core_raise(status);
}

static PyObject *py_notifier_watch_cancel(PyObject *self, PyObject *args) {
    PyObject *reply, *thing;
    if (!PyArg_ParseTuple(args, "O!O", &py_reply_type, &reply, &thing)) return NULL;
    mr_call *call = py_reply_call(reply);
    note *note = call == NULL ? NULL : note_new(((py_notifier *)self)->box, thing);
    if (call == NULL) Py_RETURN_NONE; /* the call was answered already */
    if (note == NULL) return NULL;
    mr_status status = mr_on_cancel(call, told_cancel, note);
    if (status == MR_OK) Py_RETURN_NONE;
    note_forget(note);
    return py_core_raise(status);
}

static PyObject *py_notifier_take(PyObject *self, PyObject *none) {
    box *box = ((py_notifier *)self)->box;
    eventfd_t count;
    PyObject *list = PyList_New(0);
    if (list == NULL) return NULL;
    if (eventfd_read(box->fd, &count) != 0) count = 0; /* a later event makes the descriptor readable again */
    for (note *first = box_empty(box), *next; first != NULL; first = next) {
        next = first->next;
        if (list != NULL && first->needed && PyList_Append(list, first->thing) != 0) Py_CLEAR(list);
        Py_DECREF(first->thing);
        free(first);
        box_unref(box);
    }
    return list;
}

static int py_notifier_bool(PyObject *self) {
    box *box = ((py_notifier *)self)->box;
    pthread_mutex_lock(&box->lock);
    bool any = box->there != NULL;
    pthread_mutex_unlock(&box->lock);
    return any;
}

static PyNumberMethods py_notifier_number = {.nb_bool = py_notifier_bool};

static PyMethodDef py_notifier_methods[] = {
    {"fileno", py_notifier_fileno, METH_NOARGS, "File descriptor, readable while take() has results."},
    {"wakes_server", py_notifier_wakes_server, METH_NOARGS, "Makes serve_calls return when a result arrives."},
    {"watch", py_notifier_watch, METH_VARARGS, "watch(ref, thing): `take` returns the thing when the object is ready."},
    {"watch_cancel", py_notifier_watch_cancel, METH_VARARGS,
     "watch_cancel(reply, thing): the same when the call is cancelled."},
    {"take", py_notifier_take, METH_NOARGS, "The things that are ready, possibly none."},
    {NULL},
};

PyTypeObject py_notifier_type = {
    PY_CORE_CLASS("miniray._core.Inbox", py_notifier, 0, "Results for an event loop, announced by a file descriptor."),
    .tp_new = py_notifier_new,
    .tp_dealloc = py_notifier_dealloc,
    .tp_weaklistoffset = offsetof(py_notifier, weak),
    .tp_methods = py_notifier_methods,
    .tp_as_number = &py_notifier_number,
};
