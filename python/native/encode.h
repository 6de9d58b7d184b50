/* encode.h — Python objects as arguments.
 *
 * An object made of exactly the plain types (None, bool, int of 64 bits, float, str, bytes, list, tuple, dict,
 * numpy.ndarray, torch.Tensor, ObjectRef, ActorHandle) becomes a tree of mr_arg that points into the Python objects and
 * copies nothing. Anything else anywhere in it (a subclass, an enum, a big int, an object that is reached twice, a
 * nesting deeper than the runtime takes) makes the whole object a pickle: a custom value, or, when there are
 * references or handles in it, a tuple of the custom value and those. A plain tuple never begins with a custom value,
 * so the two cannot be mistaken for each other.
 *
 * Ownership   the tree is borrowed from the encoder, and the objects from the caller: both until encoder_fini. While
 *             the GIL is held no other thread changes them. Where there is much to copy, or the runtime may wait,
 *             encoder_release lets other threads run: it first takes a reference to every object that the tree points
 *             into, so that a thread which empties a list meanwhile frees nothing. */
#pragma once
#include "python/native/core.h"

enum { ENCODER_MUCH = 64 * 1024 }; /* the runtime copies as many bytes into the store, and may wait for memory there */
enum { ENCODE_FORMAT_KEYWORDS = 2 }; /* a custom value that names the arguments before it: "a\0b\0" */

typedef struct encoder_note encoder_note; /* something to be given back */

typedef struct encoder {
    uint8_t *at, *end; /* of the room that is left */
    struct encoder_chunk *chunks;
    encoder_note *notes;
    PyObject **seen; /* containers of the value at hand that others may refer to as well */
    size_t seen_count, seen_room;
    PyObject *seen_few[8];
    mr_call *call;    /* whose result it is, so that weights may be lent as a copy; NULL: of none */
    bool of_model;    /* inside of weights (tensor.h) */
    size_t bytes;     /* that the values take, about: what decides whether they are copied into the store */
    PyObject *pinned; /* owned: a list of objects that are to stay until the end; NULL: none */
    _Alignas(16) uint8_t first[1024];
} encoder;

void encoder_init(encoder *encoder);
void encoder_fini(encoder *encoder);

/* Each returns false with an exception. */
bool encoder_value(encoder *encoder, PyObject *object, mr_arg *out);
bool encoder_keywords(encoder *encoder, PyObject *names, mr_arg *out); /* a tuple of str */
void *encoder_room(encoder *encoder, size_t size);                     /* likewise, of anything */
mr_arg *encoder_args(encoder *encoder, size_t count);                  /* room for so many; NULL with an exception */

/* Whether these bytes are worth letting other threads run while they are copied. */
static inline bool encoder_is_much(size_t bytes) { return bytes >= ENCODER_MUCH; }

/* Before a call into the runtime that reads these arguments, which were made of these objects: other threads run until
 * encoder_regain. The runtime is not shut down meanwhile. False with an exception, and the GIL is kept. */
typedef struct encoder_away {
    PyThreadState *thread;
    uint64_t generation; /* of the context */
} encoder_away;
bool encoder_release(encoder *encoder, PyObject *const *objects, const mr_arg *args, size_t count, encoder_away *out);
bool encoder_regain(const encoder_away *away); /* false with an exception: another thread has shut the runtime down */

/* Puts the value of this object, with other threads running if it is much. MR_INVALID with an exception: see above. */
mr_status encoder_put(encoder *encoder, PyObject *object, const mr_arg *arg, bool much, mr_ref *out);
/* The same for an argument, which becomes the future of what was put, held until encoder_fini. False likewise. */
bool encoder_put_argument(encoder *encoder, PyObject *object, mr_arg *arg);
