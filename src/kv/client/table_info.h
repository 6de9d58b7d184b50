/* table_info.h — table as a worker needs it to split requests over slots.
 *
 * slot_placement.h maps keys to slots. The blocks of all arrays of a dense table are numbered consecutively and
 * assigned to the slots in turn, starting at a slot derived from the table's id, so that small tables do not all begin
 * with the same slot.
 *
 * Schema sent   A schema precedes the first messages about the table to a slot, in each generation of the deployment,
 *               until the slot is known to have it. table_info_mark has the number of the batch that carried the schema
 *               (slot_queue.h).
 *
 * Ownership   a table_info owns its arrays and marks. Pure. */
#pragma once
#include "kv/control/table_catalog.h"
#include "kv/table/dense_table.h"
#include "ps/cluster_map.h"
#include "ps/slot_placement.h"

typedef struct table_info_array {
    dense_table_plan plan;
    uint64_t first_block; /* index among all blocks of the table */
} table_info_array;

typedef struct table_info_mark { /* the batches and queries to a slot that carried the schema; 0: none */
    uint64_t first, batch;       /* first and last batch */
    uint64_t query;              /* last query */
} table_info_mark;

typedef struct table_info {
    table_catalog_table table;
    uint32_t id;
    bool dropped;
    uint8_t define[TABLE_SCHEMA_SIZE];
    consistency consistency;
    slot_placement_table placement;
    table_info_array *arrays; /* by number */
    uint64_t generation;      /* for which the marks are valid */
    table_info_mark *marks;   /* by slot, from the table's first slot */
} table_info;

/* Copies the table. MR_INVALID: the slots of this cluster map cannot hold it. */
MR_MUST mr_status table_info_init(table_info *table_info, const table_catalog_table *table, const cluster_map *map);
/* Whether the table lies in slots with rounds. */
static inline bool table_info_in_rounds(const table_info *table) { return table->consistency.kind == CONSISTENCY_BSP; }
void table_info_fini(table_info *table);

/* Whether pushes to the table go through a lossy codec. (A codec to the table's own dtype is not lossy.) */
static inline bool table_info_is_lossy(const table_info *table) {
    const table_schema *schema = &table->table.schema;
    codec_id id = schema->codec.id;
    return id != CODEC_NONE && !(id == CODEC_FP16 && schema->dtype == MR_F16) &&
           !(id == CODEC_BF16 && schema->dtype == MR_BF16);
}

uint32_t table_info_block_slot(const table_info *table, uint32_t array, uint32_t block);
/* Mark of the slot in this generation; all marks are zeroed when the generation changes. */
table_info_mark *table_info_mark_of(table_info *table, uint32_t slot, uint64_t generation);
