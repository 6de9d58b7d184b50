/* registrar.h — reading and changing the table catalog in the metadata store (ballot.h).
 *
 * Threads     that of the coordinator's loop. */
#pragma once
#include "kv/ballot.h"
#include "kv/catalogue.h"

/* Changes the catalogue, or does not. What is not MR_OK is how it ends. It may keep copies of what it sees. */
typedef mr_status registrar_edit_fn(void *argument, catalogue *catalogue, bool *changed);

typedef struct registrar_ask {
    registrar_edit_fn *edit;
    void *argument;
} registrar_ask;

ballot *registrar_begin(coordinator coordinator, registrar_ask *ask); /* borrowed until ballot_end */
