/* table_info.c — see table_info.h. */
#include "kv/client/table_info.h"

#include <stdlib.h>

#include "base/alloc.h"

static mr_status cut_arrays(table_info *table_info) {
    const table_catalog_table *table = &table_info->table;
    uint64_t first = 0;
    table_info->arrays = xcalloc(table->array_count + 1, sizeof *table_info->arrays);
    for (uint32_t i = 0; i < table->array_count; i++) {
        MR_TRY(table_catalog_array_cut(&table->arrays[i], &table->schema, &table_info->arrays[i].plan));
        table_info->arrays[i].first_block = first;
        first += table_info->arrays[i].plan.blocks;
    }
    return MR_OK;
}

mr_status table_info_init(table_info *table_info, const table_catalog_table *table, const cluster_map *map) {
    const table_schema *schema = &table->schema;
    consistency consistency;
    MR_TRY(table_catalog_table_consistency(table, map, &consistency));
    uint32_t slots = cluster_map_table_slots(map), first = cluster_map_first(map, consistency.kind == CONSISTENCY_BSP);
    *table_info =
        (struct table_info){.id = schema->id,
                            .consistency = consistency,
                            .placement = {.order = schema->ordered ? SLOT_PLACEMENT_ORDERED : SLOT_PLACEMENT_HASHED,
                                          .slots = slots,
                                          .first_slot = first,
                                          .first_key = schema->first_key,
                                          .last = schema->last_key}};
    MR_TRY(slot_placement_check(&table_info->placement));
    table_catalog_table_copy(&table_info->table, table);
    table_schema_encode(schema, table_info->define);
    mr_status status = cut_arrays(table_info);
    table_info->marks = xcalloc(slots, sizeof *table_info->marks);
    if (status != MR_OK) table_info_fini(table_info);
    return status;
}

void table_info_fini(table_info *table) {
    table_catalog_table_fini(&table->table);
    free(table->arrays);
    free(table->marks);
}

uint32_t table_info_block_slot(const table_info *table, uint32_t array, uint32_t block) {
    uint64_t number = table->arrays[array].first_block + block;
    return table->placement.first_slot + dense_table_slot(table->id, number, table->placement.slots);
}

table_info_mark *table_info_mark_of(table_info *table, uint32_t slot, uint64_t generation) {
    if (table->generation != generation) memset(table->marks, 0, table->placement.slots * sizeof *table->marks);
    table->generation = generation;
    return &table->marks[slot - table->placement.first_slot];
}
