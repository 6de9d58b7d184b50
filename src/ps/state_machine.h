/* state_machine.h — state machine interface of a slot: an operation table that the engine implements.
 *
 * The protocol knows nothing of keys, tensors and optimizers. It applies committed payloads in their order, adds up the
 * contributions of a round, shows what is asked for, and copies the whole from one server to another. The same payloads
 * in the same order give the same bytes, at every copy, on every machine.
 *
 * Payloads and requests are the engine's to understand: they come from ranks, so every length in them is checked before
 * it is used. In BSP versions are exact, and whoever is a round behind is shown the version before: values that keep
 * remember what the last `apply` changed, and can show, write and read themselves as they were before it, too.
 *
 * Norms  A round may have to know something of all slots before it is applied in any: the length of the whole gradient,
 *        say. `measure` gives this slot's part of it, and a slot that has one waits until all slots have been asked;
 *        `combine` makes one of the parts, in the order of slots. What comes of that may ask for more (the length of an
 *        update that was clipped): `measure` is asked again, with what is known so far, until it has nothing to ask,
 *  STATE_MACHINE_PHASES_MAX times at most. The parts and what is made of them are the engine's to understand. They are
 *        functions of the values, the sum and the norms before; a slot may be given norms that it did not ask for. */
#pragma once
#include "base/bytes.h"
#include "base/shared_bytes.h"

/* bytes of a part, and of what is made of parts */
enum { STATE_MACHINE_PHASES_MAX = 2, STATE_MACHINE_NORMS_MAX = 1 << 20 };

typedef struct state_machine_ops {
    const char *name;
    /* As they are before the first push; the context is the server's. `keeps`: what was before the last `apply` can be
     * shown; before the first one that is nothing. */
    void *(*create)(void *context, uint32_t slot, bool keeps);
    void (*destroy)(void *self);

    /* The optimizer; a payload that makes no sense changes nothing, and what it found is what is kept. `moment`: what
     * schedules and ages count by, the step of the push; of a round the version that it makes. */
    void (*apply)(void *self, span payload, uint64_t moment);

    /* The payload of a round: contributions added up, one after the other, in the order of ranks. */
    void *(*sum_begin)(void *context, uint32_t slot); /* of nothing */
    void (*sum_add)(void *sum, span payload);
    size_t (*sum_size)(const void *sum);
    void (*sum_write)(const void *sum, void *out); /* `sum_size` bytes */
    void (*sum_end)(void *sum);

    /* What a request asks for, in a shared buffer that was made by shared_bytes_new and holds nothing else; moved to
     * the caller. The request is that of a pull, or the payload of a push: the values of the keys that it pushes.
     * `kept`: as it was before the last `apply`. One that makes no sense is answered with no bytes. Nothing that
     * anybody could see changes. */
    shared_bytes *(*show)(void *self, span request, bool kept);

    /* The whole, with what is kept. */
    size_t (*size)(const void *self);
    void (*write)(const void *self, void *out); /* `size` bytes */
    bool (*read)(void *self, span bytes);       /* false: these are not values; nothing changed */

    /* Norms; all three are NULL, or none. This slot's part, of a sum that `apply_normed` is about to be given, with the
     * norms that are known, one behind the other; moved to the caller. NULL: nothing more has to be known. Nothing that
     * anybody could see changes. */
    shared_bytes *(*measure)(void *self, span sum, span norms, uint64_t moment);
    shared_bytes *(*combine)(void *context, const span *parts, size_t count); /* by slot; of no bytes: it has none */
    void (*apply_normed)(void *self, span sum, span norms, uint64_t moment);

    /* A push may speak of bytes that lie elsewhere and are there while it is taken. `now`: the next `apply` is that of
     * this push, and may read them; no other may. Else *own is the push with those bytes in it, moved to the caller;
     * NULL: it speaks of none. False: they are not there, and it cannot be taken. NULL: pushes speak of nothing. */
    bool (*settle)(void *context, span payload, bool now, shared_bytes **own);
} state_machine_ops;
