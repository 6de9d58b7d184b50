/* snapshot_fixture.c — see snapshot_fixture.h. */
#include "tests/support/snapshot_fixture.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "kv/engine/engine.h"
#include "tests/support/payload_builder.h"

enum { MORE = 5 };

static void apply(void *engine, payload_writer *writer, uint64_t moment) {
    engine_ops.apply(engine, payload_written(writer), moment);
    payload_fini(writer);
}

static void *filled_engine(bool keeps) {
    void *engine = engine_ops.create(NULL, 0, keeps);
    const uint64_t keys[] = {3, 9, 1000000007};
    const float values[] = {1, 2, 3, 4, 5, 6};
    payload_writer writer = {0};
    payload_define(&writer, (definition_options){.id = 1, .dim = 2, .optimizer = "adam"});
    payload_define(&writer, (definition_options){.id = 2, .kind = TABLE_SCHEMA_VECTORS});
    payload_define(&writer,
                   (definition_options){.id = 3, .kind = TABLE_SCHEMA_DENSE, .block = 4, .optimizer = "momentum"});
    payload_define(&writer, (definition_options){.id = 4, .dim = 1, .admit = 2});
    apply(engine, &writer, 1);
    payload_rows(&writer, PAYLOAD_ADD_ROWS, 1, keys, 3, values, 2);
    payload_vector(&writer, PAYLOAD_ADD_VECTORS, 2, keys[0], values, 1);
    payload_vector(&writer, PAYLOAD_ADD_VECTORS, 2, keys[2], values + 1, 5);
    payload_block(&writer, PAYLOAD_ADD_BLOCK, 3, (payload_place){1, 2, 4, 0}, values, 4);
    payload_rows(&writer, PAYLOAD_ADD_ROWS, 4, keys, 2, values, 1);
    apply(engine, &writer, 2);
    payload_rows(&writer, PAYLOAD_ADD_ROWS, 4, keys, 1, values, 1); /* the second push admits this key */
    apply(engine, &writer, 3);
    return engine;
}

shared_bytes *snapshot_fixture_shard(span values) {
    size_t head = 16 + SNAPSHOT_FIXTURE_RANKS * 8 + MORE;
    shared_bytes *bytes = shared_bytes_new(8 + head + 4 + values.size);
    writer writer = writer_of(shared_bytes_room(bytes), shared_bytes_bytes(bytes).size);
    writer_u32(&writer, SNAPSHOT_FIXTURE_RANKS);
    writer_u32(&writer, (uint32_t)head);
    writer_u64(&writer, 41);
    writer_u64(&writer, 40);
    for (uint64_t i = 0; i < SNAPSHOT_FIXTURE_RANKS; i++) writer_u64(&writer, 100 + i);
    writer_bytes(&writer, "more!", MORE);
    writer_span32(&writer, values);
    MR_ASSERT(!writer.failed && writer_size(&writer) == shared_bytes_bytes(bytes).size);
    return bytes;
}

shared_bytes *snapshot_fixture_shard_of_tables(bool keeps) {
    void *engine = filled_engine(keeps);
    shared_bytes *values = shared_bytes_new(engine_ops.size(engine));
    engine_ops.write(engine, shared_bytes_room(values));
    engine_ops.destroy(engine);
    shared_bytes *shard = snapshot_fixture_shard(shared_bytes_bytes(values));
    shared_bytes_unref(values);
    return shard;
}

void snapshot_fixture_add(table_catalog *catalog, const table_catalog_table *table) {
    table_catalog_table own = *table;
    size_t size;
    own.schema.id = table_catalog_next(catalog);
    uint8_t *bytes = table_catalog_table_encode(&own, &size);
    mr_status status = table_catalog_put(catalog, span_of(bytes, size));
    MR_ASSERT(status == MR_OK);
    free(bytes);
}

table_catalog snapshot_fixture_names(void) { return snapshot_fixture_names_with("words"); }

table_catalog snapshot_fixture_names_with(const char *second) {
    const mr_ps_array arrays[] = {{.name = "w", .dims = 1, .shape = {12}}, {.name = "b/1", .dims = 1, .shape = {12}}};
    const mr_ps_table_options options[] = {{.dim = 2, .optimizer = "adam"},
                                           {.kind = MR_PS_VECTORS},
                                           {.kind = MR_PS_DENSE, .arrays = arrays, .array_count = 2}};
    const char *const texts[] = {"users", second, "net"};
    table_catalog out = {0};
    for (int i = 0; i < 3; i++) {
        table_catalog_table table;
        mr_status status = table_catalog_table_init(&table, texts[i], &options[i]);
        MR_ASSERT(status == MR_OK);
        snapshot_fixture_add(&out, &table);
        table_catalog_table_fini(&table);
    }
    return out;
}
