/* py_encode.c — see py_encode.h. */
#include "python/native/py_encode.h"

#include <string.h>

#include "python/native/py_actor.h"
#include "python/native/py_numpy.h"
#include "python/native/py_ref.h"
#include "python/native/py_shared_model.h"
#include "python/native/py_torch.h"

enum { DEPTH_MAX = 60, SEEN_FEW = 8 }; /* the runtime's limit is 64; a pickle adds levels */
enum { ITEM_BYTES = 9 };               /* upper limit of a number inside a container */

typedef struct py_encoder_chunk {
    struct py_encoder_chunk *next;
    _Alignas(16) uint8_t bytes[];
} py_encoder_chunk;

struct py_encoder_note {
    py_encoder_note *next;
    PyObject *object; /* owned, or NULL */
    Py_buffer view;   /* released, if view.obj is not NULL */
};

void py_encoder_init(py_encoder *encoder) {
    encoder->at = encoder->first;
    encoder->end = encoder->first + sizeof encoder->first;
    encoder->chunks = NULL;
    encoder->notes = NULL;
    encoder->seen = encoder->seen_few;
    encoder->seen_count = 0;
    encoder->seen_room = SEEN_FEW;
    encoder->call = NULL;
    encoder->of_model = false;
    encoder->bytes = 0;
    encoder->pinned = NULL;
}

void py_encoder_fini(py_encoder *encoder) {
    for (py_encoder_note *note = encoder->notes; note != NULL; note = note->next) {
        if (note->view.obj != NULL) PyBuffer_Release(&note->view);
        Py_XDECREF(note->object);
    }
    Py_XDECREF(encoder->pinned);
    if (encoder->seen != encoder->seen_few) PyMem_Free(encoder->seen);
    for (py_encoder_chunk *chunk = encoder->chunks; chunk != NULL;) {
        py_encoder_chunk *next = chunk->next;
        PyMem_Free(chunk);
        chunk = next;
    }
}

/* ---- Memory. */

static void *room_in_chunk(py_encoder *encoder, size_t size) {
    size_t bytes = size > 32 * 1024 ? size : 64 * 1024;
    py_encoder_chunk *chunk = PyMem_Malloc(sizeof *chunk + bytes);
    if (chunk == NULL) return PyErr_NoMemory();
    chunk->next = encoder->chunks;
    encoder->chunks = chunk;
    encoder->at = chunk->bytes + size;
    encoder->end = chunk->bytes + bytes;
    return chunk->bytes;
}

void *py_encoder_room(py_encoder *encoder, size_t size) {
    size = (size + 15) & ~(size_t)15;
    if ((size_t)(encoder->end - encoder->at) < size) return room_in_chunk(encoder, size);
    void *at = encoder->at;
    encoder->at += size;
    return at;
}

mr_arg *py_encoder_args(py_encoder *encoder, size_t count) {
    return py_encoder_room(encoder, (count > 0 ? count : 1) * sizeof(mr_arg));
}

/* Records an object or view that py_encoder_fini releases; the object's reference is moved. */
static py_encoder_note *note(py_encoder *encoder, PyObject *object) {
    py_encoder_note *note = py_encoder_room(encoder, sizeof *note);
    if (note == NULL) {
        Py_XDECREF(object);
        return NULL;
    }
    note->object = object;
    note->view.obj = NULL;
    note->next = encoder->notes;
    encoder->notes = note;
    return note;
}

/* ---- Objects that are reached twice. */

static size_t seen_place(PyObject *const *seen, size_t room, const PyObject *object) {
    size_t at = (size_t)(((uintptr_t)object >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (room - 1);
    while (seen[at] != NULL && seen[at] != object) at = (at + 1) & (room - 1);
    return at;
}

static bool seen_grow(py_encoder *encoder) {
    size_t room = encoder->seen_room * 4;
    PyObject **larger = PyMem_Calloc(room, sizeof *larger);
    if (larger == NULL) return PyErr_NoMemory() != NULL;
    size_t old_room = encoder->seen == encoder->seen_few ? encoder->seen_count : encoder->seen_room;
    for (size_t i = 0; i < old_room; i++)
        if (encoder->seen[i] != NULL) larger[seen_place(larger, room, encoder->seen[i])] = encoder->seen[i];
    if (encoder->seen != encoder->seen_few) PyMem_Free(encoder->seen);
    encoder->seen = larger;
    encoder->seen_room = room;
    return true;
}

/* 1: first encounter; 0: reached before; -1: an exception. An object with one reference, its container's, can be
 * reached twice only if its container is. */
static int meet(py_encoder *encoder, PyObject *object) {
    if (Py_REFCNT(object) == 1) return 1;
    if (encoder->seen == encoder->seen_few) {
        for (size_t i = 0; i < encoder->seen_count; i++)
            if (encoder->seen[i] == object) return 0;
        if (encoder->seen_count < SEEN_FEW) {
            encoder->seen[encoder->seen_count++] = object;
            return 1;
        }
    }
    if (encoder->seen == encoder->seen_few || encoder->seen_count * 2 >= encoder->seen_room)
        if (!seen_grow(encoder)) return -1;
    size_t at = seen_place(encoder->seen, encoder->seen_room, object);
    if (encoder->seen[at] == object) return 0;
    encoder->seen[at] = object;
    encoder->seen_count++;
    return 1;
}

static void meet_afresh(py_encoder *encoder) {
    if (encoder->seen != encoder->seen_few) PyMem_Free(encoder->seen);
    encoder->seen = encoder->seen_few;
    encoder->seen_count = 0;
    encoder->seen_room = SEEN_FEW;
}

/* ---- Plain objects. Each function returns 1: done; 0: not plain; -1: an exception. */

static int plain(py_encoder *encoder, PyObject *object, mr_arg *out, int depth);
static int plain_container(py_encoder *encoder, PyObject *object, mr_arg *out, int depth);

static int plain_int(PyObject *object, mr_arg *out) {
    int overflow;
    long long number = PyLong_AsLongLongAndOverflow(object, &overflow);
    if (overflow != 0) return 0;
    out->kind = MR_KIND_INT;
    out->i = number;
    return 1;
}

static int plain_str(py_encoder *encoder, PyObject *object, mr_arg *out) {
    Py_ssize_t size;
    const char *text = PyUnicode_AsUTF8AndSize(object, &size);
    if (text == NULL) { /* half of a surrogate pair: not encodable in UTF-8 */
        if (!PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) return -1;
        PyErr_Clear();
        return 0;
    }
    out->kind = MR_KIND_STR;
    out->bytes = (mr_span){text, (size_t)size};
    encoder->bytes += (size_t)size;
    return 1;
}

/* Encodes a list or tuple, whose items are consecutive. */
static int plain_items(py_encoder *encoder, PyObject **items, Py_ssize_t count, mr_arg *out, int depth) {
    if (depth >= DEPTH_MAX) return 0;
    mr_arg *args = py_encoder_args(encoder, (size_t)count);
    if (args == NULL) return -1;
    out->items = (mr_items){args, (size_t)count};
    encoder->bytes += (size_t)count * ITEM_BYTES;
    for (Py_ssize_t i = 0; i < count; i++) {
        int done = plain(encoder, items[i], &args[i], depth + 1);
        if (done != 1) return done;
    }
    return 1;
}

static bool is_key(PyObject *key) {
    PyTypeObject *type = Py_TYPE(key);
    if (type == &PyTuple_Type) {
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); i++)
            if (!is_key(PyTuple_GET_ITEM(key, i))) return false;
        return true;
    }
    return type == &PyUnicode_Type || type == &PyLong_Type || key == Py_None || type == &PyBool_Type ||
           type == &PyFloat_Type || type == &PyBytes_Type;
}

static int plain_dict(py_encoder *encoder, PyObject *dict, mr_arg *out, int depth) {
    if (depth >= DEPTH_MAX) return 0;
    size_t count = (size_t)PyDict_GET_SIZE(dict), used = 0;
    mr_arg *args = py_encoder_args(encoder, 2 * count);
    if (args == NULL) return -1;
    encoder->bytes += 2 * count * ITEM_BYTES;
    PyObject *key, *value;
    for (Py_ssize_t at = 0; used < 2 * count && PyDict_Next(dict, &at, &key, &value); used += 2) {
        if (!is_key(key)) return 0;
        int done = plain(encoder, key, &args[used], depth + 1);
        if (done == 1) done = plain(encoder, value, &args[used + 1], depth + 1);
        if (done != 1) return done;
    }
    out->kind = MR_KIND_MAP;
    out->items = (mr_items){args, count};
    return 1;
}

static int dtype_of(const char *format) {
    static const char letters[] = "?bhilqBHILQefd";
    static const int8_t dtypes[] = {MR_BOOL, MR_I8,  MR_I16, MR_I32, MR_I64, MR_I64, MR_U8,
                                    MR_U16,  MR_U32, MR_U64, MR_U64, MR_F16, MR_F32, MR_F64};
    if (format == NULL || format[0] == '\0' || format[1] != '\0') return -1;
    const char *letter = strchr(letters, format[0]);
    return letter == NULL ? -1 : dtypes[letter - letters];
}

static int plain_numbers(py_encoder *encoder, mr_dtype dtype, int tensor_kind, const void *data, int dims,
                         const int64_t *lengths, mr_arg *out) {
    int64_t *shape = py_encoder_room(encoder, (size_t)(dims + 1) * sizeof *shape);
    if (shape == NULL) return -1;
    size_t bytes = mr_dtype_size(dtype);
    for (int i = 0; i < dims; i++) bytes *= (size_t)(shape[i] = lengths[i]);
    encoder->bytes += bytes;
    *out = mr_tensor_of(dtype, data, dims, shape);
    out->tensor_kind = (uint8_t)tensor_kind;
    return 1;
}

/* An object with contiguous memory (buffer protocol) and a supported dtype. */
static int plain_buffer(py_encoder *encoder, PyObject *array, int tensor_kind, mr_arg *out) {
    py_encoder_note *kept = note(encoder, NULL);
    if (kept == NULL) return -1;
    if (PyObject_GetBuffer(array, &kept->view, PyBUF_FORMAT | PyBUF_ND) != 0) {
        kept->view.obj = NULL;
        PyErr_Clear();
        return 0;
    }
    const Py_buffer *view = &kept->view;
    int dtype = dtype_of(view->format);
    if (dtype < 0 || view->ndim > MR_TENSOR_DIMS_MAX || (size_t)view->itemsize != mr_dtype_size((mr_dtype)dtype))
        return 0;
    int64_t shape[MR_TENSOR_DIMS_MAX];
    for (int i = 0; i < view->ndim; i++) shape[i] = view->shape[i];
    return plain_numbers(encoder, (mr_dtype)dtype, tensor_kind, view->buf, view->ndim, shape, out);
}

/* The note keeps the array's memory in place. */
static int plain_array(py_encoder *encoder, PyObject *array, mr_arg *out) {
    int tensor_kind = core.gives_arrays ? MR_NUMPY_WRITABLE : MR_NUMPY;
    mr_tensor seen;
    if (!py_numpy_look(array, &seen)) return plain_buffer(encoder, array, tensor_kind, out);
    if (note(encoder, Py_NewRef(array)) == NULL) return -1;
    return plain_numbers(encoder, seen.dtype, tensor_kind, seen.data, seen.dims, seen.shape, out);
}

/* A torch tensor. Its memory stays valid as long as its note, since no other code runs that could replace the
 * memory. */
static int plain_tensor(py_encoder *encoder, PyObject *tensor, mr_arg *out) {
    mr_tensor seen;
    int done = py_torch_look(tensor, encoder->of_model, &seen);
    if (done == -1 && PyErr_ExceptionMatches(PyExc_Exception)) { /* its properties raise exceptions */
        PyErr_Clear();
        return 0;
    }
    if (done != 1) return done;
    if (note(encoder, Py_NewRef(tensor)) == NULL) return -1;
    return plain_numbers(encoder, seen.dtype, MR_TORCH, seen.data, seen.dims, seen.shape, out);
}

/* The type of that name, if the program has imported its module. */
static PyTypeObject *type_if_imported(const char *module_name, const char *name) {
    PyObject *text = PyUnicode_FromString(module_name);
    PyObject *module = text == NULL ? NULL : PyImport_GetModule(text);
    PyObject *type = module == NULL ? NULL : PyObject_GetAttrString(module, name);
    Py_XDECREF(text);
    Py_XDECREF(module);
    if (type == NULL) PyErr_Clear(); /* the module is being imported */
    if (type != NULL && !PyType_Check(type)) Py_CLEAR(type);
    return (PyTypeObject *)type;
}

/* Encodes weights, unchanged or as the function returns them. */
static int plain_weights(py_encoder *encoder, const py_torch_weights *weights, mr_arg *out, int depth) {
    encoder->of_model = true;
    int done = plain(encoder, weights->tree, out, depth);
    encoder->of_model = false;
    if (done != 0) return done;
    meet_afresh(encoder);
    PyObject *made = PyObject_CallOneArg(weights->otherwise, weights->tree);
    if (made == NULL || note(encoder, made) == NULL) return -1;
    return py_encoder_value(encoder, made, out) ? 1 : -1;
}

/* Exports the weights in place or as a copy. If neither is possible, the weights are encoded as usual. */
static void lend(const py_encoder *encoder, PyObject *shares, mr_arg *weights) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(shares); i++)
        if (py_shared_model_lend(PyTuple_GET_ITEM(shares, i), weights)) return;
    if (encoder->call != NULL) (void)py_shared_model_lend_copy(encoder->call, weights);
}

/* Weights of a model, exported if allowed; inside weights, the dict of a module. */
static int plain_of_model(py_encoder *encoder, PyObject *object, mr_arg *out, int depth) {
    if (encoder->of_model) return PyODict_CheckExact(object) ? plain_container(encoder, object, out, depth) : 0;
    if (Py_TYPE(object) != &py_torch_weights_type || depth > 0) return 0;
    const py_torch_weights *weights = (const py_torch_weights *)object;
    int done = plain_weights(encoder, weights, out, depth);
    if (done == 1 && weights->shares != NULL) lend(encoder, weights->shares, out);
    return done;
}

static int plain_other(py_encoder *encoder, PyObject *object, mr_arg *out, int depth) {
    PyTypeObject *type = Py_TYPE(object);
    if (type == &py_ref_type) return py_ref_encode(object, out) ? 1 : -1;
    if (type == &py_actor_type) return py_actor_encode(object, out) ? 1 : -1;
    if (core.ndarray == NULL) core.ndarray = type_if_imported("numpy", "ndarray");
    bool array = type == core.ndarray;
    if (!array && core.tensor == NULL) core.tensor = type_if_imported("torch", "Tensor");
    if (!array && !py_torch_check(object, encoder->of_model)) return plain_of_model(encoder, object, out, depth);
    int first = encoder->of_model ? 1 : meet(encoder, object); /* a model may contain a tensor twice */
    if (first != 1) return first;
    return array ? plain_array(encoder, object, out) : plain_tensor(encoder, object, out);
}

static int plain_container(py_encoder *encoder, PyObject *object, mr_arg *out, int depth) {
    PyTypeObject *type = Py_TYPE(object);
    if (type == &PyTuple_Type && PyTuple_GET_SIZE(object) == 0) { /* the empty tuple is a single object */
        *out = mr_tuple(NULL, 0);
        return 1;
    }
    int first = meet(encoder, object);
    if (first != 1) return first;
    if (PyDict_Check(object)) return plain_dict(encoder, object, out, depth);
    out->kind = type == &PyList_Type ? MR_KIND_LIST : MR_KIND_TUPLE;
    PyObject **items = type == &PyList_Type ? ((PyListObject *)object)->ob_item : ((PyTupleObject *)object)->ob_item;
    return plain_items(encoder, items, Py_SIZE(object), out, depth);
}

static int plain(py_encoder *encoder, PyObject *object, mr_arg *out, int depth) {
    PyTypeObject *type = Py_TYPE(object);
    out->received = false;
    if (type == &PyLong_Type) return plain_int(object, out);
    if (type == &PyUnicode_Type) return plain_str(encoder, object, out);
    if (type == &PyFloat_Type) {
        if (encoder->of_model) return 0; /* weights are encoded as tensors are */
        out->kind = MR_KIND_FLOAT;
        out->f = PyFloat_AS_DOUBLE(object);
    } else if (object == Py_None) {
        out->kind = MR_KIND_NIL;
    } else if (type == &PyBool_Type) {
        out->kind = MR_KIND_BOOL;
        out->b = object == Py_True;
    } else if (type == &PyBytes_Type) {
        out->kind = MR_KIND_BYTES;
        out->bytes = (mr_span){PyBytes_AS_STRING(object), (size_t)PyBytes_GET_SIZE(object)};
        encoder->bytes += out->bytes.size;
    } else if (type == &PyList_Type || type == &PyTuple_Type || type == &PyDict_Type) {
        return plain_container(encoder, object, out, depth);
    } else {
        return plain_other(encoder, object, out, depth);
    }
    return 1;
}

/* ---- Pickles. */

/* The result of dumps: (pickle, [buffers], [references and handles]). */
static bool pickled_parts(py_encoder *encoder, PyObject *parts, mr_custom *custom, PyObject **inside) {
    PyObject *pickle, *buffers;
    if (!PyArg_ParseTuple(parts, "SO!O!", &pickle, &PyList_Type, &buffers, &PyList_Type, inside)) return false;
    size_t count = (size_t)PyList_GET_SIZE(buffers);
    mr_span *spans = py_encoder_room(encoder, (count + 1) * sizeof *spans);
    if (spans == NULL) return false;
    for (size_t i = 0; i < count; i++) {
        py_encoder_note *kept = note(encoder, NULL);
        if (kept == NULL) return false;
        if (PyObject_GetBuffer(PyList_GET_ITEM(buffers, (Py_ssize_t)i), &kept->view, PyBUF_SIMPLE) != 0) {
            kept->view.obj = NULL;
            return false;
        }
        spans[i] = (mr_span){kept->view.buf, (size_t)kept->view.len};
        encoder->bytes += spans[i].size;
    }
    encoder->bytes += (size_t)PyBytes_GET_SIZE(pickle);
    *custom = (mr_custom){.format = MR_PICKLE,
                          .data = {PyBytes_AS_STRING(pickle), (size_t)PyBytes_GET_SIZE(pickle)},
                          .buffers = spans,
                          .buffer_count = count};
    return true;
}

static bool pickled(py_encoder *encoder, PyObject *object, mr_arg *out) {
    PyObject *helper = py_core_helper_get(PY_CORE_dumps), *inside;
    PyObject *parts = helper == NULL ? NULL : PyObject_CallOneArg(helper, object);
    if (parts == NULL || note(encoder, parts) == NULL) return false;
    mr_custom *custom = py_encoder_room(encoder, sizeof *custom);
    if (custom == NULL || !pickled_parts(encoder, parts, custom, &inside)) return false;
    Py_ssize_t count = PyList_GET_SIZE(inside);
    if (count == 0) {
        *out = mr_custom_arg(custom);
        return true;
    }
    mr_arg *items = py_encoder_args(encoder, (size_t)count + 1);
    if (items == NULL) return false;
    items[0] = mr_custom_arg(custom);
    for (Py_ssize_t i = 0; i < count; i++)
        if (plain(encoder, PyList_GET_ITEM(inside, i), &items[i + 1], 1) != 1) return false;
    *out = mr_tuple(items, (size_t)count + 1);
    return true;
}

/* ---- Values. */

bool py_encoder_value(py_encoder *encoder, PyObject *object, mr_arg *out) {
    if (encoder->seen_count > 0) meet_afresh(encoder);
    int done = plain(encoder, object, out, 0);
    return done == 0 ? pickled(encoder, object, out) : done == 1;
}

/* ---- Without the GIL. */

/* Keeps the object until py_encoder_fini. */
static bool keep(py_encoder *encoder, PyObject *object) {
    if (encoder->pinned == NULL && (encoder->pinned = PyList_New(0)) == NULL) return false;
    return PyList_Append(encoder->pinned, object) == 0;
}

/* Keeps the objects of a plain value that the tree points into without a note. */
static bool pin(py_encoder *encoder, PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    if (type == &PyUnicode_Type || type == &PyBytes_Type || type == &py_ref_type || type == &py_actor_type)
        return keep(encoder, object);
    if (type == &py_torch_weights_type) return pin(encoder, ((const py_torch_weights *)object)->tree);
    if (PyDict_Check(object)) {
        PyObject *key, *value;
        for (Py_ssize_t at = 0; PyDict_Next(object, &at, &key, &value);)
            if (!pin(encoder, key) || !pin(encoder, value)) return false;
        return true;
    }
    if (type != &PyList_Type && type != &PyTuple_Type) return true;
    PyObject **items = type == &PyList_Type ? ((PyListObject *)object)->ob_item : ((PyTupleObject *)object)->ob_item;
    for (Py_ssize_t i = 0; i < Py_SIZE(object); i++)
        if (!pin(encoder, items[i])) return false;
    return true;
}

static bool is_pickled(const mr_arg *arg) {
    if (arg->kind == MR_KIND_TUPLE && arg->items.count > 0) arg = &arg->items.first[0];
    return arg->kind == MR_KIND_CUSTOM;
}

bool py_encoder_release(py_encoder *encoder, PyObject *const *objects, const mr_arg *args, size_t count,
                        py_encoder_away *out) {
    for (size_t i = 0; i < count; i++)
        if (!is_pickled(&args[i]) && !pin(encoder, objects[i])) return false;
    core.waiting++;
    out->generation = core.generation;
    out->thread = PyEval_SaveThread();
    return true;
}

bool py_encoder_regain(const py_encoder_away *away) {
    PyEval_RestoreThread(away->thread);
    core.waiting--;
    if (core.generation == away->generation) return true;
    return PyErr_Format(PyExc_RuntimeError, "miniray was shut down while this thread submitted a task or call") != NULL;
}

mr_status py_encoder_put(py_encoder *encoder, PyObject *object, const mr_arg *arg, bool much, mr_ref *out) {
    mr_context *mr = core.mr;
    py_encoder_away away;
    if (!much) return mr_put(mr, *arg, out);
    if (!py_encoder_release(encoder, &object, arg, 1, &away)) return MR_INVALID;
    mr_status status = mr_put(mr, *arg, out);
    return py_encoder_regain(&away) ? status : MR_INVALID;
}

bool py_encoder_put_argument(py_encoder *encoder, PyObject *object, mr_arg *arg) {
    mr_ref made;
    mr_status status = py_encoder_put(encoder, object, arg, true, &made);
    if (PyErr_Occurred()) return false;
    PyObject *ref = status == MR_OK ? py_ref_new(made) : py_core_raise(status);
    bool done = ref != NULL && keep(encoder, ref) && py_ref_encode(ref, arg);
    Py_XDECREF(ref);
    return done;
}

bool py_encoder_keywords(py_encoder *encoder, PyObject *names, mr_arg *out) {
    size_t size = 0;
    Py_ssize_t count = PyTuple_GET_SIZE(names), length;
    for (Py_ssize_t i = 0; i < count; i++) {
        if (PyUnicode_AsUTF8AndSize(PyTuple_GET_ITEM(names, i), &length) == NULL) return false;
        size += (size_t)length + 1;
    }
    char *text = py_encoder_room(encoder, size + 1), *at = text;
    mr_custom *custom = py_encoder_room(encoder, sizeof *custom);
    if (text == NULL || custom == NULL) return false;
    for (Py_ssize_t i = 0; i < count; i++) {
        const char *name = PyUnicode_AsUTF8AndSize(PyTuple_GET_ITEM(names, i), &length);
        memcpy(at, name, (size_t)length + 1);
        at += length + 1;
    }
    *custom = (mr_custom){.format = ENCODE_FORMAT_KEYWORDS, .data = {text, size}};
    *out = mr_custom_arg(custom);
    return true;
}
