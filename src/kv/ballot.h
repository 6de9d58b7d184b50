/* ballot.h — compare-and-swap loop on one metadata value that other processes change as well.
 *
 *              the value                   changed                         decided
 *   asked ─── get ──────────► edit ────────────────────► compare-and-swap ────────► done
 *     ▲                        └── not changed, or refused ─────────────────────────► done
 *     └── another one was faster, or no answer came in time ──┘
 *
 * An edit is made again on whatever is there then; so it looks whether it has happened already. It asks until it is
 * answered, or ended: how long somebody waits is up to the caller.
 *
 * Ownership   the key and an edit's argument are borrowed until ballot_end.
 * Threads     that of the coordinator's loop. */
#pragma once
#include "cluster/coordinator.h"

typedef struct ballot ballot;

typedef struct ballot_bytes { /* zeroed: it stays as it is */
    uint8_t *data;            /* from xmalloc; moved */
    size_t size;
} ballot_bytes;

/* What the value becomes, which is empty if there is none yet. What is not MR_OK is how it ends. */
typedef mr_status ballot_edit_fn(void *argument, span value, ballot_bytes *out);

ballot *ballot_begin(coordinator coordinator, const char *key, ballot_edit_fn *edit, void *argument);
/* MR_BUSY: it is under way. MR_CLOSED. Of an error, the text is set too. */
mr_status ballot_status(const ballot *ballot);
void ballot_end(ballot *ballot); /* the edit is not called any more */
