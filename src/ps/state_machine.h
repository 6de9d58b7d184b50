/* state_machine.h — state machine interface of a slot: an operation table that the engine implements.
 *
 * The protocol knows nothing of keys, tensors and optimizers. The protocol applies committed payloads in their order,
 * adds up the contributions of a round, answers queries, and copies the whole state from one server to another. The
 * same payloads in the same order give the same bytes, at every replica, on every machine.
 *
 * Only the engine interprets payloads and queries: they come from ranks, so every length in them is checked before it
 * is used. In BSP versions are exact, and a rank that is a round behind gets the version before: values made with
 * `keeps` remember the changes of the last `apply`, and can show, write and read themselves as they were before it.
 *
 * Norms  A round may need a value over all slots before it is applied in any: for example, the length of the whole
 *        gradient. `measure` gives this slot's part of the value, and a slot that has one waits until all slots have
 *        been asked; `combine` makes one value of the parts, in the order of slots. The result may need a further phase
 *        (the length of an update that was clipped): `measure` is called again, with the norms known so far, until it
 *        returns NULL, STATE_MACHINE_PHASES_MAX times at most. Only the engine interprets parts and norms. They are
 *        functions of the values, the sum and the norms before; a slot may get norms that it did not ask for. */
#pragma once
#include "base/bytes.h"
#include "base/shared_bytes.h"

/* NORMS_MAX: bytes of a part, and of combined parts */
enum { STATE_MACHINE_PHASES_MAX = 2, STATE_MACHINE_NORMS_MAX = 1 << 20 };

typedef struct state_machine_ops {
    const char *name;
    /* Creates the values before the first push, with the server's context. `keeps`: the state before the last `apply`
     * can be shown; before the first `apply` that is the empty state. */
    void *(*create)(void *context, uint32_t slot, bool keeps);
    void (*destroy)(void *self);

    /* Runs the optimizer; a malformed payload changes nothing, and the unchanged state becomes the kept one.
     * `moment`: clock of schedules and ages: the step of the push, or the version that a round makes. */
    void (*apply)(void *self, span payload, uint64_t moment);

    /* The payload of a round: contributions added up one after the other, in the order of ranks. `self`: the values
     * that get the sum, borrowed until `sum_end`. */
    void *(*sum_begin)(const void *self); /* an empty sum */
    void (*sum_add)(void *sum, span payload);
    size_t (*sum_size)(const void *sum);
    void (*sum_write)(const void *sum, void *out); /* `sum_size` bytes */
    void (*sum_end)(void *sum);

    /* Returns the answer to a request in a new shared buffer without other references; the caller owns it. The
     * request is the query of a pull, or the payload of a push: the values of the keys that it pushes. `kept`: the
     * state before the last `apply`. The answer to a malformed request is empty; any answer has at most
     * SLOT_MESSAGE_PAYLOAD_MAX bytes (slot_message.h). Nothing observable changes. */
    shared_bytes *(*show)(void *self, span request, bool kept);

    /* Encoding of the whole state, with the kept one. */
    size_t (*size)(const void *self);
    void (*write)(const void *self, void *out); /* `size` bytes */
    /* `size` bytes, for a checkpoint: after `read` of them everything shows the state before the last `apply`, and so
     * does the kept state. The next `apply`, which repeats the last one, leads to the present state. */
    void (*write_kept)(const void *self, void *out);
    bool (*read)(void *self, span bytes); /* false: malformed, and nothing changed */

    /* Norms: all three are set, or all are NULL. `measure`: this slot's part, for a sum that `apply_normed` is about
     * to get; `norms`: the known norms, one after the other. The caller owns the part. NULL: no further norm is
     * needed. Nothing observable changes. */
    shared_bytes *(*measure)(void *self, span sum, span norms, uint64_t moment);
    /* `parts` by slot; an empty one: the slot has none */
    shared_bytes *(*combine)(void *context, const span *parts, size_t count);
    void (*apply_normed)(void *self, span sum, span norms, uint64_t moment);

    /* A push may refer to bytes outside its payload, which exist while the push is taken. `now`: the next `apply` is
     * that of this push, and only it may read those bytes. Otherwise *own is the push with the bytes included, owned
     * by the caller; NULL: the push has no reference. False: the bytes are gone, and the push cannot be taken.
     * `settle` NULL: pushes never have references. */
    bool (*settle)(void *context, span payload, bool now, shared_bytes **own);
} state_machine_ops;
