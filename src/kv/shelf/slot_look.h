/* slot_look.h — reader of the tables, rows and blocks in a slot snapshot file (slot_file.h).
 *
 * Ownership   everything borrows from the bytes of the file. Pure. */
#pragma once
#include "kv/shelf/slot_file.h"

typedef struct slot_look {
    safetensors list; /* owned */
    uint64_t version; /* of the slot */
    bool rounds;      /* it has versions: those of the rounds */
    uint32_t tables;
} slot_look;

typedef struct slot_table {
    const char *name;
    definition definition;
    uint64_t rows;         /* of a sparse table those that there are, of vectors the keys, of a dense one items */
    uint64_t bytes;        /* of values */
    span keys, values;     /* of rows, or of vectors: all of them, one behind the other */
    span touches, lengths; /* of a sparse table: a key has a row if its number is 0; of vectors */
    uint32_t blocks;       /* of a dense table */
    const uint8_t *heads;  /* of the blocks */
    uint32_t index;        /* of the table in this file */
} slot_table;

typedef struct slot_block { /* of a dense table */
    uint32_t array, number, items;
    const char *name; /* of the array */
    span values;
} slot_block;

/* MR_CORRUPT, and says what is wrong. A file that is not taken apart, or has no tables, has none to show. */
MR_MUST mr_status slot_look_open(span file, slot_look *out);
void slot_look_close(slot_look *look);

MR_MUST mr_status slot_look_table(const slot_look *look, uint32_t index, slot_table *out); /* MR_CORRUPT */
MR_MUST mr_status slot_look_block(const slot_look *look, const slot_table *table, uint32_t index, slot_block *out);

/* The name of an array of a dense table, whether a block of it is here or not; NULL: there is none of that number. Its
 * shape, and how many dimensions; false: the file does not say. */
const char *slot_look_array(const slot_look *look, const slot_table *table, uint32_t array);
bool slot_look_shape(const slot_look *look, const slot_table *table, uint32_t array,
                     uint64_t shape[SAFETENSORS_DIMS_MAX], uint32_t *dims);

/* The data of a tensor of this dtype; MR_CORRUPT (slot_look_wrong): there is none. */
MR_MUST mr_status slot_look_find(const safetensors *list, const char *name, safetensors_dtype dtype, span *out);
mr_status slot_look_wrong(const char *name); /* MR_CORRUPT: this part of a slot's file is missing or wrong */
safetensors_dtype slot_look_dtype(const definition *definition); /* of values as they lie in files */
