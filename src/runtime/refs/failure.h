/* failure.h — failure of a task, a call or an object: a code, a message, an origin, and a chain of causes.
 *
 * A failure is encoded into the answer of a call, kept in the result object, and passed on to everything that waited
 * for the object, each adding itself in front. Shared; counted with the context's lock held. */
#pragma once
#include "base/bytes.h"
#include "miniray/status.h"
#include "runtime/refs/value_pack.h"

enum { FAILURE_CHAIN_MAX = 16, FAILURE_TOLD_MAX = 6, FAILURE_TEXT_MAX = 4096, FAILURE_DETAIL_MAX = 32 * 1024 };

typedef struct failure {
    uint32_t refs;
    mr_status code;
    char *message, *origin; /* owned: "division by zero", "task 'divide' in process 4711" */
    struct failure *cause;  /* shared; NULL: the first cause */
    uint8_t *detail;        /* owned: bytes of the program that failed, such as an exception; NULL: none */
    size_t detail_size;
} failure;

/* Takes over the reference to the cause (NULL: none). Texts are copied, without their middle above
 * FAILURE_TEXT_MAX. */
failure *failure_create(mr_status code, const char *message, const char *origin, failure *cause);
static inline failure *failure_ref(failure *failure) {
    failure->refs++;
    return failure;
}
failure *failure_without_origin(const failure *failure); /* a copy, with the same cause and detail */
void failure_unref(failure *failure);                    /* NULL is a no-op */

/* Copies the detail, unless it is empty or larger than FAILURE_DETAIL_MAX. Once, before the failure is shared. */
void failure_attach(failure *failure, span detail);
span failure_detail(const failure *failure); /* detail of the first in the chain that has one; borrowed; empty: none */

size_t failure_encoded_size(const failure *failure);
void failure_encode(const failure *failure, writer *writer);
MR_MUST mr_status failure_decode(reader *reader, failure **out); /* MR_CORRUPT */

/* A value pack of one value: the failure as an error, with its chain. MR_NOMEM. */
MR_MUST mr_status failure_pack(const failure *failure, value_pack **out);

/* Whether the actor or worker died (MR_ERRORS_PASS_DEATHS), instead of the body failing. */
static inline bool failure_is_death(mr_status code) { return code == MR_ACTOR_DIED || code == MR_WORKER_DIED; }

/* "task 'divide' in process 4711: division by zero, because …". A text that is too long loses its middle. */
void failure_text(const failure *failure, char *out, size_t size);
/* Sets this thread's last error to the failure; returns the code. */
mr_status failure_raise(const failure *failure);
