/* py_output.c — see py_output.h. */
#include "python/native/py_output.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct part {
    struct part *next;
    int fd;
    size_t size;
    char text[];
} part;

static struct py_output {
    pthread_mutex_t lock; /* protects all other fields */
    pthread_cond_t changed;
    pthread_t thread;
    bool running, ending;
    part *first, **end;
    size_t bytes;   /* bytes that wait */
    size_t dropped; /* dropped bytes not reported yet */
} printer = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .end = &printer.first};

/* ---- Showing. */

static void show(int fd, const char *text, size_t size) {
    py_core_report(PY_CORE_show, py_core_call(PY_CORE_show, "(iy#)", fd, text, (Py_ssize_t)size));
}

static void show_all(part *first, size_t dropped) {
    PyGILState_STATE gil = PyGILState_Ensure();
    for (part *part = first; part != NULL; part = part->next) show(part->fd, part->text, part->size);
    if (dropped > 0) {
        char note[64];
        int size = snprintf(note, sizeof note, "(miniray) [%zu kB not shown]\n", dropped / 1024 + 1);
        show(STDERR_FILENO, note, (size_t)size);
    }
    PyGILState_Release(gil);
    for (part *next; first != NULL; first = next) {
        next = first->next;
        free(first);
    }
}

static void *print_main(void *none) {
    pthread_mutex_lock(&printer.lock);
    for (;;) {
        while (printer.first == NULL && printer.dropped == 0 && !printer.ending)
            pthread_cond_wait(&printer.changed, &printer.lock);
        if (printer.first == NULL && printer.dropped == 0) break;
        part *first = printer.first;
        size_t dropped = printer.dropped;
        printer.first = NULL;
        printer.end = &printer.first;
        printer.bytes = printer.dropped = 0;
        pthread_mutex_unlock(&printer.lock);
        show_all(first, dropped);
        pthread_mutex_lock(&printer.lock);
    }
    pthread_mutex_unlock(&printer.lock);
    return NULL;
}

/* Starts the thread with all signals blocked, so that signals reach the program's own threads. */
static bool start(void) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = pthread_create(&printer.thread, NULL, print_main, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

/* ---- Receiving. */

static void keep(int fd, const char *text, size_t size) {
    part *made = size > PY_OUTPUT_BYTES_MAX - printer.bytes ? NULL : malloc(sizeof *made + size);
    if (made == NULL) {
        printer.dropped += size;
        return;
    }
    *made = (part){.fd = fd, .size = size};
    memcpy(made->text, text, size);
    *printer.end = made;
    printer.end = &made->next;
    printer.bytes += size;
}

void py_output_print(void *user, int fd, const char *text, size_t size) {
    pthread_mutex_lock(&printer.lock);
    if (!printer.running) printer.running = start();
    bool running = printer.running;
    if (running) keep(fd, text, size);
    pthread_cond_signal(&printer.changed);
    pthread_mutex_unlock(&printer.lock);
    if (!running && write(fd, text, size) < 0) return; /* no thread; stderr may be closed */
}

/* ---- Start and end. */

void py_output_end(void) {
    pthread_mutex_lock(&printer.lock);
    bool running = printer.running;
    printer.ending = true;
    pthread_cond_signal(&printer.changed);
    pthread_mutex_unlock(&printer.lock);
    if (running) pthread_join(printer.thread, NULL);
    printer.running = printer.ending = false;
}

PyObject *py_output_lost(PyObject *module, PyObject *error) {
    long number = PyLong_AsLong(error);
    if (number == -1 && PyErr_Occurred()) return NULL;
    mr_output_lost(core.mr, (int)number);
    Py_RETURN_NONE;
}

void py_output_forked(void) {
    static const struct py_output fresh = {
        .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .end = &printer.first};
    printer = fresh;
}
