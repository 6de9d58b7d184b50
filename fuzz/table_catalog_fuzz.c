/* table_catalog_fuzz.c — tables as arbitrary bytes: one table, the file of all tables, and the value of release 0.2.0.
 * A table that decodes is encoded to bytes that decode to the same table, and all have unique names and ids and valid
 * schemas. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "fuzz/fuzz.h"
#include "kv/control/catalog_log.h"

static void check_all(table_catalog *catalog) {
    for (size_t i = 0; i < catalog->count; i++) {
        const table_catalog_entry *entry = catalog->entries[i];
        uint32_t id = entry->table.schema.id;
        MR_ASSERT(table_schema_check(&entry->table.schema) == MR_OK && id < table_catalog_next(catalog));
        MR_ASSERT(i == 0 || id > catalog->entries[i - 1]->table.schema.id);
        MR_ASSERT(table_catalog_find(catalog, entry->table.name) == entry);
        MR_ASSERT(table_catalog_by_id(catalog, id) == entry && entry->table.array_count <= MR_PS_ARRAYS_MAX);
    }
    table_catalog_fini(catalog);
}

static void try_table(span bytes) {
    table_catalog_table table, again;
    size_t size;
    if (table_catalog_table_decode(bytes, &table) != MR_OK) return;
    (void)table_catalog_table_items(&table);
    uint8_t *encoded = table_catalog_table_encode(&table, &size); /* longer, with later hyperparameters */
    MR_ASSERT(table_catalog_table_decode(span_of(encoded, size), &again) == MR_OK);
    MR_ASSERT(table_catalog_table_differs(&table, &again) == NULL && again.schema.id == table.schema.id);
    table_catalog_table_fini(&table);
    table_catalog_table_fini(&again);
    free(encoded);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    table_catalog catalog;
    catalog_log_position position = {.next = UINT32_MAX};
    if (size >= 12) memcpy(&position.number, data + 4, sizeof position.number);
    if (size >= 8) memcpy(&position.sum, data + size - 8, sizeof position.sum); /* a seed has its checksum at the end */
    if (size >= 8 && catalog_log_decode(span_of(data, size - 8), &position, &catalog) == MR_OK) check_all(&catalog);
    if (table_catalog_import(span_of(data, size), &catalog) == MR_OK) check_all(&catalog);
    try_table(span_of(data, size));
    return 0;
}
