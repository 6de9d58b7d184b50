/* py_stack.c — see py_stack.h. */
#include "python/native/py_stack.h"

#include <string.h>

/* Copies the last characters that fit as a whole, since the innermost frames are at the end. */
static size_t copy_end(const char *text, size_t length, char *out, size_t size) {
    size_t skip = length > size ? length - size : 0;
    while (skip > 0 && skip < length && ((unsigned char)text[skip] & 0xC0) == 0x80) skip++;
    memcpy(out, text + skip, length - skip);
    return length - skip;
}

size_t py_stack_describe(void *user, char *out, size_t size) {
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *text = py_core_call(PY_CORE_stacks, "()");
    Py_ssize_t length = 0;
    const char *bytes = text == NULL ? NULL : PyUnicode_AsUTF8AndSize(text, &length);
    size_t used = bytes == NULL ? 0 : copy_end(bytes, (size_t)length, out, size);
    if (bytes == NULL) PyErr_WriteUnraisable(core.helpers[PY_CORE_stacks]);
    Py_XDECREF(text);
    PyGILState_Release(gil);
    return used;
}
