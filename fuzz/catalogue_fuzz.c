/* catalogue_fuzz.c — which tables there are, from anywhere: what is read is written with the same bytes, has names and
 * ids once, and definitions that make sense. */
#include "kv/catalogue.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    catalogue catalogue;
    if (catalogue_decode(span_of(data, size), &catalogue) != MR_OK) return 0;
    for (uint32_t i = 0; i < catalogue.count; i++) {
        const catalogue_table *table = &catalogue.tables[i];
        MR_ASSERT(definition_check(&table->definition) == MR_OK && table->definition.id < catalogue.next);
        MR_ASSERT(i == 0 || table->definition.id > table[-1].definition.id);
        MR_ASSERT(catalogue_find(&catalogue, table->name) == table && table->array_count <= MR_PS_ARRAYS_MAX);
        (void)catalogue_table_items(table);
    }
    if (size != 0) {
        MR_ASSERT(catalogue_size(&catalogue) == size);
        uint8_t *again = xmalloc(size);
        writer writer = writer_of(again, size);
        catalogue_encode(&catalogue, &writer);
        MR_ASSERT(!writer.failed && memcmp(again, data, size) == 0);
        free(again);
    }
    catalogue_fini(&catalogue);
    return 0;
}
