/* cas_update.h — compare-and-swap loop on one metadata value that other processes change as well.
 *
 *              the value                   changed                         decided
 *   asked ─── get ──────────► edit ────────────────────► compare-and-swap ────────► done
 *     ▲                        └── not changed, or refused ─────────────────────────► done
 *     └── another process was faster, or a timeout ────────────┘
 *
 * An edit is repeated on the newest value, so it must detect that its change was made already. The loop repeats its
 * requests until it is answered or ended; the caller decides how long to wait.
 *
 * Ownership  the key and an edit's argument are borrowed until cas_update_end.
 * Threads  the one that runs the metadata store's event loop. */
#pragma once
#include "cluster/metadata_store.h"

typedef struct cas_update cas_update;

typedef struct cas_update_bytes { /* zero-initialized: unchanged */
    uint8_t *data;                /* from xmalloc; moved */
    size_t size;
} cas_update_bytes;

/* Makes the new value from the current one, which is empty if there is none. A status other than MR_OK ends the loop
 * with that status. */
typedef mr_status cas_update_edit_fn(void *argument, span value, cas_update_bytes *out);

cas_update *cas_update_begin(metadata_store store, const char *key, cas_update_edit_fn *edit, void *argument);
/* MR_BUSY: under way. MR_CLOSED. A failed update also sets the error text. */
mr_status cas_update_status(const cas_update *update);
void cas_update_end(cas_update *update); /* the edit is not called any more */
