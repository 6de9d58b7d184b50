/* py_nearest_name.c — see py_nearest_name.h. */
#include "python/native/py_nearest_name.h"

PyObject *py_nearest_name(PyObject *module, PyObject *args) {
    const char *name, *found;
    PyObject *given;
    if (!PyArg_ParseTuple(args, "sO:nearest_name", &name, &given)) return NULL;
    PyObject *list = PySequence_List(given); /* keeps the texts alive */
    if (list == NULL) return NULL;
    Py_ssize_t count = PyList_GET_SIZE(list);
    const char **known = PyMem_New(const char *, (size_t)count + 1);
    for (Py_ssize_t i = 0; known != NULL && i < count; i++) {
        known[i] = PyUnicode_AsUTF8(PyList_GET_ITEM(list, i));
        if (known[i] == NULL) break;
    }
    PyObject *result = NULL;
    if (known == NULL) PyErr_NoMemory();
    if (!PyErr_Occurred()) {
        found = mr_nearest_name(name, known, (size_t)count);
        result = found == NULL ? Py_NewRef(Py_None) : PyUnicode_FromString(found);
    }
    PyMem_Free(known);
    Py_DECREF(list);
    return result;
}

PyObject *py_nearest_name_refuse(const char *function, PyObject *keyword, const char *const *known) {
    size_t count = 0;
    while (known[count] != NULL) count++;
    const char *name = PyUnicode_AsUTF8(keyword);
    const char *meant = name == NULL ? NULL : mr_nearest_name(name, known, count);
    PyErr_Clear(); /* of a name that is not UTF-8 */
    if (meant == NULL)
        return PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument '%U'", function, keyword);
    return PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument '%U'; did you mean %s?", function,
                        keyword, meant);
}
