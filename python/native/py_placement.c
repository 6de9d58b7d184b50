/* py_placement.c — see py_placement.h. */
#include "python/native/py_placement.h"

#include <string.h>

#include "miniray/placement.h"
#include "python/native/py_wait.h"

bool py_placement_read(const char *bytes, Py_ssize_t size, mr_placement_group *out) {
    *out = (mr_placement_group){{0}};
    if (bytes == NULL || size == 0) return true;
    if (size == sizeof out->word) {
        memcpy(out->word, bytes, sizeof out->word);
        return true;
    }
    return PyErr_Format(PyExc_ValueError, "the id of a placement group has %zu bytes, not %zd", sizeof out->word,
                        size) != NULL;
}

static bool read_name(PyObject *name, mr_placement_group *out) {
    if (PyBytes_Check(name)) return py_placement_read(PyBytes_AS_STRING(name), PyBytes_GET_SIZE(name), out);
    return PyErr_Format(PyExc_TypeError, "the id of a placement group is bytes, not %s", Py_TYPE(name)->tp_name) !=
           NULL;
}

PyObject *py_placement_create(PyObject *module, PyObject *args) {
    PyObject *list;
    int strategy, detached;
    const char *name;
    if (!PyArg_ParseTuple(args, "O!isp", &PyList_Type, &list, &strategy, &name, &detached)) return NULL;
    mr_context *mr = py_core_context();
    size_t count = (size_t)PyList_GET_SIZE(list);
    const char **bundles = mr == NULL ? NULL : PyMem_Calloc(count + 1, sizeof *bundles);
    if (bundles == NULL) return mr == NULL ? NULL : PyErr_NoMemory();
    bool read = true;
    for (size_t i = 0; read && i < count; i++)
        read = (bundles[i] = PyUnicode_AsUTF8(PyList_GET_ITEM(list, (Py_ssize_t)i))) != NULL;
    mr_placement_group_options options = MR_OPTIONS(mr_placement_group_options, .bundles = bundles, .count = count,
                                                    .strategy = (mr_placement_strategy)strategy,
                                                    .name = name[0] != '\0' ? name : NULL, .detached = detached);
    mr_placement_group made;
    mr_status status = read ? mr_placement_group_create(mr, &options, &made) : MR_INVALID;
    PyMem_Free(bundles);
    if (!read) return NULL;
    if (status != MR_OK) return py_core_raise(status);
    return PyBytes_FromStringAndSize((const char *)made.word, sizeof made.word);
}

static mr_status wait_for_group(mr_context *mr, void *group, int64_t timeout_us) {
    return mr_placement_group_wait(mr, *(const mr_placement_group *)group, timeout_us);
}

PyObject *py_placement_wait(PyObject *module, PyObject *args) {
    const char *bytes;
    Py_ssize_t size;
    PyObject *timeout;
    int64_t timeout_us;
    mr_placement_group group;
    if (!PyArg_ParseTuple(args, "y#O", &bytes, &size, &timeout) || !py_placement_read(bytes, size, &group) ||
        !py_wait_timeout(timeout, &timeout_us) || py_core_context() == NULL)
        return NULL;
    /* a timeout of 0 still asks the node once */
    mr_status status = timeout_us == 0 ? wait_for_group(core.mr, &group, 0) : MR_TIMEOUT;
    if (!py_wait_for(wait_for_group, &group, timeout_us, &status)) return NULL;
    return status == MR_OK || status == MR_TIMEOUT ? PyBool_FromLong(status == MR_OK) : py_core_raise(status);
}

PyObject *py_placement_remove(PyObject *module, PyObject *name) {
    mr_placement_group group;
    if (!read_name(name, &group) || py_core_context() == NULL) return NULL;
    mr_placement_group_remove(core.mr, group);
    Py_RETURN_NONE;
}

PyObject *py_placement_capture(PyObject *module, PyObject *name) {
    if (!read_name(name, &core.captured)) return NULL;
    Py_RETURN_NONE;
}

bool py_placement_is_captured(void) { return (core.captured.word[0] | core.captured.word[1]) != 0; }

PyObject *py_placement_captured(PyObject *module, PyObject *none) {
    if (!py_placement_is_captured()) Py_RETURN_NONE;
    return PyBytes_FromStringAndSize((const char *)core.captured.word, sizeof core.captured.word);
}
