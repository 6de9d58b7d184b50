/* catalog_client.h — reading and changing the table catalog in the metadata store (cas_update.h).
 *
 * Threads  that of the metadata store's loop. */
#pragma once
#include "kv/control/cas_update.h"
#include "kv/control/table_catalog.h"

/* Changes the catalog, or not. A status other than MR_OK ends the update with that status. It may keep copies. */
typedef mr_status catalog_client_edit_fn(void *argument, table_catalog *catalog, bool *changed);

typedef struct catalog_client_ask {
    catalog_client_edit_fn *edit;
    void *argument;
} catalog_client_ask;

cas_update *catalog_client_begin(metadata_store store, catalog_client_ask *ask); /* borrowed until cas_update_end */
