/* encode.h — Python objects as arguments.
 *
 * An object made of exactly the plain types (None, bool, int of 64 bits, float, str, bytes, list, tuple, dict,
 * numpy.ndarray, torch.Tensor, ObjectRef, ActorHandle) becomes a tree of mr_arg that points into the Python objects and
 * copies nothing. Anything else anywhere in it (a subclass, an enum, a big int, an object that is reached twice, a
 * nesting deeper than the runtime takes) makes the whole object a pickle: a foreign value, or, when there are
 * references or handles in it, a tuple of the foreign value and those. A plain tuple never begins with a foreign value,
 * so the two cannot be mistaken for each other.
 *
 * Ownership   the tree is borrowed from the encoder, and the objects from the caller: both until encoder_fini. The GIL
 *             is held all the while, so nobody changes them. */
#pragma once
#include "python/native/core.h"

enum { ENCODE_FORMAT_KEYWORDS = 2 }; /* a foreign value that names the arguments before it: "a\0b\0" */

typedef struct encoder_note encoder_note; /* something to be given back */

typedef struct encoder {
    uint8_t *at, *end; /* of the room that is left */
    struct encoder_chunk *chunks;
    encoder_note *notes;
    PyObject **seen; /* containers of the value at hand that others may refer to as well */
    size_t seen_count, seen_room;
    PyObject *seen_few[8];
    mr_call *call; /* whose result it is, so that weights may be lent as a copy; NULL: of none */
    bool of_model; /* inside of weights (tensor.h) */
    _Alignas(16) uint8_t first[1024];
} encoder;

void encoder_init(encoder *encoder);
void encoder_fini(encoder *encoder);

/* Each returns false with an exception. */
bool encoder_value(encoder *encoder, PyObject *object, mr_arg *out);
bool encoder_pickle(encoder *encoder, PyObject *object, mr_arg *out);  /* whatever it is made of */
bool encoder_keywords(encoder *encoder, PyObject *names, mr_arg *out); /* a tuple of str */
void *encoder_room(encoder *encoder, size_t size);                     /* likewise, of anything */
mr_arg *encoder_args(encoder *encoder, size_t count);                  /* room for so many; NULL with an exception */
