/* catalog_client.h — reading and changing the table catalog in the metadata store (cas_update.h).
 *
 * Threads  the one that runs the metadata store's event loop. */
#pragma once
#include "kv/control/cas_update.h"
#include "kv/control/table_catalog.h"

/* Changes the catalog, or leaves it. A status other than MR_OK ends the update with that status. The edit may keep
 * copies. */
typedef mr_status catalog_client_edit_fn(void *argument, table_catalog *catalog, bool *changed);

typedef struct catalog_client_ask {
    catalog_client_edit_fn *edit;
    void *argument;
} catalog_client_ask;

/* `ask` is borrowed until cas_update_end */
cas_update *catalog_client_begin(metadata_store store, catalog_client_ask *ask);
