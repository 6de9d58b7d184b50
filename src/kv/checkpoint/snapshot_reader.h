/* snapshot_reader.h — reader of the tables, rows and blocks in a slot snapshot file (snapshot_file.h).
 *
 * Ownership   everything borrows from the bytes of the file. Pure. */
#pragma once
#include "kv/checkpoint/snapshot_file.h"
#include "kv/engine/engine_internal.h"

enum { SNAPSHOT_READER_BLOCK = ENGINE_BLOCK_HEAD + DENSE_TABLE_PIECE_HEAD }; /* bytes of the head of a block */

typedef struct snapshot_reader {
    safetensors list; /* owned */
    uint64_t version; /* of the slot */
    bool has_tables;  /* its values are those of an engine */
    bool rounds;      /* it has versions: those of the rounds */
    uint32_t tables;
} snapshot_reader;

typedef struct snapshot_table {
    const char *name;
    table_schema schema;
    uint64_t rows;         /* sparse: rows; vectors: keys; dense: items */
    uint64_t bytes;        /* of values */
    span keys, values;     /* of rows, or of vectors: all of them, one behind the other */
    span touches, lengths; /* of a sparse table: a key has a row if its number is 0; of vectors */
    uint32_t blocks;       /* of a dense table */
    const uint8_t *heads;  /* of the blocks */
    uint32_t index;        /* of the table in this file */
} snapshot_table;

typedef struct snapshot_block { /* of a dense table */
    uint32_t array, number, items;
    const char *name; /* of the array */
    span values;
} snapshot_block;

/* MR_CORRUPT, and the error says what is wrong. A file that is one tensor, or has no tables, shows none. */
MR_MUST mr_status snapshot_reader_open(span file, snapshot_reader *out);
void snapshot_reader_close(snapshot_reader *reader);

/* MR_CORRUPT */
MR_MUST mr_status snapshot_reader_table(const snapshot_reader *reader, uint32_t index, snapshot_table *out);
MR_MUST mr_status snapshot_reader_block(const snapshot_reader *reader, const snapshot_table *table, uint32_t index,
                                        snapshot_block *out);

/* The name of an array of a dense table, whether a block of it is here or not; NULL: there is no such number. Its
 * shape, and how many dimensions; false: the file does not say. */
const char *snapshot_reader_array(const snapshot_reader *reader, const snapshot_table *table, uint32_t array);
bool snapshot_reader_shape(const snapshot_reader *reader, const snapshot_table *table, uint32_t array,
                           uint64_t shape[SAFETENSORS_DIMS_MAX], uint32_t *dims);

/* The data of the tensor of this name (as of printf), dtype and number of items (UINT64_MAX: any). Not found: *status
 * becomes MR_CORRUPT (snapshot_reader_wrong), the data is empty. No-op if *status is not MR_OK. */
span snapshot_reader_find(const snapshot_reader *reader, mr_status *status, safetensors_dtype dtype, uint64_t items,
                          const char *format, ...) __attribute__((format(printf, 5, 6)));
uint32_t snapshot_reader_number(span column, size_t index); /* of a U32 tensor */
mr_status snapshot_reader_wrong(const char *name); /* MR_CORRUPT: this part of a slot's file is missing or wrong */
safetensors_dtype snapshot_reader_dtype(const table_schema *schema); /* of values as they lie in files */
