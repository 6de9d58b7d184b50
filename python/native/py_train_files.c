/* py_train_files.c — see py_train.h: values, files and shards. */
#include "miniray/train.h"
#include "python/native/py_encode.h"
#include "python/native/py_train.h"

/* ---- Dicts with any content: each item that is not plain is pickled alone. */

enum { DEPTH_MAX = 32 };

static bool encode_dict(py_encoder *encoder, PyObject *dict, mr_arg *out, int depth) {
    Py_ssize_t count = PyDict_GET_SIZE(dict), used = 0;
    mr_arg *items = py_encoder_args(encoder, 2 * (size_t)count);
    PyObject *key, *value;
    if (items == NULL) return false;
    for (Py_ssize_t at = 0; used < 2 * count && PyDict_Next(dict, &at, &key, &value); used += 2) {
        if (!py_encoder_value(encoder, key, &items[used])) return false;
        if (!PyDict_CheckExact(value) || depth == DEPTH_MAX) {
            if (!py_encoder_value(encoder, value, &items[used + 1])) return false;
        } else if (!encode_dict(encoder, value, &items[used + 1], depth + 1)) {
            return false;
        }
    }
    *out = mr_map(items, (size_t)used / 2);
    return true;
}

static bool as_value(py_encoder *encoder, PyObject *dict, mr_value *out) {
    mr_arg arg;
    mr_ref ref;
    if (!encode_dict(encoder, dict, &arg, 0)) return false;
    mr_status status = mr_put(core.mr, arg, &ref);
    if (status == MR_OK) {
        status = mr_get(core.mr, ref, MR_FOREVER, out);
        mr_release(core.mr, ref);
    }
    return status == MR_OK || py_core_raise(status) != NULL;
}

bool py_train_value(PyObject *object, mr_value *out) {
    PyObject *dict = py_core_context() == NULL ? NULL : py_core_call(PY_CORE_plain_result, "(O)", object);
    if (dict == NULL) return false;
    py_encoder encoder;
    py_encoder_init(&encoder);
    bool done = as_value(&encoder, dict, out);
    py_encoder_fini(&encoder);
    Py_DECREF(dict);
    return done;
}

/* ---- Files. */

typedef struct logger {
    PyObject_HEAD mr_metric_logger *logger; /* owned; NULL: closed */
} logger;

static PyObject *logger_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    const char *kind;
    PyObject *path;
    if (!PyArg_ParseTuple(args, "sO&", &kind, PyUnicode_FSConverter, &path)) return NULL;
    logger *self = (logger *)type->tp_alloc(type, 0);
    mr_status status = self == NULL ? MR_OK : mr_metric_logger_open(kind, PyBytes_AS_STRING(path), &self->logger);
    Py_DECREF(path);
    if (status == MR_OK) return (PyObject *)self;
    Py_DECREF(self);
    return PyErr_Format(PyExc_OSError, "%s", mr_last_error());
}

static PyObject *logger_write(PyObject *object, PyObject *args) {
    logger *self = (logger *)object;
    long long epoch;
    PyObject *result;
    mr_value value;
    if (!PyArg_ParseTuple(args, "LO", &epoch, &result) || !py_train_value(result, &value)) return NULL;
    mr_status status = self->logger == NULL ? MR_CLOSED : mr_metric_logger_write(self->logger, epoch, &value);
    mr_value_release(&value);
    if (status == MR_OK) Py_RETURN_NONE;
    return PyErr_Format(PyExc_OSError, "%s", status == MR_CLOSED ? "the file is closed" : mr_last_error());
}

static PyObject *logger_close(PyObject *object, PyObject *none) {
    logger *self = (logger *)object;
    mr_metric_logger_close(self->logger);
    self->logger = NULL;
    Py_RETURN_NONE;
}

static void logger_dealloc(PyObject *object) {
    mr_metric_logger_close(((logger *)object)->logger);
    Py_TYPE(object)->tp_free(object);
}

static PyMethodDef logger_methods[] = {
    {"write", logger_write, METH_VARARGS, "write(epoch, result)"},
    {"close", logger_close, METH_NOARGS, NULL},
    {NULL},
};

PyTypeObject py_train_logger_type = {
    PY_CORE_CLASS("miniray._core.Logbook", logger, 0, "Logbook(kind, path): results of epochs in a file."),
    .tp_new = logger_new,
    .tp_dealloc = logger_dealloc,
    .tp_methods = logger_methods,
};

/* ---- Shards. */

PyObject *py_train_shard_indices(PyObject *module, PyObject *args) {
    Py_ssize_t count, shards, shard;
    unsigned long long seed;
    if (!PyArg_ParseTuple(args, "nnnK", &count, &shards, &shard, &seed)) return NULL;
    size_t size = mr_shard_size((size_t)count, (size_t)shards, (size_t)shard);
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(size * sizeof(int64_t)));
    if (bytes == NULL) return NULL;
    mr_status status = mr_shard_indices((size_t)count, (size_t)shards, (size_t)shard, seed,
                                        (int64_t *)(void *)PyBytes_AS_STRING(bytes));
    if (status == MR_OK) return bytes;
    Py_DECREF(bytes);
    return py_core_raise(status);
}
