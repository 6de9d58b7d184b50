/* py_wait.c — see py_wait.h. */
#include "python/native/py_wait.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include "python/native/py_decode.h"
#include "python/native/py_nearest_name.h"
#include "python/native/py_ref.h"
#include "python/native/py_wait_cause.h"

#define NEVER INT64_MAX

static int64_t now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int64_t py_wait_deadline_us(double seconds) { return seconds < 1e9 ? now_us() + (int64_t)(seconds * 1e6) : NEVER; }

int64_t py_wait_left_us(int64_t deadline_us, int64_t most_us) {
    if (deadline_us == NEVER) return most_us;
    int64_t left = deadline_us - now_us();
    return left <= 0 ? 0 : left < most_us ? left : most_us;
}

bool py_wait_timeout(PyObject *timeout, int64_t *timeout_us) {
    *timeout_us = MR_FOREVER;
    if (timeout == NULL || timeout == Py_None) return true;
    double seconds = PyFloat_AsDouble(timeout);
    if (seconds == -1 && PyErr_Occurred()) {
        if (PyErr_ExceptionMatches(PyExc_TypeError))
            PyErr_Format(PyExc_TypeError, "timeout must be a number of seconds or None, not %s",
                         Py_TYPE(timeout)->tp_name);
        return false;
    }
    if (!(seconds >= 0))
        return PyErr_Format(PyExc_ValueError, "timeout is %R: it must be a number of seconds, at least 0, or None",
                            timeout) != NULL;
    if (seconds < 1e9) *timeout_us = (int64_t)(seconds * 1e6);
    return true;
}

/* ---- Signals.
 *
 * Python's handler in C notes a signal and writes a byte to the wake-up descriptor, on any thread. In a long wait of
 * the main thread that descriptor is a pipe of this file, which interrupts the wait in the runtime (mr_on_interrupt),
 * so no signal is missed between the last check and the sleep. The bytes then go to the descriptor of the program:
 * asyncio has one. */

static struct signals {
    int fds[2];             /* pipe, not blocking; both 0: not made yet */
    bool answers;           /* the present wait is one of py_wait_for */
    bool watched;           /* the pipe is the wake-up descriptor */
    int program_fd;         /* wake-up descriptor of the program, meanwhile; -1: none */
    PyObject *set;          /* owned: signal.set_wakeup_fd; NULL: not looked up yet */
    unsigned long main;     /* the main thread; 0: not looked up yet */
    uint64_t registered_at; /* generation of the context with mr_on_interrupt; 0: none */
} signals;

/* Returns the previous descriptor, also while an exception is set. */
static int set_wakeup(int fd) {
    PyObject *type, *error, *traceback;
    PyErr_Fetch(&type, &error, &traceback);
    PyObject *quiet = Py_BuildValue("{sO}", "warn_on_full_buffer", Py_False), *args = Py_BuildValue("(i)", fd);
    PyObject *before = quiet == NULL || args == NULL ? NULL : PyObject_Call(signals.set, args, quiet);
    int result = before == NULL ? -1 : (int)PyLong_AsLong(before);
    if (PyErr_Occurred()) PyErr_WriteUnraisable(signals.set);
    Py_XDECREF(before);
    Py_XDECREF(args);
    Py_XDECREF(quiet);
    PyErr_Restore(type, error, traceback);
    return result;
}

void py_wait_forked(void) {
    if (signals.watched) (void)set_wakeup(signals.program_fd);
    for (int i = 0; i < 2 && signals.fds[1] != 0; i++) close(signals.fds[i]); /* the parent process uses the pipe */
    signals = (struct signals){.set = signals.set};
}

/* True if this thread runs handlers of signals; false with or without an exception. */
static bool is_main_thread(void) {
    unsigned long self = PyThread_get_thread_ident();
    if (signals.main != 0) return signals.main == self;
    PyObject *threading = PyImport_ImportModule("threading");
    PyObject *thread = threading == NULL ? NULL : PyObject_CallMethod(threading, "main_thread", NULL);
    PyObject *number = thread == NULL ? NULL : PyObject_GetAttrString(thread, "ident");
    if (number != NULL) signals.main = PyLong_AsUnsignedLong(number);
    Py_XDECREF(number);
    Py_XDECREF(thread);
    Py_XDECREF(threading);
    return !PyErr_Occurred() && signals.main == self;
}

static void take_wakeup(void) {
    int before = set_wakeup(signals.fds[1]);
    if (before != signals.fds[1]) signals.program_fd = before;
    signals.watched = true;
}

static void end_signals(void) {
    char bytes[256];
    ssize_t size;
    signals.watched = false;
    (void)set_wakeup(signals.program_fd);
    while ((size = read(signals.fds[0], bytes, sizeof bytes)) > 0)
        if (signals.program_fd >= 0 && write(signals.program_fd, bytes, (size_t)size) < 0) continue; /* it is full */
}

/* Called before a long wait, and at each signal during the wait: runs the handlers of earlier signals, and makes later
 * ones interrupt the wait. True: the wait ends, since a handler has raised an exception or ended the runtime. */
static bool interrupted(void *user) {
    if (!signals.answers) return false;
    PyGILState_STATE gil = PyGILState_Ensure();
    uint64_t generation = core.generation;
    core.waiting--;
    signals.answers = false;
    if (signals.watched) end_signals();
    take_wakeup();
    bool over = PyErr_CheckSignals() != 0 || core.generation != generation;
    take_wakeup(); /* a handler may have waited, or set another descriptor */
    signals.answers = true;
    core.waiting++;
    PyGILState_Release(gil);
    return over;
}

static bool find_set(void) {
    PyObject *module = PyImport_ImportModule("_signal"); /* importing signal takes milliseconds */
    if (module != NULL) signals.set = PyObject_GetAttrString(module, "set_wakeup_fd");
    Py_XDECREF(module);
    return signals.set != NULL;
}

/* Prepares a wait of the main thread. False with an exception. */
static bool watch_signals(mr_context *mr) {
    if (signals.registered_at == core.generation) return true;
    if (signals.set == NULL && !find_set()) return false;
    if (signals.fds[1] == 0 && pipe2(signals.fds, O_CLOEXEC | O_NONBLOCK) != 0) {
        signals.fds[1] = 0;
        return PyErr_SetFromErrno(PyExc_OSError) != NULL;
    }
    mr_status status = mr_on_interrupt(mr, signals.fds[0], interrupted, NULL);
    if (status != MR_OK) return py_core_raise(status) != NULL;
    signals.registered_at = core.generation;
    return true;
}

bool py_wait_for(py_wait_fn wait, void *what, int64_t timeout_us, mr_status *status) {
    if (timeout_us == 0) return true;
    mr_context *mr = core.mr;
    uint64_t generation = core.generation;
    bool answers = is_main_thread();
    if (PyErr_Occurred() || (answers && !watch_signals(mr))) return false;
    signals.answers |= answers;
    PY_CORE_WAIT(*status = wait(mr, what, timeout_us));
    if (answers) signals.answers = false;
    if (answers && signals.watched) end_signals();
    if (PyErr_Occurred()) return false;
    if (core.generation == generation) return true;
    return PyErr_Format(PyExc_RuntimeError, "miniray was shut down while this thread waited") != NULL;
}

PyObject *py_wait_raise(mr_context *mr, mr_ref ref, mr_status status) {
    PyObject *detail = PyBytes_FromStringAndSize(NULL, MR_DETAIL_MAX);
    PyObject *text = PyUnicode_DecodeUTF8(mr_last_error(), (Py_ssize_t)strlen(mr_last_error()), "replace");
    size_t size = 0;
    if (detail != NULL && mr_failure_detail(mr, ref, PyBytes_AS_STRING(detail), MR_DETAIL_MAX, &size) != MR_OK)
        size = 0;
    if (detail != NULL) _PyBytes_Resize(&detail, (Py_ssize_t)size);
    if (detail != NULL && text != NULL)
        Py_XDECREF(py_core_call(PY_CORE_raise_failure, "(iOO)", (int)status, text, detail));
    Py_XDECREF(detail);
    Py_XDECREF(text);
    return NULL;
}

static bool is_generator(PyObject *object) { return PyObject_HasAttrString(object, "_peek"); }

typedef struct wanted {
    mr_ref ref;
    mr_value value;
} wanted;

static mr_status get_wanted(mr_context *mr, void *what, int64_t timeout_us) {
    wanted *wanted = what;
    return mr_get(mr, wanted->ref, timeout_us, &wanted->value);
}

/* The references of a list from the first pending one on: the wait for them ends when one of them fails. */
typedef struct rest {
    PyObject *list; /* borrowed */
    Py_ssize_t first;
    bool waited;
} rest;

typedef struct all {
    mr_ref *refs;
    size_t count, failed;
} all;

static mr_status wait_for_all(mr_context *mr, void *what, int64_t timeout_us) {
    all *all = what;
    return mr_wait_all(mr, all->refs, all->count, timeout_us, &all->failed);
}

static bool read_all(PyObject *items, all *all) {
    all->count = (size_t)PyList_GET_SIZE(items);
    all->refs = PyMem_Malloc((all->count + 1) * sizeof *all->refs);
    if (all->refs == NULL) return PyErr_NoMemory() != NULL;
    for (size_t i = 0; i < all->count; i++) {
        PyObject *object = PyList_GET_ITEM(items, (Py_ssize_t)i);
        if (!py_ref_usable(object)) return false;
        all->refs[i] = ((struct py_ref *)object)->ref;
    }
    return true;
}

static PyObject *raise_of(PyObject *object, mr_status status) {
    py_wait_raise(core.mr, ((struct py_ref *)object)->ref, status);
    py_ref_name_actor(object);
    return NULL;
}

/* With the exception of a wait for all: the first of them that is pending is the one to explain. */
static void explain(const all *all, const py_wait_begun *begun) {
    unsigned char *ready = malloc(all->count);
    size_t count = 0, first = 0;
    if (core.mr == NULL || core.generation != begun->generation || ready == NULL ||
        mr_wait(core.mr, all->refs, all->count, 0, 0, ready, &count) != MR_OK)
        first = all->count;
    while (first < all->count && ready[first] != 0) first++;
    if (first < all->count) py_wait_cause_add(begun, all->refs[first]);
    free(ready);
}

/* Waits until the rest of a list is ready. False with an exception, also of the first object that has failed. */
static bool wait_for_rest(rest *rest, int64_t timeout_us, mr_status *status) {
    PyObject *items = PyList_GetSlice(rest->list, rest->first, PY_SSIZE_T_MAX); /* another thread may change the list */
    all all = {0};
    rest->waited = true;
    const py_wait_begun begun = py_wait_cause_begin();
    bool fine = items != NULL && read_all(items, &all);
    if (fine && !py_wait_for(wait_for_all, &all, timeout_us, status)) {
        explain(&all, &begun);
        fine = false;
    }
    if (fine && *status == MR_OK && all.failed < all.count) {
        mr_value value;
        *status = mr_get(core.mr, all.refs[all.failed], 0, &value);
        fine = raise_of(PyList_GET_ITEM(items, (Py_ssize_t)all.failed), *status) != NULL;
    }
    PyMem_Free(all.refs);
    Py_XDECREF(items);
    return fine;
}

/* `rest`: the object is its first one; NULL: it is in no list. */
static bool wait_for_one(wanted *wanted, rest *rest, int64_t timeout_us, mr_status *status) {
    if (rest == NULL || rest->waited) {
        const py_wait_begun begun = py_wait_cause_begin();
        bool fine = py_wait_for(get_wanted, wanted, timeout_us, status);
        if (!fine) py_wait_cause_add(&begun, wanted->ref);
        return fine;
    }
    if (!wait_for_rest(rest, timeout_us, status)) return false;
    if (*status == MR_OK) *status = mr_get(core.mr, wanted->ref, 0, &wanted->value);
    return true;
}

static PyObject *get_one(PyObject *object, int64_t timeout_us, rest *rest) {
    if (!py_ref_check(object) && is_generator(object)) return Py_NewRef(object); /* its references are ready */
    if (!py_ref_check(object)) return py_core_call(PY_CORE_no_ref, "(sOn)", "get", object, (Py_ssize_t)-1);
    if (!py_ref_usable(object)) return NULL;
    wanted wanted = {.ref = ((struct py_ref *)object)->ref};
    mr_status status = mr_get(core.mr, wanted.ref, 0, &wanted.value);
    if (status == MR_TIMEOUT && timeout_us != 0 && !wait_for_one(&wanted, rest, timeout_us, &status)) return NULL;
    return status == MR_OK ? py_decode_owned(&wanted.value) : raise_of(object, status);
}

/* Marks other failed objects of the list as read after one has failed and its error is raised. */
static void look_at_rest(PyObject *list, Py_ssize_t first) {
    if (PyErr_ExceptionMatches(PyExc_TimeoutError)) return; /* not known to be a failure */
    for (Py_ssize_t i = first; core.mr != NULL && i < PyList_GET_SIZE(list); i++) {
        PyObject *object = PyList_GET_ITEM(list, i);
        mr_value value;
        if (py_ref_check(object) && mr_get(core.mr, ((struct py_ref *)object)->ref, 0, &value) == MR_OK)
            mr_value_release(&value);
    }
}

static PyObject *get_list(PyObject *list, int64_t timeout_us) {
    Py_ssize_t count = PyList_GET_SIZE(list);
    for (Py_ssize_t i = 0; i < count; i++)
        if (!py_ref_check(PyList_GET_ITEM(list, i)))
            return py_core_call(PY_CORE_no_ref, "(sOn)", "get", PyList_GET_ITEM(list, i), i);
    PyObject *values = PyList_New(count);
    rest rest = {.list = list};
    for (Py_ssize_t i = 0; values != NULL && i < count && i < PyList_GET_SIZE(list); i++) {
        rest.first = i;
        PyObject *ref = Py_NewRef(PyList_GET_ITEM(list, i)), *value = get_one(ref, timeout_us, &rest);
        Py_DECREF(ref);
        if (value == NULL) {
            look_at_rest(list, i + 1);
            Py_CLEAR(values);
        } else {
            PyList_SET_ITEM(values, i, value);
        }
    }
    return values;
}

/* Whether the runtime runs; starts it if needed. A reference, or a list that begins with one, does not start a runtime,
 * since it belongs to one that has ended. */
static bool has_runtime(PyObject *wanted) {
    if (core.mr != NULL) return true;
    if (PyList_Check(wanted) && PyList_GET_SIZE(wanted) > 0) wanted = PyList_GET_ITEM(wanted, 0);
    return (!py_ref_check(wanted) || py_ref_usable(wanted)) && py_core_context() != NULL;
}

PyObject *py_wait_get(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *names) {
    PyObject *timeout = NULL, *wanted = count > 0 ? args[0] : NULL;
    int64_t timeout_us;
    for (Py_ssize_t i = 0; names != NULL && i < PyTuple_GET_SIZE(names); i++) {
        PyObject *name = PyTuple_GET_ITEM(names, i);
        if (count == 0 && PyUnicode_CompareWithASCIIString(name, "object_refs") == 0)
            wanted = args[count + i];
        else if (PyUnicode_CompareWithASCIIString(name, "timeout") == 0)
            timeout = args[count + i];
        else
            return py_nearest_name_refuse("get", name, (const char *const[]){"object_refs", "timeout", NULL});
    }
    if (count > 1 || wanted == NULL)
        return PyErr_Format(
            PyExc_TypeError,
            "get() takes one positional argument, the ObjectRef or a list, not %zd; timeout is a keyword", count);
    if (!py_wait_timeout(timeout, &timeout_us) || !has_runtime(wanted)) return NULL;
    return PyList_Check(wanted) ? get_list(wanted, timeout_us) : get_one(wanted, timeout_us, NULL);
}

/* ---- wait */

typedef struct many {
    PyObject *list; /* borrowed */
    PyObject *kept; /* owned: next references of the generators in the list; NULL: none */
    size_t count, want;
    mr_ref *refs;
    unsigned char *ready;
    size_t ready_count;
} many;

/* The reference of item `at` of the list, borrowed; NULL with an exception. */
static PyObject *read_ref(size_t at, many *many) {
    PyObject *object = PyList_GET_ITEM(many->list, (Py_ssize_t)at);
    if (py_ref_check(object)) return object;
    if (!is_generator(object)) return py_core_call(PY_CORE_no_ref, "(sOn)", "wait", object, (Py_ssize_t)at);
    if (many->kept == NULL && (many->kept = PyList_New(0)) == NULL) return NULL;
    PyObject *next = PyObject_CallMethod(object, "_peek", NULL);
    if (next != NULL && PyList_Append(many->kept, next) != 0) Py_CLEAR(next);
    Py_XDECREF(next);
    return next;
}

static bool read_refs(PyObject *list, many *many) {
    many->count = (size_t)PyList_GET_SIZE(list);
    many->list = list;
    many->refs = PyMem_Malloc((many->count + 1) * (sizeof *many->refs + 1));
    if (many->refs == NULL) return PyErr_NoMemory() != NULL;
    many->ready = (unsigned char *)(many->refs + many->count);
    PyObject *distinct = PySet_New(list);
    if (distinct == NULL) return false;
    bool once = (size_t)PySet_GET_SIZE(distinct) == many->count;
    Py_DECREF(distinct);
    if (!once)
        PyErr_Format(PyExc_ValueError, "wait() got a list of %zu references in which one is repeated: pass each once",
                     many->count);
    for (size_t i = 0; once && i < many->count; i++) {
        PyObject *object = read_ref(i, many);
        if (object == NULL || !py_ref_usable(object)) return false;
        many->refs[i] = ((struct py_ref *)object)->ref;
    }
    return once;
}

static mr_status py_wait_for_many(mr_context *mr, void *what, int64_t timeout_us) {
    many *many = what;
    return mr_wait(mr, many->refs, many->count, many->want, timeout_us, many->ready, &many->ready_count);
}

/* Returns ([ready], [not ready]) in the order of the list; at most `want` are ready. */
static PyObject *two_lists(const many *many) {
    PyObject *ready = PyList_New(0), *rest = PyList_New(0), *both = NULL;
    size_t taken = 0;
    for (size_t i = 0; ready != NULL && rest != NULL && i < many->count; i++) {
        bool take = many->ready[i] != 0 && taken < many->want;
        taken += take;
        if (PyList_Append(take ? ready : rest, PyList_GET_ITEM(many->list, (Py_ssize_t)i)) != 0) Py_CLEAR(ready);
    }
    if (ready != NULL && rest != NULL) both = PyTuple_Pack(2, ready, rest);
    Py_XDECREF(ready);
    Py_XDECREF(rest);
    return both;
}

static PyObject *py_wait_many(PyObject *list, Py_ssize_t want, int64_t timeout_us) {
    many many = {.want = (size_t)want};
    PyObject *both = NULL;
    if (read_refs(list, &many)) {
        mr_status status = py_wait_for_many(core.mr, &many, 0);
        if (status != MR_TIMEOUT || py_wait_for(py_wait_for_many, &many, timeout_us, &status))
            both = status == MR_OK || status == MR_TIMEOUT ? two_lists(&many) : py_core_raise(status);
    }
    PyMem_Free(many.refs);
    Py_XDECREF(many.kept);
    return both;
}

PyObject *py_wait_wait(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *names) {
    enum { WANT, TIMEOUT, LOCAL, REFS, WAITABLES, KNOWN }; /* the last two have the same meaning */
    static const char *const known[] = {"num_returns", "timeout", "fetch_local", "object_refs", "ray_waitables", NULL};
    PyObject *given[KNOWN] = {NULL};
    for (Py_ssize_t i = 0; names != NULL && i < PyTuple_GET_SIZE(names); i++) {
        size_t at = 0;
        while (at < KNOWN && PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, i), known[at]) != 0) at++;
        if (at == KNOWN || (at >= REFS && count > 0))
            return py_nearest_name_refuse("wait", PyTuple_GET_ITEM(names, i), known);
        given[at] = args[count + i];
    }
    PyObject *list = count > 0 ? args[0] : given[REFS] != NULL ? given[REFS] : given[WAITABLES];
    if (count > 1 || list == NULL)
        return PyErr_Format(PyExc_TypeError,
                            "wait() takes one positional argument, the list of ObjectRefs, not %zd; num_returns and "
                            "timeout are keywords",
                            count);
    if (!PyList_Check(list)) return py_core_call(PY_CORE_no_ref, "(sOn)", "wait", list, (Py_ssize_t)-1);
    Py_ssize_t want = given[WANT] == NULL ? 1 : PyNumber_AsSsize_t(given[WANT], PyExc_OverflowError);
    int64_t timeout_us;
    if (want == -1 && PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_TypeError))
        return PyErr_Format(PyExc_TypeError, "wait(): num_returns must be a whole number, not %R", given[WANT]);
    if ((want == -1 && PyErr_Occurred()) || !py_wait_timeout(given[TIMEOUT], &timeout_us) || !has_runtime(list))
        return NULL;
    if (want <= 0) return PyErr_Format(PyExc_ValueError, "wait(): num_returns is %zd: it must be at least 1", want);
    if (PyList_GET_SIZE(list) == 0) return Py_BuildValue("([][])");
    if (want > PyList_GET_SIZE(list))
        return PyErr_Format(PyExc_ValueError,
                            "wait(): num_returns is %zd, but the list has only %zd: wait for at most that many", want,
                            PyList_GET_SIZE(list));
    return py_wait_many(list, want, timeout_us);
}
