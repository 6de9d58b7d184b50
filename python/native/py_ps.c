/* py_ps.c — see py_ps.h: connections. */
#include "python/native/py_ps.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "python/native/py_model_session.h"
#include "python/native/py_ps_callback.h"
#include "python/native/py_ps_control.h"
#include "python/native/py_wait.h"
#include "python/native/py_wait_cause.h"

/* ---- Errors. */

PyObject *py_ps_raise_text(mr_status status, PyObject *text) {
    if (status == MR_CANCELLED && PyErr_Occurred()) return NULL; /* the signal handler's */
    Py_XDECREF(py_core_call(PY_CORE_raise_ps, "(iO)", (int)status, text));
    return NULL;
}

PyObject *py_ps_raise(mr_status status) {
    PyObject *text = PyUnicode_DecodeUTF8(mr_last_error(), (Py_ssize_t)strlen(mr_last_error()), "replace");
    if (text != NULL) py_ps_raise_text(status, text);
    Py_XDECREF(text);
    return NULL;
}

PyObject *py_ps_outcome(mr_status status) { return status == MR_OK ? Py_NewRef(Py_None) : py_ps_raise(status); }

/* ---- Calls. */

bool py_ps_enter(py_ps_connection *self) {
    if (self->ps == NULL)
        return PyErr_Format(PyExc_RuntimeError, "the connection is closed: call connect() for another") != NULL;
    if (self->pid != getpid())
        return PyErr_Format(PyExc_RuntimeError,
                            "the connection belongs to process %d, which forked this one: call connect() after fork()",
                            (int)self->pid) != NULL;
    self->calls++;
    return true;
}

void py_ps_leave(py_ps_connection *self) { self->calls--; }

enum { SLICE_US = 50 * 1000, SLICE_MAX_US = 1000 * 1000, QUESTION_US = 500 * 1000, EXPLAINED_US = 1000 * 1000 };
enum { TEXT_MAX = 600 };

py_ps_wait py_ps_wait_begin(PyObject *connection, double timeout_s) {
    py_ps_connection *self = (py_ps_connection *)connection;
    if ((timeout_s == -1 && PyErr_Occurred()) || (self != NULL && !py_ps_enter(self)))
        return (py_ps_wait){.status = MR_CANCELLED};
    py_ps_wait wait = {.connection = self,
                       .ps = self == NULL ? NULL : self->ps,
                       .deadline_us = py_wait_deadline_us(timeout_s),
                       .most_us = (self == NULL ? QUESTION_US : SLICE_US) / 2,
                       .status = MR_TIMEOUT};
    clock_gettime(CLOCK_MONOTONIC, &wait.begun);
    return wait;
}

static int64_t waited_us(const py_ps_wait *wait) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (now.tv_sec - wait->begun.tv_sec) * INT64_C(1000000) + (now.tv_nsec - wait->begun.tv_nsec) / 1000;
}

/* Completes the library's error text of the last slice. */
static void explain(const py_ps_wait *wait) {
    if (wait->ps != NULL) PY_CORE_WITHOUT_GIL(mr_ps_explain(wait->ps, waited_us(wait)));
}

/* Handles signals. A KeyboardInterrupt gets the text of the wait, unless a handler has called the library. */
static bool is_interrupted(const py_ps_wait *wait) {
    static const char timed_out[] = "timed out after ";
    char last[TEXT_MAX], text[TEXT_MAX + 40];
    snprintf(last, sizeof last, "%s", mr_last_error());
    if (PyErr_CheckSignals() == 0) return false;
    if (wait->slices == 0 || strcmp(last, mr_last_error()) != 0 || !PyErr_ExceptionMatches(PyExc_KeyboardInterrupt))
        return true;
    explain(wait);
    const char *whole = mr_last_error();
    if (strncmp(whole, timed_out, sizeof timed_out - 1) == 0)
        snprintf(text, sizeof text, "interrupted after %.*s", TEXT_MAX - 1, whole + sizeof timed_out - 1);
    else
        snprintf(text, sizeof text, "interrupted after %.3g s: %.*s", (double)waited_us(wait) / 1e6, TEXT_MAX - 60,
                 whole);
    py_wait_cause_tell(text);
    return true;
}

/* Whether the time of the whole wait is over. */
static bool is_over(py_ps_wait *wait) {
    bool late = wait->connection == NULL ? py_wait_left_us(wait->deadline_us, 1) == 0 : wait->slice_us == 0;
    if (wait->status == MR_TIMEOUT && !late && is_interrupted(wait)) wait->status = MR_CANCELLED;
    if (wait->status == MR_TIMEOUT && late && waited_us(wait) >= EXPLAINED_US) explain(wait);
    return wait->status != MR_TIMEOUT || late;
}

/* Begins the next slice, which is longer than the previous one. A question to the scheduler starts anew in each slice,
 * so growing slices let a slow one finish; an interrupt takes at most as long as the wait so far. */
bool py_ps_wait_next(py_ps_wait *wait) {
    if (wait->thread != NULL) PyEval_RestoreThread(wait->thread);
    if (wait->thread == NULL ? wait->status != MR_TIMEOUT : is_over(wait)) {
        if (wait->connection != NULL) py_ps_leave(wait->connection);
        return false;
    }
    if (wait->connection == NULL || wait->most_us < SLICE_MAX_US) wait->most_us *= 2;
    wait->slice_us = py_wait_left_us(wait->deadline_us, wait->most_us);
    wait->slices++;
    wait->thread = PyEval_SaveThread();
    return true;
}

bool py_ps_ask(PyObject *args, py_ps_ask_fn *ask, void *out) {
    const char *address;
    double timeout_s;
    if (!PyArg_ParseTuple(args, "zd", &address, &timeout_s)) return false;
    py_ps_wait wait = py_ps_wait_begin(NULL, timeout_s);
    while (py_ps_wait_next(&wait)) wait.status = ask(address, wait.slice_us, out);
    if (wait.status != MR_OK) py_ps_raise(wait.status);
    return wait.status == MR_OK;
}

struct timespec py_ps_until(double timeout_s) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    int64_t ns = now.tv_nsec + (int64_t)(timeout_s * 1e9);
    return (struct timespec){.tv_sec = now.tv_sec + ns / 1000000000, .tv_nsec = ns % 1000000000};
}

/* ---- Creation and end. */

static void init(py_ps_connection *self) {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&self->lock, NULL);
    pthread_cond_init(&self->news, &attributes);
    pthread_condattr_destroy(&attributes);
    self->messages_end = &self->messages;
    self->notified_end = &self->notified;
    self->pid = getpid();
}

PyObject *py_ps_connect(PyObject *module, PyObject *args) {
    const char *address;
    double timeout_s;
    int rank;
    if (!PyArg_ParseTuple(args, "zid", &address, &rank, &timeout_s)) return NULL;
    py_ps_connection *self = (py_ps_connection *)py_ps_connection_type.tp_alloc(&py_ps_connection_type, 0);
    if (self == NULL) return NULL;
    init(self);
    py_ps_wait wait = py_ps_wait_begin(NULL, timeout_s);
    while (py_ps_wait_next(&wait)) wait.status = mr_ps_connect(address, rank, wait.slice_us, &self->ps);
    if (wait.status == MR_OK) return (PyObject *)self;
    Py_DECREF(self);
    return py_ps_raise(wait.status);
}

static void end(py_ps_connection *self) {
    mr_ps *ps = self->ps;
    if (ps == NULL) return;
    py_ps_memories_leave(self);
    py_model_sessions_end(self);
    self->ps = NULL;
    if (self->pid == getpid()) PY_CORE_WITHOUT_GIL(mr_ps_close(ps)); /* a fork lacks the library's threads */
    py_ps_tickets_end(self);
    if (self->pid == getpid()) py_ps_slips_ring(self);
    py_ps_messages_drop(self);
}

static PyObject *close_(PyObject *object, PyObject *none) {
    py_ps_connection *self = (py_ps_connection *)object;
    if (self->calls != 0)
        return PyErr_Format(PyExc_RuntimeError, "cannot close the connection: %u other threads use it", self->calls);
    end(self);
    Py_RETURN_NONE;
}

static void dealloc(PyObject *object) {
    py_ps_connection *self = (py_ps_connection *)object;
    end(self);
    py_ps_slips_free(self);
    if (self->pid == getpid()) pthread_cond_destroy(&self->news); /* in a fork the waiting threads do not exist */
    pthread_mutex_destroy(&self->lock);
    Py_XDECREF(self->failed_text);
    Py_TYPE(object)->tp_free(object);
}

static PyObject *get_info(PyObject *object, void *none) {
    static const char *const names[] = {"asp", "ssp", "bsp"};
    py_ps_connection *self = (py_ps_connection *)object;
    mr_ps_info info;
    if (!py_ps_enter(self)) return NULL;
    mr_ps_info_get(self->ps, &info);
    py_ps_leave(self);
    return Py_BuildValue("IIIIIsIi", info.rank, info.ranks, info.slots, info.servers, info.replicas,
                         names[info.consistency], info.staleness, info.mixed_consistency);
}

/* {name in miniray/ps.h: number} */
static PyObject *get_traffic(PyObject *object, void *none) {
    py_ps_connection *self = (py_ps_connection *)object;
    mr_ps_push_stats traffic;
    if (!py_ps_enter(self)) return NULL;
    mr_ps_push_stats_get(self->ps, &traffic);
    py_ps_leave(self);
    return Py_BuildValue("{s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K}", "pull_bytes", (ull)traffic.pull_bytes,
                         "pull_bytes_sent", (ull)traffic.pull_bytes_sent, "pulls_repeated", (ull)traffic.pulls_repeated,
                         "push_bytes", (ull)traffic.push_bytes, "push_bytes_sent", (ull)traffic.push_bytes_sent,
                         "pushes", (ull)traffic.pushes, "encoded", (ull)traffic.encoded, "feedback_bytes",
                         (ull)traffic.feedback_bytes, "feedback_forgotten", (ull)traffic.feedback_forgotten,
                         "feedback_lost", (ull)traffic.feedback_lost);
}

/* keep(folder or None) */
static PyObject *keep(PyObject *object, PyObject *folder) {
    py_ps_connection *self = (py_ps_connection *)object;
    PyObject *path = NULL;
    if (folder != Py_None && !PyUnicode_FSConverter(folder, &path)) return NULL;
    mr_status status = MR_CANCELLED;
    if (py_ps_enter(self)) {
        status = mr_ps_set_state_dir(self->ps, path == NULL ? NULL : PyBytes_AS_STRING(path));
        py_ps_leave(self);
    }
    Py_XDECREF(path);
    return py_ps_outcome(status);
}

/* ---- Steps. */

/* Raises the error of a failed request whose ticket was dropped. */
static bool has_failed(py_ps_connection *self) {
    py_ps_tickets_sweep(self);
    mr_status status = self->failed;
    if (status == MR_OK) return false;
    PyObject *text = self->failed_text;
    self->failed = MR_OK;
    self->failed_text = NULL;
    py_ps_raise_text(status, text);
    Py_XDECREF(text);
    return true;
}

/* begin(timeout) → the step */
static PyObject *begin(PyObject *object, PyObject *timeout) {
    uint64_t step = 0;
    py_ps_wait wait = py_ps_wait_begin(object, PyFloat_AsDouble(timeout));
    while (py_ps_wait_next(&wait)) wait.status = mr_ps_begin(wait.ps, wait.slice_us, &step);
    if (wait.status != MR_OK) return py_ps_raise(wait.status);
    py_ps_tickets_sweep((py_ps_connection *)object);
    return PyLong_FromUnsignedLongLong(step);
}

static PyObject *end_step(PyObject *object, PyObject *none) {
    py_ps_connection *self = (py_ps_connection *)object;
    mr_status status;
    if (!py_ps_enter(self)) return NULL;
    PY_CORE_WITHOUT_GIL(status = mr_ps_end(self->ps));
    py_ps_leave(self);
    return py_ps_outcome(status);
}

/* skip(): leaves this rank out of the open step */
static PyObject *skip_step(PyObject *object, PyObject *none) {
    py_ps_connection *self = (py_ps_connection *)object;
    mr_status status;
    if (!py_ps_enter(self)) return NULL;
    PY_CORE_WITHOUT_GIL(status = mr_ps_skip(self->ps));
    py_ps_leave(self);
    return py_ps_outcome(status);
}

static PyObject *get_skipped(PyObject *object, void *none) {
    py_ps_connection *self = (py_ps_connection *)object;
    if (!py_ps_enter(self)) return NULL;
    uint64_t skipped = mr_ps_skipped(self->ps);
    py_ps_leave(self);
    return PyLong_FromUnsignedLongLong(skipped);
}

/* leave(timeout): later rounds do not wait for this rank */
static PyObject *leave_rounds(PyObject *object, PyObject *timeout) {
    py_ps_wait wait = py_ps_wait_begin(object, PyFloat_AsDouble(timeout));
    while (py_ps_wait_next(&wait)) wait.status = mr_ps_leave(wait.ps, wait.slice_us);
    return py_ps_outcome(wait.status);
}

/* settle(timeout): waits until everything is acknowledged, or raises the error */
static PyObject *settle(PyObject *object, PyObject *timeout) {
    py_ps_wait wait = py_ps_wait_begin(object, PyFloat_AsDouble(timeout));
    while (py_ps_wait_next(&wait)) wait.status = mr_ps_flush(wait.ps, wait.slice_us);
    return wait.status == MR_OK && has_failed((py_ps_connection *)object) ? NULL : py_ps_outcome(wait.status);
}

/* ---- Data. */

/* Reads a list of sizes. Owned; NULL with an exception. */
static uint64_t *read_sizes(PyObject *list, Py_ssize_t count) {
    uint64_t *sizes = PyMem_Calloc((size_t)count + 1, sizeof *sizes);
    if (sizes == NULL) PyErr_NoMemory();
    for (Py_ssize_t i = 0; sizes != NULL && i < count && !PyErr_Occurred(); i++)
        sizes[i] = PyLong_AsUnsignedLongLong(PyList_GET_ITEM(list, i));
    if (!PyErr_Occurred()) return sizes;
    PyMem_Free(sizes);
    return NULL;
}

/* cut([size], timeout) */
static PyObject *cut_data(PyObject *object, PyObject *args) {
    PyObject *list;
    double timeout_s;
    if (!PyArg_ParseTuple(args, "O!d", &PyList_Type, &list, &timeout_s)) return NULL;
    Py_ssize_t count = PyList_GET_SIZE(list);
    uint64_t *sizes = read_sizes(list, count);
    if (sizes == NULL) return NULL;
    uint32_t number = count > UINT32_MAX ? UINT32_MAX : (uint32_t)count;
    py_ps_wait wait = py_ps_wait_begin(object, timeout_s);
    while (py_ps_wait_next(&wait)) wait.status = mr_ps_dataset_define(wait.ps, sizes, number, wait.slice_us);
    PyMem_Free(sizes);
    return py_ps_outcome(wait.status);
}

/* piece(batch, timeout) → (shard, epoch, from, to) */
static PyObject *piece(PyObject *object, PyObject *args) {
    unsigned long long batch;
    double timeout_s;
    if (!PyArg_ParseTuple(args, "Kd", &batch, &timeout_s)) return NULL;
    mr_ps_data_batch found;
    py_ps_wait wait = py_ps_wait_begin(object, timeout_s);
    while (py_ps_wait_next(&wait)) wait.status = mr_ps_dataset_next(wait.ps, batch, wait.slice_us, &found);
    if (wait.status != MR_OK) return py_ps_raise(wait.status);
    return Py_BuildValue("IKKK", found.shard, (ull)found.epoch, (ull)found.from, (ull)found.to);
}

/* hand_back(timeout) */
static PyObject *hand_back(PyObject *object, PyObject *timeout) {
    py_ps_wait wait = py_ps_wait_begin(object, PyFloat_AsDouble(timeout));
    while (py_ps_wait_next(&wait)) wait.status = mr_ps_dataset_leave(wait.ps, wait.slice_us);
    return py_ps_outcome(wait.status);
}

/* ---- Tables. */

static PyObject *name_of(const void *item) { return PyUnicode_FromString(*(const char *const *)item); }

static PyObject *tables(PyObject *object, PyObject *timeout) {
    mr_ps_table_list *found;
    py_ps_wait wait = py_ps_wait_begin(object, PyFloat_AsDouble(timeout));
    while (py_ps_wait_next(&wait)) wait.status = mr_ps_tables(wait.ps, wait.slice_us, &found);
    if (wait.status != MR_OK) return py_ps_raise(wait.status);
    PyObject *list = py_core_list(found->names, found->count, sizeof *found->names, name_of);
    mr_ps_table_list_free(found);
    return list;
}

/* ---- Cluster map. */

static PyObject *server_of(const void *item) { return PyLong_FromUnsignedLong(((const mr_ps_replica *)item)->server); }

static PyObject *slot_of(const void *item) {
    const mr_ps_slot *slot = item;
    return py_core_list(slot->replicas, slot->count, sizeof *slot->replicas, server_of);
}

/* Slots with read replicas. */
static PyObject *hot_of(const mr_ps_cluster_map *map) {
    PyObject *hot = PyList_New(0);
    for (uint32_t i = 0; hot != NULL && i < map->slot_count; i++)
        if (map->slots[i].read_replicas != 0) py_core_append(&hot, PyLong_FromUnsignedLong(i));
    return hot;
}

static PyObject *servers_of(const mr_ps_cluster_map *map) {
    PyObject *servers = PyDict_New();
    for (uint32_t i = 0; servers != NULL && i < map->info.servers; i++)
        py_core_insert(&servers, PyLong_FromUnsignedLong(map->servers[i].number),
                       PyUnicode_FromString(map->servers[i].address));
    return servers;
}

static mr_status ask_map(const char *address, int64_t timeout_us, void *out) {
    return mr_ps_cluster_map_get(address, timeout_us, out);
}

PyObject *py_ps_map(PyObject *module, PyObject *args) {
    mr_ps_cluster_map *map;
    if (!py_ps_ask(args, ask_map, &map)) return NULL;
    PyObject *made = Py_BuildValue("{s:K,s:K,s:K,s:I,s:I,s:N,s:N,s:N}", "number", (ull)map->number, "generation",
                                   (ull)map->generation, "checkpoint", (ull)map->checkpoint, "ranks", map->info.ranks,
                                   "replicas", map->info.replicas, "slots",
                                   py_core_list(map->slots, map->slot_count, sizeof *map->slots, slot_of), "hot",
                                   hot_of(map), "servers", servers_of(map));
    mr_ps_cluster_map_free(map);
    return made;
}

static mr_status ask_checkpoint(const char *address, int64_t timeout_us, void *out) {
    return mr_ps_checkpoint(address, timeout_us, out);
}

PyObject *py_ps_checkpoint(PyObject *module, PyObject *args) {
    uint64_t number;
    return py_ps_ask(args, ask_checkpoint, &number) ? PyLong_FromUnsignedLongLong(number) : NULL;
}

static PyMethodDef methods[] = {
    {"close", close_, METH_NOARGS, NULL},
    {"begin", begin, METH_O, NULL},
    {"end", end_step, METH_NOARGS, NULL},
    {"skip", skip_step, METH_NOARGS, NULL},
    {"settle", settle, METH_O, NULL},
    {"cut", cut_data, METH_VARARGS, NULL},
    {"piece", piece, METH_VARARGS, NULL},
    {"hand_back", hand_back, METH_O, NULL},
    {"leave", leave_rounds, METH_O, NULL},
    {"tables", tables, METH_O, NULL},
    {"keep", keep, METH_O, NULL},
    {"barrier", py_ps_barrier, METH_VARARGS, NULL},
    {"report", py_ps_report, METH_VARARGS, NULL},
    {"send", py_ps_send, METH_VARARGS, NULL},
    {"responses", py_ps_responses, METH_VARARGS, NULL},
    {"handle", py_ps_handle, METH_O, NULL},
    {"receive", py_ps_receive, METH_VARARGS, NULL},
    {"memory", py_ps_memory_new, METH_O, NULL},
    {"told", py_ps_callback, METH_O, NULL},
    {"tell", py_ps_tell, METH_O, NULL},
    {"create", py_ps_table_create, METH_VARARGS, NULL},
    {"open", py_ps_table_open, METH_VARARGS, NULL},
    {"session", py_model_session_open, METH_VARARGS, NULL},
    {NULL},
};

static PyGetSetDef properties[] = {
    {"info", get_info, NULL, "(rank, ranks, slots, servers, replicas, consistency, staleness, mixed_consistency)",
     NULL},
    {"skipped", get_skipped, NULL, "steps and pushes that were left out", NULL},
    {"traffic", get_traffic, NULL, "bytes sent, and bytes before compression", NULL},
    {NULL},
};

PyTypeObject py_ps_connection_type = {
    PY_CORE_TYPE("miniray._core.PsConnection", py_ps_connection,
                 "A worker's connection to a parameter server, for miniray.ps."),
    .tp_dealloc = dealloc,
    .tp_methods = methods,
    .tp_getset = properties,
};
