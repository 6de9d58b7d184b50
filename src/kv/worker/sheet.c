/* sheet.c — see sheet.h. */
#include "kv/worker/sheet.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "ps/mix.h"

static mr_status cut_arrays(sheet *sheet) {
    const catalogue_table *table = &sheet->table;
    uint64_t first = 0;
    sheet->arrays = xcalloc(table->array_count + 1, sizeof *sheet->arrays);
    for (uint32_t i = 0; i < table->array_count; i++) {
        dense_options cut = {.dtype = table->definition.dtype,
                             .dims = table->arrays[i].dims,
                             .block = table->definition.block,
                             .init = table->definition.init};
        memcpy(cut.shape, table->arrays[i].shape, sizeof cut.shape);
        MR_TRY(dense_cut(&cut, &sheet->arrays[i].plan));
        sheet->arrays[i].first_block = first;
        first += sheet->arrays[i].plan.blocks;
    }
    return MR_OK;
}

mr_status sheet_init(sheet *sheet, const catalogue_table *table, const chart *chart) {
    const definition *definition = &table->definition;
    consistency consistency;
    MR_TRY(catalogue_table_consistency(table, chart, &consistency));
    uint32_t slots = chart_table_slots(chart), first = chart_first(chart, consistency.kind == CONSISTENCY_BSP);
    *sheet = (struct sheet){.id = definition->id,
                            .consistency = consistency,
                            .placement = {.order = definition->ordered ? PLACEMENT_ORDERED : PLACEMENT_HASHED,
                                          .slots = slots,
                                          .first_slot = first,
                                          .first_key = definition->first_key,
                                          .last = definition->last_key}};
    sheet->item = mr_dtype_size(definition->dtype);
    sheet->row = sheet->item * definition->dim;
    MR_TRY(placement_check(&sheet->placement));
    catalogue_table_copy(&sheet->table, table);
    definition_encode(definition, sheet->define);
    mr_status status = cut_arrays(sheet);
    sheet->marks = xcalloc(slots, sizeof *sheet->marks);
    if (status != MR_OK) sheet_fini(sheet);
    return status;
}

void sheet_fini(sheet *sheet) {
    catalogue_table_fini(&sheet->table);
    free(sheet->arrays);
    free(sheet->marks);
}

uint32_t sheet_block_slot(const sheet *sheet, uint32_t array, uint32_t block) {
    uint32_t slots = sheet->placement.slots;
    uint64_t number = sheet->arrays[array].first_block + block;
    return sheet->placement.first_slot + (uint32_t)((mix(sheet->id) % slots + number) % slots);
}

sheet_mark *sheet_mark_of(sheet *sheet, uint32_t slot, uint64_t generation) {
    if (sheet->generation != generation) memset(sheet->marks, 0, sheet->placement.slots * sizeof *sheet->marks);
    sheet->generation = generation;
    return &sheet->marks[slot - sheet->placement.first_slot];
}
