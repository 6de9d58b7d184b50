/* py_encode.h — Python objects as arguments.
 *
 * An object made of exactly the plain types (None, bool, int of 64 bits, float, str, bytes, list, tuple, dict,
 * numpy.ndarray, torch.Tensor, ObjectRef, ActorHandle) becomes a tree of mr_arg that points into the Python objects and
 * copies nothing. Anything else anywhere in it (a subclass, an enum, a big int, an object that is reached twice, a
 * nesting deeper than the runtime takes) makes the whole object a pickle: a custom value, or, when there are
 * references or handles in it, a tuple of the custom value and those. A plain tuple never begins with a custom value,
 * so the two cannot be mistaken for each other.
 *
 * Ownership  the tree is borrowed from the encoder, and the objects from the caller: both until py_encoder_fini. While
 *             the GIL is held no other thread changes them. Where there is much to copy, or the runtime may wait,
 *          py_encoder_release lets other threads run: it first takes a reference to every object that the tree points
 *             into, so that a thread which empties a list meanwhile frees nothing. */
#pragma once
#include "python/native/py_internal.h"

/* least bytes for which the GIL is released: the runtime copies them into the store, and may wait for memory there */
enum { PY_ENCODER_MUCH = 64 * 1024 };
enum { ENCODE_FORMAT_KEYWORDS = 2 }; /* format of a custom value with the names of the arguments before it: "a\0b\0" */

typedef struct py_encoder_note py_encoder_note; /* an object or view to be released */

typedef struct py_encoder {
    uint8_t *at, *end; /* the free room */
    struct py_encoder_chunk *chunks;
    py_encoder_note *notes;
    PyObject **seen; /* containers of the present value that have several references */
    size_t seen_count, seen_room;
    PyObject *seen_few[8];
    mr_call *call;    /* call whose result is encoded, so that weights may be exported as a copy; NULL: none */
    bool of_model;    /* inside weights (py_torch.h) */
    size_t bytes;     /* estimated size of the values; decides whether the store is used */
    PyObject *pinned; /* owned: list of objects kept until py_encoder_fini; NULL: none */
    _Alignas(16) uint8_t first[1024];
} py_encoder;

void py_encoder_init(py_encoder *encoder);
void py_encoder_fini(py_encoder *encoder);

/* Each returns false with an exception. */
bool py_encoder_value(py_encoder *encoder, PyObject *object, mr_arg *out);
bool py_encoder_keywords(py_encoder *encoder, PyObject *names, mr_arg *out); /* a tuple of str */
void *py_encoder_room(py_encoder *encoder, size_t size);                     /* a tuple of any objects */
/* room for `count` arguments; NULL with an exception */
mr_arg *py_encoder_args(py_encoder *encoder, size_t count);

/* Whether other threads should run while that many bytes are copied. */
static inline bool py_encoder_is_much(size_t bytes) { return bytes >= PY_ENCODER_MUCH; }

/* Called before a call into the runtime that reads these arguments, which were made from these objects: other
 * threads run until py_encoder_regain. The runtime is not shut down meanwhile. False with an exception; the GIL is
 * then kept. */
typedef struct py_encoder_away {
    PyThreadState *thread;
    uint64_t generation; /* generation of the context */
} py_encoder_away;
bool py_encoder_release(py_encoder *encoder, PyObject *const *objects, const mr_arg *args, size_t count,
                        py_encoder_away *out);
/* false with an exception: another thread has shut the runtime down */
bool py_encoder_regain(const py_encoder_away *away);

/* Puts the value of this object, with other threads running if the value is large. MR_INVALID with an exception: see
 * above. */
mr_status py_encoder_put(py_encoder *encoder, PyObject *object, const mr_arg *arg, bool much, mr_ref *out);
/* Puts an argument, and replaces it by the future of the put object, held until py_encoder_fini. False with an
 * exception. */
bool py_encoder_put_argument(py_encoder *encoder, PyObject *object, mr_arg *arg);
