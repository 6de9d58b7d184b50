/* sheet.h — table as a worker needs it to split requests over slots.
 *
 * Keys lie in slots by placement.h. The blocks of all arrays of a dense table are numbered one after the other, and lie
 * in the slots in turn, from a slot on that the table's id draws: so they lie evenly, and small tables do not all begin
 * with the same slot.
 *
 * What a slot knows   A definition goes in front of the first things that a slot hears of the table, in each generation
 *                     of the deployment, until it is known to be there. A mark is the number of the batch that carried
 *                     it (chute.h).
 *
 * Ownership   it owns its arrays and marks. Pure. */
#pragma once
#include "kv/catalogue.h"
#include "kv/table/dense.h"
#include "ps/chart.h"
#include "ps/placement.h"

typedef struct sheet_array {
    dense_plan plan;
    uint64_t first_block; /* among all blocks of the table */
} sheet_array;

typedef struct sheet_mark { /* which batches and queries carried the definition to a slot; 0: none did */
    uint64_t first, batch;  /* the first batch, and the last */
    uint64_t query;         /* the last query */
} sheet_mark;

typedef struct sheet {
    catalogue_table table;
    uint32_t id;
    bool dropped;
    uint8_t define[DEFINITION_SIZE];
    consistency consistency;
    placement_table placement;
    size_t item, row;    /* bytes of a value; of a row of a sparse table */
    sheet_array *arrays; /* by number */
    uint64_t generation; /* that the marks are of */
    sheet_mark *marks;   /* by slot, from the first one of its own on */
} sheet;

/* The table is copied. MR_INVALID: it cannot lie in slots of this chart. */
MR_MUST mr_status sheet_init(sheet *sheet, const catalogue_table *table, const chart *chart);
/* It lies in slots that have rounds. */
static inline bool sheet_in_rounds(const sheet *sheet) { return sheet->consistency.kind == CONSISTENCY_BSP; }
void sheet_fini(sheet *sheet);

/* Its pushes go through a codec that loses something. (One that gives what the table's dtype has already is none.) */
static inline bool sheet_is_lossy(const sheet *sheet) {
    const definition *definition = &sheet->table.definition;
    codec_id id = definition->codec.id;
    return id != CODEC_NONE && !(id == CODEC_FP16 && definition->dtype == MR_F16) &&
           !(id == CODEC_BF16 && definition->dtype == MR_BF16);
}

uint32_t sheet_block_slot(const sheet *sheet, uint32_t array, uint32_t block);
sheet_mark *sheet_mark_of(sheet *sheet, uint32_t slot, uint64_t generation); /* zeros where it is another one */
