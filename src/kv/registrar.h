/* registrar.h — reading and changing the table catalog in the metadata store (ballot.h).
 *
 * Threads  that of the metadata store's loop. */
#pragma once
#include "kv/ballot.h"
#include "kv/catalogue.h"

/* Changes the catalog, or does not. What is not MR_OK is how it ends. It may keep copies of what it sees. */
typedef mr_status catalog_client_edit_fn(void *argument, table_catalog *catalog, bool *changed);

typedef struct catalog_client_ask {
    catalog_client_edit_fn *edit;
    void *argument;
} catalog_client_ask;

cas_update *catalog_client_begin(metadata_store store, catalog_client_ask *ask); /* borrowed until cas_update_end */
