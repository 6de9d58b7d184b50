/* py_ps_control.c — see py_ps_control.h. */
#include "python/native/py_ps_control.h"

#include <stdlib.h>

static const char capsule_name[] = "miniray.ps.request";

/* ---- Barriers and reports. */

PyObject *py_ps_barrier(PyObject *object, PyObject *args) {
    const char *name;
    int group;
    double timeout_s;
    if (!PyArg_ParseTuple(args, "sid", &name, &group, &timeout_s)) return NULL;
    py_ps_wait wait = py_ps_wait_begin(object, timeout_s);
    while (py_ps_wait_next(&wait)) wait.status = mr_ps_barrier(wait.ps, name, group, wait.slice_us);
    return py_ps_outcome(wait.status);
}

PyObject *py_ps_report(PyObject *object, PyObject *args) {
    py_ps_connection *self = (py_ps_connection *)object;
    const char *key;
    double value;
    if (!PyArg_ParseTuple(args, "sd", &key, &value) || !py_ps_enter(self)) return NULL;
    mr_status status;
    PY_CORE_WITHOUT_GIL(status = mr_ps_metric_set(self->ps, key, value));
    py_ps_leave(self);
    return py_ps_outcome(status);
}

/* ---- Sending. */

PyObject *py_ps_send(PyObject *object, PyObject *args) {
    py_ps_connection *self = (py_ps_connection *)object;
    int role, app, head;
    unsigned number;
    Py_buffer body;
    mr_ps_ticket ticket;
    if (!PyArg_ParseTuple(args, "iIiiy*", &role, &number, &app, &head, &body)) return NULL;
    mr_status status = MR_CANCELLED;
    if (py_ps_enter(self)) {
        PY_CORE_WITHOUT_GIL(status = mr_ps_send(self->ps, (mr_ps_peer){role, number}, app, head, body.buf,
                                                (size_t)body.len, NULL, NULL, &ticket));
        py_ps_leave(self);
    }
    PyBuffer_Release(&body);
    if (status != MR_OK) return py_ps_raise(status);
    return PyLong_FromUnsignedLongLong(ticket.v);
}

static PyObject *response_of(const void *item) {
    const mr_ps_response *response = item;
    return Py_BuildValue("(iIiiy#)", response->from.role, response->from.number, (int)response->status, response->head,
                         response->body, (Py_ssize_t)response->size);
}

PyObject *py_ps_responses(PyObject *object, PyObject *args) {
    unsigned long long ticket;
    double timeout_s;
    mr_ps_responses *found;
    if (!PyArg_ParseTuple(args, "Kd", &ticket, &timeout_s)) return NULL;
    py_ps_wait wait = py_ps_wait_begin(object, timeout_s);
    while (py_ps_wait_next(&wait))
        wait.status = mr_ps_responses_wait(wait.ps, (mr_ps_ticket){ticket}, wait.slice_us, &found);
    if (wait.status != MR_OK) return py_ps_raise(wait.status);
    PyObject *list = py_core_list(found->list, found->count, sizeof *found->list, response_of);
    mr_ps_responses_free(found);
    return list;
}

/* ---- Receiving. */

struct py_ps_message {
    py_ps_message *next;
    int app;
    mr_ps_message *message;
};

/* Receives a request on a thread of the library. Without memory the request is not answered, and its sender gets a
 * timeout. */
static void put(void *context, mr_ps_message *message) {
    py_ps_connection *self = context;
    mr_ps_request request;
    py_ps_message *queued = malloc(sizeof *queued);
    if (queued == NULL) return;
    mr_ps_message_get(message, &request);
    *queued = (py_ps_message){.app = request.app, .message = message};
    pthread_mutex_lock(&self->lock);
    *self->messages_end = queued;
    self->messages_end = &queued->next;
    pthread_cond_broadcast(&self->news);
    pthread_mutex_unlock(&self->lock);
}

/* Takes the first request for this app. Locked. */
static mr_ps_message *take(py_ps_connection *self, int app) {
    for (py_ps_message **at = &self->messages; *at != NULL; at = &(*at)->next) {
        py_ps_message *queued = *at;
        if (queued->app != app) continue;
        mr_ps_message *message = queued->message;
        *at = queued->next;
        if (self->messages_end == &queued->next) self->messages_end = at;
        free(queued);
        return message;
    }
    return NULL;
}

static mr_ps_message *await(py_ps_connection *self, int app, double timeout_s) {
    struct timespec until = py_ps_until(timeout_s);
    pthread_mutex_lock(&self->lock);
    mr_ps_message *message = take(self, app);
    while (message == NULL && pthread_cond_timedwait(&self->news, &self->lock, &until) == 0) message = take(self, app);
    pthread_mutex_unlock(&self->lock);
    return message;
}

static void drop(mr_ps_message *message) {
    if (mr_ps_respond(message, 0, NULL, 0) != MR_OK) return; /* a failed mr_ps_respond frees the message, too */
}

void py_ps_messages_drop(py_ps_connection *self) {
    for (py_ps_message *queued; (queued = self->messages) != NULL; free(queued)) {
        self->messages = queued->next;
        drop(queued->message);
    }
    self->messages_end = &self->messages;
}

PyObject *py_ps_handle(PyObject *object, PyObject *number) {
    py_ps_connection *self = (py_ps_connection *)object;
    long app = PyLong_AsLong(number);
    if ((app == -1 && PyErr_Occurred()) || !py_ps_enter(self)) return NULL;
    mr_status status;
    PY_CORE_WITHOUT_GIL(status = mr_ps_handle(self->ps, (int)app, put, self));
    py_ps_leave(self);
    return status == MR_NOMEM ? PyErr_NoMemory() : py_ps_outcome(status);
}

static void drop_capsule(PyObject *capsule) { drop(PyCapsule_GetPointer(capsule, capsule_name)); }

PyObject *py_ps_receive(PyObject *object, PyObject *args) {
    py_ps_connection *self = (py_ps_connection *)object;
    int app;
    double timeout_s;
    mr_ps_message *message;
    if (!PyArg_ParseTuple(args, "id", &app, &timeout_s) || !py_ps_enter(self)) return NULL;
    PY_CORE_WITHOUT_GIL(message = await(self, app, timeout_s));
    py_ps_leave(self);
    if (message == NULL) Py_RETURN_NONE;
    mr_ps_request request;
    mr_ps_message_get(message, &request);
    PyObject *capsule = PyCapsule_New(message, capsule_name, drop_capsule);
    if (capsule == NULL) {
        drop(message);
        return NULL;
    }
    return Py_BuildValue("(iIiy#N)", request.from.role, request.from.number, request.head, request.body,
                         (Py_ssize_t)request.size, capsule);
}

PyObject *py_ps_answer(PyObject *module, PyObject *args) {
    PyObject *capsule;
    int head;
    Py_buffer body;
    if (!PyArg_ParseTuple(args, "Oiy*", &capsule, &head, &body)) return NULL;
    mr_ps_message *message = PyCapsule_GetPointer(capsule, capsule_name);
    mr_status status = MR_CANCELLED;
    if (message != NULL && PyCapsule_SetName(capsule, "answered") == 0 && PyCapsule_SetDestructor(capsule, NULL) == 0)
        PY_CORE_WITHOUT_GIL(status = mr_ps_respond(message, head, body.buf, (size_t)body.len));
    PyBuffer_Release(&body);
    return message == NULL ? NULL : py_ps_outcome(status);
}

/* ---- Process table. */

static PyObject *reports_of(const mr_ps_process *process) {
    PyObject *reports = PyDict_New();
    for (uint32_t i = 0; reports != NULL && i < process->metric_count; i++) {
        const mr_ps_metric *report = &process->metrics[i];
        PyObject *item =
            Py_BuildValue("{s:d,s:d,s:K}", "value", report->value, "rate", report->rate, "count", (ull)report->count);
        py_core_insert(&reports, PyUnicode_FromString(report->key), item);
    }
    return reports;
}

static PyObject *process_of(const void *item) {
    const mr_ps_process *process = item;
    static const char *const roles[] = {[MR_PS_SCHEDULER] = "scheduler",
                                        [MR_PS_SERVERS] = "server",
                                        [MR_PS_WORKERS] = "worker",
                                        [MR_PS_READERS] = "reader"};
    return Py_BuildValue(
        "{s:s,s:I,s:s,s:N,s:d,s:K,s:d,s:K,s:K,s:d,s:d,s:d,s:d,s:K,s:K,s:K,s:N}", "role", roles[process->role], "number",
        process->number, "address", process->address, "here", PyBool_FromLong(process->here), "silent",
        (double)process->silent_us / 1e6, "step", (ull)process->step, "steps_second", process->steps_second, "pushes",
        (ull)process->pushes, "pulls", (ull)process->pulls, "pushes_second", process->pushes_second, "pulls_second",
        process->pulls_second, "bytes_in_second", process->bytes_in_second, "bytes_out_second",
        process->bytes_out_second, "memory", (ull)process->memory, "memory_max", (ull)process->memory_max, "conflicts",
        (ull)process->conflicts, "metrics", reports_of(process));
}

static mr_status ask_processes(const char *address, int64_t timeout_us, void *out) {
    return mr_ps_processes_get(address, timeout_us, out);
}

PyObject *py_ps_processes(PyObject *module, PyObject *args) {
    mr_ps_processes *process_table;
    if (!py_ps_ask(args, ask_processes, &process_table)) return NULL;
    PyObject *list =
        py_core_list(process_table->processes, process_table->count, sizeof *process_table->processes, process_of);
    mr_ps_processes_free(process_table);
    return list;
}

/* ---- Tables and checkpoints. */

static PyObject *table_of(const void *item) {
    const mr_ps_table_state *table = item;
    static const char *const kinds[] = {"sparse", "vectors", "dense"};
    return Py_BuildValue("{s:s,s:s,s:s,s:I,s:I,s:s,s:s,s:s,s:K,s:K,s:K}", "name", table->name, "kind",
                         kinds[table->kind], "dtype", mr_dtype_name(table->dtype), "dim", table->dim, "arrays",
                         table->arrays, "optimizer", table->optimizer, "compression", table->compression, "consistency",
                         table->consistency, "rows", (ull)table->rows, "bytes", (ull)table->bytes, "nonfinite",
                         (ull)table->nonfinite);
}

/* Seconds, or None for 0. */
static PyObject *seconds_of(int64_t us) {
    if (us == 0) Py_RETURN_NONE;
    return PyFloat_FromDouble((double)us / 1e6);
}

/* Decodes a text of the system (path, errno text) as file names are decoded. */
static PyObject *text_of(const char *text) {
    if (text[0] == '\0') Py_RETURN_NONE;
    return PyUnicode_DecodeFSDefault(text);
}

static PyObject *lines_of(const char *text) {
    PyObject *list = PyList_New(0);
    while (list != NULL && *text != '\0') {
        size_t size = strcspn(text, "\n");
        py_core_append(&list, PyUnicode_DecodeFSDefaultAndSize(text, (Py_ssize_t)size));
        text += size + (text[size] == '\n');
    }
    return list;
}

static PyObject *reader_of(const void *item) {
    const mr_ps_data_reader *reader = item;
    return Py_BuildValue("{s:I,s:I,s:K}", "rank", reader->rank, "shards", reader->shards, "items", (ull)reader->items);
}

static PyObject *data_of(const mr_ps_dataset_state *data) {
    if (data->shards == 0) Py_RETURN_NONE;
    return Py_BuildValue("{s:K,s:I,s:I,s:K,s:K,s:K,s:I,s:N}", "epoch", (ull)data->epoch, "shards", data->shards,
                         "shards_done", data->shards_done, "items", (ull)data->items, "items_given",
                         (ull)data->items_given, "items_back", (ull)data->items_back, "workers", data->workers,
                         "readers", py_core_list(data->readers, data->reader_count, sizeof *data->readers, reader_of));
}

static mr_status ask_overview(const char *address, int64_t timeout_us, void *out) {
    return mr_ps_overview_get(address, timeout_us, out);
}

PyObject *py_ps_overview(PyObject *module, PyObject *args) {
    mr_ps_overview *all;
    if (!py_ps_ask(args, ask_overview, &all)) return NULL;
    PyObject *made = Py_BuildValue("{s:N,s:N,s:{s:N,s:K,s:N,s:N,s:N,s:N,s:N,s:N},s:N,s:N,s:N}", "tables",
                                   py_core_list(all->tables, all->table_count, sizeof *all->tables, table_of), "data",
                                   data_of(&all->data), "checkpoints", "dir", text_of(all->folder), "newest",
                                   (ull)all->checkpoint, "written", seconds_of(all->checkpoint_us), "every",
                                   seconds_of(all->every_us), "making", PyBool_FromLong(all->making), "failed",
                                   PyBool_FromLong(all->checkpoint_failed), "error", text_of(all->checkpoint_error),
                                   "error_at", seconds_of(all->checkpoint_error_us), "stall", text_of(all->stall),
                                   "stall_since", seconds_of(all->stall_us), "stall_hint", lines_of(all->stall_hint));
    mr_ps_overview_free(all);
    return made;
}
