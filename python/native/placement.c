/* placement.c — see placement.h. */
#include "python/native/placement.h"

#include <string.h>
#include <time.h>

#include "miniray/placement.h"

enum { SLICE_US = 50 * 1000 };

bool placement_read(const char *bytes, Py_ssize_t size, mr_placement *out) {
    *out = (mr_placement){{0}};
    if (size == 0) return true;
    if (size == sizeof out->word) {
        memcpy(out->word, bytes, sizeof out->word);
        return true;
    }
    PyErr_Format(PyExc_ValueError, "the name of a placement group has %zu bytes, not %zd", sizeof out->word, size);
    return false;
}

PyObject *placement_create(PyObject *module, PyObject *args) {
    PyObject *list;
    int strategy;
    const char *name;
    if (!PyArg_ParseTuple(args, "O!is", &PyList_Type, &list, &strategy, &name)) return NULL;
    mr_context *mr = core_context();
    size_t count = (size_t)PyList_GET_SIZE(list);
    const char **bundles = mr == NULL ? NULL : PyMem_Calloc(count + 1, sizeof *bundles);
    if (bundles == NULL) return mr == NULL ? NULL : PyErr_NoMemory();
    bool read = true;
    for (size_t i = 0; read && i < count; i++)
        read = (bundles[i] = PyUnicode_AsUTF8(PyList_GET_ITEM(list, (Py_ssize_t)i))) != NULL;
    mr_placement_options options = {
        .bundles = bundles, .count = count, .strategy = (mr_strategy)strategy, .name = name[0] != '\0' ? name : NULL};
    mr_placement made;
    mr_status status = read ? mr_placement_create(mr, &options, &made) : MR_INVALID;
    PyMem_Free(bundles);
    if (!read) return NULL;
    if (status != MR_OK) return core_raise(status);
    return PyBytes_FromStringAndSize((const char *)made.word, sizeof made.word);
}

static int64_t now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

PyObject *placement_wait(PyObject *module, PyObject *args) {
    const char *bytes;
    Py_ssize_t size;
    double seconds;
    mr_placement group;
    if (!PyArg_ParseTuple(args, "y#d", &bytes, &size, &seconds) || !placement_read(bytes, size, &group)) return NULL;
    mr_context *mr = core_context();
    if (mr == NULL) return NULL;
    int64_t deadline = now_us() + (int64_t)((seconds < 1e9 ? seconds : 1e9) * 1e6);
    for (;;) {
        int64_t left = deadline - now_us();
        mr_status status;
        core.waiting++;
        Py_BEGIN_ALLOW_THREADS status = mr_placement_wait(mr, group, left < 0 ? 0 : left < SLICE_US ? left : SLICE_US);
        Py_END_ALLOW_THREADS core.waiting--;
        if (status == MR_OK) Py_RETURN_TRUE;
        if (status != MR_TIMEOUT) return core_raise(status);
        if (left <= 0) Py_RETURN_FALSE;
        if (PyErr_CheckSignals() != 0) return NULL;
        if (core.mr != mr) return PyErr_Format(PyExc_RuntimeError, "miniray was shut down while this thread waited");
    }
}

PyObject *placement_remove(PyObject *module, PyObject *name) {
    mr_placement group;
    if (!PyBytes_Check(name)) return PyErr_Format(PyExc_TypeError, "the name of a placement group is bytes");
    if (!placement_read(PyBytes_AS_STRING(name), PyBytes_GET_SIZE(name), &group)) return NULL;
    mr_context *mr = core_context();
    if (mr == NULL) return NULL;
    mr_placement_remove(mr, group);
    Py_RETURN_NONE;
}
