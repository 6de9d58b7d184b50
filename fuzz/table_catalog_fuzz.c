/* table_catalog_fuzz.c — the table catalog as arbitrary bytes: a catalog that decodes is encoded to the same bytes, and
 * has unique names and ids and valid schemas. */
#include "kv/control/table_catalog.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    table_catalog catalog;
    if (table_catalog_decode(span_of(data, size), &catalog) != MR_OK) return 0;
    for (uint32_t i = 0; i < catalog.count; i++) {
        const table_catalog_table *table = &catalog.tables[i];
        MR_ASSERT(table_schema_check(&table->schema) == MR_OK && table->schema.id < catalog.next);
        MR_ASSERT(i == 0 || table->schema.id > table[-1].schema.id);
        MR_ASSERT(table_catalog_find(&catalog, table->name) == table && table->array_count <= MR_PS_ARRAYS_MAX);
        (void)table_catalog_table_items(table);
    }
    if (size != 0) {
        MR_ASSERT(table_catalog_size(&catalog) == size);
        uint8_t *again = xmalloc(size);
        writer writer = writer_of(again, size);
        table_catalog_encode(&catalog, &writer);
        MR_ASSERT(!writer.failed && memcmp(again, data, size) == 0);
        free(again);
    }
    table_catalog_fini(&catalog);
    return 0;
}
