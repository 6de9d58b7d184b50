/* snapshot_reader.h — reader of the tables, rows and blocks in a slot snapshot file (snapshot_file.h).
 *
 * Ownership   all results borrow from the bytes of the file. Pure. */
#pragma once
#include "kv/checkpoint/snapshot_file.h"
#include "kv/engine/engine_internal.h"

enum { SNAPSHOT_READER_BLOCK = ENGINE_BLOCK_HEAD + DENSE_TABLE_PIECE_HEAD }; /* bytes of the head of a block */

typedef struct snapshot_reader {
    safetensors list; /* owned */
    uint64_t version; /* of the slot */
    bool has_tables;  /* the slot has an engine */
    bool rounds;      /* the slot has rounds, which `version` counts */
    bool behind;      /* the values are those before the last change: /before, and /undo */
    uint32_t tables;
} snapshot_reader;

typedef struct snapshot_table {
    const char *name;
    table_schema schema;
    uint64_t rows;         /* sparse: rows; vectors: keys; dense: items */
    uint64_t bytes;        /* bytes of values */
    span keys, values;     /* of rows, or of vectors, concatenated */
    span touches, lengths; /* touches of a sparse table: a key has a row if its number is 0; lengths of vectors */
    uint32_t blocks;       /* of a dense table */
    const uint8_t *heads;  /* of the blocks */
    uint32_t index;        /* of the table in this file */
} snapshot_table;

typedef struct snapshot_block { /* a block of a dense table */
    uint32_t array, number, items;
    const char *name; /* of the array */
    span values;
} snapshot_block;

/* Opens a snapshot file. MR_CORRUPT; the error has the cause. A file with one tensor, or without tables, has 0
 * tables. */
MR_MUST mr_status snapshot_reader_open(span file, snapshot_reader *out);
void snapshot_reader_close(snapshot_reader *reader);

/* Reads the description of a table. MR_CORRUPT. */
MR_MUST mr_status snapshot_reader_table(const snapshot_reader *reader, uint32_t index, snapshot_table *out);
/* Of a slot that is behind: the old rows or vectors of the last change, which the caller ends. *made: that change has
 * defined the table. Of another slot: nothing. MR_CORRUPT, MR_NOMEM. */
MR_MUST mr_status snapshot_reader_undo(const snapshot_reader *reader, const snapshot_table *table, undo_log *out,
                                       bool *made);
MR_MUST mr_status snapshot_reader_block(const snapshot_reader *reader, const snapshot_table *table, uint32_t index,
                                        snapshot_block *out);

/* Name of an array of a dense table, with or without blocks in this file; NULL: no such array. Its shape and number of
 * dimensions; false: the file does not have them. */
const char *snapshot_reader_array(const snapshot_reader *reader, const snapshot_table *table, uint32_t array);
bool snapshot_reader_shape(const snapshot_reader *reader, const snapshot_table *table, uint32_t array,
                           uint64_t shape[SAFETENSORS_DIMS_MAX], uint32_t *dims);

/* Data of the tensor with this name (printf format), dtype and number of items (UINT64_MAX: any). Not found: *status
 * becomes MR_CORRUPT (snapshot_reader_wrong), and the data is empty. No-op if *status is not MR_OK. */
span snapshot_reader_find(const snapshot_reader *reader, mr_status *status, safetensors_dtype dtype, uint64_t items,
                          const char *format, ...) __attribute__((format(printf, 5, 6)));
uint32_t snapshot_reader_number(span column, size_t index); /* item of a U32 tensor */
mr_status snapshot_reader_wrong(const char *name); /* MR_CORRUPT: this part of the file is missing or malformed */
safetensors_dtype snapshot_reader_dtype(const table_schema *schema); /* dtype of the stored values */
