/* table_catalog.h — catalog of all tables: one metadata value, changed by compare-and-swap (catalog_client.h).
 *
 *   bytes    content
 *   -------  ------------------------------------------------------------------------------------------------
 *   4 4 4  TABLE_CATALOG_MAGIC, the next id, number of tables
 *   …    tables, ids ascending: 1 + n name, 4 + n schema (table_schema.h), 1 + n each of TABLE_CATALOG_TEXTS,
 *            4 number of arrays, each: 1 + n name, 1 dims, 8 × dims shape
 *
 * An id is never reused, so that a slot's rows of a dropped table are never taken for another table's. An unlisted id
 * below the next id belongs to a dropped table.
 *
 * The texts are the ones from which the schema was made, for display; the schema decides. The consistency is not part
 * of the schema, since slots do not need it. It determines the slots of a table, and what its pulls wait for; it is set
 * when the table is created, and is "" before.
 *
 * Bounds  TABLE_CATALOG_BYTES_MAX bytes, MR_PS_ARRAYS_MAX arrays of a table.
 * Ownership   a table owns its arrays, the catalog its tables. Pure. */
#pragma once
#include "kv/payload/table_schema.h"
#include "miniray/ps.h"
#include "ps/cluster_map.h"

#define TABLE_CATALOG_KEY   "tables"
#define TABLE_CATALOG_MAGIC UINT32_C(0x32544b4d) /* "MKT2": format 2 */
enum { TABLE_CATALOG_BYTES_MAX = 100 * 1000 };

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

typedef struct table_catalog {   /* zero-initialized: no tables */
    uint32_t next;               /* next id; 0 means 1 */
    table_catalog_table *tables; /* owned */
    uint32_t count;
} table_catalog;

/* Makes a table with these options and the id 1. MR_INVALID: an option is invalid, and the error names it. */
MR_MUST mr_status table_catalog_table_init(table_catalog_table *table, const char *name,
                                           const mr_ps_table_options *options);
/* Consistency of a table; the cluster map's if the table has none. MR_INVALID: there are no slots for it, and the error
 * names the remedy. */
MR_MUST mr_status table_catalog_table_consistency(const table_catalog_table *table, const cluster_map *map,
                                                  consistency *out);
uint64_t table_catalog_table_items(const table_catalog_table *table); /* sum over the table's arrays */
void table_catalog_table_copy(table_catalog_table *to, const table_catalog_table *from);
void table_catalog_table_fini(table_catalog_table *table);
/* Name of the first difference (static); NULL: they are equal. */
const char *table_catalog_table_differs(const table_catalog_table *a, const table_catalog_table *b);

void table_catalog_fini(table_catalog *catalog);
const table_catalog_table *table_catalog_find(const table_catalog *catalog, const char *name); /* NULL: not found */

/* Adds a copy with a new id; no table has its name. MR_TOO_LARGE: the catalog is full. */
MR_MUST mr_status table_catalog_add(table_catalog *catalog, const table_catalog_table *table);
bool table_catalog_remove(table_catalog *catalog, uint32_t id); /* false: not found */

size_t table_catalog_size(const table_catalog *catalog);
void table_catalog_encode(const table_catalog *catalog, writer *writer);
MR_MUST mr_status table_catalog_decode(span bytes, table_catalog *out); /* empty: no tables. MR_CORRUPT */
