/* registrar.h — reading and changing the table catalog in the metadata store (ballot.h).
 *
 * Ownership   an edit's argument is borrowed until registrar_end. Threads: that of the coordinator's loop. */
#pragma once
#include "cluster/coordinator.h"
#include "kv/catalogue.h"

typedef struct registrar_ask registrar_ask;

/* Changes the catalogue, or does not. What is not MR_OK is how it ends. It may keep copies of what it sees. */
typedef mr_status registrar_edit_fn(void *argument, catalogue *catalogue, bool *changed);

registrar_ask *registrar_begin(coordinator coordinator, registrar_edit_fn *edit, void *argument);
mr_status registrar_status(const registrar_ask *ask); /* MR_BUSY: it is under way; of an error, the text is set too */
void registrar_end(registrar_ask *ask);               /* the edit is not called any more */
