/* cas_update.h — compare-and-swap loop on one metadata value that other processes change as well.
 *
 *              the value                   changed                         decided
 *   asked ─── get ──────────► edit ────────────────────► compare-and-swap ────────► done
 *     ▲                        └── not changed, or refused ─────────────────────────► done
 *     └── another one was faster, or no answer came in time ──┘
 *
 * An edit is made again on whatever is there then; so it looks whether it has happened already. It asks until it is
 * answered, or ended: how long somebody waits is up to the caller.
 *
 * Ownership  the key and an edit's argument are borrowed until cas_update_end.
 * Threads  that of the metadata store's loop. */
#pragma once
#include "cluster/metadata_store.h"

typedef struct cas_update cas_update;

typedef struct cas_update_bytes { /* zeroed: it stays as it is */
    uint8_t *data;                /* from xmalloc; moved */
    size_t size;
} cas_update_bytes;

/* What the value becomes, which is empty if there is none yet. What is not MR_OK is how it ends. */
typedef mr_status cas_update_edit_fn(void *argument, span value, cas_update_bytes *out);

cas_update *cas_update_begin(metadata_store store, const char *key, cas_update_edit_fn *edit, void *argument);
/* MR_BUSY: it is under way. MR_CLOSED. Of an error, the text is set too. */
mr_status cas_update_status(const cas_update *update);
void cas_update_end(cas_update *update); /* the edit is not called any more */
