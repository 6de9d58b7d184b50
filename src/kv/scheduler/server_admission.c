/* server_admission.c — see server_admission.h. */
#include "kv/scheduler/server_admission.h"

#include "base/error.h"
#include "kv/codec/compress.h"

static mr_status check_table(const table_catalog_table *table, uint32_t available) {
    compressor_id press = table->schema.press;
    if ((available & UINT32_C(1) << press) != 0) return MR_OK;
    return error_set(MR_NOT_FOUND,
                     "this server cannot join: table '%s' is compressed with %s, and %s cannot be loaded here; install "
                     "it, or drop the table",
                     table->name, compressor_name(press), compressor_library(press));
}

uint32_t server_admission_read(span registration) {
    reader reader = reader_of(registration.data, registration.size);
    return reader_u32(&reader) | UINT32_C(1) << COMPRESSOR_STORED;
}

mr_status server_admission_check(const table_catalog *tables, span registration) {
    uint32_t available = server_admission_read(registration);
    mr_status status = MR_OK;
    for (size_t i = 0; status == MR_OK && i < tables->count; i++)
        status = check_table(&tables->entries[i]->table, available);
    return status;
}

mr_status server_admission_check_table(const table_catalog_table *table, const uint32_t *available, size_t count) {
    compressor_id press = table->schema.press;
    for (size_t i = 0; i < count; i++)
        if (available[i] != 0 && (available[i] & UINT32_C(1) << press) == 0)
            return error_set(MR_NOT_FOUND,
                             "compression of table '%s': server %zu cannot load %s, which %s needs; install it there "
                             "and start the server again, or choose another compression",
                             table->name, i, compressor_library(press), compressor_name(press));
    return MR_OK;
}
