/* catalog_client.c — see catalog_client.h. */
#include "kv/control/catalog_client.h"

#include "base/alloc.h"

static cas_update_bytes encode(const table_catalog *catalog) {
    cas_update_bytes bytes = {.size = table_catalog_size(catalog)};
    bytes.data = xmalloc(bytes.size);
    writer writer = writer_of(bytes.data, bytes.size);
    table_catalog_encode(catalog, &writer);
    return bytes;
}

static mr_status edit(void *argument, span value, cas_update_bytes *out) {
    const catalog_client_ask *ask = argument;
    table_catalog catalog = {0};
    bool changed = false;
    mr_status status = table_catalog_decode(value, &catalog);
    if (status == MR_OK) status = ask->edit(ask->argument, &catalog, &changed);
    if (status == MR_OK && changed) *out = encode(&catalog);
    table_catalog_fini(&catalog);
    return status;
}

cas_update *catalog_client_begin(metadata_store store, catalog_client_ask *ask) {
    return cas_update_begin(store, TABLE_CATALOG_KEY, edit, ask);
}
