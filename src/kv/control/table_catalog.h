/* table_catalog.h — tables with their options, as bytes and in memory.
 *
 *   bytes    a table
 *   -------  ------------------------------------------------------------------------------------------------
 *   1 + n  name
 *   4 + n  schema (table_schema.h)
 *   1 + n  each of TABLE_CATALOG_TEXTS
 *   4      number of arrays; each: 1 + n name, 1 dims, 8 × dims shape
 *
 * A catalog has all tables as bytes, and finds them by name and by id. An id is never reused, so that a slot's rows of
 * a dropped table are never taken for another table's. An unlisted id below the next id belongs to a dropped table. A
 * table never changes.
 *
 * The texts are the ones from which the schema was made, for display; the schema decides. The consistency is not part
 * of the schema, since slots do not need it. It determines the slots of a table, and what its pulls wait for; it is set
 * when the table is created, and is "" before.
 *
 * Release 0.2.0 stored all tables as one metadata value (table_catalog_import): 4 4 4 TABLE_CATALOG_MAGIC_BEFORE, the
 * next id, number of tables; then the tables, ids ascending.
 *
 * Bounds  TABLE_CATALOG_TABLES_MAX tables, MR_PS_ARRAYS_MAX arrays of a table, TABLE_CATALOG_BYTES_MAX bytes of all
 *         tables together.
 * Ownership   a table owns its arrays, the catalog its entries. Pure. */
#pragma once
#include "base/map.h"
#include "kv/payload/table_schema.h"
#include "kv/table/dense_table.h"
#include "miniray/ps.h"
#include "ps/cluster_map.h"

#define TABLE_CATALOG_MAGIC_BEFORE UINT32_C(0x32544b4d) /* "MKT2": format 2 */
enum { TABLE_CATALOG_TABLES_MAX = 100 * 1000 };
#define TABLE_CATALOG_BYTES_MAX ((size_t)1 << 30)
/* Bytes of one table: MR_PS_ARRAYS_MAX arrays with the longest names and shapes, and the rest. */
#define TABLE_CATALOG_TABLE_MAX ((size_t)MR_PS_ARRAYS_MAX * (2 + MR_PS_NAME_MAX + 8 * MR_TENSOR_DIMS_MAX) + 4096)

#define TABLE_CATALOG_TEXTS(X) X(optimizer) X(schedule) X(initializer) X(compression) X(consistency)

typedef struct table_catalog_array {
    char name[MR_PS_NAME_MAX];
    int dims;
    int64_t shape[MR_TENSOR_DIMS_MAX];
} table_catalog_array;

typedef struct table_catalog_table {
    char name[MR_PS_NAME_MAX];
    table_schema schema; /* with its id */
#define X(text) char text[MR_PS_TEXT_MAX];
    TABLE_CATALOG_TEXTS(X)
#undef X
    table_catalog_array *arrays; /* owned */
    uint32_t array_count;
} table_catalog_table;

typedef struct table_catalog_entry {
    table_catalog_table table; /* without its arrays */
    uint64_t items;            /* of all arrays */
    uint8_t *bytes;            /* owned: the table */
    size_t size;
    struct table_catalog_entry *next_same; /* an entry whose name has the same hash */
} table_catalog_entry;

typedef struct table_catalog {     /* zero-initialized: no tables */
    uint32_t next;                 /* next id; 0 means 1 */
    table_catalog_entry **entries; /* owned; ids ascending */
    size_t count, room;
    size_t bytes; /* of all tables */
    map by_name;  /* by the hash of a name */
} table_catalog;

/* Makes a table with these options and the id 1. MR_INVALID: an option is invalid, and the error names it. */
MR_MUST mr_status table_catalog_table_init(table_catalog_table *table, const char *name,
                                           const mr_ps_table_options *options);
/* Consistency of a table; the cluster map's if the table has none. MR_INVALID: there are no slots for it, and the error
 * names the remedy. */
MR_MUST mr_status table_catalog_table_consistency(const table_catalog_table *table, const cluster_map *map,
                                                  consistency *out);
/* Cuts an array of a table with this schema into blocks, as dense_table_cut. */
MR_MUST mr_status table_catalog_array_cut(const table_catalog_array *array, const table_schema *schema,
                                          dense_table_plan *out);
uint64_t table_catalog_table_items(const table_catalog_table *table); /* sum over the table's arrays */
void table_catalog_table_copy(table_catalog_table *to, const table_catalog_table *from);
void table_catalog_table_fini(table_catalog_table *table);
/* Name of the first difference (static); NULL: they are equal. */
const char *table_catalog_table_differs(const table_catalog_table *a, const table_catalog_table *b);

/* The table as bytes, which the caller frees. */
uint8_t *table_catalog_table_encode(const table_catalog_table *table, size_t *size);
MR_MUST mr_status table_catalog_table_decode(span bytes, table_catalog_table *out); /* MR_CORRUPT */

void table_catalog_fini(table_catalog *catalog);
const table_catalog_entry *table_catalog_find(const table_catalog *catalog, const char *name); /* NULL: not found */
const table_catalog_entry *table_catalog_by_id(const table_catalog *catalog, uint32_t id);     /* NULL: not found */
size_t table_catalog_place(const table_catalog *catalog, uint32_t id); /* index of the first entry from this id on */
uint32_t table_catalog_next(const table_catalog *catalog);             /* id of the next table */

/* Checks that there is room for another table of this size. MR_TOO_LARGE. */
MR_MUST mr_status table_catalog_check_room(const table_catalog *catalog, const char *name, size_t size);
/* Adds a table from its bytes, with its own id, which becomes the newest one. MR_CORRUPT: malformed, or the id or the
 * name is in use. */
MR_MUST mr_status table_catalog_put(table_catalog *catalog, span bytes);
bool table_catalog_remove(table_catalog *catalog, uint32_t id); /* false: not found */

/* Reads the value of release 0.2.0. MR_CORRUPT. */
MR_MUST mr_status table_catalog_import(span value, table_catalog *out);
