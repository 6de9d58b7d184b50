/* values.h — what a slot holds, through an operation table: the place where an engine comes in.
 *
 * The protocol knows nothing of keys, tensors and optimizers. It applies committed payloads in their order, adds up the
 * contributions of a round, and copies the whole from one server to another. The same payloads in the same order give
 * the same bytes, at every copy, on every machine. */
#pragma once
#include "base/bytes.h"

typedef struct values_ops {
    const char *name;
    void *(*create)(void *context, uint32_t slot); /* as they are before the first push; the context is the server's */
    void (*destroy)(void *self);

    void (*apply)(void *self, span payload); /* the optimizer; a payload that makes no sense changes nothing */

    /* The payload of a round: contributions added up, one after the other, in the order of ranks. */
    void *(*sum_begin)(uint32_t slot); /* of nothing */
    void (*sum_add)(void *sum, span payload);
    size_t (*sum_size)(const void *sum);
    void (*sum_write)(const void *sum, void *out); /* `sum_size` bytes */
    void (*sum_end)(void *sum);

    size_t (*size)(const void *self);
    void (*write)(const void *self, void *out); /* `size` bytes */
    bool (*read)(void *self, span bytes);       /* false: these are not values; nothing changed */
} values_ops;
