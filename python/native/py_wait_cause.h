/* py_wait_cause.h — Ctrl-C during get: KeyboardInterrupt gets a text with the cause of the wait, as the error of a
 * timeout has one. */
#pragma once
#include <time.h>

#include "python/native/py_internal.h"

typedef struct py_wait_begun { /* taken before the wait */
    struct timespec at;
    uint64_t generation; /* of the context in which the wait is */
} py_wait_begun;

py_wait_begun py_wait_cause_begin(void);
/* With the exception of a wait for the object. Another exception than a KeyboardInterrupt without a text stays as it
 * is; so does that of a cancelled task, which nobody reads. */
void py_wait_cause_add(const py_wait_begun *begun, mr_ref ref);
/* The same for another wait, whose cause is known. */
void py_wait_cause_tell(const char *text);
