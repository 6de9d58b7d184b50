/* slots.c — see slots.h. */
#include "tests/support/slots.h"

#include <string.h>

#include "base/assert.h"
#include "kv/shelf/shelf.h"
#include "tests/support/parcels.h"

enum { MORE = 5 };

static void apply(void *shelf, parcel_writer *writer, uint64_t moment) {
    shelf_ops.apply(shelf, parcel_written(writer), moment);
    parcel_fini(writer);
}

static void *filled_shelf(bool keeps) {
    void *shelf = shelf_ops.create(NULL, 0, keeps);
    const uint64_t keys[] = {3, 9, 1000000007};
    const float values[] = {1, 2, 3, 4, 5, 6};
    parcel_writer writer = {0};
    parcels_define(&writer, (definition_options){.id = 1, .dim = 2, .optimizer = "adam"});
    parcels_define(&writer, (definition_options){.id = 2, .kind = DEFINITION_VECTORS});
    parcels_define(&writer,
                   (definition_options){.id = 3, .kind = DEFINITION_DENSE, .block = 4, .optimizer = "momentum"});
    parcels_define(&writer, (definition_options){.id = 4, .dim = 1, .admit = 2});
    apply(shelf, &writer, 1);
    parcels_rows(&writer, PARCEL_ADD_ROWS, 1, keys, 3, values, 2);
    parcels_vector(&writer, PARCEL_ADD_VECTORS, 2, keys[0], values, 1);
    parcels_vector(&writer, PARCEL_ADD_VECTORS, 2, keys[2], values + 1, 5);
    parcels_block(&writer, PARCEL_ADD_BLOCK, 3, (parcel_place){1, 2, 4, 0}, values, 4);
    parcels_rows(&writer, PARCEL_ADD_ROWS, 4, keys, 2, values, 1);
    apply(shelf, &writer, 2);
    parcels_rows(&writer, PARCEL_ADD_ROWS, 4, keys, 1, values, 1); /* that one is admitted */
    apply(shelf, &writer, 3);
    return shelf;
}

bale *slots_shard(span values) {
    size_t head = 16 + SLOTS_RANKS * 8 + MORE;
    bale *bale = bale_new(8 + head + 4 + values.size);
    writer writer = writer_of(bale_room(bale), bale_bytes(bale).size);
    writer_u32(&writer, SLOTS_RANKS);
    writer_u32(&writer, (uint32_t)head);
    writer_u64(&writer, 41);
    writer_u64(&writer, 40);
    for (uint64_t i = 0; i < SLOTS_RANKS; i++) writer_u64(&writer, 100 + i);
    writer_bytes(&writer, "more!", MORE);
    writer_span32(&writer, values);
    MR_ASSERT(!writer.failed && writer_size(&writer) == bale_bytes(bale).size);
    return bale;
}

bale *slots_shard_of_tables(bool keeps) {
    void *shelf = filled_shelf(keeps);
    bale *values = bale_new(shelf_ops.size(shelf));
    shelf_ops.write(shelf, bale_room(values));
    shelf_ops.destroy(shelf);
    bale *shard = slots_shard(bale_bytes(values));
    bale_unref(values);
    return shard;
}

catalogue slots_names(void) {
    const mr_ps_array arrays[] = {{.name = "w", .dims = 1, .shape = {12}}, {.name = "b/1", .dims = 1, .shape = {12}}};
    const mr_ps_table_options options[] = {{.dim = 2, .optimizer = "adam"},
                                           {.kind = MR_PS_VECTORS},
                                           {.kind = MR_PS_DENSE, .arrays = arrays, .array_count = 2}};
    static const char *const texts[] = {"users", "words", "net"};
    catalogue out = {0};
    for (int i = 0; i < 3; i++) {
        catalogue_table table;
        mr_status status = catalogue_table_init(&table, texts[i], &options[i]);
        if (status == MR_OK) status = catalogue_add(&out, &table);
        MR_ASSERT(status == MR_OK);
        catalogue_table_fini(&table);
    }
    return out;
}
