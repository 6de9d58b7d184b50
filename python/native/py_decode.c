/* py_decode.c — see py_decode.h. */
#include "python/native/py_decode.h"

#include <string.h>

#include "python/native/py_actor.h"
#include "python/native/py_buffer.h"
#include "python/native/py_numpy.h"
#include "python/native/py_ref.h"
#include "python/native/py_torch.h"

/* Least bytes of an array that is not copied: read-only, in a writable mapping (copy-on-write), and of a torch tensor.
 * Smaller arrays are copied, so that they are writable and keep little memory alive. An in-place torch tensor costs no
 * more time than a copied one, so its limit is lower. */
enum { READ_LEAST = 64 * 1024, WRITTEN_LEAST = 16 * 1024, TENSOR_LEAST = 2 * 1024 };

typedef struct decoder {
    mr_value *owned; /* the whole value; nil after a move into the holder; NULL: borrowed, */
    mr_call *call;   /* from an argument of this call, */
    size_t index;
    PyObject *holder; /* owned; NULL: no object refers to the value yet */
    bool may_stay;
    enum { UNKNOWN, OWN_COPY, NOBODYS } written; /* owner of the memory that a write changes */
} decoder;

static PyObject *py_decode(decoder *decoder, const mr_value *value);

/* ---- Bytes, in place or copied. */

/* The holder of the value, made at first use. A kept argument does not change its address. */
static PyObject *holder_of(decoder *decoder) {
    if (decoder->owned != NULL) return py_buffer_holder(decoder->owned);
    mr_value kept;
    mr_status status = mr_arg_keep(decoder->call, decoder->index, &kept);
    if (status != MR_OK) return py_core_raise(status);
    PyObject *holder = py_buffer_holder(&kept);
    if (holder == NULL) mr_value_release(&kept);
    return holder;
}

/* Whether a write to the value changes only this process's copy. One check suffices, since a value is contiguous. */
static bool is_own_copy(decoder *decoder, const void *data) {
    if (decoder->written == UNKNOWN) decoder->written = mr_is_private_copy(core.mr, data) ? OWN_COPY : NOBODYS;
    return decoder->written == OWN_COPY;
}

static bool stays(decoder *decoder, const void *data, size_t size, bool writable) {
    if (!decoder->may_stay || size < (writable ? WRITTEN_LEAST : READ_LEAST)) return false;
    return !writable || is_own_copy(decoder, data);
}

static bool has_holder(decoder *decoder) { /* false with an exception */
    if (decoder->holder == NULL) decoder->holder = holder_of(decoder);
    return decoder->holder != NULL;
}

static PyObject *memory_of(decoder *decoder, const void *data, size_t size, bool writable) {
    if (!stays(decoder, data, size, writable)) return py_buffer_copy(data, size);
    if (!has_holder(decoder)) return NULL;
    return writable ? py_buffer_own(decoder->holder, data, size) : py_buffer_piece(decoder->holder, data, size);
}

/* ---- Tensors. */

static PyObject *numpy_attribute(const char *name) {
    PyObject *module = PyImport_ImportModule("numpy");
    PyObject *found = module == NULL ? NULL : PyObject_GetAttrString(module, name);
    Py_XDECREF(module);
    return found;
}

/* Makes a NumPy array through Python, in place or copied. */
static PyObject *py_decode_array_slowly(decoder *decoder, const mr_tensor *tensor) {
    PyObject *dtype = py_numpy_dtype(tensor->dtype), *array = NULL;
    PyObject *shape = dtype == NULL ? NULL : py_numpy_shape(tensor->shape, tensor->dims);
    PyObject *memory = shape == NULL
                           ? NULL
                           : memory_of(decoder, tensor->data, tensor->bytes, tensor->tensor_kind == MR_NUMPY_WRITABLE);
    if (memory != NULL) {
        PyObject *arguments[] = {NULL, shape, dtype, memory};
        array = PyObject_Vectorcall((PyObject *)core.ndarray, arguments + 1, 3 | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
    }
    Py_XDECREF(shape);
    Py_XDECREF(memory);
    return array;
}

static PyObject *py_decode_array(decoder *decoder, const mr_tensor *tensor) {
    if (core.ndarray == NULL) core.ndarray = (PyTypeObject *)numpy_attribute("ndarray");
    if (core.ndarray == NULL) return NULL;
    bool stay = stays(decoder, tensor->data, tensor->bytes, tensor->tensor_kind == MR_NUMPY_WRITABLE);
    PyObject *array = stay ? NULL : py_numpy_copy(tensor);
    return array != NULL || PyErr_Occurred() ? array : py_decode_array_slowly(decoder, tensor);
}

static PyObject *make_tensor(const mr_tensor *tensor, PyObject *memory) {
    return py_core_call(PY_CORE_tensor_in, "(ONi)", memory, py_numpy_shape(tensor->shape, tensor->dims),
                        (int)tensor->dtype);
}

/* Makes a tensor through Python, or one over memory that another object may write. */
static PyObject *py_decode_tensor_slowly(decoder *decoder, const mr_tensor *tensor, bool stay) {
    PyObject *memory = stay ? py_buffer_own(decoder->holder, tensor->data, tensor->bytes)
                            : py_buffer_copy(tensor->data, tensor->bytes);
    if (memory == NULL) return NULL;
    mr_tensor moved = *tensor;
    moved.data = py_buffer_start(memory);
    PyObject *made = py_torch_of(&moved, memory);
    if (made == NULL && !PyErr_Occurred()) made = make_tensor(tensor, memory);
    Py_DECREF(memory);
    return made;
}

/* Makes a tensor in place if no other object may write there. NULL without an exception: the caller makes it in another
 * way. */
static PyObject *py_decode_tensor_in_place(decoder *decoder, const mr_tensor *tensor) {
    int first = has_holder(decoder) ? py_buffer_is_first(decoder->holder, tensor->data) : -1;
    return first == 1 ? py_torch_of(tensor, decoder->holder) : NULL;
}

static PyObject *py_decode_tensor(decoder *decoder, const mr_value *value) {
    mr_tensor tensor;
    mr_status status = mr_value_tensor(value, &tensor);
    if (status != MR_OK) return py_core_raise(status);
    if (tensor.tensor_kind != MR_TORCH && tensor.dtype != MR_BF16) return py_decode_array(decoder, &tensor);
    /* torch has no read-only tensors. */
    bool stay = decoder->may_stay && tensor.bytes >= TENSOR_LEAST && is_own_copy(decoder, tensor.data);
    PyObject *made = stay ? py_decode_tensor_in_place(decoder, &tensor) : py_torch_copy(&tensor);
    return made != NULL || PyErr_Occurred() ? made : py_decode_tensor_slowly(decoder, &tensor, stay);
}

/* ---- Containers. */

/* Decodes the items of a new list or tuple, whose reference is moved. */
static PyObject *fill(decoder *decoder, mr_iter *iter, PyObject *made, PyObject **places, Py_ssize_t count) {
    mr_value item;
    for (Py_ssize_t at = 0; at < count && mr_iter_next(iter, &item); at++)
        if ((places[at] = py_decode(decoder, &item)) == NULL) {
            Py_DECREF(made);
            return NULL;
        }
    return made;
}

static PyObject *py_decode_list(decoder *decoder, const mr_value *value) {
    Py_ssize_t count = (Py_ssize_t)mr_value_count(value);
    PyObject *list = PyList_New(count);
    mr_iter iter = mr_value_iter(value);
    return list == NULL ? NULL : fill(decoder, &iter, list, ((PyListObject *)list)->ob_item, count);
}

static PyObject *py_decode_tuple_from(decoder *decoder, mr_iter *iter, Py_ssize_t count) {
    PyObject *tuple = PyTuple_New(count);
    return tuple == NULL ? NULL : fill(decoder, iter, tuple, ((PyTupleObject *)tuple)->ob_item, count);
}

static PyObject *py_decode_dict(decoder *decoder, const mr_value *value) {
    PyObject *dict = PyDict_New();
    mr_iter iter = mr_value_iter(value);
    mr_value key, item;
    while (dict != NULL && mr_iter_next(&iter, &key) && mr_iter_next(&iter, &item)) {
        PyObject *name = py_decode(decoder, &key), *object = name == NULL ? NULL : py_decode(decoder, &item);
        /* The first of equal keys counts. */
        if (object == NULL || PyDict_SetDefault(dict, name, object) == NULL) Py_CLEAR(dict);
        Py_XDECREF(name);
        Py_XDECREF(object);
    }
    return dict;
}

/* ---- Pickles. */

static PyObject *buffers_of(decoder *decoder, const mr_value *value, size_t count) {
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (size_t i = 0; list != NULL && i < count; i++) {
        mr_span span;
        mr_status status = mr_value_buffer(value, i, &span);
        PyObject *memory = status == MR_OK ? memory_of(decoder, span.data, span.size, false) : py_core_raise(status);
        if (memory == NULL)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, (Py_ssize_t)i, memory);
    }
    return list;
}

/* `inside`: references and handles of the pickle. */
static PyObject *py_decode_pickle(decoder *decoder, const mr_value *value, PyObject *inside) {
    mr_custom custom;
    mr_status status = mr_value_custom(value, &custom);
    if (status != MR_OK) return py_core_raise(status);
    if (custom.format != MR_PICKLE)
        return PyErr_Format(PyExc_TypeError, "an object of another language (format %d) cannot be read here",
                            custom.format);
    PyObject *helper = py_core_helper_get(PY_CORE_loads), *object = NULL;
    PyObject *buffers = helper == NULL ? NULL : buffers_of(decoder, value, custom.buffer_count);
    PyObject *pickle = buffers == NULL ? NULL
                                       : PyMemoryView_FromMemory((char *)(uintptr_t)custom.data.data,
                                                                 (Py_ssize_t)custom.data.size, PyBUF_READ);
    if (pickle != NULL) object = PyObject_CallFunctionObjArgs(helper, pickle, buffers, inside, NULL);
    Py_XDECREF(pickle);
    Py_XDECREF(buffers);
    return object;
}

static PyObject *py_decode_tuple(decoder *decoder, const mr_value *value) {
    Py_ssize_t count = (Py_ssize_t)mr_value_count(value);
    mr_iter iter = mr_value_iter(value), rest = iter;
    mr_value first;
    if (count == 0 || !mr_iter_next(&rest, &first) || mr_value_kind(&first) != MR_KIND_CUSTOM)
        return py_decode_tuple_from(decoder, &iter, count);
    PyObject *inside = py_decode_tuple_from(decoder, &rest, count - 1);
    PyObject *object = inside == NULL ? NULL : py_decode_pickle(decoder, &first, inside);
    Py_XDECREF(inside);
    return object;
}

/* ---- Values. */

static PyObject *py_decode_number(const mr_value *value, mr_kind kind) {
    int64_t number = 0;
    double real = 0;
    bool truth = false;
    mr_status status = kind == MR_KIND_INT     ? mr_value_int(value, &number)
                       : kind == MR_KIND_FLOAT ? mr_value_float(value, &real)
                                               : mr_value_bool(value, &truth);
    if (status != MR_OK) return py_core_raise(status);
    return kind == MR_KIND_INT     ? PyLong_FromLongLong(number)
           : kind == MR_KIND_FLOAT ? PyFloat_FromDouble(real)
                                   : PyBool_FromLong(truth);
}

static PyObject *py_decode_text(const mr_value *value, mr_kind kind) {
    mr_span span;
    mr_status status = kind == MR_KIND_STR ? mr_value_str(value, &span) : mr_value_bytes(value, &span);
    if (status != MR_OK) return py_core_raise(status);
    return kind == MR_KIND_STR ? PyUnicode_FromStringAndSize(span.data, (Py_ssize_t)span.size)
                               : PyBytes_FromStringAndSize(span.data, (Py_ssize_t)span.size);
}

/* Decodes an exception that is a value, with its causes, whose number is limited. */
static PyObject *py_decode_error(const mr_value *value, size_t depth) {
    mr_error error;
    mr_status status = mr_value_error(value, depth, &error);
    if (status != MR_OK) return py_core_raise(status);
    PyObject *exception =
        py_core_call(PY_CORE_error_of, "(iy#y#)", (int)error.code, (const char *)error.origin.data,
                     (Py_ssize_t)error.origin.size, (const char *)error.message.data, (Py_ssize_t)error.message.size);
    mr_error deeper;
    if (exception == NULL || mr_value_error(value, depth + 1, &deeper) != MR_OK) return exception;
    PyObject *cause = py_decode_error(value, depth + 1);
    if (cause == NULL) Py_CLEAR(exception);
    if (cause != NULL) PyException_SetCause(exception, cause); /* moves the reference */
    return exception;
}

static PyObject *py_decode(decoder *decoder, const mr_value *value) {
    mr_kind kind = mr_value_kind(value);
    switch (kind) {
    case MR_KIND_NIL: Py_RETURN_NONE;
    case MR_KIND_BOOL:
    case MR_KIND_INT:
    case MR_KIND_FLOAT: return py_decode_number(value, kind);
    case MR_KIND_STR:
    case MR_KIND_BYTES: return py_decode_text(value, kind);
    case MR_KIND_LIST: return py_decode_list(decoder, value);
    case MR_KIND_TUPLE: return py_decode_tuple(decoder, value);
    case MR_KIND_MAP: return py_decode_dict(decoder, value);
    case MR_KIND_TENSOR: return py_decode_tensor(decoder, value);
    case MR_KIND_REF: return py_ref_decode(value);
    case MR_KIND_ACTOR: return py_actor_decode(value);
    case MR_KIND_CUSTOM: return py_decode_pickle(decoder, value, Py_None);
    case MR_KIND_ERROR: return py_decode_error(value, 0);
    }
    return PyErr_Format(PyExc_TypeError, "a value has kind %d, which this version of Miniray does not know", (int)kind);
}

PyObject *py_decode_owned(mr_value *value) {
    decoder decoder = {.owned = value, .may_stay = true};
    mr_value whole = *value;
    PyObject *object = py_decode(&decoder, &whole);
    if (decoder.holder == NULL)
        mr_value_release(value);
    else
        Py_DECREF(decoder.holder);
    return object;
}

PyObject *py_decode_argument(mr_call *call, size_t index) {
    decoder decoder = {.call = call, .index = index, .may_stay = true};
    mr_value value;
    mr_status status = mr_arg_value(call, index, &value);
    PyObject *object = status == MR_OK ? py_decode(&decoder, &value) : py_core_raise(status);
    Py_XDECREF(decoder.holder);
    return object;
}

PyObject *py_decode_borrowed(const mr_value *value) {
    decoder decoder = {.may_stay = false};
    return py_decode(&decoder, value);
}
